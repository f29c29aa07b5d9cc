"""Real profiles: what is read equals an independent recount, and what is no trace is one clear line."""

from __future__ import annotations

import csv
import gzip
import json
from fractions import Fraction

import pytest

import roofline as rl
from roofline.trace.classify import category
from roofline.trace.events import COPY, KERNEL
from roofline.trace.readers import open_trace
from roofline.trace.timeline import total, union

US = 1000  # [ns]

# Fractions of a microsecond since 1970, which a double holds to 0.25 us: a recount in doubles is off by as much at
# each end of an activity. The text is exact, and so is ours: the test below adds it up as fractions.
IN_DOUBLES = {"chrome/hta__ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"}
REFUSED = {"3_contributor", "astrasim__result", "contributor__style"}
FAULTY = {
    "00": None, "01": "cut", "02": "cut", "03": "cut", "04": "damaged", "05": "backslashes", "06": "lost",
    "07": "line breaks", "09": "comma", "11": "bare list", "13": "at time 0", "15": "UTF-16", "16": "UTF-8",
    "17": "as text", "18": "negative", "23": "packed as gzip", "29": "null", "30": "twice", "31": None, "32": None,
    "33": None, "34": None,
}  # fmt: skip
NO_TRACE = {"12", "19", "20", "21", "25", "26", "27", "28"}


def recount(folder):
    with (folder / "profiles" / "recount_us.csv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file) if row["nk"]}


def test_totals_equal_the_recount(folder):
    """Kernels, busy, window, communication and copies to a microsecond; the breakdown to the nanosecond."""
    checked = 0
    for name, row in recount(folder).items():
        found = rl.diagnose(folder / "profiles" / name)
        by = {each.category: each for each in found.breakdown}
        gpu = open_trace(folder / "profiles" / name).gpu
        kernels, copies = gpu.kind == KERNEL, gpu.kind == COPY
        assert int(kernels.sum()) == int(row["nk"]), name
        assert sum(each.attributed for each in found.breakdown) + found.idle == found.window, name
        assert sum(each.time for each in found.causes) == found.idle, name
        assert by["copy"].union == total(union(gpu.start[copies], gpu.end[copies])), name
        assert by["communication"].union >= (float(row["nccl_union"]) - 1) * US, name
        if name in IN_DOUBLES:
            continue
        figures = {
            "sum_k": int(gpu.duration[kernels].sum()),
            "union_k": total(union(gpu.start[kernels], gpu.end[kernels])),
            "union_all": found.busy,
            "window": found.window,
            "idle": found.idle,
            "memcpy_union": by["copy"].union,
        }
        for key, value in figures.items():
            assert value / US == pytest.approx(float(row[key]), abs=1), (name, key)
        checked += 1
    assert checked >= 40


def test_a_recount_in_doubles_is_off_and_the_text_is_not(folder):
    """The durations of one file added up as exact fractions of its text are ours to the nanosecond."""
    (name,) = IN_DOUBLES
    path = folder / "profiles" / name
    whole = json.loads(gzip.decompress(path.read_bytes()), parse_float=Fraction)
    exact = sum(each["dur"] for each in whole["traceEvents"] if each.get("cat") == "kernel")
    gpu = open_trace(path).gpu

    assert int(gpu.duration[gpu.kind == KERNEL].sum()) == exact * 1000


def test_every_chrome_file_is_read_or_refused(folder):
    for path in sorted((folder / "profiles" / "chrome").iterdir()):
        refused = any(path.name.startswith(each) for each in REFUSED)
        try:
            record = rl.diagnose(path).to_dict()
        except rl.RooflineError as error:
            assert refused, (path.name, error)
            assert "\n" not in str(error)
            continue
        assert not refused, path.name
        counts = record["events"]
        assert sum(counts["used"].values()) + sum(counts["left_out"].values()) == counts["read"], path.name
        assert counts["lost"] == 0, path.name


def test_every_faulty_file_is_read_with_a_warning_or_refused(folder):
    for path in sorted((folder / "profiles" / "invalid").iterdir()):
        number = path.name[:2]
        if number in NO_TRACE:
            with pytest.raises(rl.RooflineError) as caught:
                rl.diagnose(path)
            assert "\n" not in str(caught.value)
            continue
        found = rl.diagnose(path)
        words = FAULTY.get(number)
        assert words is None or any(words in each for each in found.warnings), (path.name, found.warnings)


def test_kernels_of_the_corpus_have_a_category(folder):
    """Under 2 % of its time is "other"."""
    with (folder / "profiles" / "kernel_names.csv").open(encoding="utf-8") as file:
        rows = [(row["kernel_name"], float(row["total_us"])) for row in csv.DictReader(file)]
    unknown = sum(time for name, time in rows if category(name) == "other")

    assert unknown < 0.02 * sum(time for _, time in rows)


def test_launches_of_the_qwen_trace(folder):
    """436 kernels and 73 memsets were launched before the window, 13.7 ms: they are kept."""
    (path,) = (folder / "profiles" / "chrome").glob("tracelens__h100_Qwen*")
    launches = rl.diagnose(path).launches

    assert (launches.linked, launches.unlinked) == (1198, 509)
    assert round(launches.unlinked_time / US / 100) == 137


def test_communication_without_nccl_in_its_name(folder):
    """multimem_all_reduce of a B200 run: the recount by names with nccl has 22 us, there are 2.1 ms."""
    (path,) = (folder / "profiles" / "chrome").glob("tracelens__b200*")

    assert rl.diagnose(path).communication.union > 2000 * US
