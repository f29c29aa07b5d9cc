"""Results as terminal text: 80 columns, pipes and NO_COLOR included. Names are data, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from rich.console import Group, RenderableType
from rich.table import Table

from roofline.assumptions import warnings
from roofline.capacity import Memory
from roofline.dtypes import STORED
from roofline.ledger import Ledger
from roofline.model import LONG, Model
from roofline.shard import Shard
from roofline.show import words
from roofline.show.terminal import STYLES, Cell, bullets, show, table, text
from roofline.units import KIB, column, gib, percent, scale, si, significant
from roofline.verdicts import verdict
from roofline.workload import CALL, Precision

if TYPE_CHECKING:
    from roofline.comparison import Measured, Price

__all__ = ["ledger_text", "model_text", "models_text", "show"]


def _number(value: object) -> float:
    return cast(float, value)


def ledger_text(
    ledger: Ledger, held: Memory, measured: Measured | None = None, price: Price | None = None
) -> RenderableType:
    """The verdict, the figures behind it, the kernels, levers, the memory `held`, the assumptions.

    A measured rate and a price stand below the figures where they were given.
    """
    notes = [text(f"Note: {each}.", "yellow") for each in warnings(ledger)]
    asked = [text(each, "bold") for each in (*_measured(measured), *_price(price))]
    return Group(
        text(words.title(ledger), "bold"),
        *notes,
        text(),
        text(verdict(ledger)),
        text(),
        *_summary(ledger),
        *([text(), *asked] if asked else []),
        text(),
        _kernels(ledger),
        text(),
        *_levers(ledger, held),
        text(),
        *_memory(ledger, held),
        text(),
        text("Assumptions", "bold dim"),
        bullets(ledger.assumptions[len(notes) :]),
    )


def _summary(ledger: Ledger) -> list[RenderableType]:
    total = ledger.total
    lines = [
        ("bound", _number(total.bound_seconds), "kernels one after another"),
        ("floor", _number(total.floor_seconds), "perfect overlap, compulsory bytes only"),
        ("no overlap", _number(total.no_overlap_seconds), "compute, memory and links added up"),
    ]
    if ledger.workload.phase == "mixed":
        lines[0] = (*lines[0][:2], "kernels one after another; decode + prefill")
    if ledger.efficiency is not None:
        shares = " and ".join((f"{percent(ledger.efficiency[0])} bandwidth", f"{percent(ledger.efficiency[1])} peak"))
        lines.insert(0, ("derated", _number(total.seconds), f"at {shares}"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for side in ("left", "right", "right", "left"):
        grid.add_column(justify="right" if side == "right" else "left")
    for name, seconds, meaning in lines:
        strong = "bold" if name == lines[0][0] else ""
        grid.add_row(
            name, text(si(seconds, "s"), strong), text(words.rate(ledger, seconds), strong), text(meaning, "dim")
        )
    rate = ledger.precision.compute
    ridge = significant(ledger.device.ridge_point(rate))
    peak = si(ledger.device.rate(rate), "FLOP/s")
    moved = f"{si(_number(total.bytes), 'B')} ({gib(_number(total.bytes))})"
    intensity = f"{significant(_number(total.intensity))} FLOP/byte"
    lines_below = (
        f"Intensity {intensity}, ridge {ridge}: {si(_number(total.flops), 'FLOP')} over {moved}",
        f"{percent(_number(total.of_peak))} of the {peak} {rate} peak",
    )
    return [grid, text(), *(text(each) for each in lines_below)]


def _kernels(ledger: Ledger) -> RenderableType:
    derated = ledger.efficiency is not None
    times = [_number(each) for each in ledger.times]
    bounds = [_number(point.bound_seconds) for point in ledger.kernels]
    flops = [_number(point.flops) for point in ledger.kernels]
    moved = [_number(point.bytes) for point in ledger.kernels]
    whole = sum(times)
    flop_scale, flop_unit = scale(sum(flops), "FLOP")
    byte_scale, byte_unit = scale(sum(moved), "B")
    time_scale, time_unit = scale(whole, "s")
    heads = [("kernel", "left"), ("calls", "right"), (flop_unit, "right"), (byte_unit, "right"), ("FLOP/B", "right")]
    heads += [("bound by", "left"), (f"bound {time_unit}", "right")]
    if derated:
        heads.append(("derated", "right"))
    heads.append(("share", "right"))
    cells = [
        [point.name for point in ledger.kernels],
        [f"{point.count:,}" for point in ledger.kernels],
        column(flops, flop_scale, 5),
        column(moved, byte_scale, 5),
        [words.intensity(_number(point.work.intensity)) for point in ledger.kernels],
        [point.bound.by for point in ledger.kernels],
        column(bounds, time_scale, 5),
        *([column(times, time_scale, 5)] if derated else []),
        [words.share(each / whole) for each in times],
    ]
    rows = [[text(each, style=STYLES.get(each, "")) for each in row] for row in zip(*cells, strict=True)]
    return table(heads, rows, bold=times.index(max(times)))


def _levers(ledger: Ledger, held: Memory) -> list[RenderableType]:
    """What would help, a line each, and what would not, with the numbers of the second ledgers."""
    good = [each for each in ledger.levers if each.helps]
    bad = [each for each in ledger.levers if not each.helps]
    blocks: list[RenderableType] = []
    if good:
        heads = [
            ("what would help", "left"),
            (words.unit(ledger), "right"),
            ("gain", "right"),
            ("a pass", "right"),
            ("", "left"),
        ]
        rows: list[list[Cell]] = [
            [
                each.change,
                significant(each.tokens_per_second, 4),
                f"+{percent(each.gain)}",
                si(each.seconds, "s"),
                words.conditions(each, held),
            ]
            for each in good
        ]
        blocks.append(table(heads, rows, shrinks=4))
    if bad:
        listed = ", ".join(f"{each.change} ({100 * each.gain:+.1f} %)" for each in bad)
        blocks.append(text(f"What would not: {listed}."))
    return blocks


def _measured(measured: Measured | None) -> Iterable[str]:
    return () if measured is None else (measured.sentence,)


def _price(price: Price | None) -> Iterable[str]:
    if price is not None:
        many = f" x {price.devices}" if price.devices > 1 else ""
        cost = f"${significant(price.per_million_tokens)} per million tokens at these times"
        if price.per_million_measured is not None:
            cost += f", ${significant(price.per_million_measured)} at the measured rate"
        yield f"{cost}, for ${price.per_device_hour:,.2f} an hour{many}."


def _memory(ledger: Ledger, held: Memory) -> list[RenderableType]:
    capacity = held.capacity_bytes
    cache = f", KV cache {gib(held.kv_bytes)}" if ledger.workload.phase != CALL else ""
    parts = f"weights {gib(held.weight_bytes)}{cache}, activations {gib(held.activation_bytes)}"
    each = " on each device" if ledger.shard.tp > 1 else ""
    if capacity is None:
        return [text(f"Memory{each}: {parts}. The capacity of {ledger.device.id} is unknown.")]
    of = f"{gib(held.total_bytes)} of {gib(capacity)} ({ledger.device.capacity_note}){each}"
    head = text(f"Fits: {of}: {parts}.") if held.fits else text(f"Does not fit: {of}: {parts}.", "bold red")
    most = f"{words.largest(ledger, held)} {words.longest(ledger, held)}".strip()
    return [head, text(most)] if most else [head]


def models_text(models: Sequence[tuple[str, Model]]) -> RenderableType:
    """The built-in models, a line each."""
    heads = [
        ("id", "left"),
        ("model", "left"),
        ("parameters", "right"),
        ("layers", "right"),
        ("KV KiB a token", "right"),
    ]
    rows: list[list[Cell]] = [
        [ident, model.name, f"{model.parameters().total:,}", f"{model.layers}", f"{_kv(model) / KIB:,.0f}"]
        for ident, model in models
    ]
    note = "KV cache in BF16. Any config.json, its folder or a Hugging Face id is a model too."
    return Group(table(heads, rows, shrinks=1), text(), text(note, style="dim"))


def _kv(model: Model) -> float:
    return _number(model.cache_bytes_per_token(Precision("bf16"), Shard()))


def _caches(model: Model) -> list[tuple[str, str]]:
    """The cache of a long sequence, by kind of layer where there are several."""
    formats = Precision("bf16"), Shard()
    kinds = model.caches()
    if not kinds:
        return []
    whole = sum(_number(each.bytes(LONG, *formats)) for each in kinds)
    rows = [(f"KV cache of {LONG:,} tokens (bf16)", gib(whole))]
    if len(kinds) > 1 or kinds[0].sort != "all tokens":
        rows += [(f"  {each.layers} x {each.sort}", gib(_number(each.bytes(LONG, *formats)))) for each in kinds]
    return rows


def _stored(model: Model) -> str:
    """The weights in the formats of the checkpoint's file, where it says some."""
    return gib(_number(model.weight_bytes(Precision(STORED), Shard()))) if model.quantised else ""


def _checkpoint(model: Model) -> list[tuple[str, str]]:
    """What the headers of its weights say: bytes by format, and by part."""
    held = model.checkpoint
    if held is None:
        return []
    formats = ((f"  as {name}", gib(size)) for name, size in held.formats.items())
    parts = ((f"  in {name}", gib(size)) for name, size in held.parts.items())
    return [(f"{held.kind} headers", gib(held.bytes)), *formats, *parts]


def model_text(model: Model) -> RenderableType:
    """One model's exact counts."""
    counted = model.parameters()
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(justify="right")
    vision = "not counted" if counted.vision is None else f"{counted.vision:,}" if counted.vision else ""
    further = "not counted" if counted.prediction is None else f"{counted.prediction:,}" if counted.prediction else ""
    rows = [
        ("parameters", f"{counted.total:,}"),
        ("  token embedding", f"{counted.embedding:,}"),
        ("  routed experts", f"{counted.experts:,}" if counted.experts else ""),
        ("  vision", vision),
        ("  active a token", f"{counted.active:,}"),
        ("    without the token embedding", f"{counted.active_without_embedding:,}"),
        ("beside them, predicting further tokens", further),
        ("beside them, vision", f"{counted.vision_apart:,}" if counted.vision_apart else ""),
        ("layers", f"{model.layers:,}"),
        ("KV cache a token (bf16)", f"{_kv(model):,.0f} B"),
        *_caches(model),
        ("weights (bf16)", gib(_number(model.weight_bytes(Precision("bf16"), Shard())))),
        ("weights (as stored)", _stored(model)),
        *_checkpoint(model),
    ]
    if model.max_positions:
        rows.append(("positions in the config", f"{model.max_positions:,}"))
    for row in rows:
        if row[1]:
            grid.add_row(*row)
    blocks: list[RenderableType] = [text(model.name, style="bold"), text(), grid]
    notes = [*model.assumptions, *(f"{key}: {value}" for key, value in model.sources.items())]
    return Group(*blocks, text(), bullets(notes)) if notes else Group(*blocks)
