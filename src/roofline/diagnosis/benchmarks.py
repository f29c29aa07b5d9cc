"""A measured rate of tokens beside the bound of the same model, device and batch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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
    sequences: int | None = None  # at once
    input_tokens: int | None = None  # of each request
    output_tokens: int | None = None


def assess_benchmark(benchmark: Benchmark, source: str, run: Run | None = None) -> Assessment:
    """Each result beside its bound; what neither the file nor `run` says is asked for, never guessed."""
    asked = run or Run()
    benchmark = replace(benchmark, results=tuple(_completed(each, asked) for each in benchmark.results))
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
        warnings=(
            *benchmark.warnings,
            *dict.fromkeys(note for each in benchmark.results for note in (*each.notes, *_others(each, asked))),
        ),
        notes=tuple(notes),
    )


def _completed(found: Result, run: Run) -> Result:
    """A result with what the run says that its file does not; rates that follow from it are worked out."""
    read, made = found.input_tokens or run.input_tokens, found.output_tokens or run.output_tokens
    concurrency, source = found.concurrency, found.concurrency_from
    if not concurrency and run.sequences:
        concurrency, source = run.sequences, "as asked for"
    rate = found.output_rate
    if rate is None and found.batch_latency and made and run.sequences:
        rate = run.sequences * made / found.batch_latency
    if rate is None and found.token_rate and read and made:
        rate = found.token_rate * made / (read + made)
    dtype = found.dtype or next((match[1] for match in _IN_NAME.finditer(found.model)), "")
    return replace(
        found,
        input_tokens=read,
        output_tokens=made,
        concurrency=concurrency,
        concurrency_from=source,
        output_rate=rate,
        dtype=dtype,
    )


# How checkpoints are called by the format of their weights: "Qwen3-8B-FP8", "Llama-3.3-70B-Instruct-AWQ".
_IN_NAME = re.compile(
    r"[-_.](FP8|NVFP4|MXFP4|AWQ|GPTQ(?:-INT[48])?|INT[48]|W4A16|W8A8|W8A16)(?=[-_.]|\Z)", re.IGNORECASE
)


def _others(found: Result, run: Run) -> Iterable[str]:
    """Where a file names another device or model than the one that is asked for."""
    there = recognised(found.device) if found.device else None
    if run.device is not None and found.device and (there is None or there.id != run.device.id):
        yield f"the file names {found.device}, and the bound is that of {run.device.id}, as asked for"
    named = built_in(found.model) if found.model else None
    if run.model is not None and named is not None and named.name != run.model.name:
        yield f"the file names {found.model}, and the bound is that of {run.model.name}, as asked for"


def _formats(benchmark: Benchmark, run: Run) -> Iterable[str]:
    """What the bounds take the weights and the cache for."""
    said = dict.fromkeys((each.dtype, _cache(each.kv, run)) for each in benchmark.results if each.dtype)
    for name, kv in said if run.precision == Precision() else ():
        fits = _format(name)
        if fits is not None:
            yield f"Formats: weights in {name} by the file, bounded as {fits[1]}; KV {kv}"
    if not said or run.precision != Precision():
        weights = "as the checkpoint has them" if run.precision.weights == STORED else run.precision.weights
        yield f"Formats: weights {weights}, KV {run.precision.kv}, unless told otherwise"


def _format(name: str) -> tuple[re.Pattern[str], str, str] | None:
    """The format, and the rate, that a benchmark's word for one is bounded by."""
    return next((each for each in _STORED if each[0].match(name)), None)


def _cache(name: str, run: Run) -> str:
    """The format of a cache that a benchmark calls so, that of the run where it says none."""
    fits = _format(name) if name else None
    return run.precision.kv if fits is None or fits[1] == "fp32" else fits[1]


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
    (re.compile(r".*4bit|.*int4|w4a|awq|gptq(?!-int8)", re.IGNORECASE), "int4", "int8"),
    (re.compile(r"Q6", re.IGNORECASE), "fp6", "int8"),
    (re.compile(r"Q8|.*int8|w8a", re.IGNORECASE), "int8", "int8"),
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
    fits = _format(found.dtype)
    if fits is None:
        raise BadValue(f"weights in {found.dtype} are no format that is known. Name one with --weights")
    device = run.device or (recognised(found.device) if found.device else None)
    rates = (fits[2], "fp8", "bf16", "fp16", "fp32-vector")
    rate = next((each for each in rates if device is not None and each in device.peak), run.precision.compute)
    return Precision(fits[1], _cache(found.kv, run), compute=rate)


def _missing(found: Result, rate: float | None, model: Model | None, device: Device | None) -> str:
    """What keeps a result from having a bound, or ""."""
    if not rate:
        return _rateless(found)
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


def _rateless(found: Result) -> str:
    """Why a result has no rate of its phase."""
    if found.batch_latency:
        return "the file states no rate of tokens. Name its batch and lengths: --sequences, --input, --output"
    if found.token_rate:
        return "its rate is of tokens read and made together. Name the lengths of its requests: --input, --output"
    return "the file states no rate of tokens"


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
