"""What a checkpoint's headers say of a model's weights: each matrix in the format and the bytes that are stored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from roofline.checkpoints.tensors import Checkpoint, Tensor, part_of
from roofline.dtypes import STORED, WHOLE, DType
from roofline.model import Block, Model
from roofline.modules import inner
from roofline.parts.base import VECTORS, Part, Weight
from roofline.shard import Shard
from roofline.workload import Precision

_LAYER = re.compile(r"(?:^|.*\.)(?:layers|blk|blocks|h)\.(\d{1,6})\.(.+)", re.DOTALL)
# What a module stores under its name: its numbers, and what belongs to them.
_KIND = re.compile(
    r"(?P<module>.+?)(?:\.(?P<kind>weight(?:[._].+)?|bias|qweight|qzeros|scales?|g_idx|SCB"
    r"|(?:input|output|[kqv](?:_proj)?)_(?:global_)?scale(?:_inv)?)"
    r"|_(?P<fused>blocks|scales|bias|scale|scale_inv|weight_scale(?:_\w+)?|packed))?",
    re.DOTALL,
)
_EXPERT = re.compile(r"\bexperts\.(\d+)\.")
# Weights around the layers: ours by part and name, and the last words of theirs.
_ENDS = {
    "embedding.embed_tokens": (
        *("embed_tokens", "wte", "word_embeddings", "embed_in", "tok_embeddings", "embeddings", "embedding"),
        "token_embd",
    ),
    "embedding.embed_positions": ("embed_positions", "wpe", "position_embeddings", "position_embd"),
    "head.lm_head": ("lm_head", "embed_out", "output"),
    "hyper_connection.hyper_head": ("hc_fn", "hc_head_fn"),
    "layer_inputs.layer_inputs_proj": ("per_layer_model_projection", "per_layer_model_proj"),
    "layer_inputs.layer_inputs_table": ("embed_tokens_per_layer", "per_layer_token_embd"),
}
_HEAD, _TABLE = "head.lm_head", "embedding.embed_tokens"
# Vectors that are often in another format than norms, by the last words of their names.
_VECTORS = {
    "correction": ("e_score_correction_bias", "exp_probs_b", "expert_bias", "moe_statics"),
    "sinks": ("sinks", "attn_sinks"),
    "A_log": ("A_log", "ssm_a"),
    "D": ("D", "ssm_d"),
    "dt_bias": ("dt_bias", "ssm_dt"),
    "conv1d": ("conv1d", "ssm_conv1d"),
    "recurrent_norm": ("norm", "ssm_norm"),
}
_OUTSIDE = ("vision", "audio", "prediction")  # parts of a checkpoint that are no layer of the text model
_MOST_PACKED, _PACKS = 8, ("int", "uint")  # bits of a number that shares an element with others, and in what

Key = tuple[int | None, str]


class _Held(NamedTuple):
    """The tensors of one module of a layer (None: around them): under the numbers of its experts, where it has any."""

    experts: dict[str, list[Tensor]]

    @property
    def tensors(self) -> list[Tensor]:
        return [each for part in self.experts.values() for each in part]


@dataclass(frozen=True, slots=True)
class _Site:
    """A part of a layer, and what its weights are to be looked for under."""

    part: Part
    layer: int | None

    def places(self, weight: Weight) -> Iterator[str]:
        key = f"{self.part.label}.{weight.name}"
        if self.layer is None:
            yield from _ENDS.get(key, (weight.name,))
            return
        yield from inner(weight.name, self.part.label)
        if weight.kind == "vector":
            yield from _VECTORS.get(weight.name, ())


def stored(checkpoint: Checkpoint, model: Model) -> Model:
    """The model with each weight in the format that the checkpoint stores it in, and notes of what does not agree."""
    held = _indexed(checkpoint)
    vectors = _vectors(checkpoint)
    absent: list[str] = []
    blocks = [split for block in model.blocks for split in _split(block, held, vectors, absent)]
    ends: dict[str, DType] = dict(vectors)
    for part in (*model.before, *model.after):
        ends |= _formats(_Site(part, None), held, absent)
    if model.tied and _TABLE in ends:
        ends[_HEAD] = ends[_TABLE]
    found = replace(model, blocks=tuple(blocks), stored=tuple(ends.items()), checkpoint=checkpoint)
    forms = {form.name for pairs in (ends.items(), *(each.stored for each in blocks)) for _, form in pairs}
    if forms <= {"bf16", "fp16"} and not absent:  # as every weight is counted anyway
        whole = replace(model, checkpoint=checkpoint)
        return replace(whole, assumptions=(*model.assumptions, *_notes(checkpoint, found, absent)))
    return replace(found, assumptions=(*model.assumptions, *_notes(checkpoint, found, absent)))


def _indexed(checkpoint: Checkpoint) -> dict[Key, _Held]:
    """Tensors by layer and module; around the layers by the module's last word."""
    found: dict[Key, _Held] = {}
    for tensor in checkpoint.tensors:
        if part_of(tensor.name) in _OUTSIDE:
            continue
        module = _module(tensor.name)
        layer = _LAYER.fullmatch(module)
        key: Key = (int(layer[1]), layer[2]) if layer else (None, module.rpartition(".")[2])
        expert = _EXPERT.search(key[1])
        if expert is not None:
            key = key[0], key[1].replace(expert[0], "experts.0.", 1)
        held = found.setdefault(key, _Held({}))
        held.experts.setdefault(expert[1] if expert else "", []).append(tensor)
    return found


def _module(name: str) -> str:
    """The module that a tensor belongs to."""
    found = _KIND.fullmatch(name)
    return name if found is None else found["module"]


def _vectors(checkpoint: Checkpoint) -> dict[str, DType]:
    """The format of norms and biases: that of most numbers of one dimension."""
    sums: dict[DType, int] = {}
    for each in checkpoint.tensors:
        if len(each.shape) == 1 and each.name.endswith(("weight", "bias")) and part_of(each.name) not in _OUTSIDE:
            sums[each.format] = sums.get(each.format, 0) + each.elements
    return {VECTORS: max(sums, key=lambda form: sums[form])} if sums else {}


def _split(block: Block, held: Mapping[Key, _Held], vectors: Mapping[str, DType], absent: list[str]) -> list[Block]:
    """The block as one for each way in which its layers are stored."""
    kinds: dict[tuple[tuple[str, DType], ...], list[int]] = {}
    for layer in block.layers:
        formats = dict(vectors)
        for part in block.parts:
            formats |= _formats(_Site(part, layer), held, absent)
        kinds.setdefault(tuple(formats.items()), []).append(layer)
    return [Block(block.parts, tuple(layers), key) for key, layers in kinds.items()]


def _formats(site: _Site, held: Mapping[Key, _Held], absent: list[str]) -> dict[str, DType]:
    """The formats of a part's weights, by part and name; what no header has is noted as absent."""
    weights = site.part.weights()
    there = {each.name: _place(site, each, held) for each in weights}
    found: dict[str, DType] = {}
    for each in weights:
        place = there[each.name]
        form = None
        if place is not None:
            sharing = [other for other in weights if there[other.name] == place and other.kind == each.kind]
            form = _form(each, sharing, [held[key] for key in place])
        if form is not None:
            found[f"{site.part.label}.{each.name}"] = form
        elif each.inp is not None:
            at = "" if site.layer is None else f" of layer {site.layer:,}"
            absent.append(f"{each.name}{at}")
    return found


def _place(site: _Site, weight: Weight, held: Mapping[Key, _Held]) -> tuple[Key, ...] | None:
    """Under which keys a weight is stored: one, or several that make it together."""
    for each in site.places(weight):
        keys = tuple((site.layer, part) for part in each.split(" + "))
        if all(key in held for key in keys):
            return keys
    return None


def _form(weight: Weight, sharing: list[Weight], held: list[_Held]) -> DType | None:
    """The format of one weight of those that share these modules; None where the lengths are not the model's."""
    if weight.inp is None:
        tensors = [each for module in held for each in module.tensors]
        return tensors[0].format if len({each.format for each in tensors}) == 1 else None
    apart = [group for module in held for group in module.experts.values()]
    copies = 1 if weight.experts is None else weight.experts.size
    if weight.experts is not None and "" not in held[0].experts:  # a module for each expert
        if len(apart) != copies * len(held):
            return None
        copies = 1
    rows = sum(each.out.elements for each in sharing)
    columns = weight.inp.elements
    forms = {_derived(copies, rows, columns, [each for each in group if not _bias(each)]) for group in apart}
    if len(held) > 1:  # several modules make one matrix
        return _alike([each for group in apart for each in group], rows * columns)
    if len(forms) == 1:
        return forms.pop()
    return None if None in forms else _average(apart, rows * columns)


def _bias(tensor: Tensor) -> bool:
    return tensor.name.endswith(("bias", "_bias"))


def _alike(tensors: list[Tensor], elements: int) -> DType | None:
    """The one format of tensors that hold so many numbers together."""
    forms = {each.format for each in tensors}
    return forms.pop() if len(forms) == 1 and sum(each.elements for each in tensors) == elements else None


def _average(groups: list[list[Tensor]], elements: int) -> DType:
    """What the experts of a layer take on average, where they are not stored alike."""
    each = math.ceil(sum(8 * t.bytes for group in groups for t in group if not _bias(t)) / len(groups))
    bits = each // elements
    return DType("several formats", bits, (WHOLE, WHOLE), each - bits * elements)


def _derived(copies: int, rows: int, columns: int, tensors: list[Tensor]) -> DType | None:
    """The format of a matrix, of which `copies` are stored together, by the tensors that it is stored as."""
    if not tensors or not rows * columns:
        return None
    main = max(tensors, key=lambda each: each.bytes)
    beside = [each for each in tensors if each is not main]
    count = copies * rows * columns
    if main.format.block is not None:
        return main.format if main.elements == count and not beside else None
    bits, rest = divmod(8 * main.bytes, count)
    plain = main.elements == count
    if not plain and (rest or not 0 < bits <= _MOST_PACKED or not main.format.name.startswith(_PACKS)):
        return None
    name = main.format.name if plain else f"{bits} bits packed in {main.format.name}"
    if not beside:
        return main.format if plain else DType(name, bits)
    return _with_scales(name, bits, (copies, rows, columns), beside)


def _with_scales(name: str, bits: int, lengths: tuple[int, int, int], beside: list[Tensor]) -> DType:
    """The same with what stands beside the numbers: a grid of scales, zero points, an index."""
    copies, rows, columns = lengths
    grids: list[tuple[int, int, int]] = []
    for each in sorted(beside, key=lambda each: ("zero" in each.name, -each.bytes)):
        grids.append(_grid(each, copies, rows, columns, grids))
    high, wide, _ = grids[0]
    if high * wide < rows * columns:
        side = "row" if (high, wide) == (1, WHOLE) else f"{high} x {wide}" if high > 1 else f"{wide}"
        name = f"{name}, scales a {side}" if side == "row" else f"{name}, scales for each {side}"
    return DType(name, bits, grids[0][:2], grids[0][2], also=tuple(grids[1:]))


def _grid(
    tensor: Tensor, copies: int, rows: int, columns: int, before: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """Rows and columns that share an entry of a tensor beside a matrix, and its bits."""
    total = 8 * tensor.bytes
    count, rest = divmod(tensor.elements, copies)
    if not rest and count:
        bits = tensor.format.bits
        if count == 1:
            return WHOLE, WHOLE, bits
        if "zero" in tensor.name and before:  # packed as the numbers are: as many as scales
            high, wide, _ = before[0]
            each, rest = divmod(total // copies, -(-rows // high) * -(-columns // wide))
            if not rest:
                return high, wide, each
        for high, wide in _sides(tensor.shape, count, rows, columns):
            if -(-rows // high) * -(-columns // wide) == count:
                return high, wide, bits
    return WHOLE, WHOLE, -(-total // copies)


def _sides(shape: tuple[int, ...], count: int, rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """How many rows and columns may share one of `count` entries, the surest first."""
    if len(shape) > 1:
        across, along = shape[-2:]
        swapped = along == rows != across  # some store scales with the rows of the matrix as their columns
        for high, wide in ((along, across), (across, along)) if swapped else ((across, along), (along, across)):
            if high and wide:
                yield _shared(high, rows), _shared(wide, columns)
    if count == rows:
        yield 1, WHOLE
    if count == columns:
        yield WHOLE, 1
    group, rest = divmod(rows * columns, count)  # blocks that run through the matrix row by row
    if not rest and group and (columns % group == 0 or group % columns == 0):
        yield (1, group) if columns % group == 0 else (group // columns, WHOLE)


def _shared(count: int, length: int) -> int:
    """How many of a side share one of `count` entries: a power of two where one does, as blocks have."""
    if count == 1:
        return WHOLE
    even = 1 << max((length // count - 1).bit_length(), 0)
    return even if -(-length // even) == count else -(-length // count)


def _notes(checkpoint: Checkpoint, model: Model, absent: list[str]) -> Iterator[str]:
    """What was read, how much of it is counted, and what does not agree."""
    files = f"{len(checkpoint.files):,} file{'' if len(checkpoint.files) == 1 else 's'}"
    size = checkpoint.bytes
    counted = cast(int, model.weight_bytes(Precision(STORED), Shard()))
    read = f"The headers of {files} say how the weights are stored: {len(checkpoint.tensors):,} tensors, {size:,} bytes"
    listed = ", ".join(f"{count:,} parameters in {name}" for name, count in _counts(model).items())
    yield f"{read}; {listed}"
    if absent:
        few = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
        yield (
            f"{len(absent):,} matrices of the model are in no header, or have other lengths there ({few}): counted at "
            "16 bits"
        )
    if counted != size:
        outside = _outside(checkpoint, model.layers)
        known = ", ".join(f"{name} {moved:,}" for name, moved in outside.items())
        yield (
            f"The model counts {counted:,} of the {size:,} bytes that are stored, {counted - size:+,}"
            + (f"; of what is stored, {known} bytes are of other parts" if known else "")
        )


def _outside(checkpoint: Checkpoint, layers: int) -> dict[str, int]:
    """Bytes of what is no part of the layers that are counted [byte]."""
    found: dict[str, int] = {}
    for each in checkpoint.tensors:
        part, layer = part_of(each.name), _LAYER.fullmatch(each.name)
        if part not in (*_OUTSIDE, "other") and (layer is None or int(layer[1]) < layers):
            continue
        name = part if part in _OUTSIDE or layer is None or int(layer[1]) < layers else "further layers"
        found[name] = found.get(name, 0) + each.bytes
    return found


def _counts(model: Model) -> dict[str, int]:
    """Parameters by the format that they are stored in."""
    counts: dict[str, int] = {}
    for times, part, formats in model.sites:
        for each in part.weights():
            form = formats.get(f"{part.label}.{each.name}", formats.get(VECTORS) if each.inp is None else None)
            name = "16 bits" if form is None else form.name
            counts[name] = counts.get(name, 0) + times * each.parameters
    return counts


def elements(checkpoint: Checkpoint) -> int:
    """Numbers of the text model that a GGUF file holds, without tables of rotations and corrections of a router."""
    beside = re.compile(r"(^|\.)(rope_\w+|attn_rot_embd|exp_probs_b)\.\w+$")
    held = (each for each in checkpoint.tensors if not beside.search(each.name))
    return sum(each.elements for each in held if part_of(each.name) not in _OUTSIDE)
