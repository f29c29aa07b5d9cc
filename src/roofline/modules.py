"""Names of a checkpoint's modules: what our weights are called there, and whether a list of names means them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate

from roofline.errors import ConfigError, shown

_PREFIXES = ("model", "model.language_model", "language_model.model", "backbone", "transformer")
_ATTENTION, _MLP = ("self_attn", "attention", "attn", "mixer"), ("mlp", "mixer", "feed_forward", "block_sparse_moe")
_MIXERS = ("linear_attn", "mixer", "mamba")
_EXPERTS = tuple(f"{each}.experts" for each in _MLP)

# Weight of ours -> where it may be and what it may be called there; "*" of an expert is its number.
_CALLED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{name: (_ATTENTION, (name, "qkv_proj")) for name in ("q_proj", "k_proj", "v_proj")},
    "o_proj": (_ATTENTION, ("o_proj",)),
    **{name: (_ATTENTION, (name,)) for name in ("q_a_proj", "q_b_proj", "kv_b_proj", "o_a_proj", "o_b_proj")},
    "kv_a_proj": (_ATTENTION, ("kv_a_proj_with_mqa", "kv_a_proj")),
    "kv_proj": (_ATTENTION, ("kv_proj",)),
    "indexer_q_proj": (_ATTENTION, ("indexer.wq_b",)),
    "indexer_k_proj": (_ATTENTION, ("indexer.wk",)),
    "indexer_weights_proj": (_ATTENTION, ("indexer.weights_proj",)),
    "gate_proj": (_MLP, ("gate_proj", "gate_up_proj", "w1")),
    "up_proj": (_MLP, ("up_proj", "gate_up_proj", "w3", "fc1")),
    "down_proj": (_MLP, ("down_proj", "w2", "fc2")),
    "experts_gate_proj": (_EXPERTS, ("0.gate_proj", "0.w1", "gate_up_proj", "0.gate_up_proj")),
    "experts_up_proj": (_EXPERTS, ("0.up_proj", "0.w3", "gate_up_proj", "up_proj", "0.gate_up_proj")),
    "experts_down_proj": (_EXPERTS, ("0.down_proj", "0.w2", "down_proj")),
    **{
        f"shared_{name}": (
            tuple(f"{each}.{shared}" for each in _MLP for shared in ("shared_experts", "shared_expert")),
            (name, "gate_up_proj") if name != "down_proj" else (name,),
        )
        for name in ("gate_proj", "up_proj", "down_proj")
    },
    "router": (_MLP, ("gate", "router")),
    "shared_gate": (_MLP, ("shared_expert_gate",)),
    "latent_down": (_MLP, ("fc1_latent_proj",)),
    "latent_up": (_MLP, ("fc2_latent_proj",)),
    **{f"in_proj_{each}": (_MIXERS, ("in_proj_qkvz", "in_proj_qkv")) for each in "qkv"},
    "in_proj_z": (_MIXERS, ("in_proj_qkvz", "in_proj_z", "in_proj")),
    **{f"in_proj_{each}": (_MIXERS, ("in_proj_ba", f"in_proj_{each}")) for each in "ab"},
    **{f"in_proj_{each}": (_MIXERS, ("in_proj",)) for each in ("x", "B", "C", "dt")},
    "out_proj": (_MIXERS, ("out_proj",)),
}
# The same in a GGUF file, where a layer has no modules; " + " joins tensors that are one matrix of ours.
_GGUF: dict[str, tuple[str, ...]] = {
    **{f"{each}_proj": (f"attn_{each}", "attn_qkv") for each in "qkv"},
    "o_proj": ("attn_output",),
    "q_a_proj": ("attn_q_a",),
    "q_b_proj": ("attn_q_b",),
    "kv_a_proj": ("attn_kv_a_mqa",),
    "kv_b_proj": ("attn_kv_b", "attn_k_b + attn_v_b"),
    "indexer_q_proj": ("indexer.attn_q_b",),
    "indexer_k_proj": ("indexer.attn_k",),
    "indexer_weights_proj": ("indexer.proj",),
    "gate_proj": ("ffn_gate", "ffn_up"),
    "up_proj": ("ffn_up",),
    "down_proj": ("ffn_down",),
    **{f"experts_{each}_proj": (f"ffn_{each}_exps", "ffn_gate_up_exps") for each in ("gate", "up")},
    "experts_down_proj": ("ffn_down_exps",),
    **{f"shared_{each}_proj": (f"ffn_{each}_shexp",) for each in ("gate", "up", "down")},
    "router": ("ffn_gate_inp",),
    "shared_gate": ("ffn_gate_inp_shexp",),
    "latent_down": ("ffn_latent_down",),
    "latent_up": ("ffn_latent_up",),
    **{f"in_proj_{each}": ("attn_qkv", "ssm_in") for each in "qkv"},
    "in_proj_z": ("attn_gate", "ssm_in"),
    **{f"in_proj_{each}": (f"ssm_{'alpha' if each == 'a' else 'beta'}", "ssm_ba") for each in "ab"},
    **{f"in_proj_{each}": ("ssm_in",) for each in ("x", "B", "C", "dt")},
    "out_proj": ("ssm_out",),
}
# What single families call theirs, which no list of a quantised checkpoint names.
_ELSEWHERE: dict[str, tuple[str, ...]] = {
    **{
        f"{each}_proj": (
            *("attn.c_attn", "self_attention.query_key_value", "attention.query_key_value"),
            *("self_attn.query_key_value", "attn.Wqkv", f"attn.attention.{each}_proj", f"attention.w{each}"),
            *("attention.wqkv", "self_attn.W_pack"),
        )
        for each in "qkv"
    },
    "o_proj": (
        *("attn.c_proj", "self_attention.dense", "attention.dense", "self_attn.dense", "self_attn.out_proj"),
        *("attn.out_proj", "attn.attention.out_proj", "attention.wo"),
    ),
    **{
        f"{prefix}{each}_proj": ("shared_mlp.input_linear", f"mlp.shared_mlp.{each}_proj", "mlp.dense_h_to_4h")
        for prefix in ("", "shared_")
        for each in ("gate", "up")
    },
    "up_proj": (
        *("mlp.c_fc", "mlp.dense_h_to_4h", "mlp.fc1", "fc1", "mlp.fc_in", "ffn.up_proj"),
        "shared_mlp.input_linear",
    ),
    "down_proj": (
        *("mlp.c_proj", "mlp.dense_4h_to_h", "mlp.fc2", "fc2", "mlp.fc_out", "ffn.down_proj"),
        "shared_mlp.output_linear",
    ),
    "shared_down_proj": ("shared_mlp.output_linear", "mlp.shared_mlp.down_proj"),
    "router": ("mlp.router.gate", "mlp.gate.wg", "router.proj", "block_sparse_moe.router.layer"),
    **{f"experts_{each}_proj": ("experts.gate_up_proj", "block_sparse_moe.input_linear") for each in ("gate", "up")},
    "experts_down_proj": ("experts.down_proj", "block_sparse_moe.output_linear"),
    **{name: (f"mixer.{name}", f"mamba.{name}", f"ssm_{name[:-5]}") for name in ("x_proj", "dt_proj")},
    **{
        f"{ours}_{each}": (f"self_attn.compressor.{theirs}{each}", f"attn.{theirs}{each}")
        for ours, theirs in (("compressor", ""), ("indexer", "indexer."))
        for each in ("kv_proj", "gate_proj")
    },
    "indexer_q_proj": ("self_attn.compressor.indexer.q_b_proj",),
    "indexer_weights_proj": ("self_attn.compressor.indexer.scorer.weights_proj",),
    "hyper_attention": ("attn_hc.fn", "hc_attn_fn"),
    "hyper_mlp": ("ffn_hc.fn", "hc_ffn_fn"),
    "layer_input_gate": ("per_layer_input_gate",),
    "layer_input_proj": ("per_layer_projection",),
}
_GATES = ("g_proj", "gate_proj", "q_proj", "qkv_proj")  # of attention's output
_LONGEST, _MOST = 300, 1 << 20
_EXPRESSIONS = 5000  # of one list; each takes a tenth of a millisecond to read
MATCHES = 20_000  # layers times expressions that are asked about each


def paths(weight: str, label: str, layer: int | None, prefixes: Iterable[str] = _PREFIXES) -> Iterator[str]:
    """Every name that a checkpoint may have for a weight of a layer, or of what is around the layers."""
    if layer is None:
        yield from (weight, f"model.{weight}", f"language_model.{weight}")
        return
    if weight == "gate_proj" and label == "attention":
        places, names = _ATTENTION, _GATES
    else:
        places, names = _CALLED.get(weight, ((), ()))
    for prefix in prefixes:
        for place in places:
            for name in names:
                yield f"{prefix}.layers.{layer}.{place}.{name}"


def inner(weight: str, label: str) -> Iterator[str]:
    """Every name that a checkpoint may have for a weight within its layer."""
    gate = weight == "gate_proj" and label == "attention"
    places, names = (_ATTENTION, _GATES) if gate else _CALLED.get(weight, ((), ()))
    for place in places:
        for name in names:
            yield f"{place}.{name}"
    yield from ("attn_gate", "attn_q") if gate else _GGUF.get(weight, ())
    yield from _ELSEWHERE.get(weight, ())


class Names:
    """Patterns of module names: plain ones mean a module and all inside it, or every module that is called so.

    `*` and `?` stand for any letters, `re:` begins a regular expression. Raises ConfigError for what is no name, or
    no expression that is quick to read.
    """

    def __init__(self, patterns: Iterable[object], where: str) -> None:
        self._plain: set[str] = set()
        self._of: dict[str, list[re.Pattern[str]]] = {}
        self._own: dict[str, set[str]] = {}
        self._numbered = False
        self._expressions = 0
        self._prefixes = {_PREFIXES[0]}
        for index, each in enumerate(patterns):
            if not isinstance(each, str) or len(each) > _LONGEST or index > _MOST:
                raise ConfigError(
                    f"{where} names {shown(each)}. Possible: names of modules of up to {_LONGEST} letters."
                )
            self._prefixes |= {prefix for prefix in _PREFIXES[1:] if prefix.split(".")[0] in each}
            number = re.match(r"[A-Za-z_.]*\blayers\.(\d+)(?=\.|$)", each)
            if number:
                self._own.setdefault(number[1], set()).add(each.replace(number[0], "", 1))
            elif re.search(r"\d|\\d|[?]|re:.*layers", each):
                self._numbered = True
            if each.startswith("re:") or "*" in each or "?" in each:
                self._expressions += 1
                if self._expressions > _EXPRESSIONS:
                    raise ConfigError(f"{where} has more than {_EXPRESSIONS:,} expressions. Name the modules instead.")
                self._of.setdefault(number[1] if number else "", []).append(_expression(each, where))
            elif each:
                self._plain.add(each)

    def asked(self, layers: int) -> int:
        """How many times an expression is tried on the weights of so many layers."""
        return len(self._of.get("", ())) * (layers if self._numbered else 1 + len(self._own))

    def alike(self, layer: int) -> object:
        """A key that is the same for layers of which the names say the same."""
        own = frozenset(self._own.get(str(layer), ()))
        return (own, layer) if self._numbered else own

    def __contains__(self, path: str) -> bool:
        parts = path.split(".")
        spans = (parts[i:j] for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
        if self._plain and any(".".join(span) in self._plain for span in spans):
            return True
        number = re.search(r"\blayers\.(\d+)\.", path)
        own = self._of.get(number[1], []) if number else []
        return any(each.match(path) for each in (*self._of.get("", ()), *own))

    def mean(self, weight: str, label: str, layer: int | None) -> bool:
        """Whether they mean a weight of ours under any of its names."""
        return any(path in self for path in paths(weight, label, layer, sorted(self._prefixes)))


def _expression(pattern: str, where: str) -> re.Pattern[str]:
    """The pattern as a regular expression; a glob also means what is inside the modules it means."""
    if not pattern.startswith("re:"):
        return re.compile(rf"(?:.*\.)?(?:{translate(re.sub(r'[*]+', '*', pattern))[4:-3]})(?:\..*)?\Z", re.S)
    text = pattern[3:]
    # A repeated group, or many repetitions one after another, may take for ever on a name that does not fit.
    if re.search(r"\)[*+{?]", text) or len(re.findall(r"[*+{]", text)) > 6:
        raise ConfigError(f"{where} has the expression {shown(text)}, which repeats too much. Write it simpler.")
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"{where} has {shown(text)}, which is no regular expression: {error}.") from None
