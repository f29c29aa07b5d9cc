"""`roofline watch`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from roofline.cli.options import option, print_text
from roofline.errors import BadValue, shown

if TYPE_CHECKING:
    from roofline.diagnosis.watching import Watch


def _interval(name: str, text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise BadValue(f"{name}: {shown(text)} is no interval. Write seconds from 0.1 to 3600, as 2.")
    return value


def _times(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < len(text) < 8 or int(text) < 1:
        raise BadValue(f"{name}: {shown(text)} is no number of times. Write a whole number from 1.")
    return int(text)


def watch(
    url: str,
    /,
    *,
    interval: Annotated[float, option(_interval)] = 2.0,
    count: Annotated[int | None, option(_times)] = None,
    device: Annotated[str | None, Parameter(negative=())] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """What limits every GPU of an exporter right now, in the terminal, until Ctrl-C.

    Parameters
    ----------
    url
        dcgm-exporter (http://HOST:9400/metrics) or a Prometheus server that collects from one (http://HOST:9090).
    interval
        Seconds between two questions.
    count
        Stop after so many.
    device
        The cards, where the exporter does not name them: a device id (roofline devices) or a device's TOML file.
    json
        One JSON object a line for each answer.
    """
    from roofline.catalogue import load_device
    from roofline.diagnosis.watching import Watch

    asked = Watch(url, None if device is None else load_device(device))
    try:
        if json:
            _lines(asked, interval, count)
        else:
            _live(asked, interval, count)
    except KeyboardInterrupt:
        pass
    return 0


def _lines(asked: Watch, interval: float, count: int | None) -> None:
    import json

    done = 0
    while count is None or done < count:
        if done:
            time.sleep(interval)
        found = asked.ask()
        if found is not None and not asked.silent:
            print_text(json.dumps(found.to_dict(), allow_nan=False) + "\n")
        done += 1


def _live(asked: Watch, interval: float, count: int | None) -> None:
    from rich.live import Live

    from roofline.show.terminal import console, show
    from roofline.show.watch import watch_text

    first = asked.ask()  # an address that never answers is an error, not an empty table
    out = console()
    if not out.is_terminal:
        show(watch_text(first, asked.silent))
        for _ in range(1, count or 1):
            time.sleep(interval)
            show(watch_text(asked.ask(), asked.silent))
        return
    with Live(
        watch_text(first, asked.silent, out.height), console=out, auto_refresh=False, screen=count is None
    ) as live:
        done = 1
        while count is None or done < count:
            time.sleep(interval)
            live.update(watch_text(asked.ask(), asked.silent, out.height), refresh=True)
            done += 1
