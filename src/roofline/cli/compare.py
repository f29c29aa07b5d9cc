"""`roofline compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from roofline.catalogue import load_sheet
from roofline.cli.options import Bytes, Number, print_json, print_text, share
from roofline.errors import BadValue, DataError
from roofline.units import MIB

if TYPE_CHECKING:
    from roofline.device import Device
    from roofline.diagnosis.changes import Side
    from roofline.diagnosis.result import Diagnosis

_LARGEST = 64 * MIB  # [byte] of a ledger's JSON
_FAILED = 1


def compare(
    before: str,
    after: str,
    /,
    *,
    device: Annotated[str | None, Parameter(negative=())] = None,
    gpu: Number | None = None,
    fail_over: Annotated[str | None, Parameter(negative=())] = None,
    limit: Annotated[Bytes | None, Parameter(negative=())] = None,
    markdown: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """What changed between two runs, or two predictions: changes in seconds that add up to the whole.

    Parameters
    ----------
    before
        A profile, or what `roofline predict --json` printed.
    after
        Another one of the same kind.
    device
        The device of both profiles, where they do not name it.
    gpu
        Of profiles with several devices: the number of the one that is compared; without it, the one of the first
        profile with the most activities.
    fail_over
        Exit with 1 where it got slower by more than this share and by more than the noise, as 3%.
    limit
        The most text that is read of a profile, unpacked, as 16GiB.
    markdown
        A table for a pull request instead of text.
    json
        One JSON object instead of text.
    """
    most = None if fail_over is None else share("--fail-over", fail_over)
    supply = None if device is None else load_sheet(device).device()
    from roofline.diagnosis.changes import compare as compared
    from roofline.show.changes import comparison_markdown, comparison_record, comparison_text
    from roofline.show.progress import busy

    with busy("Comparing"):
        found = compared(*_sides((before, after), limit, supply, gpu))
    if json:
        print_json(comparison_record(found, most))
    elif markdown:
        print_text(comparison_markdown(found))
    else:
        from roofline.show.terminal import show

        show(comparison_text(found))
    return _FAILED if most is not None and found.slower_than(most) else 0


def _sides(names: Sequence[str], limit: int | None, device: Device | None, gpu: int | None) -> Iterator[Side]:
    """Runs from their files: a ledger's JSON, or a profile; of profiles with several devices the same one."""
    from roofline.diagnosis.changes import of_diagnosis

    same: int | None = None  # the device of the first profile
    for name in names:
        ledger = _ledger(name)
        if ledger is not None:
            yield ledger
            continue
        found = _profile(name, limit, device, gpu, same)
        same = found.device
        yield of_diagnosis(found)


def _profile(name: str, limit: int | None, device: Device | None, gpu: int | None, same: int | None) -> Diagnosis:
    """A profile's diagnosis: of `gpu`, else of the device `same` where the file has it, else of the busiest."""
    from roofline.diagnosis.judge import diagnose_trace
    from roofline.diagnosis.opening import open_profile
    from roofline.trace.coding import tally
    from roofline.trace.events import Trace
    from roofline.trace.readers.source import MOST

    trace = open_profile(name, most=MOST if limit is None else limit)
    if not isinstance(trace, Trace):
        raise BadValue(f"{name} has no timeline: profiles with one are compared, and ledgers.")
    if gpu is None and same in tally(trace.gpu.device):
        gpu = same
    return diagnose_trace(trace, device, number=gpu)


class _Kernel(msgspec.Struct):
    name: str
    op: str
    count: int
    seconds: float


class _Ledger(msgspec.Struct):
    schema: str
    kernels: list[_Kernel]
    model: dict[str, Any]
    device: dict[str, Any]
    workload: dict[str, Any]


def _ledger(name: str) -> Side | None:
    """The ledger in a file that `predict --json` wrote; None where it is something else."""
    path = Path(name).expanduser()
    try:
        if path.stat().st_size > _LARGEST:
            return None
        with path.open("rb") as file:
            if b"roofline.ledger/" not in file.read(400):
                return None
            file.seek(0)
            text = file.read(_LARGEST)
    except (OSError, ValueError, RuntimeError):
        return None  # what it is, the reader of profiles says
    from roofline.diagnosis.changes import of_record

    try:
        found = msgspec.json.decode(text, type=_Ledger)
    except msgspec.DecodeError as error:
        raise DataError(f"{name} is no ledger that can be read: {error}. Write it again: predict --json.") from None
    rows = [(each.name, each.op, each.count, each.seconds) for each in found.kernels]
    setting = {"model": found.model.get("name"), "device": found.device.get("id"), "workload": found.workload}
    return of_record(name, rows, {key: str(value) for key, value in setting.items()})
