"""`site`: its output on the command line; `tests/pages/test_static_site.py` tests its files."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.pages.site import render_folder
from trace_tools.trace.trace_file import write


def test_site_reports_its_pages_and_is_not_rewritten(tmp_path: Path) -> None:
    (tmp_path / "rendered" / "cpu").mkdir(parents=True)
    write(example_trace(), tmp_path / "rendered" / "cpu" / "trace.yaml")
    render_folder(tmp_path / "rendered")
    out = tmp_path / "site"
    command = ["site", str(tmp_path / "rendered"), "-o", str(out), "--url", "https://example.org"]
    outputs = [CliRunner().invoke(main, command).stdout]
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    outputs.append(CliRunner().invoke(main, command).stdout)
    pages = len([*out.rglob("*.html")])
    assert outputs[0] == outputs[1] and outputs[0].startswith(f"{out}: {pages} pages, ")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == written


def test_site_needs_an_address(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["site", str(tmp_path)])
    assert result.exit_code == 2 and "--url" in result.stderr
