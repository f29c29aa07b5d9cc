"""A row that is no CSV, or has a cell of more than any has, is one that is left out."""

from __future__ import annotations

import pytest

from roofline.evidence import bench_text, ncu, nsys_stats, smi
from roofline.evidence.cells import cells
from roofline.evidence.lines import Lines

LONG = '"' + "x" * 200_000 + '"'
NSYS = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n"
LLAMA = "model_type,n_prompt,n_gen,avg_ts\n"
NCU = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
SMI = "index, name, utilization.gpu [%]\n"
TABLES = {
    "nsys": (nsys_stats, NSYS, "100.0,500,5,100.0,100,100,{}\n", lambda found: len(found.kernels)),
    "llama-bench": (bench_text, LLAMA, "{},512,0,100.5\n", lambda found: len(found.results)),
    "ncu": (ncu, NCU, '"{0}","1","k{0}","dram__bytes.sum","byte","64"\n', lambda found: len(found.launches)),
    "nvidia-smi": (smi, SMI, "0, {}, 50 %\n", lambda found: len(found.gpus[0])),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_cell_that_is_too_long(name):
    """It costs its own row alone."""
    module, head, row, count = TABLES[name]
    text = head + row.format("a") + row.format("b").replace("b", LONG.strip('"') if "ncu" in name else LONG, 1)
    found = module.read(Lines([(text + row.format("c")).encode()]))

    assert count(found) == 2


def test_a_head_that_is_too_long():
    """It is none, and no error."""
    assert not nsys_stats.sniff(LONG)
    found = nsys_stats.read(
        Lines([(NSYS.strip() + "," + LONG + "\n1,2,3\n\n" + NSYS + "100,500,5,1,1,1,k\n").encode()])
    )

    assert len(found.kernels) == 1


def test_cells():
    assert cells('a, "b,c",d') == ["a", "b,c", "d"]
    assert cells("a;b", ";") == ["a", "b"]
    assert cells(LONG) == cells("") == []
