"""What a ledger takes for granted is said where it holds, and only there."""

from __future__ import annotations

import pytest

import roofline as rl


def said(model: str, device: str = "h100-sxm", workload: rl.Workload | None = None, **options: object) -> str:
    return " | ".join(rl.predict(model, device, workload, **options).assumptions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "where", "not_where"),
    [
        ("Attention is tiled", {"model": "qwen3-8b"}, {"model": "7B"}),
        ("Small kernels are a serving engine's", {"model": "qwen3-8b"}, {"model": "7B"}),
        ("Small kernels are folded", {"model": "qwen3-8b", "fused": True}, {"model": "7B", "fused": True}),
        ("All-reduces are rings", {"model": "qwen3-8b", "shard": rl.Shard(2)}, {"model": "qwen3-8b"}),
        ("nothing to reduce", {"model": "7B", "shard": rl.Shard(2)}, {"model": "qwen3-8b", "shard": rl.Shard(2)}),
        (
            "KV heads are fewer than ranks",
            {"model": "qwen3-8b", "device": "tpu-v5e", "shard": rl.Shard(16)},
            {"model": "qwen3-8b", "device": "tpu-v5e", "shard": rl.Shard(4)},
        ),
        ("last 4,096 tokens", {"model": "mistral-7b-v0.1"}, {"model": "llama-3.1-8b"}),
        ("Logits of the last position", {"model": "gpt2", "workload": rl.Workload.prefill(new=8)}, {"model": "gpt2"}),
        ("past the 1,024", {"model": "gpt2"}, {"model": "gpt2", "workload": rl.Workload.decode(context=1024)}),
        ("cache size is unknown", {"model": "gpt2", "device": "l40s"}, {"model": "gpt2"}),
        (
            "fit that cache",
            {
                "model": "gpt2",
                "device": "mi300x",
                "workload": rl.Workload.decode(context=64),
                "precision": rl.Precision(weights="int4"),
            },
            {"model": "qwen3-8b"},
        ),
        ("fp8 rate", {"model": "gpt2", "precision": rl.Precision(compute="fp8")}, {"model": "gpt2"}),
        (
            "shrink bytes, not arithmetic",
            {"model": "gpt2", "precision": rl.Precision(weights="int4")},
            {"model": "gpt2"},
        ),
        (
            "nvfp4:",
            {"model": "gpt2", "precision": rl.Precision(kv="nvfp4")},
            {"model": "7B", "precision": rl.Precision(kv="nvfp4")},
        ),
        ("fp32-vector peak of tpu-v5e is unknown", {"model": "gpt2", "device": "tpu-v5e"}, {"model": "gpt2"}),
        ("Derated times take 80 %", {"model": "gpt2", "efficiency": (0.8, 0.75)}, {"model": "gpt2"}),
        ("of drafts", {"model": "gpt2", "workload": rl.Workload.decode(new=4)}, {"model": "gpt2"}),
        ("h100 is taken as h100-sxm", {"model": "gpt2", "device": "h100"}, {"model": "gpt2"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_said_where_it_holds_and_not_where_it_does_not(text, where, not_where):
    """Each assumption has a setting that calls for it, and one that does not."""
    assert text in said(**where)
    assert text not in said(**not_where)


def test_every_answer_says_that_expected_times_are_unknown():
    """Until there is a calibration."""
    assert "Expected times are unknown" in said("7B")
