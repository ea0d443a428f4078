"""A process of a trace reports, ends and is killed with all that it started; `test_tracer` runs lectures in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_tools.tracing import process as processes
from trace_tools.tracing.process import OUTPUT_BYTES, WORKER, Process

PROGRAM = """
import json, os, signal, subprocess, sys, time

def say(*message):
    os.write(1, json.dumps(message).encode() + b"\\n")

def interrupted(*_):
    sys.exit(7) if what == "end" else say("goes on")

what = sys.argv[1]
print("printed when Python starts, for example by sitecustomize.py", flush=True)
if what == "look":
    say(os.getsid(0) == os.getpid(), os.getppid(), hash("a word"), os.read(0, 9).decode(), sys.argv[2:])
    print("an error", file=sys.stderr)
    sys.exit(3)
if what == "warn":
    for _ in range(64):
        os.write(2, b"x" * (1 << 20))
    sys.exit("the last line")
if what == "leave":
    say(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
    sys.exit()
if what == "signal":
    os.kill(os.getpid(), 15)
signal.signal(signal.SIGINT, interrupted)
say("waits")
while True:
    time.sleep(60)
"""


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[Any], Process]]:
    """Return a function that follows a process to its end; `act` is called with each message."""
    (tmp_path / "does_as_told.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(*arguments: str, act: Callable[..., object] = lambda *_: None, stopped: Any = None) -> Any:
        messages: list[Any] = []
        with Process("does_as_told", *arguments) as process:
            status = process.follow(
                lambda *message: (messages.append([*message]), act(*message)), stopped or threading.Event()
            )
        return status, messages, process

    return run


def test_a_process_has_its_session_and_two_pipes(followed: Callable[..., Any]) -> None:
    status, [message], process = followed("look", "two words")
    fixed = subprocess.run(
        [sys.executable, "-c", "print(hash('a word'))"], env=processes.environment(), capture_output=True, text=True
    )
    assert (status, process.output) == (3, b"an error\n")
    assert message == [True, os.getpid(), int(fixed.stdout), "", ["two words"]]


def test_the_end_of_a_flood_on_standard_error_is_kept(followed: Callable[..., Any]) -> None:
    status, _, process = followed("warn")
    assert status == 1 and len(process.output) == OUTPUT_BYTES and process.output.endswith(b"xthe last line\n")


def test_ctrl_c_interrupts_and_then_kills(followed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    status, messages, process = followed("end", act=ctrl_c)
    assert (status, messages, process.interrupted) == (7, [["waits"]], True)
    status, messages, process = followed("wait", act=ctrl_c)
    assert (status, messages) == (-signal.SIGKILL, [["waits"], ["goes on"]])
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    status, messages, process = followed("wait", act=lambda said: ctrl_c() if said == "waits" else None)
    assert (status, messages) == (-signal.SIGKILL, [["waits"], ["goes on"]])


def test_a_process_is_killed_when_its_tracer_is_stopped(followed: Callable[..., Any]) -> None:
    stopped = threading.Event()
    status, _, process = followed("wait", act=lambda *_: stopped.set(), stopped=stopped)
    assert (status, process.interrupted) == (-signal.SIGKILL, False)
    assert followed("signal")[0] == -signal.SIGTERM


def test_children_left_behind_are_killed(followed: Callable[..., Any]) -> None:
    status, [[child]], _ = followed("leave")
    stat, deadline = Path("/proc", str(child), "stat"), time.monotonic() + 10
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
    assert status == 0


@pytest.mark.slow
def test_a_process_that_waits_for_requests_ends_with_its_tracer() -> None:
    process = Process(WORKER)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
