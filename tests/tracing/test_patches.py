"""What a lecture binds in other modules is undone; what libraries bind stays. Values are compared by identity."""

from __future__ import annotations

import functools
import importlib
import json
import linecache
import math
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from trace_tools.tracing.isolation.patches import LecturesOwn, Names

LIBRARY = """
ready = None
def prepare():
    global ready
    ready = object()
def solve(): return "solved"
class Solver:
    steps = 0
    def step(self): Solver.steps += 1
"""
LECTURE = """
import functools, math, sys, types
import library, beside, pack.part
import late
class Solver(library.Solver): pass
def main():
    math.pi = 3
    library.solve = lambda: "patched"
    library.Solver.step = functools.partial(lambda self: None)
    library.Solver.extra = property(lambda self: 1)
    library.Solver.default = Solver()
    del library.LEFT_OUT
    vars(library).update(named=5)
    setattr(library, "given", 7)
    library.prepare()
    library.Solver().steps = 1
    sys.modules["made_up"] = types.ModuleType("made_up")
    sys.modules["json"] = None
"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a folder of libraries and a lecture's folder on the search path; unload their modules afterwards."""
    course, libraries = tmp_path / "course", tmp_path / "libraries"
    (course / "pack").mkdir(parents=True)
    libraries.mkdir()
    (libraries / "library.py").write_text(LIBRARY + "LEFT_OUT = 1\n", encoding="utf-8")
    (libraries / "late.py").write_text("def g(): pass\n", encoding="utf-8")
    for name in ("beside.py", "pack/part.py"):
        (course / name).write_text("def f(): pass\n", encoding="utf-8")
    (course / "lecture_of_patches.py").write_text(LECTURE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(course), str(libraries), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    yield tmp_path
    linecache.clearcache()
    importlib.invalidate_caches()


@pytest.mark.slow
def test_lecture_bindings_are_undone_and_library_bindings_stay(folders: Path) -> None:
    library = importlib.import_module("library")
    library_names, solver_names = dict(vars(library)), dict(vars(library.Solver))
    pi, before = math.pi, Names.read(folders / "course")
    lecture = importlib.import_module("lecture_of_patches")
    lecture.main()
    library.Solver.steps = 4  # the library's own code does the same
    own = before.lectures_own()
    assert set(own.modules) == {"lecture_of_patches", "beside", "pack", "pack.part"}
    undone, stuck = before.restore(own)
    assert math.pi is pi and sys.modules["json"] is json
    assert {k: v for k, v in vars(library).items() if k != "ready"} == {
        k: v for k, v in library_names.items() if k != "ready"
    }
    assert {k: v for k, v in vars(library.Solver).items() if k != "steps"} == {
        k: v for k, v in solver_names.items() if k != "steps"
    }
    assert library.ready is not None and library.Solver.steps == 4
    assert not {"lecture_of_patches", "beside", "pack", "made_up"} & set(sys.modules) and "late" in sys.modules
    assert stuck == []
    assert {"math.pi", "library.solve", "library.Solver.step", "library.LEFT_OUT", "library.named"} <= set(undone)
    assert {"module beside", "module pack.part", "module made_up", "module json"} <= set(undone)


@pytest.mark.slow
def test_bindings_in_newly_loaded_libraries_are_reported_stuck(folders: Path) -> None:
    before = Names.read(folders / "course")
    lecture = importlib.import_module("lecture_of_patches")
    importlib.import_module("late").g = lecture.main  # type: ignore[attr-defined]
    assert before.restore(before.lectures_own())[1] == ["late.g is the lecture's"]


@pytest.mark.slow
def test_added_path_folders_hold_libraries_only_if_installed(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Names.read(folders / "course")
    for name in ("written", "installed"):
        (folders / name).mkdir()
        (folders / name / f"{name}.py").write_text("", encoding="utf-8")
        monkeypatch.syspath_prepend(folders / name)
    (folders / "installed" / "installed-1.0.dist-info").mkdir()
    (folders / "installed" / "deeper").mkdir()
    (folders / "installed" / "deeper" / "inner.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(folders / "installed" / "deeper")
    importlib.import_module("inner")  # as a Cython package registers its modules under a second name
    written, installed = map(importlib.import_module, ("written", "installed"))
    assert set(before.lectures_own().modules) == {"written"}
    assert before.restore(before.lectures_own()) == (["module written"], [])
    assert sys.modules["installed"] is installed and sys.modules.get("written") is not written


def test_nothing_is_undone_without_changes(folders: Path) -> None:
    before = Names.read(folders / "course")
    torch.backends.cuda.is_built()
    assert before.restore(before.lectures_own()) == ([], [])


def test_lecture_objects_are_recognized_without_attribute_access() -> None:
    class NoAttributeAccess(type):
        def __getattribute__(cls, name: str) -> object:
            raise AssertionError

    module = types.ModuleType("own_one")
    exec("def f(): pass\nclass C: pass\n", vars(module))
    guarded_class = NoAttributeAccess("Rude", (), {"__module__": "own_one"})
    own = LecturesOwn({"own_one": module})
    function = vars(module)["f"]
    wrapped = functools.wraps(function)(lambda: None)
    lecture_objects = [function, wrapped, functools.partial(wrapped), property(function), staticmethod(function)]
    lecture_objects += [vars(module)["C"], vars(module)["C"](), guarded_class, guarded_class()]  # type: ignore[operator]
    assert all(map(own.made, lecture_objects))
    assert not any(map(own.made, [len, torch.relu, torch.Tensor, torch.ones(1), json, 3, lambda: function]))
