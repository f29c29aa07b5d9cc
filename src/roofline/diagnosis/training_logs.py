"""Step lines of a training run: the steady ones as shares of the device's peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from roofline.device import Device
from roofline.diagnosis.assessment import Assessment, BenchmarkRow
from roofline.diagnosis.benchmarks import Run
from roofline.diagnosis.findings import Finding, ranked
from roofline.evidence.training_log import Step, TrainingLog
from roofline.units import percent, si, significant
from roofline.workload import Precision


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
    elif not tokens and not flops:
        said += "; its lines have neither tokens nor FLOPs: roofline mfu takes --step-time, --global-batch and --gpus"
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
        reason="" if mfu is not None or (bound and tokens) else _untrained(tokens or flops),
        facts={
            **facts,
            **({"printed_mfu": printed} if printed is not None else {}),
            **({"step_seconds": seconds} if seconds else {}),
        },
    )


def _untrained(speed: float | None) -> str:
    return "the device or the model is not known" if speed else "the lines have neither tokens nor FLOPs"


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
