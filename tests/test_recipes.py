"""Recipes are valid scripts, and name what reads their output."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from roofline.errors import UnknownName
from roofline.recipes import recipe, recipe_names, script


@pytest.mark.parametrize("name", recipe_names())
def test_scripts_are_valid(name, tmp_path):
    """Python compiles, shell parses; the comments stay comments."""
    found = recipe(name)
    written = script(found)

    if found.language == "python":
        compile(written, name, "exec")
    else:
        shell = shutil.which("bash") or shutil.which("sh")
        assert shell is not None
        file = tmp_path / "recipe.sh"
        file.write_text(written)
        done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert found.then.startswith("roofline diagnose ")
    assert found.then.split()[-1].partition(".")[0] in found.code


def test_the_five_recipes():
    """The interface's names."""
    assert recipe_names() == ["dcgm", "nccl", "ncu", "nsys", "pytorch"]
    with pytest.raises(UnknownName, match="nsys"):
        recipe("nsight")


def test_trace_recipe_runs_with_a_stand_in_profiler(monkeypatch, tmp_path):
    """The function records `steps` steps after three to warm up, with shapes, and exports the trace."""
    import sys
    import types

    calls: dict[str, object] = {"steps": 0}

    class Profile:
        def __init__(self, **options: object) -> None:
            calls.update(options)

        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None: ...

        def step(self) -> None:
            calls["steps"] += 1

        def export_chrome_trace(self, path: str) -> None:
            calls["path"] = path

    profiler = types.ModuleType("torch.profiler")
    profiler.ProfilerActivity = types.SimpleNamespace(CPU="cpu", CUDA="cuda")
    profiler.profile = Profile
    profiler.schedule = lambda **plan: plan
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.profiler = profiler
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    space: dict[str, object] = {}
    exec(compile(recipe("pytorch").code, "recipe", "exec"), space)

    ran: list[int] = []
    space["record"](lambda: ran.append(1), path="t.json.gz", steps=2)

    assert len(ran) == calls["steps"] == 1 + 2 + 2
    assert calls["record_shapes"] is True
    assert calls["schedule"] == {"wait": 1, "warmup": 2, "active": 2}
    assert calls["path"] == "t.json.gz"
