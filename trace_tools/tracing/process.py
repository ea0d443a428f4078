"""Start a process of a trace, follow it, and end it with everything that it started.

    with Process(WORKER, str(folder), "pass-1") as process:
        status = process.follow(show, stopped)      # negative for a signal; `show` receives its messages
        process.output                              # the end of what it printed to standard error

A process leads a session of its own, so Ctrl-C in the terminal reaches only the tracer. It has two pipes: messages on
its standard output, as lines of JSON; and its standard error, but only its end is kept, because a warning in a loop
could fill a disk.

The process of a draft is started at once, without arguments. It imports torch while the tracer imports the tools, and
then waits for its requests. So torch is imported once for the description of the machine and for the lecture, and
`serve` waits for no import, because it starts the process of the next run after each one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trace_tools.errors import TraceToolsError
from trace_tools.machines import devices
from trace_tools.source.imports import imported, needs_torch
from trace_tools.source.statements import read_source
from trace_tools.tracing.options import TraceOptions

WORKER, SURVEY = "trace_tools.tracing.worker", "trace_tools.tracing.survey"
PYTHON = (sys.executable, "-P", "-X", "faulthandler", "-m")
# Interpreter settings that would remove asserts (claims), keep a process from ending, or write after the last line, in
# which a process reports its error.
UNFIT = ("PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME")
OUTPUT_BYTES = 1 << 16  # most bytes kept of the standard error, from its end
GRACE_S = 5.0  # time for a process to end after Ctrl-C


class Process(subprocess.Popen[bytes]):
    """A process of a trace. Raises OSError if the system refuses to start it; it is killed when its block ends."""

    def __init__(self, module: str, *arguments: str, **variables: str) -> None:
        super().__init__(
            [*PYTHON, module, *arguments],
            stdin=subprocess.DEVNULL if arguments else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment() | variables,
            start_new_session=True,
            bufsize=0,
        )
        assert self.stdout is not None and self.stderr is not None
        self.output = b""  # the end of its standard error
        self.interrupted = False
        self._gone = False
        self._received = b""  # the beginning of a message
        self._open = {self.stdout.fileno(), self.stderr.fileno()}

    def __exit__(self, *_: Any) -> None:
        self.kill()
        super().__exit__(None, None, None)
        self._gone = True

    def kill(self) -> None:
        """Kill the process and all processes that it started, also after its own end."""
        if not self._gone:  # later, its number may be another's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def request(self, *request: str) -> None:
        """Send a request to a process that waits for it."""
        assert self.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its status will show that
            self.stdin.write(json.dumps(request).encode() + b"\n")

    def follow(self, show: Callable[..., object], stopped: threading.Event) -> int:
        """Show messages until the process has ended, or has answered a request; return its status or the answer.

        A first Ctrl-C interrupts the process, and a second one kills it; `stopped` kills it at once.
        """
        deadline = None
        while True:
            try:
                ended = self.poll()
                for message in self._messages():  # read after `poll`, so that nothing is missed
                    if isinstance(message, dict):
                        return int(message["status"])
                    show(*message)
                if ended is not None:
                    return ended
                if stopped.is_set() or (deadline is not None and time.monotonic() > deadline):
                    self.kill()
            except KeyboardInterrupt:
                self.interrupted = True
                if deadline is not None:
                    self.kill()
                deadline = time.monotonic() + GRACE_S
                self.send_signal(signal.SIGINT)

    def _messages(self) -> list[Any]:
        """Wait a moment for output, and return the messages in it."""
        assert self.stdout is not None
        lines: list[bytes] = []
        for pipe in select.select(self._open, [], [], 0.05 if self._open else 0.005)[0]:
            content = os.read(pipe, 1 << 20)
            if not content:  # nobody can write to it any more
                self._open.remove(pipe)
            elif pipe == self.stdout.fileno():
                *lines, self._received = (self._received + content).split(b"\n")
            else:
                self.output = (self.output + content)[-OUTPUT_BYTES:]
        return [json.loads(line) for line in lines if line[:1] in (b"[", b"{")]  # Python's start may print others


def started_early(lecture: Path, options: TraceOptions) -> Process | None:
    """Start the process of a draft, if the lecture needs torch, to import it in the meantime.

    Not for a numbered GPU, which `survey` must choose before the others are hidden; and on Linux only, because
    elsewhere the system's libraries don't survive the fork that describes the machine.
    """
    if not options.draft or options.package or ":" in (options.device or "") or sys.platform != "linux":
        return None
    with suppress(TraceToolsError, OSError):  # the tracer will meet the same error and report it
        if needs_torch(imported(read_source(lecture), lecture.resolve().parent)):
            return Process(WORKER, **(devices.environment("cpu") if options.device == "cpu" else {}))
    return None


def environment() -> dict[str, str]:
    """Return the environment of the processes: fixed hashing, and this package on the path."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    variables = {name: value for name, value in os.environ.items() if name not in UNFIT}
    return {**variables, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
