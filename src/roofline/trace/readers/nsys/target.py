"""What an export says of itself and of its cards."""

from __future__ import annotations

from typing import Any

from roofline.trace.events import Card
from roofline.trace.readers.nsys.reading import LATEST
from roofline.trace.readers.sqlite import Tables, text_of

GPUS = "TARGET_INFO_GPU"
LARGEST = (1 << 31) - 1
_DEVICES = "TARGET_INFO_CUDA_DEVICE"
_MOST_DEVICES = 1 << 10


def card_numbers(there: Tables) -> list[tuple[int, int, int]]:
    """Which card a process's number of a device is: (card, number, process id)."""
    found: list[tuple[int, int, int]] = []
    if there.has(_DEVICES, "gpuId", "cudaId", "pid"):
        for columns in there.numbers(_DEVICES, ("gpuId", "cudaId", "pid")):
            found += [(gpu, cuda, pid) for gpu, cuda, pid in zip(*(each.tolist() for each in columns), strict=True)]
    return [each for each in found[:_MOST_DEVICES] if 0 <= each[0] <= LARGEST]


def cards(there: Tables) -> tuple[Card, ...]:
    """What the file says of its cards: also their clock and bandwidth."""
    wanted = ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "memoryBandwidth", "clockRate")
    if not there.has(GPUS, "name"):
        return ()
    found: list[Card] = []
    rows = next(there.rows(GPUS, wanted), list[tuple[Any, ...]]())
    for number, name, memory, count, major, minor, bandwidth, clock in rows[:_MOST_DEVICES]:
        found.append(
            Card(
                number if isinstance(number, int) else len(found),
                text_of(name)[:200],
                _positive(memory),
                _positive(count),
                f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else "",
                _positive(bandwidth),
                _positive(clock),
            )
        )
    return tuple(found)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < LATEST else None


def form(there: Tables) -> str:
    """The tool and the version of the schema, where the file says it."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if there.has(table, "name", "value"):
            for chunk in there.rows(table, ("name", "value")):
                for name, value in chunk:
                    if name == b"EXPORT_SCHEMA_VERSION":
                        return f"Nsight Systems, schema {text_of(value)[:20] or value}"
    return "Nsight Systems"
