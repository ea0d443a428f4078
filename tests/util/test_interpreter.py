"""Whether the collector runs is asked of Python itself."""

from __future__ import annotations

import gc
import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from trace_tools.util.interpreter import OnceImported, collector_paused, replaced


def test_it_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


# --- replaced attributes --------------------------------------------------------------------------


def test_it_is_as_mock_does_it() -> None:
    for replace in (replaced, mock.patch.object):
        before = math.sqrt
        with pytest.raises(ValueError, match="inside"), replace(math, "sqrt", len):
            assert math.sqrt is len
            raise ValueError("inside")
        assert math.sqrt is before


def test_what_is_not_there_is_no_place_for_another() -> None:
    with pytest.raises(AttributeError), replaced(math, "nothing_of_that_name", len):
        pass


# --- A module is waited for, and is what it is without anybody who waits; a plain import is the oracle ---


@pytest.fixture(autouse=True)
def waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "waited_for").mkdir()
    (tmp_path / "waited_for" / "__init__.py").write_text("ready = False\nready = True\n", encoding="utf-8")
    (tmp_path / "waited_for" / "part.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


def test_it_is_called_once_the_module_is_whole() -> None:
    seen: list[object] = []
    wait = OnceImported("waited_for", lambda: seen.append(vars(sys.modules["waited_for"]).get("ready")))
    wait.begin()
    part = importlib.import_module("waited_for.part")
    assert seen == [True]
    assert "exec_module" not in vars(part.__loader__) | vars(sys.modules["waited_for"].__loader__)
    importlib.import_module("waited_for")
    assert seen == [True]


def test_two_wait_for_one_and_one_no_longer() -> None:
    seen: list[str] = []
    waits = [OnceImported("waited_for", lambda name=name: seen.append(name)) for name in "abc"]  # type: ignore[misc]
    for wait in waits:
        wait.begin()
    waits[1].end()
    importlib.import_module("waited_for")
    assert sorted(seen) == ["a", "c"]


def test_a_module_that_is_not_there_raises_as_ever() -> None:
    wait = OnceImported("waited_for.nothing", lambda: pytest.fail("it was not loaded"))
    wait.begin()
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'waited_for\.nothing'"):
        importlib.import_module("waited_for.nothing")
