"""DeepSeek V4: compressed attention, residual streams that are mixed, experts of which some are chosen by hash."""

from dataclasses import replace

from roofline.config import Config
from roofline.families import family
from roofline.model import Model
from roofline.parts.base import Part
from roofline.parts.compressed import HyperConnection
from roofline.parts.ends import Norm
from roofline.shard import Axis
from roofline.structure import blocks, compressed
from roofline.structure.decoder import decoder
from roofline.structure.pattern import Kind
from roofline.structure.traits import Traits


@family("deepseek_v4")
def deepseek_v4(config: Config) -> Model:
    """V4: which layer compresses by how much is a list; of the lesser compression an indexer chooses."""
    config.assume("Positions of a stretch that is not yet compressed are cached too, beside the window: not counted")
    model = decoder(config, Traits(experts=True), layer=_layer, pattern=compressed.kinds)
    hidden = Axis("hidden", config.integer("hidden", "the width of every matrix"))
    _, head = model.after
    joined = HyperConnection("hyper_head", hidden, _streams(config), head=True)
    return replace(model, after=(joined, Norm("final_norm", hidden, 0), head))


def _streams(config: Config) -> int:
    return config.integer("hc_mult", "the residual streams")


def _layer(config: Config, traits: Traits, hidden: Axis, kind: Kind) -> tuple[Part, ...]:
    streams = _streams(config)
    return (
        HyperConnection("hyper_attention", hidden, streams),
        Norm("input_norm", hidden, 0),
        compressed.attention(config, hidden, kind),
        HyperConnection("hyper_mlp", hidden, streams),
        Norm("mlp_norm", hidden, 0),
        blocks.experts(config, traits, hidden),
    )
