"""Findings: one generator a rule. A rule yields nothing without the figure that supports it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from roofline.diagnosis import sampled
from roofline.diagnosis.findings import Finding, ranked
from roofline.diagnosis.rules.scene import RULES, Scene
from roofline.units import NS_PER_S

_FAMILIES = ("kernels", "chains", "products", "host", "links")
_LEAST = 0.002  # of the window: what is at stake below it is not worth a line


def findings(scene: Scene) -> tuple[Finding, ...]:
    """What could be changed, the most seconds first. They overlap: seconds of two rules may be the same ones.

    Kernels that run at once are added up by their rules; more than the window, or than its steps where these are
    longer, is never at stake.
    """
    for family in _FAMILIES:
        import_module(f"roofline.diagnosis.rules.{family}")
    found = [each for rule in RULES.values() for each in rule(scene)]
    if scene.found.sampled is not None:
        found += sampled.findings(scene.found.sampled)
    worth = (each for each in found if each.at_stake is not None and each.at_stake >= _LEAST * scene.window)
    steps = () if scene.found.steps is None else scene.found.steps.steps
    most = max(scene.window, sum(each.host for each in steps) / NS_PER_S)
    return ranked(replace(each, at_stake=min(each.at_stake or 0.0, most)) for each in worth)
