"""A running fleet: the counters of the last minute of every card, judged as those of a file are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan

from roofline.device import Device
from roofline.diagnosis.assessment import Assessment
from roofline.diagnosis.counters import assess_counters
from roofline.errors import TraceError
from roofline.evidence.counters import Counters, Series
from roofline.evidence.scrape import Target, scrape, target

WINDOW = 60.0  # [s]
_MOST = 600  # samples of one card in the window


@dataclass(slots=True)
class Watch:
    """Cards that are asked again and again; `silent` is the error of the last answer that did not come, or ""."""

    url: str
    device: Device | None = None
    silent: str = ""
    _where: Target | None = None
    _seen: dict[str, tuple[str, deque[tuple[float, Mapping[str, float]]]]] = field(
        default_factory=dict[str, tuple[str, "deque[tuple[float, Mapping[str, float]]]"]]
    )
    _form: str = ""

    def ask(self, now: float | None = None) -> Assessment | None:
        """Ask once, and judge the last minute; None where it is empty. Raises TraceError where nothing ever came."""
        at = time.time() if now is None else now
        if self._where is None:
            self._where = target(self.url)
        try:
            found, self._where = scrape(self._where)
        except TraceError as error:
            if not self._seen:
                raise
            self.silent = str(error)
        else:
            self.silent = ""
            self._keep(found, at)
        return self._judged(at)

    def _keep(self, found: Counters, at: float) -> None:
        self._form = found.form
        for series in found.gpus:
            values = {name: column[-1] for name, column in series.columns.items() if not isnan(column[-1])}
            self._seen.setdefault(series.name, (series.card, deque(maxlen=_MOST)))[1].append((at, values))

    def _judged(self, at: float) -> Assessment | None:
        gpus: list[Series] = []
        for name, (card, samples) in list(self._seen.items()):
            while samples and samples[0][0] < at - WINDOW:
                samples.popleft()
            if not samples:
                del self._seen[name]
                continue
            series = Series(name, card)
            for when, values in samples:
                series.add(values, when)
            gpus.append(series)
        if not gpus:
            return None
        name = self._where.name if self._where is not None else self.url
        return assess_counters(Counters(self._form, tuple(gpus)), name, self.device)
