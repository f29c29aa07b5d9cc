"""Benchmarks of serving engines: their JSON and the summaries that they print, as one record.

Read: vLLM (`bench serve`, `bench latency`, `bench throughput`), SGLang (`bench_serving`, `bench_one_batch`), genai-perf
and AIPerf, llama-bench (JSON, JSON lines, Markdown), trtllm-bench. What a file does not say stays unknown: its model,
its device, its batch are asked for, never guessed.
"""

from __future__ import annotations

import json  # and not msgspec: these tools write Infinity and NaN
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from roofline.errors import BadValue
from roofline.evidence.lines import Lines
from roofline.units import KILO, MIB

_MOST = 256 * MIB
MOST_RESULTS = 1 << 12
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement. Rates are of all devices together [tokens/s]; times in [s]; lengths are means [tokens].

    `phase` is "serving" (requests come and go), "decode" or "prefill" (one batch, one phase alone).
    """

    tool: str
    phase: str
    model: str = ""
    device: str = ""
    concurrency: float | None = None  # requests at once
    concurrency_from: str = ""
    input_tokens: float | None = None
    output_tokens: float | None = None
    context: float | None = None  # tokens cached before
    output_rate: float | None = None
    input_rate: float | None = None
    request_rate: float | None = None
    first_token: float | None = None
    per_token: float | None = None
    latency: float | None = None
    duration: float | None = None
    completed: int | None = None
    failed: int | None = None
    ranks: int | None = None
    dtype: str = ""  # of the weights
    kv: str = ""  # of the cache
    token_rate: float | None = None  # tokens read and made together
    batch_latency: float | None = None  # of one batch, from its first token read to its last made
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The results of a file."""

    results: tuple[Result, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()


def number(entry: Entry, *keys: str) -> float | None:
    """The first of these keys that holds a finite number of zero or more; a dotted key goes into objects."""
    for key in keys:
        value: Any = entry
        for part in key.split("."):
            value = cast(Entry, value).get(part) if isinstance(value, Mapping) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LARGEST:
            return float(value)
    return None


_LARGEST = 2.0**60
_FORMAT = re.compile(r"\b(?:I?Q\d\w*|BF16|F16|F32|MXFP4|all F32)\b")


def word(entry: Entry, *keys: str) -> str:
    """The first of these keys that holds a text, or a list that begins with one."""
    for key in keys:
        value: Any = entry
        for part in key.split("."):
            value = cast(Entry, value).get(part) if isinstance(value, Mapping) else None
        if isinstance(value, list) and value:
            value = cast(list[Any], value)[0]
        if isinstance(value, str) and value:
            return value[:300]
    return ""


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _over(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _times(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _served(entry: Entry, tool: str) -> Result:
    """`vllm bench serve` and SGLang's bench_serving have nearly the same keys."""
    done = number(entry, "completed", "successful_requests")
    read = number(entry, "total_input_tokens")
    made = number(entry, "total_output_tokens")
    duration = number(entry, "duration")
    output = number(entry, "output_throughput")
    return Result(
        tool,
        "serving",
        model=word(entry, "model_id", "server_info.model_path", "model", "model_path"),
        concurrency=number(entry, "max_concurrency"),
        concurrency_from="max_concurrency" if number(entry, "max_concurrency") is not None else "",
        input_tokens=_over(read, done),
        output_tokens=_over(made, done),
        output_rate=output if output is not None else _over(made, duration),
        input_rate=_over(read, duration),
        request_rate=number(entry, "request_throughput"),
        first_token=_times(number(entry, "mean_ttft_ms", "median_ttft_ms"), 1 / KILO),
        per_token=_times(number(entry, "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"), 1 / KILO),
        latency=_times(number(entry, "mean_e2el_ms", "mean_e2e_latency_ms"), 1 / KILO),
        duration=duration,
        completed=_whole(done),
        failed=_whole(number(entry, "failed")),
        ranks=_whole(number(entry, "tensor_parallel_size", "server_info.tp_size", "tp_size")),
        notes=_fewer(entry, done),
    )


def _fewer(entry: Entry, done: float | None) -> tuple[str, ...]:
    asked = number(entry, "num_prompts")
    if asked is None or done is None or done >= asked:
        return ()
    return (f"{done:.0f} of {asked:.0f} requests were completed",)


def _vllm_latency(entry: Entry, tool: str) -> Result:
    return Result(
        tool,
        "serving",
        batch_latency=number(entry, "avg_latency"),
        notes=("its file names no model, batch or lengths",),
    )


def _vllm_throughput(entry: Entry, tool: str) -> Result:
    duration, requests = number(entry, "elapsed_time"), number(entry, "num_requests")
    return Result(
        tool,
        "serving",
        model=word(entry, "model"),
        request_rate=number(entry, "requests_per_second"),
        duration=duration,
        completed=_whole(requests),
        input_tokens=_over(number(entry, "total_num_prompt_tokens"), requests),
        output_tokens=_over(number(entry, "total_num_output_tokens"), requests),
        output_rate=_over(number(entry, "total_num_output_tokens"), duration),
        token_rate=number(entry, "tokens_per_second"),
        notes=() if number(entry, "total_num_output_tokens") else ("tokens read and made are one sum in its file",),
    )


def _sglang_batch(entry: Entry, tool: str) -> Result:
    batch = number(entry, "batch_size")
    step = number(entry, "median_decode_latency")
    read, made = number(entry, "input_len"), number(entry, "output_len")
    rate = number(entry, "median_decode_throughput", "output_throughput")
    return Result(
        tool,
        "decode" if step is not None or rate is not None else "prefill",
        model=word(entry, "model_path", "model"),
        concurrency=batch,
        concurrency_from="batch_size",
        input_tokens=read,
        output_tokens=made,
        context=None if read is None else read + (made or 0) / 2,
        output_rate=rate if rate is not None else _over(batch, step),
        input_rate=number(entry, "prefill_throughput", "input_throughput"),
        first_token=number(entry, "prefill_latency"),
        per_token=step,
        latency=number(entry, "total_latency", "latency"),
        ranks=_whole(number(entry, "tp_size")),
    )


def _sglang_prefill(entry: Entry) -> Iterator[Result]:
    """The prefill of a record that holds a batch's decode too."""
    both = _sglang_batch(entry, "SGLang bench_one_batch")
    if both.phase == "decode" and both.input_rate and number(entry, "prefill_latency") is not None:
        yield replace(both, phase="prefill", output_rate=None, per_token=None, context=None, latency=None)


def _genai(entry: Entry, tool: str) -> Result:
    """genai-perf and AIPerf: an object a metric, with its unit and statistics."""

    def metric(*names: str) -> float | None:
        value = number(entry, *(f"{name}.avg" for name in names), *(f"records.{name}.avg" for name in names))
        unit = next(
            (
                word(entry, f"{name}.unit", f"records.{name}.unit")
                for name in names
                if word(entry, f"{name}.unit", f"records.{name}.unit")
            ),
            "",
        )
        return _times(value, 1 / KILO) if unit == "ms" else value

    keys = (
        "input_config.concurrency",
        "input_config.loadgen.concurrency",
        "input_config.perf_analyzer.stimulus.concurrency",
    )
    return Result(
        tool,
        "serving",
        model=word(
            entry,
            "input_config.model",
            "input_config.model_names",
            "input_config.endpoint.model_names",
            "input_config.formatted_model_name",
        ),
        concurrency=number(entry, *keys),
        concurrency_from="concurrency" if number(entry, *keys) is not None else "",
        input_tokens=metric("input_sequence_length"),
        output_tokens=metric("output_sequence_length"),
        output_rate=metric("output_token_throughput"),
        request_rate=metric("request_throughput"),
        first_token=metric("time_to_first_token"),
        per_token=metric("inter_token_latency"),
        latency=metric("request_latency"),
        duration=metric("benchmark_duration"),
        completed=_whole(metric("request_count")),
    )


def _llama(entry: Entry, tool: str) -> Result:
    """A test of llama-bench: n_prompt tokens read, or n_gen tokens made one after another, at n_depth cached."""
    read, made = number(entry, "n_prompt") or 0, number(entry, "n_gen") or 0
    rate, depth = number(entry, "avg_ts"), number(entry, "n_depth") or 0
    phase = "serving" if read and made else "decode" if made else "prefill"
    cards = [each.strip() for each in word(entry, "gpu_info").split(",") if each.strip()]
    used = cards if number(entry, "n_gpu_layers") != 0 else []  # none of its layers is on a card
    return Result(
        tool,
        phase,
        model=word(entry, "model_type", "model_filename"),
        device=", ".join(dict.fromkeys(used)) or word(entry, "cpu_info"),
        ranks=len(used) if word(entry, "split_mode") == "row" and used else None,  # else one card after another
        concurrency=1.0,
        concurrency_from="llama-bench runs one sequence",
        input_tokens=read or None,
        output_tokens=made or None,
        context=depth + made / 2 if phase == "decode" else depth,
        output_rate=rate if phase == "decode" else None,
        input_rate=rate if phase == "prefill" else None,
        per_token=_over(1.0, rate) if phase == "decode" else None,
        kv=word(entry, "type_k"),
        dtype=(_FORMAT.search(word(entry, "model_type", "model_filename")) or [""])[0],
    )


def _trtllm(entry: Entry, tool: str) -> Result:
    speed = "performance"
    world = number(entry, "world_info.world_size")
    if world is None:
        sizes = [number(entry, f"world_info.{each}_size") or 1 for each in ("tp", "pp")]
        world = sizes[0] * sizes[1] if "world_info" in entry else None
    rate = number(entry, f"{speed}.system_output_throughput_tok_s", f"{speed}.output_throughput_tok_s")
    per_gpu = number(entry, f"{speed}.output_throughput_per_gpu_tok_s")
    busy = number(entry, "request_info.avg_num_concurrent_requests")
    quantised = word(entry, "engine.quantization")
    return Result(
        tool,
        "serving",
        model=word(entry, "engine.model", "engine.model_path"),
        concurrency=busy,
        concurrency_from="avg_num_concurrent_requests" if busy is not None else "",
        input_tokens=number(entry, "request_info.avg_input_length"),
        output_tokens=number(entry, "request_info.avg_output_length"),
        output_rate=rate if rate is not None or per_gpu is None or world is None else per_gpu * world,
        request_rate=number(entry, f"{speed}.request_throughput_req_s"),
        first_token=_times(number(entry, "streaming_metrics.avg_ttft_ms"), 1 / KILO),
        per_token=_times(number(entry, "streaming_metrics.avg_tpot_ms"), 1 / KILO),
        latency=_times(number(entry, f"{speed}.avg_request_latency_ms"), 1 / KILO),
        duration=_times(number(entry, f"{speed}.total_latency_ms"), 1 / KILO),
        completed=_whole(number(entry, "request_info.num_requests")),
        ranks=_whole(world),
        dtype=quantised if quantised.lower() not in ("", "none", "no_quant") else word(entry, "engine.dtype"),
        kv=word(entry, "engine.kv_cache_dtype"),
    )


# Which tool wrote an object, by the keys that it alone has; the first that fits.
_FORMS: tuple[tuple[tuple[str, ...], str, Callable[[Entry, str], Result]], ...] = (
    (("n_prompt", "n_gen", "avg_ts"), "llama-bench", _llama),
    (("performance", "request_info"), "trtllm-bench", _trtllm),
    (("output_token_throughput", "input_config"), "genai-perf", _genai),
    (("request_throughput", "input_config"), "genai-perf", _genai),
    (("records", "input_config"), "AIPerf", _genai),
    (("batch_size", "input_len", "output_len"), "SGLang bench_one_batch", _sglang_batch),
    (("duration", "completed", "total_output_tokens", "server_info"), "SGLang bench_serving", _served),
    (("duration", "completed", "total_output_tokens", "sharegpt_output_len"), "SGLang bench_serving", _served),
    (("duration", "completed", "total_output_tokens", "random_output_len"), "SGLang bench_serving", _served),
    (("duration", "completed", "total_output_tokens"), "vLLM bench serve", _served),
    (("avg_latency", "percentiles"), "vLLM bench latency", _vllm_latency),
    (("elapsed_time", "num_requests", "requests_per_second"), "vLLM bench throughput", _vllm_throughput),
)


def result(entry: Entry) -> Result | None:
    """The result in one decoded object, or None where no known tool wrote it."""
    for keys, tool, make in _FORMS:
        if all(key in entry for key in keys):
            aiperf = "aiperf" in f"{' '.join(entry)} {entry.get('input_config')}"[:4000].lower()
            return _with_concurrency(make(entry, "AIPerf" if tool == "genai-perf" and aiperf else tool))
    return None


def results(entry: Entry) -> Iterator[Result]:
    """The results in one decoded object: none where no known tool wrote it, two where it holds both phases."""
    found = result(entry)
    if found is not None:
        yield found
        if found.tool == "SGLang bench_one_batch":
            yield from _sglang_prefill(entry)


def _with_concurrency(found: Result) -> Result:
    """The requests at once by Little's law, where the file does not state them; a note where fewer ran than may."""
    in_flight = _in_flight(found)
    if found.concurrency:
        if found.concurrency_from == "max_concurrency" and in_flight is not None:
            return replace(found, notes=(*found.notes, *_not_full(in_flight, found.concurrency)))
        return found
    if in_flight is None:
        return replace(found, concurrency=None, concurrency_from="")
    return replace(found, concurrency=in_flight, concurrency_from="requests/s times latency (Little)")


def _in_flight(found: Result) -> float | None:
    """How many requests were at once in the mean."""
    latency = found.latency
    if latency is None and found.per_token is not None and found.output_tokens is not None:
        latency = (found.first_token or 0.0) + found.per_token * max(found.output_tokens - 1, 0)
    return latency * found.request_rate if latency is not None and found.request_rate else None


_FULL = 0.7  # of the requests that may be at once


def _not_full(in_flight: float, allowed: float) -> Iterator[str]:
    if in_flight < _FULL * allowed:
        yield (
            f"{in_flight:.1f} requests were at once in the mean (requests/s times latency), of {allowed:.0f} allowed: "
            "the bound is that of a full batch, and the load did not fill it"
        )


_NAMES = re.compile(
    r'"(?:avg_ts|output_throughput|total_output_tokens|output_token_throughput|request_throughput|avg_latency'
    r'|requests_per_second|request_throughput_req_s|decode_throughput|median_decode_latency|prefill_latency)"\s*:'
)


def sniff(head: str) -> bool:
    """Whether a text begins as a benchmark's JSON does, and has a key of one."""
    start = head.lstrip()
    return start[:1] in ("{", "[") and '"traceEvents"' not in start and bool(_NAMES.search(start))


def read(lines: Lines) -> Benchmark:
    """The results of a JSON file, of one object, a list, or an object a line; raises BadValue where it has none."""
    text: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > _MOST:
            raise BadValue(f"is a benchmark of more than {_MOST // MIB} MiB. Save it without the time of each token.")
        text.append(line)
    left_out = {"objects that no known benchmark writes": 0}
    try:
        entries = list(_entries(json.loads("\n".join(text))))
    except (ValueError, RecursionError):
        entries = list(_lines(text, left_out))
    found: list[Result] = []
    for entry in entries:
        made = list(results(entry))
        left_out["objects that no known benchmark writes"] += not made
        found += made
    if not found:
        raise BadValue(
            "is JSON of no known benchmark. Known: vLLM, SGLang, genai-perf, AIPerf, llama-bench, trtllm-bench."
        )
    return Benchmark(tuple(found[:MOST_RESULTS]), {key: n for key, n in left_out.items() if n}, tuple(lines.warnings))


def _entries(value: Any) -> Iterator[Entry]:
    for each in cast(list[Any], value) if isinstance(value, list) else [value]:
        if isinstance(each, Mapping):
            yield cast(Entry, each)


def _lines(text: Iterable[str], left_out: dict[str, int]) -> Iterator[Entry]:
    for line in text:
        if not line.strip():
            continue
        try:
            yield from _entries(json.loads(line))
        except (ValueError, RecursionError):
            left_out["lines that are no JSON"] = left_out.get("lines that are no JSON", 0) + 1
