"""A measured rate of tokens beside the bound of the same model, device and batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import cast

from roofline.catalogue import built_in
from roofline.cost import Work
from roofline.device import Device
from roofline.diagnosis.assessment import Assessment, BenchmarkRow
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.known import recognised
from roofline.dtypes import STORED
from roofline.errors import BadValue, RooflineError
from roofline.evidence.bench import Benchmark, Result
from roofline.evidence.training_log import Step, TrainingLog
from roofline.ledger import Ledger, predict
from roofline.model import Model
from roofline.reached import reach
from roofline.shard import Shard
from roofline.units import percent, si, significant
from roofline.workload import Precision, Workload

_SLOW = 0.8  # of what such kernels reach elsewhere at their lower quartile


@dataclass(frozen=True, slots=True)
class Run:
    """What a file may leave open: what ran, on what, how."""

    model: Model | None = None
    device: Device | None = None
    precision: Precision = field(default_factory=Precision)
    tp: int | None = None
    work: Work | None = None  # of one launch of a kernel


def assess_benchmark(benchmark: Benchmark, source: str, run: Run | None = None) -> Assessment:
    """Each result beside its bound; what neither the file nor `run` says is asked for, never guessed."""
    asked = run or Run()
    rows = tuple(_row(each, asked) for each in benchmark.results)
    device = asked.device or next((d for each in benchmark.results if (d := recognised(each.device)) is not None), None)
    findings = [found for row in rows for found in _findings(row)]
    notes = [
        "The bound of serving is that of its steady pass: a decode row for each request at once, and the prefill "
        "rows of those that take the place of the finished",
        *_formats(benchmark, asked),
    ]
    return Assessment(
        source=source,
        format=benchmark.results[0].tool,
        kind="benchmarks",
        card=benchmark.results[0].device,
        device=device,
        recognised_from="--device" if asked.device is not None else "the device's name in the file" if device else "",
        verdict=" ".join(each.sentence for each in rows[:3]),
        findings=ranked(findings),
        rows=rows,
        seconds=sum(each.duration or 0.0 for each in benchmark.results) or None,
        left_out=benchmark.left_out,
        warnings=(*benchmark.warnings, *dict.fromkeys(note for each in benchmark.results for note in each.notes)),
        notes=tuple(notes),
    )


def _formats(benchmark: Benchmark, run: Run) -> Iterable[str]:
    """What the bounds take the weights and the cache for."""
    said = dict.fromkeys(each.dtype for each in benchmark.results if each.dtype)
    for name in said if run.precision == Precision() else ():
        fits = next((each for each in _STORED if each[0].match(name)), None)
        if fits is not None:
            yield f"Formats: weights in {name} by the file, bounded as {fits[1]}; KV {run.precision.kv}"
    if not said or run.precision != Precision():
        weights = "as the checkpoint has them" if run.precision.weights == STORED else run.precision.weights
        yield f"Formats: weights {weights}, KV {run.precision.kv}, unless told otherwise"


def _row(found: Result, run: Run) -> BenchmarkRow:
    prefill = found.phase == "prefill"
    rate = found.input_rate if prefill else found.output_rate
    unit = "tokens read a second" if prefill else "tokens/s"
    model = run.model or built_in(found.model)
    device = run.device or (recognised(found.device) if found.device else None)
    ranks = run.tp or found.ranks or 1
    ledger: Ledger | None = None
    reason = _missing(found, rate, model, device)
    if not reason and model is not None and device is not None:
        try:
            ledger = predict(model, device, _workload(found), _precision(found, run), shard=Shard(ranks))
        except RooflineError as error:
            reason = str(error)
    sentence, bound, of_bound = _sentence(found, rate, unit, ledger, reason)
    reached = reach(ledger) if ledger is not None else None
    return BenchmarkRow(
        tool=found.tool,
        phase=found.phase,
        model=model.name if model is not None else found.model,
        measured=rate,
        unit=unit,
        bound=bound,
        of_bound=of_bound,
        reach=(reached.low, reached.median, reached.high) if reached is not None else None,
        per_token=found.per_token,
        step_bound=None if ledger is None else float(cast(float, ledger.total.bound_seconds)),
        bound_by="" if ledger is None else str(ledger.total.bound),
        concurrency=found.concurrency,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        ranks=ranks,
        sentence=sentence,
        reason=reason,
        facts={
            name: value
            for name in ("request_rate", "first_token", "latency", "duration", "input_rate")
            if (value := getattr(found, name)) is not None
        },
    )


# The largest format that holds no more bytes than what a benchmark names, so that the bound stays one, and the fastest
# rate that its kernels may count at.
_STORED = (
    (re.compile(r"I?Q[45]", re.IGNORECASE), "int4-g64", "int8"),  # 4.5 bits and more, of which scales are half a bit
    (re.compile(r".*4bit|int4|w4a16", re.IGNORECASE), "int4", "int8"),
    (re.compile(r"Q6", re.IGNORECASE), "fp6", "int8"),
    (re.compile(r"Q8|int8|w8a8", re.IGNORECASE), "int8", "int8"),
    (re.compile(r"mxfp4", re.IGNORECASE), "mxfp4", "fp8"),
    (re.compile(r"nvfp4", re.IGNORECASE), "nvfp4", "fp4"),
    (re.compile(r"(float8|fp8)", re.IGNORECASE), "fp8", "fp8"),
    (re.compile(r"(b?float16|bf16|f16|fp16|half)\Z", re.IGNORECASE), "bf16", "bf16"),
    (re.compile(r"(all )?(f32|float32|fp32)\Z", re.IGNORECASE), "fp32", "tf32"),
)


def _precision(found: Result, run: Run) -> Precision:
    """The formats of a result: those asked for, else what the file says of its weights."""
    if run.precision != Precision() or not found.dtype:
        return run.precision
    fits = next((each for each in _STORED if each[0].match(found.dtype)), None)
    if fits is None:
        raise BadValue(f"weights in {found.dtype} are no format that is known. Name one with --weights")
    device = run.device or (recognised(found.device) if found.device else None)
    rates = (fits[2], "fp8", "bf16", "fp16", "fp32-vector")
    rate = next((each for each in rates if device is not None and each in device.peak), run.precision.compute)
    return Precision(fits[1], run.precision.kv, compute=rate)


def _missing(found: Result, rate: float | None, model: Model | None, device: Device | None) -> str:
    """What keeps a result from having a bound, or ""."""
    if not rate:
        return "the file states no rate of tokens"
    if model is None:
        named = f" {found.model} is not built in:" if found.model else ""
        return f"the model is not known.{named} Name it with --model"
    if device is None:
        return "the device is not in the file. Name it with --device"
    if found.phase != "prefill" and not found.concurrency:
        return "how many requests ran at once is not in the file"
    if found.phase == "serving" and (not found.input_tokens or not found.output_tokens):
        return "the lengths of the requests are not in the file"
    return ""


def _workload(found: Result) -> Workload:
    """The steady pass of a benchmark."""
    at_once = max(round(min(found.concurrency or 1, found.completed or found.concurrency or 1)), 1)
    read, made = max(round(found.input_tokens or 1), 1), max(found.output_tokens or 1, 1)
    if found.phase == "prefill":
        return Workload.prefill(at_once, read, round(found.context or 0))
    context = found.context if found.context is not None else read + made / 2
    decode = Workload.decode(at_once, max(round(context), 1))
    if found.phase == "decode":
        return decode
    arriving = at_once / made  # requests that begin in each pass
    if arriving >= 1:
        return Workload.mixed(decode, Workload.prefill(round(arriving), read))
    chunk = round(read * arriving)
    if chunk < 1:
        return decode
    return Workload.mixed(decode, Workload.prefill(1, chunk, max((read - chunk) // 2, 0)))


def _sentence(
    found: Result, rate: float | None, unit: str, ledger: Ledger | None, reason: str
) -> tuple[str, float | None, float | None]:
    """What a result says; the bound [tokens/s] and the share of it."""
    said = f"{found.tool}: {significant(rate, 4)} {unit}" if rate else f"{found.tool}"
    if ledger is None or not rate:
        return f"{said}; no bound, as {reason}.", None, None
    seconds = cast(float, ledger.total.bound_seconds)
    tokens = sum(cast(float, each.tokens) for each in ledger.workload.groups if each.phase == _COUNTED[found.phase])
    bound = tokens / seconds
    share = rate / bound
    told = f"{said}, {percent(share, 3)} of the bound's {significant(bound, 4)} ({ledger.total.bound}-bound)"
    reached = reach(ledger)
    if share > 1:
        return (
            f"{told}. No sound measurement is above a bound: look for other formats, more devices, or speculation.",
            bound,
            share,
        )
    if reached is None:
        return f"{told}.", bound, share
    return f"{told}; kernels of these kinds reach {percent(reached.median)} elsewhere.", bound, share


_COUNTED = {"serving": "decode", "decode": "decode", "prefill": "prefill"}


def _findings(row: BenchmarkRow) -> Iterable[Finding]:
    if row.of_bound is None or row.reach is None or row.of_bound >= _SLOW * row.reach[0] or row.bound is None:
        return
    duration = row.facts.get("duration")
    yield Finding(
        "below-what-such-kernels-reach",
        f"{row.tool}: {percent(row.of_bound, 3)} of the bound, where such kernels reach {percent(row.reach[1])}",
        None if duration is None else duration * (1 - row.of_bound / row.reach[1]),
        (
            f"{significant(row.measured or 0.0, 4)} of {significant(row.bound, 4)} {row.unit}",
            *(
                (f"{si(row.per_token, 's')} a token, of {si(row.step_bound, 's')} for a pass",)
                if row.per_token and row.step_bound
                else ()
            ),
        ),
        "Is the batch full all the time? Then look between the kernels: a trace of a few passes (roofline record).",
    )


# --- training


def assess_training_log(log: TrainingLog, source: str, run: Run | None = None) -> Assessment:
    """The steady steps of a log: tokens and FLOPs a second of a device, as shares of its peak."""
    asked = run or Run()
    steady = log.steady
    row = _trained(log, steady, asked)
    dropped = len(log.steps) - len(steady)
    steps = (
        "1 step before the first steady one is" if dropped == 1 else f"{dropped} steps before the first steady one are"
    )
    notes = [f"{steps} left out as warm-up"] if dropped else []
    notes.append("MFU is by the framework's own count of FLOPs; the bound is by 6N: 6 FLOPs a parameter and token")
    return Assessment(
        source=source,
        format=log.tool,
        kind="benchmarks",
        card="",
        device=asked.device,
        recognised_from="--device" if asked.device is not None else "",
        verdict=row.sentence,
        findings=ranked(_training_findings(log, steady)),
        rows=(row,),
        seconds=sum(each.seconds or 0.0 for each in steady) or None,
        left_out=log.left_out,
        warnings=(*log.warnings, *_peak_warnings(steady, asked.device, asked.precision)),
        notes=tuple(notes),
    )


def _middle(steps: Sequence[Step], name: str) -> float | None:
    known = [value for each in steps if (value := getattr(each, name)) is not None]
    return median(known) if known else None


def _trained(log: TrainingLog, steady: Sequence[Step], run: Run) -> BenchmarkRow:
    tokens, flops, seconds = (_middle(steady, name) for name in ("tokens_per_gpu", "flops_per_gpu", "seconds"))
    peak = run.device.peak.get(run.precision.compute) if run.device is not None else None
    per_token = 6 * run.model.parameters().active if run.model is not None else None
    bound = peak / per_token if peak and per_token else None
    mfu = flops / peak if flops and peak else None
    parts = [f"{significant(tokens, 4)} tokens/s a device"] if tokens else []
    parts += [f"{si(flops, 'FLOP/s')} a device"] if flops else []
    parts += [f"{si(seconds, 's')} a step"] if seconds and not tokens else []
    said = f"{log.tool}: " + (", ".join(parts) or "steps without a speed")
    if mfu is not None and run.device is not None:
        said += f", {percent(mfu, 3)} of the {run.precision.compute} peak of {run.device.id}"
    elif run.device is None:
        said += "; name the device with --device for the share of its peak"
    facts = {
        "steps": float(len(steady)),
        **({"flops_per_gpu": flops} if flops else {}),
        **({"mfu": mfu} if mfu is not None else {}),
    }
    printed = _middle(steady, "mfu")
    return BenchmarkRow(
        tool=log.tool,
        phase="training",
        model=run.model.name if run.model is not None else "",
        measured=tokens,
        unit="tokens/s a device",
        bound=bound,
        of_bound=tokens / bound if tokens and bound else mfu,
        reach=None,
        per_token=None,
        step_bound=None,
        bound_by="compute" if bound or mfu else "",
        concurrency=None,
        input_tokens=None,
        output_tokens=None,
        ranks=None,
        sentence=said + ".",
        reason="" if mfu is not None or bound else "the device or the model is not known",
        facts={
            **facts,
            **({"printed_mfu": printed} if printed is not None else {}),
            **({"step_seconds": seconds} if seconds else {}),
        },
    )


def _peak_warnings(steady: Sequence[Step], device: Device | None, precision: Precision) -> Iterable[str]:
    flops, mfu = _middle(steady, "flops_per_gpu"), _middle(steady, "mfu")
    if not flops or not mfu:
        return
    implied = flops / mfu
    peak = device.peak.get(precision.compute) if device is not None else None
    if peak and abs(implied / peak - 1) > 0.02 and device is not None:
        yield (
            f"the log's MFU divides by a peak of {si(implied, 'FLOP/s')}, the {precision.compute} peak of {device.id} "
            f"is {si(peak, 'FLOP/s')}: its MFU would be {percent(flops / peak, 3)}"
        )


def _training_findings(log: TrainingLog, steady: Sequence[Step]) -> Iterable[Finding]:
    times = [each.seconds for each in steady if each.seconds]
    if len(times) < 5:
        return
    middle = median(times)
    slow = [each for each in times if each > 1.2 * middle]
    if slow and len(slow) < len(times) / 2:
        yield Finding(
            "slow-steps",
            f"{len(slow)} of {len(times)} steps take over 1.2 times the median",
            sum(slow) - middle * len(slow),
            (f"median {si(middle, 's')}, slowest {si(max(slow), 's')}",),
            "Checkpoints, evaluation, garbage collection, input, or a straggler: see at which step numbers they fall.",
        )
