"""Operations: what holds for every registered one, and the FLOPs and bytes of each by hand."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline.collectives  # registers its operations  # noqa: F401
from roofline import ops
from roofline.cost import Work
from roofline.dtypes import DTYPES
from roofline.errors import BadValue, RooflineError, UnknownName
from roofline.num import Expr

NAMES = sorted(ops.OPS)
SHAPES = 200
EXACT = 2**53  # below it a float holds every whole number, so that all three kinds agree to the last digit

# Dims that are not "any whole number from 1 to 512".
RANGES = {
    "added": (0, 2),
    "gates": (0, 2),
    "normed": (0, 1),
    "positions": (0, 512),
    "vectors": (0, 2),
    "reads": (0, 4),
    "writes": (0, 4),
    "flops": (0, 20),
    "ranks": (1, 64),
    "heads": (1, 64),
    "kv_heads": (1, 64),
    "head_dim": (1, 256),
    "rotary_dim": (0, 256),
    "context": (0, 512),
    "biases": (0, 512),
    "bytes": (0, 10**9),
    "n": (0, 512),
    "batch": (0, 64),
    "after": (0, 2),
    "value_dim": (0, 256),
    "chunk": (1, 64),
    "stride": (1, 64),
    "delta": (0, 1),
    "kernel": (1, 8),
    "selected": (1, 64),
    "top_k": (1, 16),
}
NO_MORE_THAN = {"kv_heads": "heads", "rotary_dim": "head_dim", "biases": "n", "top_k": "experts"}
LIMITS = (
    "chunk",
    "stride",
    "window",
    "selected",
)  # a query sees less for one reason at a time, or for the best of some

# A shard of a fixed buffer or table gets smaller with every rank that joins, and with it what one rank reads or writes.
SHRINKS = {("all-gather", "ranks"), ("reduce-scatter", "ranks"), ("embedding", "ranks")}

# A chunk starts again from nothing when it is full; longer strides make fewer entries.
WAVES = {"chunk": ("chunk", "context", "new"), "stride": ("stride",)}


def annotated(name: str, *annotations: str) -> list[str]:
    """Parameters of an operation that have one of these annotations."""
    parameters = inspect.signature(ops.OPS[name]).parameters.values()
    return [each.name for each in parameters if each.annotation in annotations]


def held(dims: dict[str, Any]) -> dict[str, Any]:
    """The same dims within their constraints: no more KV heads than heads, and the like."""
    for small, large in NO_MORE_THAN.items():
        if dims.get(small) is not None and large in dims:
            dims[small] = min(dims[small], dims[large])
    return dims


def drawn(name: str, draw: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Random dims of an operation, and random formats and switches beside them."""
    dims = {
        dim: draw.choice((draw.randint(*RANGES.get(dim, (1, 512))), RANGES.get(dim, (1, 512))[0]))
        for dim in annotated(name, "Num")
    }
    for dim in annotated(name, "Num | None"):
        if draw.random() < 0.7:
            dims[dim] = draw.randint(*RANGES.get(dim, (1, 512)))
    limit = draw.choice(LIMITS)
    kept = {limit, "selected"} if limit == "stride" else {limit}
    dims = {dim: n for dim, n in dims.items() if dim not in LIMITS or dim in kept}
    rest: dict[str, Any] = {each: draw.choice(sorted(DTYPES)) for each in annotated(name, "Storage")}
    limited = any(limit in dims for limit in LIMITS)
    rest |= {each: draw.random() < 0.7 or (limited and each == "causal") for each in annotated(name, "bool")}
    return held(dims), rest


def shapes(name: str) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """The same random shapes of an operation at every run."""
    draw = random.Random(name)
    return (drawn(name, draw) for _ in range(SHAPES))


def entries(work: Work) -> dict[str, Any]:
    """Every number of a cost, by kind and key."""
    cost = work.cost
    kinds = {"flops": cost.flops, "memory": cost.memory, "links": cost.links}
    flat = {f"{kind} {key}": n for kind, table in kinds.items() for key, n in table.items()}
    return {**flat, "steps": cost.steps, "launches": cost.launches}


def totals(work: Work) -> dict[str, Any]:
    """What one call costs altogether."""
    return {"flops": work.flops, "bytes": work.bytes, "link_bytes": work.cost.link_bytes}


def agree(found: Any, expected: Any) -> bool:
    """Equal; beyond what a float holds exactly, and where it is no whole number, equal to twelve digits."""
    inexact = abs(expected) >= EXACT or expected != int(expected)
    return found == expected or (inexact and abs(found - expected) <= 1e-12 * abs(expected))


# Every operation


def test_there_are_operations_of_both_modules() -> None:
    """The registry has what `ops` and `collectives` define."""
    assert {"linear", "attention", "norm", "all-reduce", "send"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_says_what_it_counts(name: str) -> None:
    """A formula without a sentence cannot be checked."""
    assert (inspect.getdoc(ops.OPS[name]) or "").strip()


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_has_dims(name: str) -> None:
    """Its sizes are numbers that it is called with, and it says them in its work."""
    assert annotated(name, "Num")
    dims, rest = next(shapes(name))
    work = ops.OPS[name](**dims, **rest)
    assert work.dims
    assert all(work.dims[dim] == value for dim, value in dims.items() if dim in work.dims)


@pytest.mark.parametrize("name", NAMES)
def test_every_work_has_the_name_of_its_operation(name: str) -> None:
    """A kernel is found again by the name that it was registered under."""
    dims, rest = next(shapes(name))
    assert ops.OPS[name](**dims, **rest).op == name


@pytest.mark.parametrize("name", NAMES)
def test_every_cost_is_whole_or_more_than_nothing(name: str) -> None:
    """No kernel gives back FLOPs, bytes or steps."""
    for dims, rest in shapes(name):
        assert all(n >= 0 for n in entries(ops.OPS[name](**dims, **rest)).values()), dims


@pytest.mark.parametrize("name", NAMES)
def test_one_element_arrays_agree_with_ints(name: str) -> None:
    """Arrays of one float64 give, entry by entry, the exact numbers of the ints."""
    for dims, rest in shapes(name):
        exact = entries(ops.OPS[name](**dims, **rest))
        found = entries(ops.OPS[name](**{dim: np.array([float(n)]) for dim, n in dims.items()}, **rest))
        assert found.keys() == exact.keys()
        for key, n in exact.items():
            assert agree(np.broadcast_to(found[key], (1,))[0], n), (key, dims, rest)


@pytest.mark.parametrize("name", NAMES)
def test_broadcast_arrays_agree_with_ints(name: str) -> None:
    """A column of one dim and a row of another give a table of what each pair gives alone."""
    draw = random.Random(name)
    for dims, rest in shapes(name):
        axes = draw.sample(sorted(dims), min(2, len(dims)))
        values = {dim: (dims[dim], dims[dim] + draw.randint(1, 3)) for dim in axes}
        down, across = axes[0], axes[-1]
        swept: dict[str, Any] = {**dims, across: np.array([values[across]], dtype=float)}
        if down != across:
            swept[down] = np.array(values[down], dtype=float).reshape(2, 1)
        found = {key: np.broadcast_to(n, (2, 2)) for key, n in entries(ops.OPS[name](**swept, **rest)).items()}
        for i in range(2):
            for j in range(2):
                alone = {**dims, down: values[down][i], across: values[across][j]}
                exact = entries(ops.OPS[name](**alone, **rest))
                assert all(agree(found[key][i, j], n) for key, n in exact.items()), (alone, rest)


@pytest.mark.parametrize("name", NAMES)
def test_traced_formulas_agree_with_ints(name: str) -> None:
    """The formula of every entry, evaluated, gives the exact numbers of the ints."""
    for dims, rest in shapes(name):
        exact = entries(ops.OPS[name](**dims, **rest))
        traced = entries(ops.OPS[name](**{dim: Expr.var(dim) for dim in dims}, **rest))
        assert traced.keys() == exact.keys()
        for key, n in exact.items():
            formula = traced[key]
            found = formula.evaluate(**dims) if isinstance(formula, Expr) else formula
            assert agree(found, n), (key, str(formula), dims, rest)


@pytest.mark.parametrize("name", NAMES)
def test_printed_formulas_read_back(name: str) -> None:
    """The formula as text, read by Python, gives the numbers too."""
    calls = {
        "max": max,
        "min": min,
        "where": lambda condition, a, b: a if condition else b,
        "ceil_div": lambda a, b: -(-a // b),
        "power": pow,
    }
    dims, rest = next(shapes(name))
    exact = entries(ops.OPS[name](**dims, **rest))
    traced = entries(ops.OPS[name](**{dim: Expr.var(dim) for dim in dims}, **rest))
    for key, n in exact.items():
        assert agree(eval(str(traced[key]), calls, dict(dims)), n), (key, str(traced[key]))


@pytest.mark.parametrize("total", ["flops", "bytes", "link_bytes"])
@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32), which=st.integers(0, 100), more=st.integers(1, 300))
@settings(deadline=None, max_examples=50)
def test_no_total_falls_where_a_dim_grows(name: str, total: str, seed: int, which: int, more: int) -> None:
    """More of anything never costs less, within what the dims may be."""
    dims, rest = drawn(name, random.Random(seed))
    waves = {dim for limit, dims_of in WAVES.items() if limit in dims for dim in dims_of}
    free = sorted(dim for dim in dims if dim not in waves and (total != "bytes" or (name, dim) not in SHRINKS))
    grown = free[which % len(free)]
    before = ops.OPS[name](**dims, **rest)
    after = ops.OPS[name](**held({**dims, grown: dims[grown] + more}), **rest)
    assert totals(after)[total] >= totals(before)[total], (grown, dims, rest)


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter"])
def test_a_shard_of_more_ranks_is_smaller(name: str) -> None:
    """8,000 byte and a shard: 4,000 more on 2 ranks, 1,000 more on 8."""
    assert [ops.OPS[name](bytes=8000, ranks=ranks).bytes for ranks in (2, 8)] == [12_000, 9_000]


# The registry


def test_a_second_registration_is_refused() -> None:
    """Two formulas under one name would leave it to the import order which one counts."""
    before = ops.OPS["linear"]
    with pytest.raises(RooflineError, match="'linear' is registered twice"):
        ops.op("linear")(lambda: None)
    assert ops.OPS["linear"] is before


def test_a_new_operation_is_registered_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decorator gives back the function with its signature and docstring, and its name finds it."""
    monkeypatch.setattr(ops, "OPS", dict(ops.OPS))

    def own(*, n: int) -> Work:
        return ops.copy(n=n)

    registered = ops.op("own")(own)
    assert inspect.signature(registered) == inspect.signature(own)
    assert ops.operation("own") is registered


def test_an_operation_is_found_by_its_name() -> None:
    """`linear` is the function of that name."""
    assert ops.operation("linear") is ops.linear


def test_an_unknown_operation_lists_close_ones() -> None:
    """A slip is answered with what may have been meant, in one line."""
    with pytest.raises(UnknownName, match=r"^Unknown operation 'linaer'\. Close: linear") as caught:
        ops.operation("linaer")
    assert "\n" not in str(caught.value)


# linear


def test_linear_counts_a_multiply_add_as_two() -> None:
    """2 x 3 outputs of 4 products each: 24 multiply-adds, 48 FLOP at the GEMM's rate."""
    assert ops.linear(m=2, n=3, k=4).cost.flops == {"bf16": 48}


def test_linear_moves_each_operand_once() -> None:
    """12 weights, 8 inputs and 6 outputs of two bytes."""
    assert ops.linear(m=2, n=3, k=4).cost.memory == {"weights": 24, "activations": 16 + 12}


def test_a_square_gemm() -> None:
    """8,192³ is 2^39 multiply-adds, and three matrices of 2^27 byte: 2,730.7 FLOP/byte."""
    work = ops.linear(m=8192, n=8192, k=8192)
    assert (work.flops, work.bytes) == (2**40, 3 * 2**27)
    assert work.intensity == pytest.approx(8192 / 3)


def test_biases_add_their_bytes_and_no_flops() -> None:
    """Three biases of two bytes beside 24 of weights."""
    cost = ops.linear(m=2, n=3, k=4, biases=3).cost
    assert cost.memory["weights"] == 24 + 6
    assert cost.flops == {"bf16": 48}


def test_biases_have_their_own_format() -> None:
    """12 int4 weights are 6 bytes, three FP32 biases 12."""
    assert ops.linear(m=2, n=3, k=4, weights="int4", biases=3, bias="fp32").cost.memory["weights"] == 18


def test_only_some_outputs_may_have_a_bias() -> None:
    """2 of 3 outputs: 4 byte."""
    assert ops.linear(m=2, n=3, k=4, biases=2).cost.memory["weights"] == 28


def test_an_output_has_its_role() -> None:
    """Logits are what a pass is run for: 12 byte apart from 16 of inputs."""
    memory = ops.linear(m=2, n=3, k=4, output="output").cost.memory
    assert memory == {"weights": 24, "activations": 16, "output": 12}


def test_linear_reads_weights_in_their_format() -> None:
    """3 x 256 in int4-g128: 384 byte and 6 groups of 20 bits, 15 byte; activations stay at two bytes."""
    memory = ops.linear(m=1, n=3, k=256, weights="int4-g128").cost.memory
    assert memory == {"weights": 384 + 15, "activations": 2 * (256 + 3)}


def test_groups_of_weights_run_along_the_contraction() -> None:
    """k = 128 is one group an output: 3 groups, 60 bits, 8 byte, whatever n is."""
    assert ops.linear(m=1, n=3, k=128, weights="int4-g128").cost.memory["weights"] == 192 + 8


def test_linear_runs_at_the_rate_asked_for() -> None:
    """FP8 arithmetic counts at the FP8 peak."""
    assert ops.linear(m=2, n=3, k=4, compute="fp8").cost.flops == {"fp8": 48}


# attention


def pairs(**dims: Any) -> Any:
    """Query-key pairs of one head of one element: a quarter of the FLOPs."""
    return ops.attention(**{"sequences": 1, "heads": 1, "kv_heads": 1, "head_dim": 1, **dims}).flops // 4


def cached(**dims: Any) -> Any:
    """Positions that are read, of one KV head of one element: a quarter of its bytes, for K and V of two bytes."""
    work = ops.attention(**{"sequences": 1, "heads": 1, "kv_heads": 1, "head_dim": 1, **dims})
    return work.cost.memory["kv"] // 4


@pytest.mark.parametrize(("new", "expected"), [(1, 1), (2, 3), (3, 6), (4, 10), (100, 5050), (8192, 33_558_528)])
def test_a_prefill_from_nothing_is_causal(new: int, expected: int) -> None:
    """The i-th token sees i: s(s+1)/2 pairs."""
    assert pairs(new=new, context=0) == expected


@pytest.mark.parametrize(("new", "context", "expected"), [(4, 10, 50), (2, 1, 5), (512, 1024, 655_616)])
def test_a_chunk_sees_its_context_and_itself(new: int, context: int, expected: int) -> None:
    """4 tokens after 10: 11 + 12 + 13 + 14 pairs."""
    assert pairs(new=new, context=context) == expected
    assert sum(context + i for i in range(1, new + 1)) == expected


@pytest.mark.parametrize(("context", "expected"), [(0, 1), (1, 1), (2, 2), (8192, 8192)])
def test_a_decode_step_attends_to_its_context(context: int, expected: int) -> None:
    """The new token is the last of the `context` positions, so at 0 it still sees itself."""
    assert pairs(new=1, context=context) == expected
    assert cached(new=1, context=context) == expected


def test_a_chunk_reads_each_position_once() -> None:
    """4 tokens after 10 read 14 positions, tiled, however many queries see them."""
    assert cached(new=4, context=10) == 14


def test_chunks_make_the_whole_prompt() -> None:
    """A prompt of 96 in three chunks of 32 has the pairs of the prompt at once."""
    assert sum(pairs(new=32, context=done) for done in (0, 32, 64)) == pairs(new=96, context=0)


@given(st.integers(2, 40), st.integers(0, 60), st.integers(1, 80))
def test_a_window_caps_what_each_query_sees(new: int, context: int, window: int) -> None:
    """Counted query by query: the i-th new token sees the last min(context + i, window) positions."""
    assert pairs(new=new, context=context, window=window) == sum(min(context + i, window) for i in range(1, new + 1))


@given(st.integers(2, 40), st.integers(0, 60), st.integers(1, 80))
def test_a_window_leaves_out_what_no_query_sees(new: int, context: int, window: int) -> None:
    """Counted position by position: the union of what the queries see is read, each once."""
    seen = {at for i in range(1, new + 1) for at in range(max(0, context + i - window), context + i)}
    assert cached(new=new, context=context, window=window) == len(seen)


@pytest.mark.parametrize(("context", "expected"), [(0, 1), (100, 100), (128, 128), (8192, 128)])
def test_a_decode_step_sees_its_window(context: int, expected: int) -> None:
    """Of 8,192 positions the last 128."""
    assert pairs(new=1, context=context, window=128) == expected
    assert cached(new=1, context=context, window=128) == expected


def test_a_wide_window_changes_nothing() -> None:
    """A window of all there is cuts nothing off."""
    assert pairs(new=7, context=20, window=27) == pairs(new=7, context=20)
    assert cached(new=7, context=20, window=27) == cached(new=7, context=20)


def test_a_window_is_a_dim() -> None:
    """Where there is one the work says so."""
    assert ops.attention(sequences=1, new=1, context=9, heads=1, kv_heads=1, head_dim=1, window=4).dims["window"] == 4


def test_without_causality_every_query_sees_everything() -> None:
    """4 tokens beside 10: 4 · 14 pairs, and 14 positions."""
    assert pairs(new=4, context=10, causal=False) == 56
    assert cached(new=4, context=10, causal=False) == 14


def test_attention_is_four_flops_a_pair_and_element() -> None:
    """q·K and P·V, a multiply-add each: 4 · 3 sequences · 2 heads · 8 elements · 50 pairs."""
    work = ops.attention(sequences=3, new=4, context=10, heads=2, kv_heads=1, head_dim=8)
    assert work.cost.flops == {"bf16": 9600}


def test_grouped_query_attention_reads_the_kv_heads_only() -> None:
    """A layer of Qwen3-8B, 64 sequences at 8,192: 2^31 byte of cache, q and output of 32 heads, new K and V of 8."""
    work = ops.attention(sequences=64, new=1, context=8192, heads=32, kv_heads=8, head_dim=128)
    assert work.cost.memory == {"kv": 2**31, "activations": 1_048_576 + 262_144}
    assert work.flops == 4 * 64 * 32 * 128 * 8192


def test_multi_query_attention_reads_one_head() -> None:
    """One KV head instead of 32: a 32nd of the cache, the same FLOPs."""
    many = ops.attention(sequences=1, new=1, context=100, heads=32, kv_heads=32, head_dim=128)
    one = ops.attention(sequences=1, new=1, context=100, heads=32, kv_heads=1, head_dim=128)
    assert many.cost.memory["kv"] == 32 * one.cost.memory["kv"]
    assert many.flops == one.flops


def test_a_cache_of_one_byte_halves_what_is_read_and_appended() -> None:
    """FP8: 2^30 byte of cache, 131,072 appended; q and output stay at two bytes."""
    work = ops.attention(sequences=64, new=1, context=8192, heads=32, kv_heads=8, head_dim=128, kv="fp8")
    assert work.cost.memory == {"kv": 2**30, "activations": 1_048_576 + 131_072}


# The small kernels


@pytest.mark.parametrize(("added", "flops", "moved"), [(0, 48, 64), (1, 64, 128), (2, 80, 160)])
def test_norm_after_adding_tensors(added: int, flops: int, moved: int) -> None:
    """16 elements of two bytes. Alone: in and out. With one added: also that in and the stream out. 3 + added FLOP."""
    work = ops.norm(m=2, width=8, added=added)
    assert work.cost.flops == {"fp32-vector": flops}
    assert work.cost.memory == {"weights": 16, "activations": moved}


def test_norm_adds_nothing_unless_asked() -> None:
    """Without a word it is the norm alone, of one vector."""
    assert ops.norm(m=2, width=8) == ops.norm(m=2, width=8, added=0, vectors=1)


def test_norm_reads_scale_and_bias() -> None:
    """Two vectors of 8 in FP32: 64 byte."""
    assert ops.norm(m=2, width=8, vectors=2, weights="fp32").cost.memory["weights"] == 64


@pytest.mark.parametrize(("gates", "moved"), [(1, 96), (0, 64)], ids=["gated", "plain"])
def test_activation_reads_its_gate(gates: int, moved: int) -> None:
    """16 elements of two bytes: gate, up and product; or in and out. 3 FLOP an element."""
    work = ops.activation(m=2, width=8, gates=gates)
    assert work.cost.flops == {"fp32-vector": 48}
    assert work.cost.memory == {"activations": moved}


def test_rope_rotates_q_and_k() -> None:
    """2 rows of 4 + 2 heads of 8: 96 elements in and out at two bytes, 3 FLOP each."""
    work = ops.rope(m=2, heads=4, kv_heads=2, head_dim=8)
    assert work.cost.flops == {"fp32-vector": 288}
    assert work.cost.memory == {"weights": 0, "activations": 384}


def test_a_partial_rope_rotates_part_of_each_head() -> None:
    """2 of 8 elements in place: a quarter of the FLOPs and of the bytes; with a norm every element is touched."""
    work = ops.rope(m=2, heads=4, kv_heads=2, head_dim=8, rotary_dim=2)
    assert work.flops == 72
    assert work.cost.memory["activations"] == 96
    assert ops.rope(m=2, heads=4, kv_heads=2, head_dim=8, rotary_dim=2, normed=1).cost.memory["activations"] == 384


def test_a_norm_of_q_and_k_is_three_flops_more() -> None:
    """96 elements normed and rotated: 6 FLOP each; two scale vectors of 8 at two bytes."""
    work = ops.rope(m=2, heads=4, kv_heads=2, head_dim=8, normed=1)
    assert work.flops == 576
    assert work.cost.memory == {"weights": 32, "activations": 384}


def test_a_norm_of_q_and_k_without_rotation() -> None:
    """No rotary embedding: 3 FLOP of the norm an element."""
    assert ops.rope(m=2, heads=4, kv_heads=2, head_dim=8, rotary_dim=0, normed=1).flops == 288


def test_embedding_looks_rows_up() -> None:
    """3 rows of 8 at two bytes, read from the table and written: no FLOP, no whole table."""
    work = ops.embedding(m=3, width=8, rows=100)
    assert (work.flops, work.cost.memory) == (0, {"weights": 48, "activations": 48})


def test_embedding_of_two_tables_adds_them() -> None:
    """Tokens and positions: twice the rows read, one sum written, an addition an element."""
    work = ops.embedding(m=3, width=8, rows=100, positions=50)
    assert (work.flops, work.cost.memory) == (24, {"weights": 96, "activations": 48})


def test_embedding_reads_no_row_twice() -> None:
    """1,000 tokens of a vocabulary of 100 at 50 places: at most the two tables are read, whole."""
    work = ops.embedding(m=1000, width=8, rows=100, positions=50)
    assert work.cost.memory["weights"] == 2 * 8 * (100 + 50)


def test_embedding_of_a_split_table_is_looked_up_in_shares() -> None:
    """10 tokens over 4 ranks: 3 rows at the most on the average rank."""
    assert ops.embedding(m=10, width=8, rows=100, ranks=4).cost.memory["weights"] == 2 * 8 * 3


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_numpy_ints_do_not_wrap(kind: type) -> None:
    """2 x 8192 cubed is 1.1e12, beyond 32 bits; 2 x (2^21) cubed is beyond 64."""
    sizes = np.array([8192, 1 << 21], dtype=kind)
    assert ops.linear(m=sizes, n=sizes, k=sizes).flops.tolist() == [2.0 * 8192**3, 2.0 * 2.0**63]
    assert ops.linear(m=kind(1 << 21), n=kind(1 << 21), k=kind(1 << 21)).flops == 2 * (1 << 21) ** 3


@pytest.mark.parametrize(
    "size",
    [
        -5,
        -1.0,
        float("nan"),
        float("inf"),
        10**400,
        np.array([3, -1]),
        np.array([]),
        np.array([1j]),
        [4],
        (4,),
        {},
        b"4",
        np.ma.array([1, 2], mask=[0, 1]),
        object(),
        int,
    ],
)
def test_a_size_below_zero_is_refused(size: Any) -> None:
    """No kernel has fewer than no rows."""
    with pytest.raises(BadValue, match=r"m of linear is .* zero or more"):
        ops.linear(m=size, n=4, k=4)


def test_a_stride_needs_causal_attention() -> None:
    """Both at once are not counted, and not counted wrongly; a window and a chunk are."""
    with pytest.raises(BadValue, match="causal"):
        ops.attention(sequences=1, new=4, context=0, heads=1, kv_heads=1, head_dim=8, causal=False, stride=2)


def test_block_scales_of_a_cache_are_counted() -> None:
    """NVFP4 holds 16 elements in 8 + 1 bytes: 100 positions of one head of 32, K and V."""
    work = ops.attention(sequences=1, new=1, context=100, heads=1, kv_heads=1, head_dim=32, kv="nvfp4")
    assert work.cost.memory["kv"] == 2 * 100 * 32 * 9 // 16


def test_elementwise_of_two_tensors() -> None:
    """10 elements: two read, one written, at two bytes; a FLOP each."""
    work = ops.elementwise(n=10)
    assert (work.flops, work.bytes) == (10, 60)


def test_elementwise_of_anything() -> None:
    """5 FP32 elements, one tensor read and three written, 7 FLOP each."""
    work = ops.elementwise(n=5, reads=1, writes=3, flops=7, activations="fp32")
    assert (work.flops, work.bytes) == (35, 80)


def test_softmax() -> None:
    """2 rows of 5: 10 elements in and out at two bytes, 5 FLOP each."""
    work = ops.softmax(m=2, width=5)
    assert (work.cost.flops, work.bytes) == ({"fp32-vector": 50}, 40)


def test_copy_reads_and_writes() -> None:
    """7 byte in, 7 out, nothing computed."""
    work = ops.copy(n=7)
    assert (work.flops, work.bytes) == (0, 14)
