"""What is run: rows of a pass and number formats; sizes that cannot be are refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.dtypes import DTYPES
from roofline.errors import BadValue, UnknownName
from roofline.workload import Precision, Workload

SIZES = st.integers(1, 1 << 40)
BAD = [
    -1,
    0,
    (1 << 40) + 1,
    10**30,
    True,
    False,
    "1",
    "8k",
    1.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    np.array([1, -1]),
    np.array([1.0, 0.0]),
    np.array([1.0, np.nan]),
    np.array([1.0, np.inf]),
]


def refusal(call: Any, **sizes: Any) -> str:
    """The message of the BadValue that these sizes raise, which is one line."""
    with pytest.raises(BadValue) as caught:
        call(**sizes)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Constructors


def test_a_decode_step_has_one_row_a_sequence() -> None:
    """64 sequences at 8,192 tokens: 64 rows through every matrix, and the logits of each."""
    step = Workload.decode(sequences=64, context=8192)
    assert (step.phase, step.tokens, step.logits) == ("decode", 64, 64)
    (rows,) = step.groups
    assert (rows.sequences, rows.new, rows.context) == (64, 1, 8192)


def test_a_speculative_step_wants_the_logits_of_every_token() -> None:
    """8 sequences with 4 drafted tokens each are 32 rows, each of them checked."""
    step = Workload.decode(sequences=8, context=100, new=4)
    assert (step.tokens, step.logits) == (32, 32)


def test_a_decode_without_words_is_one_sequence() -> None:
    """The default is one sequence at 8,192 tokens."""
    (rows,) = Workload.decode().groups
    assert (rows.sequences, rows.new, rows.context) == (1, 1, 8192)


def test_a_prefill_wants_the_last_logits() -> None:
    """2 prompts of 2,048 tokens: 4,096 rows, and the logits of 2."""
    prompt = Workload.prefill(sequences=2, new=2048)
    assert (prompt.phase, prompt.tokens, prompt.logits) == ("prefill", 4096, 2)
    assert prompt.groups[0].context == 0


def test_a_prefill_may_want_all_logits() -> None:
    """Scoring a text needs the logits of every token."""
    assert Workload.prefill(sequences=2, new=2048, logits="all").logits == 4096


def test_other_logits_are_refused() -> None:
    """The line says what there is."""
    message = refusal(Workload.prefill, logits="some")
    assert message == "Logits of 'some' are not known. Choose last or all."


def test_a_mixed_pass_has_the_rows_of_both() -> None:
    """63 decode rows and a chunk of 512: 575 rows, 64 logits."""
    both = Workload.mixed(Workload.decode(63, 4096), Workload.prefill(1, 512, 1024))
    assert (both.phase, both.tokens, both.logits) == ("mixed", 575, 64)
    assert [each.phase for each in both.groups] == ["decode", "prefill"]


def test_two_of_one_kind_are_of_that_kind() -> None:
    """Two groups of prompts are still a prefill."""
    assert Workload.mixed(Workload.prefill(1, 10), Workload.prefill(2, 20)).phase == "prefill"


@given(SIZES, SIZES, st.integers(0, 1 << 40))
def test_tokens_are_sequences_times_new(sequences: int, new: int, context: int) -> None:
    """Rows through a matrix do not depend on what is cached, and are exact."""
    assert Workload.prefill(sequences, new, context).tokens == sequences * new
    assert Workload.decode(sequences, context, new).tokens == sequences * new


# Resized


def test_resized_changes_the_first_group_only() -> None:
    """Another batch of decode rows; the chunk beside it stays."""
    both = Workload.mixed(Workload.decode(63, 4096), Workload.prefill(1, 512, 1024))
    more = both.resized(sequences=127)
    assert (more.tokens, more.groups[0].context) == (127 + 512, 4096)
    assert more.groups[1] == both.groups[1]


def test_resized_to_another_context() -> None:
    """The batch stays."""
    (rows,) = Workload.decode(64, 4096).resized(context=100).groups
    assert (rows.sequences, rows.context) == (64, 100)


def test_resized_to_nothing_else_is_the_same() -> None:
    """Without a size nothing changes."""
    step = Workload.decode(64, 4096)
    assert step.resized() == step


@pytest.mark.parametrize("sizes", [{"sequences": 0}, {"sequences": -1}, {"context": -1}, {"sequences": True}])
def test_resized_to_a_size_that_cannot_be_is_refused(sizes: dict[str, Any]) -> None:
    """A workload has sizes that can be, however it was made."""
    refusal(Workload.decode(64, 4096).resized, **sizes)


# Sizes


@pytest.mark.parametrize("size", BAD, ids=repr)
def test_an_impossible_number_of_sequences_is_refused(size: Any) -> None:
    """A whole number from 1 on; the line names the size."""
    assert "sequences" in refusal(Workload.decode, sequences=size)
    assert "sequences" in refusal(Workload.prefill, sequences=size)


@pytest.mark.parametrize("size", BAD, ids=repr)
def test_an_impossible_number_of_new_tokens_is_refused(size: Any) -> None:
    """A pass without new tokens is none."""
    assert "new" in refusal(Workload.decode, new=size)
    assert "new" in refusal(Workload.prefill, new=size)


@pytest.mark.parametrize("size", [-1, (1 << 40) + 1, True, "8k", 0.5, float("nan"), np.array([0, -1])], ids=repr)
def test_an_impossible_context_is_refused(size: Any) -> None:
    """A context may be 0, not less."""
    assert "context" in refusal(Workload.decode, context=size)
    assert "context" in refusal(Workload.prefill, context=size)


def test_the_least_and_the_largest_sizes_are_allowed() -> None:
    """1 sequence at 0 cached tokens, and 2^40 of everything."""
    assert Workload.prefill(1, 1, 0).tokens == 1
    assert Workload.decode(1 << 40, 1 << 40, 1 << 40).tokens == 1 << 80


def test_a_whole_float_is_a_size() -> None:
    """64.0 is 64."""
    assert Workload.decode(64.0, 8192.0).tokens == 64


def test_an_array_of_sizes_is_swept() -> None:
    """Tokens and logits are of each batch."""
    step = Workload.decode(sequences=np.array([1.0, 64.0, 256.0]), context=8192)
    assert step.tokens.tolist() == [1.0, 64.0, 256.0]
    assert step.logits.tolist() == [1.0, 64.0, 256.0]


def test_arrays_of_two_sizes_broadcast() -> None:
    """A column of batches and a row of prompts give a table of tokens."""
    swept = Workload.prefill(np.array([[1], [2]]), np.array([10, 20, 30]))
    assert swept.tokens.tolist() == [[10, 20, 30], [20, 40, 60]]


def test_an_array_of_ints_does_not_overflow() -> None:
    """2^40 sequences of 2^40 tokens are 2^80 rows, as for plain ints, and not 0."""
    swept = Workload.prefill(np.array([1 << 40]), np.array([1 << 40]))
    assert [float(each) for each in swept.tokens] == [2.0**80]


def test_an_array_with_a_fraction_is_refused() -> None:
    """1.5 sequences are none, in an array neither."""
    refusal(Workload.decode, sequences=np.array([1.0, 1.5]))


def test_an_array_of_nothing_is_refused() -> None:
    """A sweep over no sizes is a slip."""
    refusal(Workload.decode, sequences=np.array([]))


@pytest.mark.parametrize(
    "size", [None, [1, 2], b"1", 1j, {}, np.array(["1"]), np.array([None])], ids=lambda each: type(each).__name__
)
def test_what_is_no_number_is_refused(size: Any) -> None:
    """A list, nothing, or an array of text is no size: the error is here, not deep in a formula."""
    refusal(Workload.decode, sequences=size)


@pytest.mark.parametrize("digits", [300, 5000])
def test_a_size_of_many_digits_makes_a_short_line(digits: int) -> None:
    """Also a number that Python does not print is refused in a line."""
    assert len(refusal(Workload.decode, sequences=10**digits)) < 200


# Precision


def test_everything_is_bf16_without_words() -> None:
    """Cache, activations and arithmetic; weights are as the checkpoint has them, and BF16 where it does not say."""
    plain = Precision()
    ledger = rl.predict("qwen3-8b", "h100-sxm", precision=Precision(kv="fp8"))

    assert {plain.kv, plain.activations, plain.compute} == {"bf16"}
    assert plain.weights == "stored"
    assert ledger.precision == Precision("bf16", "fp8")


@pytest.mark.parametrize("field", ["weights", "kv", "activations"])
@pytest.mark.parametrize("name", ["int5", "", "BF 16"])
def test_an_unknown_format_is_refused(field: str, name: Any) -> None:
    """Each of the three is checked when it is given; the line says what there is."""
    with pytest.raises(UnknownName, match=r"^Unknown dtype ") as caught:
        Precision(**{field: name})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_format_may_store_weights(name: str) -> None:
    """What is in the table is allowed."""
    assert Precision(weights=name).weights == name


@pytest.mark.parametrize(
    ("weights", "vectors"),
    [
        ("fp64", "fp64"),
        ("fp32", "fp32"),
        ("bf16", "bf16"),
        ("fp16", "fp16"),
        ("fp8", "bf16"),
        ("fp8-block128", "bf16"),
        ("int8", "bf16"),
        ("mxfp4", "bf16"),
        ("int4-g128", "bf16"),
    ],
)
def test_norms_and_biases_have_16_bits_at_the_least(weights: str, vectors: str) -> None:
    """Vectors are stored as the weights are, but not below 16 bits."""
    assert Precision(weights=weights).vectors.name == vectors
