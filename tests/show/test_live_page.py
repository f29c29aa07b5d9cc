"""The live page in a browser: its figures are the package's, it asks for nothing, and anyone can use it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import roofline as rl
from roofline.capacity import memory
from roofline.catalogue import devices as catalogue_devices
from roofline.crossing import Crossover
from roofline.show import words
from roofline.show.guide import START, STEPS
from roofline.units import gib, percent, si, significant
from roofline.verdicts import verdict
from show.live_browser import Opened
from show.live_cases import ledger_of, settings

NARROW = {"width": 390, "height": 844}

SUMS = """[...document.querySelectorAll("#kernels tr.sums")]
  .map((row) => [row.previousElementSibling.cells[0].textContent, row.textContent])"""
CONTROLS = """() => Object.fromEntries([...document.querySelectorAll(".controls select, .controls input")]
  .map((each) => [each.id, ["radio", "checkbox"].includes(each.type) ? each.checked : each.value]))"""


def expected(ledger: rl.Ledger) -> dict[str, float]:
    names = ("tokens_per_second", "seconds", "intensity", "of_peak", "bytes")
    return {**{name: getattr(ledger.total, name) for name in names}, "total_bytes": memory(ledger).total_bytes}


def test_every_readout_is_the_packages(opened, file, models):
    """At 200 random settings: numbers to 1e-12, their texts, the verdict, what fits; no word on the console."""
    catalogue = {each.id: each for each in catalogue_devices()}
    for setting in settings(models, list(catalogue.values()), 200, seed=31):
        ledger = ledger_of(setting, models[setting["model"]], catalogue[setting["device"]])
        held, total = memory(ledger), ledger.total
        shown = opened.show(**setting)

        assert shown["values"] == pytest.approx(expected(ledger), rel=1e-12), setting
        assert shown["texts"] == {
            "tokens_per_second": significant(total.tokens_per_second, 4),
            "seconds": si(total.seconds, "s"),
            "intensity": f"{significant(total.intensity)} FLOP/byte",
            "of_peak": percent(total.of_peak),
            "bytes": gib(total.bytes),
            "total_bytes": gib(held.total_bytes),
        }
        assert shown["verdict"] == verdict(ledger)
        assert shown["subject"] == words.subject(ledger)
        assert shown["setting"] == words.setting(ledger)
        assert shown["rows"] == len(ledger) + 1
        if held.capacity_bytes is not None:
            assert shown["fits"].startswith("Fits" if held.fits else "Does not fit")
            assert shown["largest"] == f"{words.largest(ledger, held)} {words.longest(ledger, held)}"
    assert opened.said == []
    assert opened.asked == [file.as_uri()]


def test_hypothetical_figures_and_another_device(opened, models):
    """Figures of one's own take the place of the catalogue's; the other device stands beside."""
    setting = {"model": "qwen3-8b", "device": "h100-sxm", "sequences": 64, "tp": 1, "context": 8192, "fused": False}
    setting |= {"phase": "decode", "weights": "bf16", "kv": "bf16", "activations": "bf16", "compute": "bf16"}
    setting |= {"times": "bound", "bandwidth": 6.0e12, "peak": 2.0e15, "capacity": 2.0e11}
    ledger = ledger_of(setting, models["qwen3-8b"], rl.Device.load("h100-sxm"))
    shown = opened.show(**setting, against="a100-sxm-80gb")
    beside = opened.page.locator("#readouts .beside").first.text_content()
    other = ledger_of(
        {**setting, "bandwidth": None, "peak": None, "capacity": None},
        models["qwen3-8b"],
        rl.Device.load("a100-sxm-80gb"),
    )

    assert shown["values"] == pytest.approx(expected(ledger), rel=1e-12)
    assert shown["fits"] == f"Fits: {gib(memory(ledger).total_bytes)} of 186.26 GiB (set by hand)."
    assert beside == f"{significant(other.total.tokens_per_second, 4)} on a100-sxm-80gb"
    assert "hypothetical" in opened.page.locator("#warnings").text_content()


def test_the_address_restores_every_control(browser, file, opened, models):
    """A page opened at an address has the controls of the page that made it."""
    chosen = random.Random(5)
    for setting in settings(models, catalogue_devices(), 6, seed=77):
        setting |= {"against": "b200", "bandwidth": chosen.randint(1, 9) * 1e12, "arithmetic": True}
        opened.show(**setting)
        before = opened.page.evaluate(CONTROLS)
        opened.wait("location.hash === document.body.dataset.drawn")
        made = opened.page.evaluate("location.hash").removeprefix("#")
        other = Opened(browser, file, made)

        assert other.page.evaluate(CONTROLS) == before
        assert other.page.evaluate("document.body.dataset.drawn") == f"#{made}"
        assert other.page.locator("#arithmetic").is_checked()
        other.context.close()


@pytest.mark.parametrize("hash_", ["model=%00&device=x&sequences=1e999&tp=-3&weights=__proto__", "step=99&eb=NaN&=&&"])
def test_an_address_that_cannot_be(browser, file, hash_):
    """What is unknown or out of range becomes what is nearest; nothing breaks."""
    found = Opened(browser, file, hash_)

    assert found.page.locator("#subject").text_content() == "Qwen3-8B on NVIDIA H100 SXM5 80GB"
    assert found.said == []
    found.context.close()


def test_keyboard_alone(opened):
    """Tab reaches every control in the order of the page; keys move, choose, toggle and press them."""
    page = opened.page
    wanted = set(
        page.evaluate("""() => [...document.querySelectorAll("a, button, select, input, summary, [tabindex='0']")]
        .filter((each) => each.checkVisibility() && !each.disabled && !(each.type === "radio" && !each.checked))
        .map((each) => each.id || each.className || each.tagName)""")
    )
    seen: list[str] = []
    for _ in range(len(wanted) + 12):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
        )

    assert wanted <= set(seen)

    rate = page.locator("#out-tokens_per_second")
    before = rate.text_content()
    page.locator("#sequences-range").focus()
    page.keyboard.press("ArrowRight")
    opened.wait(f"document.getElementById('out-tokens_per_second').textContent !== {before!r}")
    assert page.locator("#sequences").input_value() == "2"
    assert page.locator("#sequences-range").get_attribute("aria-valuetext") == "2"

    page.locator("#phase-decode").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#weights").focus()
    page.keyboard.type("int8")
    page.locator("#fused").focus()
    page.keyboard.press("Space")
    opened.wait("document.body.dataset.drawn.includes('fused=1')")
    drawn = page.evaluate("document.body.dataset.drawn")
    assert "phase=prefill" in drawn
    assert "weights=int8" in drawn

    page.locator("#walk").focus()
    page.keyboard.press("Enter")
    opened.wait("document.body.dataset.drawn.includes('step=1')")
    page.keyboard.press("Enter")  # the focus is on the next step
    opened.wait("document.body.dataset.drawn.includes('step=2')")


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
def test_axe_finds_no_violation(browser, file, look):
    """Axe-core, with the walk, the arithmetic and the hypothetical figures open."""
    options = {"color_scheme": "dark"} if look == "dark" else {}
    found = Opened(browser, file, "step=3&arithmetic=1&bandwidth=6e12&against=b200", **options)
    if look == "narrow":
        found.page.set_viewport_size(NARROW)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    report = Axe().run(found.page)

    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in report.response["violations"]] == []
    found.context.close()


def test_the_walk_says_the_published_figures(opened):
    """Each step sets its controls and says its figures: those that were published for Qwen3-8B."""
    said: list[str] = []
    for step in range(1, len(STEPS) + 1):
        shown = opened.show(step=step, **_step(step))
        said.append(opened.page.locator("#guide-text").text_content())
        assert significant(shown["values"]["tokens_per_second"], 4) in said[-1]

    # Tokens a second as published, with 989 TFLOP/s and 3.35 TB/s; here the peaks are 989.4 and 3.352.
    for text, rates in zip(
        said, [(164,), (1840,), (2096,), (18319,), (305,), (536,), (164, 100), (19609,)], strict=False
    ):
        found = [
            float(word.strip(".,:").replace(",", ""))
            for word in text.split()
            if word.strip(".,:").replace(",", "").replace(".", "").isdigit()
        ]
        for rate in rates:
            assert any(abs(each / rate - 1) < 0.005 for each in found), (rate, text)
    assert "1.64 times" in said[6]
    assert "3.17 times" in said[6]
    assert "undefined" not in " ".join(said)
    assert opened.said == []


def _step(number: int) -> dict[str, Any]:
    setting = {**START, **STEPS[number - 1].set}
    if "peak_times" in setting:
        setting["peak"] = setting.pop("peak_times") * rl.Device.load("h100-sxm").peak["bf16"]
    return setting


def test_what_can_be_saved(opened, models, tmp_path):
    """CSV, JSON, PNG and SVG of the setting that is shown."""
    opened.show(model="qwen3-8b", device="h100-sxm", sequences=64)
    ledger = rl.predict(models["qwen3-8b"], "h100-sxm", rl.Workload.decode(sequences=64))
    saved: dict[str, Path] = {}
    for kind in ("csv", "json", "png", "svg"):
        with opened.page.expect_download() as download:
            opened.page.locator(f"#save-{kind}").click()
        saved[kind] = tmp_path / f"x.{kind}"
        download.value.save_as(saved[kind])
        assert download.value.suggested_filename == f"roofline-qwen3-8b-h100-sxm.{kind}"
    record = json.loads(saved["json"].read_text("utf-8"))
    lines = saved["csv"].read_text("utf-8").splitlines()

    assert record["total"]["flops"] == ledger.total.flops
    assert record["verdict"] == verdict(ledger)
    assert len(record["kernels"]) == len(ledger)
    assert len(lines) == len(ledger) + 1
    assert lines[5].startswith(f'"{ledger.kernels[4].name}"')
    assert saved["png"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in saved["svg"].read_text("utf-8")
    assert opened.said == []


@pytest.mark.parametrize(
    "setting",
    [
        {"model": "qwen3-8b", "context": 8192, "phase": "decode"},
        {"model": "llama-3.1-70b", "context": 512, "phase": "decode", "times": "derated", "tp": 8},
        {"model": "qwen3-8b", "context": 0, "phase": "prefill"},
    ],
    ids=["decode", "derated", "prefill"],
)
def test_turns_are_those_of_crossovers(opened, models, setting):
    """Where verdicts turn is what `rl.crossovers` finds."""
    derated, ranks = setting.get("times") == "derated", setting.get("tp", 1)
    work = rl.Workload.prefill() if setting["phase"] == "prefill" else rl.Workload.decode(context=setting["context"])
    answer = rl.crossovers(
        models[setting["model"]], "h100-sxm", work, shard=rl.Shard(ranks), efficiency=(0.80, 0.75) if derated else None
    )
    axes = {"sequences": "sequences", "new tokens": "new_tokens", "context": "context"}
    opened.show(device="h100-sxm", **setting)
    opened.page.wait_for_selector("#turns:not([aria-busy]) tbody tr")
    rows = opened.page.evaluate(
        "[...document.querySelectorAll('#turns tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    shown = {(name, axes[axis]): said for name, axis, said in rows}
    assert {(each.name, each.axis) for each in answer.found} <= set(shown)
    for (name, axis), said in shown.items():
        found = [each for each in answer.found if (each.name, each.axis) == (name, axis)]
        if found:  # along the context the page asks more
            assert said == "; ".join(map(turn_text, found)), name
    tends = opened.page.locator("#tends").text_content()
    if answer.limit_intensity is None:
        assert tends == ""
    else:
        most, far = significant(answer.limit_tokens_per_second, 4), significant(answer.limit_intensity)
        assert tends == f"As the batch grows the pass tends to {most} tokens/s at {far} FLOP/byte."


def turn_text(each: Crossover) -> str:
    """A turn as the page writes it: beside a threshold in the words of the command line."""
    if each.kind in ("gain", "rate", "cost", "knee"):
        then = words.then(each)
        return f"{then} throughout" if each.value is None else f"{then} from {each.value:,}"
    return f"{each.before} throughout" if each.value is None else f"{each.before} to {each.after} at {each.value:,}"


def test_the_arithmetic_of_a_kernel(opened):
    """Each kernel's formula with its numbers."""
    opened.show(model="qwen3-8b", device="h100-sxm", sequences=64, arithmetic=True)
    sums = {row[0]: row[1] for row in opened.page.evaluate(SUMS)}

    assert (
        sums["qkv_proj"]
        .replace("\N{MULTIPLICATION SIGN}", "*")
        .startswith("2 * m * n * k = 36 * (2 * 64 * 6,144 * 4,096) = 116.0 GFLOP\nweights 1.812 GB + rest")
    )
    assert "KV 77.31 GB" in sums["attention"]


def test_the_file_is_small(file):
    """Three models and 88 devices in 0.7 MB."""
    assert file.stat().st_size < 750_000


def test_what_does_not_fit_goes_past_the_devices_end(opened):
    """The bar of what is held has a mark where the device ends: at 79.33 of 87.28 GiB; none where it fits."""
    mark = "[...document.querySelectorAll('#memory-bar b:not([hidden])')].map((each) => parseFloat(each.style.left))"
    opened.show(model="qwen3-8b", device="h100-sxm", sequences=64)
    assert opened.page.evaluate(mark) == [pytest.approx(100 * 79.33 / 87.28, abs=0.1)]
    opened.show(model="qwen3-8b", device="h100-sxm", sequences=1)
    assert opened.page.evaluate(mark) == []


def test_a_device_that_cannot_be_compared_with(opened):
    """One without the rate, or without a link between so many ranks, has no figures beside, and the page says why."""
    for setting, why in (
        ({"against": "v100-pcie"}, "NVIDIA V100 PCIe 16/32GB has no known bf16 peak to compare with."),
        ({"against": "gh200-96gb", "tp": 8}, "has no known link that joins 8 ranks to compare with."),
    ):
        opened.show(model="qwen3-8b", device="h100-sxm", **setting)
        assert opened.page.locator("#warnings").text_content().endswith(why)
        assert not opened.page.locator("#readouts .beside").first.is_visible()


def test_a_phone_shows_whole_steps_and_sums(browser, file):
    """On a phone the walk's title stands below the line that stays on top, and sums end at the screen's edge."""
    phone = Opened(browser, file, "arithmetic=1&sequences=64")
    phone.page.set_viewport_size(NARROW)
    place = "document.querySelector('{}').getBoundingClientRect()"
    for sums in phone.page.locator("#kernels td.sum > div").all()[:6]:
        box = sums.bounding_box()
        assert box["x"] + box["width"] <= NARROW["width"]
    phone.page.locator("#walk").click()
    phone.wait("document.activeElement.id === 'guide-next'")
    assert phone.page.evaluate(f"{place.format('#guide-place')}.top >= {place.format('#brief')}.bottom")
    phone.page.locator("#arithmetic").uncheck()
    phone.wait("!document.body.dataset.drawn.includes('arithmetic')")
    assert phone.page.locator("#kernels tbody tr").nth(1).locator("td").first.text_content() == "input_norm"
    phone.context.close()
