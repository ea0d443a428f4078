"""Run a lecture's signal handlers only while its own code is running, never inside the tools.

    with plain_signals(path, runner): ...    # `runner` is the code from which the lecture is called
        signal.signal(signal.SIGALRM, f); signal.getsignal(signal.SIGALRM)  # f, though Python calls a wrapper around it

Otherwise a handler could raise inside a probe and leave a call open, or raise while a value is described and be
recorded as the value's error; then the lecture would wait forever for its timeout. A signal that arrives inside the
tools is raised again at Python's next step, until the lecture continues. After its end, the lecture has no handlers.
"""

from __future__ import annotations

import _thread
import dis
import operator
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

from trace_tools.tracing.isolation import ending
from trace_tools.tracing.isolation.plain_events import is_generated, is_of_tools
from trace_tools.util.interpreter import replaced

_BETWEEN = {number for name, number in dis.opmap.items() if name == "RESUME" or "JUMP_BACKWARD" in name}
_NOTHING = operator.is_  # callable with a signal's number and a frame, without effect


@contextmanager
def plain_signals(path: str, runner: CodeType) -> Iterator[None]:
    """Keep handlers that are set inside the `with` block out of the tools; `path` is the lecture's."""
    set_handler, handler_of = signal.signal, signal.getsignal
    run = _Run(path, runner)

    def as_set(handler: Any) -> Any:
        return handler.function if isinstance(handler, _Handler) else handler

    def plainly(number: int, handler: Any) -> Any:
        own = callable(handler) and handler is not signal.default_int_handler
        return as_set(set_handler(number, _Handler(number, handler, run) if own else handler))

    with (
        replaced(signal, "signal", plainly),
        replaced(signal, "getsignal", lambda number: as_set(handler_of(number))),
    ):
        try:
            yield
        finally:
            run.over = True


class _Run:
    """The lecture's path and runner, and whether the run is over."""

    def __init__(self, path: str, runner: CodeType) -> None:
        self.path = path
        self.runner = runner
        self.over = False

    def is_lectures(self, frame: FrameType) -> bool:
        """Return whether a frame is the lecture's, or a library's working for it, or the wait for the lecture's threads
        at its end.

        Generated code might catch an exception raised in it, but each loop and each function has an instruction that
        allows it.
        """
        code = frame.f_code
        if code is self.runner or is_of_tools(frame, self.path, self.runner):
            return code.co_filename == ending.__file__
        return code.co_filename != self.path or code.co_code[frame.f_lasti] in _BETWEEN or not is_generated(frame)


class _Handler:
    """Wrapper of a lecture's signal handler.

    Python calls the current value of `__call__`, so no frame of ours precedes the handler, even in tracebacks.
    """

    def __init__(self, number: Any, function: Callable[[int, FrameType | None], Any], run: _Run) -> None:
        self.number = number
        self.function = function
        self.run = run

    @property
    def __call__(self) -> Callable[[int, FrameType | None], Any]:
        if self.run.over:
            return _NOTHING
        if self.run.is_lectures(_getframe(1)):
            return self.function
        descriptor = signal.set_wakeup_fd(-1)  # its reader has already been notified
        again: list[Callable[[], object]] = [partial(_thread.interrupt_main, self.number)]
        if descriptor != -1:
            again.append(partial(signal.set_wakeup_fd, descriptor, warn_on_full_buffer=False))
        # After a call, Python would check for signals here, and so repeat forever; after an iterator's step it does
        # not.
        for _ in iter(partial(tuple, map(operator.call, again)), None):
            break
        return _NOTHING
