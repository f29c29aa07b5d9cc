"""Does it fit: weights, KV cache and activations of one rank beside the device's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from roofline.device import Device
from roofline.errors import BadValue
from roofline.ledger import Ledger
from roofline.model import Model
from roofline.num import Num, maximum
from roofline.parts.base import Pass
from roofline.shard import Shard
from roofline.workload import CALL, MOST, Precision, Workload


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank [byte].

    `activation_bytes` is what the hungriest kernel reads and writes beside weights and cache: a floor, as
    engines reserve more. `capacity_bytes` and `fits` are None where the capacity is unknown; `max_sequences`
    and `max_context` are the largest that fit with the rest unchanged, 0 where none does, None where
    nothing bounds them.
    """

    weight_bytes: int
    kv_bytes: int
    activation_bytes: int
    capacity_bytes: int | None
    max_sequences: int | None = None
    max_context: int | None = None

    @property
    def total_bytes(self) -> int:
        """Weights, cache and activations together [byte]."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    @property
    def fits(self) -> bool | None:
        """Whether the total is within the capacity."""
        return None if self.capacity_bytes is None else self.total_bytes <= self.capacity_bytes


def resident(model: Model, workload: Workload, precision: Precision, shard: Shard, capacity: int | None) -> Memory:
    """What one rank holds during a pass."""
    cache = sum(cast(int, model.resident_cache(rows, precision, shard)) for rows in workload.groups)
    hungriest: Num = 0
    for _, kernel in model.kernels(Pass(workload, precision, shard)):
        moved = kernel.work.cost.memory
        hungriest = maximum(hungriest, moved.get("activations", 0) + moved.get("output", 0))
    weights = cast(int, model.weight_bytes(precision, shard, workload.images is not None))
    return Memory(weights, cache, cast(int, hungriest), capacity)


def memory(ledger: Ledger) -> Memory:
    """The memory of a ledger's pass, and the largest batch and context that fit.

    Raises BadValue for a ledger over arrays.
    """
    if not isinstance(ledger.total.seconds, (int, float)):
        raise BadValue("The memory of a ledger over arrays is no single answer. Predict one setting.")
    return memory_of(ledger.model, ledger.device, ledger.workload, ledger.precision, ledger.shard)


def memory_of(model: Model, device: Device, workload: Workload, precision: Precision, shard: Shard) -> Memory:
    """What one rank holds during a pass, and the largest batch and context that fit."""
    capacity = device.capacity

    def at(changed: Workload) -> Memory:
        return resident(model, changed, precision, shard, capacity)

    now = at(workload)
    if capacity is None or workload.phase == CALL:
        return now
    sequences = _largest(lambda n: at(workload.resized(sequences=n)).total_bytes, capacity)
    context = _largest(lambda n: at(workload.resized(context=n)).total_bytes, capacity)
    return Memory(now.weight_bytes, now.kv_bytes, now.activation_bytes, capacity, sequences, context)


def _largest(held: Callable[[int], int], capacity: int) -> int | None:
    """The largest n >= 1 with `held(n)` within the capacity; 0 where 1 is not, None where all up to 2^40 are.

    What is held grows nearly as a straight line: the line far out says where to look, and bisection settles it.
    """
    if held(1) > capacity:
        return 0
    low, high = 1, MOST
    ends = held(low), held(high)
    if ends[1] <= capacity:
        return None
    step = 1
    while high - low > 1:
        # Where the line between the ends crosses the capacity; half way where it keeps missing.
        line = low + (high - low) * (capacity - ends[0]) // (ends[1] - ends[0])
        # A buffer that ranks share may be a fraction of a byte: what is looked for is a whole number still.
        at = int(min(max(line if step % 3 else (low + high) // 2, low + 1), high - 1))
        total = held(at)
        if total <= capacity:
            low, ends = at, (total, ends[1])
        else:
            high, ends = at, (ends[0], total)
        step += 1
    return low
