"""Every family's checkpoint as transformers names its tensors: each is found in its header; `-m oracle` runs these."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from family_cases import CASES, ident, keys_of
from stored_files import safetensors

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("case", CASES, ids=[ident(*case) for case in CASES])
def test_every_parameter_is_found(tmp_path, case):
    """In FP32, so that a tensor that is not found would be counted at half its bytes."""
    from oracle import build

    keys = keys_of(*case)
    tensors = {name: ("F32", tuple(each.shape)) for name, each in build(keys).named_parameters()}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    stored = safetensors(tmp_path / "model.safetensors", tensors)
    model = rl.Model.load(tmp_path)

    assert model.weight_bytes(rl.Precision("stored"), rl.Shard()) == stored
    assert not any("in no header" in each or "The model counts" in each for each in model.assumptions)
