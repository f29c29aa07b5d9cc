"""A model: parts, each repeated over a number of layers; its parameters, cache and kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.cost import Work
from roofline.dtypes import DType, dtype
from roofline.errors import BadValue
from roofline.num import Num, exact_div, same
from roofline.pairs import positions
from roofline.parts.base import VECTORS, Kernel, Part, Pass
from roofline.parts.encoder import CrossAttention, Encoder
from roofline.parts.tower import Tower
from roofline.shard import Shard
from roofline.workload import Precision, Rows

if TYPE_CHECKING:
    from roofline.checkpoints.tensors import Checkpoint
    from roofline.device import Device

LONG = 131_072  # tokens of a long sequence, at which windows and compression show


class Repeat(NamedTuple):
    """A part and the number of times that a pass goes through one like it."""

    times: int
    part: Part


class Block(NamedTuple):
    """The parts of one kind of layer in their order, and which layers are of that kind (from 0).

    `stored`: the formats of their weights in the checkpoint, by part and name, where its file says one.
    """

    parts: tuple[Part, ...]
    layers: tuple[int, ...]
    stored: tuple[tuple[str, DType], ...] = ()


class Cached(NamedTuple):
    """A kind of attention by what it sees, how many layers have it, and its parts with their times."""

    sort: str
    layers: int
    parts: tuple[tuple[int, Part], ...]

    def bytes(self, held: Num, precision: Precision, shard: Shard) -> Num:
        """Bytes that a sequence of `held` positions keeps in these layers of one rank [byte]."""
        kv = dtype(precision.kv)
        total: Num = 0
        for times, part in self.parts:
            total = total + times * part.cache_bytes(held, kv, shard)
        return total

    def bytes_per_token(self, precision: Precision, shard: Shard) -> Num:
        """Bytes that one more token adds before any window is full, on average where several are one entry [byte].

        A state of fixed size adds nothing.
        """
        stretch = max((getattr(part, "stretch", 1) for _, part in self.parts), default=1)
        grown = self.bytes(stretch, precision, shard) - self.bytes(0, precision, shard)
        return exact_div(grown, stretch)


class Counted(NamedTuple):
    """A kernel and the number of times that a pass calls it."""

    calls: int
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Parameters:
    """Exact parameter counts.

    `total` of everything that is counted (tied embeddings once); `active` of what one token goes through, the token
    table included (published figures differ in that: `active_without_embedding` leaves an untied table out);
    `embedding` is the token table; `experts` are those of routed experts; `text` and `vision` split the total,
    `vision` is None where there is a tower that is not counted. `vision_apart` is a tower that is in no other count, as
    the family's causal language model is the text model alone. `prediction` is the layers that predict further
    tokens, which are in no other count; None where they are not counted.
    """

    total: int
    active: int
    active_without_embedding: int
    text: int
    vision: int | None
    embedding: int
    experts: int
    prediction: int | None
    vision_apart: int


@dataclass(frozen=True, slots=True)
class Model:
    """A network: parts before the layers, blocks of layers, parts after them, in the order of a pass.

    `assumptions` name what the config left open; `max_positions` is what it was trained to [tokens]. `apart` are
    parts that a pass does not go through, as layers that predict further tokens; `uncounted` names what the config
    has beside the text model and these, which is not counted ("vision", "prediction", "audio", "beside"). `tower`
    reads images; it is in a pass only where the pass has some. `stored`: the formats of the parts around the layers.
    `encoder` reads the sources that layers attend to across. `unit`: what a row is where each sees every other, as
    "token" or "patch", so that nothing is decoded; "" where the layers are causal. `checkpoint`: what its
    headers say, where they were read.
    """

    name: str
    before: tuple[Part, ...]
    blocks: tuple[Block, ...]
    after: tuple[Part, ...] = ()
    max_positions: int | None = None
    assumptions: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    apart: tuple[Repeat, ...] = ()
    uncounted: tuple[str, ...] = ()
    tower: Tower | None = None
    stored: tuple[tuple[str, DType], ...] = ()
    encoder: Encoder | None = None
    unit: str = ""
    checkpoint: Checkpoint | None = None

    @staticmethod
    def load(name: str | PathLike[str] | Mapping[str, Any]) -> Model:
        """The model of that name, Hugging Face id, folder, config.json or dict of one.

        Raises UnknownName for a name that is not found, ConfigError for a config that does not decide.
        """
        from roofline.catalogue import load_model

        return load_model(name)

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return sum(len(block.layers) for block in self.blocks)

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """Every part with the number of layers that have it, in the order of a pass."""
        own = self.encoder.repeats if self.encoder else ()
        return (
            *(Repeat(*each) for each in own),
            *(Repeat(1, part) for part in self.before),
            *(Repeat(len(block.layers), part) for block in self.blocks for part in block.parts),
            *(Repeat(1, part) for part in self.after),
        )

    @property
    def quantised(self) -> bool:
        """Whether the checkpoint's file says formats of its weights."""
        return bool(self.stored) or any(block.stored for block in self.blocks)

    @property
    def small(self) -> bool:
        """Whether the checkpoint has weights of fewer than 16 bits."""
        pairs = (*self.stored, *(pair for block in self.blocks for pair in block.stored))
        return any(form.bits < 16 for _, form in pairs)

    @property
    def sites(self) -> Iterator[tuple[int, Part, Mapping[str, DType]]]:
        """The same, each with the formats that its weights are stored in."""
        yield from ((times, part, {}) for times, part in (self.encoder.repeats if self.encoder else ()))
        yield from self._decoded

    @property
    def _decoded(self) -> Iterator[tuple[int, Part, Mapping[str, DType]]]:
        """The same without the encoder."""
        ends = dict(self.stored)
        yield from ((1, part, ends) for part in self.before)
        for block in self.blocks:
            formats = dict(block.stored)
            yield from ((len(block.layers), part, formats) for part in block.parts)
        yield from ((1, part, ends) for part in self.after)

    def parameters(self) -> Parameters:
        """Exact counts of the stored parameters."""
        total = active = embedding = experts = 0
        for count, part in self.repeats:
            for each in part.weights():
                total += count * each.parameters
                active += count * each.active
                embedding += count * each.parameters if each.kind == "table" else 0
                experts += count * each.parameters if each.experts else 0
        looked_up = 0 if self.tied else embedding
        seen = self.tower.parameters if self.tower else 0
        apart = seen if self.tower and self.tower.apart else 0
        vision = None if "vision" in self.uncounted else seen - apart
        further = sum(count * each.parameters for count, part in self.apart for each in part.weights())
        prediction = None if "prediction" in self.uncounted else further
        whole = total + (vision or 0)
        return Parameters(whole, active, active - looked_up, total, vision, embedding, experts, prediction, apart)

    @property
    def tied(self) -> bool:
        """Whether the output head streams the token table."""
        return any(getattr(part, "tied", False) for part in self.after)

    def suited(self, device: Device, precision: Precision) -> tuple[Model, Precision]:
        """The model and the formats as a device runs them: the same, but for one that depends on a device's rates."""
        return self, precision

    def kernels(self, run: Pass) -> list[Counted]:
        """The kernels of a pass in order, each with its calls; equal ones of different layers are one row.

        Raises BadValue for images without a vision tower that is counted.
        """
        rows = self._seen(run) if run.images else []
        rows += (Counted(*each) for each in (self.encoder.kernels(run) if self.encoder else ()))
        rows += (
            Counted(times, kernel)
            for times, part, formats in self._decoded
            for kernel in part.kernels(run.storing(formats))
        )
        return rows if len({kernel.name for _, kernel in rows}) == len(rows) else _merged(rows)

    def reading(self, source: Num) -> Model:
        """The same model over sources of so many positions; raises BadValue for one without an encoder."""
        if self.encoder is None:
            raise BadValue(f"{self.name} has no encoder, so that it reads no source. Leave it out.")
        if self.encoder.fixed and not same(source, self.encoder.source):
            raise BadValue(
                f"The encoder of {self.name} always gives {self.encoder.source} positions, whatever the input. "
                "Leave the source out."
            )

        def read(part: Part) -> Part:
            return part.reading(source) if isinstance(part, CrossAttention) else part

        blocks = tuple(block._replace(parts=tuple(read(part) for part in block.parts)) for block in self.blocks)
        return replace(self, encoder=self.encoder.reading(source), blocks=blocks)

    def _seen(self, run: Pass) -> list[Counted]:
        """The kernels of the vision tower."""
        if self.tower is None:
            why = "is not counted" if "vision" in self.uncounted else "is not there"
            raise BadValue(f"The vision tower of {self.name} {why}, so that it reads no images. Leave them out.")
        return [Counted(times, kernel) for times, kernel in self.tower.kernels(run)]

    def weight_bytes(self, precision: Precision, shard: Shard, images: bool = False) -> Num:
        """Bytes of the weights that one rank stores [byte].

        A vision tower is whole on each; one that is `apart` is there where the pass has `images`.
        """
        total: Num = 0
        for count, part, formats in self.sites:
            for each in part.weights():
                found = formats.get(f"{part.label}.{each.name}")
                total = total + count * each.bytes(precision, shard, found, formats.get(VECTORS))
        for count, part in self.tower.repeats if self.tower and (images or not self.tower.apart) else ():
            for each in part.weights():
                total = total + count * each.bytes(precision, shard)
        return total

    def cache_bytes(self, held: Num, precision: Precision, shard: Shard) -> Num:
        """Bytes of KV cache that one rank keeps for a sequence of `held` positions [byte]."""
        kv = dtype(precision.kv)
        total: Num = 0
        for times, part in self.repeats:
            total = total + times * part.cache_bytes(held, kv, shard)
        return total

    def caches(self) -> list[Cached]:
        """What a sequence caches, by kind of layer, in the order of their first layers."""
        found: dict[str, list[tuple[int, Part]]] = {}
        for times, part, _ in self._decoded:
            sort = getattr(part, "sort", None)
            if sort is not None:
                found.setdefault(sort, []).append((times, part))
        return [Cached(sort, sum(times for times, _ in parts), tuple(parts)) for sort, parts in found.items()]

    def cache_bytes_per_token(self, precision: Precision, shard: Shard) -> Num:
        """Bytes that one more token adds to the cache before any window is full [byte].

        Where several tokens become one entry, on average over them.
        """
        parts = tuple((times, part) for times, part in self.repeats)
        return Cached("", 0, parts).bytes_per_token(precision, shard)

    def resident_cache(self, rows: Rows, precision: Precision, shard: Shard) -> Num:
        """Bytes of KV cache of a group of rows after its pass [byte]."""
        return rows.sequences * self.cache_bytes(positions(rows.new, rows.behind), precision, shard)


def _merged(rows: list[Counted]) -> list[Counted]:
    """Rows of one name and equal work as one row, where the first of them stood."""
    merged: list[Counted] = []
    for row in rows:
        for index, (calls, kernel) in enumerate(merged):
            if kernel.name == row.kernel.name and _same(kernel.work, row.kernel.work):
                merged[index] = Counted(calls + row.calls, kernel)
                break
        else:
            merged.append(row)
    return merged


def _same(a: Work, b: Work) -> bool:
    """Whether two pieces of work are equal; arrays are where they are the same array."""
    pairs: list[tuple[Num | None, Num | None]] = [(a.dims.get(key), each) for key, each in b.dims.items()]
    pairs.append((a.cost.memory.get("weights"), b.cost.memory.get("weights")))
    return a.op == b.op and len(a.dims) == len(b.dims) and all(same(x, y) for x, y in pairs)
