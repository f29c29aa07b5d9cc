"""The live page: every control at once, its arithmetic exported from the formulas of `predict`, in one file.

What the page shows of a pass it works out in the reader's browser, by the functions that `roofline.program` traces.
"""

from __future__ import annotations

import base64
import gc
import gzip
import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import Any

from roofline import program
from roofline.bound import RESOURCES, VERDICTS
from roofline.catalogue import devices as catalogue_devices
from roofline.crossing import FAR, NEARLY, SHORT, SLIGHT, Crossover, Kind
from roofline.device import Device, Topology
from roofline.dtypes import FORMATS, STORED, smaller
from roofline.errors import BadValue, UnknownName
from roofline.model import Model
from roofline.num import Expr, Num
from roofline.ops import operation
from roofline.script import PRELUDE, script
from roofline.show import render, words
from roofline.show.guide import MODEL, START, STEPS
from roofline.show.kinds import KINDS, kind_of
from roofline.show.names import visible
from roofline.show.page import asset, page
from roofline.show.specs.base import LEFT, RIGHT
from roofline.show.specs.roofline import roofline_spec
from roofline.turning import MOST
from roofline.units import GIB, GIGA, KIB, MIB, TERA
from roofline.verdicts import ATTENTION, GEMMS, SUBJECTS
from roofline.workload import MOST as LARGEST

_SHEETS = ("style.css", "live.css")
MODELS = ("qwen3-8b", "llama-3.1-70b", "deepseek-v3")
DEVICE = "h100-sxm"
_UNITS = {"KIB": KIB, "MIB": MIB, "GIB": GIB, "GIGA": GIGA, "TERA": TERA}


def live_page(models: Mapping[str, Model], devices: Sequence[Device] | None = None) -> str:
    """The page of these models, by the name that its address has for each; raises BadValue without any.

    Devices are the whole catalogue unless given.
    """
    from markupsafe import Markup

    if not models:
        raise BadValue("A live page needs a model. Name one.")
    with ThreadPoolExecutor(1) as beside, _uncollected():
        drawing = beside.submit(render.javascript)  # takes as long as the rest, and works without the interpreter
        arithmetic, data = exported(models, catalogue_devices() if devices is None else devices)
        vega = drawing.result()
    steps = STEPS if MODEL in models else ()
    guide = {"start": START, "steps": [step._asdict() for step in steps]}
    spec = roofline_spec()
    spec["usermeta"] = {"beside": LEFT + RIGHT}
    parts = {"data": data, "spec": spec, "guide": guide}
    for name, model in models.items():
        if model.unit:
            raise BadValue(
                f"{name} is an encoder, which decodes nothing: the page's sliders are a decoder's. Leave it out or ask "
                "for one pass (roofline predict --phase prefill)."
            )
    embedded = {name: Markup(_json(part)) for name, part in parts.items()}
    embedded["vega"] = Markup(base64.b64encode(gzip.compress(vega.encode(), 9, mtime=0)).decode())
    scripts = [arithmetic, *map(asset, ("engine.js", "figures.js", "tables.js", "controls.js"))]
    return page("live.html", "roofline: what limits a model", scripts, {"parts": embedded}, _SHEETS, [vega])


@contextmanager
def _uncollected() -> Generator[None]:
    """Without the collector of cycles: a trace makes half a million small objects, and none of them is in one."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def named(models: Iterable[tuple[str, Model]]) -> dict[str, Model]:
    """Models by a short name each for the page's address: the built-in name or the last part of a path or id."""
    found: dict[str, Model] = {}
    for given, model in models:
        path = Path(given)
        last = path.parent.name if path.name == "config.json" and path.parent.name else path.name.removesuffix(".json")
        word = re.sub(r"[^a-z0-9.-]+", "-", (last or model.name).lower()).strip("-")[:60] or "model"
        name, nth = word, 2
        while name in found:
            name, nth = f"{word}-{nth}", nth + 1
        found[name] = model
    return found


def _json(part: Any) -> str:
    # Inside a script "<" could end it: as an escape it is the same text to JSON.
    return json.dumps(part, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def exported(models: Mapping[str, Model], devices: Sequence[Device]) -> tuple[str, dict[str, Any]]:
    """The arithmetic as JavaScript, and the data that it is called with."""
    further = program.rates(list(models.values()))
    variables = program.variables(further)
    offered = sorted({ranks for device in devices for ranks in program.RANKS if _joined(device, ranks)})
    traced = {name: list(program.trace(model, further, offered)) for name, model in models.items()}
    every = [each.formulas for passes in traced.values() for each in passes]
    phases = {phase: program.rows_formulas(phase) for phase in program.PHASES}
    compiled = script(every, variables)
    behind = script(list(phases.values()), ("sequences", "new", "context"))
    calls = iter(compiled.calls)
    lines: dict[tuple[program.Line, ...], int] = {}
    described = {
        name: _model(models[name], [(each, next(calls)) for each in passes], lines) for name, passes in traced.items()
    }
    functions = ",\n".join(compiled.functions)
    rows = ",".join(
        f"{phase}:{behind.functions[call.function]}" for phase, call in zip(phases, behind.calls, strict=True)
    )
    arithmetic = f"const rooflineArithmetic=(()=>{{{PRELUDE}\nreturn{{passes:[{functions}],behind:{{{rows}}}}}}})();"
    data = {
        "variables": variables,
        "behind": {phase: call.constants for phase, call in zip(phases, behind.calls, strict=True)},
        "kernel": program.KERNEL,
        "total": program.TOTAL,
        "memory": program.MEMORY,
        "models": described,
        "kernels": [[_line(each) for each in names] for names in lines],
        "devices": {each.id: _device(each) for each in devices if compute_rates(each)},
        "device": DEVICE,
        "kv": [name for name, each in FORMATS.items() if each.block is None or each.block[0] == 1],
        "activations": [name for name, each in FORMATS.items() if each.block is None],
        "formats": {name: dict(program.formats(name)) for name in FORMATS},
        "stored": STORED,
        "resources": RESOURCES,
        "verdicts": VERDICTS,
        "subjects": SUBJECTS,
        "gemms": GEMMS,
        "attention": ATTENTION,
        "kinds": list(KINDS),
        "kind_titles": {key: kind.title for key, kind in KINDS.items()},
        "formulas": _formulas(each for names in lines for each in names),
        "units": _UNITS,
        "most": MOST,
        "largest": LARGEST,
        "smaller": {name: smaller(name) for name in FORMATS},
        "far": FAR,
        **{"nearly": NEARLY, "slight": SLIGHT, "short": SHORT},
        "then": _then(),
    }
    return arithmetic, data


def _then() -> dict[str, str]:
    """What holds beyond a turn beside a threshold, by its label, in the words of the command line."""
    labels: dict[str, tuple[Kind, float | None]] = {
        **dict.fromkeys(("idle", "help"), ("gain", SLIGHT)),
        **dict.fromkeys(("reached", "below"), ("rate", NEARLY)),
        **dict.fromkeys(("dearer", "as cheap"), ("cost", SHORT)),
        "own": ("knee", None),
    }
    turns = (Crossover("", kind, "sequences", None, None, "", name, share) for name, (kind, share) in labels.items())
    return {each.after: words.then(each) for each in turns}


def _model(
    model: Model, passes: Sequence[tuple[program.Traced, Any]], lines: dict[tuple[program.Line, ...], int]
) -> dict[str, Any]:
    """A model as the page has it: passes by ranks, phase, folding and storage; calls: function, constants, kernels."""
    ranked: dict[str, int] = {}
    for index, (each, _) in enumerate(passes):
        for phase in each.phases:
            ranked[f"{each.ranks}{phase[0]}{'f' if each.fused else ''}{'s' if each.stored else ''}"] = index
    return {
        "name": visible(model.name),
        "parameters": model.parameters().total,
        "positions": model.max_positions,
        "stored": model.quantised,
        "assumptions": [visible(each, 400) for each in model.assumptions],
        "passes": ranked,
        "calls": [[call.function, call.constants, lines.setdefault(each.kernels, len(lines))] for each, call in passes],
    }


def _line(line: program.Line) -> list[Any]:
    return [visible(line.name), line.part, line.op, line.calls, kind_of(line.op), list(line.dims)]


def compute_rates(device: Device) -> list[str]:
    """The rates that GEMMs may run at; a device without one cannot be chosen."""
    return [rate for rate in device.peak if not rate.endswith("-vector")]


def _device(device: Device) -> dict[str, Any]:
    first = device.links[0] if device.links else None
    return {
        "name": visible(device.name),
        "vendor": device.vendor,
        "bandwidth": device.bandwidth,
        "peak": dict(device.peak),
        "rates": compute_rates(device),
        "capacity": device.capacity,
        "capacity_note": device.capacity_note,
        "link": None if first is None else [first.name, first.bandwidth, first.latency],
        "ranks": [ranks for ranks in program.RANKS if _joined(device, ranks)],
        "assumptions": [visible(each, 400) for each in device.assumptions],
    }


def _joined(device: Device, ranks: int) -> bool:
    with suppress(UnknownName):
        Topology(device, ranks).link()
        return True
    return False


def _formulas(lines: Iterable[program.Line]) -> dict[str, dict[str, str]]:
    """The FLOPs of every operation as its function has them, in its dims, for a single new token and for several."""
    found: dict[str, dict[str, str]] = {}
    for each in lines:
        key = f"{each.op} {' '.join(each.dims)}"
        if key not in found:
            found[key] = {phase: _flops(each, new) for phase, new in (("decode", 1), ("prefill", Expr.var("new")))}
    return found


def _flops(line: program.Line, new: Num) -> str:
    sized = set(line.dims) & set(signature(operation(line.op)).parameters)
    sizes = {dim: Expr.var(dim) for dim in sized}
    cost = operation(line.op)(**(sizes | ({"new": new} if "new" in sizes else {}))).cost
    return str(cost.total_flops)
