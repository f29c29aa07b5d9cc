"""Benchmarks of serving engines and step lines of training: what each says, and what it does not."""

from __future__ import annotations

import json

import pytest

from roofline.errors import BadValue
from roofline.evidence import bench, bench_text, training_log
from roofline.evidence.bench import Benchmark, Result
from roofline.evidence.lines import Lines

VLLM = {
    "backend": "vllm", "model_id": "Qwen/Qwen3-8B", "num_prompts": 200, "max_concurrency": 64, "duration": 50.0,
    "completed": 190, "total_input_tokens": 194_560, "total_output_tokens": 24_320, "request_throughput": 3.8,
    "output_throughput": 486.4, "mean_ttft_ms": 20.0, "mean_tpot_ms": 12.0, "mean_e2el_ms": 1600.0,
}  # fmt: skip
SGLANG = {key: value for key, value in VLLM.items() if key != "model_id"} | {
    "server_info": {"model_path": "meta-llama/Llama-3.1-8B", "tp_size": 2}, "random_output_len": 128,
}  # fmt: skip
ONE_BATCH = {
    "run_name": "d", "batch_size": 16, "input_len": 1024, "output_len": 64, "prefill_latency": 0.5,
    "prefill_throughput": 32_768.0, "median_decode_latency": 0.01, "median_decode_throughput": 1600.0,
}  # fmt: skip
GENAI = {
    "input_config": {"model": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 8}}},
    "request_throughput": {"unit": "requests/sec", "avg": 4.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 512.0},
    "time_to_first_token": {"unit": "ms", "avg": 25.0},
    "inter_token_latency": {"unit": "ms", "avg": 10.0},
    "input_sequence_length": {"unit": "tokens", "avg": 500.0},
    "output_sequence_length": {"unit": "tokens", "avg": 128.0},
}
AIPERF = GENAI | {
    "input_config": {"cli_command": "aiperf profile", "endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 8}}
}
LLAMA = [
    {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 9000.0, "model_type": "qwen3 8B Q4_K - Medium", "gpu_info": "NVIDIA GeForce RTX 4090"},
    {"n_prompt": 0, "n_gen": 128, "n_depth": 4096, "avg_ts": 120.0, "model_type": "qwen3 8B Q4_K - Medium"},
]  # fmt: skip
TRTLLM = {
    "engine": {"model": "m", "dtype": "bfloat16"}, "world_info": {"tp_size": 2, "pp_size": 2},
    "request_info": {"num_requests": 100, "avg_input_length": 1000.0, "avg_output_length": 100.0, "avg_num_concurrent_requests": 32.5},
    "performance": {"request_throughput_req_s": 10.0, "output_throughput_per_gpu_tok_s": 250.0, "total_latency_ms": 10_000.0},
    "streaming_metrics": {"avg_ttft_ms": 100.0, "avg_tpot_ms": 20.0},
}  # fmt: skip


def read(value: object) -> Benchmark:
    text = value if isinstance(value, str) else json.dumps(value)
    assert bench.sniff(text)
    return bench.read(Lines([text.encode()]))


def one(value: object) -> Result:
    (found,) = read(value).results
    return found


def test_vllm_serve():
    """Lengths are means over what was completed, milliseconds are seconds, what failed is said."""
    found = one(VLLM)

    assert (found.tool, found.phase, found.model) == ("vLLM bench serve", "serving", "Qwen/Qwen3-8B")
    assert (found.concurrency, found.input_tokens, found.output_tokens) == (64, 1024, 128)
    assert (found.output_rate, found.per_token, found.latency) == (486.4, pytest.approx(0.012), pytest.approx(1.6))
    assert found.notes == (
        "190 of 200 requests were completed",
        "6.1 requests were at once in the mean (requests/s times latency), of 64 allowed: the bound is that of a full "
        "batch, and the load did not fill it",
    )
    assert one(VLLM | {"max_concurrency": 7}).notes == ("190 of 200 requests were completed",)


def test_sglang():
    """JSON lines, the server's own facts, and one batch alone."""
    served = one(SGLANG)
    assert (served.tool, served.model, served.ranks) == ("SGLang bench_serving", "meta-llama/Llama-3.1-8B", 2)

    found = read("\n".join(json.dumps(each) for each in (ONE_BATCH, ONE_BATCH | {"batch_size": 32})) + "\nnoise")
    assert [(each.phase, each.concurrency) for each in found.results] == [
        ("decode", 16),
        ("prefill", 16),
        ("decode", 32),
        ("prefill", 32),
    ]
    assert (found.results[1].input_rate, found.results[1].output_rate, found.results[1].context) == (32_768, None, None)
    assert (found.results[0].phase, found.results[0].output_rate, found.results[0].context) == ("decode", 1600, 1056)
    assert found.left_out == {"lines that are no JSON": 1}


@pytest.mark.parametrize(("value", "tool"), [(GENAI, "genai-perf"), (AIPERF, "AIPerf")])
def test_genai_perf_and_aiperf(value, tool):
    """An object a metric, in its unit."""
    found = one(value)

    assert (found.tool, found.model, found.concurrency) == (tool, "m", 8)
    assert (found.output_rate, found.first_token, found.per_token) == (512, pytest.approx(0.025), pytest.approx(0.01))


def test_llama_bench():
    """Reading and making tokens apart; the depth is what is cached."""
    prefill, decode = read(LLAMA).results

    assert (prefill.phase, prefill.input_rate, prefill.device, prefill.dtype) == (
        "prefill",
        9000,
        "NVIDIA GeForce RTX 4090",
        "Q4_K",
    )
    assert (decode.phase, decode.output_rate, decode.context, decode.concurrency) == ("decode", 120, 4160, 1)


@pytest.mark.parametrize(
    ("said", "device", "ranks"),
    [
        ({"gpu_info": "RTX 4090, RTX 4090", "split_mode": "layer"}, "RTX 4090", None),
        ({"gpu_info": "RTX 4090, RTX 4090", "split_mode": "row"}, "RTX 4090", 2),
        ({"gpu_info": "RTX 4090, RTX 3090"}, "RTX 4090, RTX 3090", None),
        ({"gpu_info": "RTX 4090", "cpu_info": "EPYC", "n_gpu_layers": 0}, "EPYC", None),
    ],
)
def test_cards_of_llama_bench(said, device, ranks):
    """Layers go from card to card unless rows are split; without a layer on a card the processor did it all."""
    found = one({"n_prompt": 0, "n_gen": 128, "avg_ts": 100.0, **said})

    assert (found.device, found.ranks) == (device, ranks)


def test_trtllm_bench():
    """The rate of one GPU times all of them."""
    found = one(TRTLLM)

    assert (found.output_rate, found.ranks, found.concurrency) == (1000, 4, 32.5)
    assert (found.duration, found.first_token, found.dtype, found.kv) == (10, pytest.approx(0.1), "bfloat16", "")


@pytest.mark.parametrize(("said", "dtype"), [("FP8", "FP8"), ("None", "bfloat16"), (None, "bfloat16")])
def test_quantised_weights_of_trtllm_bench(said, dtype):
    """`dtype` is of what is not quantised."""
    engine = {"model": "m", "dtype": "bfloat16", "quantization": said, "kv_cache_dtype": "FP8"}
    found = one(TRTLLM | {"engine": engine})

    assert (found.dtype, found.kv) == (dtype, "FP8")


def test_vllm_latency_and_throughput():
    """What their files do not say stays unknown."""
    latency = one({"avg_latency": 1.5, "latencies": [1.5], "percentiles": {}})
    assert (latency.tool, latency.batch_latency, latency.concurrency, latency.output_rate) == (
        "vLLM bench latency",
        1.5,
        None,
        None,
    )

    found = one({"elapsed_time": 10.0, "num_requests": 100, "total_num_tokens": 5000, "requests_per_second": 10.0,
                 "tokens_per_second": 500.0})  # fmt: skip
    assert (found.tool, found.output_rate, found.token_rate) == ("vLLM bench throughput", None, 500)


def test_requests_at_once_by_littles_law():
    """3.8 requests a second that take 20 ms + 127 x 12 ms each: 5.87 at once."""
    found = one({key: value for key, value in VLLM.items() if key not in ("max_concurrency", "mean_e2el_ms")})

    assert found.concurrency == pytest.approx(3.8 * (0.020 + 127 * 0.012))
    assert "Little" in found.concurrency_from


@pytest.mark.parametrize("value", [None, True, "fast", -1, float("nan"), 1e300, [1]])
def test_values_that_are_none(value):
    """A rate that is no number is unknown."""
    text = json.dumps(VLLM | {"output_throughput": value, "duration": None})
    assert bench.read(Lines([text.encode()])).results[0].output_rate is None


def test_other_json():
    """Known by no key, cut, or nested without end."""
    assert not bench.sniff('{"traceEvents": [], "output_throughput": 1}')
    for text in ('{"output_throughput": 1}', json.dumps(VLLM)[:-5], "[" * 99_999 + '"avg_ts":'):
        with pytest.raises(BadValue, match="no known benchmark"):
            bench.read(Lines([text.encode()]))


SERVED = """INFO starting
============ Serving Benchmark Result ============
Successful requests:                     1000
Maximum request concurrency:             256
Benchmark duration (s):                  57.33
Total input tokens:                      217,393
Total generated tokens:                  185142
Request throughput (req/s):              17.44
Output token throughput (tok/s):         3229.5
---------------Time to First Token----------------
Mean TTFT (ms):                          1200.2
Mean TPOT (ms):                          45.1
==================================================
"""
TRT_TEXT = """Model:                  meta-llama/Llama-3.1-8B
TP Size:                2
Number of requests:             3000
Average Input Length (tokens):  128.0000
Average Output Length (tokens): 128.0000
Request Throughput (req/sec):                     43.2
Total Output Throughput (tokens/sec):             5530.1
"""
LLAMA_TABLE = """| model                  |       size |     params | backend | ngl |          test |              t/s |
| ---------------------- | ---------: | ---------: | ------- | --: | ------------: | ---------------: |
| qwen3 8B Q4_K - Medium |   4.68 GiB |     8.19 B | CUDA    |  99 |         pp512 | 12345.67 ± 12.30 |
| qwen3 8B Q4_K - Medium |   4.68 GiB |     8.19 B | CUDA    |  99 | tg128 @ d4096 |    145.67 ± 0.30 |
| qwen3 8B Q4_K - Medium |   4.68 GiB |     8.19 B | CUDA    |  99 |         other |              1.0 |
"""


def printed(text: str) -> tuple[Result, ...]:
    assert bench_text.sniff(text)
    return bench_text.read(Lines([text.encode()])).results


def test_what_benchmarks_print():
    """Summaries of vLLM, SGLang and trtllm-bench, the table of llama-bench."""
    (vllm,) = printed(SERVED)
    assert (vllm.tool, vllm.concurrency, vllm.output_rate, vllm.completed) == ("vLLM bench serve", 256, 3229.5, 1000)
    (sglang,) = printed(SERVED.replace("Mean TPOT", "Mean E2E Latency"))
    assert (sglang.tool, sglang.latency) == ("SGLang bench_serving", pytest.approx(0.0451))
    (trt,) = printed(TRT_TEXT)
    assert (trt.model, trt.ranks, trt.output_rate, trt.input_tokens) == ("meta-llama/Llama-3.1-8B", 2, 5530.1, 128)
    prefill, decode = printed(LLAMA_TABLE)
    assert (prefill.input_rate, decode.output_rate, decode.context) == (12345.67, 145.67, 4160)


def test_lines_of_vllm():
    """`vllm bench throughput` and `latency` print a line each."""
    lines = (
        "Throughput: 32.80 requests/s, 16786.93 total tokens/s, 8393.46 output tokens/s\n"
        "Avg latency: 2.31 seconds\n10% percentile latency: 2.30 seconds\n"
    )
    throughput, latency = bench_text.read(Lines([lines.encode()])).results

    assert bench_text.sniff(lines)
    assert (throughput.tool, throughput.request_rate, throughput.output_rate) == (
        "vLLM bench throughput",
        32.8,
        8393.46,
    )
    assert (throughput.token_rate, throughput.completed) == (16786.93, None)
    assert (latency.tool, latency.batch_latency) == ("vLLM bench latency", 2.31)


def test_a_summary_that_is_cut():
    """Its title alone is no result."""
    with pytest.raises(BadValue, match="no figure"):
        bench_text.read(Lines([SERVED[:120].encode()]))


TITAN = "[titan] 2025-01-01 10:00:0{0},1 - root - INFO - \x1b[31mstep: {0}0  loss:  7.2  memory: 45.11GiB(47.48%)  \x1b[34mtps: {1}  tflops: {2}  mfu: {3}%\x1b[39m"
MEGATRON = " [2024-05-01 10:00:00] iteration {0:8}/  500000 | consumed samples: 2560 | elapsed time per iteration (ms): {1} | throughput per GPU (TFLOP/s/GPU): {2} | learning rate: 1.0E-4 | global batch size:   256 | lm loss: 1.2E0"


def logged(*lines: str) -> training_log.TrainingLog:
    text = "\n".join(lines)
    assert training_log.sniff("noise\n" + training_log_plain(text))
    return training_log.read(Lines([text.encode()]))


def training_log_plain(text: str) -> str:
    return "\n".join(Lines([text.encode()]))


def test_torchtitan():
    """Tokens and FLOPs of one device, without the colours; the first step is warm-up."""
    found = logged(
        TITAN.format(1, "310", "15.6", "1.58"), *(TITAN.format(n, "6,201", "312.10", "31.55") for n in range(2, 6))
    )

    assert found.tool == "torchtitan"
    assert [each.number for each in found.steps] == [10, 20, 30, 40, 50]
    assert len(found.steady) == 4
    assert (found.steady[0].tokens_per_gpu, found.steady[0].flops_per_gpu, found.steady[0].mfu) == (
        6201,
        pytest.approx(312.1e12),
        pytest.approx(0.3155),
    )


def test_megatron_and_nemo():
    """Times of iterations, the global batch; a step that each rank prints counts once."""
    line = MEGATRON.format(11, 8043.8, 411.8)
    found = logged(line, line, MEGATRON.format(12, 8000.0, 412.0))
    assert (found.tool, len(found.steps), found.left_out) == (
        "Megatron-LM",
        2,
        {"step lines of a step that comes again": 1},
    )
    assert (found.steps[0].seconds, found.steps[0].sequences, found.steps[0].flops_per_gpu) == (
        pytest.approx(8.0438),
        256,
        pytest.approx(411.8e12),
    )

    nemo = logged(
        "Training epoch 0, iteration 9/99 | lr: 1e-4 | global_batch_size: 2048 | global_step: 9 | train_step_timing in s: 5.2"
    )
    assert (nemo.tool, nemo.steps[0].seconds, nemo.steps[0].sequences) == ("NeMo", 5.2, 2048)
    bridge = logged(
        "Step Time : 12.30s GPU utilization: 700.5MODEL_TFLOP/s/GPU",
        "Step Time : 12.40s GPU utilization: 699.5MODEL_TFLOP/s/GPU",
    )
    assert (bridge.tool, len(bridge.steps), bridge.steps[0].flops_per_gpu) == (
        "Megatron-Bridge",
        2,
        pytest.approx(700.5e12),
    )


@pytest.mark.parametrize("rate", ["412.5", "4.125e+02", "0.4125E3"])
def test_numbers_with_exponents(rate):
    line = f"iteration 3/9 | global_step: 3 | train_step_timing in s: 1.2e+01 | TFLOPS_per_GPU: {rate} | consumed: 4"
    (step,) = logged(line).steps

    assert (step.seconds, step.flops_per_gpu) == (12, pytest.approx(412.5e12))


def test_a_log_without_steps():
    """Words alone are no step."""
    assert not training_log.sniff("step by step we iterate\n")
    with pytest.raises(BadValue, match="without a whole step"):
        training_log.read(Lines([b"step: 3"]))


def test_the_card_above_a_table_of_llama_bench():
    text = (
        "ggml_cuda_init: found 1 CUDA devices:\n"
        "  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes\n"
        "| model | size | params | backend | ngl | type_k | test | t/s |\n| --- | ---: | --- |\n"
        "| qwen2 7B Q4_K - Medium | 4.36 GiB | 7.62 B | CUDA | 99 | q8_0 | tg128 | 147.73 ± 0.21 |\n"
    )
    (found,) = bench_text.read(Lines([text.encode()])).results

    assert (found.device, found.kv, found.output_rate) == ("NVIDIA GeForce RTX 4090", "q8_0", 147.73)


LLAMA_CSV = (
    "ggml_cuda_init: found 1 CUDA devices:\n"
    "build_commit,gpu_info,model_type,n_prompt,n_gen,n_depth,avg_ts,stddev_ts\n"
    '"abc","NVIDIA GeForce RTX 4090","llama 8B Q4_K - Medium","512","0","0","11000.5","10.1"\n'
    '"abc","NVIDIA GeForce RTX 4090","llama 8B Q4_K - Medium","0","128","0","142.5","0.1"\n'
    "cut\n"
)


def test_llama_bench_as_csv():
    """The columns of its JSON."""
    found = bench_text.read(Lines([LLAMA_CSV.encode()])).results

    assert bench_text.sniff(LLAMA_CSV)
    assert [(each.phase, each.input_rate, each.output_rate) for each in found] == [
        ("prefill", 11000.5, None),
        ("decode", None, 142.5),
    ]
    assert {each.dtype for each in found} == {"Q4_K"}


def test_colours_of_a_log_that_lost_their_first_character():
    """A terminal's codes, half of them left."""
    line = b"- INFO - [31mstep: 10  [32mloss: 10.27  [34mtps: 7,215  [36mtflops: 417.10  [35mmfu: 42.17%[39m"

    assert training_log.read(Lines([line])).steps[0].tokens_per_gpu == 7215
