"""What a client may ask for, read and checked; no name in it is ever taken for a path."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec

from roofline.catalogue import device_ids, model_by_name, model_from_text
from roofline.device import Device
from roofline.dtypes import STORED
from roofline.errors import BadValue, UnknownName
from roofline.ledger import Ledger, predict
from roofline.model import Model
from roofline.shard import Shard
from roofline.sheets import one
from roofline.workload import Precision, Workload

_FIELDS = 8  # of a form


class Asked(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A pass on a device: `model` is a built-in name or a Hub id; `config` the keys of a config.json in its place."""

    device: str
    model: str | None = None
    config: dict[str, Any] | None = None
    phase: Literal["decode", "prefill"] = "decode"
    sequences: int = 1
    new_tokens: int | None = None
    context: int | None = None
    weights: str = STORED
    kv: str = "bf16"
    activations: str = "bf16"
    compute: str = "bf16"
    tp: int = 1
    efficiency: tuple[float, float] | None = None
    fused: bool = False

    def ledger(self) -> Ledger:
        """The answer; raises RooflineError for what cannot be."""
        new, context = self.new_tokens, self.context
        if self.phase == "decode":
            workload = Workload.decode(self.sequences, 8192 if context is None else context, 1 if new is None else new)
        else:
            workload = Workload.prefill(self.sequences, 2048 if new is None else new, context or 0)
        return predict(
            _model(self.model, self.config),
            device_by_id(self.device),
            workload,
            Precision(self.weights, self.kv, self.activations, self.compute),
            shard=Shard(self.tp),
            efficiency=self.efficiency,
            fused=self.fused,
        )


def asked(body: bytes) -> Asked:
    """The request in a JSON body; raises BadValue with the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=Asked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadValue(f"The request is none: {' '.join(str(error).split())[:300]}. See /api/openapi.json.") from None


def _model(name: str | None, config: dict[str, Any] | None) -> Model:
    if config is not None and name is None:
        return Model.load(config)
    if name is None or config is not None:
        raise BadValue("Give either model, a name, or config, the keys of a config.json.")
    return model_by_name(name)


def device_by_id(ident: str) -> Device:
    """The device of the catalogue with that id; raises UnknownName."""
    if ident not in device_ids():
        raise UnknownName.of("device", ident, device_ids(), "See /api/devices.")
    return one(ident).device()


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form in a body, the first of each name; raises BadValue."""
    try:
        found = parse_qs(body.decode("utf-8"), errors="strict", max_num_fields=_FIELDS)
    except UnicodeDecodeError:
        raise BadValue("The request is no text in UTF-8. Send a config.json.") from None
    except ValueError:
        raise BadValue(f"The form has more than {_FIELDS} fields. Send name and config.") from None
    return {key: values[0] for key, values in found.items()}


def model_of_form(form: dict[str, str]) -> tuple[str, Model]:
    """The model that a form names or holds, and a name for it; raises RooflineError."""
    text, name = form.get("config", "").strip(), form.get("name", "").strip()
    if text:
        return (name or "model"), model_from_text(text, name or "model")
    if not name:
        raise BadValue("Nothing was given. Paste a config.json, or name a built-in model or a Hub id.")
    return name, model_by_name(name)
