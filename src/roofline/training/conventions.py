"""FLOPs of a token of training, under every convention that papers count by, and the utilisation they give.

MFU (model FLOPs utilisation) counts what a forward and a backward pass need; HFU (hardware FLOPs utilisation) also
what is run again. N parameters, L layers, H heads of Q, T tokens a sequence, V vocabulary, h width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from roofline.errors import BadValue, RooflineError, UnknownName
from roofline.model import Model
from roofline.num import Num
from roofline.pairs import attended
from roofline.parts.ends import Bulk
from roofline.shard import Shard
from roofline.training.recipe import Recipe, Recompute
from roofline.training.step import FORWARD, Row, flops, micro_batch, rows
from roofline.workload import Workload

MFU, HFU = "mfu", "hfu"


@dataclass(frozen=True, slots=True)
class Subject:
    """What the conventions count with.

    `parameters` that a token goes through, `total` stored, `tables` of them looked up; `width` is LHQ, the
    heads' elements of all layers together (None: unknown); `sequence` T; `shape` a 4h-wide decoder's (L, h, V);
    `needed` and `executed` are FLOPs a token of the ledger, None where there is no model to count.
    """

    parameters: Num
    total: Num
    tables: Num | None = None
    width: Num | None = None
    sequence: Num | None = None
    trainable: float = 1.0
    recompute: Recompute | None = None
    shape: tuple[int, int, int] | None = None
    needed: Num | None = None
    unmasked: Num | None = None
    executed: Num | None = None
    unknown: str = ""


# Of parameters without a shape, as 7B, or a Subject of N alone.
NO_HEADS = "give --params with --layers, --heads and --head-dim, or a MODEL with layers"


class Lacking(RooflineError):
    """A convention needs what is not known; the message names it."""


@dataclass(frozen=True, slots=True)
class Convention:
    """One way to count: its name, kind, formula, source, what it excludes, and the function."""

    name: str
    kind: str
    formula: str
    source: str
    excludes: str
    count: Callable[[Subject], Num]


CONVENTIONS: dict[str, Convention] = {}
_Count = Callable[[Subject], Num]


def convention(name: str, kind: str, formula: str, source: str, excludes: str) -> Callable[[_Count], _Count]:
    """Register a way to count; a second registration is refused."""

    def register(function: _Count) -> _Count:
        if name in CONVENTIONS:
            raise RooflineError(f"The convention {name!r} is registered twice.")
        CONVENTIONS[name] = Convention(name, kind, formula, source, excludes, function)
        return function

    return register


def _attention(subject: Subject) -> Num:
    """LHQT: one q·Kᵀ or p·V over the full square is 2 of these a token [FLOP/2]."""
    if subject.width is None:
        raise Lacking(subject.unknown or "heads and their width are not known")
    if subject.sequence is None:
        raise Lacking("the sequence length is not given (--sequence)")
    return subject.width * subject.sequence


def _passes(subject: Subject) -> float:
    """FLOPs a parameter and token: 2 forward, 2 for the gradient of the input, 2 of what is trained."""
    return 6 if subject.trainable == 1 else 4 + 2 * subject.trainable


_PALM = "Chowdhery et al. 2022 (PaLM), appendix B"
_KORTHIKANTI = "Korthikanti et al. 2022, appendix A"
_MEGATRON = "Narayanan et al. 2021 (Megatron-LM), section 5.1"


@convention("6n", MFU, "6N", "Kaplan et al. 2020; Hoffmann et al. 2022", "attention scores; counts look-up tables")
def _6n(subject: Subject) -> Num:
    return _passes(subject) * subject.parameters


@convention(
    "6n-total", MFU, "6N of all experts", "a mistake for mixtures of experts", "nothing: counts experts not used"
)
def _6n_total(subject: Subject) -> Num:
    return _passes(subject) * subject.total


@convention(
    "6n-no-embedding", MFU, "6(N - tables)", "Kaplan et al. 2020, section 2.1", "attention scores, embedding, lm_head"
)
def _6n_no_embedding(subject: Subject) -> Num:
    if subject.tables is None:
        raise Lacking("the size of the embedding is not known: give a MODEL with layers")
    return _passes(subject) * (subject.parameters - subject.tables)


@convention("palm", MFU, "6N + 12LHQT", _PALM, "recomputation, the causal mask")
def _palm(subject: Subject) -> Num:
    return _passes(subject) * subject.parameters + 12 * _attention(subject)


@convention("palm-causal", MFU, "6N + 6LHQT", f"{_PALM}, with half the square", "recomputation, masked scores")
def _palm_causal(subject: Subject) -> Num:
    return _passes(subject) * subject.parameters + 6 * _attention(subject)


def _decoder(subject: Subject, layers: int, scores: int) -> Num:
    if subject.shape is None:
        raise Lacking("layers, width and vocabulary of one kind of layer are not known")
    if subject.sequence is None:
        raise Lacking("the sequence length is not given (--sequence)")
    count, hidden, vocab = subject.shape
    return layers * count * hidden**2 + scores * count * hidden * subject.sequence + 6 * hidden * vocab


@convention(
    "megatron", MFU, "72Lh² + 12LhT + 6hV", _KORTHIKANTI, "recomputation, the mask; any MLP but a plain one of 4h, GQA"
)
def _megatron(subject: Subject) -> Num:
    return _decoder(subject, 72, 12)


@convention(
    "exact", MFU, "the ledger: GEMMs and attention", "every kernel of this model", "recomputation, masked scores"
)
def _exact(subject: Subject) -> Num:
    return _of_ledger(subject, subject.needed)


@convention(
    "exact-unmasked", MFU, "the ledger, full square", "as PyTorch's FlopCounterMode counts", "recomputation, the mask"
)
def _exact_unmasked(subject: Subject) -> Num:
    return _of_ledger(subject, subject.unmasked)


def _of_ledger(subject: Subject, counted: Num | None) -> Num:
    if counted is None:
        raise Lacking("the ledger needs a MODEL with layers and its sequences' length (--sequence)")
    return counted


@convention("hfu-full-6n", HFU, "8N", "Korthikanti et al. 2022, section 5: a forward pass more", "attention scores")
def _hfu_full_6n(subject: Subject) -> Num:
    return (_passes(subject) + 2) * subject.parameters


@convention("hfu-full", HFU, "8N + 16LHQT", f"{_PALM}; 4/3 of MFU, as llm-foundry", "the causal mask")
def _hfu_full(subject: Subject) -> Num:
    return (_passes(subject) + 2) * subject.parameters + 16 * _attention(subject)


@convention("hfu-selective", HFU, "6N + 24LHQT", f"{_KORTHIKANTI}: 72BLsh²(1 + s/3h + V/12Lh)", "the causal mask")
def _hfu_selective(subject: Subject) -> Num:
    return _passes(subject) * subject.parameters + 24 * _attention(subject)


@convention("hfu-selective-forward", HFU, "6N + 16LHQT", "the attention core run once more, counted", "the causal mask")
def _hfu_selective_forward(subject: Subject) -> Num:
    return _passes(subject) * subject.parameters + 16 * _attention(subject)


@convention(
    "hfu-megatron", HFU, "96Lh² + 16LhT + 6hV", _MEGATRON, "the causal mask; any MLP but a plain one of 4h, GQA"
)
def _hfu_megatron(subject: Subject) -> Num:
    return _decoder(subject, 96, 16)


@convention(
    "hfu-recompute", HFU, "6N + 12LHQT + what was run again", f"{_PALM}: 75 % of a forward pass", "the causal mask"
)
def _hfu_recompute(subject: Subject) -> Num:
    if subject.recompute is None:
        raise Lacking("what was recomputed is not given (--recompute)")
    layers, core = subject.recompute.layers, subject.recompute.core
    plain = (_passes(subject) + 2 * layers) * subject.parameters
    if subject.width is None and not core:
        raise Lacking(subject.unknown or "heads and their width are not known")
    return plain + (12 + 4 * layers + 4 * core) * _attention(subject)


@convention(
    "hfu-exact", HFU, "the ledger, all that is run", "this model; FlashAttention's backward of 5 GEMMs", "masked scores"
)
def _hfu_exact(subject: Subject) -> Num:
    if subject.recompute is None:
        raise Lacking("what was recomputed is not given (--recompute)")
    return _of_ledger(subject, subject.executed)


class Utilisation(NamedTuple):
    """A convention's count and share: FLOPs a token, share of the peak; both None where `unknown` says why."""

    convention: Convention
    flops_per_token: Num | None
    value: Num | None
    unknown: str = ""


def counted(subject: Subject, rate: float | None, peak: float) -> tuple[Utilisation, ...]:
    """Every convention's FLOPs a token and share of `peak` [FLOP/s] at `rate` tokens a second of one device."""
    found: list[Utilisation] = []
    for each in CONVENTIONS.values():
        if each.name == "6n-total" and subject.total == subject.parameters:
            continue
        try:
            count = each.count(subject)
        except Lacking as error:
            found.append(Utilisation(each, None, None, str(error)))
            continue
        found.append(Utilisation(each, count, None if rate is None else count * rate / peak))
    return tuple(found)


def subject_of(
    model: Model, sequence: int | None, recipe: Recipe | None = None, recompute: Recompute | None = None
) -> Subject:
    """What the conventions count with, of a model whose sequences are `sequence` tokens long."""
    recipe = Recipe() if recipe is None else recipe
    check_frozen(model, recipe)
    counts = model.parameters()
    probe = rows(model, Workload.prefill(1, 2, 0, "all"), Recipe(recipe.precision), Shard())
    width = _width(probe, recipe.precision.compute)
    sized = any(isinstance(part, Bulk) for _, part in model.repeats)
    tables = None if sized else _tables(model)
    needed = unmasked = executed = None
    if sequence is not None and not sized:
        needed, unmasked, executed = (_per_token(model, sequence, each) for each in _countings(recipe, recompute))
    return Subject(
        parameters=counts.active,
        total=counts.total,
        tables=tables,
        width=width or None,
        sequence=sequence,
        trainable=_trainable(model, recipe),
        recompute=recompute,
        shape=_shape(model),
        needed=needed,
        unmasked=unmasked,
        executed=executed,
        unknown="" if width else NO_HEADS if sized else f"{model.name} has no attention that is counted",
    )


def _countings(recipe: Recipe, recompute: Recompute | None) -> tuple[Recipe, Recipe, Recipe]:
    """Recipes that count what is needed, the same without a mask, and what is run."""
    from dataclasses import replace

    needed = replace(recipe, recompute=Recompute(), flash=False)
    return needed, replace(needed, causal=False), replace(recipe, recompute=recompute or Recompute())


def _per_token(model: Model, sequence: int, recipe: Recipe) -> Num:
    """FLOPs a token of a step at the compute rate: GEMMs and attention, no small kernels."""
    whole = flops(rows(model, micro_batch(1, sequence, recipe), recipe, Shard()), recipe.precision.compute)
    return whole // sequence if isinstance(whole, int) and whole % sequence == 0 else whole / sequence


def _width(probe: list[Row], rate: str) -> Num:
    """LHQ, from the attention of two tokens: 4 FLOP for each of its elements and of the three pairs."""
    attention = [row for row in probe if row.work.op == "attention"]
    return flops(attention, rate, FORWARD) // (4 * attended(2, 0))  # pyright: ignore[reportOperatorIssue]


def _tables(model: Model) -> int:
    """Parameters of embeddings and of an untied head."""
    return sum(
        each.parameters
        for count, part in model.repeats
        for each in part.weights()
        for _ in range(count)
        if each.kind in ("table", "positions") or each.name == "lm_head"
    )


def _shape(model: Model) -> tuple[int, int, int] | None:
    """Layers, width and vocabulary, where there is a token table."""
    for _, part in model.repeats:
        for each in part.weights():
            if each.kind == "table" and each.inp is not None:
                return model.layers, each.inp.elements, each.out.elements
    return None


def check_causal(model: Model) -> None:
    """Refuse a model that does not read one sequence from its start to its end; raises BadValue."""
    if model.encoder is not None or model.unit:
        sort = "an encoder and a decoder, which read" if model.encoder is not None else "an encoder, which reads"
        raise BadValue(
            f"{model.name} is {sort} whole sequences: its training is not counted yet. Possible: a model of a decoder "
            "alone, or a prefill pass of this one (roofline predict)."
        )


def check_frozen(model: Model, recipe: Recipe) -> None:
    """Refuse a frozen part that the model does not have; raises UnknownName."""
    known = {part.label for _, part in model.repeats}
    for name in recipe.frozen - known - {"all"}:
        raise UnknownName.of("part to freeze", name, {*known, "all"})


def _trainable(model: Model, recipe: Recipe) -> float:
    """The share of the parameters whose weights get a gradient; 1 where nothing is frozen."""
    if not recipe.frozen and not recipe.lora:
        return 1.0
    total = trained = 0
    for count, part in model.repeats:
        size = count * sum(each.parameters for each in part.weights())
        total += size
        trained += 0 if recipe.freezes(part.label) else size
    return trained / total
