"""Zamba: Mamba layers, and before some of them attention and an MLP whose weights are shared between them."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from roofline.config import Config
from roofline.families import family
from roofline.model import Block, Model
from roofline.parts.again import Again
from roofline.parts.attention import Attention
from roofline.parts.base import Part
from roofline.parts.ends import Embedding, Head, Norm, Projection
from roofline.parts.mlp import Mlp
from roofline.parts.recurrent import Recurrent
from roofline.shard import Axis
from roofline.structure.pattern import indices
from roofline.structure.recurrent import MOST_KERNEL, Mamba1, Mamba2, mamba1, mamba2, state_format
from roofline.structure.sides import MOST_LAYERS

Beside = Callable[[int], tuple[Part, ...]]

_KEYS = ("mamba_d_state", "mamba_expand", "mamba_n_heads", "attention_hidden_size", "hybrid_override_pattern")
_WORDS = {"mamba": False, "linear_attention": False, "m": False, "hybrid": True, "g": True}


@family("zamba", reads=_KEYS)
def zamba(config: Config) -> Model:
    """Zamba: Mamba 1 in heads; one shared block, which reads the embedding beside the stream."""
    hidden = _hidden(config)
    heads = config.integer("n_mamba_heads", "the heads of the recurrent layers", 2)
    wide = config.integer("mamba_expand", "how wide the recurrent layers are", 2) * hidden.size
    rank = -(-hidden.size // 16)
    if config.keys.get("mamba_dt_rank") not in (None, "auto"):
        rank = config.integer("mamba_dt_rank", "the rank of the step's matrix")
    if wide % heads:
        raise config.fail(f"a width of {wide} is not divisible by {heads} heads. Correct one of them.")
    sizes = Mamba1(
        wide,
        config.integer("mamba_d_state", "the width of the state"),
        rank,
        config.integer("mamba_d_conv", "the width of the convolution", most=MOST_KERNEL),
        config.flag("mamba_proj_bias", False),
        config.flag("mamba_conv_bias", True),
        groups=heads,
    )
    own = mamba1(config, hidden, sizes)
    shared = _shared(config, hidden, False, 0)
    return _model(config, hidden, own, (shared,), lambda _: ())


@family("zamba2", reads=_KEYS)
def zamba2(config: Config) -> Model:
    """Zamba 2: Mamba 2; shared blocks in turn, each with a low-rank change of its MLP for every layer it stands in."""
    hidden, bias = _hidden(config), config.flag("add_bias_linear", False)
    wide = config.integer("mamba_expand", "how wide the recurrent layers are", 2) * hidden.size
    heads = config.integer("n_mamba_heads", "the heads of the recurrent layers", 8)
    width = config.integer("mamba_headdim", "the width of their heads", wide // heads)
    if heads * width != wide:
        raise config.fail(f"{heads} heads of {width} are not the {wide} that mamba_expand says. Correct one of them.")
    sizes = Mamba2(
        heads,
        width,
        groups=config.integer("mamba_ngroups", "the groups of B and C", 1),
        state=config.integer("mamba_d_state", "the width of the state"),
        kernel=config.integer("mamba_d_conv", "the width of the convolution", most=MOST_KERNEL),
        chunk=config.integer("chunk_size", "how many tokens are scanned at once", 256),
        bias=bias,
        conv_bias=True,
        format=state_format(config, "mamba_ssm_cache_dtype"),
    )
    blocks = config.integer("num_mem_blocks", "the shared blocks", 1, most=MOST_LAYERS)
    rotated = config.flag("use_mem_rope", False)
    width = config.integer("attention_head_dim", "the width of a head", 2 * hidden.size // _heads(config))
    shared = tuple(_shared(config, hidden, bias, width if rotated else 0) for _ in range(blocks))
    return _model(config, hidden, mamba2(config, hidden, sizes), shared, lambda _: _adapters(config, hidden))


def _hidden(config: Config) -> Axis:
    return Axis("hidden", config.integer("hidden", "the width of every matrix"))


def _heads(config: Config) -> int:
    return config.integer("heads", "the attention heads")


def _shared(config: Config, hidden: Axis, bias: bool, rotary: int) -> tuple[Part, ...]:
    """Attention over the stream and the embedding side by side, and an MLP; no stream is added between them."""
    heads, both = _heads(config), Axis("both", 2 * hidden.size)
    if config.integer("kv_heads", "the KV heads", heads) != heads:
        raise config.fail("num_key_value_heads is not num_attention_heads, which is not counted yet. Correct it.")
    if both.size % heads:
        raise config.fail(f"a width of {both.size} is not divisible by {heads} attention heads. Correct one of them.")
    head_dim = config.integer("attention_head_dim", "the width of a head", both.size // heads)
    attention = Attention(
        both,
        Axis("heads", heads, head_dim),
        Axis("kv_heads", heads, head_dim, "replicate"),
        rotary_dim=rotary,
        out=hidden,
    )
    wide = Axis("intermediate", config.integer("intermediate", "the width of the MLP"))
    return (
        Norm("shared_norm", both, 0),
        attention,
        Norm("shared_mlp_norm", hidden, 0),
        Mlp(hidden, wide, True, bias),
    )


def _adapters(config: Config, hidden: Axis) -> tuple[Part, ...]:
    """The low-rank matrices beside the shared ones, of one layer."""
    low = Axis("rank", config.integer("adapter_rank", "the rank of the changes", 128))
    wide, both = config.integer("intermediate", "the width of the MLP"), Axis("both", 2 * hidden.size)
    pairs = [("mlp", hidden, Axis("intermediate", wide, 2))]
    if config.flag("use_shared_attention_adapter", False):
        pairs += [(name, both, Axis("heads", both.size)) for name in "qkv"]
    return tuple(
        part
        for name, inp, out in pairs
        for part in (
            Projection(f"{name}_adapter_down", low, inp, label="adapter"),
            Projection(f"{name}_adapter_up", out, low, label="adapter"),
        )
    )


def _hybrid(config: Config, layers: int) -> list[bool]:
    """Whether each layer has a shared block before it."""
    listed = config.keys.get("layers_block_type")
    if listed is not None:
        names = cast("list[object]", listed) if isinstance(listed, list) else []
        if len(names) != layers or any(each not in _WORDS for each in names):
            raise config.fail(f"layers_block_type is no list of {layers} entries. Possible: {', '.join(_WORDS)}.")
        return [_WORDS[cast(str, each)] for each in names]
    numbers = indices(config, "hybrid_layer_ids", layers)
    if numbers is not None:
        return [index in numbers for index in range(layers)]
    period = config.integer("attn_layer_period", "which layers have a shared block", 6)
    offset = config.integer("attn_layer_offset", "the first of them", 4, least=0)
    # The third layer has one; the period starts behind it.
    return [index == 2 or (index > 2 and (index - 3) % period == offset) for index in range(layers)]


def _model(config: Config, hidden: Axis, own: Recurrent, shared: tuple[tuple[Part, ...], ...], beside: Beside) -> Model:
    layers = config.integer("layers", "how many layers are counted", most=MOST_LAYERS)
    hybrid = _hybrid(config, layers)
    before = Norm("input_norm", hidden, 1), own
    plain = tuple(index for index, each in enumerate(hybrid) if not each)
    found = [Block(before, plain)] if plain else []
    joined = replace(before[0], name="hybrid_input_norm")
    for count, index in enumerate(index for index, each in enumerate(hybrid) if each):
        parts = shared[count % len(shared)]
        again = parts if count < len(shared) else tuple(Again(part) for part in parts)
        last = Projection("shared_linear", hidden, hidden, label="mlp")
        found.append(Block((*again, *beside(index), last, joined, own), (index,)))
    vocab = Axis("vocab", config.integer("vocab", "the embedding and the output head"), uneven="pad")
    head = Head(vocab, hidden, config.flag("tie_word_embeddings", True))
    ends = (Norm("final_norm", hidden, 1), head)
    positions = config.integer("max_positions", "what it was trained to", 0) or None
    return Model("", (Embedding(vocab, hidden),), _merged(found), ends, positions)


def _merged(blocks: list[Block]) -> tuple[Block, ...]:
    """Equal blocks as one."""
    found: dict[tuple[Part, ...], tuple[int, ...]] = {}
    for block in blocks:
        found[block.parts] = (*found.get(block.parts, ()), *block.layers)
    return tuple(Block(parts, layers) for parts, layers in found.items())
