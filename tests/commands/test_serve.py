from __future__ import annotations

import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from trace_tools.cli import main


def serve(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, ["serve", "--no-open", *arguments])
    return ran.exit_code, ran.stderr


def test_a_missing_lecture_and_a_port_in_use_are_one_line(tmp_path: Path) -> None:
    from trace_tools.live.server import listening

    code, said = serve(str(tmp_path / "absent.py"))
    assert (code, said.count("\n")) == (2, 1) and "absent.py: can't be read: no such file" in said
    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    with listening(0) as taken:
        port = taken.getsockname()[1]
        code, said = serve(str(tmp_path / "lecture.py"), "--port", str(port))
    assert (code, said.count("\n")) == (2, 1) and f"port {port} of 127.0.0.1: address already in use" in said


@pytest.mark.parametrize("threads", [0, 1])
def test_a_thread_that_the_system_refuses_is_one_line(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    """That of the server, or of the first tracer."""
    (tmp_path / "lecture.py").write_text("def main(): pass\n")
    start, started = threading.Thread.start, []

    def refused(self: threading.Thread) -> None:
        if len(started) == threads:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refused)
    code, said = serve(str(tmp_path / "lecture.py"), "--port", "0", "-o", str(tmp_path / "out"))
    assert (code, said.splitlines()[-1]) == (2, "error: can't start new thread") and "Traceback" not in said
    assert [thread.name for thread in started] == ["server"] * threads
