"""What a family fixes without a key in its config.json."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.parts.attention import HeadNorm


@dataclass(frozen=True, slots=True)
class Traits:
    """A decoder's traits; the defaults are Llama's.

    Norms: `norm_vectors` 0 neither, 1 scale (RMSNorm), 2 scale and bias (LayerNorm); `pre_norm` before and
    `post_norm` behind attention and MLP; `parallel`: both read the stream side by side, `shared_norm` the same
    normed rows; `embed_norm`: vectors of a norm behind the embedding.
    Attention: biases, `head_norm` of q and k, `rotary` share of a head or `rotary_dim` of its elements, `sinks`,
    `gate` ("element", "head"). `rotary_kinds`: kinds of layer that rotate, where not all do. `windowed`: a
    `sliding_window` counts although `use_sliding_window` is absent; `every`: of so many layers the last sees
    everything, where no key says it.
    `recurrent_every`: layers may be recurrent, and where no key says which, all but the last of so many are.
    `latent` and `experts`: whether the family has latent attention, and experts; None where its keys say.
    `dense_layers`: so many layers at the start have none, where no key says it.
    `shares`: layers may share a cache, and may have inputs of their own.
    `inner_norm`: a norm before the last matrix of attention and of the MLP.
    MLP: `gated`, `mlp_bias`, `act_vectors` numbers of a learned activation. Experts: `expert_bias`, `router_bias`,
    `correction` (a stored shift of the choice), `shared_gate`, `shared_experts` as many where no key counts them.
    `learned`: rows of the position table beyond max_positions, None without such a table.
    """

    norm_vectors: int = 1
    pre_norm: bool = True
    post_norm: bool = False
    parallel: bool = False
    shared_norm: bool = False
    final_norm: bool = True
    embed_norm: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    head_norm: HeadNorm | None = None
    rotary: float = 1.0
    rotary_dim: int | None = None
    rotary_kinds: tuple[str, ...] = ()
    sinks: bool = False
    gate: str = ""
    windowed: bool = True
    every: int | None = None
    recurrent_every: int | None = None
    gated: bool = True
    mlp_bias: bool = False
    act_vectors: int = 0
    inner_norm: bool = False
    latent: bool | None = False
    experts: bool | None = False
    dense_layers: int = 0
    shares: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    correction: bool = False
    shared_gate: bool = False
    shared_experts: int = 0
    head_bias: bool = False
    learned: int | None = None
    tied: bool = False
    intermediate: int | None = None
    head_dim: int | None = None


BIASED = Traits(qkv_bias=True, out_bias=True, mlp_bias=True)  # of every matrix but those of experts and head
