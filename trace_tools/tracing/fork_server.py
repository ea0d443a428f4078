"""The process that others are forked from: it has imported what they need, so that each begins in milliseconds.

    python -P -m trace_tools.tracing.fork_server N torch|plain    (`processes.ForkServer` starts it, and asks)

A request on the socket N is one byte with three descriptors: a socket of the new process's own, its output, and a pipe
on which it tells where it is. On its own socket comes what it shall do, a line of JSON: {"module": …, "arguments": […],
"telling": the descriptor as which it has the pipe, "environment": {…}}. What goes back there is its process id, and its
status once it has ended: a line each. It ends when nobody listens on N any more; so does a process whose parent ends.
"""

from __future__ import annotations

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

LOOK_S = 0.01  # how often it looks whether a process has ended, while there are any
PLAIN = ("trace_tools.tracing.child", "trace_tools.describing.values")
TORCH = ("torch", *PLAIN, "trace_tools.describing.tensors", "trace_tools.metering.meters")


def serve(asking: socket.socket, imported: Sequence[str]) -> None:
    """Fork a process for each request, and tell how it ended, until nobody asks any more."""
    with unsignalled():  # torch's threads are none of a lecture's
        for name in imported:
            importlib.import_module(name)
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
            _tell(own, number)
        for number in [*running]:
            if os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(number, signal.SIGKILL)  # what it started and left, while its number is not another's
            _tell(running.pop(number), os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))


def _tell(own: socket.socket, number: int) -> None:
    with suppress(OSError):  # nobody waits for it any more
        own.sendall(b"%d\n" % number)


def _become(own: socket.socket, output: int, told: int) -> None:
    """Do what the request says as a process that was started for it alone would; does not return."""
    status = os.EX_SOFTWARE
    try:
        os.setsid()
        asked = json.loads(own.makefile("rb").readline())
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        own.close()
        os.close(output)
        if asked["telling"] is not None and asked["telling"] != told:
            os.dup2(told, asked["telling"])
            os.close(told)
        os.environ.clear()
        os.environ.update(asked["environment"])
        main = importlib.import_module(asked["module"]).main
        status = main(*asked["arguments"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), TORCH if sys.argv[2] == "torch" else PLAIN)
    os._exit(0)  # Python would take torch's modules apart first
elif __name__ == "__mp_main__":  # as in `child`, which it was in the place of
    from trace_tools.tracing.adopted import adopt_in_spawned

    adopt_in_spawned()
