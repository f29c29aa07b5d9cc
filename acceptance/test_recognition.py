"""The devices of real profiles, by name, compute units, memory and bandwidth."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from roofline.recognition import recognise

# Every name in the traces, and what it is: an id, candidates, or nothing that is known.
NAMES: dict[str, str | set[str]] = {
    "": "mi300x",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI300X VF": "mi300x",
    "AMD Radeon Graphics": {"mi210", "mi250"},
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PG509-200": "a100-sxm-40gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA B200": "b200",
    "NVIDIA GeForce RTX 2080 Ti": set(),
    "NVIDIA H100": set(),  # a board with 96 GB, which is none of the known ones
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 NVL": "h100-nvl",
    "Quadro GP100": set(),
    "Tesla V100-DGXS-32GB": set(),
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
}


def properties(path: Path) -> list[dict[str, Any]]:
    """The deviceProperties of a trace."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    found = re.search(r'"deviceProperties":\s*(?=\[)', text)
    if not found:
        return []
    try:
        return json.JSONDecoder().raw_decode(text, found.end())[0]
    except ValueError:
        return []


def test_devices_of_chrome_traces(folder):
    """All of them, with what the trace says beside the name."""
    seen: set[str] = set()
    for path in sorted((folder / "profiles" / "chrome").iterdir()):
        for each in properties(path):
            name = each.get("name", "")
            found = recognise(name, sms=each.get("numSms"), memory=each.get("totalGlobalMem"))
            expected = NAMES[name]
            seen.add(name)
            if isinstance(expected, str):
                assert (found.status, found.id) == ("recognised", expected), (path.name, found)
                assert "agree" in found.reason
            else:
                assert found.id is None
                assert found.status == ("ambiguous" if expected else "unknown")
                assert not expected or set(found.candidates) == expected
    assert seen == set(NAMES)


def test_devices_of_nsys_files(folder):
    """TARGET_INFO_GPU has the bandwidth too, from clock and width: within 10 % of the vendor's."""
    seen: list[str | None] = []
    for path in sorted((folder / "profiles" / "nsys").glob("*.sqlite")):
        with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as base:
            base.row_factory = sqlite3.Row
            if not base.execute("select 1 from sqlite_master where name = 'TARGET_INFO_GPU'").fetchone():
                continue
            for row in base.execute("select * from TARGET_INFO_GPU"):
                keys = row.keys()
                more = {
                    ours: row[theirs]
                    for theirs, ours in (
                        ("smCount", "sms"),
                        ("totalMemory", "memory"),
                        ("memoryBandwidth", "bandwidth"),
                    )
                    if theirs in keys
                }
                seen.append(recognise(row["name"], **more).id)
    assert set(seen) == {"h100-sxm", "h200-sxm"}
    assert len(seen) >= 12


@pytest.mark.parametrize(
    ("file", "ident"),
    [
        ("smi__linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt", "h100-sxm"),
        ("smi__linux-x86_64__nvidia-h100-mig__590.48.01.txt", "h100-sxm"),
        ("smi__windows-x86_64__nvidia-geforce-rtx-2080-super__591.86.txt", None),
    ],
)
def test_devices_of_nvidia_smi(folder, file, ident):
    """Product Name; a GPU with MIG switched on keeps its name, and each slice has its own memory."""
    text = (folder / "profiles" / "nvidia_smi" / file).read_text("utf-8", "replace")
    names = set(re.findall(r"Product Name\s*: (.+)", text))

    assert names
    assert {recognise(name).id for name in names} == {ident}
    for total in re.findall(r"Shared FB Memory Usage\s*\n\s*Total\s*: (\d+) MiB", text):
        assert recognise(names.copy().pop(), memory=int(total) * 2**20).status == "unknown"


def test_devices_of_rocprof(folder):
    """gfx950 is two devices, its product name one; MI200 with 104 CUs at 1638.4 GB/s is two."""
    path = folder / "profiles" / "rocprof" / "tracelens__908_results.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    names = set(re.findall(r'"product_name": ?"([^"]*Instinct[^"]*)"', text))

    assert {recognise(name).id for name in names} == {"mi350x"}
    assert set(recognise("gfx950").candidates) == {"mi350x", "mi355x"}
    assert set(recognise("MI200", sms=104, bandwidth=1638.4e9).candidates) == {"mi210", "mi250"}
