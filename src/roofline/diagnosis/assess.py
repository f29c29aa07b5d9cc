"""From evidence without a timeline to its assessment."""

from __future__ import annotations

from roofline.diagnosis.assessment import Assessment
from roofline.diagnosis.benchmarks import Run, assess_benchmark
from roofline.diagnosis.collectives import assess_collectives
from roofline.diagnosis.counters import assess_counters
from roofline.diagnosis.kernels import assess_launches, assess_sums
from roofline.diagnosis.training_logs import assess_training_log
from roofline.evidence.bench import Benchmark
from roofline.evidence.counters import Counters
from roofline.evidence.nccl import Log
from roofline.evidence.ncu import Report
from roofline.evidence.nsys_stats import Sums
from roofline.evidence.readers import Evidence


def assess(evidence: Evidence, source: str, run: Run | None = None) -> Assessment:
    """What a file without a timeline says of `run`, which holds what the file leaves open."""
    asked = run or Run()
    if isinstance(evidence, Report):
        return assess_launches(evidence, source, asked.device, asked.work)
    if isinstance(evidence, Sums):
        return assess_sums(evidence, source, asked.device)
    if isinstance(evidence, Counters):
        return assess_counters(evidence, source, asked.device)
    if isinstance(evidence, Log):
        return assess_collectives(evidence, source, asked.device)
    if isinstance(evidence, Benchmark):
        return assess_benchmark(evidence, source, asked)
    return assess_training_log(evidence, source, asked)
