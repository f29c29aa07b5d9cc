"""Every family that transformers has: our counts are those that it and PyTorch give, kept in golden/families.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from encoder_cases import SOURCE
from family_cases import CASES, ident, keys_of, products
from roofline import config as configs
from roofline.parts.again import Again

GOLDEN = json.loads((Path(__file__).parent / "golden" / "families.json").read_text("utf-8"))
IDS = [ident(*case) for case in CASES]


def model_of(model_type: str, changes: dict[str, Any]) -> rl.Model:
    return configs.read(keys_of(model_type, changes), "tiny", "config.json")


def pass_over(model: rl.Model, workload: rl.Workload) -> rl.Workload:
    """The pass as the oracle runs it: an encoder that reads what it is given reads 5 positions, images are whole."""
    if model.unit == "patch":
        return workload.resized(new=model.max_positions)
    return workload if model.encoder is None or model.encoder.fixed else workload.reading(SOURCE)


def test_every_case_has_its_counts():
    """No more and no fewer than the cases."""
    assert sorted(GOLDEN) == sorted(IDS)
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_parameters_are_those_of_transformers(case):
    """Total, token embedding and routed experts, exactly."""
    counted, golden = model_of(*case).parameters(), GOLDEN[ident(*case)]

    assert (counted.total, counted.embedding, counted.experts) == (
        golden["parameters"],
        golden["embedding"],
        golden["experts"],
    )


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_products_are_those_of_pytorch(case, h100):
    """FLOPs of every matrix product over 2 sequences of 7 tokens, attention and experts included."""
    model = model_of(*case)
    ledger = rl.predict(model, h100, pass_over(model, rl.Workload.prefill(2, 7, logits="all")))

    assert products(model, ledger, keys_of(*case)) == GOLDEN[ident(*case)]["flops"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_is_stored_is_what_is_counted(case):
    """Two bytes a parameter in BF16 on one rank."""
    model = model_of(*case)

    assert model.weight_bytes(rl.Precision(), rl.Shard()) == 2 * model.parameters().total


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_weight_is_read_once_by_many_tokens(case, h100):
    """A long prefill reads each stored matrix once, all experts, of the token table its rows; no more and no less."""
    model = model_of(*case)
    ledger = rl.predict(model, h100, rl.Workload.prefill(64, 64, logits="all"))
    counted = model.parameters()
    read = sum(
        point.count * (point.work.cost.memory.get("weights", 0) + point.work.cost.memory.get("routed", 0))
        for point in ledger
    )
    learned = sum(
        count * each.parameters for count, part in model.repeats for each in part.weights() if each.name in NOT_READ
    )
    learned -= sum(
        count * each.parameters
        for count, part in model.repeats
        if isinstance(part, Again)
        for each in part.part.weights()
    )
    heads = [part.matrix() for part in model.after if getattr(part, "tied", False)]
    tied = sum(each.out.elements * each.inp.elements for each in heads)

    again = sum(counted.embedding for _, part in model.repeats if getattr(part, "shared", False) is True)
    assert read == pytest.approx(2 * (counted.total + tied + again - learned), rel=1e-9)


# Vectors that are stored and whose bytes are not charged: those of the choice, of learned activations and of pooling.
NOT_READ = {
    *("correction", "router_scale", "act", "kv_norm_bias", "compressor_positions", "compressor_norm"),
    *("indexer_positions", "indexer_norm", "class_token", "distillation_token", "probe", "tied_bias"),
    *(f"hyper_{name}_{kind}" for name in ("attention", "mlp", "head") for kind in ("base", "scale")),
}
