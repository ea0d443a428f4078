"""Processes that are spawned and forked end, tell and are killed alike; a lecture in one is `test_supervisor`'s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trace_tools.machines import accelerators, machine
from trace_tools.tracing.processes import FORKS, ForkServer, Running, Spawner, environment

DOES = """
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
    (folder / "does_as_told.py").write_text(DOES)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(folder))
        with ForkServer(environment(), torch=True) if request.param is ForkServer else Spawner() as starter:
            yield starter


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _run(starter: Spawner, output: Path, *arguments: str, telling: int | None = None) -> Running:
    with output.open("wb") as file:
        given = environment() | {"GIVEN": "yes"}
        return starter.start("does_as_told", arguments, file.fileno(), telling, given)


def _status(process: Running) -> int | None:
    _until(lambda: process.ended() is not None)
    return process.ended()


@pytest.mark.slow
def test_a_process_has_what_it_was_given_and_no_more(starter: Spawner, tmp_path: Path) -> None:
    hears, tells = os.pipe()
    with os.fdopen(hears, "rb") as told:
        process = _run(starter, tmp_path / "out", "look", str(tells), "two words", telling=tells)
        os.close(tells)
        assert _status(process) == 3
        assert told.read() == b"told"
    first, second = (tmp_path / "out").read_text().splitlines()
    plain = subprocess.run(
        [sys.executable, "-c", "print(hash('a word'))"], env=environment(), capture_output=True, text=True
    )
    own_session, parent, given, policy, hashed, read, rest, *_, safe = json.loads(first)
    assert (own_session, parent, given, policy) == (True, starter.pid, "yes", os.environ.get("OMP_WAIT_POLICY"))
    assert (hashed, read, rest, safe) == (int(plain.stdout), "", [str(tells), "two words"], True)
    assert second == "an error"


@pytest.mark.slow
def test_an_exception_is_told_with_its_traceback(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "raise")) != 0
    assert (tmp_path / "out").read_text().endswith("SystemError: of its own\n")


def test_a_signal_is_a_negative_status(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "signal", "9")) == -9


@pytest.mark.slow
def test_interrupted_and_killed(starter: Spawner, tmp_path: Path) -> None:
    for end, status, said in ((Running.interrupt, 7, "waits\ninterrupted\n"), (Running.kill, -9, "waits\n")):
        process = _run(starter, tmp_path / "out", "wait")
        _until((tmp_path / "out").read_text)
        assert process.ended() is None
        end(process)
        assert _status(process) == status and (tmp_path / "out").read_text() == said
        end(process)  # which has ended: nothing happens


@pytest.mark.slow
def test_what_a_process_leaves_behind_is_killed(starter: Spawner, tmp_path: Path) -> None:
    assert _status(_run(starter, tmp_path / "out", "leave")) == 0
    left = Path("/proc", (tmp_path / "out").read_text().strip(), "stat")
    _until(lambda: not left.exists() or left.read_text().split()[2] == "Z")


@pytest.mark.slow
def test_many_at_once(starter: Spawner, tmp_path: Path) -> None:
    statuses = [str(number) for number in (9, 15)] * 4
    processes = [_run(starter, tmp_path / f"{n}", "signal", s) for n, s in enumerate(statuses)]
    assert [_status(process) for process in processes] == [-int(status) for status in statuses]


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="forks on Linux only")
def test_a_server_takes_what_it_has_forked_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "does_as_told.py").write_text(DOES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = ForkServer(environment(), torch=True)
    process = _run(server, tmp_path / "out", "wait")
    _until((tmp_path / "out").read_text)
    server.stop()
    assert not server.alive and _status(process) == -9
    _until(lambda: not Path("/proc", str(process.pid)).exists())
    with pytest.raises(OSError):
        _run(server, tmp_path / "out", "wait")


def test_each_process_of_a_trace_chooses_sizes_by_the_same_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two passes another program, or the system's cache of files, takes memory: sizes stay what they were."""
    monkeypatch.delenv(machine.FREE, raising=False)
    stored = tmp_path / "machine.json"
    assert machine.FREE not in environment(stored), "on a CPU nothing is written"
    (tmp_path / machine.FREE_FILE).write_text(str(31 * 10**9))
    given = environment(stored)
    monkeypatch.setenv(machine.FREE, given[machine.FREE])
    monkeypatch.setattr(machine, "device", lambda: "cuda")
    monkeypatch.setattr(accelerators.CudaGpu, "memory_info", lambda self: (29 * 10**9, 80 * 10**9))
    assert machine.free_bytes() == 31 * 10**9
