"""Texts made to be slow: 200 kB of one thing after what each reader knows, which none may take the square of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from limits import no_hang
from roofline.diagnosis.opening import open_profile
from roofline.errors import RooflineError, TraceError
from roofline.evidence import ncu, nsys_stats
from roofline.evidence.lines import Lines
from roofline.evidence.readers import READERS as TEXTS
from roofline.trace.readers import READERS, times
from roofline.trace.readers.pieces import NoEvents, Pieces
from roofline.trace.readers.salvage import array_end, salvage
from traces import write

SIZE = 200_000  # its square is minutes, a pass over it milliseconds
FILLS = (
    *" \n\t,[]{}()\"'1-#a:=|\\.\r_;%",
    '\\"', "{[", "},", "}]", ", ", '",', "1 ", "1,", "--- ", "(1, ", "\r\n", '": ', "| ", "x_", "null,", "\x1b[",
)  # fmt: skip
# What goes on in a line that a reader knows.
WITHIN = (" ", "\t", ",", "1", "a", "(", '\\"', "step: 1 ", "# Rank 1 ", "device 1 [", "# nThread 1 nGpus 1 ", "gfx")
SHORT = 6.0  # [s] for half as much

# What a text begins with that a reader takes, up to where a line of it goes on.
BEGINNINGS = {
    "nothing": "",
    "ncu": '"ID","Process ID","Kernel Name","Metric Name","Metric Value"\n"1',
    "ncu's head": "Kernel Name",
    "ncu's text": "  k (1, 1)x(1, 1), Context 1, Stream 7\n  Section: a",
    "nsys stats": "Time (%),Total Time (ns),Instances,Min (ns),Max (ns),Name\n1",
    "nsys stats as a table": " Time (%)  Total Time (ns)  Instances  Name\n ---  ---  ---  ---\n 1",
    "nccl-tests": "#  size  count  type\n# Rank 1 ",
    "nccl-tests' settings": "# nThread 1 nGpus 1 ",
    "nccl-tests' JSON": '{"results": [], "alg_bw": 1, "bus_bw": 1, "args": ["',
    "Prometheus": '{"status": "success", "resultType": "',
    "DCGM": "#Entity  SMACT\nGPU 0 ",
    "dcgm-exporter": 'DCGM_FI_DEV_SM_CLOCK{gpu="0"',
    "nvidia-smi": "index, name, utilization.gpu [%], power.draw",
    "dmon": "# gpu pwr sm\n 0",
    "a benchmark": '{"output_throughput": ',
    "a benchmark's text": "==== Serving Benchmark Result ====\nMean TTFT (ms): 1",
    "llama-bench": "| model | test | t/s |\n| a",
    "llama-bench's CSV": "n_prompt,n_gen,avg_ts\n1",
    "a training log": "step: 1 tps: 3 ",
    "a training log of another": "iteration 1/ 2 | ",
    "a table": "Start,Duration,Name,Strm\n1",
    "a table's head": "Start,Duration,Name,Strm,a",
    "rocprofv3": '{"rocprofiler-sdk-tool": ',
    "rocm-smi": "GPU,",
    "a trace": '{"traceEvents": [',
    "a trace's name": '{"traceEvents": [{"ph": "X", "name": "',
    "a trace's time": '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "dur": 1, "ts": "1',
    "keys before a trace": '{"a": "',
    "an export of nsys": '[{"',
}


def texts(beginning: str, fills: Sequence[str], size: int = SIZE) -> list[str]:
    """A text for each of the fills, with another end: what fails there may be tried again and again."""
    return [beginning + fill * (size // len(fill)) + "x" for fill in fills]


@pytest.mark.parametrize("what", BEGINNINGS)
def test_a_whole_file(what, tmp_path):
    """An answer or one clear line, at once."""
    for text in texts(BEGINNINGS[what], WITHIN, SIZE // 2):
        path = write(tmp_path, text)
        with no_hang(SHORT), suppress(TraceError):
            open_profile(path)


@pytest.mark.parametrize("reader", TEXTS, ids=lambda each: f"{each.sniff.__module__}.{each.sniff.__name__}")
def test_readers_of_texts(reader):
    """Each of them, also of what another one would take."""
    for text in texts("", FILLS):
        with no_hang(), suppress(RooflineError):
            reader.sniff(text)
            reader.read(Lines([text.encode()]))


@pytest.mark.parametrize("fill", FILLS)
def test_readers_of_traces(fill):
    """What tells them, and what mends or cuts their text."""
    (text,) = texts("", [fill])
    data = text.encode()
    with no_hang(), suppress(NoEvents):
        for reader in READERS:
            reader.sniff(data)
        salvage(data)
        array_end(data, True)
        times.exact([data])
        Pieces(iter([data]), "x", SIZE).skip_head()


def test_a_string_that_never_ends():
    """It is looked at once for each block that comes, and no more."""
    blocks = [b'{"a": "'] + [b'\\"' * 5000] * 400
    with no_hang(), pytest.raises(NoEvents):
        Pieces(iter(blocks), "x", SIZE).skip_head()


@pytest.mark.parametrize("size", [1, 2, 7, 70, 10_000])
def test_strings_before_the_events_in_any_blocks(size):
    """Escaped quotes and backslashes, short and long, with what looks like the key in them."""
    long = r"\\\" traceEvents [ { \\" * 40 + r"\""
    head = rf'{{"a": "{long}", "b\"": {{"c": "]\\"}}, "x": "\"traceEvents\": [", "traceEvents" : ['.encode()
    data = head + b'{"ph": "X"}]}'
    found = Pieces((data[at : at + size] for at in range(0, len(data), size)), "x", SIZE)
    rest = found.skip_head()

    assert found.head == head
    assert data[len(head) :].startswith(rest)


def test_columns_without_an_end():
    """Rows cost what they are long themselves, whatever their head has."""
    many = "dram__bytes.sum," * 20_000
    heads = {
        ncu.read: f"ID,Kernel Name,{many}\n" + "1,k\n" * 5000,
        nsys_stats.read: " Time (%)  Total Time (ns) Name\n" + " ---" * 50_000 + "\n" + " x\n" * 5000,
    }
    for read, text in heads.items():
        with no_hang(), suppress(RooflineError):
            read(Lines([text.encode()]))
