"""A ledger's setting in words: what was run, in which formats, on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from roofline.crossing import SLIGHT, Crossover
from roofline.units import GIGA, MEGA, TERA, gib, percent, si, significant
from roofline.workload import CALL, Precision, Rows

if TYPE_CHECKING:
    from roofline.capacity import Memory
    from roofline.ledger import Ledger
    from roofline.levers import Lever


def title(ledger: Ledger) -> str:
    """Model, device, rows and formats in a line."""
    return f"{subject(ledger)}: {setting(ledger)}"


def subject(ledger: Ledger) -> str:
    """Model and device."""
    device = f"{ledger.shard.tp} x {ledger.device.name}" if ledger.shard.tp > 1 else ledger.device.name
    return f"{ledger.model.name} on {device}"


def setting(ledger: Ledger) -> str:
    """Rows and formats."""
    if ledger.workload.phase == CALL:
        return f"one call, matrix products at {ledger.precision.compute}"
    return f"{'; '.join(_rows(each) for each in ledger.workload.groups)}, {_formats(ledger.precision)}"


def _rows(rows: Rows) -> str:
    sequences, new, context = (int(cast(float, each)) for each in (rows.sequences, rows.new, rows.context))
    who = many(sequences, "sequence")
    if rows.phase == "decode":
        return f"decode of {who} at {many(context, 'token')}" + (f", {new:,} new each" if new > 1 else "")
    cached = f"{context:,} cached" if context else "nothing"
    return f"prefill of {who} with {many(new, 'new token')} on {cached}"


def many(n: int, thing: str) -> str:
    """A count of things."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def _formats(precision: Precision) -> str:
    kinds = {
        "weights": precision.weights,
        "KV": precision.kv,
        "activations": precision.activations,
        "compute": precision.compute,
    }
    if len(set(kinds.values())) == 1:
        return precision.weights
    return ", ".join(f"{kind} {name}" for kind, name in kinds.items())


def _float(value: object) -> float:
    return cast(float, value)


def rate(ledger: Ledger, seconds: float) -> str:
    """Tokens a second; of a mixed pass those that are generated apart from those that are read; of a module, calls."""
    if ledger.workload.phase == CALL:
        return f"{significant(1 / seconds, 4)} calls/s"
    rates = {"decode": 0.0, "prefill": 0.0}
    for rows in ledger.workload.groups:
        rates[rows.phase] += _float(rows.tokens) / seconds
    if all(rates.values()):
        return f"{significant(rates['decode'], 4)} + {significant(rates['prefill'], 4)} tokens/s"
    return f"{significant(sum(rates.values()), 4)} tokens/s"


def unit(ledger: Ledger) -> str:
    """What throughput counts."""
    return "calls/s" if ledger.workload.phase == CALL else "tokens/s"


def intensity(value: float) -> str:
    """FLOP per byte, as a column shows it."""
    if value >= MEGA:
        return f"{value:.3g}"
    return f"{value:.2f}" if value < 10 else significant(value)


def share(value: float) -> str:
    """A share of the time, as a column shows it."""
    return f"{100 * value:.1f} %" if value >= 0.0005 else "<0.1 %"


def largest(ledger: Ledger, held: Memory) -> str:
    """The largest batch that fits, as a sentence; nothing of a module, which has one."""
    if ledger.workload.phase == CALL:
        return ""
    if held.max_sequences is None:
        return "No batch is too large."
    rows = " of decode rows" if ledger.workload.phase == "mixed" else ""
    return f"Largest batch{rows} at this context: {held.max_sequences:,}." if held.max_sequences else "No batch fits."


def longest(ledger: Ledger, held: Memory) -> str:
    """The longest context that fits, as a sentence; nothing of a module."""
    if ledger.workload.phase == CALL:
        return ""
    if held.max_context == 0 and not held.fits:
        return "No context fits."
    most = ledger.model.max_positions
    named = f" (the config names {most:,})" if most and (held.max_context is None or held.max_context > most) else ""
    if held.max_context is None:
        return f"No context is too long{named}."
    before = " before the new tokens" if ledger.workload.phase == "prefill" else ""
    return f"Longest context{before} at this batch: {held.max_context:,}{named}."


def figure(key: str, value: float) -> str:
    """A figure of a device's file with the unit that its key has."""
    if key.startswith("peak."):
        unit = "OP/s" if key.startswith("peak.int") else "FLOP/s"
        return f"{significant(value / TERA, 4)} T{unit}" if value >= TERA else si(value, unit)
    if key.endswith("bandwidth"):
        return f"{significant(value / GIGA, 4)} GB/s"
    if key.startswith(("memory.", "cache.")):
        return gib(value)
    unit = {"chip.boost_clock": "Hz", "chip.power": "W"}.get(key)
    if unit is None:
        return si(value, "s") if key.endswith("latency") else f"{value:,.0f}"
    return si(value, unit)


def conditions(lever: Lever, held: Memory) -> str:
    """What a lever takes, and whether the pass then fits, where it does not or that changes."""
    said: list[str] = []
    if lever.fits is False or lever.fits is not held.fits:
        said.append("fits" if lever.fits else "does not fit")
    if lever.ranks > 1:
        each = f"{100 * lever.gain_per_device:+.0f} %"
        said.append(f"{'as much' if each[1:] == '0 %' else each} a device")
    return ", ".join(said)


def then(each: Crossover) -> str:
    """What holds from the turn of a crossover on, or throughout."""
    share = "" if each.threshold is None else percent(each.threshold, 1 if each.threshold < 2 * SLIGHT else 2)
    said = {
        ("longer", each.after): f"{each.after} longer",
        ("gain", "idle"): f"gain under {share}",
        ("gain", "help"): f"gain over {share}",
        ("rate", "reached"): f"{share} of the limit",
        ("rate", "below"): f"under {share} of it",
        ("cost", "dearer"): f"{share} over 1 token",
        ("cost", "as cheap"): f"within {share} of 1",
        ("knee", "own"): "own time > shared",
        ("verdict", "link"): "communication-bound",
        ("verdict", "launch"): "latency-bound",
        ("verdict", each.after): f"{each.after}-bound",
    }
    return said.get((each.kind, each.after), each.after)
