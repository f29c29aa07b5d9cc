"""How a ledger shows itself in a notebook: offline, as text first, the roofline in the colours of the reader."""

from __future__ import annotations

from typing import Any

from roofline.ledger import Ledger
from roofline.show.page import fragment
from roofline.show.report import ledger_report


def ledger_bundle(ledger: Ledger) -> dict[str, Any]:
    """HTML without scripts, and text; a ledger over arrays is its repr."""
    if not isinstance(ledger.total.seconds, (int, float)):
        return {"text/plain": repr(ledger)}
    report = ledger_report(ledger)
    html = fragment("notebook.html", ledger.chart().untitled().sized(height=320), {"report": report})
    return {"text/html": html, "text/plain": f"{report.title}: {report.setting}\n{report.verdict}"}
