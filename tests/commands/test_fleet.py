"""`fleet` from the command line: exit codes, output and pages."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from tests.messages import says
from tests.programs import PYTHON, require
from trace_tools.cli import main
from trace_tools.commands.fleet import LOGGED, _MachineLines
from trace_tools.tracing.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "def main():\n    one()\ndef one():\n    x = 1  # @inspect x\n    assert x == 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lecture.py").write_text(PLAIN)
    return tmp_path


def fleet(machines: list[str], *arguments: str) -> Result:
    require("sh", "tar", "gzip")
    remote_folder = Path("there").absolute()
    lines = [
        f"- {{engine: local, folder: {remote_folder}, python: {json.dumps(PYTHON)}, {machine}}}\n"
        for machine in machines
    ]
    Path("machines.yaml").write_text("machines:\n" + "".join(lines))
    return CliRunner().invoke(main, ["fleet", "machines.yaml", "lecture.py", "--passes", "1", *arguments])


@pytest.mark.slow
def test_fleet_writes_pages_and_differences() -> None:
    result = fleet(["name: one", "name: two"])
    assert result.exit_code == 0, result.output
    assert "diff/index.html" in Path("rendered/index.html").read_text()
    assert Path("rendered/one/index.html").is_file() and Path("rendered/two/trace.yaml").is_file()
    second_result = fleet(["name: one", "name: two"])
    assert second_result.exit_code == 0 and second_result.stderr.count("(already up to date)") == 2


@pytest.mark.slow
def test_failed_machine_does_not_prevent_the_others_pages() -> None:
    Path("no").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    Path("no").chmod(0o755)
    result = fleet(["name: one", "name: two"])
    text = Path("machines.yaml").read_text()
    broken = json.dumps(shlex.quote(str(Path("no").absolute())))
    Path("machines.yaml").write_text(text.replace(f"{json.dumps(PYTHON)}, name: two", f"{broken}, name: two"))
    result = CliRunner().invoke(main, ["fleet", "machines.yaml", "lecture.py", "--passes", "1", "--again"])
    assert result.exit_code == 2
    assert "two: broken" in result.stderr and "no trace from two" in result.stderr
    assert "rendered/index.html" in result.stdout


@pytest.mark.slow
def test_failed_claim_gives_exit_code_1() -> None:
    Path("lecture.py").write_text(PLAIN.replace("x == 1", "x == 2"))
    result = fleet(["name: one"], "--keep-going")
    assert result.exit_code == 1 and "one: lecture.py:5: claim failed: x == 2" in result.stderr


def test_bad_input_is_a_one_line_error() -> None:
    result = fleet(["name: one", "name: one"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1) and not Path("rendered").exists()
    result = fleet(["name: one"], "--machine", "two")
    assert result.exit_code == 2 and says(result.stderr, "--machine two", "machines.yaml", "one")


def test_progress_lines_fit_the_terminal() -> None:
    code = """if True:
        import time
        from trace_tools.commands.fleet import Progress, _MachineLines
        show = _MachineLines()
        show.update("one", Progress("connecting"))
        for number in range(9):
            show.update(f"m{number}", Progress("connecting"))
        show.update("one", Progress("pass 1", "行列" * 30))
        time.sleep(1)
        show.ended("two: rendered/two/" + "long" * 10)
        show.done()"""
    reading_end, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 30, 0, 0))
    environment = {**os.environ, "TERM": "xterm"} | dict.fromkeys(("COLUMNS", "LINES"), "")
    subprocess.run([sys.executable, "-c", code], stderr=terminal, env=environment, cwd=ROOT, check=True)
    os.close(terminal)
    output = os.read(reading_end, 100_000).decode()
    os.close(reading_end)
    progress, remaining = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r", "\n").split("two:")
    lines = [line for line in progress.splitlines() if line]
    assert max(map(cell_len, lines)) <= 30, "a line wider than the terminal takes two rows, and one of them stays"
    assert "one: pass 1: 行列" in progress and max(len(part) for part in re.findall(r"(?:\x1b\[1A)+", output)) <= 4 * 6
    assert f" rendered/two/{'long' * 10}\n" in remaining


def test_logged_lines_per_machine_are_limited(capsys: pytest.CaptureFixture[str]) -> None:
    show = _MachineLines()
    for number in range(3 * LOGGED):
        show.update("one", Progress(f"pass {number}", "here"))
    show.update("two", Progress("pass 1", "there"))
    assert capsys.readouterr().err.splitlines()[-2:] == [f"one: pass {LOGGED - 1}", "two: pass 1"]
