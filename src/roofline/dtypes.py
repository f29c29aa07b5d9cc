"""Number formats as they are stored: bytes of n elements, block scales and zero points included."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import UnknownName
from roofline.num import Num, ceil_div


@dataclass(frozen=True, slots=True)
class DType:
    """One way to store a tensor.

    `bits` [bit] an element; each block of `block` = (rows, columns) elements carries `scale_bits`
    [bit] more (its scale and, where the format has one, its zero point). `also` are more of these: rows, columns, bits.
    """

    name: str
    bits: int
    block: tuple[int, int] | None = None
    scale_bits: int = 0
    note: str = ""
    also: tuple[tuple[int, int, int], ...] = ()

    def of(self, elements: Num) -> Num:
        """Bytes of that many elements without block scales (activations, vectors) [byte]."""
        if self.bits.__class__ is int and self.bits % 8 == 0:
            return elements * (self.bits // 8)
        return ceil_div(elements * self.bits, 8)

    def matrix(self, rows: Num, columns: Num) -> Num:
        """Bytes of a stored matrix [rows, columns], scales along the columns included [byte]."""
        stored = self.of(rows * columns)
        if self.block is None:
            return stored
        for high, wide, bits in ((*self.block, self.scale_bits), *self.also):
            stored = stored + ceil_div(ceil_div(rows, high) * ceil_div(columns, wide) * bits, 8)
        return stored


WHOLE = 1 << 62  # a side of a block that no matrix is longer than
STORED = "stored"

_ALL = (
    DType("fp64", 64),
    DType("fp32", 32),
    DType("bf16", 16),
    DType("fp16", 16),
    DType(STORED, 16, note="each weight in the format that the checkpoint's file says, else in 16 bits"),
    DType("fp8", 8, note="one byte, per-tensor scale not counted"),
    DType("fp8-block128", 8, (128, 128), 32, note="one FP32 scale a 128x128 block"),
    DType("mxfp8", 8, (1, 32), 8, note="one E8M0 scale per 32 elements (OCP MX 1.0)"),
    DType("int8", 8, note="one byte, scales not counted"),
    DType("fp6", 6, note="six bits, scales not counted"),
    DType("mxfp6", 6, (1, 32), 8, note="one E8M0 scale per 32 elements (OCP MX 1.0)"),
    DType("fp4", 4, note="half a byte, scales not counted"),
    DType("mxfp4", 4, (1, 32), 8, note="one E8M0 scale per 32 elements (OCP MX 1.0)"),
    DType("nvfp4", 4, (1, 16), 8, note="one FP8 scale per 16 elements"),
    DType("int4", 4, note="half a byte, scales not counted"),
    DType("int4-g32", 4, (1, 32), 20, note="FP16 scale and 4-bit zero point per 32 elements"),
    DType("int4-g64", 4, (1, 64), 20, note="FP16 scale and 4-bit zero point per 64 elements"),
    DType("int4-g128", 4, (1, 128), 20, note="FP16 scale and 4-bit zero point per 128 elements"),
)
DTYPES = {each.name: each for each in _ALL}
# Those that any tensor may have; what a checkpoint stores is no format of its own.
FORMATS = {name: each for name, each in DTYPES.items() if name != STORED}


_OFFERED = ("fp8", "int4")  # what engines quantise weights and caches to, the larger first


def smaller(name: str | DType) -> tuple[str, ...]:
    """Formats of fewer bits than this one that engines offer, the largest first."""
    return tuple(each for each in _OFFERED if DTYPES[each].bits < dtype(name).bits)


def dtype(name: str | DType) -> DType:
    """The number format of that name; raises UnknownName with the known ones."""
    if isinstance(name, DType):
        return name
    found = DTYPES.get(str(name).lower())
    if found is None:
        raise UnknownName.of("dtype", name, DTYPES)
    return found
