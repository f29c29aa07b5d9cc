"""What counters, collectives, benchmarks and logs are judged to say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import roofline as rl
from roofline.diagnosis.assess import assess
from roofline.diagnosis.assessment import Assessment, BenchmarkRow, CardState, CollectiveRun, KernelGroup
from roofline.diagnosis.benchmarks import Run, assess_benchmark
from roofline.diagnosis.collectives import agrees, bus_bandwidth
from roofline.diagnosis.counters import card_state, state
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.kernels import assess_launches, points
from roofline.diagnosis.known import recognised
from roofline.errors import BadValue
from roofline.evidence import bench
from roofline.evidence.bench import Benchmark
from roofline.evidence.counters import Counters, Series
from roofline.evidence.launches import Launch, Rule
from roofline.evidence.nccl import Half, Log, Row
from roofline.evidence.nccl import Run as NcclRun
from roofline.evidence.ncu import Report
from roofline.evidence.nsys_stats import Sum, Sums
from roofline.evidence.training_log import Step, TrainingLog
from roofline.show.assessment import assessment_text
from roofline.show.terminal import show
from roofline.workload import Precision

GEMM = {
    "seconds": 1e-4,
    "dram_bytes": 6e8,
    "dram_peak_per_cycle": 2e3,
    "dram_clock": 4e9,
    "dram_share": 0.75,
    "memory_share": 0.8,
    "compute_share": 0.3,
}


def launch(
    kernel: str = "gemm", counted: bool = True, flops: dict[str, float] | None = None, **changes: float
) -> Launch:
    values = {name: value for name, value in (GEMM | changes).items() if value >= 0}
    return Launch(
        kernel,
        "64, 1, 1",
        "256, 1, 1",
        0,
        "9.0",
        values,
        {"bf16": 8e9} if flops is None else flops,
        counted,
        {"bf16": 1e15},
    )


def kernels(*launches: Launch, **named: object) -> tuple[Assessment, tuple[KernelGroup, ...]]:
    found = assess_launches(Report("raw page", launches), "x.csv", **named)
    return found, tuple(each for each in found.rows if isinstance(each, KernelGroup))


def rules(found: Assessment) -> list[str]:
    return [each.rule for each in found.findings]


# --- kernels by counters


def test_a_measured_point():
    """600 MB of 8 TB/s take 75 us at the least, of the 100 us: 75 %, as the tool's own percentage says."""
    found, (group,) = kernels(launch())

    assert group.point is not None
    assert group.point.traffic == "dram"
    assert group.bound_seconds == pytest.approx(75e-6)
    assert group.of_bound == pytest.approx(0.75)
    assert group.dram_share == pytest.approx(group.tool["dram_share"], rel=0.01)
    assert (group.limit, group.category) == ("memory", "gemm")
    assert found.device is not None
    assert found.device.id == "measured"
    assert "wait for memory" in found.verdict


def test_the_bound_is_computes_where_flops_set_it():
    """1e12 FLOP at 1e15 FLOP/s take a millisecond; launches of one kernel are one row."""
    _, (group,) = kernels(launch(flops={"bf16": 1e12}, seconds=2e-3), launch(flops={"bf16": 1e12}, seconds=2e-3))

    assert group.calls == 2
    assert group.point is not None
    assert group.point.bound.by == "compute"
    assert group.bound_seconds == pytest.approx(2e-3)
    assert group.of_bound == pytest.approx(0.5)


def test_what_the_tool_itself_estimates():
    """The largest of each of its rules, first the one that wins most."""
    slow = {"memory_share": 0.3, "dram_share": 0.3, "compute_share": 0.2}
    told = (Rule("Tail", "a", 0.5), Rule("Occupancy", "b", 0.8), Rule("Tail", "c", 0.1), Rule("Bottleneck", "d", None))
    found, _ = kernels(replace(launch(**slow), rules=told))

    assert "what each estimates to win: Occupancy 80 %, Tail 50 %" in found.findings[0].evidence[-1]


def test_points_of_launches():
    """One a launch, in its order; one without a duration has none."""
    report = Report("raw page", (launch(), launch(seconds=-1), launch(seconds=2e-4)))

    assert [each.measured for each in points(report)] == [1e-4, 2e-4]
    assert points(Report("raw page", (launch(dram_peak_per_cycle=-1, dram_share=-1),))) == ()


def test_a_device_of_its_own_or_the_one_that_is_named():
    """The file's bandwidth, the catalogue's by name, --device; a device that it cannot be is said."""
    named, _ = kernels(launch(dram_peak_per_cycle=-1, dram_share=-1), device=rl.Device.load("h100-sxm"))
    assert named.device is not None
    assert named.device.id == "h100-sxm"
    other, _ = kernels(launch(), device=rl.Device.load("h100-sxm"))
    assert "is it that device?" in other.warnings[0]
    by_name = assess_launches(Report("raw page", (launch(),), "NVIDIA H100 80GB HBM3"), "x")
    assert by_name.device is not None
    assert (by_name.device.id, by_name.device.bandwidth) == ("h100-sxm", pytest.approx(8e12))
    unknown, (group,) = kernels(launch(dram_peak_per_cycle=-1, dram_share=-1))
    assert unknown.device is None
    assert group.point is None
    assert any("--device" in note for note in unknown.notes)


def test_bytes_by_the_tools_percentage():
    """A details page has no bytes: the share of a known bandwidth times the time tells them."""
    found, (group,) = kernels(launch(dram_bytes=-1, dram_peak_per_cycle=-1), device=rl.Device.load("h100-sxm"))

    assert group.bytes == pytest.approx(0.75 * 3352.32e9 * 1e-4)
    assert any("estimated" in note for note in found.notes)


@pytest.mark.parametrize(
    ("shares", "limit"),
    [
        ({"memory_share": 0.8, "dram_share": 0.8, "compute_share": 0.2}, "memory"),
        ({"memory_share": 0.8, "dram_share": 0.2, "compute_share": 0.2}, "cache"),
        ({"memory_share": 0.5, "dram_share": 0.2, "compute_share": 0.9}, "compute"),
        ({"memory_share": 0.5, "dram_share": 0.4, "compute_share": 0.3}, "latency"),
    ],
)
def test_limits(shares, limit):
    """NVIDIA's own rule: the larger throughput from 60 % on, else latency."""
    found, (group,) = kernels(launch(dram_bytes=-1, dram_peak_per_cycle=-1, **shares))

    assert group.limit == limit
    assert ("far-from-every-peak" in rules(found)) == (limit == "latency")


def test_a_gemm_without_tensor_cores():
    """FLOPs on vector units alone; one on tensor cores does not fire it."""
    found, _ = kernels(launch("sgemm_128x128", flops={"fp32-vector": 1e10}))
    assert "no-tensor-cores" in rules(found)
    found, _ = kernels(launch("sgemm_128x128"))
    assert "no-tensor-cores" not in rules(found)


def test_bytes_beside_those_of_the_shapes():
    """A GEMM that ought to move 200 MB moved 600: three times."""
    work = rl.ops.linear(m=10_000, n=5_000, k=3_333)
    found, (group,) = kernels(launch(), work=work)

    assert group.reread == pytest.approx(6e8 / work.bytes)
    assert "re-read" in rules(found)


def test_no_time_no_placement():
    """Without a duration nothing can be placed, and that is said."""
    found, _ = kernels(launch(seconds=-1))

    assert "nothing can be placed" in found.verdict
    assert "no duration" in found.warnings[0]


def test_sums():
    """Categories by time; nothing about how busy the device was."""
    found = assess(Sums(kernels=(Sum("sgemm", 2, 3000), Sum("flash_fwd", 1, 1000)), copies=(Sum("c", 1, 5),)), "x")

    assert found.verdict.startswith("Most of the kernel time is gemm: 75 %")
    assert sum(each.seconds or 0 for each in found.rows if isinstance(each, KernelGroup)) == pytest.approx(4e-6)
    assert "No kernel" in assess(Sums(calls=(Sum("c", 1, 5),)), "x").verdict


# --- counters


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"engine_active": 0.99, "dram_active": 0.74, "tensor_active": 0.12}, "memory"),
        ({"engine_active": 0.996, "dram_active": 0.691, "tensor_active": 0.929}, "compute"),
        ({"engine_active": 0.98, "dram_active": 0.1, "tensor_active": 0.05}, "neither"),
        ({"engine_active": 0.98, "dram_active": 0.2, "tensor_active": 0.0, "fp32_active": 0.7}, "compute"),
        ({"engine_active": 0.01, "dram_active": 0.0, "tensor_active": 0.0}, "idle"),
        ({"busy": 0.0}, "idle"),
        ({"busy": 1.0, "memory_busy": 0.1}, "busy"),
        ({"dram_active": 0.9}, "memory"),
        ({"tensor_active": 0.93}, "compute"),
        ({"tensor_active": 0.3}, "busy"),
        ({"sm_clock": 139e6}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_state_of_a_sample(values, expected):
    """Memory against arithmetic against how long a kernel ran; half of the picture is no verdict."""
    assert state(values) == expected


def cards(
    *samples: dict[str, float], card: str = "NVIDIA H100 80GB HBM3", timed: bool = True
) -> tuple[Assessment, CardState]:
    series = Series("GPU 0", card)
    for at, each in enumerate(samples):
        series.add(each, float(at) if timed else None)
    found = assess(Counters("dcgm", (series,)), "x")
    (row,) = found.rows
    assert isinstance(row, CardState)
    return found, row


MEMORY = {"engine_active": 1.0, "dram_active": 0.75, "tensor_active": 0.1}


def test_reads_busy_yet_waits_for_memory():
    """100 % busy, and the memory active three quarters of the time: 2.51 TB/s of an H100."""
    found, row = cards(*[MEMORY] * 11)

    assert row.verdict == "memory"
    assert row.bandwidth == pytest.approx(0.75 * 3352.32e9)
    assert row.flops["bf16"] == pytest.approx(0.1 * 989.4e12)
    assert row.sentence.startswith("Reads 100 % busy and waits for memory")
    (finding,) = found.findings
    assert (finding.rule, finding.at_stake) == ("busy-yet-waiting-for-memory", pytest.approx(10 * 0.25))


def test_without_times_nothing_is_at_stake():
    """A single scrape has no seconds; an unknown card no estimates."""
    found, row = cards(MEMORY, card="", timed=False)

    assert found.findings[0].at_stake is None
    assert (row.bandwidth, row.flops, row.device) == (None, {}, None)


def test_an_idle_card_is_never_called_busy():
    """99 % idle; utilisation alone tells no limit."""
    found, row = cards(*[{"busy": 0.0}] * 99, {"busy": 1.0})
    assert row.verdict == "idle"
    assert row.states["idle"] == pytest.approx(0.99)
    assert rules(found) == ["idle"]

    _, row = cards(*[{"busy": 1.0}] * 3)
    assert "no counter says what limits" in row.sentence


def test_figures_are_those_of_the_samples_that_are_told_of():
    """Half of the time idle, half of it waiting for memory: not 38 % of the memory's time."""
    found, row = cards(*[{"engine_active": 0.0, "dram_active": 0.0, "tensor_active": 0.0}] * 3, *[MEMORY] * 3)

    assert row.sentence.startswith("In 50 % of the samples it reads 100 % busy and waits for memory; idle in 50 %")
    assert "memory active 75 %" in row.sentence
    assert row.means["dram_active"] == pytest.approx(0.375)
    assert found.verdict.startswith("GPU 0: in 50 %")
    assert any("DRAM_ACTIVE" in each for each in found.notes)
    assert any("Utilisation" in each for each in cards({"busy": 1.0})[0].notes)


def test_neither_memory_nor_compute():
    """Kernels run all the time and nothing is near full; much over PCIe is said."""
    found, _ = cards(*[{"engine_active": 1.0, "dram_active": 0.1, "tensor_active": 0.1, "pcie_sent": 40e9}] * 5)

    assert set(rules(found)) == {"neither-memory-nor-compute", "pcie-traffic"}
    assert any("pcie" in line for line in found.findings[0].evidence)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"power_capped": 1.0}, "power-limit"),
        ({"throttle_mask": 4.0}, "power-limit"),
        ({"power": 699.0, "power_limit": 700.0, "sm_clock": 1.4e9, "sm_clock_most": 1.98e9}, "power-limit"),
        ({"throttle_mask": 64.0, "temperature": 90.0}, "thermal"),
        ({"thermal_slowed": 1.0}, "thermal"),
    ],
)
def test_held_down_clocks(change, rule):
    """By a flag, by a bit of the mask, by draw at the limit and a low clock; none without."""
    assert rule in rules(cards(*[MEMORY | change] * 3)[0])
    quiet = {"power": 500.0, "power_limit": 700.0, "sm_clock": 1.98e9, "sm_clock_most": 1.98e9, "throttle_mask": 0.0}
    assert rules(cards(*[MEMORY | quiet] * 3)[0]) == ["busy-yet-waiting-for-memory"]


def test_a_card_that_is_slower_than_the_others():
    """One of four at 1.2 GHz where the others have 1.8; two cards are no majority."""
    gpus = tuple(Series(f"GPU {n}", "NVIDIA H100 80GB HBM3") for n in range(4))
    for at, each in enumerate(gpus):
        for time in (0.0, 10.0):
            each.add(MEMORY | {"sm_clock": 1.2e9 if at == 2 else 1.8e9}, time)
    (finding,) = [each for each in assess(Counters("dcgm", gpus), "x").findings if each.rule == "slow-card"]

    assert finding.title.startswith("GPU 2:")
    assert finding.at_stake == pytest.approx(10 / 3)
    assert "slow-card" not in rules(assess(Counters("dcgm", gpus[1:3]), "x"))


def test_violations_that_grow():
    """A counter of time under the power limit."""
    assert "power-limit" in rules(cards(MEMORY | {"power_violation": 1.0}, MEMORY | {"power_violation": 900.0})[0])
    assert "thermal" in rules(cards(MEMORY | {"thermal_violation": 1.0}, MEMORY | {"thermal_violation": 900.0})[0])
    hard = MEMORY | {"thermal_violation": 0.0, "thermal_violation_hard": 1.0}
    assert "thermal" in rules(cards(hard, hard | {"thermal_violation_hard": 900.0})[0])


def test_many_cards():
    """A fleet in a sentence, and each finding once for all of its cards."""
    gpus = tuple(Series(f"GPU {n}") for n in range(8))
    for each in gpus:
        each.add(MEMORY)
    gpus[7].columns["dram_active"][0] = 0.05
    found = assess(Counters("dcgm", gpus), "x", Run(device=rl.Device.load("h100-sxm")))

    assert found.verdict == "Of 8 cards: 7 waiting for memory; 1 busy with neither memory nor arithmetic near full."
    assert [each.title.partition(":")[0] for each in found.findings] == [
        "GPU 0, GPU 1, GPU 2, GPU 3 and 3 more",
        "GPU 7",
    ]
    assert card_state(gpus[0]).device is None


# --- collectives


def log(
    kind: str = "all-reduce", ranks: int = 8, link: float = 450e9, latency: float = 30e-6, **changes: object
) -> Log:
    """Timings of exactly that latency and bandwidth."""
    factor = 2 * (ranks - 1) / ranks
    rows = []
    for size in (2**n for n in range(3, 34)):
        seconds = latency + size * factor / link
        half = Half(seconds, size / seconds, size / seconds * factor, 0.0, seconds * 1e-6)
        rows.append(Row(size, size // 4, "float", "sum", -1, half, half))
    values = {"cards": ("NVIDIA H100 80GB HBM3",), "per_node": ranks, "nodes": 1, "average": None, "wrong": 0} | changes
    return Log((NcclRun(kind, "", ranks, "list", rows=tuple(rows), **values),))  # pyright: ignore


def run(found: Assessment) -> CollectiveRun:
    (row,) = found.rows
    assert isinstance(row, CollectiveRun)
    return row


def test_the_fit_gives_back_what_the_timings_were_made_of():
    """30 us and 405 GB/s: latency, bandwidth, share of NVLink, the size where both take as long."""
    found = run(assess(log(link=405e9), "x"))

    assert found.latency == pytest.approx(30e-6, rel=1e-6)
    assert found.bandwidth == pytest.approx(405e9, rel=1e-6)
    assert found.fit_error == pytest.approx(0, abs=1e-9)
    assert found.half_size == pytest.approx(30e-6 * 405e9 / 1.75)
    assert (found.link, found.link_bandwidth, found.in_network, found.disagree) == ("nvlink", 450e9, False, 0)


def test_sizes_that_the_terminal_leaves_out_are_counted(capsys):
    show(assessment_text(assess(log(), "x")))

    assert "14 of 31 sizes: --json has them all." in capsys.readouterr().out


def test_in_network_reduction():
    """An all-reduce above the one-way link; an all-gather cannot be."""
    assert run(assess(log(link=480e9), "x")).in_network
    assert "the network reduces" in assess(log(link=480e9), "x").verdict
    other = assess(log("all-gather", link=960e9), "x")
    assert not run(other).in_network


def test_below_the_link_and_not():
    """Half of NVLink is worth a finding with the seconds at stake; 90 % is not, nor is a link that is not known."""
    (finding,) = assess(log(link=225e9), "x").findings
    assert finding.rule == "below-the-link"
    assert finding.at_stake == pytest.approx(30e-6 + 2**33 * 1.75 * (1 / 225e9 - 1 / 450e9), rel=1e-6)
    assert assess(log(link=405e9), "x").findings == ()
    assert assess(log(link=50e9, nodes=2, per_node=4), "x").findings == ()


def test_wrong_results_and_columns_that_disagree():
    """Values out of bounds; bandwidths that are not size over time."""
    assert rules(assess(log(wrong=3), "x")) == ["wrong-results"]
    good = Half(100e-6, 10.24e9, 17.92e9, None, 5e-9)
    assert agrees(1_024_000, good, 1.75)
    assert not agrees(1_024_000, Half(100e-6, 11e9, 17.92e9, None, 5e-9), 1.75)
    assert not agrees(1_024_000, Half(100e-6, 10.24e9, 10.24e9, None, 5e-9), 1.75)


def test_bus_bandwidth_for_training():
    """That of the largest size; a log without it says what it has."""
    assert bus_bandwidth(log(link=405e9)) == pytest.approx(405e9, rel=0.01)
    with pytest.raises(BadValue, match="It has: all-reduce"):
        bus_bandwidth(log(), "all-gather")


def test_one_rank():
    """It sends nothing, and nothing is said of a link."""
    alone = log(ranks=1, link=1.0)
    assert "a single rank" in assess(alone, "x").verdict
    again = replace(alone, runs=alone.runs * 3)
    assert assess(again, "x").verdict == assess(alone, "x").verdict


# --- benchmarks and training logs


SERVED = {
    "model_id": "Qwen/Qwen3-8B", "max_concurrency": 64, "duration": 50.0, "completed": 200, "total_input_tokens": 204_800,
    "total_output_tokens": 25_600, "request_throughput": 4.0, "output_throughput": 512.0, "mean_tpot_ms": 12.0,
}  # fmt: skip


def benchmark(entry: object, **ran: object) -> tuple[Assessment, BenchmarkRow]:
    from roofline.evidence import bench
    from roofline.evidence.lines import Lines

    found = assess(bench.read(Lines([json.dumps(entry).encode()])), "x.json", Run(**ran))  # pyright: ignore
    row = found.rows[0]
    assert isinstance(row, BenchmarkRow)
    return found, row


def test_a_decode_beside_its_ledger(h100, qwen):
    """16 sequences at 1056 tokens: the bound is that of roofline predict, to the digit."""
    entry = {"batch_size": 16, "input_len": 1024, "output_len": 64, "median_decode_throughput": 1600.0}
    _, row = benchmark(entry, model=qwen, device=h100)
    total = rl.predict(qwen, h100, rl.Workload.decode(16, 1056), rl.Precision()).total

    assert row.bound == pytest.approx(16 / total.bound_seconds)
    assert row.of_bound == pytest.approx(1600 / row.bound)
    assert row.bound_by == "memory"
    assert row.reach is not None
    assert "kernels of these kinds reach" in row.sentence


def test_serving_mixes_decode_and_prefill(h100):
    """Each pass has 64 decode rows and the prefill of 64/128 requests of 1024 tokens."""
    found, row = benchmark(SERVED, device=h100)
    model = rl.Model.load("Qwen3-8B")
    workload = rl.Workload.mixed(rl.Workload.decode(64, 1088), rl.Workload.prefill(1, 512, 256))
    expected = rl.predict(model, h100, workload, rl.Precision()).total

    assert row.model == model.name  # by the file's own name of it
    assert row.bound == pytest.approx(64 / expected.bound_seconds)
    assert rules(found) == ["below-what-such-kernels-reach"]
    assert found.findings[0].at_stake == pytest.approx(50 * (1 - row.of_bound / row.reach[1]))


def test_prefill_and_short_answers(h100, qwen):
    """Tokens read a second; answers shorter than the batch is large."""
    entry = {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 9000.0}
    _, row = benchmark([entry], model=qwen, device=h100)
    total = rl.predict(qwen, h100, rl.Workload.prefill(1, 512), rl.Precision()).total
    assert row.bound == pytest.approx(512 / total.bound_seconds)

    _, row = benchmark(SERVED | {"total_output_tokens": 200}, device=h100)
    assert row.bound is not None


@pytest.mark.parametrize(
    ("entry", "ran", "reason"),
    [
        (SERVED, {}, "--device"),
        (SERVED | {"model_id": "no/such"}, {}, "no/such is not built in"),
        (
            {key: value for key, value in SERVED.items() if key not in ("max_concurrency", "mean_tpot_ms")},
            {"device": "h100-sxm"},
            "at once",
        ),
        ({"avg_latency": 1.5, "percentiles": {}}, {}, "no rate"),
    ],
)
def test_what_is_missing_is_asked_for(entry, ran, reason):
    """No bound, and why; the network is never asked for a file's model."""
    _, row = benchmark(entry, **{key: rl.Device.load(value) for key, value in ran.items()})

    assert row.bound is None
    assert reason in row.sentence


def test_weights_as_the_file_says(h100, qwen):
    """A benchmark of quantised weights is bounded by no more bytes than these; a format that is named stands."""
    entry = {"n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 100.0, "model_type": "qwen3 8B Q4_K - Medium"}
    benchmark = Benchmark((bench.result(entry),))
    (row,) = assess_benchmark(benchmark, "x", Run(qwen, h100)).rows
    (asked,) = assess_benchmark(benchmark, "x", Run(qwen, h100, Precision("fp8"))).rows
    expected = rl.predict(qwen, h100, rl.Workload.decode(1, 64), Precision("int4-g64", compute="int8"))

    assert row.step_bound == pytest.approx(float(expected.total.bound_seconds))
    assert row.step_bound < asked.step_bound


def test_weights_and_cache_of_an_engine(h100, qwen):
    """Its quantisation, and not the format of what is not quantised; the cache by its own word."""
    entry = {
        "engine": {"model": "m", "dtype": "bfloat16", "quantization": "FP8", "kv_cache_dtype": "FP8"},
        "request_info": {"avg_num_concurrent_requests": 64, "avg_input_length": 128, "avg_output_length": 128},
        "performance": {"system_output_throughput_tok_s": 5000.0},
    }
    found, row = benchmark(entry, model=qwen, device=h100)
    workload = rl.Workload.mixed(rl.Workload.decode(64, 192), rl.Workload.prefill(1, 64, 32))
    expected = rl.predict(qwen, h100, workload, Precision("fp8", "fp8", compute="fp8"))

    assert row.step_bound == pytest.approx(float(expected.total.bound_seconds))
    assert "Formats: weights in FP8 by the file, bounded as fp8; KV fp8" in found.notes


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("org/Qwen3-8B-FP8", "fp8"),
        ("Qwen3-8B-AWQ", "int4"),
        ("Qwen3-8B-GPTQ-Int8", "int8"),
        ("Qwen3-8B-quantized.w4a16", "int4"),
        ("Qwen3-8B-NVFP4", "nvfp4"),
        ("Qwen3-8B", "stored"),
        ("Qwen3-8B-fp8ish", "stored"),
    ],
)
def test_formats_that_a_models_name_tells(name, weights, h100, qwen):
    _, row = benchmark(SERVED | {"model_id": name}, model=qwen, device=h100)
    workload = rl.Workload.mixed(rl.Workload.decode(64, 1088), rl.Workload.prefill(1, 512, 256))
    compute = {"fp8": "fp8", "int4": "int8", "int8": "int8", "nvfp4": "fp8"}.get(weights, "bf16")
    expected = rl.predict(qwen, h100, workload, Precision(weights, compute=compute))

    assert row.step_bound == pytest.approx(float(expected.total.bound_seconds))


def test_what_a_file_leaves_open_is_asked_for(h100, qwen):
    """A batch of 8 that reads 32 tokens and makes 128 in 2 s makes 512 a second; sums are divided by lengths."""
    latency = {"avg_latency": 2.0, "percentiles": {}}
    _, row = benchmark(latency, model=qwen, device=h100, sequences=8, input_tokens=32, output_tokens=128)
    assert (row.measured, row.concurrency) == (512, 8)
    assert row.of_bound is not None
    assert "--sequences, --input, --output" in benchmark(latency, model=qwen, device=h100)[1].sentence

    whole = {"elapsed_time": 10.0, "num_requests": 100, "requests_per_second": 10.0, "tokens_per_second": 4000.0}
    _, row = benchmark(whole, model=qwen, device=h100, sequences=64, input_tokens=300, output_tokens=100)
    assert row.measured == 1000
    assert row.of_bound is not None
    assert "--input, --output" in benchmark(whole, model=qwen, device=h100)[1].sentence


def test_another_device_or_model_than_the_files_is_said(h100, qwen):
    entry = {"n_prompt": 0, "n_gen": 128, "avg_ts": 100.0, "model_type": "x", "gpu_info": "NVIDIA GeForce RTX 4090"}
    found, _ = benchmark(entry, model=qwen, device=h100)
    assert found.warnings == (
        "the file names NVIDIA GeForce RTX 4090, and the bound is that of h100-sxm, as asked for",
    )

    full = SERVED | {"max_concurrency": 6}
    found, _ = benchmark(full | {"model_id": "meta-llama/Llama-3.1-8B"}, model=qwen, device=h100)
    assert found.warnings == (
        f"the file names meta-llama/Llama-3.1-8B, and the bound is that of {qwen.name}, as asked for",
    )
    assert benchmark(full, model=qwen, device=h100)[0].warnings == ()


def test_weights_of_no_known_format(h100, qwen):
    entry = {"n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 100.0, "model_type": "qwen3 8B Q2_K - Medium"}
    (row,) = assess_benchmark(Benchmark((bench.result(entry),)), "x", Run(qwen, h100)).rows

    assert row.bound is None
    assert "Q2_K" in row.sentence


def test_more_than_the_bound_is_said(h100):
    """A rate that cannot be is reported as it is."""
    _, row = benchmark(SERVED | {"output_throughput": 1e6}, device=h100)

    assert row.of_bound > 1
    assert "No sound measurement is above a bound" in row.sentence


def test_training_log(h100, qwen):
    """312 TFLOP/s of 989.4 are 31.5 %; 6N a token; an MFU by another peak is said."""
    steps = tuple(Step(n, 2.0 if n != 7 else 9.0, 6201.0, 312.1e12, 0.3155) for n in range(10))
    found = assess(TrainingLog("torchtitan", steps), "x", Run(qwen, h100))
    (row,) = found.rows
    assert isinstance(row, BenchmarkRow)

    assert row.facts["mfu"] == pytest.approx(312.1 / 989.4, rel=1e-3)
    assert row.bound == pytest.approx(989.4e12 / (6 * qwen.parameters().active), rel=1e-3)
    assert found.warnings == ()
    assert (found.findings[0].rule, found.findings[0].at_stake) == ("slow-steps", pytest.approx(7.0))
    doubled = tuple(Step(n, None, None, 312.1e12, 0.158) for n in range(3))
    assert "divides by a peak" in assess(TrainingLog("torchtitan", doubled), "x", Run(None, h100)).warnings[0]
    bare = assess(TrainingLog("NeMo", (Step(1, 2.0),)), "x")
    assert "name the device" in bare.verdict


def test_ranked():
    """By the seconds at stake; those without any last."""
    made = [Finding(name, name, stake, (), "") for name, stake in (("a", None), ("b", 1.0), ("c", 2.0))]
    assert [each.rule for each in ranked(made)] == ["c", "b", "a"]


def test_recognised():
    """With or without the vendor; a name that could be several is none."""
    assert recognised("A100-SXM4-40GB").id == "a100-sxm-40gb"
    assert recognised("") is None
    assert recognised("NVIDIA Test GPU") is None


def test_a_device_without_supplies_is_no_device():
    """A card that is known by its name alone has no roofline."""
    from roofline import sheets

    bare = next(each for each in sheets.every() if each.aliases and not _supplied(each))
    assert recognised(bare.aliases[0]) is None


def _supplied(sheet) -> bool:
    try:
        sheet.device()
    except rl.RooflineError:
        return False
    return True
