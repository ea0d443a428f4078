from __future__ import annotations

import threading
from pathlib import Path

import pytest
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


@pytest.mark.parametrize("threads", [0, 1])
def test_refused_thread_is_a_one_line_error(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    """The system refuses the server's thread (0) or the first tracer's thread (1)."""
    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    start, started = threading.Thread.start, []

    def refused(self: threading.Thread) -> None:
        if len(started) == threads:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)
    code, output = serve(str(tmp_path / "lecture.py"), "--port", "0", "-o", str(tmp_path / "out"))
    assert (code, output.splitlines()[-1]) == (2, "error: can't start new thread") and "Traceback" not in output
    assert [thread.name for thread in started] == ["server"] * threads
