"""The report of a file without a timeline: counters, collectives, benchmarks, kernels of Nsight Compute."""

from __future__ import annotations

from roofline.diagnosis.assessment import Assessment
from roofline.diagnosis.result import Diagnosis
from roofline.show.assessment import rows_text
from roofline.show.diagnosis_report import diagnosis_report
from roofline.show.names import visible
from roofline.show.report import Finding, Report, Section
from roofline.show.terminal import plain
from roofline.units import si

_WIDTH = 92


def report_of(found: Diagnosis | Assessment) -> Report:
    """The report of whatever a profile was."""
    return diagnosis_report(found) if isinstance(found, Diagnosis) else assessment_report(found)


def assessment_report(found: Assessment, command: str = "") -> Report:
    """The report of an assessment: verdict, what to change, what was measured, what was left out."""
    device = found.device.name if found.device is not None else found.card or "device unknown"
    measured = plain(rows_text(found), _WIDTH)
    lines = [*found.notes, *(f"Left out: {n:,} {what}" for what, n in found.left_out.items())]
    sections = [
        *([Section("What was measured", code=measured)] if measured.strip() else []),
        *([Section("Notes", points=[visible(each) for each in lines])] if lines else []),
        *([Section("Reproduce", code=command)] if command else []),
    ]
    return Report(
        kind="Diagnosis: what a measured run says of its limit",
        title=visible(device),
        setting=visible(f"{found.source}: {found.format}"),
        verdict=found.verdict,
        figures=[],
        sections=sections,
        notes=[f"{visible(each)}." for each in found.warnings],
        findings=[
            Finding(
                visible(each.title) + (f": {si(each.at_stake, 's', 3)} at stake" if each.at_stake else ""),
                each.advice,
                list(map(visible, each.evidence)),
            )
            for each in found.findings
        ],
    )
