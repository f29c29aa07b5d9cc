"""`roofline predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from roofline.cli.options import Setting, print_json, written

if TYPE_CHECKING:
    from roofline.comparison import Measured, Price
    from roofline.ledger import Ledger


def predict(
    model: str,
    /,
    *,
    setting: Setting,
    against: Annotated[str | None, Parameter(negative=())] = None,
    measured: Annotated[float | None, Parameter(negative=())] = None,
    price: Annotated[float | None, Parameter(negative=())] = None,
    chart: Annotated[str | None, Parameter(negative=())] = None,
    plot: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """The most that a model can do on a device, kernel by kernel, and what limits it.

    Parameters
    ----------
    model
        A built-in name (roofline models), a Hugging Face id, a folder, a config.json, a GGUF file,
        hf://OWNER/NAME (its headers too), or 7B (weights only).
    against
        A device, or "FIELD=VALUE ..." of options, device and model: a second ledger beside the first.
    measured
        Tokens a second that were measured: what share of the bound they are.
    price
        Dollars an hour for one device: dollars per million tokens.
    chart
        Save the roofline in this file: .svg, .png, .pdf, .html or .json (the Vega specification).
    plot
        The roofline in the terminal, below the text.
    json
        One JSON object instead of text.
    """
    ledger = setting.ledger(model)
    other = None if against is None else setting.against(against).ledger(model)
    found, cost = _measured(ledger, measured), _price(ledger, price, measured)
    if json:
        from roofline.show.record import ledger_record

        record = ledger_record(ledger, other, found, cost)
        _save(ledger, other, chart)
        print_json(record)
        return 3 if record["memory"]["fits"] is False else 0
    from roofline.capacity import memory
    from roofline.show.text import ledger_text, show

    held = memory(ledger)
    _save(ledger, other, chart)
    show(ledger_text(ledger, held, found, cost))
    if other is not None:
        from roofline.show.questions import against_text

        show(against_text(ledger, other, str(against)))
    if plot:
        from roofline.show.plot import ledger_plot

        show(ledger_plot(ledger), after=1)
    return 3 if held.fits is False else 0


def _save(ledger: Ledger, other: Ledger | None, path: str | None) -> None:
    """The roofline in a file, beside the roof of another device where there is one."""
    if path is None:
        return
    from roofline.show.chart import writable
    from roofline.show.progress import busy

    writable(path)
    with busy("Drawing"):
        ledger.chart(against=[] if other is None or other.device == ledger.device else [other.device]).save(path)
    written(path)


def _measured(ledger: Ledger, tokens_per_second: float | None) -> Measured | None:
    if tokens_per_second is None:
        return None
    from roofline.comparison import measured

    return measured(ledger, tokens_per_second)


def _price(ledger: Ledger, per_hour: float | None, rate: float | None) -> Price | None:
    if per_hour is None:
        return None
    from roofline.comparison import price

    return price(ledger, per_hour, rate)
