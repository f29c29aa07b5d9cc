"""BERT and those who took its layers: every token sees every other, and nothing is decoded."""

from dataclasses import replace
from typing import NamedTuple

from roofline.config import Config
from roofline.families import family
from roofline.model import Block, Model
from roofline.parts.again import Again
from roofline.parts.attention import Limits
from roofline.parts.base import Part
from roofline.parts.ends import Activation, Embedding, Head, Norm, Pooled, Positions, Projection, Stored
from roofline.shard import Axis
from roofline.structure.encoder import answers
from roofline.structure.pattern import FULL, SLIDING, attention_kinds
from roofline.structure.sides import MOST_LAYERS, Side, stack, width_of_heads
from roofline.structure.traits import Traits
from roofline.structure.transducer import vocabulary

_KEYS = ("add_cross_attention", "is_decoder")


class _Bert(NamedTuple):
    """What a family fixes: norms before the blocks, a pooler in its bare model."""

    pre_norm: bool = False
    embed_norm: bool = True
    pooler: bool = True


_BERTS = {
    "electra": _Bert(pooler=False),
    "distilbert": _Bert(pooler=False),
    "megatron-bert": _Bert(pre_norm=True, embed_norm=False),
    "roberta-prelayernorm": _Bert(pre_norm=True),
    "xlm-roberta-xl": _Bert(pre_norm=True, embed_norm=False),
}


def _renamed(config: Config) -> Config:
    """DistilBERT's names of the same things."""
    new = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "hidden_dim": "intermediate_size"}
    return config.having({new.get(key, key): value for key, value in config.keys.items()})


@family(
    *("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "electra", "distilbert", "ernie"),
    *("megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl"),
    reads=_KEYS,
)
def bert(config: Config) -> Model:
    """BERT, RoBERTa, XLM-RoBERTa, CamemBERT, Data2Vec, ELECTRA, DistilBERT, ERNIE and Megatron-BERT."""
    kind = _BERTS.get(config.model_type, _Bert())
    config = _renamed(config) if config.model_type == "distilbert" else config
    if config.flag("is_decoder", False) or config.flag("add_cross_attention", False):
        raise config.fail("is_decoder says layers that see what is before them alone, which this family's do not here.")
    side = _side(config, kind.pre_norm)
    hidden, vocab = side.axis, vocabulary(config)
    # ELECTRA's class has 128 where its file is silent.
    unsaid = 128 if config.model_type == "electra" else side.hidden
    narrow = Axis("embedding", config.integer("embedding_size", "the width of the embedding", unsaid))
    width = hidden if narrow.size == side.hidden else narrow
    rows = config.integer("max_positions", "the learned positions")
    before: list[Part] = [Embedding(vocab, width, rows)]
    types = config.count("type_vocab_size") if config.model_type != "distilbert" else None
    if types:
        before.append(Positions(types, width, name="embed_types"))
    if config.flag("use_task_id", False):
        before.append(
            Positions(config.integer("task_type_vocab_size", "the table of tasks"), width, name="embed_tasks")
        )
    if kind.embed_norm:
        before.append(Norm("embed_norm", width, 0, 2))
    if width is narrow:
        before.append(Projection("embed_project", hidden, narrow, True))
    last = (Norm("final_norm", hidden, 1, 2),) if kind.pre_norm else ()
    head = (
        Projection("head_transform", width, hidden, True, "head"),
        Activation("head_act", width, "head"),
        Norm("head_norm", width, 0, 2, label="head"),
        *_words(config, vocab, width),
    )
    pooler = (Pooled("pooler", hidden, hidden, act=True),)
    after = answers(config, hidden, head, pooler, bare=pooler if kind.pooler else ())
    return Model("", tuple(before), stack(side), (*last, *after), rows, unit="token")


def _words(config: Config, vocab: Axis, width: Axis) -> tuple[Part, ...]:
    """The head over the vocabulary; one of its own has a bias beside that of the tied one, which stays."""
    head = Head(vocab, width, config.flag("tie_word_embeddings", True), bias=True, every=True)
    if head.tied or config.model_type in ("electra", "distilbert"):
        return (head,)
    return (head, Stored("tied_bias", vocab, "head"))


def _side(config: Config, pre_norm: bool) -> Side:
    hidden = config.integer("hidden", "the width of every matrix")
    heads = config.integer("heads", "the attention heads")
    return Side(
        hidden,
        config.integer("layers", "how many layers are counted", most=MOST_LAYERS),
        heads,
        config.integer("intermediate", "the width of the MLP"),
        width_of_heads(config, hidden, heads),
        pre_norm=pre_norm,
    )


@family("albert")
def albert(config: Config) -> Model:
    """ALBERT: one layer, gone through again and again; the table is narrower than the stream."""
    groups = config.integer("num_hidden_groups", "the layers that are stored", 1)
    if groups != 1 or config.integer("inner_group_num", "the layers of a group", 1) != 1:
        raise config.fail(f"num_hidden_groups {groups} is not counted yet: one layer that repeats is. Possible: 1.")
    side, vocab = _side(config, False), vocabulary(config)
    hidden, width = side.axis, Axis("embedding", config.integer("embedding_size", "the width of the embedding", 128))
    rows = config.integer("max_positions", "the learned positions")
    before = (
        Embedding(vocab, width, rows),
        Positions(config.integer("type_vocab_size", "the kinds of tokens", 2), width, name="embed_types"),
        Norm("embed_norm", width, 0, 2),
        Projection("embed_project", hidden, width, True),
    )
    (first,) = stack(replace(side, layers=1))
    again = Block(tuple(Again(part) for part in first.parts), tuple(range(1, side.layers)))
    head = (
        Projection("head_transform", width, hidden, True, "head"),
        Activation("head_act", width, "head"),
        Norm("head_norm", width, 0, 2, label="head"),
        *_words(config, vocab, width),
    )
    pooler = (Pooled("pooler", hidden, hidden, act=True),)
    after = answers(config, hidden, head, pooler, bare=pooler)
    return Model("", before, (first, again) if again.layers else (first,), after, rows, unit="token")


@family("modernbert", "modernbert-decoder")
def modernbert(config: Config) -> Model:
    """ModernBERT: gated MLP, rotary positions; all but every third layer see a window, on either side or before."""
    side = replace(_side(config, True), causal=config.model_type == "modernbert-decoder")
    bias = config.flag("attention_bias", False)
    norms = 1 + config.flag("norm_bias", False)
    window = config.integer("local_attention", "how far a query sees", 128) // 2
    every = config.integer("global_attn_every_n_layers", "which layers see everything", 3)
    listed = config.find("layer_types") is not None
    kinds = attention_kinds(config, side.layers, Traits()) if listed else None
    full = kinds or [FULL if index % every == 0 else SLIDING for index in range(side.layers)]
    side = replace(
        side,
        norms=norms,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.flag("mlp_bias", False),
        gated=True,
        rotary=side.head_dim,
        limits=tuple(Limits() if each == FULL else Limits(window=window) for each in full),
        unnormed_first=True,
    )
    hidden, vocab = side.axis, vocabulary(config)
    before = (Embedding(vocab, hidden), Norm("embed_norm", hidden, 0, norms))
    dense = (
        Projection("head_transform", hidden, hidden, config.flag("classifier_bias", False), "head"),
        Activation("head_act", hidden, "head"),
        Norm("head_norm", hidden, 0, norms, label="head"),
    )
    tied, biased = config.flag("tie_word_embeddings", True), config.flag("decoder_bias", True)
    head = (*dense, Head(vocab, hidden, tied, biased, every=not side.causal))
    after = head if side.causal else answers(config, hidden, head, dense)
    positions = config.integer("max_positions", "what it was trained to", 0) or None
    unit = "" if side.causal else "token"
    return Model("", before, stack(side), (Norm("final_norm", hidden, 1, norms), *after), positions, unit=unit)


@family("eurobert")
def eurobert(config: Config) -> Model:
    """EuroBERT: Llama's layers without a mask."""
    side, bias = _side(config, True), config.flag("attention_bias", False)
    width = config.integer("head_dim", "the width of a head", side.head_dim)
    side = replace(
        side,
        head_dim=width,
        kv_heads=config.integer("kv_heads", "the KV heads", side.heads),
        norms=1,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=config.flag("mlp_bias", False),
        gated=True,
        rotary=width,
    )
    hidden, vocab = side.axis, vocabulary(config)
    head = (Head(vocab, hidden, config.flag("tie_word_embeddings", False), every=True),)
    after = (Norm("final_norm", hidden, 1, 1), *answers(config, hidden, head, ()))
    positions = config.integer("max_positions", "what it was trained to", 0) or None
    return Model("", (Embedding(vocab, hidden),), stack(side), after, positions, unit="token")
