"""Options of the training commands: rates, times, shares, recomputation; each error names the option."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from roofline import units
from roofline.cli.options import option, share
from roofline.errors import BadValue
from roofline.files import exists, printable
from roofline.shard import MOST_RANKS
from roofline.training.recipe import Recipe, Recompute
from roofline.workload import Precision, size

MOST_GPUS = 1 << 24


def _count(least: int, most: int) -> Parameter:
    return option(lambda name, text: size(name, units.count(text), least, most))


def _recomputed(name: str, text: str) -> str:
    """The word of a recomputation; 75% is 0.75."""
    return Recompute.named(f"{share(name, text):g}" if text.endswith("%") else text).word


def _bytes(text: str) -> float:
    """A size [byte]: `14GB`, `1GiB`, or a number of bytes."""
    return units.amount(text) if text[-1:].isdecimal() else units.quantity(text, "B")


def _busbw(text: str) -> float:
    """A bus bandwidth [byte/s]: `400GB/s`, or the log of nccl-tests that measured it."""
    if not exists(Path(text)):
        return units.quantity(text, "B/s")
    from roofline.diagnosis.collectives import bus_bandwidth
    from roofline.diagnosis.opening import open_profile
    from roofline.evidence.nccl import Log

    found = open_profile(text)
    if not isinstance(found, Log):
        raise BadValue(f"{printable(text)} is no log of nccl-tests. Name one, or write a bandwidth, as 400GB/s.")
    return bus_bandwidth(found)


Amount = Annotated[float, option(lambda _, text: units.amount(text))]
Seconds = Annotated[float, option(lambda _, text: units.seconds(text))]
Share = Annotated[float, option(share)]
Peak = Annotated[float, option(lambda _, text: units.quantity(text, "FLOP/s"))]
Bandwidth = Annotated[float, option(lambda _, text: units.quantity(text, "B/s"))]
Busbw = Annotated[float, option(lambda _, text: _busbw(text))]
Bytes = Annotated[float, option(lambda _, text: _bytes(text))]
Parameters = Annotated[int, _count(1, 1 << 60)]
Gpus = Annotated[int, _count(1, MOST_GPUS)]
Batch = Annotated[int, _count(1, 1 << 60)]
Layers = Annotated[int, _count(1, MOST_RANKS * 4)]
Some = Annotated[int, _count(1, 1 << 40)]
Stage = Annotated[int, _count(0, 1 << 40)]
Length = Annotated[int, option(lambda name, text: size(name, units.length(text), 1))]
Recomputed = Annotated[str, option(_recomputed)]


def recipe_of(
    rate: str, recompute: str | None, lora: int | None, freeze: str | None, documents: int | None, **more: Any
) -> Recipe:
    """The Recipe that these options describe."""
    parts = frozenset(each.strip() for each in freeze.split(",")) if freeze is not None else frozenset[str]()
    return Recipe(
        Precision("bf16", compute=rate),
        recompute=Recompute.named(recompute or "none"),
        lora=lora or 0,
        frozen=parts,
        documents=documents,
        **more,
    )
