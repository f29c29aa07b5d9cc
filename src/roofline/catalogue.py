"""Devices and models by name or file: one data file each, read, checked and turned into core types."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from roofline import config as configs
from roofline import sheets
from roofline.device import Device, Sheet
from roofline.devicefile import sheet_from
from roofline.errors import BadValue, ConfigError, DataError, UnknownName, shown
from roofline.files import exists, home, printable, read_text
from roofline.model import Block, Model
from roofline.parts.attention import BareAttention
from roofline.parts.ends import Bulk
from roofline.shard import Axis
from roofline.units import GIGA, MIB

if TYPE_CHECKING:
    from roofline.checkpoints import Checkpoint

_LARGEST_DEVICE = MIB // 16
_LONGEST_NAME = 100
_DATA = Path(__file__).parent / "data"


def device_ids() -> list[str]:
    """Ids of the devices that come with the package."""
    return sheets.ids()


def model_ids() -> list[str]:
    """Ids of the models that come with the package."""
    names = (each.name for each in (_DATA / "models").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_sheet(name: str | os.PathLike[str]) -> Sheet:
    """What is known of the device of that id, alias or TOML file; raises UnknownName or DataError.

    One file is parsed for an id; an alias or a shorter name is found in the index of all.
    """
    text = _text(name, "device")
    if text.lower().endswith(".toml") or os.sep in text:
        return sheet_from(
            read_text(Path(text), _LARGEST_DEVICE, DataError, "a device file, a few KiB of TOML"), printable(text)
        )
    wanted = text.strip().lower()
    if wanted in sheets.ids():
        return sheets.one(wanted)
    for each in sheets.every():
        if wanted in (alias.lower() for alias in each.aliases):
            return each
        if wanted in each.default_for:
            return each.taken_for(text)
    return _recognised(text)


def _recognised(text: str) -> Sheet:
    """The one device that a name from a driver or a profile means; raises UnknownName with what comes close."""
    see = "See: roofline devices; or name a device's TOML file."
    from roofline.recognition import recognise

    found = recognise(text if text.isprintable() else "")
    if found.id is not None:
        return sheets.one(found.id).taken_for(printable(text))
    if found.candidates and " " in found.name and len(found.name) < _LONGEST_NAME:
        raise UnknownName(f"Unknown device: {found.reason} {see}")
    known = {name for each in sheets.every() for name in (each.id, *each.default_for)}
    raise UnknownName.of("device", text, known, see)


def load_device(name: str | os.PathLike[str]) -> Device:
    """The device of that id, alias or TOML file; raises UnknownName or DataError.

    A device whose bandwidth is not known cannot be placed on a roofline: UnknownName says so.
    """
    return load_sheet(name).device()


def _text(name: object, kind: str) -> str:
    """The name or path as text; raises UnknownName for what is neither."""
    found = os.fspath(name) if isinstance(name, (str, os.PathLike)) else None  # pyright: ignore
    if not isinstance(found, str):
        raise UnknownName(f"Unknown {kind} {shown(cast(object, name))}. Name one as text, or a path.")
    return found


def device_sheets() -> tuple[Sheet, ...]:
    """What is known of every device that comes with the package."""
    return sheets.every()


def devices() -> list[Device]:
    """Every device that comes with the package and whose bandwidth is known."""
    return [each.device() for each in sheets.every() if each.bandwidth is not None]


class Found(NamedTuple):
    """A config.json that was found: its keys, what to call the model, the file's name, and its provenance.

    `quantization` are the keys of the hf_quant_config.json beside it, where there is one; `checkpoint` is what the
    headers of its weights say, where these are there.
    """

    keys: Mapping[str, Any]
    name: str
    where: str
    sources: Mapping[str, str] | None = None
    quantization: Mapping[str, Any] | None = None
    checkpoint: Checkpoint | None = None


def load_model(name: str | os.PathLike[str] | Mapping[str, Any], change: Mapping[str, str] | None = None) -> Model:
    """The model of that name, Hub id, checkpoint, config.json or dict of one; with these fields of its config changed.

    Tried in this order: a dict's keys; an existing file or folder; a checkpoint by its address; a built-in name; the
    Hugging Face Hub for a name with an owner (`owner/name`). Raises UnknownName, ConfigError or CheckpointError.
    """
    found = _find_model(name)
    if isinstance(found, Model):
        if change:
            fields = ", ".join(change)
            what = (
                "is weights only and has no config"
                if found.checkpoint is None
                else "is a GGUF file, which stores it as it is"
            )
            raise BadValue(f"{found.name} {what}, so no field {fields} to set. Name a model by its config.json.")
        return found
    if not change:
        return configs.read(*found)
    from roofline.hypothetical import changed_config

    keys, notes = changed_config(found.keys, change, found.where)
    before, changed = configs.read(*found), configs.read(keys, *found[1:])
    if replace(before, assumptions=()) == replace(changed, assumptions=()):
        fields = ", ".join(f"model.{field}" for field in change)
        raise BadValue(f"{fields}: nothing changes. The value is that of {found.name}, or no count rests on it.")
    return replace(changed, assumptions=(*notes, *changed.assumptions))


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)


def model_by_name(name: str) -> Model:
    """The built-in or Hub model of that name, never a file: for names that come from afar. Raises UnknownName."""
    if not _HUB_ID.fullmatch(name) or ".." in name:
        raise UnknownName(f"{shown(name)} is no name of a model. Name a built-in one or a Hub id, as owner/name.")
    found = _by_name(name)
    return found if isinstance(found, Model) else configs.read(*found)


def model_from_text(text: str, name: str) -> Model:
    """The model of the text of a config.json; raises ConfigError."""
    return configs.read(configs.parse(text, "config.json"), name, "config.json")


def _find_model(name: str | os.PathLike[str] | Mapping[str, Any]) -> Found | Model:
    """A config.json by name, or a model that has none."""
    if isinstance(name, Mapping):
        return Found(name, "model", "config")
    text = _text(name, "model")
    path = Path(text)
    if text and exists(path):
        return _from_path(path)
    if text.startswith(("hf://", "https://", "http://")):
        return _from_checkpoint(text)
    if text.endswith(".json") or text.count("/") > 1 or text.startswith((".", "/", "~")):
        raise UnknownName(
            f"There is no file {printable(text)}. Name a config.json, its folder, or a model (roofline models)."
        )
    return _by_name(text)


def _by_name(text: str) -> Found | Model:
    """A model that is built in or on the Hub: no path is looked at."""
    found = _built_in_id(text.strip().lower())
    if found is not None:
        return _built_in_model(found)
    bulk = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)b", text.strip().lower())
    if bulk:
        return _bulk(text.strip(), int(float(bulk[1]) * GIGA))
    if text.count("/") == 1 and all(text.split("/")):
        from roofline import hub  # brings logging and threads, which no other model needs

        keys, sources = hub.config(text)
        formats = None if configs.says_formats(keys) else hub.formats(text)
        return Found(keys, text, f"{text}/config.json", sources, formats)
    see = "See: roofline models; or name a config.json, its folder, or a Hugging Face id (owner/name)."
    raise UnknownName.of("model", text, model_ids(), see)


def _from_checkpoint(text: str | Path) -> Found | Model:
    """A model by the headers of its weights, and the config.json beside them where it is no GGUF file."""
    from roofline import checkpoints

    found = checkpoints.opened(text)
    if found is None:
        return _from_config(Path(text))
    if found.checkpoint.kind == "gguf" and found.folder is None:
        from roofline import gguf

        return gguf.model(found.checkpoint, _unicode(found.name))
    if found.repo is not None:
        from roofline import hub

        keys, sources = hub.config(found.repo)
        return Found(keys, found.repo, f"{found.repo}/config.json", sources, None, found.checkpoint)
    assert found.folder is not None
    inside = found.folder / "config.json"
    if not exists(inside):
        raise ConfigError(
            f"{printable(text)} has no config.json beside it, and headers do not say a model's structure. Add it."
        )
    sources = {"config": printable(inside), "weights": found.checkpoint.source}
    return Found(
        configs.load(inside), _unicode(found.name or "model"), printable(inside), sources, None, found.checkpoint
    )


def _weights(folder: Path) -> bool:
    """Whether a folder has weights whose headers can be read."""
    try:
        return any(each.name.endswith((".safetensors", ".gguf")) for each in home(folder).iterdir())
    except OSError:
        return False


def _from_path(path: Path) -> Found | Model:
    if home(path).is_dir():
        if _weights(path):
            return _from_checkpoint(path)
    elif path.name.endswith((".gguf", ".safetensors", ".safetensors.index.json")):
        return _from_checkpoint(path)
    return _from_config(path)


def _from_config(path: Path) -> Found:
    inside = path / "config.json" if home(path).is_dir() else path
    if not exists(inside):
        raise ConfigError(f"The folder {printable(path)} has no config.json. Name the folder of a model, or its file.")
    name = inside.parent.name if inside.name == "config.json" else inside.stem
    beside = inside.parent / "hf_quant_config.json"
    formats = (
        configs.load(beside, most=configs.LARGEST_LIST) if inside.name == "config.json" and exists(beside) else None
    )
    sources = {"config": printable(path), **({} if formats is None else {"weights": printable(beside)})}
    return Found(configs.load(inside), _unicode(name or "model"), printable(path), sources, formats)


def _unicode(name: str) -> str:
    """A file's name as text that JSON can carry: bytes that are none are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _built_in_id(name: str) -> str | None:
    """The id of a built-in model, by its id, its name, or its name on the Hub."""
    ids = model_ids()
    if name in ids:
        return name
    for ident in ids:
        table = _model_table(ident)
        if name in (str(table["name"]).lower(), str(table.get("hub", table["name"])).lower()):
            return ident
    return None


@cache
def _model_table(ident: str) -> Mapping[str, Any]:
    return tomllib.loads((_DATA / "models" / f"{ident}.toml").read_text("utf-8"))


def _model_from(ident: str) -> Model:
    found = _built_in_model(ident)
    return found if isinstance(found, Model) else configs.read(*found)


def _built_in_model(ident: str) -> Found | Model:
    """A built-in model: the keys of a config.json, or an abstract one."""
    table = _model_table(ident)
    sources = {"config": str(table["source"])}
    if "config" in table:
        return Found(table["config"], str(table["name"]), f"{ident}.toml", sources)
    shape = table["abstract"]
    bulk = Bulk(int(shape["parameters"]))
    layers = tuple(range(int(shape.get("layers", 1))))
    blocks: tuple[Block, ...] = (Block((), layers),)
    if "layers" in shape:
        head_dim = int(shape["head_dim"])
        heads = Axis("heads", int(shape["heads"]), head_dim)
        kv_heads = Axis("kv_heads", int(shape["kv_heads"]), head_dim, uneven="replicate")
        blocks = (Block((BareAttention(heads, kv_heads),), layers),)
    notes = tuple(table.get("assumptions", ()))
    return Model(str(table["name"]), (bulk,), blocks, assumptions=notes, sources=sources)


def _bulk(name: str, parameters: int) -> Model:
    """Weights of that many parameters and nothing else, as the built-in 7B."""
    if parameters < 1:
        raise UnknownName(f"{name} has no parameters. Name a number of billions, as 7B.")
    like = _model_from("7b")
    return replace(like, name=name, before=(Bulk(parameters),))


def models() -> list[tuple[str, Model]]:
    """Every model that comes with the package, with its id."""
    return [(ident, _model_from(ident)) for ident in model_ids()]


def built_in(name: str) -> Model | None:
    """The model that comes with the package by its id, name or Hub name; never a file, never the network."""
    ident = _built_in_id(name.strip().lower()) if name else None
    return None if ident is None else _model_from(ident)
