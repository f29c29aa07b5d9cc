"""A model: parts, each repeated over a number of layers; its parameters, cache and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

from roofline.cost import Work
from roofline.dtypes import dtype
from roofline.num import Num
from roofline.ops import positions
from roofline.parts.base import Kernel, Part, Pass
from roofline.shard import Shard
from roofline.workload import Precision, Rows


class Repeat(NamedTuple):
    """A part and the number of times that a pass goes through one like it."""

    times: int
    part: Part


class Block(NamedTuple):
    """The parts of one kind of layer in their order, and which layers are of that kind (from 0)."""

    parts: tuple[Part, ...]
    layers: tuple[int, ...]


class Counted(NamedTuple):
    """A kernel and the number of times that a pass calls it."""

    calls: int
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Parameters:
    """Exact parameter counts.

    `total` of everything stored (tied embeddings once); `active` of what one token goes through;
    `embedding` is the token table; `experts` are those of routed experts; `text` and `vision` split the total.
    """

    total: int
    active: int
    text: int
    vision: int
    embedding: int
    experts: int


@dataclass(frozen=True, slots=True)
class Model:
    """A network: parts before the layers, blocks of layers, parts after them, in the order of a pass.

    `assumptions` name what the config left open; `max_positions` is what it was trained to [tokens].
    """

    name: str
    before: tuple[Part, ...]
    blocks: tuple[Block, ...]
    after: tuple[Part, ...] = ()
    max_positions: int | None = None
    assumptions: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

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
        return (
            *(Repeat(1, part) for part in self.before),
            *(Repeat(len(block.layers), part) for block in self.blocks for part in block.parts),
            *(Repeat(1, part) for part in self.after),
        )

    def parameters(self) -> Parameters:
        """Exact counts of the stored parameters."""
        total = embedding = 0
        for count, part in self.repeats:
            for each in part.weights():
                total += count * each.parameters
                embedding += count * each.parameters if each.kind == "table" else 0
        return Parameters(total, total, total, 0, embedding, 0)

    def kernels(self, run: Pass) -> list[Counted]:
        """The kernels of a pass in order, each with its calls; equal ones of different layers are one row."""
        rows = [Counted(times, kernel) for times, part in self.repeats for kernel in part.kernels(run)]
        return rows if len({kernel.name for _, kernel in rows}) == len(rows) else _merged(rows)

    def weight_bytes(self, precision: Precision, shard: Shard) -> Num:
        """Bytes of the weights that one rank stores [byte]."""
        total: Num = 0
        for count, part in self.repeats:
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
    plain = (int, float, type(None))
    equal = (x is y or (isinstance(x, plain) and isinstance(y, plain) and x == y) for x, y in pairs)
    return a.op == b.op and len(a.dims) == len(b.dims) and all(equal)
