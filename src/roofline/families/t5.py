"""T5 and those who took its layers: RMSNorm, learned shifts of scores by distance, no biases."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.attention import Limits
from roofline.parts.ends import Embedding, Norm
from roofline.parts.tower import Stage
from roofline.structure.encoder import architecture
from roofline.structure.pattern import SLIDING, attention_kinds
from roofline.structure.sides import MOST_LAYERS, Side, stack
from roofline.structure.traits import Traits
from roofline.structure.transducer import KEYS, Ends, Reads, encoder, transducer, vocabulary


@family("t5gemma", reads=KEYS)
def t5gemma(config: Config) -> Model:
    """T5Gemma: Gemma 2 on both sides, each with a table of its own."""
    near, far = _gemma(config, "encoder"), _gemma(config, "decoder")
    vocab = vocabulary(config)
    reads = Reads((Stage(1, encoder(vocab, near, Ends(), shared=False)),), _positions(config, "encoder"))
    tied = config.flag("tie_word_embeddings", True)
    decoder = replace(far, causal=True, cross=near.hidden)
    return transducer(config, reads, decoder, Ends(), _positions(config, "decoder"), tied)


def _positions(config: Config, name: str) -> int | None:
    return config.section(name).integer("max_positions", f"what the {name} was trained to", 0) or None


def _gemma(config: Config, name: str) -> Side:
    """One side, from the object that the file has for it."""
    own = config.section(name)
    layers = own.integer("layers", f"the layers of the {name}", most=MOST_LAYERS)
    heads, bias = own.integer("heads", f"the heads of the {name}"), own.flag("attention_bias", False)
    kinds = attention_kinds(own, layers, Traits(every=2))
    window = own.integer("window", "how far a query sees") if SLIDING in kinds else 0
    width = own.integer("head_dim", "the width of a head", 256)
    return Side(
        own.integer("hidden", f"the width of the {name}"),
        layers,
        heads,
        own.integer("intermediate", f"the width of the {name}'s MLP"),
        width,
        kv_heads=own.integer("kv_heads", "the KV heads", heads),
        norms=1,
        post_norm=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=False,
        gated=True,
        rotary=width,
        limits=tuple(Limits(window=window) if each == SLIDING else Limits() for each in kinds),
    )


@family("t5", "mt5", "umt5", reads=KEYS)
def t5(config: Config) -> Model:
    """T5, Flan-T5, mT5, UMT5: the shifts are of the first layer, of every layer in UMT5."""
    hidden = config.integer("hidden", "the width of every matrix")
    layers = config.integer("layers", "how many layers are counted", most=MOST_LAYERS)
    gate = str((config.find("feed_forward_proj") or ("", "relu"))[1]).split("-")
    if len(gate) > 2 or (len(gate) == 2 and gate[0] != "gated"):
        raise config.fail(f"feed_forward_proj is {'-'.join(gate)!r}. Possible: an activation, or gated- before it.")
    side = Side(
        hidden,
        layers,
        heads=config.integer("heads", "the attention heads"),
        intermediate=config.integer("d_ff", "the width of the MLP"),
        head_dim=config.integer("d_kv", "the width of a head"),
        norms=1,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        gated=len(gate) == 2,
        relative=config.integer("relative_attention_num_buckets", "the learned shifts of scores", 32),
        relative_every=config.model_type == "umt5",
    )
    vocab = vocabulary(config)
    if architecture(config).endswith("EncoderModel"):
        first, last = Embedding(vocab, side.axis), Norm("final_norm", side.axis, 1, 1)
        return Model("", (first,), stack(side), (last,), unit="token")
    tied = config.flag("tie_word_embeddings", True)
    if not tied:
        config.assume(
            "The file does not tie lm_head to the embedding: counted as two tables, as its checkpoint has them"
        )
    depth = config.integer("num_decoder_layers", "the layers of the decoder", layers, most=MOST_LAYERS)
    most = config.integer("n_positions", "what it was trained to", 0) or None
    reads = Reads((Stage(1, encoder(vocab, side, Ends(), shared=True)),), most)
    decoder = replace(side, layers=depth, causal=True, cross=hidden)
    return transducer(config, reads, decoder, Ends(), most, tied)
