"""Spawned and forked processes report, end and are killed alike; `test_supervisor` runs lectures in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trace_tools.tracing.processes import FORKS, ForkServer, Running, Spawner, environment

PROGRAM = """
import json, os, signal, subprocess, sys, time
import torch

def main(*arguments):
    what, *rest = arguments
    if what == "look":
        print(json.dumps([
            os.getsid(0) == os.getpid(), os.getppid(), os.environ.get("GIVEN"), os.environ.get("OMP_WAIT_POLICY"),
            hash("a word"), os.read(0, 9).decode(), rest, sorted(os.listdir("/proc/self/fd"))[:3], sys.flags.safe_path,
        ]), flush=True)
        os.write(int(rest[0]), b"told")
        print("an error", file=sys.stderr)
        return 3
    if what == "raise":
        raise SystemError("of its own")
    if what == "leave":
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
        return 0
    if what == "signal":
        os.kill(os.getpid(), int(rest[0]))
    try:
        print("waits", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted")
        return 7

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module", params=[Spawner, ForkServer])
def starter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    if request.param is ForkServer and not FORKS:
        pytest.skip("forks on Linux only")
    folder = tmp_path_factory.mktemp("modules")
    (folder / "does_as_told.py").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(folder))
        with ForkServer(environment(), torch=True) if request.param is ForkServer else Spawner() as starter:
            yield starter


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _run(starter: Spawner, output: Path, *arguments: str, message_pipe: int | None = None) -> Running:
    with output.open("wb") as file:
        variables = environment() | {"GIVEN": "yes"}
        return starter.start("does_as_told", arguments, file.fileno(), message_pipe, variables)


def _status(process: Running) -> int | None:
    _until(lambda: process.ended() is not None)
    return process.ended()


@pytest.mark.slow
def test_processes_get_only_the_given_environment_and_files(starter: Spawner, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as messages:
        process = _run(starter, tmp_path / "out", "look", str(write_end), "two words", message_pipe=write_end)
        os.close(write_end)
        assert _status(process) == 3
        assert messages.read() == b"told"
    first, second = (tmp_path / "out").read_text().splitlines()
    plain = subprocess.run(
        [sys.executable, "-c", "print(hash('a word'))"], env=environment(), capture_output=True, text=True
    )
    own_session, parent, variable, policy, text_hash, stdin, arguments, *_, safe = json.loads(first)
    assert (own_session, parent, variable, policy) == (True, starter.pid, "yes", os.environ.get("OMP_WAIT_POLICY"))
    assert (text_hash, stdin, arguments, safe) == (int(plain.stdout), "", [str(write_end), "two words"], True)
    assert second == "an error"


@pytest.mark.slow
def test_uncaught_exceptions_are_printed(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "raise")) != 0
    assert (tmp_path / "out").read_text().endswith("SystemError: of its own\n")


@pytest.mark.slow
def test_death_by_signal_is_a_negative_status(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "signal", "9")) == -9


@pytest.mark.slow
def test_processes_can_be_interrupted_and_killed(starter: Spawner, tmp_path: Path) -> None:
    for end, status, output in ((Running.interrupt, 7, "waits\ninterrupted\n"), (Running.kill, -9, "waits\n")):
        process = _run(starter, tmp_path / "out", "wait")
        _until((tmp_path / "out").read_text)
        assert process.ended() is None
        end(process)
        assert _status(process) == status and (tmp_path / "out").read_text() == output
        end(process)  # no effect, since the process has ended


@pytest.mark.slow
def test_child_processes_left_behind_are_killed(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "leave")) == 0
    child_stat = Path("/proc", (tmp_path / "out").read_text().strip(), "stat")
    _until(lambda: not child_stat.exists() or child_stat.read_text().split()[2] == "Z")


@pytest.mark.slow
def test_many_processes_run_at_once(starter: Spawner, tmp_path: Path) -> None:
    statuses = [str(number) for number in (9, 15)] * 4
    processes = [_run(starter, tmp_path / f"{n}", "signal", s) for n, s in enumerate(statuses)]
    assert [_status(process) for process in processes] == [-int(status) for status in statuses]


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="forks on Linux only")
def test_stopping_the_server_kills_its_forked_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "does_as_told.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = ForkServer(environment(), torch=True)
    process = _run(server, tmp_path / "out", "wait")
    _until((tmp_path / "out").read_text)
    server.stop()
    assert not server.alive and _status(process) == -9
    _until(lambda: not Path("/proc", str(process.pid)).exists())
    with pytest.raises(OSError):
        _run(server, tmp_path / "out", "wait")
