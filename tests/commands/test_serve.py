from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trace_tools.cli import main
from trace_tools.commands.serve import _show
from trace_tools.errors import UsageError
from trace_tools.live.session import Status
from trace_tools.tracing.options import TraceOptions


def serve(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["serve", "--no-open", *arguments])
    return result.exit_code, result.stderr


def test_a_used_port_is_a_one_line_error(tmp_path: Path) -> None:
    from trace_tools.live.server import listening

    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    with listening(0) as taken:
        port = taken.getsockname()[1]
        code, output = serve(str(tmp_path / "lecture.py"), "--port", str(port))
    assert (code, output.count("\n")) == (2, 1) and f"port {port} of 127.0.0.1: address already in use" in output


def test_a_lecture_is_served_as_drafts_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(lecture: Path, out: Path, options: TraceOptions, show: object) -> None:
        raise UsageError(f"{out.is_dir()} {options.draft} {options.force} {options.device}")

    monkeypatch.setattr("trace_tools.live.session.Session", refused)
    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    for _ in range(2):
        served = serve(str(tmp_path / "lecture.py"), "--port", "0", "-o", str(tmp_path / "out"))
        assert served == (2, "error: True True True cpu\n")


def test_problems_are_printed_once_the_pages_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    for doing in ("pass 1", ""):
        _show(Status(doing=doing, problems=("lecture.py:1: no",)))
    assert capsys.readouterr().err == "lecture.py:1: no\n"
