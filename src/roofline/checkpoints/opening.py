"""Which files a checkpoint is, and the headers of all of them: a file, a folder, an address, a repository."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from roofline.checkpoints import gguf, safetensors
from roofline.checkpoints.sources import Local, Remote, Source, at, limit, on_the_hub
from roofline.checkpoints.tensors import LONGEST_NAME, MOST_TENSORS, Checkpoint, Fault, Tensor
from roofline.errors import CheckpointError, UnknownName, shown
from roofline.files import exists, home, printable
from roofline.units import MIB

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
HUB = "hf://"
_MOST_INDEX = 32 * MIB
_MOST_FILES = 2048
_AT_ONCE = 8
_FILE = re.compile(r"[\w.+-]{1,200}\.safetensors", re.ASCII)
_SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_REPO = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(/(?P<file>[\w./+-]{1,200}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Opened:
    """A checkpoint, the folder or repository whose config.json goes with it (None where none does), and its name."""

    checkpoint: Checkpoint
    folder: Path | None = None
    repo: str | None = None
    name: str = "model"


def checkpoint(path: str | PathLike[str]) -> Checkpoint:
    """What the headers at `path` say: a GGUF or safetensors file, a folder of these, https://…/FILE.gguf, or
    hf://OWNER/NAME[/FILE].

    Raises UnknownName where there is none, CheckpointError where a header cannot be what it says.
    """
    found = opened(path)
    if found is None:
        raise CheckpointError(
            f"{printable(fspath(path))} holds no checkpoint. Name a .gguf or .safetensors file, a folder with these, "
            "or hf://OWNER/NAME."
        )
    return found.checkpoint


def opened(path: str | PathLike[str]) -> Opened | None:
    """The checkpoint at `path`; None for a file or folder that is none. Raises as `checkpoint` does."""
    text = fspath(path)
    if text.startswith(HUB):
        return _hub(text)
    if re.match(r"https?://", text):
        return _address(text)
    local = Path(text)
    if not text or not exists(local):
        raise UnknownName(f"There is no file {printable(text)}. Name a checkpoint that exists.")
    if home(local).is_dir():
        return _folder(local)
    return _file(local)


def _file(path: Path) -> Opened | None:
    where = path.name
    if where.endswith(".gguf"):
        return _gguf(path.name, lambda name: Local(path.parent / name), printable(path), _stem(where))
    if where == INDEX:
        return _folder(path.parent)
    if where.endswith(".safetensors"):
        found = _safetensors([where], lambda name: Local(path.parent / name), printable(path))
        return Opened(found, folder=path.parent, name=path.resolve().parent.name)
    return None


def _folder(path: Path) -> Opened | None:
    """The safetensors of a folder, or its one GGUF."""
    inside = home(path)
    try:
        names = sorted(each.name for each in inside.iterdir())
    except OSError as error:
        raise CheckpointError(f"{printable(path)} cannot be read: {error.strerror}. Name a folder that can.") from None
    if "config.json" in names or not any(name.endswith(".gguf") for name in names):
        listed = _listed(inside, names, printable(path))
        if listed is None:
            return _beside(path, names)
        files, check = listed
        found = _safetensors(files, lambda name: Local(path / name), printable(path))
        check(found)
        return Opened(found, folder=path, name=inside.resolve().name)
    first = [name for name in names if name.endswith(".gguf") and _first(name)]
    if len(first) != 1:
        few = ", ".join(printable(each) for each in first[:4])
        raise CheckpointError(
            f"The folder {printable(path)} has {len(first)} GGUF models ({few}, …). Name one of them."
        )
    return _file(path / first[0])


def _beside(path: Path, names: list[str]) -> Opened | None:
    """The one GGUF beside a config.json, which then says the structure; None where there is none, or several."""
    first = [name for name in names if name.endswith(".gguf") and _first(name)]
    found = _file(path / first[0]) if len(first) == 1 else None
    return None if found is None else replace(found, folder=path, name=home(path).resolve().name)


def _first(name: str) -> bool:
    split = _SPLIT.fullmatch(name)
    return split is None or int(split["number"]) == 1


_Check = Callable[[Checkpoint], None]


def _listed(folder: Path, names: list[str], where: str) -> tuple[list[str], _Check] | None:
    """The safetensors files of a folder, and what is to be checked of them; None where it has none."""
    if INDEX in names:
        text = _index_text(Local(folder / INDEX))
        placed = _index(text, Fault(f"{where}/{INDEX}"))
        files = sorted(set(placed.values()))
        absent = [each for each in files if each not in names]
        if absent:
            raise CheckpointError(
                f"{where}: {INDEX} names {len(files):,} files, of which {len(absent):,} are not there "
                f"({absent[0]}). Download them, or name its config.json."
            )
        return files, lambda found: _placed(placed, found, Fault(f"{where}/{INDEX}"))
    if WHOLE in names:
        return [WHOLE], _unchecked
    found = [each for each in names if each.endswith(".safetensors") and not each.startswith("adapter_")]
    if not found:
        return None
    sharded = [each for each in found if re.search(r"-\d{5}-of-\d{5}\.safetensors$", each)]
    if len(found) > 1 and len(sharded) not in (0, len(found)):
        found = sharded
    if len(found) > 1 and not sharded:
        few = ", ".join(printable(each) for each in found[:3])
        raise CheckpointError(
            f"{where} has {len(found):,} safetensors files and no {INDEX} ({few}). "
            "Name one of them, or its config.json."
        )
    return found, _unchecked


def _unchecked(found: Checkpoint) -> None:
    """No index says anything to check."""


def _index_text(source: Source) -> bytes:
    with closing(source):
        if source.size > _MOST_INDEX:
            raise CheckpointError(
                f"{source.where} has more than the {_MOST_INDEX / MIB:g} MiB that are read of an index. "
                "Name a checkpoint's config.json."
            )
        return source.read(0, source.size)


def _index(text: bytes, fault: Fault) -> Mapping[str, str]:
    """Which file has which tensor; raises CheckpointError."""
    try:
        found: Any = json.loads(text.decode("utf-8"))
    except (RecursionError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are such
        said = str(error)[:100] if isinstance(error, json.JSONDecodeError) else "nested, long or coded beyond reason"
        raise fault(f"it is not valid JSON: {said}.") from None
    placed = cast("dict[str, Any]", found).get("weight_map") if isinstance(found, dict) else None
    if not isinstance(placed, dict) or not placed:
        raise fault("weight_map is missing; it names the file of each tensor.")
    known = cast("dict[str, Any]", placed)
    if len(known) > MOST_TENSORS:
        raise fault(f"it names {len(known):,} tensors, more than the {MOST_TENSORS:,} that are read.")
    for name, file in known.items():
        if not isinstance(file, str) or not _FILE.fullmatch(file) or len(name) > LONGEST_NAME:
            raise fault(f"it places the tensor {shown(name)} in {shown(file)}, which is no name of a file beside it.")
    files = set(known.values())
    if len(files) > _MOST_FILES:
        raise fault(f"it names {len(files):,} files, more than the {_MOST_FILES:,} that are read.")
    return known


def _placed(placed: Mapping[str, str], found: Checkpoint, fault: Fault) -> None:
    """Refuse files that have not the tensors that their index names."""
    there = {each.name for each in found.tensors}
    absent = next((name for name in placed if name not in there), None)
    if absent is not None:
        raise fault(f"it places the tensor {shown(absent)} in {placed[absent]}, whose header has none such.")


def _safetensors(files: list[str], source: Callable[[str], Source], where: str, at_once: int = 1) -> Checkpoint:
    def read(name: str) -> tuple[Tensor, ...]:
        with closing(source(name)) as file:
            return safetensors.read(file)

    return _joined("safetensors", where, files, _each(read, files, at_once))


def _each(read: Callable[[str], Any], files: list[str], at_once: int) -> Iterator[Any]:
    """What is read of each file, several at once where they are far."""
    if at_once == 1 or len(files) == 1:
        yield from map(read, files)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(read, files)


def _joined(
    kind: str,
    where: str,
    files: list[str],
    parts: Iterable[tuple[Tensor, ...]],
    metadata: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """One checkpoint of several files, which have no tensor twice."""
    tensors: list[Tensor] = []
    names: set[str] = set()
    for file, part in zip(files, parts, strict=True):
        for each in part:
            if each.name in names:
                raise Fault(where)(f"the tensor {shown(each.name)} is in {printable(file)} and in a file before it.")
            names.add(each.name)
        tensors += part
        if len(tensors) > MOST_TENSORS:
            raise Fault(where)(f"its files have more than the {MOST_TENSORS:,} tensors that are read.")
    if not tensors:
        raise Fault(where)("its headers name no tensor.")
    return Checkpoint(kind, where, tuple(files), tuple(tensors), metadata or {})


def _gguf(name: str, source: Callable[[str], Source], where: str, called: str, at_once: int = 1) -> Opened:
    """A GGUF file, or all of those that it was split into."""
    split = _SPLIT.fullmatch(name)
    files = [name]
    if split is not None:
        count = int(split["count"])
        if not 0 < int(split["number"]) <= count or count > _MOST_FILES:
            raise CheckpointError(f"{where} says part {split['number']} of {split['count']}. Name a part that can be.")
        files = [f"{split['stem']}-{number:05}-of-{split['count']}.gguf" for number in range(1, count + 1)]
    kept: dict[str, Any] = {}

    def read(name: str) -> tuple[Tensor, ...]:
        with closing(source(name)) as file:
            metadata, tensors = gguf.read(file)
        if name == files[0]:
            kept.update(metadata)
        return tensors

    found = _joined("gguf", where, files, _each(read, files, at_once), kept)
    said = kept.get("split.tensors.count")
    if len(files) > 1 and said is not None and said != len(found.tensors):
        raise Fault(where)(f"its first part says {shown(said)} tensors, and its parts have {len(found.tensors):,}.")
    if len(files) == 1 and type(kept.get("split.count")) is int and kept["split.count"] > 1:
        raise Fault(where)(f"it is one of {kept['split.count']:,} parts, and its name does not tell the others.")
    return Opened(found, name=called)


def _stem(name: str) -> str:
    """What to call a model by the name of its file."""
    split = _SPLIT.fullmatch(name)
    return split["stem"] if split else name.removesuffix(".gguf") or "model"


def _address(url: str) -> Opened:
    path = url.partition("?")[0].partition("#")[0]
    if not path.endswith(".gguf"):
        raise UnknownName(
            f"{printable(path)} is no address of a GGUF file. Name one, or a checkpoint on the Hub as hf://OWNER/NAME."
        )
    base, _, name = path.rpartition("/")
    query, until = url[len(path) :], limit()
    return _gguf(name, lambda each: at(f"{base}/{each}{query}", until), printable(path), _stem(name), _AT_ONCE)


def _hub(text: str) -> Opened:
    """A repository's safetensors, or the file that is named behind it."""
    found = _REPO.fullmatch(text.removeprefix(HUB))
    if found is None or ".." in text:
        raise UnknownName(f"{shown(text)} is no checkpoint on the Hub. Write hf://OWNER/NAME or hf://OWNER/NAME/FILE.")
    repo, file, until = found["repo"], found["file"], limit()

    def source(name: str) -> Remote:
        return on_the_hub(repo, name, until)

    if file is not None and file.endswith(".gguf"):
        folder, _, name = file.rpartition("/")
        inside = f"{folder}/" if folder else ""
        return _gguf(name, lambda each: source(inside + each), text, _stem(name), _AT_ONCE)
    if file is not None and not file.endswith(".safetensors"):
        raise UnknownName(f"{shown(text)} is no checkpoint. Name a .gguf or .safetensors file, or the repository.")
    files, check = ([file], _unchecked) if file is not None else _on_the_hub(source, text)
    read = _safetensors(files, source, text, _AT_ONCE)
    check(read)
    return Opened(read, repo=repo, name=repo)


def _on_the_hub(source: Callable[[str], Remote], where: str) -> tuple[list[str], _Check]:
    """The files of a repository by its index, or its one file."""
    try:
        text = _index_text(source(INDEX))
    except UnknownName:
        return [WHOLE], _unchecked
    fault = Fault(f"{where}/{INDEX}")
    placed = _index(text, fault)
    return sorted(set(placed.values())), lambda found: _placed(placed, found, fault)
