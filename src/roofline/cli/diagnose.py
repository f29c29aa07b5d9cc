"""`roofline diagnose`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from roofline.cli.options import Bytes, Ranks, Workers, print_json
from roofline.units import MIB

if TYPE_CHECKING:
    from roofline.diagnosis.assessment import Assessment
    from roofline.diagnosis.result import Diagnosis

_LARGE = 24 * MIB  # [byte] of a file, packed a tenth of it, from which on other processes are worth their start


def diagnose(
    file: str,
    /,
    *,
    model: Annotated[str | None, Parameter(negative=())] = None,
    device: Annotated[str | None, Parameter(negative=())] = None,
    weights: str = "bf16",
    kv: str = "bf16",
    compute: str = "bf16",
    tp: Ranks | None = None,
    work: Annotated[str | None, Parameter(negative=())] = None,
    limit: Annotated[Bytes | None, Parameter(negative=())] = None,
    processes: Workers | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Where a measured run lost its time, from a trace, counters, collectives, a benchmark or a log.

    Parameters
    ----------
    file
        A trace of the PyTorch profiler, an export of Nsight Systems (SQLite, nsys stats) or Nsight Compute (CSV),
        counters of DCGM or nvidia-smi, a log of nccl-tests, a serving benchmark's result, a training log; packed or
        not, a path or a URL. What it is is told by its content.
    model
        What ran, where a benchmark does not say: a built-in name, a Hugging Face id, a folder, a config.json.
    device
        What it ran on, where the file does not say: a device id (roofline devices) or a device's TOML file.
    weights
        Of a benchmark: format of the weights.
    kv
        Of a benchmark: format of the KV cache.
    compute
        Of a benchmark: rate of GEMMs and attention.
    tp
        Of a benchmark: ranks of tensor parallelism.
    work
        Of counters: what one launch does, as "linear m=8192 n=8192 k=8192": its bytes beside those measured.
    limit
        The most text that is read, unpacked, as 16GiB; 8GiB without it.
    processes
        Processes that read a large file together; as many as there are CPUs.
    json
        One JSON object instead of text.
    """
    from roofline.byhand import work_of
    from roofline.catalogue import load_device, load_model
    from roofline.workload import Precision

    found = _diagnosed(
        file,
        limit,
        processes or len(os.sched_getaffinity(0)),
        model=None if model is None else load_model(model),
        device=None if device is None else load_device(device),
        precision=Precision(weights, kv, compute=compute),
        tp=tp,
        work=None if work is None else work_of(work),
    )
    if json:
        print_json(found.to_dict())
        return 0
    from roofline.diagnosis.assessment import Assessment
    from roofline.show.terminal import show

    if isinstance(found, Assessment):
        from roofline.show.assessment import assessment_text

        show(assessment_text(found))
        return 0
    from roofline.show.diagnosis import diagnosis_text

    show(diagnosis_text(found))
    return 0


def _diagnosed(file: str, limit: int | None, processes: int, **ran: Any) -> Diagnosis | Assessment:
    from roofline import diagnosis

    with ExitStack() as stack:
        progress = stack.enter_context(_progress())
        helpers = processes - 1 if _large(file) else 0
        executor = stack.enter_context(_pool(helpers)) if helpers else None
        return diagnosis.diagnose(file, most=limit, progress=progress, executor=executor, workers=helpers, **ran)


def _large(file: str) -> bool:
    """Whether a file is large enough for more than one process; one that is not local may be."""
    try:
        size = Path(file).expanduser().stat().st_size
    except (OSError, ValueError, RuntimeError):
        return "://" in file
    return size >= (_LARGE // 10 if file.endswith((".gz", ".zst", ".xz", ".bz2", ".zip", ".tgz")) else _LARGE)


@contextmanager
def _progress() -> Generator[Callable[[int, int], None] | None]:
    """A bar on standard error, where that is a terminal; it leaves nothing behind."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size or None)


@contextmanager
def _pool(helpers: int) -> Generator[Executor]:
    """Processes that start with the first piece of work and end with this one, however it ends."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(helpers, mp_context=get_context("spawn"), initializer=_follow)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


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
