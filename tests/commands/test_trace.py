"""`trace` where it can't begin; `tests/tracing/test_tracer.py` has what it does then."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trace_tools.cli import main
from trace_tools.machines.devices import FORMS

BAD = {
    "no main": ("x = 1\n", [], "lecture.py: defines no function `main`"),
    "syntax": ("def main():\n    x = = 1\n", [], "lecture.py:2: not valid Python: invalid syntax"),
    "directive": ("def main():\n    x = 1  # @inpsect x\n", [], "lecture.py:2: unknown directive `@inpsect`"),
    "section": ("def main():\n    one()\ndef one(): pass\n", ["--only", "two"], "--only two: main calls no such"),
    "device": ("def main(): pass\n", ["--device", "cuda"], "no CUDA device"),
    "no such kind": ("def main(): pass\n", ["--device", "tpu"], f"error: device 'tpu'; expected {FORMS}"),
    "seed": ("def main(): pass\n", ["--seed", str(2**64)], "expected a whole number of 64 bits"),
    "negative seed": ("def main(): pass\n", ["--seed", str(-(2**63) - 1)], "expected a whole number of 64 bits"),
    "no seed": ("def main(): pass\n", ["--seed", "x"], "error: --seed x: expected a whole number of 64 bits"),
    "passes": ("def main(): pass\n", ["--passes", "0"], "Invalid value for '--passes'"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> Path:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace(source: str | None, *arguments: str) -> Result:
    if source is not None:
        Path("lecture.py").write_text(source, encoding="utf-8")
    return CliRunner().invoke(main, ["trace", "lecture.py", *arguments])


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, folder: Path) -> None:
    source, arguments, message = BAD[case]
    ran = trace(source, *arguments)
    assert ran.exit_code == 2 and isinstance(ran.exception, SystemExit)
    assert message in ran.stderr.splitlines()[-1]
    assert not list(folder.glob("rendered/*"))


def test_a_missing_lecture_and_an_unwritable_folder(folder: Path) -> None:
    ran = trace(None)
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert "lecture.py: can't be read: No such file" in ran.stderr
    (folder / "taken").write_text("a file", encoding="utf-8")
    ran = trace("def main(): pass\n", "-o", "taken")
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1) and "taken: can't be written" in ran.stderr
