"""What benchmarks of serving engines print: vLLM, SGLang, genai-perf and trtllm-bench, llama-bench's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from roofline.errors import BadValue
from roofline.evidence.bench import Benchmark, Result, result
from roofline.evidence.cells import cells
from roofline.evidence.lines import Lines
from roofline.evidence.numbers import number

_TITLE = re.compile(r"\s*=+\s*(?:Serving|Offline Throughput) Benchmark Result\s*=+", re.IGNORECASE)
_PAIR = re.compile(r"\s*([A-Z][^:]{2,80}?):\s+(\S.*)")
_TRT = re.compile(
    r"(?:Request Throughput \(req/sec\)|Total Output Throughput \(tokens/sec\)"
    r"|Per GPU Output Throughput \(tps/gpu\))\s*:"
)
_LLAMA = re.compile(r"\s*\|\s*model\s*\|.*\|\s*test\s*\|\s*t/s\s*\|\s*\Z")
# vllm bench throughput, and vllm bench latency.
_RATE = re.compile(r"Throughput: ([\d.]+) requests/s, ([\d.]+) total tokens/s(?:, ([\d.]+) output tokens/s)?")
_LATENCY = re.compile(r"Avg latency: ([\d.]+) seconds")
_CARD = re.compile(r"\s*Device \d+: (\S.{1,100}?), compute capability")  # as ggml prints it above a table
_LONGEST = 1 << 16
_PLUS = re.compile(r"\s*([\d.,]+)\s*(?:±|\+/-)\s*([\d.,]+)")
_TEST = re.compile(r"(?:(pp|tg)(\d+))(?:\+tg(\d+))?(?:\s*@\s*d(\d+))?\Z")

# A printed line and the key of the tool's own JSON.
_SERVED = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Max reqeust concurrency": "max_concurrency",  # as some versions spell it
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Output token throughput (tok/s)": "output_throughput",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Mean ITL (ms)": "mean_itl_ms",
    "Mean E2EL (ms)": "mean_e2el_ms",
    "Mean E2E Latency (ms)": "mean_e2e_latency_ms",
}
_TRT_KEYS = {
    "Model": "engine.model",
    "Model Path": "engine.model_path",
    "Dtype": "engine.dtype",
    "KV Cache Dtype": "engine.kv_cache_dtype",
    "Quantization": "engine.quantization",
    "TP Size": "world_info.tp_size",
    "PP Size": "world_info.pp_size",
    "Number of requests": "request_info.num_requests",
    "Number of concurrent requests": "request_info.avg_num_concurrent_requests",
    "Average Input Length (tokens)": "request_info.avg_input_length",
    "Average Output Length (tokens)": "request_info.avg_output_length",
    "Request Throughput (req/sec)": "performance.request_throughput_req_s",
    "Total Output Throughput (tokens/sec)": "performance.system_output_throughput_tok_s",
    "Per GPU Output Throughput (tps/gpu)": "performance.output_throughput_per_gpu_tok_s",
    "Total Latency (ms)": "performance.total_latency_ms",
    "Average request latency (ms)": "performance.avg_request_latency_ms",
    "Average time-to-first-token [TTFT] (ms)": "streaming_metrics.avg_ttft_ms",
    "Average time-per-output-token [TPOT] (ms)": "streaming_metrics.avg_tpot_ms",
}


def sniff(head: str) -> bool:
    """Whether a text holds the summary of a serving benchmark."""
    return any(
        _TITLE.match(line)
        or _TRT.search(line)
        or _LLAMA.match(line)
        or _RATE.search(line)
        or _LATENCY.search(line)
        or _csv_head(line)
        for line in head.splitlines()
    )


def _csv_head(line: str) -> list[str] | None:
    """The columns of llama-bench's CSV; None for other lines."""
    if "n_prompt" not in line or "avg_ts" not in line or len(line) > _LONGEST:
        return None
    columns = [each.strip() for each in cells(line)]
    return columns if {"n_prompt", "n_gen", "avg_ts"} <= set(columns) else None


def read(lines: Lines) -> Benchmark:
    """The results that a text holds; raises BadValue where none is whole."""
    stream = iter(lines)
    fields: list[str] = []

    def printed() -> Iterator[str]:
        for line in stream:
            if (head := _csv_head(line)) is not None:
                fields.extend(head)
                return
            yield line

    found = [*_printed(printed()), *(each for row in stream for each in _csv_row(row, fields))]
    if not found:
        raise BadValue("has the title of a benchmark's summary and no figure below it: it was cut, or the run failed.")
    return Benchmark(tuple(found), {}, tuple(lines.warnings))


def _printed(lines: Iterable[str]) -> Iterator[Result]:
    """The results of summaries and tables."""
    served: dict[str, float] | None = None
    trt: dict[str, object] = {}
    columns: list[str] | None = None
    card = ""
    for line in lines:
        yield from _vllm(line)
        if _TITLE.match(line):
            yield from _finished(served)
            served = {}
        elif _LLAMA.match(line):
            columns = _cells(line)
        elif columns is not None and line.lstrip().startswith("|"):
            yield from _llama(dict(zip(columns, _cells(line), strict=False)), card)
        elif found := _CARD.match(line):
            card = f"{card}, {found[1]}" if card else found[1]
        elif pair := _PAIR.match(line):
            columns = None
            _take(pair[1].strip(), pair[2].rstrip(), served, trt)
    yield from _finished(served)
    made = result({"request_info": {}, **trt}) if "performance" in trt else None
    if made is not None:
        yield made


def _vllm(line: str) -> Iterator[Result]:
    """What `vllm bench throughput` and `latency` print of a run; nothing for other lines."""
    found: Result | None = None
    if match := _RATE.search(line):
        requests, tokens, output = (None if each is None else number(each) for each in match.groups())
        entry = {"elapsed_time": 1, "num_requests": 0, "requests_per_second": requests, "tokens_per_second": tokens}
        found = result(entry)
        found = found and replace(found, output_rate=output, duration=None, completed=None, notes=())
    elif match := _LATENCY.search(line):
        found = result({"avg_latency": number(match[1]), "percentiles": {}})
    if found is not None:
        yield found


def _take(label: str, text: str, served: dict[str, float] | None, trt: dict[str, object]) -> None:
    if served is not None and label in _SERVED:
        value = number(text)
        if value is not None:
            served[_SERVED[label]] = value
    if label in _TRT_KEYS:
        outer, _, inner = _TRT_KEYS[label].partition(".")
        value = number(text)
        group = trt.setdefault(outer, {})
        if isinstance(group, dict):
            group[inner] = text if value is None else value


def _finished(served: Mapping[str, float] | None) -> Iterator[Result]:
    """The result of a printed summary."""
    if served and "total_output_tokens" in served and "duration" in served:
        tool = "SGLang bench_serving" if "mean_e2e_latency_ms" in served else "vLLM bench serve"
        entry: dict[str, object] = {"completed": 0, **served}
        if tool.startswith("SGLang"):
            entry["server_info"] = {}
        made = result(entry)
        if made is not None:
            yield made


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip().strip("|").split("|")]


def _csv_row(line: str, fields: list[str]) -> Iterator[Result]:
    """A row of llama-bench's CSV."""
    row = cells(line)
    if len(row) != len(fields):
        return
    entry = {name: _plain(cell) for name, cell in zip(fields, row, strict=True)}
    found = result(entry) if isinstance(entry["avg_ts"], float) else None
    if found is not None:
        yield found


def _plain(cell: str) -> float | str:
    value = number(cell)
    return cell if value is None else value


def _llama(row: Mapping[str, str], card: str) -> Iterator[Result]:
    """A row of llama-bench's Markdown."""
    test, speed = _TEST.match(row.get("test", "")), _PLUS.match(row.get("t/s", ""))
    if test is None:
        return
    rate = number(speed[1] if speed else row.get("t/s", ""))
    if rate is None or any(each is not None and len(each) > 12 for each in test.groups()):
        return
    read = int(test[2]) if test[1] == "pp" else 0
    made = int(test[2]) if test[1] == "tg" else int(test[3] or 0)
    entry = {
        "n_prompt": read,
        "n_gen": made,
        "n_depth": int(test[4] or 0),
        "avg_ts": rate,
        "model_type": row.get("model", ""),
        "gpu_info": card,
        "n_gpu_layers": number(row.get("ngl", "")),
        "type_k": row.get("type_k", ""),
    }
    found = result(entry)
    if found is not None:
        yield found
