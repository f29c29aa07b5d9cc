"""FLOPs of forward and backward beside PyTorch's own counter, on small models."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.shard import Shard
from roofline.training.recipe import Recipe, Recompute
from roofline.training.step import flops, micro_batch, rows

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),  # theirs, not ours
]

SHAPE = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
LLAMA = {**SHAPE, "intermediate_size": 72, "num_key_value_heads": 2, "max_position_embeddings": 64}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**LLAMA, "tie_word_embeddings": False},
    "mistral": {**LLAMA, "sliding_window": None},
    "qwen2": LLAMA,
    "qwen3": {**LLAMA, "head_dim": 16, "tie_word_embeddings": True},
    "gemma": {**LLAMA, "head_dim": 12},
    "phi": {**LLAMA, "partial_rotary_factor": 0.5},
    "gpt2": {"vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "gpt_neox": {**SHAPE, "intermediate_size": 72, "max_position_embeddings": 64},
    "opt": {**SHAPE, "ffn_dim": 72, "max_position_embeddings": 64, "word_embed_proj_dim": 32, "dropout": 0.0},
}
SEQUENCES, LENGTH = 2, 24


def module(name: str) -> Any:
    transformers = pytest.importorskip("transformers")
    import torch

    config = transformers.AutoConfig.for_model(name, **CONFIGS[name], pad_token_id=0, bos_token_id=1, eos_token_id=2)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").train()


def counted(model: Any) -> int:
    """FLOPs of one forward and backward pass, as PyTorch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    tokens = torch.arange(SEQUENCES * LENGTH).reshape(SEQUENCES, LENGTH) % 96
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    return counter.get_total_flops()


def ours(name: str, recipe: Recipe) -> Any:
    model = rl.Model.load({"model_type": name, **CONFIGS[name]})
    return flops(rows(model, micro_batch(SEQUENCES, LENGTH, recipe), recipe, Shard()), "bf16")


EAGER = {"flash": False, "causal": False}


@pytest.mark.parametrize("name", CONFIGS)
def test_forward_and_backward(name):
    """Difference 0: every GEMM and both GEMMs of attention, three times."""
    assert ours(name, Recipe(**EAGER)) == counted(module(name))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_full_recomputation(name):
    """With every layer's forward pass run again, whole: without re-entry PyTorch may leave out its last GEMM."""
    model = module(name)
    model.gradient_checkpointing_enable({"use_reentrant": True})
    assert ours(name, Recipe(recompute=Recompute.named("full"), **EAGER)) == counted(model)


@pytest.mark.parametrize(
    ("frozen", "pattern"),
    [("mlp", ".mlp."), ("attention", ".self_attn."), ("embedding", "embed_tokens"), ("head", "lm_head")],
)
def test_frozen_parts(frozen, pattern):
    """No gradient of what is frozen, and none of an input that nothing trained stands before."""
    model = module("llama")
    for name, weight in model.named_parameters():
        weight.requires_grad = pattern not in name
    assert ours("llama", Recipe(frozen=frozenset({frozen}), **EAGER)) == counted(model)


def test_only_the_head_is_trained():
    """The layers have no backward pass at all."""
    model = module("llama")
    for name, weight in model.named_parameters():
        weight.requires_grad = "lm_head" in name
    frozen = frozenset({"embedding", "attention", "mlp", "norm"})
    assert ours("llama", Recipe(frozen=frozen, **EAGER)) == counted(model)


def test_lora():
    """Adapters of rank 4 beside frozen matrices."""
    torch = pytest.importorskip("torch")

    class Adapted(torch.nn.Module):
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = torch.nn.Linear(base.in_features, 4, bias=False)
            self.b = torch.nn.Linear(4, base.out_features, bias=False)

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.b(self.a(x))

    model = module("llama").requires_grad_(False)
    for layer in model.model.layers:
        for block in (layer.self_attn, layer.mlp):
            for name, each in list(block.named_children()):
                if isinstance(each, torch.nn.Linear):
                    setattr(block, name, Adapted(each))
    assert ours("llama", Recipe(lora=4, **EAGER)) == counted(model)


def test_flash_attention_goes_back_with_five_gemms():
    """2.5 times the forward, as PyTorch counts its fused backward."""
    counter = pytest.importorskip("torch.utils.flop_counter")
    q, k = (2, 4, 24, 16), (2, 4, 24, 16)
    recipe = Recipe(causal=False)
    model = rl.Model.load({"model_type": "llama", **LLAMA, "num_key_value_heads": 4, "head_dim": 16})
    found = [row for row in rows(model, micro_batch(2, 24, recipe), recipe, Shard()) if row.work.op == "attention"]
    assert [row.work.flops for row in found] == [
        counter.sdpa_flop_count(q, k, k),
        counter.sdpa_backward_flop_count(q, q, k, k),
    ]
