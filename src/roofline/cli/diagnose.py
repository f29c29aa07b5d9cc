"""`roofline diagnose`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from roofline.cli.options import Bytes, Number, Ranks, Sequences, Tokens, Workers, print_json, written
from roofline.dtypes import STORED
from roofline.errors import BadValue, shown
from roofline.processors import at_once
from roofline.units import MIB

if TYPE_CHECKING:
    from roofline.device import Device
    from roofline.diagnosis.assessment import Assessment
    from roofline.diagnosis.beside import Beside
    from roofline.diagnosis.ranks import Run
    from roofline.diagnosis.result import Diagnosis
    from roofline.model import Model
    from roofline.workload import Precision

_TURN = 0.0005  # [s] for which a thread may run while another one waits
_LARGE = 24 * MIB  # [byte] of a file, packed a tenth of it, that are worth the start of a process
_MOST = 8  # processes that read one file, unless more are asked for: one of them puts together what all have read


def diagnose(
    file: list[str],
    /,
    *,
    model: Annotated[str | None, Parameter(negative=())] = None,
    device: Annotated[str | None, Parameter(negative=())] = None,
    weights: str = STORED,
    kv: str = "bf16",
    compute: str = "bf16",
    tp: Ranks | None = None,
    sequences: Sequences | None = None,
    input: Tokens | None = None,
    output: Tokens | None = None,
    work: Annotated[str | None, Parameter(negative=())] = None,
    capture: Annotated[str | None, Parameter(negative=())] = None,
    gpu: Number | None = None,
    limit: Annotated[Bytes | None, Parameter(negative=())] = None,
    processes: Workers | None = None,
    scheduler: Annotated[str | None, Parameter(negative=())] = None,
    chart: Annotated[str | None, Parameter(negative=())] = None,
    report: Annotated[str | None, Parameter(negative=())] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Where a measured run lost its time, from a trace, counters, collectives, a benchmark or a log.

    Parameters
    ----------
    file
        A trace of the PyTorch profiler, an export of Nsight Systems (SQLite, nsys stats) or Nsight Compute (CSV),
        counters of DCGM or nvidia-smi, a log of nccl-tests, a serving benchmark's result, a training log; packed or
        not, a path or a URL. What it is is told by its content. Several traces are the ranks of one run.
    model
        What ran, where a benchmark does not say: a built-in name, a Hugging Face id, a folder, a config.json. Beside
        a trace, its exact ledger is laid beside the measured step, and MFU from it.
    device
        What it ran on, where the file does not say: a device id (roofline devices) or a device's TOML file.
    weights
        Of a benchmark, and of the model beside a trace: format of the weights; stored: as the checkpoint has them,
        else bf16.
    kv
        Of a benchmark, and of the model beside a trace: format of the KV cache.
    compute
        Of a benchmark, and of the model beside a trace: rate of GEMMs and attention.
    tp
        Of a benchmark, and of the model beside a trace: ranks of tensor parallelism.
    sequences
        Of a benchmark: requests at once, where its file does not say.
    input
        Of a benchmark: tokens that each request brings, where its file does not say.
    output
        Of a benchmark: tokens that are made for each request, where its file does not say.
    work
        Of counters: what one launch does, as "linear m=8192 n=8192 k=8192": its bytes beside those measured.
    capture
        Of a trace that replays graphs: the trace of the pass that captured them, which tells their operators.
    gpu
        Of a trace with several devices: the number of the one that is diagnosed; without it, the one with the most
        activities.
    limit
        The most text that is read, unpacked, as 16GiB; 8GiB without it.
    processes
        Processes that read a large file, or several ones, together. Without it as many as there are CPUs, and of one
        file no more than 8, each for 24 MiB of it.
    scheduler
        Of several ranks: the address of a Dask scheduler, as tcp://HOST:8786, whose workers read a file each. They need
        this package and the same paths.
    chart
        Of a trace: save the roofline with the measured kernels in this file: .svg, .png, .pdf, .html or .json.
    report
        Save the whole answer in this file, one .html that asks for nothing from elsewhere.
    json
        One JSON object instead of text.
    """
    from roofline.byhand import work_of
    from roofline.catalogue import load_device, load_model
    from roofline.workload import Precision

    given = _given(
        model=model,
        device=device,
        weights=weights,
        kv=kv,
        compute=compute,
        tp=tp,
        sequences=sequences,
        input=input,
        output=output,
        work=work,
        capture=capture,
        gpu=gpu,
        limit=limit,
    )
    _agree(len(file), given, scheduler, processes)
    precision = Precision(weights, kv, compute=compute)
    supply = None if device is None else load_device(device)
    known = None if model is None else load_model(model)
    run = _run(file, limit, processes, supply, scheduler) if len(file) > 1 else None
    found = (
        run.slowest
        if run is not None
        else _diagnosed(
            file[0],
            limit,
            processes,
            model=known,
            device=supply,
            precision=precision,
            tp=tp,
            sequences=sequences,
            input_tokens=input,
            output_tokens=output,
            work=None if work is None else work_of(work),
            capture=capture,
            gpu=gpu,
        )
    )
    from roofline.diagnosis.assessment import Assessment

    words = ["diagnose", *file, *(word for each in given.items() for word in each)]
    if isinstance(found, Assessment):
        return _assessed(found, chart, report, words, json)
    _refuse(given)
    side = None if known is None else _beside(found, known, tp, precision)
    _save(found, chart, report, words, side, run)
    if json:
        from roofline.show.diagnosis_record import diagnosis_record

        print_json(diagnosis_record(found, side, run))
        return 0
    from roofline.show.diagnosis import diagnosis_text
    from roofline.show.runs import beside_text, run_text
    from roofline.show.terminal import show

    if run is not None:
        show(run_text(run))
    show(diagnosis_text(found))
    if side is not None:
        show(beside_text(side))
    return 0


def _assessed(found: Assessment, chart: str | None, report: str | None, words: list[str], json: bool) -> int:
    """What counters, collectives or a benchmark say."""
    if chart is not None:
        raise BadValue("--chart is of traces with a timeline; this file has none. --report writes the answer.")
    if report is not None:
        from roofline.show.assessment_report import assessment_report
        from roofline.show.chart import writable, write

        target = writable(report, (".html", ".htm"))
        write(target, assessment_report(found, shlex.join(["roofline", *words])).html())
        written(target)
    if json:
        print_json(found.to_dict())
        return 0
    from roofline.show.assessment import assessment_text
    from roofline.show.terminal import show

    show(assessment_text(found))
    return 0


def _given(**asked: Any) -> Mapping[str, str]:
    """The options that were given, as they are written: those that are not as the command has them by itself."""
    defaults = signature(diagnose).parameters
    return {f"--{name}": f"{value}" for name, value in asked.items() if value != defaults[name].default}


def _agree(files: int, given: Mapping[str, str], scheduler: str | None, processes: int | None) -> None:
    """Raise BadValue for an option that is not of so many files, or not beside another one."""
    if files > 1 and "--capture" in given:
        raise BadValue("--capture is of one trace, and several were named. Name the one that replays it.")
    if files > 1 and "--gpu" in given:
        raise BadValue("--gpu is of one trace, and several were named. Name the one that has this GPU.")
    if files < 2 and scheduler is not None:
        raise BadValue("--scheduler shares out the files of several ranks, and one file was named: leave it out.")
    if processes is not None and scheduler is not None:
        raise BadValue("--scheduler leads to workers of their own: leave --processes out.")
    if files > 1:  # traces, as nothing else is of several ranks
        _refuse(given)


def _refuse(given: Mapping[str, str]) -> None:
    """Options that say nothing about a trace; raises BadValue where one was given."""
    unused = ["--sequences", "--input", "--output", "--work"]
    if "--model" not in given:
        unused += ["--weights", "--kv", "--compute", "--tp"]
    if found := [name for name in unused if name in given]:
        model_of = "" if "--model" in given else ", or name the model that ran with --model"
        raise BadValue(f"{', '.join(found)}: of a trace, which this is, that says nothing. Leave it out{model_of}.")


def _beside(found: Diagnosis, model: Model, tp: int | None, precision: Precision) -> Beside:
    from roofline.diagnosis.beside import beside

    return beside(found, model, tp, precision)


def _save(
    found: Diagnosis, chart: str | None, report: str | None, words: list[str], side: Beside | None, run: Run | None
) -> None:
    """The chart and the report in their files; refused before anything is written where one cannot be."""
    if chart is None and report is None:
        return
    from roofline.show.chart import writable, write
    from roofline.show.diagnosis_report import diagnosis_report
    from roofline.show.progress import busy

    target = None if report is None else writable(report, (".html", ".htm"))
    if chart is not None:
        writable(chart)
    with busy("Drawing"):
        if chart is not None:
            found.chart().save(chart)
        if target is not None:
            write(target, diagnosis_report(found, shlex.join(["roofline", *words]), side, run).html())
    for each in (chart, target):
        written(each)


def _run(
    files: list[str], limit: int | None, processes: int | None, device: Device | None, scheduler: str | None
) -> Run:
    """The ranks of a run, each file read by a process of its own where there are several, or by a worker of Dask."""
    from roofline.diagnosis.ranks import diagnose_ranks
    from roofline.trace.readers import MOST

    helpers = min(processes or at_once(), len(files)) if any(_worth(each) != 0 for each in files) else 0
    with ExitStack() as stack:
        progress = stack.enter_context(_progress(plain=True))
        if scheduler is not None:
            executor = stack.enter_context(_workers(scheduler))
        else:
            executor = stack.enter_context(_pool(helpers)) if helpers > 1 else None
        return diagnose_ranks(files, MOST if limit is None else limit, device, executor, progress)


def _diagnosed(file: str, limit: int | None, processes: int | None, **ran: Any) -> Diagnosis | Assessment:
    with ExitStack() as stack:
        progress = stack.enter_context(_progress())
        helpers = _helpers(file, processes)
        executor = stack.enter_context(_pool(helpers)) if helpers else None
        from roofline import diagnosis  # after the helpers have started: they load meanwhile, too
        from roofline.diagnosis.ranks import Run

        found = diagnosis.diagnose(file, most=limit, progress=progress, executor=executor, workers=helpers, **ran)
    return found.slowest if isinstance(found, Run) else found  # of one file there is no run


def _helpers(file: str, processes: int | None) -> int:
    """How many other processes read one file too."""
    worth = _worth(file)
    if worth == 0 or _is_database(file):
        return 0
    most = (processes or min(at_once(), _MOST)) - 1
    return min(most, (most if processes else 1) if worth is None else worth)


def _worth(file: str) -> int | None:
    """How many other processes a file is worth by its size; None of one that is not here, whose size is not known."""
    try:
        size = Path(file).expanduser().stat().st_size
    except (OSError, ValueError, RuntimeError):
        return None if "://" in file else 0
    return size // (_LARGE // 10 if file.endswith((".gz", ".zst", ".xz", ".bz2", ".zip", ".tgz")) else _LARGE)


def _is_database(file: str) -> bool:
    """Whether a file lies here and is no text: one process alone reads it."""
    from roofline.trace.readers.sqlite import MAGIC

    try:
        path = Path(file).expanduser()
        if not path.is_file():
            return False
        with path.open("rb") as opened:
            return opened.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError, RuntimeError):
        return False


@contextmanager
def _progress(plain: bool = False) -> Generator[Callable[[int, int], None] | None]:
    """A bar on standard error, where that is a terminal; it leaves nothing behind. A plain one counts files."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TransferSpeedColumn

    amounts = (MofNCompleteColumn(),) if plain else (DownloadColumn(), TransferSpeedColumn())
    columns = (TextColumn("reading"), BarColumn(), *amounts)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size or None)


_CONNECT = 10  # [s] in which a scheduler has to answer


@contextmanager
def _workers(scheduler: str) -> Generator[Executor]:
    """The workers of a Dask scheduler as an executor; raises BadValue where Dask or the scheduler is not there."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise BadValue("--scheduler needs Dask, which is not installed: pip install distributed.") from None
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT)
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())[:120] or type(error).__name__
        raise BadValue(f"No Dask scheduler answers at {shown(scheduler)}: {said}. Start one: dask scheduler.") from None
    with client:
        yield client.get_executor()


@contextmanager
def _pool(helpers: int) -> Generator[Executor]:
    """Processes that load what they need at once, and end with this one, however it ends."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from roofline.trace.readers.spread import ready

    pool = ProcessPoolExecutor(helpers, mp_context=get_context("spawn"), initializer=_follow)
    patience = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)  # the thread that takes what helpers send must not wait for this one
    try:
        with _uninterrupted():
            for _ in range(helpers):
                pool.submit(ready)
        yield pool
    finally:
        sys.setswitchinterval(patience)
        pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Processes that start meanwhile leave interrupts to this one from their beginning, before they can say so."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow() -> None:
    """In a helper: leave interrupts to the process that started it, and end when that one is gone."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def watch(sentinel: int) -> None:
            wait([sentinel])
            os._exit(1)

        threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
