"""The device files of the package: one parsed for one device, all by an index that never stands above a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import roofline as rl
from roofline import catalogue, sheets

DATA = Path(rl.__file__).parent / "data"
NEW = """
id = "new"
name = "A New Card"
aliases = ["ACME New Card 9000"]
default_for = ["nine"]
vendor = "ACME"

[memory]
bandwidth = { value = "1 TB/s", status = "measured", source = "my bench" }
capacity = { value = "16 GiB", status = "measured", source = "my bench" }

[peak]
bf16 = { value = "100 TFLOP/s", status = "measured", source = "my bench" }

[recognise]
words = ["New 9000"]
also = ["Card"]
"""


@pytest.fixture(autouse=True)
def _fresh():
    """What a test finds in its own folder is not what the next one reads."""
    yield
    sheets.every.cache_clear()
    sheets.one.cache_clear()


@pytest.fixture
def parsed(monkeypatch):
    """The names of the files that are parsed from here on."""
    sheets.every.cache_clear()
    sheets.one.cache_clear()
    names: list[str] = []
    parse = sheets.sheet_from

    def counted(text: str, where: str):
        names.append(where)
        return parse(text, where)

    monkeypatch.setattr(sheets, "sheet_from", counted)
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package of two devices, with an index of them."""
    (tmp_path / "devices").mkdir()
    for ident in ("h100-sxm", "l4"):
        (tmp_path / "devices" / f"{ident}.toml").write_bytes((DATA / "devices" / f"{ident}.toml").read_bytes())
    sheets.one.cache_clear()
    monkeypatch.setattr(sheets, "_FOLDER", tmp_path / "devices")
    monkeypatch.setattr(sheets, "_INDEX", tmp_path / "devices.json")
    (tmp_path / "devices.json").write_bytes(sheets.index())
    sheets.every.cache_clear()
    sheets.one.cache_clear()
    return tmp_path


def test_index_is_up_to_date():
    """scripts/index writes it."""
    assert (DATA / "devices.json").read_bytes() == sheets.index()


def test_index_says_what_the_files_say():
    """Every field of every device."""
    assert list(sheets.every()) == [sheets.one(ident) for ident in sheets.ids()]


def test_one_device_parses_one_file(parsed):
    """By its id no other is touched."""
    rl.Device.load("h100-sxm")

    assert parsed == ["h100-sxm.toml"]


@pytest.mark.parametrize("name", ["NVIDIA L4", "v100", "NVIDIA-H100-80GB-HBM3"])
def test_a_name_parses_at_most_one_file(parsed, name):
    """The index knows them all."""
    rl.Device.load(name)

    assert len(parsed) <= 1


def test_all_devices_parse_none(parsed):
    """As long as the index is up to date."""
    assert len(catalogue.device_sheets()) == len(sheets.ids())
    assert parsed == []


def test_a_new_file_is_a_new_device(folder, parsed):
    """Without an index and without a line of Python: it is listed, loaded, found and recognised."""
    (folder / "devices" / "new.toml").write_text(NEW, "utf-8")

    assert [each.id for each in catalogue.device_sheets()] == ["h100-sxm", "l4", "new"]
    assert parsed == ["new.toml"]
    assert {rl.Device.load(name).id for name in ("new", "nine", "acme new card 9000", "ACME New 9000")} == {"new"}


def test_a_changed_file_is_read(folder):
    """The index is of another version of it."""
    path = folder / "devices" / "l4.toml"
    path.write_text(path.read_text("utf-8").replace('"300 GB/s"', '"301 GB/s"'), "utf-8")

    assert {each.id: each.bandwidth for each in catalogue.device_sheets()}["l4"] == 301e9


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"l4": {}}', b"\xff\xfe", b'{"l4": {"checksum": "x"}}'])
def test_an_index_that_cannot_be_read_costs_time_only(folder, content):
    """The files are parsed."""
    if content is None:
        (folder / "devices.json").unlink()
    else:
        (folder / "devices.json").write_bytes(content)

    assert [each.id for each in catalogue.device_sheets()] == ["h100-sxm", "l4"]
