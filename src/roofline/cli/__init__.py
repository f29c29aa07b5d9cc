"""The door: parse, call one function, show. An error of the input is one line and exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from roofline.errors import RooflineError


def _version() -> str:
    from importlib.metadata import version

    return version("roofline")


app = App(
    name="roofline",
    help="What limits a large language model on a device, kernel by kernel.",
    help_format="plaintext",
    version=_version,
)
app.command("roofline.cli.predict:predict", help="The most that a model can do on a device, kernel by kernel.")
app.command("roofline.cli.crossover:crossover", help="Where the verdict turns, exactly.")
app.command("roofline.cli.op:op", help="One operation by hand: its bound and its formulas with their numbers.")
app.command("roofline.cli.report:report", help="One HTML file of a prediction, to send on.")
app.command("roofline.cli.page:page", help="One HTML file in which sliders move the whole ledger.")
app.command("roofline.cli.serve:serve", help="The live page on this machine, for any config.json.")
app.command("roofline.cli.diagnose:diagnose", help="Where a measured run lost its time, from a profiler's trace.")
app.command("roofline.cli.train:train", help="A training step: its bound, what is sent and held, days and GPU-hours.")
app.command("roofline.cli.mfu:mfu", help="MFU and HFU of a training run, under every convention.")
app.command("roofline.cli.collective:collective", help="One collective: bytes, time, algbw and busbw, its bound.")
app.command("roofline.cli.compare:compare", help="What changed between two runs, or two predictions.")
app.command("roofline.cli.models:models", help="The built-in models, or the exact counts of one.")
app.command("roofline.cli.devices:devices", help="The catalogue of devices, or one with the source of every figure.")
app.command("roofline.cli.watch:watch", help="What limits every GPU of an exporter right now.")
app.command("roofline.cli.measure:measure", help="The ceilings of the machine that this runs on, as a device file.")
app.command("roofline.cli.record:record", help="How to record what a diagnosis needs.")

_LONGEST = 6000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 answered, 2 an error of the input, 3 answered but does not fit."""
    # Where a stream is closed Python has None in its place: what would go there goes nowhere.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a character is no reason to fail.
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportUnknownMemberType]
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def run(arguments: Sequence[str]) -> int:
    """The exit code of the command line with these arguments."""
    try:
        code = app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        command = next((f" {word}" for word in arguments[:1] if word in app), "")
        return fail(f"{error} See: roofline{command} --help.")
    except RooflineError as error:
        return fail(str(error))
    except OSError as error:
        # What Python would still flush at its exit goes nowhere: there is nobody, or no room, to take it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        return fail(
            f"{error.filename or 'The answer'} cannot be {'read' if error.filename else 'written'}: {error.strerror}."
        )
    return code if isinstance(code, int) else 0


def fail(message: str) -> int:
    """One line on standard error; the exit code for it."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
    with suppress(OSError):  # where nobody hears it, the exit code still says it
        sys.stderr.write(f"roofline: {line if len(line) < _LONGEST else line[:_LONGEST] + '…'}\n")
        sys.stderr.flush()
    return 2
