"""`site`: what the command line says; `tests/pages/test_static_site.py` has the files."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.pages.site import render_folder
from trace_tools.trace.trace_file import write


def test_it_says_what_it_collected_and_changes_nothing_the_second_time(tmp_path: Path) -> None:
    (tmp_path / "rendered" / "cpu").mkdir(parents=True)
    write(example_trace(), tmp_path / "rendered" / "cpu" / "trace.yaml")
    render_folder(tmp_path / "rendered")
    out = tmp_path / "site"
    command = ["site", str(tmp_path / "rendered"), "-o", str(out), "--url", "https://example.org"]
    said = [CliRunner().invoke(main, command).stdout]
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    said.append(CliRunner().invoke(main, command).stdout)
    pages = len([*out.rglob("*.html")])
    assert said[0] == said[1] and said[0].startswith(f"{out}: {pages} pages, ")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == written


def test_the_address_is_asked_for(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["site", str(tmp_path)])
    assert ran.exit_code == 2 and "--url" in ran.stderr
