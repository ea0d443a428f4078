from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from trace_tools.cli import main


def serve(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["serve", "--no-open", *arguments])
    return result.exit_code, result.stderr


def test_missing_lecture_and_used_port_are_one_line_errors(tmp_path: Path) -> None:
    from trace_tools.live.server import listening

    code, output = serve(str(tmp_path / "absent.py"))
    assert (code, output.count("\n")) == (2, 1) and "absent.py: can't be read: no such file" in output
    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    with listening(0) as taken:
        port = taken.getsockname()[1]
        code, output = serve(str(tmp_path / "lecture.py"), "--port", str(port))
    assert (code, output.count("\n")) == (2, 1) and f"port {port} of 127.0.0.1: address already in use" in output
