"""The whole loop on this machine: measure its ceilings, predict a small transformer, run and profile it, compare.

    python benchmarks/closed_loop.py [THREADS]

Needs PyTorch (pip install 'roofline[torch]'). The ceilings are measured before and after the run with PyTorch on the
processor, and the higher ones count; the transformer is profiled by PyTorch's own profiler, and its trace read by
roofline. Prints a row a kernel: its bound, the median of its measured times, and their ratio.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import roofline as rl
from roofline.measurement.holding import Held, held
from roofline.trace.events import Trace, listed
from roofline.trace.readers import open_trace

CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 8192,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
FP32 = rl.Precision("fp32", "fp32", "fp32", "fp32")
PROMPT = 128
PASSES = {"prefill": 4, "decode": 12}

Mark = Callable[[str], AbstractContextManager[Any]]


class Transformer:
    """A decoder like Qwen3, each kernel of its ledger under a mark with the kernel's name."""

    def __init__(self, torch: Any, mark: Mark, config: dict[str, Any] = CONFIG) -> None:
        self.torch, self.mark, self.config = torch, mark, config
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.heads, self.kv, self.dim = (
            config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        q = self.heads * self.dim
        generator = torch.Generator().manual_seed(0)

        def made(*shape: int) -> Any:
            return torch.randn(shape, generator=generator) / width**0.5

        self.table = made(config["vocab_size"], width)
        self.head = made(config["vocab_size"], width)
        self.layers = [
            {
                "qkv": made(q + 2 * self.kv * self.dim, width),
                "o": made(width, q),
                "gate": made(inner, width),
                "up": made(inner, width),
                "down": made(width, inner),
            }
            for _ in range(config["num_hidden_layers"])
        ]
        self.scale, self.small = torch.ones(width), torch.ones(self.dim)

    def norm(self, name: str, stream: Any, added: Any) -> tuple[Any, Any]:
        """The stream with the addend, and its norm."""
        with self.mark(name):
            stream = stream + added
            return stream, self.torch.nn.functional.rms_norm(stream, (stream.shape[-1],), self.scale)

    def turned(self, x: Any, cos: Any, sin: Any) -> Any:
        """Heads [tokens, heads, dim] normed and rotated."""
        x = self.torch.nn.functional.rms_norm(x, (self.dim,), self.small)
        left, right = x.chunk(2, -1)
        return self.torch.cat((left * cos - right * sin, right * cos + left * sin), -1)

    def attend(self, qkv: Any, cache: Any, at: int, angles: tuple[Any, Any]) -> Any:
        """Attention of the new tokens over the cache [2, kv heads, positions, dim], to which they are appended."""
        tokens, rows = qkv.shape[0], self.heads + 2 * self.kv
        with self.mark("qk_norm_rope"):
            x = qkv.view(tokens, rows, self.dim)
            qk = self.turned(x[:, : self.heads + self.kv], *angles)
        with self.mark("attention"):
            q, k = qk[:, : self.heads].transpose(0, 1), qk[:, self.heads :].transpose(0, 1)
            cache[0, :, at : at + tokens] = k
            cache[1, :, at : at + tokens] = x[:, self.heads + self.kv :].transpose(0, 1)
            seen = cache[:, None, :, : at + tokens]
            y = self.torch.nn.functional.scaled_dot_product_attention(
                q[None], seen[0], seen[1], is_causal=tokens > 1, enable_gqa=True
            )
            return y[0].transpose(0, 1).reshape(tokens, -1)

    def run(self, ids: Any, caches: Sequence[Any], at: int) -> Any:
        """Logits of the last of these tokens, which stand at `at` and after."""
        torch, linear = self.torch, self.torch.nn.functional.linear
        places = torch.arange(at, at + len(ids))[:, None, None]
        angle = places / 10000.0 ** (torch.arange(self.dim // 2) * 2 / self.dim)
        angles = angle.cos(), angle.sin()
        with self.mark("embedding"):
            stream = torch.nn.functional.embedding(ids, self.table)
        added = torch.zeros_like(stream)
        for layer, cache in zip(self.layers, caches, strict=True):
            stream, x = self.norm("input_norm", stream, added)
            with self.mark("qkv_proj"):
                qkv = linear(x, layer["qkv"])
            x = self.attend(qkv, cache, at, angles)
            with self.mark("o_proj"):
                x = linear(x, layer["o"])
            stream, x = self.norm("mlp_norm", stream, x)
            with self.mark("gate_proj"):
                gate = linear(x, layer["gate"])
            with self.mark("up_proj"):
                up = linear(x, layer["up"])
            with self.mark("act_mul"):
                x = torch.nn.functional.silu(gate) * up
            with self.mark("down_proj"):
                added = linear(x, layer["down"])
        _, x = self.norm("final_norm", stream, added)
        with self.mark("lm_head"):
            return linear(x[-1:], self.head)


def recorded(torch: Any, path: Path) -> None:
    """Run prefills and decode steps under the profiler, and write its trace."""
    profiler = torch.profiler
    model = Transformer(torch, profiler.record_function)
    length = PROMPT + sum(PASSES.values())
    caches = [torch.zeros(2, model.kv, length, model.dim) for _ in model.layers]
    ids = torch.arange(PROMPT)
    with torch.inference_mode():
        for _ in range(2):  # warm up
            model.run(ids, caches, 0)
            model.run(ids[:1], caches, PROMPT)
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True) as found:
            for _ in range(PASSES["prefill"]):
                with profiler.record_function("pass prefill"):
                    model.run(ids, caches, 0)
            for _ in range(PASSES["decode"]):
                with profiler.record_function("pass decode"):
                    model.run(ids[:1], caches, PROMPT - 1)
    found.export_chrome_trace(str(path))


def times(trace: Trace, phase: str) -> dict[str, list[float]]:
    """Seconds of each marked kernel in the passes of a phase, call by call."""
    marks = trace.marks
    rows = [
        (trace.names[name], start, length)
        for name, start, length in zip(listed(marks.name), listed(marks.start), listed(marks.duration), strict=True)
    ]
    passes = [(start, start + length) for name, start, length in rows if name == f"pass {phase}"]
    found: dict[str, list[float]] = {}
    for name, start, length in rows:
        if not name.startswith("pass ") and any(first <= start < last for first, last in passes):
            found.setdefault(name, []).append(length / 1e9)
    return found


def higher(first: rl.Device, second: rl.Device) -> rl.Device:
    """The device with the higher of two measurements' ceilings."""
    peak = {rate: max(first.peak.get(rate, 0.0), second.peak.get(rate, 0.0)) for rate in {*first.peak, *second.peak}}
    caches = {
        level: max(first.cache_bandwidth.get(level, 0.0), second.cache_bandwidth.get(level, 0.0))
        for level in {*first.cache_bandwidth, *second.cache_bandwidth}
    }
    bandwidth = max(first.bandwidth, second.bandwidth)
    return replace(first, peak=peak, cache_bandwidth=caches, bandwidth=bandwidth)


class Loop(NamedTuple):
    """The device as measured, each phase's kernels beside their bounds, and what `diagnose` says of the trace."""

    device: rl.Device
    phases: dict[str, tuple[Held, ...]]
    diagnosis: Any
    warnings: tuple[str, ...]


def loop(threads: int | None = None) -> Loop:
    """Measure, run, measure, compare, with that many threads of PyTorch."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    first = rl.measure("torch", on="cpu", quick=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded(torch, path)
        trace = open_trace(path)
        second = rl.measure("torch", on="cpu", quick=True)
        device = higher(first, second)
        diagnosis = rl.diagnose(path, device=device)
    model = rl.Model.load(CONFIG)
    workloads = {"prefill": rl.Workload.prefill(1, PROMPT), "decode": rl.Workload.decode(1, PROMPT)}
    phases: dict[str, tuple[Held, ...]] = {}
    for phase, workload in workloads.items():
        medians = {name: statistics.median(each) for name, each in times(trace, phase).items()}
        phases[phase] = held(rl.predict(model, device, workload, FP32), medians)
    return Loop(device, phases, diagnosis, (*first.warnings, *second.warnings))


def main() -> None:
    found = loop(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    device = found.device
    print(f"{device.name}: {device.bandwidth / 1e9:.1f} GB/s, {device.peak['fp32'] / 1e9:.0f} GFLOP/s FP32")
    for line in found.warnings:
        print(line)
    for phase, rows in found.phases.items():
        print(f"\n{phase:14} {'bound by':9} {'bound us':>10} {'measured us':>12} {'ratio':>7}  why faster")
        for each in rows:
            bound = each.point.bound
            print(
                f"{each.point.name:14} {bound.by:9} {bound.seconds * 1e6:10.1f} {each.seconds * 1e6:12.1f} "
                f"{each.ratio:7.2f}  {each.reason}"
            )
    print(f"\nroofline diagnose of its trace: {found.diagnosis.verdict}")
    for row in found.diagnosis.kernels[:8]:
        reached = row.demand.of_bound if row.demand is not None else None
        share = "unknown" if reached is None else f"{100 * reached:.0f} %"
        print(f"{row.name:48} {row.calls:5} calls {row.sum / 1e6:9.2f} ms, of bound {share}")


if __name__ == "__main__":
    main()
