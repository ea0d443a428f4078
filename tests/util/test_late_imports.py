"""A module is waited for, and is what it is without anybody who waits; a plain import is the oracle."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_tools.util.late_imports import OnceImported


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
