"""Fork processes from a server that has imported their modules, so that each starts in milliseconds.

    python -P -m trace_tools.tracing.fork_server N torch|plain    (`processes.ForkServer` starts it and sends requests)

A request on the socket N is one byte with three descriptors: a socket for the new process, its output, and its progress
pipe. The task follows on the process's own socket, as a line of JSON: {"module": …, "arguments": […], "progress": the
descriptor number for the pipe, "environment": {…}}. The answers on that socket are two lines: its process id, and its
status once it has ended. The server ends when N is closed; so does a process when its parent ends.

The forkserver of `multiprocessing` can't do this. Its processes share the environment, output and session of its first
user. Their leftover processes keep running. They import `__main__` again. An error while importing torch is not
reported. `_become` and the client would still be needed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from trace_tools.describing.threads import unsignalled
from trace_tools.util.interpreter import collector_paused

LOOK_S = 0.01  # interval of checks for ended processes, while any run
PLAIN = ("trace_tools.tracing.worker", "trace_tools.describing.values")
TORCH = ("torch", *PLAIN, "trace_tools.describing.tensors", "trace_tools.metering.meters")


def serve(asking: socket.socket, imported: Sequence[str]) -> None:
    """Fork a process for each request and report its status, until the socket is closed."""
    with unsignalled(), collector_paused():  # torch's threads must not handle a lecture's signals
        for name in imported:
            importlib.import_module(name)
    if imported is TORCH:  # else garbage collections in each process would scan torch's objects and copy their pages
        gc.freeze()
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([asking], [], [], LOOK_S if running else None)
        if ready:
            request, descriptors, _, _ = socket.recv_fds(asking, 1, 3)
            if not request:
                break
            own = socket.socket(fileno=descriptors[0])
            number = os.fork()
            if number == 0:
                for other in (asking, *running.values()):
                    other.close()
                _become(own, *descriptors[1:])
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            running[number] = own
            _answer(own, number)
        for number in [*running]:
            if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(number, signal.SIGKILL)  # kill its leftovers before its process id is reused
            _answer(running.pop(number), os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))


def _answer(own: socket.socket, number: int) -> None:
    with suppress(OSError):  # the client no longer waits
        own.sendall(b"%d\n" % number)


def _become(own: socket.socket, output: int, progress: int) -> None:
    """Become the requested process, as if started on its own; does not return."""
    status = os.EX_SOFTWARE
    try:
        os.setsid()
        request = json.loads(own.makefile("rb").readline())
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        own.close()
        os.close(output)
        if request["progress"] is not None and request["progress"] != progress:
            os.dup2(progress, request["progress"])
            os.close(progress)
        os.environ.clear()
        os.environ.update(request["environment"])
        main = importlib.import_module(request["module"]).main
        status = main(*request["arguments"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):  # as Python does on exit
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), TORCH if sys.argv[2] == "torch" else PLAIN)
    os._exit(0)  # a normal exit would first destroy torch's modules
