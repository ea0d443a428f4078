"""The processes of a trace, each the first of a session of its own: started by themselves, or forked from one that is.

with Spawner() as starter:              # or ForkServer(environment): imports torch, while one does other things
    process = starter.start("trace_tools.tracing.child", [path], output, telling, environment)
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
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from trace_tools.errors import UsageError
from trace_tools.machines import devices, host, torch_build
from trace_tools.machines.machine import STORED

PYTHON = (sys.executable, "-P", "-X", "faulthandler", "-m")
TORCHRUN = "trace_tools.tracing.torchrun"
LEADING_S = 40.0  # torchrun waits 30 s for its ranks before it kills them
FORKS = sys.platform == "linux"  # elsewhere the system's own libraries don't survive a fork
# Of the interpreter's settings, those that take asserts away, which are claims; that keep a process from ending; and
# that write where a process says in its last line what went wrong.
UNFIT = ("PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME")
# Threads that wait do so asleep: those of two processes at once, on as many cores, would else wait for each other.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}


class Running:
    """A process at work."""

    pid: int

    def ended(self) -> int | None:
        """Return its status once it has ended, and what it left in its session has been killed; else None."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Send it what Ctrl-C sends."""
        if self.ended() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill it and those that it started."""
        if self.ended() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


class Spawner:
    """Starts each process by itself."""

    def __init__(self) -> None:
        self.pid = os.getpid()  # the parent of what it starts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(
        self, module: str, arguments: Sequence[str], output: int, telling: int | None, environment: Mapping[str, str]
    ) -> Running:
        """Run `main` of a module; its output goes to a descriptor, and it has another one if it has something to tell.

        What starts others in sessions of their own (torchrun) is first asked to end when it is killed, to end these.

        Raises OSError where no process can be started, UsageError where what it needs can't be imported.
        """
        started = _Leading if module == TORCHRUN else _Spawned
        return started(
            subprocess.Popen(
                [*PYTHON, module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                pass_fds=[] if telling is None else [telling],
                start_new_session=True,  # so that Ctrl-C comes to us, and we pass it on
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
                os.killpg(self.pid, signal.SIGKILL)  # what it left, while its number is not given to another
        return self._started.wait()


class _Leading(_Spawned):
    """A process whose children are in sessions of their own: killed by itself, it would leave them."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        super().__init__(started)
        self._asked: float | None = None

    def kill(self) -> None:
        if self._asked is None:
            self._asked = time.monotonic()
            if self.ended() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGTERM)
        elif time.monotonic() > self._asked + LEADING_S:
            super().kill()


class ForkServer(Spawner):
    """Forks each process from one that has imported what they need. It ends when it is left, or this process ends."""

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
        """Whether it can still fork."""
        return self._server.poll() is None

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, even while it still imports. What it has forked sees that its parent has ended."""
        self._asking.close()
        self._server.kill()
        self._server.wait()
        self._errors.close()

    def start(
        self, module: str, arguments: Sequence[str], output: int, telling: int | None, environment: Mapping[str, str]
    ) -> Running:
        own, theirs = socket.socketpair()
        told = output if telling is None else telling
        asked = {"module": module, "arguments": [*arguments], "telling": telling, "environment": dict(environment)}
        try:
            with theirs:
                socket.send_fds(self._asking, [b"f"], [theirs.fileno(), output, told])
            own.sendall(json.dumps(asked).encode() + b"\n")
            return _Forked(own)
        except OSError:
            own.close()
            self._refuse_if_ended()
            raise

    def _refuse_if_ended(self) -> None:
        """Raise UsageError with what it said last, if it has ended: most likely it could not import torch."""
        if not self.alive and not self._errors.closed:
            self._errors.seek(0)
            if lines := self._errors.read().decode(errors="replace").strip().splitlines():
                raise UsageError(f"{lines[-1]}; {torch_build.INSTALL}" if self._imports == "torch" else lines[-1])


class _Forked(Running):
    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._said = b""
        self._status: int | None = None
        while b"\n" not in self._said:
            if not (said := own.recv(64)):
                raise OSError("the process that forks others has ended")
            self._said += said
        first, self._said = self._said.split(b"\n", 1)
        self.pid = int(first)

    def ended(self) -> int | None:
        while self._status is None and select.select([self._own], [], [], 0)[0]:
            said = self._own.recv(64)
            self._said += said
            if b"\n" in self._said or not said:
                self._own.close()
                if not said:  # the server has ended, and nobody else would see to this process
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(self.pid, signal.SIGKILL)
                self._status = int(self._said or -signal.SIGKILL)
        return self._status


def environment(stored: Path | None = None, device: str | None = None) -> dict[str, str]:
    """Return the children's environment: fixed hashing, this package on the path, the machine as measured."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    given = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
    for name in UNFIT:
        given.pop(name, None)
    if stored is not None:
        given[STORED] = str(stored)
        with contextlib.suppress(OSError):  # of a run that is like another, nobody asked
            given[host.IDENTITY] = stored.with_name(host.IDENTITY_FILE).read_text(encoding="utf-8")
    return given | devices.environment(device)
