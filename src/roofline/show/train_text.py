"""A training step, and a search over plans, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.console import Group, RenderableType

from roofline.bound import VERDICTS, bound
from roofline.num import Num
from roofline.show.terminal import bullets, table, text
from roofline.show.training_record import link_of
from roofline.show.training_text import lines_of
from roofline.training.answer import Answer
from roofline.training.fitting import MOST_TIMES
from roofline.training.plan import Plan
from roofline.training.search import Found
from roofline.training.step import FORWARD, INPUTS, RECOMPUTED, UPDATE, WEIGHTS
from roofline.units import GIB, column, gib, percent, scale, si, significant

_STAGES = {
    FORWARD: "forward",
    RECOMPUTED: "recomputed",
    INPUTS: "backward, inputs (dX)",
    WEIGHTS: "backward, weights (dW)",
    UPDATE: "update",
}
_SHOWN = ("6n", "palm", "exact", "hfu-exact")


def _f(n: Num | None) -> float:
    return float(cast(float, n))


def train_text(answer: Answer) -> RenderableType:
    """The step's times, stages, traffic, memory, knobs and assumptions."""
    return Group(
        text(_title(answer), "bold"),
        *(text(f"Note: {each}.", "yellow") for each in answer.warnings),
        text(),
        text(_verdict(answer)),
        text(),
        _times(answer),
        text(),
        _stages(answer),
        text(),
        *_traffic(answer),
        *_memory(answer),
        text(),
        *_knobs(answer),
        text(),
        text("Assumptions", "bold dim"),
        bullets(answer.assumptions),
    )


def plan_words(plan: Plan, layers: int) -> str:
    """A plan of so many layers in one line."""
    sizes = {"dp": plan.dp, "tp": plan.tp, "pp": plan.pp, "cp": plan.cp, "ep": plan.ep}
    words = [f"{name} {int(_f(n))}" for name, n in sizes.items() if name == "dp" or n != 1]
    words += [f"zero {int(_f(plan.zero))}"] if plan.zero else []
    words += [f"micro-batch {int(_f(plan.micro_batch))} x {int(_f(plan.accumulate))}"]
    words += [f"{int(_f(plan.chunks))} chunks"] if plan.chunks != 1 else []
    words += [plan.stages(layers).words] if plan.pp != 1 else []
    words += ["sequence-parallel"] if plan.sequence_parallel and plan.tp > 1 else []
    words += [plan.schedule] if plan.pp != 1 and plan.schedule != Plan().schedule else []
    return ", ".join(words)


def _title(answer: Answer) -> str:
    setting = answer.setting
    what = f"{setting.model.name} on {answer.gpus:,} x {setting.cluster.device.name}"
    step = f"{answer.tokens:,} tokens a step in sequences of {setting.length:,}"
    again = setting.recipe.recompute
    words = plan_words(setting.plan, setting.model.layers)
    return f"{what}: {step}; {words}{'' if again.word == 'none' else f', recompute {again.word}'}"


def _verdict(answer: Answer) -> str:
    """What most of the bound goes to."""
    step = answer.step
    spent = {"compute": 0.0, "memory": 0.0, "link": 0.0, "launch": 0.0}
    for call in step.calls:
        known = set(call.work.cost.links) <= {each.name for each in step.device.links}
        if known:
            found = bound(call.work.cost, step.device)
            spent[found.by] += _f(call.calls * found.seconds)
    spent["link"] += (1 - _f(answer.setting.overlap)) * _f(step.flow_seconds)
    bubble = _f(step.bubble(step.times))
    by = max(spent, key=lambda each: spent[each])
    share = spent[by] / (sum(spent.values()) + bubble)
    waits = f"; the pipeline waits {percent(_f(step.bubble_share))} of it" if bubble else ""
    said = f"{VERDICTS[by]}: {percent(share)} of the step{waits}"
    if answer.measured is not None or answer.share_of_step is None:
        return f"{said}, at its bound."
    return f"{said}; {percent(answer.share_of_step)} is exposed communication."


def _times(answer: Answer) -> RenderableType:
    step = answer.step
    rows: list[tuple[str, float, str]] = [
        (answer.basis, answer.seconds, _meant(answer)),
        ("no overlap", _f(step.no_overlap_seconds), _ONE_BY_ONE),
        ("bound", _f(step.bound_seconds), "kernels one after another, other traffic beside"),
        ("floor", _f(step.floor_seconds), "perfect overlap, no bubble"),
    ]
    if answer.basis == "no overlap":
        del rows[1]
    lines = [
        (name, f"{si(seconds, 's')}  {significant(answer.tokens / seconds, 4)} tokens/s", meaning)
        for name, seconds, meaning in rows
    ]
    used = {each.convention.name: each for each in answer.utilisation.conventions}
    shares = [f"{name} {percent(_f(used[name].value), 3)}" for name in _SHOWN if isinstance(used[name].value, float)]
    of = f"{_timed(answer)}: {', '.join(shares)}"
    lines.append(("MFU, HFU", percent(_f(used["6n"].value), 3), f"of the step of {of}"))
    if answer.days is not None:
        hours = f"{significant(_f(answer.gpu_hours), 4)} GPU-hours for {_f(answer.budget):,.0f} tokens"
        lines.append(("run", f"{significant(answer.days, 4)} days", f"of steps of {_timed(answer)}: {hours}"))
    return lines_of(lines)


_ONE_BY_ONE = "all traffic after the compute"


def _timed(answer: Answer) -> str:
    """The time that MFU, days and knobs rest on, by name."""
    return f"{si(answer.seconds, 's')} ({answer.basis})"


def _meant(answer: Answer) -> str:
    """What the step's time stands for."""
    setting, given = answer.setting, answer.computed or 0.0
    meanings = {
        "measured": f"as given: {significant(answer.seconds / _f(answer.step.bound_seconds))} times the bound",
        "measured compute": f"{si(given, 's')} as given, with the traffic added",
        "derated": f"at the efficiency asked for, {percent(_f(setting.overlap))} of the traffic hidden",
        "some overlap": f"{percent(_f(setting.overlap))} of the traffic hidden",
        "no overlap": _ONE_BY_ONE,
    }
    return meanings[answer.basis]


def _stages(answer: Answer) -> RenderableType:
    """The rank's ledger, summed by what the kernels are for."""
    step = answer.step
    found: list[tuple[str, float, float, float]] = []
    for stage, name in _STAGES.items():
        calls = [call for call in step.calls if call.stage == stage]
        if calls:
            flops = sum(_f(call.calls * call.work.flops) for call in calls)
            moved = sum(_f(call.calls * call.work.bytes) for call in calls)
            seconds = sum(_f(call.calls * step.seconds_of(call.work)) for call in calls)
            found.append((name, flops, moved, seconds))
    flop, byte = sum(each[1] for each in found), sum(each[2] for each in found)
    time = sum(each[3] for each in found)
    (flop_scale, flop_unit), (byte_scale, byte_unit) = scale(flop, "FLOP"), scale(byte, "B")
    time_scale, time_unit = scale(time, "s")
    heads = [("one rank's step", "left"), (flop_unit, "right"), (byte_unit, "right"), ("FLOP/B", "right")]
    heads += [(f"bound {time_unit}", "right"), ("share", "right")]
    cells = [
        [each[0] for each in found],
        column([each[1] for each in found], flop_scale, 5),
        column([each[2] for each in found], byte_scale, 5),
        [significant(each[1] / each[2]) if each[2] else "0" for each in found],
        column([each[3] for each in found], time_scale, 5),
        [percent(each[3] / time) for each in found],
    ]
    return table(heads, [list(row) for row in zip(*cells, strict=True)])


def _traffic(answer: Answer) -> list[RenderableType]:
    """What a rank sends, by kind."""
    if not answer.traffic:
        return []
    heads = [("sent by a rank", "left"), ("kind", "left"), ("ranks", "right"), ("link", "left"), ("bytes", "right")]
    heads += [("time", "right"), ("exposed", "right")]
    rows: list[list[str]] = []
    for flow in answer.traffic:
        seconds = None if flow.seconds is None else _f(flow.seconds)
        waits = None if seconds is None else seconds * (1 - _f(answer.setting.overlap) if flow.overlaps else 1)
        rows.append(
            [
                flow.what,
                flow.kind,
                f"{int(_f(flow.ranks)):,}",
                link_of(flow),
                si(_f(flow.sent), "B"),
                "unknown" if seconds is None else si(seconds, "s"),
                "unknown" if waits is None else si(waits, "s"),
            ]
        )
    return [table(heads, rows), text(), text(_communication(answer)), text()]


def _communication(answer: Answer) -> str:
    """How long the step waits for what is sent; of a measured step what the bandwidths leave it to hide."""
    taken, share, of_step = si(answer.exposed_seconds, "s"), answer.share, answer.share_of_step
    if share is None or of_step is None:
        return f"Communication: {taken} at these bandwidths, more than the step has: some of it is hidden."
    if answer.measured is not None:
        return f"Communication: {taken} at these bandwidths, {percent(of_step, 4)} of the step where nothing hides it."
    return (
        f"Communication: {taken} exposed, {percent(share, 4)} of the rest of the step, {percent(of_step, 4)} of it all."
    )


def _memory(answer: Answer) -> list[RenderableType]:
    held = answer.step.footprint
    parts = {
        "weights": held.weight_bytes,
        "gradients": held.gradient_bytes,
        "optimizer": held.optimizer_bytes,
        "activations": held.activation_bytes,
        "logits": held.logit_bytes,
    }
    listed = ", ".join(f"{name} {gib(_f(size))}" for name, size in parts.items() if _f(size))
    if held.capacity_bytes is None or held.available_bytes is None:
        return [text(f"Memory: {gib(_f(held.total_bytes))}: {listed}. The capacity is unknown.")]
    of = f"{gib(_f(held.total_bytes))} of {gib(held.available_bytes)}: {listed}."
    head = text(f"Fits: {of}") if held.fits else text(f"Does not fit: {of}", "bold red")
    most = int(_f(held.largest_micro_batch))
    line = f"Largest micro-batch: {most:,}." if most else "No micro-batch fits."
    return [head, text(line if held.fits else f"{line} {_remedy(answer)}")]


def _remedy(answer: Answer) -> str:
    """What would make it fit, in one line."""
    found = answer.remedy
    if found is None:
        return (
            "Nor does it with ZeRO-3, full recomputation, more pipeline ranks, tensor ranks on one known scale-up link "
            f"or up to {MOST_TIMES * answer.gpus:,} GPUs."
        )
    return f"It fits with {found.options}: {gib(found.total_bytes)}."


def _knobs(answer: Answer) -> list[RenderableType]:
    found = [each for each in answer.knobs if abs(each.saves) > 1 / 2000]
    if not found:
        return []
    rows = [[each.change, si(each.seconds, "s"), _changed(each.saves)] for each in found]
    modelled = answer.measured is None and answer.computed is None
    of = _timed(answer) if modelled else f"{si(_f(answer.step.seconds), 's')} that is modelled, not measured"
    head = text(f"What would change the step of {of}:")
    return [head, text(), table([("change", "left"), ("step", "right"), ("time per token", "right")], rows)]


def _changed(saves: float) -> str:
    """What a change does to the time of a token."""
    return f"{'-' if saves > 0 else '+'}{percent(abs(saves), 3)}"


def search_text(found: Found, answer: Answer | None) -> RenderableType:
    """The best plans, why each, why not the others, and the best in full."""
    head = text(f"{found.looked_at:,} plans divide, {found.fitting:,} of them fit.", "bold")
    refused = [f"{n:,} x {reason}" if n > 1 else reason for reason, n in found.refused]
    blocks: list[RenderableType] = [head, text()]
    if found.pareto:
        blocks += [_candidates(found), text(), text("Why", "bold dim"), bullets(_whys(found)), text()]
    if refused:
        blocks += [text("Not possible", "bold dim"), bullets(refused), text()]
    if answer is not None:
        blocks.append(train_text(answer))
    return Group(*blocks)


def _candidates(found: Found) -> RenderableType:
    heads = [(name, "right") for name in ("", "dp", "tp", "pp", "cp", "ep", "zero", "batch", "chunks")]
    heads += [("recompute", "left"), ("step", "right"), ("memory", "right"), ("bubble", "right"), ("exposed", "right")]
    rows: list[list[str]] = []
    for i, each in enumerate(found.pareto, 1):
        plan = each.plan
        sizes = [str(n) for n in (plan.dp, plan.tp, plan.pp, plan.cp, plan.ep, plan.zero)]
        rows.append(
            [
                str(i),
                *sizes,
                f"{plan.micro_batch}x{plan.accumulate}",
                str(plan.chunks),
                each.recompute,
                si(each.seconds, "s"),
                f"{each.memory_bytes / GIB:.1f} GiB",
                percent(each.bubble_share) if each.bubble_share else "",
                percent(each.exposed_seconds / each.seconds),
            ]
        )
    return table(heads, rows, shrinks=8)


_TOLD = 4


def _whys(found: Found) -> Sequence[str]:
    return [f"{i}: {each.why}" for i, each in enumerate(found.pareto[:_TOLD], 1)]
