"""Pausing the garbage collector, replacing attributes, and waiting for an import."""

from __future__ import annotations

import gc
import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_tools.util.interpreter import OnceImported, collector_paused, replaced


def test_a_collector_pause_restores_the_previous_state() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_replaced_attribute_is_restored_after_an_error() -> None:
    before = math.sqrt
    with pytest.raises(ValueError, match="inside"), replaced(math, "sqrt", len):
        assert math.sqrt is len
        raise ValueError("inside")
    assert math.sqrt is before
    with pytest.raises(AttributeError), replaced(math, "nothing_of_that_name", len):
        pass


# --- callbacks after a module is imported ---------------------------------------------------------


@pytest.fixture(autouse=True)
def package_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a package `waited_for` on the import path; restore modules and finders afterwards."""
    (tmp_path / "waited_for").mkdir()
    (tmp_path / "waited_for" / "__init__.py").write_text("ready = False\nready = True\n", encoding="utf-8")
    (tmp_path / "waited_for" / "part.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


def test_the_callback_runs_once_after_the_import() -> None:
    ready_values: list[object] = []
    wait = OnceImported("waited_for", lambda: ready_values.append(vars(sys.modules["waited_for"]).get("ready")))
    wait.begin()
    part = importlib.import_module("waited_for.part")
    assert ready_values == [True]
    assert "exec_module" not in vars(part.__loader__) | vars(sys.modules["waited_for"].__loader__)
    importlib.import_module("waited_for")
    assert ready_values == [True]


def test_only_active_callbacks_are_called() -> None:
    called: list[str] = []
    waits = [OnceImported("waited_for", lambda name=name: called.append(name)) for name in "abc"]  # type: ignore[misc]
    for wait in waits:
        wait.begin()
    waits[1].end()
    importlib.import_module("waited_for")
    assert sorted(called) == ["a", "c"]


def test_missing_modules_still_raise_the_usual_error() -> None:
    wait = OnceImported("waited_for.nothing", lambda: pytest.fail("it was not loaded"))
    wait.begin()
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'waited_for\.nothing'"):
        importlib.import_module("waited_for.nothing")
