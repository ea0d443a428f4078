"""Start the processes of a trace, each first in its own session: as new processes, or forked from a server.

with Spawner() as starter:              # or ForkServer(environment, torch=True): imports torch in the meantime
    process = starter.start("trace_tools.tracing.worker", [path], output, progress, environment)
    process.ended()                     # its status, negative for a signal; None while it runs
    process.interrupt(); process.kill()
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from trace_tools.errors import FailedError, UsageError
from trace_tools.machines import devices, host
from trace_tools.machines.machine import STORED

PYTHON = (sys.executable, "-P", "-X", "faulthandler", "-m")
OURS = str(Path(__file__).parents[1])
FORKS = sys.platform == "linux"  # on other systems, the system's libraries don't survive a fork
# Interpreter settings that would remove asserts (claims), keep a process from ending, or write after the last line, in
# which a process reports its error.
UNFIT = ("PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME")
# Waiting threads sleep. Otherwise the threads of two processes on as many cores would wait for each other.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


class NotStartedError(FailedError):
    """A process of the tools ended before its work began; `output` is its printed text, usually a traceback."""

    def __init__(self, output: str) -> None:
        super().__init__(f"trace-tools failed: {output.strip().splitlines()[-1]}")
        self.output = output


class Running:
    """A running process."""

    pid: int

    def ended(self) -> int | None:
        """Return the status of the process, or None while it runs. The rest of its session is killed when it ends."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Send the signal of Ctrl-C."""
        if self.ended() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self.ended() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


class Spawner:
    """Starts each process as a new one."""

    def __init__(self) -> None:
        self.pid = os.getpid()  # parent of the started processes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(
        self, module: str, arguments: Sequence[str], output: int, progress: int | None, environment: Mapping[str, str]
    ) -> Running:
        """Run `main` of a module, with its output going to a descriptor.

        `progress` is the descriptor for its progress, if it reports any.

        Raises OSError if no process can be started, UsageError if an import that it needs fails.
        """
        return _Spawned(
            subprocess.Popen(
                [*PYTHON, module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                pass_fds=[] if progress is None else [progress],
                start_new_session=True,  # Ctrl-C then reaches only this process, which forwards it
            )
        )


class _Spawned(Running):
    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self._started = started
        self.pid = started.pid

    def ended(self) -> int | None:
        if self._started.returncode is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)  # kill its leftovers before its process id is reused
        return self._started.wait()


ENDING_S = 5.0  # limit for a process to end after it closed its socket


class ForkServer(Spawner):
    """Forks each process from a server that has imported the needed modules.

    The server ends when the `with` block is left, or with this process.
    """

    def __init__(self, environment: Mapping[str, str], *, torch: bool) -> None:
        self._asking, theirs = socket.socketpair()
        self._imports = "torch" if torch else "plain"
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # until `close`
        with theirs:
            self._server = subprocess.Popen(
                [*PYTHON, "trace_tools.tracing.fork_server", str(theirs.fileno()), self._imports],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**PASSIVE, **environment},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._server.pid

    @property
    def alive(self) -> bool:
        """Return whether the server can still fork."""
        return self._server.poll() is None

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server, even during its imports. Forked processes notice that their parent has ended."""
        self._asking.close()
        self._server.kill()
        self._server.wait()
        self._errors.close()

    def start(
        self, module: str, arguments: Sequence[str], output: int, progress: int | None, environment: Mapping[str, str]
    ) -> Running:
        own, theirs = socket.socketpair()
        sent = output if progress is None else progress
        request = {"module": module, "arguments": [*arguments], "progress": progress, "environment": dict(environment)}
        try:
            with theirs:
                socket.send_fds(self._asking, [b"f"], [theirs.fileno(), output, sent])
            own.sendall(json.dumps(request).encode() + b"\n")
            return _Forked(own)
        except OSError as error:
            own.close()
            if isinstance(error, ConnectionError):  # the server is about to end; afterwards its output is complete
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._server.wait(ENDING_S)
            self._refuse_if_ended()
            raise

    def _refuse_if_ended(self) -> None:
        """Raise the last error of the server if it has ended.

        Raises UsageError if torch can't be imported, else NotStartedError.
        """
        if not self.alive and not self._errors.closed:
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace")
            if lines := text.strip().splitlines():
                entries = [line for line in lines if line.startswith("  File ")]
                if self._imports == "torch" and not (entries and OURS in entries[-1]):
                    raise UsageError(f"{lines[-1]}; {devices.INSTALL}")
                raise NotStartedError(text)


class _Forked(Running):
    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._received = b""
        self._status: int | None = None
        while b"\n" not in self._received:
            if not (received := own.recv(64)):
                raise ConnectionError("the fork server has ended")
            self._received += received
        first, self._received = self._received.split(b"\n", 1)
        self.pid = int(first)

    def ended(self) -> int | None:
        while self._status is None and select.select([self._own], [], [], 0)[0]:
            received = self._own.recv(64)
            self._received += received
            if b"\n" in self._received or not received:
                self._own.close()
                if not received:  # the server has ended, so this process must be ended here
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                self._status = int(self._received or -signal.SIGKILL)
        return self._status


def environment(stored: Path | None = None, device: str | None = None) -> dict[str, str]:
    """Return the environment of child processes: fixed hashing, this package on the path, the measured machine."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    variables = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
    for name in UNFIT:
        variables.pop(name, None)
    if stored is not None:
        variables[STORED] = str(stored)
        with contextlib.suppress(OSError):  # absent in a run that copies another one's machine
            variables[host.IDENTITY] = stored.with_name(host.IDENTITY_FILE).read_text(encoding="utf-8")
    return variables | devices.environment(device)
