"""Random settings of the live page beside the answers that the package has for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import roofline as rl
from roofline import program
from roofline.capacity import resident
from roofline.device import Device, Topology
from roofline.dtypes import FORMATS
from roofline.errors import ShardError, UnknownName
from roofline.ledger import Ledger
from roofline.model import Model
from roofline.shard import Shard
from roofline.show.live import compute_rates

WEIGHTS = sorted(FORMATS)
KV = [name for name, each in FORMATS.items() if each.block is None or each.block[0] == 1]
ACTIVATIONS = [name for name, each in FORMATS.items() if each.block is None]

# A small model whose file says how its weights are stored: experts in blocks of 32, the last layer's attention whole.
QUANTISED = {
    **{"model_type": "mixtral", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8},
    **{"num_key_value_heads": 4, "intermediate_size": 1024, "vocab_size": 4096, "max_position_embeddings": 4096},
    **{"rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu", "num_local_experts": 8},
    "num_experts_per_tok": 2,
    "quantization_config": {
        **{"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True},
        "modules_to_not_convert": ["lm_head", "model.layers.3.self_attn"],
    },
}


def ranks_of(model: Model, device: Device) -> list[int]:
    """The ranks of tensor parallelism that both allow."""
    found: list[int] = []
    for ranks in program.RANKS:
        try:
            Topology(device, ranks).link()
            model.weight_bytes(rl.Precision(), Shard(ranks))
        except (ShardError, UnknownName):
            continue
        found.append(ranks)
    return found


def settings(models: dict[str, Model], devices: Sequence[Device], number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Settings as the page's address has them, each model as often as the others."""
    random_ = random.Random(seed)
    names, devices = list(models), [each for each in devices if compute_rates(each)]
    for index in range(number):
        model, device = names[index % len(names)], random_.choice(devices)
        prefill = random_.random() < 0.4
        derated = random_.random() < 0.5
        yield {
            "model": model,
            "device": device.id,
            "phase": "prefill" if prefill else "decode",
            "sequences": int(2 ** random_.uniform(0, 12)),
            "new": int(2 ** random_.uniform(0, 15)),
            "context": random_.choice([0, 1, int(2 ** random_.uniform(0, 20)), int(2 ** random_.uniform(0, 20))]),
            "tp": random_.choice(ranks_of(models[model], device)),
            "weights": random_.choice([*WEIGHTS, *["stored"] * (8 if models[model].quantised else 0)]),
            "kv": random_.choice(KV),
            "activations": random_.choice(ACTIVATIONS),
            "compute": random_.choice(compute_rates(device)),
            "times": "derated" if derated else "bound",
            "eb": random_.randint(1, 100) if derated else 80,
            "ec": random_.randint(1, 100) if derated else 75,
            "fused": random_.random() < 0.3,
        }


def ledger_of(setting: dict[str, Any], model: Model, device: Device) -> Ledger:
    """The package's answer to a setting."""
    sequences, context = setting["sequences"], setting["context"]
    if setting["phase"] == "decode":
        workload = rl.Workload.decode(sequences=sequences, context=context)
    else:
        workload = rl.Workload.prefill(sequences=sequences, new=setting["new"], context=context)
    formats = {name: setting[name] for name in ("weights", "kv", "activations", "compute")}
    shares = (setting["eb"] / 100, setting["ec"] / 100) if setting["times"] == "derated" else None
    changed = {key: setting[key] for key in ("bandwidth", "capacity") if setting.get(key)}
    if setting.get("peak"):
        changed["peak"] = {**device.peak, setting["compute"]: setting["peak"]}
    return rl.predict(
        model,
        replace(device, **changed) if changed else device,
        workload,
        rl.Precision(**formats),
        shard=Shard(setting["tp"]),
        efficiency=shares,
        fused=setting["fused"],
    )


def values(ledger: Ledger) -> list[float]:
    """The numbers of a ledger in the order in which the exported arithmetic gives them."""
    names = ("memory", "compute", "link", "launch")
    total = [getattr(ledger.total, name) for name in program.TOTAL]
    total[program.TOTAL.index("bound")] = names.index(ledger.total.bound)
    held = resident(ledger.model, ledger.workload, ledger.precision, ledger.shard, None)
    found = [*total, *(getattr(held, name) for name in program.MEMORY)]
    for point, seconds in zip(ledger.kernels, ledger.times, strict=True):
        cost, bound = point.work.cost, point.bound
        found += [point.flops, point.bytes]
        found += [point.count * cost.memory.get(role, 0) for role in ("weights", "kv")]
        found += [point.count * cost.link_bytes, seconds, point.bound_seconds, names.index(bound.by)]
        found += [bound.compute, bound.memory, bound.link, *point.work.dims.values()]
    return [float(each) for each in found]
