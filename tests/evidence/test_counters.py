"""Counters of running cards: dcgmi dmon, dcgm-exporter, Prometheus, nvidia-smi."""

from __future__ import annotations

import json

import pytest

from roofline.errors import BadValue
from roofline.evidence import counters, dcgm, smi
from roofline.evidence.counters import Counters, Series
from roofline.evidence.lines import Lines
from roofline.units import MIB

DMON = """#Entity   GRACT        SMACT        TENSO        DRAMA        PCITX          POWER      SMCLK
ID                                                                            W
GPU 0     0.984        0.900        0.120        0.740        33011804       634.2      1755
GPU 1     N/A          N/A          N/A          N/A          N/A            70.0       345
GPU 0     0.986        0.910        0.140        0.760        33011804       636.2      1755
GPU-I 3   0.500        N/W          0.100        0.200        0              0          0
"""
OLD_DMON = """# Entity  TENSO  DRAMA
      Id
   GPU 0  0.930  0.690
"""
EXPORTER = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"} 1755
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-1",Hostname="n1"} 9223372036854775794
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="n1"} 100
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",Hostname="n1"} 4845
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-1",Hostname="n1"} 0.929260
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-1",Hostname="n1"} 0.690789
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.5gb",GPU_I_ID="13",Hostname="n1"} 0.8
"""


def read(module, text: str) -> Counters:
    return module.read(Lines([text.encode()]))


def column(found: Counters, name: str, at: int = 0) -> list[float]:
    return list(found.gpus[at].columns[name])


def test_dcgmi_dmon():
    """A column a counter, N/A is absent and not zero, parts of a card are cards of their own."""
    found = read(dcgm, DMON)

    assert [each.name for each in found.gpus] == ["GPU 0", "GPU 1", "GPU-I 3"]
    assert column(found, "dram_active") == [0.74, 0.76]
    assert column(found, "sm_clock") == [1755e6, 1755e6]
    assert column(found, "power", 1) == [70.0]
    assert "dram_active" not in found.gpus[1].columns
    assert found.gpus[0].mean("tensor_active") == pytest.approx(0.13)


def test_dcgmi_dmon_as_it_was():
    """`# Entity` with the units below."""
    assert column(read(dcgm, OLD_DMON), "tensor_active") == [0.93]


def test_the_tensor_pipe_before_its_parts():
    """Whatever the order of the columns; a part stands in where the whole was not collected."""
    rows = "#Entity   THMMA    TENSO\nGPU 0     0.300    0.500\nGPU 1     0.300    N/A\n"
    found = read(dcgm, rows)

    assert [column(found, "tensor_active", at) for at in (0, 1)] == [[0.5], [0.3]]


def test_hosts_that_a_server_adds():
    """Two exporters without a label of their host: GPU 0 of each is a card of its own."""
    series = [
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "instance": f"n{n}:9400"}, "value": [1, f"{n}"]}
        for n in (1, 2)
    ]
    found = dcgm.answered({"status": "success", "data": {"resultType": "vector", "result": series}})

    assert [each.name for each in found.gpus] == ["n1:9400 GPU 0", "n2:9400 GPU 0"]


def test_exporter():
    """Labels name card and host; blanks are left out and counted; percentages and MiB become base units."""
    found = read(dcgm, EXPORTER)
    card, part = found.gpus

    assert (card.name, card.card, part.name) == ("n1 GPU 0", "NVIDIA H100 80GB HBM3", "n1 GPU 0, instance 13 (1g.5gb)")
    assert column(found, "busy") == [1.0]
    assert column(found, "memory_used") == [4845 * MIB]
    assert "memory_temperature" not in card.columns
    assert found.left_out == {"values that DCGM left blank": 1}


@pytest.mark.parametrize(
    "blank", [2147483632, 2147483634, 140737488355328.0, 140737488355330.0, 9223372036854775792, 9.3e18]
)
def test_blanks(blank):
    """Every sentinel of DCGM and what lies three above it."""
    assert not counters.known(float(blank))
    assert counters.known(2147483000.0)
    assert counters.known(2147483700.0)  # bytes a second may be as many


def test_new_names():
    """Fields as DCGM 4.6 calls them: ratios, where the old names had percentages."""
    found = read(dcgm, 'DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="3"} 0.55\nDCGM_FI_DEV_BOARD_POWER_WATTS{gpu="3"} 650\n')

    assert column(found, "busy") == [0.55]
    assert column(found, "power") == [650]


def test_renamed_fields_of_the_device():
    """Watts and degrees in the names of DCGM 4.6; the whole tensor pipe before its parts, in any order."""
    found = read(
        dcgm,
        'DCGM_FI_PROF_HMMA_UTIL_RATIO{gpu="0"} 0.3\nDCGM_FI_PROF_TENSOR_UTIL_RATIO{gpu="0"} 0.5\n'
        'DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0"} 690\nDCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS{gpu="0"} 700\n'
        'DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0"} 61\n',
    )

    assert {name: list(values) for name, values in found.gpus[0].columns.items()} == {
        "tensor_active": [0.5], "power": [690], "power_limit": [700], "temperature": [61],
    }  # fmt: skip


def test_scrapes_one_after_another():
    """A counter that comes again begins the next sample; a time stamp does too."""
    found = read(dcgm, EXPORTER * 3)
    assert len(found.gpus[0]) == 3

    stamped = "".join(f'DCGM_FI_PROF_DRAM_ACTIVE{{gpu="0"}} 0.5 {1000 * at}\n' for at in range(1, 4))
    (card,) = read(dcgm, stamped).gpus
    assert (len(card), card.span) == (3, 2.0)


def test_a_list_of_fields_holds_no_value():
    """What an exporter is to collect is not what it collected."""
    with pytest.raises(BadValue, match="lists 2 counters"):
        read(dcgm, "# Format\nDCGM_FI_DEV_SM_CLOCK,  gauge, SM clock\nDCGM_FI_PROF_DRAM_ACTIVE, gauge, ratio\n")
    with pytest.raises(BadValue, match="no value"):
        read(dcgm, "#Entity  TENSO\nID\n")


def answer(**changes: object) -> str:
    series = [
        {"metric": {"__name__": "DCGM_FI_PROF_DRAM_ACTIVE", "gpu": "0"}, "values": [[1.0, "0.5"], [16.0, "0.7"]]},
        {
            "metric": {"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu": "0"},
            "values": [[1.0, "0.1"], [16.0, "NaN"]],
        },
        {"metric": {"__name__": "up"}, "value": [1.0, "1"]},
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}} | changes)


def prometheus(text: str) -> Counters:
    return dcgm.read_answer(Lines([text.encode()]))


def test_range_query():
    """Series joined by their times; what is no number is absent."""
    found = prometheus(answer())
    (card,) = found.gpus

    assert dcgm.sniff_answer(answer())
    assert card.span == 15.0
    assert card.columns["dram_active"].tolist() == [0.5, 0.7]
    assert card.mean("tensor_active") == 0.1
    assert found.left_out == {"series of other metrics": 1, "values that DCGM left blank": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (answer(status="error", error="bad query"), "reports an error: bad query"),
        (answer(data={"resultType": "vector", "result": []}), "holds no counter of DCGM"),
        (answer(data=[1, {"a": None}]), "holds no counter"),
        (answer(data={"result": [None, {"metric": 3}, {"metric": {}, "values": [[1], 2, None]}]}), "holds no counter"),
        (answer()[:-9], "no sound JSON"),
        ("[" * 100_000, "no sound JSON"),
    ],
)
def test_odd_answers(text, said):
    """Each is one clear line."""
    with pytest.raises(BadValue, match=said):
        prometheus(text)


SMI = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0    634     63     58    100     10      0      0   2619   1980
    1     70     42      -      -      -      -      -   2619    345
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
# Idx      W      C      C      %      %      %      %    MHz    MHz
    0    636     63     58     98     10      0      0   2619   1980
"""


def test_nvidia_smi_dmon():
    """The head comes again; a dash is absent."""
    found = read(smi, SMI)

    assert column(found, "busy") == [1.0, 0.98]
    assert column(found, "sm_clock") == [1980e6, 1980e6]
    assert found.gpus[1].columns.keys() == {"power", "temperature", "memory_clock", "sm_clock"}


def test_violations_of_nvidia_smi_dmon():
    """`-s v`: the share of the time that the power limit held clocks down, and whether heat did."""
    found = read(
        smi, "# gpu   pwr    sm  pviol  tviol\n# Idx     W     %      %   bool\n    0   699   100     15      1\n"
    )

    assert (column(found, "power_capped"), column(found, "thermal_slowed")) == ([0.15], [1.0])


def test_nvidia_smi_dmon_as_csv():
    """--format csv parts the cells by commas."""
    text = "#gpu, pwr, gtemp, mtemp, sm, mem, mclk, pclk\n#Idx, W, C, C, %, %, MHz, MHz\n0, 634, 60, 70, 100, 10, 2619, 1980\n"

    assert column(read(smi, text), "busy") == [1.0]
    assert column(read(smi, text), "sm_clock") == [1980e6]


def test_nvidia_smi_dmon_with_dates():
    """-o DT; a table of processes is none of cards."""
    text = "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n"
    text += " 20260714   08:12:53      0    600    100\n 20260714   08:12:55      0    600    100\n"
    (card,) = read(smi, text).gpus

    assert (card.span, card.mean("busy")) == (2.0, 1.0)
    assert not smi.sniff("# gpu         pid   type     sm    mem    command\n# Idx #\n 0 - - - - -\n")


CSV = """timestamp, name, index, utilization.gpu [%], power.draw [W], enforced.power.limit [W], clocks.current.sm [MHz], \
clocks.max.sm [MHz], memory.used [MiB], clocks_event_reasons.sw_power_cap, clocks_event_reasons.active
2026/07/14 08:12:38.898, NVIDIA H100 80GB HBM3, 0, 100 %, 698.50 W, 700.00 W, 1410 MHz, 1980 MHz, 20000 MiB, Active, 0x0000000000000004
2026/07/14 08:12:39.898, NVIDIA H100 80GB HBM3, 0, [N/A], 699.10 W, 700.00 W, 1395 MHz, 1980 MHz, 20000 MiB, Not Active, 0x0000000000000000
2026/07/14 08:12:40.898, cut

after, the, table
"""


@pytest.mark.parametrize(
    ("head", "row"),
    [("#Time        gpu    pwr     sm", " 10:11:12      0    634    100"), ("#Date gpu pwr sm", "20260501 0 634 100")],
)
def test_nvidia_smi_dmon_with_one_of_both(head, row):
    """A time or a date alone (-o T, -o D) are no column of the card."""
    found = read(smi, f"{head}\n#HH:MM:SS    Idx      W      %\n{row}\n{row}\n")

    assert (column(found, "power"), column(found, "busy")) == ([634, 634], [1, 1])
    assert found.gpus[0].span is None


def test_samples_of_which_few_bear_a_time():
    """Two rows of a CSV beside many of dmon: the time between these is not that of all samples."""
    text = "index, timestamp, power.draw [W]\n0, 2026/05/01 12:00:00.0, 70 W\n0, 2026/05/01 12:00:09.0, 71 W\n"
    dmon = "\n# gpu pwr sm\n" + "0 634 100\n" * 9
    found = read(smi, text + dmon)

    assert (len(found.gpus[0]), found.gpus[0].span) == (11, None)
    assert found.form == "nvidia-smi --query-gpu and nvidia-smi dmon"
    assert read(smi, text).gpus[0].span == 9


def test_nvidia_smi_query():
    """Units in the cells, states, a bit mask, times; a row that is cut is counted."""
    found = read(smi, CSV)
    (card,) = found.gpus

    assert (card.name, card.card, card.span) == ("GPU 0", "NVIDIA H100 80GB HBM3", 1.0)
    assert card.columns["power"].tolist() == [698.5, 699.1]
    assert card.columns["power_capped"].tolist() == [1.0, 0.0]
    assert card.columns["throttle_mask"].tolist() == [4.0, 0.0]
    assert card.columns["memory_used"].tolist() == [20000 * MIB] * 2
    assert card.mean("busy") == 1.0
    assert found.left_out == {"rows of another length than the head": 1}


def test_nvidia_smi_query_without_units():
    """`nounits`: the field tells them."""
    found = read(smi, "index, utilization.gpu [%], memory.used [MiB], clocks.sm [MHz]\n0, 55, 1000, 1980\n")

    assert (column(found, "busy"), column(found, "memory_used"), column(found, "sm_clock")) == (
        [0.55],
        [1000 * MIB],
        [1.98e9],
    )


def test_a_table_without_a_sample():
    """The head alone says nothing."""
    with pytest.raises(BadValue, match="no sample below"):
        read(smi, SMI.splitlines()[0])


def test_long_recordings_are_thinned(monkeypatch):
    """A card keeps a bounded number of samples, evenly over all of the time."""
    monkeypatch.setattr(counters, "MOST_SAMPLES", 64)
    series = Series("GPU 0")
    for at in range(1000):
        series.add({"busy": at / 1000}, float(at))

    assert len(series) <= 64
    assert (series.seen, series.every) == (1000, 16)
    assert series.times.tolist() == [16.0 * n for n in range(len(series))]
    assert series.mean("busy") == pytest.approx(0.5, abs=0.02)


def test_columns_that_begin_late():
    """A counter that later samples have is absent in the first."""
    series = Series("GPU 0")
    series.add({"busy": 1.0})
    series.add({"power": 5.0})

    assert list(series.samples()) == [{"busy": 1.0}, {"power": 5.0}]
    assert series.span is None
    assert series.most("power") == 5.0
    assert series.growth("power") is None


def test_growth_of_a_counter_that_is_reset():
    """10 to 30, from 0 again to 5: 25."""
    series = Series("GPU 0")
    for value in (10.0, 30.0, 0.0, 5.0):
        series.add({"power_violation": value})

    assert series.growth("power_violation") == 25.0
    assert "power_violation" in counters.cumulative()


def test_too_many_cards(monkeypatch):
    """Those past the limit are counted."""
    monkeypatch.setattr(counters, "MOST_GPUS", 2)
    found = read(dcgm, "".join(f'DCGM_FI_PROF_DRAM_ACTIVE{{gpu="{n}"}} 0.5\n' for n in range(5)))

    assert len(found.gpus) == 2
    assert sum(found.left_out.values()) == 3


def test_rows_that_say_nothing():
    """Switches and CPUs beside cards, lines that are no sample, values that are none."""
    found = read(
        dcgm,
        "#Entity  DRAMA  POWER\nID\nSwitch 0  1  2\nGPU 0  0.5  abc\nGPU 0 N/A N/A\nDCGM_FI_PROF_DRAM_ACTIVE{gpu= 0.5\n",
    )
    assert column(found, "dram_active") == [0.5]
    assert found.left_out == {"samples without a value": 1}

    text = "index, power.draw [W], clocks_event_reasons.active, utilization.gpu [%]\n0, [N/A], 0xzz, 1.2.3 %\n1, 5 W, 0x1, 50 %\n"
    found = read(smi, text)
    assert [each.name for each in found.gpus] == ["GPU 1"]
    assert not smi.sniff("index, power.draw [W]" + "x" * 70_000)
