"""Vision towers: counted exactly, beside the text model, and run where a pass has images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roofline as rl
from roofline.families import TOWERS, load_all
from tower_cases import TOWERS as CASES
from tower_cases import keys_of

GOLDEN = json.loads((Path(__file__).parent / "golden" / "towers.json").read_text("utf-8"))
load_all()


def test_every_tower_has_a_case():
    """What is registered is counted."""
    assert set(CASES) == set(TOWERS) == set(GOLDEN)


@pytest.mark.parametrize("name", sorted(CASES))
def test_parameters_are_those_of_transformers(name):
    """Exactly; a tower that the causal language model leaves out is in no total, and said."""
    model = rl.Model.load(keys_of(name))
    counted = model.parameters()

    assert (counted.vision or 0) + counted.vision_apart == GOLDEN[name]
    assert counted.total == counted.text + (counted.vision or 0)
    assert bool(counted.vision_apart) == TOWERS[name].apart
    assert any(f"{GOLDEN[name]:,} parameters" in each for each in model.assumptions)


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_stored_is_what_is_counted(name):
    """Two bytes a parameter; a tower that is apart is there where images are asked for."""
    model = rl.Model.load(keys_of(name))
    counted, formats = model.parameters(), (rl.Precision(), rl.Shard())

    assert model.weight_bytes(*formats) == 2 * counted.total
    assert model.weight_bytes(*formats, images=True) == 2 * (counted.total + counted.vision_apart)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_pass_without_images_is_the_text_model_s(name, h100):
    """Text alone by default; an image adds the tower's kernels, and nothing else."""
    model = rl.Model.load(keys_of(name))
    text = rl.Workload.prefill(1, 20)
    alone, seeing = rl.predict(model, h100, text), rl.predict(model, h100, text.seeing(1, 4))
    own = [point for point in seeing if point.part == "vision"]

    assert not [point for point in alone if point.part == "vision"]
    assert own
    assert seeing.total.flops == alone.total.flops + sum(point.flops for point in own)


def test_every_patch_sees_every_other(h100):
    """Qwen 3 VL, 2 images of 5 tokens, 20 patches of 96 numbers each: every product by hand."""
    model = rl.Model.load(keys_of("qwen3_vl"))
    ledger = rl.predict(model, h100, rl.Workload.prefill(1, 20).seeing(2, 5))
    flops = {}
    for point in ledger:
        if point.part == "vision" and point.work.op in ("linear", "attention"):
            flops[point.name] = flops.get(point.name, 0) + point.flops

    patches, tokens, width, joined = 2 * 20, 2 * 5, 12, 48
    assert flops == {
        "vision_patch_embed": 2 * patches * width * 96,
        "vision_qkv_proj": 3 * 2 * patches * 3 * width * width,
        "vision_attention": 3 * 2 * 4 * 20 * 20 * width,
        "vision_o_proj": 3 * 2 * patches * width * width,
        "vision_up_proj": 3 * 2 * patches * width * 20,
        "vision_down_proj": 3 * 2 * patches * width * 20,
        "vision_merger_1": 2 * tokens * joined * joined,
        "vision_merger_2": 2 * tokens * joined * 24,
        "vision_deepstack_1": 2 * 2 * tokens * joined * joined,
        "vision_deepstack_2": 2 * 2 * tokens * joined * 24,
    }


def test_patches_of_a_window_see_each_other(h100):
    """Qwen 2.5 VL, an image of 5 tokens, 20 patches: windows of 4 in two layers of three, everything in the third."""
    ledger = rl.predict(rl.Model.load(keys_of("qwen2_5_vl")), h100, rl.Workload.prefill(1, 20).seeing(2, 5))
    found = {point.name: point.flops for point in ledger if point.part == "vision" and point.work.op == "attention"}

    assert found == {
        "vision_attention": 2 * 4 * 20 * 20 * 12,
        "vision_attention_chunked": 2 * 2 * 4 * 5 * 4 * 4 * 12,
    }


def test_a_tower_is_read_by_its_own_name():
    """LLaVA takes CLIP or SigLIP; a tower that is not known is one line."""
    keys = keys_of("llava")
    other = {**keys, "vision_config": {**keys["vision_config"], "model_type": "siglip_vision_model"}}
    strange = {**keys, "vision_config": {"model_type": "odd_vision_model"}}

    assert rl.Model.load(other).parameters().vision != rl.Model.load(keys).parameters().vision
    assert (
        rl.Model.load({**keys, "vision_config": {"hidden_size": 1024}}).parameters().vision
        == 303_507_456 + 24 * 1024 + 24 * 24
    )
    assert rl.Model.load(strange).parameters().vision is None


def test_images_need_a_tower(h100):
    """A model without one, and one whose tower is not counted, say so."""
    seeing = rl.Workload.prefill(1, 20).seeing(1, 4)
    with pytest.raises(rl.RooflineError, match="is not there, so that it reads no images"):
        rl.predict("qwen3-8b", h100, seeing)
    keys = {**keys_of("qwen3_vl"), "model_type": "another_vl"}
    with pytest.raises(rl.RooflineError, match="is not counted, so that it reads no images"):
        rl.predict(rl.Model.load(keys), h100, seeing)


def test_a_tower_is_whole_on_every_rank():
    """Half of the text model's matrices a rank, all of the tower's."""
    model = rl.Model.load(keys_of("qwen3_vl"))
    sizes = [model.weight_bytes(rl.Precision(), rl.Shard(tp)) for tp in (1, 2)]

    assert sizes[1] > 2 * model.parameters().vision
    assert sizes[0] - sizes[1] < model.parameters().text


def test_step_has_a_tower_that_its_file_does_not_mention():
    """Its class builds one of 1,956,2.. parameters and a projection into the text model; the answer says whose."""
    keys = {**keys_of("step3p7")["text_config"], "model_type": "step3p7"}
    model = rl.Model.load(keys)

    assert model.parameters().vision == 1_981_014_784 - 6144 * (4096 - 24)
    assert any("Step3p7VisionConfig" in each for each in model.assumptions)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"patch_size": [4, 5]}, "patch_size"),
        ({"patch_size": "4"}, "patch_size"),
        ({"depth": 10**9}, "depth is 1000000000"),
        ({"num_heads": 5}, "not divisible by the 5 heads"),
        ({"hidden_size": -1}, "hidden_size is -1"),
    ],
)
def test_a_tower_that_cannot_be_is_one_line(change, says):
    keys = keys_of("qwen3_vl")
    keys["vision_config"] = {**keys["vision_config"], **change}
    with pytest.raises(rl.RooflineError, match=says) as caught:
        rl.Model.load(keys)
    assert "\n" not in str(caught.value)


def test_the_command_reads_images(roofline, tmp_path):
    """--images and --image-tokens add the tower's kernels; one without the other is one line."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(keys_of("qwen3_vl")))
    given = ("predict", str(path), "--device", "h100-sxm", "--phase", "prefill", "--json")
    seeing = json.loads(roofline(*given, "--images", "2", "--image-tokens", "5").out)
    alone = json.loads(roofline(*given).out)
    refused = roofline(*given, "--images", "2")

    assert [each["name"] for each in seeing["kernels"] if each["part"] == "vision"]
    assert not [each for each in alone["kernels"] if each["part"] == "vision"]
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "--image-tokens" in refused.err
