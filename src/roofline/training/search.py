"""The best plan for a cluster: every plan that divides, evaluated at once, and the Pareto set of time and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from roofline.errors import BadValue, ShardError
from roofline.shard import MOST_RANKS, Shard
from roofline.training.conventions import check_causal
from roofline.training.plan import NEAR, STAGES, Plan, check_axes, experts_of, no_stage
from roofline.training.recipe import Recompute
from roofline.training.stages import too_many
from roofline.training.train import Setting, Step, step
from roofline.units import gib, percent, si

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RECOMPUTE = ("none", "selective", "full")
_FIELDS = ("dp", "pp", "cp", "ep", "zero", "micro_batch", "accumulate", "chunks")
MOST_PLANS = 2_000_000


@dataclass(frozen=True, slots=True)
class Pins:
    """Axes of a search that stay at one value; None: every value that divides."""

    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    zero: int | None = None
    micro_batch: int | None = None
    accumulate: int | None = None
    chunks: int | None = None
    recompute: str | None = None

    def of(self, axis: str, values: Iterable[int]) -> list[int]:
        """Those of an axis' values that stay."""
        only = getattr(self, axis)
        return list(values) if only is None else [each for each in values if each == only]

    @property
    def words(self) -> str:
        """` with tp 8, zero 3`; nothing where nothing is pinned."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        listed = [f"{name.replace('_', '-')} {value}" for name, value in given.items() if value is not None]
        return f" with {', '.join(listed)}" if listed else ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan that fits: its step's time and the bytes that its fullest rank holds."""

    plan: Plan
    recompute: str
    seconds: float
    memory_bytes: float
    exposed_seconds: float
    bubble_share: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The plans of a cluster: how many were looked at, which are best, and why the others are not.

    `best` is the fastest that fits, None where none does; `pareto` those that nothing is both faster and smaller
    than, fastest first; `refused` counts the rest by reason.
    """

    looked_at: int
    fitting: int
    best: Candidate | None
    pareto: tuple[Candidate, ...]
    refused: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Plans of one `tp`, as arrays of one length, and how each reason refused others."""

    tp: int
    columns: dict[str, Any]

    @property
    def size(self) -> int:
        return len(self.columns["dp"])


def search(setting: Setting, gpus: int, global_batch: int, *, pins: Pins | None = None, most: int = 16) -> Found:
    """Every plan of `gpus` devices for that global batch, on the setting's cluster and recipe.

    Looks at dp, tp, pp, cp, ep, chunks, ZeRO stage, micro-batch and recomputation, but for those that `pins` hold;
    the schedule and HSDP groups are those of the setting's plan, tensor ranks split the norms too. At most `most` of
    the Pareto set are returned. Raises BadValue for a batch that is no whole number of sequences, ShardError where
    nothing divides.
    """
    pins = Pins() if pins is None else pins
    if pins.zero is not None and pins.zero not in STAGES:
        raise no_stage(pins.zero)
    if setting.length < 1 or global_batch < setting.length or global_batch % setting.length:
        raise BadValue(
            f"A global batch of {global_batch:,} tokens is no whole number of sequences of {setting.length:,} tokens."
        )
    if setting.cluster.domain is not None and gpus > setting.cluster.domain and setting.cluster.network is None:
        raise BadValue(
            f"{gpus:,} GPUs reach past the {setting.cluster.domain} of one node, and the network between nodes is not "
            "known. Give its bandwidth (--network-busbw)."
        )
    check_causal(setting.model)
    refused: Counter[str] = Counter()
    grids = list(_grids(setting, gpus, global_batch // setting.length, pins, refused))
    recomputed = RECOMPUTE if pins.recompute is None else (pins.recompute,)
    total = sum(grid.size for grid in grids) * len(recomputed)
    if not total:
        reasons = _together(refused) or f"no tp divides {gpus:,} GPUs"
        raise ShardError(f"No plan of {gpus:,} GPUs{pins.words} divides the model and its batch: {reasons}.")
    if total > MOST_PLANS:
        raise BadValue(f"{total:,} plans are too many to look at. Possible: {MOST_PLANS:,}; fix some of them.")
    kept: list[tuple[_Grid, str, dict[str, Array]]] = []
    for grid in grids:
        for name in recomputed:
            kept.append((grid, name, _evaluated(setting, grid, name)))
    return _chosen(kept, setting, total, refused, most)


def _grids(setting: Setting, gpus: int, sequences: int, pins: Pins, refused: Counter[str]) -> Iterator[_Grid]:
    """All plans that divide, one grid for each number of tensor ranks."""
    import numpy as np

    for tp in (each for each in pins.of("tp", _divisors(gpus)) if each <= MOST_RANKS):
        try:
            check_axes(setting.model, Shard(tp))
        except ShardError:
            refused[f"tp {tp}: heads, widths or vocabulary do not divide"] += 1
            continue
        rows = list(_plans(setting, gpus // tp, sequences, pins))
        if rows:
            columns = np.array(rows, float).T
            yield _Grid(tp, dict(zip(_FIELDS, columns, strict=True)))
        else:
            refused[f"tp {tp}: no pp, dp and micro-batch are left that divide GPUs and batch"] += 1


def _together(refused: Iterable[str]) -> str:
    """Reasons against tensor ranks, each once with all the ranks that it is against."""
    ranks: dict[str, list[str]] = {}
    for each in refused:
        name, _, reason = each.partition(": ")
        ranks.setdefault(reason, []).append(name.removeprefix("tp "))
    return "; ".join(f"tp {', '.join(names)}: {reason}" for reason, names in ranks.items())


def _plans(setting: Setting, ranks: int, sequences: int, pins: Pins) -> Iterator[tuple[int, ...]]:
    """(dp, pp, cp, ep, zero, micro-batch, accumulate, chunks) of every plan of `ranks` beside the tensor ranks."""
    layers, experts = setting.model.layers, max(experts_of(setting.model), 1)
    for dp, pp, cp in _splits(setting, ranks, pins):
        if sequences % dp:
            continue
        spreads = pins.of("ep", (each for each in _divisors(experts) if dp * cp % each == 0))
        stages = pins.of("zero", STAGES if dp * cp > 1 or pins.zero is not None else (0,))
        for micro in pins.of("micro_batch", _divisors(sequences // dp)):
            for times in pins.of("accumulate", (sequences // dp // micro,)):
                for chunks in _chunks(pp, times, pins):
                    if not too_many(layers, pp, chunks):
                        for ep, zero in product(spreads, stages):
                            yield dp, pp, cp, ep, zero, micro, times, chunks


def _splits(setting: Setting, ranks: int, pins: Pins) -> Iterator[tuple[int, int, int]]:
    """(dp, pp, cp) of `ranks` with no more stages than layers, that divide sequences."""
    layers, group = setting.model.layers, setting.plan.shard_group
    for pp in (each for each in pins.of("pp", _divisors(ranks)) if not too_many(layers, each, 1)):
        for cp in pins.of("cp", _divisors(ranks // pp)):
            split = cp == 1 or setting.length % (2 * cp) == 0
            for dp in pins.of("dp", (ranks // pp // cp,)):
                if split and not (group and dp * cp % group):  # pyright: ignore[reportOperatorIssue]
                    yield dp, pp, cp


def _chunks(pp: int, times: int, pins: Pins) -> list[int]:
    """Chunks of layers a stage: interleaved ones where there are stages that the micro-batches divide over."""
    if pp == 1 or times % pp:
        return pins.of("chunks", (1,))
    return [1, 2, 4] if pins.chunks is None else [pins.chunks]


def _divisors(n: int) -> list[int]:
    low = [each for each in range(1, int(n**0.5) + 1) if n % each == 0]
    return low + [n // each for each in reversed(low) if each * each != n]


def _evaluated(setting: Setting, grid: _Grid, recompute: str) -> dict[str, Array]:
    """Time, memory and what is exposed of every plan of a grid."""
    import numpy as np

    plan = _of_setting(setting, grid.tp, **grid.columns)
    recipe = replace(setting.recipe, recompute=Recompute.named(recompute))
    found = step(replace(setting, plan=plan, recipe=recipe))
    shape = (grid.size,)
    values = {
        "seconds": found.seconds,
        "memory": found.footprint.total_bytes,
        "fits": 1 if found.footprint.fits is None else found.footprint.fits,
        "exposed": found.exposed_seconds,
        "bubble": found.bubble_share,
    }
    return {name: np.broadcast_to(np.asarray(each, float), shape) for name, each in values.items()}  # pyright: ignore


def _chosen(
    kept: list[tuple[_Grid, str, dict[str, Array]]], setting: Setting, total: int, refused: Counter[str], most: int
) -> Found:
    """The fastest that fits and the Pareto set."""
    import numpy as np

    def joined(name: str) -> Array:
        return np.concatenate([values[name] for _, _, values in kept])

    seconds, memory, fits = joined("seconds"), joined("memory"), joined("fits") > 0
    if not fits.all():
        smallest = gib(float(memory.min()))
        refused[f"do not fit the memory of one device (the smallest holds {smallest})"] = int((~fits).sum())
    if not fits.any():
        return Found(total, 0, None, (), tuple(refused.items()))
    front = _front(seconds, memory, fits)
    starts = np.cumsum([0] + [grid.size for grid, _, _ in kept])
    candidates = [_candidate(setting, kept, starts, int(index)) for index in front[:most]]
    told = tuple(replace(each, why=_why(each, candidates[0], setting)) for each in candidates)
    return Found(total, int(fits.sum()), told[0], told, tuple(refused.items()))


def _front(seconds: Array, memory: Array, fits: Any) -> Any:
    """Indices of plans that nothing fits in less memory and less time, fastest first."""
    import numpy as np

    order = np.lexsort((memory, seconds))
    order = order[fits[order]]
    least = np.minimum.accumulate(memory[order])
    better = np.r_[True, memory[order][1:] < least[:-1]]
    return order[better]


def _of_setting(setting: Setting, tp: int, **columns: Any) -> Plan:
    """A plan with what the search leaves as the setting has it."""
    fixed = setting.plan
    return Plan(tp=tp, sequence_parallel=tp > 1, schedule=fixed.schedule, shard_group=fixed.shard_group, **columns)


def _candidate(setting: Setting, kept: list[tuple[_Grid, str, dict[str, Array]]], starts: Any, index: int) -> Candidate:
    import numpy as np

    which = int(np.searchsorted(starts, index, side="right")) - 1
    grid, recompute, values = kept[which]
    at = index - int(starts[which])
    plan = _of_setting(setting, grid.tp, **{name: int(grid.columns[name][at]) for name in _FIELDS})
    seconds, memory, exposed, bubble = (float(values[name][at]) for name in ("seconds", "memory", "exposed", "bubble"))
    return Candidate(plan, recompute, seconds, memory, exposed, bubble)


def _why(each: Candidate, best: Candidate, setting: Setting) -> str:
    """What a plan spends its time on, and against the fastest what it saves."""
    plan = each.plan
    parts = [f"bubble {percent(each.bubble_share)}"] if each.bubble_share else []
    parts.append(f"{si(each.exposed_seconds, 's')} of communication exposed")
    if plan.tp > 1:
        near = setting.cluster.domain is None or plan.tp <= setting.cluster.domain
        parts.append(f"tensor ranks on the {NEAR} link" if near else "tensor ranks over the network")
    if each is best:
        return f"fastest that fits: {', '.join(parts)}"
    slower, smaller = each.seconds / best.seconds - 1, best.memory_bytes - each.memory_bytes
    return f"{percent(slower)} slower, {gib(smaller)} less: {', '.join(parts)}"


def alone(setting: Setting, candidate: Candidate) -> Step:
    """The step of one found plan, in single numbers."""
    recipe = replace(setting.recipe, recompute=Recompute.named(candidate.recompute))
    return step(replace(setting, plan=candidate.plan, recipe=recipe))
