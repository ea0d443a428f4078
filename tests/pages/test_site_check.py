from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pages.lectures import LECTURE, lecture
from trace_tools.cli import main
from trace_tools.errors import UsageError
from trace_tools.pages.site import stale_files
from trace_tools.trace import file as trace_file
from trace_tools.trace.model import Machine

TRACES = ["rendered/cpu/trace.yaml", "rendered/other/trace.yaml"]


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create two machines with their pages and the reports that compare them, as `make render` does."""
    monkeypatch.chdir(tmp_path)
    other = replace(lecture().trace(), machine=Machine("Another", "other", "cpu"))
    for path, trace in zip(TRACES, (lecture().trace(), other), strict=True):
        Path(path).parent.mkdir(parents=True)
        trace_file.write(trace, Path(path))
    Path("lecture.py").write_text(LECTURE)
    Path("rendered/picture.png").write_text("put there by hand")
    assert CliRunner().invoke(main, ["render", *TRACES], catch_exceptions=False).exit_code == 0
    return Path("rendered")


def check() -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["render", "--check", *TRACES])
    return result.exit_code, result.stderr.splitlines()


def test_up_to_date_pages_pass_and_nothing_is_written(site: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    assert check() == (0, [])
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before


def test_each_kind_of_difference_is_reported(site: Path) -> None:
    (site / "cpu" / "00-first.md").write_text("by hand")
    (site / "cpu" / "07-gone.html").write_text("of a section that is no more")
    (site / "index.html").unlink()
    (site / "diff" / "index.md").write_text("by hand")
    (site / "extra.html").write_text("by hand")
    code, lines = check()
    assert code == 1
    assert lines[:-1] == [
        "rendered/cpu/00-first.md: differs",
        "rendered/cpu/07-gone.html: not made from any of these traces",
        "rendered/diff/index.md: differs",
        "rendered/extra.html: not made from any of these traces",
        "rendered/index.html: missing",
    ]
    assert "trace-tools render" in lines[-1]


def test_what_makes_pages_stale(site: Path) -> None:
    os.rename(site / "other", site / "third")
    stale = {line.split(": ")[0] for line in stale_files(site)}
    assert stale >= {"rendered/index.html", "rendered/index.md", "rendered/machines.js"}
    assert not [name for name in stale if name.startswith(("rendered/cpu/", "rendered/third/"))]
    Path("lecture.py").write_text(LECTURE.replace('text("Hello.")', 'text("Good day.")'))
    assert {line.split(": ")[0] for line in stale_files(site)} >= {"rendered/cpu/00-first.html"}


def test_missing_traces_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no traces; expected \*/trace.yaml"):
        list(stale_files(tmp_path / "nothing"))
    result = CliRunner().invoke(main, ["render", "--check", *TRACES, "rendered/cpu/typo.yaml"])
    assert (result.exit_code, result.stderr) == (2, "error: rendered/cpu/typo.yaml: no such trace\n")
