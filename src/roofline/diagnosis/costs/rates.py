"""At which rate a kernel counts: by the format of its operands and by what its name says of the units."""

from __future__ import annotations

import re

from roofline.diagnosis.costs.call import Call
from roofline.dtypes import DType

_VECTOR_UNITS = re.compile(
    r"(?<!f16_)sgemm(?!.*(tf32|tensorop|1688|884))|simt|ffma|scudnn(?!.*winograd)|gemv|dot_kernel", re.I
)
_TF32 = re.compile(r"tf32|tensorop_s\d|(?<![fh])s1688(?!.*(f16|bf16))|xf32", re.I)
_MATRIX_FP32 = re.compile(r"Cijk|mfma|xdl", re.I)

# The rates that a format may run at, where nothing else is known.
_OF = {
    "fp16": ("fp16", "fp16-vector", "fp32-vector"),
    "bf16": ("bf16", "bf16-vector", "fp32-vector"),
    "fp8": ("fp8",),
    "int8": ("int8",),
    "uint8": ("int8",),
    "fp4": ("fp4",),
    "fp64": ("fp64", "fp64-vector"),
    "fp32": ("tf32", "fp32", "fp32-vector"),
}


def candidates(dtype: DType, kernel: str) -> tuple[str, ...]:
    """The rates at which a matrix kernel of this format may run, the fastest first; none for other formats."""
    if dtype.name != "fp32":
        return _OF.get(dtype.name, ())
    if _TF32.search(kernel):
        return ("tf32",)
    if _VECTOR_UNITS.search(kernel):
        return ("fp32-vector", "fp32")
    if _MATRIX_FP32.search(kernel):
        return ("fp32", "fp32-vector")
    return _OF["fp32"]


def rate(call: Call, dtype: DType) -> str | None:
    """The fastest rate that the kernel may run at on its device, so that the bound stays one; None for none."""
    ways = candidates(dtype, call.kernel)
    there = [each for each in ways if call.peaks is None or each in call.peaks]
    return (there or list(ways) or [None])[0]


def on_vector_units(kernel: str) -> bool:
    """Whether the name of a matrix kernel says that it leaves the tensor cores idle."""
    return bool(_VECTOR_UNITS.search(kernel)) and not _TF32.search(kernel)
