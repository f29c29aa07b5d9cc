"""Kinds of kernel as a picture tells them apart: a title, a colour and a shape each, colour-blind safe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """What a kind of kernel is called, and how it looks on a light and on a dark ground."""

    title: str
    light: str
    dark: str
    shape: str


# Hues after Okabe and Ito (2008), at least 3:1 against their ground; the shape says it again.
KINDS: Mapping[str, Kind] = {
    "gemm": Kind("GEMM", "#0072b2", "#56a8e8", "circle"),
    "attention": Kind("attention", "#d55e00", "#ff8a4c", "square"),
    "small": Kind("elementwise", "#00865f", "#2ec4a0", "diamond"),
    "moe": Kind("experts", "#b0528c", "#e3a3c7", "triangle-down"),
    "convolution": Kind("convolution", "#2a86bf", "#8fd3ff", "triangle-up"),
    "communication": Kind("communication", "#9a6a00", "#e6b422", "cross"),
    "copy": Kind("copy", "#6e7781", "#9aa3ad", "triangle-right"),
    "other": Kind("other", "#424a53", "#c9d1d9", "triangle-left"),
}

# Operations of a prediction and categories of a measurement alike.
_KIND_OF: Mapping[str, str] = {
    "linear": "gemm",
    "gemm": "gemm",
    "attention": "attention",
    "attention-math": "attention",
    **dict.fromkeys(
        ("norm", "activation", "rope", "elementwise", "softmax", "normalisation", "reduction", "optimiser"), "small"
    ),
    "moe": "moe",
    "conv": "convolution",
    "short-conv": "convolution",
    "convolution": "convolution",
    "scan": "convolution",
    **dict.fromkeys(
        ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send", "communication"),
        "communication",
    ),
    "embedding": "copy",
    "copy": "copy",
}


def kind_of(op: str) -> str:
    """The kind of an operation or a category; what is not known is other."""
    return _KIND_OF.get(op, "other")
