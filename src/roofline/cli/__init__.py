"""The door: parse, call one function, show. An error of the input is one line and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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
app.command("roofline.cli.predict:predict")
app.command("roofline.cli.models:models")
app.command("roofline.cli.devices:devices")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 answered, 2 an error of the input, 3 answered but does not fit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code of the command line with these arguments."""
    try:
        code = app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return fail(f"{error} See: roofline --help.")
    except RooflineError as error:
        return fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return code if isinstance(code, int) else 0


def fail(message: str) -> int:
    """One line on standard error; the exit code for it."""
    line = " ".join(message.split())
    sys.stderr.write(f"roofline: {''.join(c if c.isprintable() else '?' for c in line)}\n")
    return 2
