"""Devices and models by name or file: one data file each, read, checked and turned into core types."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from roofline import config as configs
from roofline.device import Device
from roofline.devicefile import device_from
from roofline.errors import ConfigError, DataError, UnknownName, shown
from roofline.model import Model, Repeat
from roofline.parts.attention import BareAttention
from roofline.parts.ends import Bulk
from roofline.shard import Axis
from roofline.units import MIB

_DATA = Path(__file__).parent / "data"
_LARGEST_CONFIG = 16 * MIB


def device_ids() -> list[str]:
    """Ids of the devices that come with the package."""
    return _ids("devices")


def model_ids() -> list[str]:
    """Ids of the models that come with the package."""
    return _ids("models")


def _ids(folder: str) -> list[str]:
    names = (each.name for each in (_DATA / folder).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_device(name: str | os.PathLike[str]) -> Device:
    """The device of that id, alias or TOML file; raises UnknownName or DataError."""
    text = os.fspath(name)
    if text.lower().endswith(".toml") or os.sep in text:
        return device_from(_file_text(Path(text)), text)
    wanted = text.strip().lower()
    if wanted in device_ids():
        return _built_in(wanted)
    for each in _devices():
        if wanted in (alias.lower() for alias in each.aliases):
            return each
        if wanted in each.default_for:
            return each.taken_for(text)
    known = {alias for each in _devices() for alias in (each.id, *each.default_for)}
    raise UnknownName.of("device", text, known, "See: roofline devices; or name a device's TOML file.")


def _file_text(path: Path) -> str:
    try:
        if path.stat().st_size > MIB:
            raise DataError(f"{path} is larger than 1 MiB: no device file.")
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise UnknownName(
            f"There is no file {shown(str(path))}. Name a device (roofline devices) or its file."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from None


@cache
def _built_in(ident: str) -> Device:
    where = f"{ident}.toml"
    return device_from((_DATA / "devices" / where).read_text("utf-8"), where)


def _devices() -> Iterator[Device]:
    return (_built_in(each) for each in device_ids())


def devices() -> list[Device]:
    """Every device that comes with the package."""
    return list(_devices())


def load_model(name: str | os.PathLike[str] | Mapping[str, Any]) -> Model:
    """The model of that name, Hub id, folder, config.json or dict of one.

    Tried in this order: a dict's keys; an existing file or folder; a built-in name; the Hugging Face
    Hub for a name with an owner (`owner/name`). Raises UnknownName or ConfigError.
    """
    if isinstance(name, Mapping):
        return configs.read(name, "model", "config")
    text = os.fspath(name)
    path = Path(text)
    if _exists(path):
        return _from_path(path)
    found = _built_in_id(text.strip().lower())
    if found is not None:
        return _model_from(found)
    if text.endswith(".json") or text.count("/") > 1 or text.startswith((".", "/", "~")):
        raise UnknownName(
            f"There is no file {shown(text)}. Name a config.json, its folder, or a model (roofline models)."
        )
    if text.count("/") == 1 and all(text.split("/")):
        return _from_hub(text)
    see = "See: roofline models; or name a config.json, its folder, or a Hugging Face id (owner/name)."
    raise UnknownName.of("model", text, model_ids(), see)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _from_path(path: Path) -> Model:
    inside = path / "config.json" if path.is_dir() else path
    if not _exists(inside):
        raise ConfigError(f"The folder {shown(str(path))} has no config.json. Name the folder of a model, or its file.")
    name = inside.parent.name if inside.name == "config.json" else inside.stem
    return configs.read(_json(inside), name or "model", str(path))


def _json(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; raises ConfigError where there is none of a sensible size."""
    try:
        size = path.stat().st_size
        if size > _LARGEST_CONFIG:
            raise ConfigError(
                f"{path} has {size / MIB:,.0f} MiB; a config.json has a few KiB, and up to "
                f"{_LARGEST_CONFIG // MIB} MiB are read. Name the model's config.json."
            )
        parsed = json.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as text: {error}.") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.") from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{path} is not a config.json: {str(error)[:80]}.") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"{path} holds {type(parsed).__name__}, not a JSON object with a model's keys.")
    return cast(Mapping[str, Any], parsed)


def _from_hub(repo: str) -> Model:
    """The config.json of a Hub repository, from the cache or the network."""
    from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    offline = "Download its config.json and name that file, or name a built-in model (roofline models)."
    try:
        path = hf_hub_download(repo, "config.json")
    except HFValidationError:
        raise UnknownName(
            f"{shown(repo)} is neither a built-in model nor a possible Hub id. See: roofline models."
        ) from None
    except LocalEntryNotFoundError:
        raise UnknownName(f"{repo} is not built in and the Hugging Face Hub cannot be reached. {offline}") from None
    except HfHubHTTPError as error:
        reason = str(error).strip().splitlines()
        raise UnknownName(
            f"The Hub has no readable config.json for {repo} ({reason[0] if reason else error!r}). {offline}"
        ) from None
    except OSError as error:
        raise UnknownName(
            f"{repo} is not built in and the Hugging Face Hub cannot be reached ({error!r:.80}). {offline}"
        ) from None
    return configs.read(_json(Path(path)), repo, f"{repo}/config.json", {"config": f"https://huggingface.co/{repo}"})


def _built_in_id(name: str) -> str | None:
    """The id of a built-in model, by its id or by its name on the Hub."""
    ids = model_ids()
    if name in ids:
        return name
    if "/" not in name:
        return None
    return next((ident for ident in ids if str(_model_table(ident).get("hub", "")).lower() == name), None)


@cache
def _model_table(ident: str) -> Mapping[str, Any]:
    return tomllib.loads((_DATA / "models" / f"{ident}.toml").read_text("utf-8"))


def _model_from(ident: str) -> Model:
    """A built-in model: the keys of a config.json, or an abstract one."""
    table = _model_table(ident)
    sources = {"config": str(table["source"])}
    if "config" in table:
        return configs.read(table["config"], str(table["name"]), f"{ident}.toml", sources)
    shape = table["abstract"]
    repeats = [Repeat(1, Bulk(int(shape["parameters"])))]
    if "layers" in shape:
        head_dim = int(shape["head_dim"])
        heads = Axis("heads", int(shape["heads"]), head_dim)
        kv_heads = Axis("kv_heads", int(shape["kv_heads"]), head_dim, uneven="replicate")
        repeats.append(Repeat(int(shape["layers"]), BareAttention(heads, kv_heads)))
    layers = int(shape.get("layers", 1))
    return Model(str(table["name"]), tuple(repeats), layers, None, tuple(table.get("assumptions", ())), sources)


def models() -> list[tuple[str, Model]]:
    """Every model that comes with the package, with its id."""
    return [(ident, _model_from(ident)) for ident in model_ids()]


@cache
def source_titles() -> Mapping[str, str]:
    """Title of each document that device files quote, by its key."""
    parsed = tomllib.loads((_DATA / "sources.toml").read_text("utf-8"))
    return {key: str(entry["title"]) for key, entry in parsed.items()}
