"""What a query sees under a window, a chunk, a stride, a selection: closed forms against counting one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import ops, pairs

SIZES = {"new": st.integers(2, 60), "context": st.integers(0, 90)}


def queries(new: int, context: int) -> range:
    """The positions of the queries, from 1."""
    return range(context + 1, context + new + 1)


@given(**SIZES, chunk=st.integers(1, 20))
@settings(max_examples=200)
def test_chunks(new, context, chunk):
    """A query sees its own chunk up to itself; the first chunk of a query that has not ended is read whole."""
    seen = [(p - 1) % chunk + 1 for p in queries(new, context)]
    first = (context // chunk) * chunk

    assert pairs.chunked(new, context, chunk) == (sum(seen), context + new - first)


@pytest.mark.parametrize(("context", "sees"), [(1, 1), (8, 8), (9, 1), (16, 8), (20, 4)])
def test_one_token_in_chunks_of_eight(context, sees):
    """A decode step sees what its chunk has so far."""
    assert pairs.chunked(1, context, 8) == (sees, sees)


@given(**SIZES, stride=st.integers(1, 9), selected=st.one_of(st.none(), st.integers(1, 12)))
@settings(max_examples=300)
def test_strides(new, context, stride, selected):
    """A query sees an entry for each complete stretch before it, or the best of them."""
    most = 10**9 if selected is None else selected
    seen = [min(p // stride, most) for p in queries(new, context)]

    assert pairs.compressed(new, context, stride, selected) == (sum(seen), min((context + new) // stride, most))


@given(**SIZES, selected=st.integers(1, 70))
@settings(max_examples=200)
def test_selections(new, context, selected):
    """A query sees the best of all positions before it; several read the fewest that they can share."""
    work = ops.attention(
        sequences=3,
        new=new,
        context=context,
        heads=4,
        kv_heads=1,
        head_dim=8,
        value_dim=6,
        latent=True,
        selected=selected,
    )
    met = sum(min(p, selected) for p in queries(new, context))

    assert work.flops == 2 * 3 * 4 * (8 + 6) * met
    assert work.cost.memory["kv"] == 3 * min(context + new, selected) * 8 * 2


def test_latents_are_read_once():
    """DeepSeek-V3's 128 heads over one KV head of 576, whose first 512 are V: 1,088 x 2 x 128 FLOPs and 1,152 bytes."""
    work = ops.attention(
        sequences=1, new=1, context=1000, heads=128, kv_heads=1, head_dim=576, value_dim=512, latent=True
    )

    assert work.flops == 2 * 128 * 1000 * (576 + 512)
    assert work.cost.memory["kv"] == 1000 * 576 * 2
    assert work.cost.memory["activations"] == 128 * (576 + 512) * 2 + 576 * 2


def test_keys_that_are_no_cache():
    """K and V that a GEMM made are activations; nothing is appended."""
    work = ops.attention(
        sequences=1, new=4, context=0, heads=2, kv_heads=2, head_dim=6, value_dim=4, role="activations"
    )

    assert "kv" not in work.cost.memory
    assert work.cost.memory["activations"] == 2 * (4 * 2 * (6 + 4) + 4 * 2 * (6 + 4))


@pytest.mark.parametrize("limit", ["stride", "selected"])
def test_limits_need_causal_attention(limit):
    """What a query sees of later positions is not counted."""
    from roofline.errors import BadValue

    with pytest.raises(BadValue, match=limit):
        ops.attention(sequences=1, new=4, context=0, heads=2, kv_heads=2, head_dim=6, causal=False, **{limit: 2})
