"""The rule of every operation: FLOPs and bytes of its gradients, by hand and for all."""

from __future__ import annotations

import pytest

from roofline import collectives, ops, recurrence
from roofline.backward import RULES, STORED, Formats, backward, contraction, everything_seen, rule, trained
from roofline.cost import Cost, Work
from roofline.dtypes import dtype
from roofline.errors import RooflineError

BF16, FP32 = dtype("bf16"), dtype("fp32")
FORMATS = Formats(BF16, BF16, BF16, FP32)
LINEAR = ops.linear(m=64, n=32, k=16)
ATTENTION = ops.attention(sequences=2, new=8, context=0, heads=4, kv_heads=2, head_dim=16)
EXAMPLES = [
    LINEAR,
    ATTENTION,
    ops.norm(m=8, width=16, added=1),
    ops.activation(m=8, width=16),
    ops.rope(m=8, heads=2, kv_heads=1, head_dim=16),
    ops.embedding(m=8, width=16, rows=100),
    ops.elementwise(n=64),
    ops.softmax(m=8, width=16),
    ops.copy(n=64),
    recurrence.short_conv(sequences=2, new=8, channels=16, kernel=4),
    recurrence.scan(sequences=2, new=8, heads=4, groups=2, key_dim=8, value_dim=16, chunk=4),
    collectives.all_reduce(64, 4),
    collectives.all_gather(64, 4),
    collectives.reduce_scatter(64, 4),
    collectives.all_to_all(64, 4),
    collectives.broadcast(64, 4),
    collectives.send(64),
]


def test_gemms_of_a_linear():
    """dX[64, 16] = dY[64, 32] W[32, 16]; dW[32, 16] = dYᵀ[32, 64] X[64, 16] in FP32."""
    into, through = backward(LINEAR, FORMATS)
    assert (into.of, into.work.dims) == ("dx", {"m": 64, "n": 16, "k": 32})
    assert (through.of, through.work.dims) == ("dw", {"m": 32, "n": 16, "k": 64})
    assert into.work.flops == through.work.flops == LINEAR.flops
    assert into.work.cost.memory == {"weights": 2 * 32 * 16, "activations": 2 * 64 * (32 + 16)}
    assert through.work.cost.memory == {"gradients": 4 * 32 * 16, "activations": 2 * 64 * (32 + 16)}


def test_logits_are_activations():
    """What a pass is run for in inference is one of many tensors in training."""
    into, _ = backward(ops.linear(m=4, n=8, k=2, output="output"), FORMATS)
    assert into.work.cost.memory["activations"] == 2 * (4 * 8 + 4 * 2)


def test_attention_goes_back_with_four_gemms_or_five():
    """2.5 times the forward where the scores are made again, 2 times where they are stored."""
    [flash] = backward(ATTENTION, FORMATS)
    [stored] = backward(ATTENTION, Formats(BF16, BF16, BF16, FP32, STORED))
    assert (flash.work.flops, stored.work.flops) == (ATTENTION.flops * 5 // 2, ATTENTION.flops * 2)


def test_attention_moves_each_tensor_and_its_gradient():
    """q, y: 2 · 8 tokens of 4 heads of 16; K, V of 2 heads: 2 byte each, and the gradients of all."""
    forward = trained(ATTENTION)
    assert forward.bytes == 2 * (2 * 16 * 64 + 2 * 16 * 32)
    assert backward(forward, FORMATS)[0].work.bytes == 2 * forward.bytes


def test_small_kernels():
    """Norm with a residual: dy, x, the stream's gradient in, dx out; gate: dy, g, u in, dg, du out."""
    norm, gate = (backward(each, FORMATS)[0].work for each in (EXAMPLES[2], EXAMPLES[3]))
    assert norm.cost.memory == {"activations": 4 * 2 * 8 * 16, "weights": 2 * 16, "gradients": 4 * 16}
    assert gate.cost.memory["activations"] == 5 * 2 * 8 * 16
    assert norm.flops == 2 * EXAMPLES[2].flops


def test_gradients_of_an_embedding_are_rows():
    """8 rows of 16 added into the table's gradient; frozen, there is nothing to do."""
    [found] = backward(EXAMPLES[5], FORMATS)
    assert (found.of, found.work.cost.memory["gradients"]) == ("dw", 4 * 8 * 16)
    assert backward(EXAMPLES[5], FORMATS, frozen=True) == ()


@pytest.mark.parametrize("work", EXAMPLES, ids=lambda work: work.op)
def test_frozen_weights_have_no_gradient(work):
    """Neither a GEMM nor bytes."""
    for each in backward(work, FORMATS, frozen=True):
        assert each.of == "dx"
        assert "gradients" not in each.work.cost.memory


@pytest.mark.parametrize("work", EXAMPLES, ids=lambda work: work.op)
def test_a_collective_sends_as_much_back(work):
    """All-gather and reduce-scatter are each other's."""
    sent = [each.work.cost.link_bytes for each in backward(work, FORMATS)]
    assert sum(sent) == work.cost.link_bytes


def test_every_operation_of_the_examples_has_a_rule():
    """What is registered is tested by existing."""
    assert {work.op for work in EXAMPLES} == set(RULES)


def test_an_operation_without_a_rule_is_a_contraction():
    """As many FLOPs again for its input and for its weights."""
    strange = Work("strange", {"n": 3}, Cost({"bf16": 10}, {"weights": 8, "routed": 4, "activations": 6}))
    into, through = backward(strange, FORMATS)
    assert into.work.cost.memory == {"activations": 6, "weights": 8, "routed": 4}
    assert through.work.cost.memory == {"activations": 6, "gradients": 24}
    assert into.work.flops + through.work.flops == 20
    assert contraction(strange, FORMATS) == (into, through)


def test_the_full_square():
    """Without a mask 8 queries see 8 positions each, not 36 pairs."""
    assert everything_seen(ATTENTION).flops == 4 * 2 * 4 * 16 * 64
    assert everything_seen(LINEAR) is LINEAR


def test_a_second_rule_is_refused():
    """One rule an operation."""
    with pytest.raises(RooflineError, match="registered twice"):
        rule("linear")(contraction)
