"""What a lecture binds elsewhere is undone; what libraries bind is theirs. The oracle is `is`."""

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
    """A folder of libraries and one of a lecture, both on the search path; nothing of them stays loaded."""
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


def test_what_a_lecture_bound_is_undone_and_what_the_library_bound_is_not(folders: Path) -> None:
    library = importlib.import_module("library")
    bound, solver = dict(vars(library)), dict(vars(library.Solver))
    pi, before = math.pi, Names.read(folders / "course")
    lecture = importlib.import_module("lecture_of_patches")
    lecture.main()
    library.Solver.steps = 4  # as its own code may
    own = before.lectures_own()
    assert set(own.modules) == {"lecture_of_patches", "beside", "pack", "pack.part"}
    undone, stuck = before.restore(own)
    assert math.pi is pi and sys.modules["json"] is json
    assert {k: v for k, v in vars(library).items() if k != "ready"} == {k: v for k, v in bound.items() if k != "ready"}
    assert {k: v for k, v in vars(library.Solver).items() if k != "steps"} == {
        k: v for k, v in solver.items() if k != "steps"
    }
    assert library.ready is not None and library.Solver.steps == 4
    assert not {"lecture_of_patches", "beside", "pack", "made_up"} & set(sys.modules) and "late" in sys.modules
    assert stuck == []
    assert {"math.pi", "library.solve", "library.Solver.step", "library.LEFT_OUT", "library.named"} <= set(undone)
    assert {"module beside", "module pack.part", "module made_up", "module json"} <= set(undone)


@pytest.mark.slow
def test_what_is_bound_in_a_library_that_the_lecture_loaded_can_not_be_undone(folders: Path) -> None:
    before = Names.read(folders / "course")
    lecture = importlib.import_module("lecture_of_patches")
    importlib.import_module("late").g = lecture.main  # type: ignore[attr-defined]
    assert before.restore(before.lectures_own())[1] == ["late.g is the lecture's"]


def test_a_folder_that_a_lecture_puts_on_the_path_holds_libraries_once_they_were_installed_into_it(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Names.read(folders / "course")
    for name in ("written", "installed"):
        (folders / name).mkdir()
        (folders / name / f"{name}.py").write_text("", encoding="utf-8")
        monkeypatch.syspath_prepend(folders / name)
    (folders / "installed" / "installed-1.0.dist-info").mkdir()
    (folders / "installed" / "deeper").mkdir()
    (folders / "installed" / "deeper" / "inner.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(folders / "installed" / "deeper")
    importlib.import_module("inner")  # as a package in Cython enters its parts under a second name
    written, installed = map(importlib.import_module, ("written", "installed"))
    assert set(before.lectures_own().modules) == {"written"}
    assert before.restore(before.lectures_own()) == (["module written"], [])
    assert sys.modules["installed"] is installed and sys.modules.get("written") is not written


def test_nothing_is_undone_where_nothing_was_done(folders: Path) -> None:
    before = Names.read(folders / "course")
    torch.backends.cuda.is_built()
    assert before.restore(before.lectures_own()) == ([], [])


def test_what_a_lecture_made_is_known_without_asking_it() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> object:
            raise AssertionError

    module = types.ModuleType("own_one")
    exec("def f(): pass\nclass C: pass\n", vars(module))
    rude = Meta("Rude", (), {"__module__": "own_one"})
    own = LecturesOwn({"own_one": module})
    function = vars(module)["f"]
    wrapped = functools.wraps(function)(lambda: None)
    made = [function, wrapped, functools.partial(wrapped), property(function), staticmethod(function)]
    made += [vars(module)["C"], vars(module)["C"](), rude, rude()]  # type: ignore[operator]
    assert all(map(own.made, made))
    assert not any(map(own.made, [len, torch.relu, torch.Tensor, torch.ones(1), json, 3, lambda: function]))
