"""T5 and those who took its layers: RMSNorm, learned shifts of scores by distance, no biases."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.ends import Embedding, Norm
from roofline.parts.tower import Stage
from roofline.structure.encoder import architecture
from roofline.structure.sides import MOST_LAYERS, Side, stack
from roofline.structure.transducer import KEYS, Ends, Reads, encoder, transducer, vocabulary


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
