"""Expert parallelism of a toy mixture: what is held, sent and run, by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

import roofline as rl
from roofline.cost import Cost, Work
from roofline.errors import RooflineError
from roofline.model import Block, Model
from roofline.parts.base import Kernel, Pass, Stateless, Weight
from roofline.parts.ends import Norm
from roofline.shard import Axis
from roofline.training.plan import Cluster, Plan
from roofline.training.recipe import Recipe
from roofline.training.search import search
from roofline.training.train import Setting, step, train

HIDDEN, WIDE, EXPERTS, TOP, LAYERS, LENGTH = 32, 48, 8, 2, 4, 64
H = Axis("hidden", HIDDEN)


@dataclass(frozen=True, slots=True)
class Toy(Stateless):
    """Eight experts of up and down, two for each token."""

    label: str = "moe"

    def weights(self) -> tuple[Weight, ...]:
        wide = Axis("experts_width", EXPERTS * WIDE)
        return (Weight("experts_up", wide, H), Weight("experts_down", Axis("out", EXPERTS * HIDDEN), Axis("in", WIDE)))

    def kernels(self, run: Pass) -> Iterable[Kernel]:
        for name, n, k in (("experts_up", WIDE, HIDDEN), ("experts_down", HIDDEN, WIDE)):
            rows = run.tokens * TOP
            memory = {"weights": 2 * TOP * n * k, "routed": 2 * (EXPERTS - TOP) * n * k, "activations": rows * 2}
            dims = {"tokens": run.tokens, "top_k": TOP, "experts": EXPERTS, "n": n, "k": k}
            yield Kernel(name, self.label, Work("moe", dims, Cost({"bf16": 2 * rows * n * k}, memory)))


class Mixture(Model):
    """A model that says how many of its parameters are experts'."""

    def parameters(self):
        counts = Model.parameters(self)
        return replace(counts, experts=2 * EXPERTS * HIDDEN * WIDE * LAYERS)


TOY = Mixture("toy", (), (Block((Norm("norm", H), Toy()), tuple(range(LAYERS))),))
CLUSTER = Cluster(rl.Device.load("h100-sxm"), network=50e9)
ALL = 2 * EXPERTS * HIDDEN * WIDE * LAYERS


def a_step(plan: Plan, recipe: Recipe | None = None):
    return step(Setting(TOY, CLUSTER, plan, LENGTH, recipe or Recipe()))


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_flops_are_conserved(ep):
    """Each rank runs as many rows, of fewer experts."""
    assert a_step(Plan(dp=8, ep=ep)).flops == a_step(Plan(micro_batch=8)).flops


@pytest.mark.parametrize(("ep", "zero"), [(1, 0), (2, 0), (8, 0), (2, 1), (2, 3), (8, 3)])
def test_what_is_held(ep, zero):
    """Experts over expert ranks, and over what is left of the group; norms on every rank, or over the group."""
    held = a_step(Plan(dp=8, ep=ep, zero=zero)).footprint
    norms = HIDDEN * LAYERS
    copies = 8 // ep
    dense, routed = (norms / 8, ALL / ep / copies) if zero else (norms, ALL / ep)
    assert held.optimizer_bytes == 12 * (dense + routed)
    whole = (norms / 8, ALL / ep / copies) if zero == 3 else (norms, ALL / ep)
    assert held.weight_bytes == 2 * sum(whole)


def test_tokens_go_to_their_experts_and_back():
    """Two layers' ends, forward and backward: 7/8 of 64 tokens, twice each, of 32 numbers."""
    [flow] = [each for each in a_step(Plan(dp=8, ep=8, accumulate=3)).flows if each.kind == "ep"]
    assert flow.work.op == "all-to-all"
    assert flow.sent == pytest.approx(7 / 8 * (2 * LENGTH * TOP * HIDDEN) * 2 * 2 * LAYERS * 3)


MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 128,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
ROWS = 2 * LENGTH * 2 * 64  # [byte] of one sequence's rows, two experts a token, in BF16


def sent_by(plan: Plan, model: Model | None = None) -> tuple[float, float]:
    """Bytes that one rank sends to experts, and between tensor ranks in the parts with experts."""
    found = step(Setting(model or rl.Model.load(MIXTRAL), CLUSTER, plan, LENGTH))
    experts = sum(float(each.sent) for each in found.flows if each.kind == "ep")
    between = sum(float(call.calls * call.work.cost.link_bytes) for call in found.calls if call.part == "moe")
    return experts, between


@pytest.mark.parametrize("tp", [2, 4])
def test_without_sequence_parallelism_each_tensor_rank_sends_every_token(tp):
    """3/4 of the rows there and back, twice; and the all-reduce of the stream, forward and backward."""
    experts, between = sent_by(Plan(dp=4, tp=tp, ep=4))
    assert experts == 3 / 4 * ROWS * 4 * 4
    assert between == 2 * (tp - 1) / tp * (ROWS / 2) * 2 * 4


@pytest.mark.parametrize("tp", [2, 4])
def test_with_it_each_sends_its_own_tokens_and_the_rows_are_gathered(tp):
    """1/tp of that; a gather and a scatter of the routed rows, each way, and no gather of the stream again."""
    experts, between = sent_by(Plan(dp=4, tp=tp, ep=4, sequence_parallel=True))
    assert experts == 3 / 4 * ROWS / tp * 4 * 4
    assert between == (tp - 1) / tp * ROWS * 2 * 2 * 4


def test_each_rank_gets_every_row_that_its_experts_read():
    """Of ROWS in all, what it has itself is 1/(ep tp): the rest comes from other experts' and tensor ranks."""
    experts, between = (each / 4 / 4 for each in sent_by(Plan(dp=4, tp=2, ep=4, sequence_parallel=True)))
    assert experts + between == ROWS * (1 - 1 / 8)


def test_experts_on_every_rank_keep_the_streams_collectives():
    """ep 1: nothing is sent to experts, and the stream is gathered and scattered, once more for dW."""
    assert sent_by(Plan(dp=4, tp=2, sequence_parallel=True)) == (0, 1 / 2 * (ROWS / 2) * (2 + 2 + 1) * 4)


def test_shared_experts_keep_theirs_beside():
    """The routed rows' and the stream's."""
    wide = {"shared_expert_intermediate_size": 64, "moe_intermediate_size": 128, "num_experts": 8}
    model = rl.Model.load({**MIXTRAL, **wide, "model_type": "qwen2_moe"})
    names = {call.name for call in step(Setting(model, CLUSTER, Plan(), LENGTH)).calls}
    assert any(each.startswith("shared_") for each in names)
    _, between = sent_by(Plan(dp=4, tp=2, ep=4, sequence_parallel=True), model)
    assert between == 1 / 2 * (ROWS * 4 + ROWS / 2 * 5) * 4


def test_arrays_of_expert_ranks_are_what_each_gives():
    """One sweep, and one by one."""
    many = step(
        Setting(
            rl.Model.load(MIXTRAL),
            CLUSTER,
            Plan(dp=4, tp=2, ep=np.array([1.0, 2.0, 4.0]), sequence_parallel=True),
            LENGTH,
        )
    )
    for i, ep in enumerate((1, 2, 4)):
        one = step(Setting(rl.Model.load(MIXTRAL), CLUSTER, Plan(dp=4, tp=2, ep=ep, sequence_parallel=True), LENGTH))
        assert many.seconds[i] == pytest.approx(one.seconds)


def test_gradients_of_experts_are_summed_over_fewer_ranks():
    """Of 16 ranks in fours: four copies of each expert."""
    found = {each.what: each for each in a_step(Plan(dp=16, ep=4)).flows}
    experts = found["all-reduce of gradients of experts"]
    assert experts.ranks == 4
    assert experts.sent == pytest.approx(2 * 3 / 4 * 2 * ALL / 4)
    assert found["all-reduce of gradients"].sent == pytest.approx(2 * 15 / 16 * 2 * HIDDEN * LAYERS)


def test_a_rank_streams_its_own_experts():
    """An eighth of the weights, and of their gradients."""
    one, eight = (a_step(Plan(dp=8, ep=ep)) for ep in (1, 8))

    def streamed(found, *roles: str) -> float:
        rows = (row for row in found.rows if row.work.op == "moe")
        return sum(row.work.cost.memory.get(role, 0) for row in rows for role in roles)

    for roles in (("weights", "routed"), ("gradients",)):
        assert streamed(eight, *roles) == pytest.approx(streamed(one, *roles) / 8)


def test_frozen_experts_have_no_state():
    """Neither gradients nor updates."""
    held = a_step(Plan(dp=8, ep=2), Recipe(frozen=frozenset({"moe"}))).footprint
    assert held.optimizer_bytes == 12 * HIDDEN * LAYERS


def test_search_spreads_experts():
    """Every divisor of the experts that divides the data-parallel ranks."""
    found = search(Setting(TOY, CLUSTER, Plan(), LENGTH), 8, 8 * LENGTH)
    assert found.best is not None
    assert {each.plan.ep for each in found.pareto} - {1}


@pytest.mark.parametrize(
    ("plan", "model", "words"),
    [
        (Plan(dp=3, ep=3), TOY, "3 expert-parallel ranks do not divide the 8 experts"),
        (Plan(dp=16, ep=16), TOY, "do not divide the 8 experts"),
        (Plan(dp=2, ep=2), rl.Model.load("gpt2"), "It has no experts"),
    ],
)
def test_experts_that_do_not_divide(plan, model, words):
    """One line, with what is possible."""
    with pytest.raises(RooflineError, match=words):
        train(Setting(model, CLUSTER, plan, LENGTH), plan.dp, plan.dp * LENGTH)
