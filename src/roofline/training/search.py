"""The best plan for a cluster: every plan that divides, evaluated at once, and the Pareto set of time and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from roofline.errors import BadValue, ShardError
from roofline.shard import MOST_RANKS, Shard
from roofline.training.conventions import check_causal
from roofline.training.plan import NEAR, Plan, check_axes, experts_of
from roofline.training.recipe import Recompute
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


def search(setting: Setting, gpus: int, global_batch: int, *, most: int = 16) -> Found:
    """Every plan of `gpus` devices for that global batch, on the setting's cluster and recipe.

    Looks at tp, pp, cp, chunks, ZeRO stage, micro-batch and recomputation; at most `most` of the Pareto set are
    returned. Raises BadValue for a batch that is no whole number of sequences, ShardError where nothing divides.
    """
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
    grids = list(_grids(setting, gpus, global_batch // setting.length, refused))
    total = sum(grid.size for grid in grids) * len(RECOMPUTE)
    if not total:
        reasons = "; ".join(refused) or "no sequences"
        raise ShardError(f"No plan of {gpus:,} GPUs divides the model and its batch: {reasons}.")
    if total > MOST_PLANS:
        raise BadValue(f"{total:,} plans are too many to look at. Possible: {MOST_PLANS:,}; fix some of them.")
    kept: list[tuple[_Grid, str, dict[str, Array]]] = []
    for grid in grids:
        for name in RECOMPUTE:
            kept.append((grid, name, _evaluated(setting, grid, name)))
    return _chosen(kept, setting, total, refused, most)


def _grids(setting: Setting, gpus: int, sequences: int, refused: Counter[str]) -> Iterator[_Grid]:
    """All plans that divide, one grid for each number of tensor ranks."""
    import numpy as np

    for tp in (each for each in _divisors(gpus) if each <= MOST_RANKS):
        try:
            check_axes(setting.model, Shard(tp))
        except ShardError:
            refused[f"tp {tp} does not divide heads, widths or vocabulary"] += 1
            continue
        rows = [each for each in _plans(setting, gpus // tp, sequences)]
        if rows:
            columns = np.array(rows, float).T
            yield _Grid(tp, dict(zip(_FIELDS, columns, strict=True)))
        else:
            refused[f"tp {tp} leaves no pp, dp and micro-batch that divide layers and batch"] += 1


def _plans(setting: Setting, ranks: int, sequences: int) -> Iterator[tuple[int, ...]]:
    """(dp, pp, cp, ep, zero, micro-batch, accumulate, chunks) of every plan of `ranks` beside the tensor ranks."""
    layers, experts = setting.model.layers, max(experts_of(setting.model), 1)
    for pp in (each for each in _divisors(ranks) if layers % each == 0):
        for cp in (each for each in _divisors(ranks // pp) if each == 1 or setting.length % (2 * each) == 0):
            dp = ranks // pp // cp
            if sequences % dp:
                continue
            spreads = [each for each in _divisors(experts) if dp * cp % each == 0]
            for micro in _divisors(sequences // dp):
                times = sequences // dp // micro
                for chunks in (1, 2, 4) if pp > 1 and times % pp == 0 else (1,):
                    if layers % (pp * chunks) == 0:
                        for ep, zero in product(spreads, (0, 1, 2, 3) if dp * cp > 1 else (0,)):
                            yield dp, pp, cp, ep, zero, micro, times, chunks


def _divisors(n: int) -> list[int]:
    low = [each for each in range(1, int(n**0.5) + 1) if n % each == 0]
    return low + [n // each for each in reversed(low) if each * each != n]


def _evaluated(setting: Setting, grid: _Grid, recompute: str) -> dict[str, Array]:
    """Time, memory and what is exposed of every plan of a grid."""
    import numpy as np

    plan = Plan(tp=grid.tp, sequence_parallel=grid.tp > 1, schedule=setting.plan.schedule, **grid.columns)
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
    candidates = [_candidate(kept, starts, int(index)) for index in front[:most]]
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


def _candidate(kept: list[tuple[_Grid, str, dict[str, Array]]], starts: Any, index: int) -> Candidate:
    import numpy as np

    which = int(np.searchsorted(starts, index, side="right")) - 1
    grid, recompute, values = kept[which]
    at = index - int(starts[which])
    dp, pp, cp, ep, zero, micro, times, chunks = (int(grid.columns[name][at]) for name in _FIELDS)
    plan = Plan(dp, grid.tp, pp, cp, ep, zero, micro, times, sequence_parallel=grid.tp > 1, chunks=chunks)
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
