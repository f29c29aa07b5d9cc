"""The formats of GGUF tensors: how many elements a block has, and how many bytes it takes.

Source: ggml's block structures (`ggml-common.h`) and list of types (`ggml.h`), as of format version 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.dtypes import DTYPES, DType


def _blocks(name: str, bits: int, elements: int, size: int) -> DType:
    """A format of `size` bytes for each block of so many elements of a row, of which `bits` each are the numbers."""
    return DType(name, bits, (1, elements), 8 * size - bits * elements)


# By the number that a file has; the bits are those of a number, what a block has beside them is its scales.
FORMATS: Mapping[int, DType] = {
    0: DTYPES["fp32"],
    1: DTYPES["fp16"],
    2: _blocks("q4_0", 4, 32, 18),
    3: _blocks("q4_1", 4, 32, 20),
    6: _blocks("q5_0", 5, 32, 22),
    7: _blocks("q5_1", 5, 32, 24),
    8: _blocks("q8_0", 8, 32, 34),
    9: _blocks("q8_1", 8, 32, 36),
    10: _blocks("q2_K", 2, 256, 84),
    11: _blocks("q3_K", 3, 256, 110),
    12: _blocks("q4_K", 4, 256, 144),
    13: _blocks("q5_K", 5, 256, 176),
    14: _blocks("q6_K", 6, 256, 210),
    15: _blocks("q8_K", 8, 256, 292),
    16: _blocks("iq2_xxs", 2, 256, 66),
    17: _blocks("iq2_xs", 2, 256, 74),
    18: _blocks("iq3_xxs", 3, 256, 98),
    19: _blocks("iq1_s", 1, 256, 50),
    20: _blocks("iq4_nl", 4, 32, 18),
    21: _blocks("iq3_s", 3, 256, 110),
    22: _blocks("iq2_s", 2, 256, 82),
    23: _blocks("iq4_xs", 4, 256, 136),
    24: DType("int8", 8),
    25: DType("int16", 16),
    26: DType("int32", 32),
    27: DType("int64", 64),
    28: DTYPES["fp64"],
    29: _blocks("iq1_m", 1, 256, 56),
    30: DTYPES["bf16"],
    # Rows of q4_0 and iq4_nl woven together, as files of 2024 had them.
    **{number: _blocks(f"q4_0_{way}", 4, 32, 18) for number, way in ((31, "4_4"), (32, "4_8"), (33, "8_8"))},
    34: _blocks("tq1_0", 1, 256, 54),
    35: _blocks("tq2_0", 2, 256, 66),
    **{number: _blocks(f"iq4_nl_{way}", 4, 32, 18) for number, way in ((36, "4_4"), (37, "4_8"), (38, "8_8"))},
    39: _blocks("mxfp4", 4, 32, 17),
    40: _blocks("nvfp4", 4, 64, 36),
    41: _blocks("q1_0", 1, 128, 18),
}
