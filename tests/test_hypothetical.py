"""What if: fields of a device and a config with other values, each noted."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.catalogue import load_model
from roofline.errors import BadValue, ConfigError, UnknownName
from roofline.hypothetical import changed_config, changed_device, changes

H100 = rl.Device.load("h100-sxm")


@pytest.mark.parametrize(
    ("field", "value", "get", "expected"),
    [
        ("bandwidth", "4TB/s", lambda d: d.bandwidth, 4e12),
        ("bandwidth", "x2", lambda d: d.bandwidth, 2 * H100.bandwidth),
        ("bandwidth", "0.5x", lambda d: d.bandwidth, H100.bandwidth / 2),
        ("capacity", "96GiB", lambda d: d.capacity, 96 << 30),
        ("launch", "4us", lambda d: d.launch, 4e-6),
        ("peak.bf16", "2PFLOP/s", lambda d: d.peak["bf16"], 2e15),
        ("peak.fp4", "4 PFLOPS", lambda d: d.peak["fp4"], 4e15),
        ("peak", "x2", lambda d: d.peak["fp8"], 2 * H100.peak["fp8"]),
        ("link.bandwidth", "900GB/s", lambda d: d.links[0].bandwidth, 9e11),
        ("link.nvlink.latency", "2us", lambda d: d.links[0].latency, 2e-6),
        ("link.domain", "72", lambda d: d.links[0].domain, 72),
    ],
)
def test_device_fields(field, value, get, expected):
    """Each field, by a quantity or a factor; the figure is no longer the source's, and a note says so."""
    changed = changed_device(H100, {field: value})

    assert get(changed) == pytest.approx(expected, rel=1e-12)
    assert "hypothetical" in changed.assumptions[-1]
    assert any(figure.status == "hypothetical" for figure in changed.figures.values())
    assert all(figure.status != "hypothetical" for figure in H100.figures.values())


def test_a_device_without_a_link_gets_one():
    """By its bandwidth; then ranks can be placed."""
    bare = rl.Device("bare", "bare", {"bf16": 1e12}, 1e11)
    changed = changed_device(bare, {"link.bandwidth": "10GB/s"})

    assert rl.Topology(changed, 2).link().bandwidth == 1e10


@pytest.mark.parametrize(
    ("field", "value", "error", "says"),
    [
        ("bandwith", "x2", UnknownName, "Possible: bandwidth"),
        ("bandwidth", "4TFLOP/s", BadValue, "not B/s"),
        ("bandwidth", "4000", BadValue, "B/s"),
        ("bandwidth", "x0", BadValue, "no finite figure"),
        ("bandwidth", "-1TB/s", BadValue, "device.bandwidth"),
        ("peak.fp4", "x2", BadValue, "unknown"),
        ("peak", "2PFLOP/s", BadValue, "x2"),
        ("link.infiniband.bandwidth", "x2", UnknownName, "nvlink"),
        ("link.nvlink.color", "x2", UnknownName, "bandwidth, latency, domain"),
        ("link.domain", "0", BadValue, "from 1"),
        ("id", "x", UnknownName, "Possible"),
        ("peak.bf17", "2PFLOP/s", UnknownName, "bf16"),
        ("capacity", "x0.0000000000001", BadValue, "no byte"),
        ("bandwidth", "x" + "9" * 400, BadValue, "no finite figure"),
    ],
)
def test_device_refusals(field, value, error, says):
    """One clear line with what is possible."""
    with pytest.raises(error, match=says):
        changed_device(H100, {field: value})


def test_model_fields():
    """kv_heads=1 makes Qwen3-8B multi-query: 4.5 KiB... 36 layers x 2 x 128 x 2 bytes a token."""
    model = load_model("qwen3-8b", {"kv_heads": "1"})

    assert model.cache_bytes(1, rl.Precision(), rl.Shard()) == 36 * 2 * 128 * 2
    assert model.assumptions[0] == "model.kv_heads is 1 instead of 8: a hypothetical model"
    assert load_model("qwen3-8b", {"num_key_value_heads": "1"}).parameters() == model.parameters()


def test_a_section_of_the_text_model_is_where_its_keys_are():
    """In a config with a text model inside, its field is changed and not one on top."""
    keys = {"model_type": "m", "text_config": {"hidden_size": 8, "num_hidden_layers": 2}, "hidden_size": 4}
    changed, _ = changed_config(keys, {"layers": "3", "hidden": "16", "heads": "2"}, "config")

    assert changed["text_config"] == {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    assert changed["hidden_size"] == 4
    assert keys["text_config"] == {"hidden_size": 8, "num_hidden_layers": 2}


def test_model_refusals():
    """An unknown field, a value that its reader refuses, a model without a config."""
    with pytest.raises(UnknownName, match="kv_heads"):
        load_model("qwen3-8b", {"kv_head": "1"})
    with pytest.raises(ConfigError, match="num_key_value_heads"):
        load_model("qwen3-8b", {"kv_heads": "many"})
    with pytest.raises(BadValue, match="nothing changes"):
        load_model("qwen3-8b", {"window": "1024"})
    with pytest.raises(BadValue, match="second time"):
        load_model("qwen3-8b", {"layers": "40", "num_hidden_layers": "80"})
    with pytest.raises(ConfigError, match="4k"):
        load_model("qwen3-8b", {"hidden": "4k"})
    with pytest.raises(BadValue, match="no config"):
        load_model("7B", {"kv_heads": "1"})


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (["device.bandwidth"], BadValue, "FIELD=VALUE"),
        (["device.bandwidth="], BadValue, "FIELD=VALUE"),
        (["card.bandwidth=x2"], UnknownName, "device.FIELD or model.FIELD"),
        (["device.peak=x2", "device.peak=x3"], BadValue, "twice"),
    ],
)
def test_words_that_change_nothing(words, error, says):
    """Refused with the form."""
    with pytest.raises(error, match=says):
        changes(words)


@pytest.mark.parametrize("factor", [0.5, 2, 8])
def test_scaled_and_derated_say_so_in_their_figures(factor):
    """A share of a figure is no longer the source's figure."""
    changed = H100.scaled(bandwidth=factor)

    assert changed.figures["memory.bandwidth"].value == H100.bandwidth * factor == changed.bandwidth
    assert changed.figures["memory.bandwidth"].status == "hypothetical"
    assert changed.figures["peak.bf16"] == H100.figures["peak.bf16"]
    assert H100.derated(0.8, 1.0).figures["memory.bandwidth"].note == "0.8 times the source's figure"
