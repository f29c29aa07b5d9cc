"""A dispatched operator of PyTorch as the call that a profiler would have recorded, and what else is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from roofline.diagnosis.costs.call import Call, Tensor
from roofline.diagnosis.costs.call import stored as format_named

# Formats as profilers name them, by PyTorch's own names.
_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
# The words of a kernel's name by which the table tells the format of a list of tensors.
_IN_LISTS = {"long": "<long", "int": "<int", "bool": "<bool"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Operators that only say where numbers are, or how many there will be.
FREE = _words("""detach alias lift_fresh lift _unsafe_view _reshape_alias empty empty_like empty_strided new_empty
new_empty_strided empty_permuted resize_ set_ device is_same_size sym_size sym_stride sym_numel sym_storage_offset
sym_is_contiguous _version size stride numel dim is_contiguous requires_grad_ retain_grad record_stream
_assert_async _assert_tensor_metadata _nested_tensor_size unsafe_split unsafe_split_with_sizes unsafe_chunk""")
# Operators that move or make numbers, and count none.
_SIMPLE = _words("""clone _to_copy copy_ copy cat stack fill_ fill zero_ zero zeros ones full eye arange linspace
scalar_tensor zeros_like ones_like full_like new_zeros new_ones new_full rand randn rand_like randn_like randint
randperm bernoulli bernoulli_ normal_ uniform_ random_ exponential_ index _unsafe_index index_put index_put_
_index_put_impl_ index_copy index_copy_ masked_fill masked_fill_ masked_select masked_scatter where tril triu
tril_ triu_ flip roll repeat constant_pad_nd slice_backward select_backward diagonal_backward slice_scatter
select_scatter as_strided_scatter unfold_backward nonzero one_hot tril_indices triu_indices narrow_copy
im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d replication_pad1d
replication_pad2d""")
_PICKS = frozenset(("index", "_unsafe_index"))
# What is written without being read before, though the operator has it as an argument.
_OVERWRITES = _words("copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_")
# Where the table finds the shape of a convolution's output, which is known here.
_CONVOLUTION, _STRIDE = "convolution", 3
_FLASH = "_scaled_dot_product_flash_attention"
GROUPED = "_grouped_mm"
_MASKS = frozenset(("attn_mask", "attn_bias", "bias"))


class Dispatched(NamedTuple):
    """An operator with its arguments as its schema names them, and what it returned."""

    name: str  # without name space and overload
    space: str
    tags: frozenset[str]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    returned: tuple[Any, ...]
    writes: tuple[bool, ...]  # which of the arguments it changes
    views: bool  # whether what it returns is an argument, seen otherwise


def dispatched(function: Any, args: Sequence[Any], keywords: dict[str, Any], result: Any, kind: type) -> Dispatched:
    """What PyTorch dispatched; `kind` is the class of its tensors."""
    schema = function._schema
    space, _, name = str(schema.name).partition("::")
    names = tuple(str(each.name) for each in schema.arguments)
    values = [each.default_value if each.has_default_value() else None for each in schema.arguments]
    for at, value in enumerate(args):
        values[at] = value
    for at, each in enumerate(names):
        if each in keywords:
            values[at] = keywords[each]
    alias = [each.alias_info for each in schema.arguments]
    views = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    return Dispatched(
        name,
        space,
        frozenset(str(each).rpartition(".")[2] for each in function.tags),
        names,
        tuple(values),
        tuple(each for each in flat([result]) if isinstance(each, kind)),
        tuple(each is not None and bool(each.is_write) for each in alias),
        views,
    )


def flat(values: Iterable[Any]) -> Iterable[Any]:
    """Every value, lists taken apart."""
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from flat(cast("Iterable[Any]", each))
        else:
            yield each


def tensor(of: Any) -> Tensor | None:
    """A tensor of PyTorch by its lengths, its format and its strides; None for a format that is not known."""
    form = format_named(_kind(of))
    return None if form is None else Tensor(tuple(of.shape), form, tuple(of.stride()))


def _kind(of: Any) -> str:
    name = str(of.dtype).rpartition(".")[2]
    return "c10::Float8" if name.startswith("float8") else _NAMES.get(name, name)


def call(each: Dispatched, kind: type) -> Call:
    """The operator as a profiler records it."""
    values, name = list(each.values), each.name
    if name == f"{_FLASH}_for_cpu_backward":  # (dy, q, k, v, y, logsumexp, dropout, is_causal): two lengths fewer
        values = [*values[:6], None, None, None, None, *values[6:8]]
        name = f"{_FLASH}_backward"
    if name == GROUPED and all(len(getattr(one, "shape", ())) == 2 for one in values[:2]):
        name, values = "mm", values[:2]  # as many FLOPs as one product of all rows
    dims: list[Any] = []
    types: list[str] = []
    strides: list[Any] = []
    concrete: list[str] = []
    lists = ""
    for value in values:
        one: Any = value if isinstance(value, kind) else None
        several = _tensors(value, kind)
        if one is not None:
            cells = list[Any](one.shape), _kind(one), list[Any](one.stride()), ""
        elif several:
            cells = [list[Any](a.shape) for a in several], "TensorList", [list[Any](a.stride()) for a in several], ""
            lists = _IN_LISTS.get(_kind(several[0]), _kind(several[0]))
        else:
            cells = list[Any](), _plain(value), list[Any](), "" if value is None else str(value)
        dims.append(cells[0])
        types.append(cells[1])
        strides.append(cells[2])
        concrete.append(cells[3])
    output: tuple[int, ...] = ()
    if name == _CONVOLUTION and each.returned:
        output, concrete[_STRIDE] = tuple(each.returned[0].shape), ""
    return Call(
        f"{each.space}::{name}",
        tuple(dims),
        tuple(types),
        tuple(strides),
        tuple(concrete),
        kernel=lists,
        output=output,
    )


def _tensors(value: Any, kind: type) -> list[Any]:
    """The tensors of a list; none where it is no list of tensors."""
    listed = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()
    return [each for each in listed if isinstance(each, kind)]


def _plain(value: Any) -> str:
    """What a profiler calls the type of an argument that is no tensor."""
    if value is None:
        return ""
    return "ScalarList" if isinstance(value, (list, tuple)) else "Scalar"


class Moved(NamedTuple):
    """Tensors that an operator reads and writes, each once; `masks` are those of an attention."""

    read: tuple[Any, ...]
    written: tuple[Any, ...]
    masks: tuple[Any, ...] = ()


def moved(each: Dispatched, kind: type) -> Moved:
    """What an operator reads and writes, as its schema says."""
    read: list[Any] = []
    written: list[Any] = []
    masks: list[Any] = []
    for name, value, changed in zip(each.names, each.values, each.writes, strict=True):
        for one in flat([value]):
            if not isinstance(one, kind):
                continue
            if not (changed and (each.name in _OVERWRITES or name.startswith("out"))):
                read.append(one)
            if changed:
                written.append(one)
            if name in _MASKS and "attention" in each.name:
                masks.append(one)
    if each.name in _PICKS and each.returned:  # of the first, as many as are picked
        read = [each.returned[0], *read[1:]]
    fresh = [one for one in each.returned if not any(one is other for other in written)]
    numbers = [one for one in read if one.dim()] or read
    return Moved(_once(numbers), _once([*written, *fresh]), _once(masks))


def _once(tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Each tensor once, however often it stands among them."""
    found: dict[Any, Any] = {}
    for each in tensors:
        key = (each.untyped_storage()._cdata, each.storage_offset(), tuple(each.shape), tuple(each.stride()))
        found.setdefault(key, each)
    return tuple(found.values())


def simple(each: Dispatched) -> bool:
    """Whether an operator counts nothing: it moves numbers, or makes them of none."""
    return each.name in _SIMPLE


def whole(each: Dispatched) -> bool:
    """Whether an operator reads all of its tensors and writes all of what it returns, once each."""
    reduces = "reduction" in each.tags and not each.name.endswith("backward")
    return each.name in _SIMPLE or "pointwise" in each.tags or reduces


def free(each: Dispatched, kind: type) -> bool:
    """Whether an operator moves nothing: a view, an allocation, a question about lengths, a move between devices."""
    if each.name in FREE or each.views or "inplace_view" in each.tags or not each.returned:
        return True
    if each.name != "_to_copy":
        return False
    x, y = each.values[0], each.returned[0]
    return isinstance(x, kind) and (x.dtype, x.stride()) == (y.dtype, y.stride())  # pyright: ignore
