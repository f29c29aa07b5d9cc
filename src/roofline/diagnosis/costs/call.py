"""One recorded call of an operator: its tensors and its arguments, as far as the file holds them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from roofline.dtypes import DTYPES, DType

_MOST = 1 << 50  # elements: what is larger is in no device's memory, and no size

# Formats by the names that profilers give them.
_TYPES = {
    "float": DTYPES["fp32"],
    "double": DTYPES["fp64"],
    "c10::half": DTYPES["fp16"],
    "half": DTYPES["fp16"],
    "c10::bfloat16": DTYPES["bf16"],
    "bfloat16": DTYPES["bf16"],
    "signed char": DTYPES["int8"],
    "char": DTYPES["int8"],
    "unsigned char": DType("uint8", 8),
    "bool": DType("bool", 8),
    "short": DType("int16", 16),
    "short int": DType("int16", 16),
    "int": DType("int32", 32),
    "long": DType("int64", 64),
    "long int": DType("int64", 64),
    "long long": DType("int64", 64),
    "unsigned short": DType("uint16", 16),
    "unsigned int": DType("uint32", 32),
    "unsigned long": DType("uint64", 64),
    "c10::complex<float>": DType("complex64", 64),
    "c10::complex<double>": DType("complex128", 128),
}
_PAIR = DType("fp4x2", 8)  # a byte of two numbers, which is one element of a tensor
BOOL, INT64 = _TYPES["bool"], _TYPES["long"]

# Formats by the words of a kernel's name, the surest first. Those of 16 bits stand before those of 32, as a kernel
# of a small format often counts in FP32.
_BY_KERNEL = (
    (re.compile(r"nvjet_(?:sm\d+_)?ts|bfloat16|(?<![a-z0-9])bf16", re.IGNORECASE), DTYPES["bf16"]),  # cuBLAS: t
    (re.compile(r"nvjet_(?:sm\d+_)?hs", re.IGNORECASE), DTYPES["fp16"]),
    (
        re.compile(r"\bhalf\b|c10::half|(?<![a-z0-9])[fh]p?16(?![0-9])|(?<![a-z])h884|hgemm", re.IGNORECASE),
        DTYPES["fp16"],
    ),
    (re.compile(r"\bdouble\b|dgemm(?!\w*grad)", re.IGNORECASE), DTYPES["fp64"]),
    (re.compile(r"\bfloat\b|sgemm|scudnn|(?<![a-z])f?p?32f?|_SB_", re.IGNORECASE), DTYPES["fp32"]),
    (re.compile(r"<\s*long\b|\blong\b,"), _TYPES["long"]),
    (re.compile(r"<\s*int\b"), _TYPES["int"]),
    (re.compile(r"<\s*bool\b"), _TYPES["bool"]),
)
# Formats by the last word of a collective's name, as ncclKernel_AllReduce_RING_LL_Sum_half(...).
_COLLECTIVE = re.compile(
    r"nccl.*_(half|bfloat16|bf16|f16|float|f32|double|f64|u?int8_t|[iu]8|f8e4m3|f8e5m2)(?=[_(]|$)", re.I
)
_WORDS = {
    **dict.fromkeys(("half", "f16"), DTYPES["fp16"]),
    **dict.fromkeys(("bfloat16", "bf16"), DTYPES["bf16"]),
    **dict.fromkeys(("float", "f32"), DTYPES["fp32"]),
    **dict.fromkeys(("double", "f64"), DTYPES["fp64"]),
    **dict.fromkeys(("f8e4m3", "f8e5m2"), DTYPES["fp8"]),
}
_OPAQUE = re.compile(r"OpaqueType<\(?(?:unsigned int\))?(\d{1,2})u?>")


def stored(name: str) -> DType | None:
    """The format that a profiler calls `name`; None for what is no tensor or not known."""
    known = _TYPES.get(name.lower())
    if known is not None:
        return known
    if name.lower().startswith("c10::float4"):
        return _PAIR
    return DTYPES["fp8"] if name.lower().startswith("c10::float8") else None


@lru_cache(1 << 14)
def format_of(kernel: str) -> DType | None:
    """The format of what a kernel works on, as its name tells it; None where it does not."""
    if opaque := _OPAQUE.search(kernel):
        return DType(f"{opaque[1]} bytes", 8 * int(opaque[1]))
    if word := _COLLECTIVE.search(kernel):
        return _WORDS.get(word[1].lower(), DTYPES["int8"])
    return next((found for pattern, found in _BY_KERNEL if pattern.search(kernel)), None)


class Tensor(NamedTuple):
    """A tensor of a call: its lengths, its format, and its strides [element] where they are recorded."""

    dims: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()

    @property
    def n(self) -> int:
        """Elements."""
        return math.prod(self.dims)

    @property
    def distinct(self) -> int:
        """Elements in memory: along a dimension that is expanded, of stride 0, there is but one."""
        if len(self.strides) != len(self.dims):
            return self.n
        return math.prod(size for size, stride in zip(self.dims, self.strides, strict=True) if stride or not size)

    def like(self, *dims: int) -> Tensor:
        """A tensor of these lengths in the same format."""
        return Tensor(dims, self.dtype)


class Lengths(NamedTuple):
    """What a server's annotation says of the pass that a call belongs to, all its requests together.

    `pairs` are of query and key under a causal mask; `positions` those attended to; None where it does not say.
    """

    context_tokens: int
    context_positions: int
    context_pairs: int
    generation_tokens: int
    generation_positions: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call. Arguments are counted as the operator declares them, from 0.

    `kernel` is the name of the kernel that it is costed for; `peaks` are the rates of the device, None where it is
    not known; `outer` is the call around it, where that has shapes; `output` are the lengths of what it returns, where
    another call of the same file tells them; `lengths` those of the pass of a server; `cache` the format of its cache.
    """

    name: str
    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    strides: tuple[Any, ...] = ()
    concrete: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    kernel: str = ""
    peaks: frozenset[str] | None = None
    outer: Call | None = None
    output: tuple[int, ...] = ()
    lengths: Lengths | None = None
    cache: DType | None = None

    def tensor(self, at: int) -> Tensor | None:
        """The tensor at this place; None where there is none, or its lengths or format are not known."""
        if not 0 <= at < len(self.dims):
            return None
        return self._tensor(self.dims[at], _at(self.types, at), _at(self.strides, at))

    def tensors(self, *places: int) -> tuple[Tensor, ...] | None:
        """The tensors at these places; None where one of them is missing."""
        found = [self.tensor(at) for at in places]
        return None if None in found else cast("tuple[Tensor, ...]", tuple(found))

    def list(self, at: int) -> tuple[Tensor, ...]:
        """The tensors of a list at this place, whose format only the kernel's name tells."""
        if not 0 <= at < len(self.dims) or not _nested(self.dims[at]):
            return ()
        strides: Any = _at(self.strides, at)
        rows: Sequence[Any] = strides if _nested(strides) and len(strides) == len(self.dims[at]) else ()
        found = [self._tensor(each, "", _at(rows, i)) for i, each in enumerate(self.dims[at])]
        return tuple(each for each in found if each is not None)

    def every(self) -> tuple[Tensor, ...]:
        """All tensors of the call, lists taken apart, in order."""
        return tuple(each for at in range(len(self.dims)) for each in self._each(at))

    def _each(self, at: int) -> Iterator[Tensor]:
        if _nested(self.dims[at]):
            yield from self.list(at)
        elif (found := self.tensor(at)) is not None:
            yield found

    def places(self) -> tuple[int, ...]:
        """The places of tensors."""
        return tuple(at for at in range(len(self.dims)) if not _nested(self.dims[at]) and self.tensor(at) is not None)

    def _tensor(self, dims: Any, kind: Any, strides: Any) -> Tensor | None:
        sizes = _sizes(dims)
        if sizes is None:
            return None
        dtype = stored(kind) if isinstance(kind, str) else None
        if dtype is None and (sizes or kind in _TYPES) and kind not in ("Scalar", "ScalarList"):
            dtype = format_of(self.kernel)
        if dtype is None or (not sizes and not kind):
            return None
        steps = _sizes(strides)
        return Tensor(sizes, dtype, steps if steps is not None and len(steps) == len(sizes) else ())

    def text(self, at: int) -> str:
        """The argument at this place as it is written; "" where it is not recorded."""
        return _at(self.concrete, at) or ""

    def flag(self, at: int) -> bool | None:
        """A boolean; None where it is not recorded."""
        return {"true": True, "1": True, "false": False, "0": False}.get(self.text(at).lower())

    def whole(self, at: int) -> int | None:
        """A whole number; None where it is not recorded."""
        text = self.text(at)
        return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None

    def wholes(self, at: int) -> tuple[int, ...] | None:
        """A list of whole numbers; None where it is not recorded."""
        text = self.text(at)
        if not re.fullmatch(r"[\[(][-\d,\s]*[\])]", text) or len(text) > 400:
            return None
        return tuple(int(each) for each in re.findall(r"-?\d{1,15}", text))

    def flags(self, at: int) -> tuple[bool, ...] | None:
        """A list of booleans; None where it is not recorded."""
        text = self.text(at)
        return tuple(each == "True" for each in re.findall(r"True|False", text)) if text.startswith("[") else None


def _at(values: Sequence[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def _nested(dims: Any) -> bool:
    """Whether dims are those of a list of tensors."""
    return isinstance(dims, list) and bool(cast("list[Any]", dims)) and isinstance(dims[0], list)


def _sizes(dims: Any) -> tuple[int, ...] | None:
    if not isinstance(dims, list):
        return None
    sizes = cast("list[Any]", dims)
    if not all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < _MOST for each in sizes):
        return None
    return tuple(sizes) if math.prod(sizes) < _MOST else None


def read(name: str, detail: bytes, kernel: str = "", peaks: frozenset[str] | None = None) -> Call:
    """The call of an operator from its detail as the trace holds it."""
    try:
        found: Any = json.loads(detail)
    except (ValueError, RecursionError):
        found = {}
    known = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    texts = ("types", "concrete")
    parts = {key: _row(known.pop(key, ())) for key in ("dims", "types", "strides", "concrete")}
    plain = {key: tuple(each if isinstance(each, str) else "" for each in parts[key]) for key in texts}
    return Call(
        name, parts["dims"], plain["types"], parts["strides"], plain["concrete"], known, kernel=kernel, peaks=peaks
    )


def _row(value: Any) -> tuple[Any, ...]:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else ()
