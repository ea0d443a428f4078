"""A process of a trace reports, ends and is killed with all that it started; `test_tracer` runs lectures in them."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_tools.tracing import process as processes
from trace_tools.tracing import progress
from trace_tools.tracing.process import OUTPUT_BYTES, UNFIT, WORKER, Process
from trace_tools.tracing.progress import Progress, ProgressSender

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

        def show(*message: Any) -> None:
            messages.append([*message])
            act(*message)

        with Process("does_as_told", *arguments) as process:
            status = process.follow(show, stopped or threading.Event())
        return status, messages, process

    return run


def test_a_process_has_its_session_and_two_pipes(followed: Callable[..., Any]) -> None:
    status, [message], process = followed("look", "two words")
    fixed = subprocess.check_output([sys.executable, "-c", "print(hash('a word'))"], env=processes.environment())
    assert (status, process.output) == (3, b"an error\n")
    assert message == [True, os.getpid(), int(fixed), "", ["two words"]]


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


def test_interpreter_variables_do_not_change_exit_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNFIT:
        monkeypatch.setenv(name, "1")
    command = [sys.executable, "-c", "import sys; assert sys.exit(3), 'kept'"]
    completed = subprocess.run(command, env=processes.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert (completed.returncode, completed.stderr) == (3, b"")


def test_full_disk_is_reported_in_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    command = [sys.executable, "-m", "trace_tools.tracing.survey", str(path), "cpu", "measure"]
    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )  # fmt: skip
    assert (completed.returncode, completed.stderr) == (2, f"{path}: can't be written: File too large\n")
    assert not list(tmp_path.iterdir())


def test_a_message_in_words() -> None:
    of = "pass 1", "matmul"
    messages = [Progress("survey"), Progress(*of, 42), Progress(*of, 42, 30), Progress("pass 1", "start", None, 11)]
    assert [message.where for message in messages] == [
        "", "matmul", "matmul, line 42 for 30 s", "start, nothing new for 11 s",
    ]  # fmt: skip


def test_a_stalled_process_reports_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each section is sent once, and each second the line, if for ten seconds there was no other one and no step."""
    read_end, write_end = os.pipe()
    now, lines = [0.0], {4: 7, 25: 8, 26: 7}
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    position = SimpleNamespace(sequence=itertools.count().__next__, line=lambda path: lines.get(int(now[0]), 8))
    sender = ProgressSender(write_end)
    report = sender.reporting(position, "lecture.py")  # type: ignore[arg-type]
    for section in ("cold", "train", "train"):
        sender.enter(section)
    for now[0] in (1.0, 1.5, 4.0, 5.0, 14.0, 15.0, 16.0, 25.0, 26.0, 30.0, 40.0):
        if now[0] == 40.0:
            position.sequence()  # a step
        report()
    sender.forget()
    sender.enter("in the child of a fork")
    os.close(write_end)
    with os.fdopen(read_end) as messages:
        assert [json.loads(line) for line in messages] == [
            ["cold"], ["train"], ["train", 8, 10], ["train", 8, 11], ["train", 8, 20],
        ]  # fmt: skip
