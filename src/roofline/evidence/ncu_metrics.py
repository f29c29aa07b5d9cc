"""What Nsight Compute's metrics mean: its names to ours, and its own roofline formulas for FLOPs and peaks.

FLOPs of the vector pipes are counted by the instructions that were executed with their predicate on (add + mul +
2 fma), those of the tensor pipes by `sm__ops_path_tensor_*`, which counts operations; both as in the section files
SpeedOfLight_RooflineChart and SpeedOfLight_HierarchicalTensorRooflineChart of Nsight Compute. The instructions of a
tensor pipe are no FLOPs: one is 512 FLOPs on Volta and differs by variant on every later chip.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from roofline.evidence.numbers import number
from roofline.units import tool_unit

_VECTOR = {"fp32-vector": "f", "fp16-vector": "h", "fp64-vector": "d"}
_OPS = ("add", "mul", "fma")
_SASS = re.compile(r"(?:derived__)?sms?p?__sass_thread_inst_executed_op_[fhd](?:add|mul|fma)_pred_on[\w.]*")
_TENSOR = re.compile(
    r"sm__ops_path_tensor_(?:op_[a-z]+_)?src_(?P<src>[a-z0-9]+)(?:_(?P<more>[a-z0-9_]*?))??(?:_dst_(?P<dst>[a-z0-9]+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?\.sum(?P<form>\.per_second|\.peak_sustained|\.per_cycle_elapsed)?"
)
_VOLTA, _FLOPS_OF_HMMA = "7.0", 512

AGAIN = "\0"  # between a metric's name and its unit, where the name stands for several
Cells = Mapping[str, tuple[str, str]]


@cache
def _names() -> Mapping[tuple[str, str], tuple[str, int]]:
    """Our name of each vendor's (name, unit), and how early it stands in its list."""
    text = (files("roofline") / "data" / "counters.toml").read_text("utf-8")
    tables: Mapping[str, Any] = tomllib.loads(text)["ncu"]
    return {(name, each["unit"]): (ours, at) for ours, each in tables.items() for at, name in enumerate(each["names"])}


@cache
def _known() -> frozenset[str]:
    return frozenset(name for name, _ in _names())


@lru_cache(1 << 14)
def wanted(name: str) -> bool:
    """Whether a metric is one that is used."""
    return (
        name in _known()
        or name == "device__attribute_display_name"
        or bool(_SASS.fullmatch(name) or _TENSOR.fullmatch(name))
    )


def share(text: str, mark: str) -> float | None:
    """A percentage without its sign as a share."""
    value = number(text, mark)
    return None if value is None else value / 100


def measured(
    cells: Cells, capability: str, mark: str
) -> tuple[dict[str, float], dict[str, float] | None, dict[str, float]]:
    """Values by our names, FLOPs by rate (None where no counter of them was collected), peaks by rate [FLOP/s]."""
    values: dict[str, float] = {}
    order: dict[str, int] = {}
    plain: dict[str, float] = {}
    for key, (text, unit) in cells.items():
        value = number(text, mark)
        if value is None or value < 0:
            continue
        name = key.partition(AGAIN)[0]
        factor, base = tool_unit(unit)
        plain[name] = value * factor
        ours, at = _ours(name, base)
        if ours and at < order.get(ours, 1 << 30):
            values[ours], order[ours] = value * factor, at
    flops, peak = _flops(plain, values, capability)
    return values, flops, peak


def _ours(name: str, base: str) -> tuple[str, int]:
    for unit in (base, f"{base}/cycle", "" if base not in ("byte", "second", "share") else base):
        if (name, unit) in _names():
            return _names()[name, unit]
    return "", 0


def _flops(
    plain: Mapping[str, float], values: Mapping[str, float], capability: str
) -> tuple[dict[str, float] | None, dict[str, float]]:
    flops: dict[str, float] = {}
    peak: dict[str, float] = {}
    counted = False
    clock, seconds = values.get("sm_clock"), values.get("seconds")
    for rate, letter in _VECTOR.items():
        counts = [_count(plain, f"{letter}{op}", clock, seconds) for op in _OPS]
        if any(each is not None for each in counts):
            counted = True
            add, mul, fma = (each or 0.0 for each in counts)
            flops[rate] = add + mul + 2 * fma
        top = _per_cycle(plain, f"{letter}fma")
        if top and clock:
            peak[rate] = 2 * top * clock
    tensor, tops = _tensor(plain, clock, seconds)
    counted = counted or bool(tensor)
    if not tensor and capability == _VOLTA and "tensor_instructions" in values:
        counted, tensor = True, {"fp16": values["tensor_instructions"] * _FLOPS_OF_HMMA}
    found = {rate: value for rate, value in {**flops, **tensor}.items() if value > 0}
    return (found if counted else None), {**peak, **tops}


def _count(plain: Mapping[str, float], op: str, clock: float | None, seconds: float | None) -> float | None:
    """Executions of an instruction: counted, or per cycle times clock and time."""
    for unit in ("sm", "smsp"):
        name = f"{unit}__sass_thread_inst_executed_op_{op}_pred_on.sum"
        if name in plain:
            return plain[name]
    per_cycle = plain.get(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed")
    if per_cycle is None:
        doubled = plain.get(f"derived__smsp__sass_thread_inst_executed_op_{op}_pred_on_x2")
        per_cycle = None if doubled is None else doubled / 2
    if per_cycle is None or clock is None or seconds is None:
        return None
    return per_cycle * clock * seconds


def _per_cycle(plain: Mapping[str, float], op: str) -> float | None:
    for unit in ("sm", "smsp"):
        found = plain.get(f"{unit}__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained")
        if found is not None:
            return found
    doubled = plain.get(f"derived__sm__sass_thread_inst_executed_op_{op}_pred_on_x2")
    return None if doubled is None else doubled / 2


def _tensor(
    plain: Mapping[str, float], clock: float | None, seconds: float | None
) -> tuple[dict[str, float], dict[str, float]]:
    """FLOPs and peaks of the tensor pipes by the format of their operands.

    A metric of a whole path stands for those of its parts (by destination, by sparsity), which are not added to it.
    """
    counts: dict[str, dict[tuple[str, str], float]] = {}
    tops: dict[str, float] = {}
    for name, value in plain.items():
        match = _TENSOR.fullmatch(name)
        if match is None:
            continue
        rate, form = _rate(match["src"]), match["form"]
        if form == ".peak_sustained":
            if clock and match["sparsity"] != "on":
                tops[rate] = max(tops.get(rate, 0.0), value * clock)
            continue
        rates = {".per_second": 1.0, ".per_cycle_elapsed": clock or 0.0}
        key = (f"{match['src']}/{match['more'] or ''}{match['dst'] or ''}", match["sparsity"] or "")
        counts.setdefault(rate, {})[key] = value * rates[form] * (seconds or 0.0) if form in rates else value
    return {rate: _whole(parts) for rate, parts in counts.items()}, tops


def _whole(parts: Mapping[tuple[str, str], float]) -> float:
    paths: dict[str, float] = {}
    for path in {path for path, _ in parts}:
        whole = parts.get((path, ""))
        paths[path] = whole if whole is not None else sum(n for (each, _), n in parts.items() if each == path)
    total = 0.0
    for source in {path.partition("/")[0] for path in paths}:
        mine = {path: n for path, n in paths.items() if path.partition("/")[0] == source}
        total += mine.get(f"{source}/", sum(mine.values()))
    return total


def _rate(source: str) -> str:
    """The rate that operands of this format run at."""
    if source.startswith(("fp8", "e4m3", "e5m2")):
        return "fp8"
    if source.startswith(("fp4", "e2m1")):
        return "fp4"
    if source.startswith(("fp6", "e3m2", "e2m3")):
        return "fp6"
    return {"s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4"}.get(source, source)
