"""A kernel's category from its name, by the ordered rules of data/kernels.toml; names for people."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

# The categories of a breakdown, in the order in which time is attributed where several run at once: what a
# computation hides is not lost, so communication and copies count only where nothing is computed.
CATEGORIES = (
    "gemm",
    "attention",
    "convolution",
    "moe",
    "normalisation",
    "embedding",
    "reduction",
    "elementwise",
    "optimiser",
    "other",
    "communication",
    "copy",
)
COMPUTE = CATEGORIES[:10]
_LOOKED_AT = 240  # characters of a name: what stands further behind are arguments of arguments
_TAIL = re.compile(r"[A-Za-z]*\Z")  # half a word at the cut would read as another one
_LETTERS = re.compile(r"[a-z]+")

# Category, words, tokens, patterns, and what a name holds at the least where a pattern fits.
Rule = tuple[str, tuple[str, ...], frozenset[str], "re.Pattern[str] | None", tuple[str, ...]]


@cache
def _rules() -> Mapping[str, tuple[Rule, ...]]:
    text = (files("roofline") / "data" / "kernels.toml").read_text("utf-8")
    parsed: dict[str, list[dict[str, Any]]] = tomllib.loads(text)
    return {kind: tuple(map(_rule, rules)) for kind, rules in parsed.items()}


def _rule(entry: Mapping[str, Any]) -> Rule:
    patterns = entry.get("patterns")
    return (
        entry["category"],
        tuple(entry.get("words", ())),
        frozenset(entry.get("tokens", ())),
        re.compile("|".join(patterns)) if patterns else None,
        tuple(entry.get("near", ("",))),
    )


def _first(kind: str, name: str) -> str:
    text = (_TAIL.sub("", name[:_LOOKED_AT]) if len(name) > _LOOKED_AT else name).lower()
    letters = frozenset(_LETTERS.findall(text))
    for found, words, tokens, pattern, near in _rules()[kind]:
        if any(map(text.__contains__, words)) or not tokens.isdisjoint(letters):
            return found
        if pattern is not None and any(map(text.__contains__, near)) and pattern.search(text):
            return found
    return "other"


@lru_cache(1 << 16)
def category(name: str, operator: str = "") -> str:
    """The category of a kernel by its name; where that says nothing, by the operator that launched it.

    What a function calls itself stands above what its template's arguments are called; only of frames, which run what
    they are given, do the arguments tell more.
    """
    whole = "::".join(_words(name)) if name.startswith("_Z") else name
    own = "::".join(_words(name, nested=False)) if name.startswith("_Z") else _own(name)
    found = "other" if _FRAMES.search(own) else _first("rule", own)
    if found == "other":
        found = _first("rule", whole)
    return _first("operator", operator) if found == "other" and operator else found


_FRAMES = re.compile(
    r"(?<!\w)(?:(?:vectorized_|unrolled_|templated_|legacy_|_)*elem(?:ent)?wise_kernel|reduce_kernel|device_kernel"
    r"|multi_tensor_apply_kernel|kernelPointwiseApply|_?kernel_agent|static_kernel|kentry|kernel|entry|run)\w*\Z",
    re.IGNORECASE,
)


def _own(name: str) -> str:
    """A function's own name with its namespaces: what stands before the arguments of the template and the call."""
    return re.split(r"[<(\[{]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0]


_NAMESPACES = re.compile(
    r"\(anonymous namespace\)::|(?<![\w:])(?:(?:at|native|c10|cuda|detail|std|internal|impl)::)+(?=\w)"
)
_LEADS = re.compile(r"^(?:void|__global__|static|inline)\s+")


@lru_cache(1 << 16)
def readable(name: str) -> str:
    """A kernel's name as people write it: demangled, without return type, arguments and the commonest namespaces."""
    text = _demangled(name)
    text = _LEADS.sub("", text)
    text = " ".join(_NAMESPACES.sub("", _without_arguments(text)).split()) or name
    if frame := _FRAME.match(text):
        inner = next((each for each in _INNER.finditer(text, frame.end()) if each[1] not in _GENERIC), None)
        if inner is not None:
            return f"{inner[1]}{inner[2] or ''} in {frame[1]}"
    return text


# PyTorch's frames for kernels of one kind: what tells them apart is the function that they are made of.
_FRAME = re.compile(r"((?:\w+::)*\w*(?:elementwise_kernel|reduce_kernel|multi_tensor_apply_kernel)\w*)<")
_INNER = re.compile(r"\b(\w*(?:[fF]unctor|_kernel_cuda|_kernel_impl|_kernel|Ops?|_gpu|_cuda)\w*)(<[\w:, ]*>)?")
_GENERIC = {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "ReduceOp"}


def _demangled(name: str) -> str:
    if not name.startswith("_Z"):
        return name
    import itanium_demangler  # pyright: ignore[reportMissingTypeStubs]

    try:
        tree = cast(Any, itanium_demangler).parse(name.split(".", 1)[0]) if len(name) < _MANGLED else None
    except (NotImplementedError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        tree = None
    if tree is not None:
        return str(tree)
    return "::".join([each for each in _words(name) if _WORD.match(each)][:4]) or name


_MANGLED = 2000  # characters of a mangled name that is taken apart whole
_WORD = re.compile(r"[A-Za-z]\w{2,}\Z")
_LENGTH = re.compile(r"(?<!DF)(?<!L[a-z])(?<!\d)(\d{1,3})(?=[A-Za-z_])")  # not of a literal or of DF16


_ENDS = "IEPRvijlmbfdhtxyS"  # what follows a function's own name: its template's arguments, or those of the call


def _words(name: str, *, nested: bool = True) -> list[str]:
    """The identifiers of a mangled name: each stands after its length; without `nested`, the function's own only."""
    found: list[str] = []
    at = 0
    while match := _LENGTH.search(name, at):
        at = match.end() + int(match[1])
        word = name[match.end() : at]
        if word != "_GLOBAL__N_1":
            found.append(word)
        if not nested and name[at : at + 1] in _ENDS:
            break
    return found


_ROUND = re.compile(r"[()]")


def _without_arguments(text: str) -> str:
    """`text` without what stands in its last round brackets at the end, the arguments of the function."""
    if not text.endswith(")"):
        return text
    depth = 0
    for bracket in reversed(list(_ROUND.finditer(text))):
        depth += 1 if bracket[0] == ")" else -1
        if depth == 0:
            return text[: bracket.start()] or text
    return text
