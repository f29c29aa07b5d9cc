"""Sums of nsys stats: CSV and tables, old and new heads."""

from __future__ import annotations

import pytest

from roofline.errors import BadValue
from roofline.evidence import nsys_stats
from roofline.evidence.lines import Lines
from roofline.evidence.nsys_stats import Sum, Sums

CSV = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
66.7,2000,2,1000.0,1000.0,900,1100,10.0,"void gemm<float, 4>(int, int)"
33.3,1000,1,1000.0,1000.0,1000,1000,0.0,"other"
cut,short

Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,500,5,100.0,100.0,100,100,0.0,[CUDA memcpy Host-to-Device]
"""
OLD = "Time(%),Total Time,Instances,Average,Minimum,Maximum,Name\n100.0,3000,3,1000.0,900,1100,k\n"
TABLE = """[5/7] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ms)  Instances  Avg (ms)  Med (ms)  Min (ms)  Max (ms)  StdDev (ms)              Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------------------------

     66.7            0.002          2     0.001     0.001    0.0009    0.0011          0.0  void a_long_kernel_name<float
                                                                                            , 4>(int, int)
     33.3            0.001          1     0.001     0.001     0.001     0.001          0.0  other

[6/7] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)        Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------------
    100.0              700          7     100.0     100.0       100       100          0.0  cudaLaunchKernel
Generated: x
"""


def read(text: str) -> Sums:
    assert nsys_stats.sniff(text)
    return nsys_stats.read(Lines([text.encode()]))


def test_csv():
    """Several reports in a file; names with commas; what is cut is counted."""
    found = read(CSV)

    assert found.kernels == (
        Sum("void gemm<float, 4>(int, int)", 2, 2000, 900, 1100),
        Sum("other", 1, 1000, 1000, 1000),
    )
    assert found.copies == (Sum("[CUDA memcpy Host-to-Device]", 5, 500, 100, 100),)
    assert found.left_out == {"rows cut short": 1}


def test_old_csv():
    """Without units and with other words: nanoseconds."""
    assert read(OLD).kernels == (Sum("k", 3, 3000, 900, 1100),)


def test_table():
    """Columns by the dashes, units of the head, names that go on below."""
    found = read(TABLE)

    assert [(each.name, each.calls, each.total) for each in found.kernels] == [
        ("void a_long_kernel_name<float , 4>(int, int)", 2, 2000),
        ("other", 1, 1000),
    ]
    assert found.kernels[0].least == 900
    assert found.calls == (Sum("cudaLaunchKernel", 7, 700, 100, 100),)


@pytest.mark.parametrize("text", [CSV.splitlines()[0], "\n".join(TABLE.splitlines()[:4]), TABLE.splitlines()[2]])
def test_heads_alone(text):
    """Nothing was recorded."""
    with pytest.raises(BadValue, match="no row below"):
        read(text)


def test_tables_one_below_the_other():
    """Heads that follow at once; a report of no known kind; a table that ends at once."""
    other = "Time (%),Total Time (ns),Foo\n100,1,x\n"
    found = read(other + CSV.split("\n\n", maxsplit=1)[0] + "\n" + CSV)
    assert len(found.kernels) == 2
    lines = TABLE.splitlines()
    assert len(read("\n".join([*lines[:9], *lines[2:9]])).kernels) == 2
    with pytest.raises(BadValue):
        read(lines[2] + "\nno table\n")


def test_kernels_and_copies_in_one_report():
    """Told apart by their category."""
    found = read(
        "Time (%),Total Time (ns),Instances,Avg (ns),Category,Operation\n"
        "60.0,6000,3,2000.0,CUDA_KERNEL,gemm\n40.0,4000,2,2000.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
    )

    assert [(each.name, each.calls, each.total) for each in found.kernels] == [("gemm", 3, 6000)]
    assert [each.total for each in found.copies] == [4000]


def test_a_report_as_json():
    """The columns of the CSV as keys."""
    text = '[{"Time (%)": 100.0, "Total Time (ns)": 2000, "Instances": 2, "Min (ns)": 900, "Name": "gemm"}, 7]'
    found = nsys_stats.read_json(Lines([text.encode()]))

    assert nsys_stats.sniff_json(text)
    assert found.kernels == (Sum("gemm", 2, 2000, 900, None),)
    with pytest.raises(BadValue, match="cut"):
        nsys_stats.read_json(Lines([text[:-9].encode()]))
