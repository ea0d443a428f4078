"""A lecture's signal handlers run where it is at work itself, never in the midst of the tools.

    with plain_signals(path, runner): ...    # `runner` is the code from which the lecture is called
        signal.signal(signal.SIGALRM, f); signal.getsignal(signal.SIGALRM)  # f, though Python calls something around it

What a handler raises would else be raised in a probe, which would leave a call open, or in what describes a value,
which records that as the value's error: the lecture would wait for ever for the end of its time. A signal that comes
there comes again at Python's next step, and so on until the lecture goes on. Once it is over, it has no handlers.
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

from trace_tools.tracing import ending
from trace_tools.tracing.plain_events import is_generated, is_of_tools
from trace_tools.tracing.replaced import replaced

_BETWEEN = {number for name, number in dis.opmap.items() if name == "RESUME" or "JUMP_BACKWARD" in name}
_NOTHING = operator.is_  # what is called with a signal's number and a frame to no effect


@contextmanager
def plain_signals(path: str, runner: CodeType) -> Iterator[None]:
    """Keep handlers that are set inside the `with` block out of the tools; `path` is the lecture's."""
    set_handler, handler_of = signal.signal, signal.getsignal
    place = _Place(path, runner)

    def as_set(handler: Any) -> Any:
        return handler.function if isinstance(handler, _Handler) else handler

    def plainly(number: int, handler: Any) -> Any:
        own = callable(handler) and handler is not signal.default_int_handler
        return as_set(set_handler(number, _Handler(number, handler, place) if own else handler))

    with (
        replaced(signal, "signal", plainly),
        replaced(signal, "getsignal", lambda number: as_set(handler_of(number))),
    ):
        try:
            yield
        finally:
            place.over = True


class _Place:
    """Where a run is, and whether it is over."""

    def __init__(self, path: str, runner: CodeType) -> None:
        self.path = path
        self.runner = runner
        self.over = False

    def is_lectures(self, frame: FrameType) -> bool:
        """Whether a frame is the lecture's, or of a library at work for it; or it has ended, and its threads run.

        Generated code may catch what is raised in it. But each loop and each function has a place where it may be.
        """
        code = frame.f_code
        if code is self.runner or is_of_tools(frame, self.path, self.runner):
            return code.co_filename == ending.__file__
        return code.co_filename != self.path or code.co_code[frame.f_lasti] in _BETWEEN or not is_generated(frame)


class _Handler:
    """A handler of the lecture's.

    Python calls what `__call__` is at that moment: no frame stands between it and the handler, in tracebacks neither.
    """

    def __init__(self, number: Any, function: Callable[[int, FrameType | None], Any], place: _Place) -> None:
        self.number = number
        self.function = function
        self.place = place

    @property
    def __call__(self) -> Callable[[int, FrameType | None], Any]:
        if self.place.over:
            return _NOTHING
        if self.place.is_lectures(_getframe(1)):
            return self.function
        descriptor = signal.set_wakeup_fd(-1)  # whoever waits there has been told
        again: list[Callable[[], object]] = [partial(_thread.interrupt_main, self.number)]
        if descriptor != -1:
            again.append(partial(signal.set_wakeup_fd, descriptor, warn_on_full_buffer=False))
        # After a call Python would look for signals here, and so for ever; after a step of an iterator it does not.
        for _ in iter(partial(tuple, map(operator.call, again)), None):
            break
        return _NOTHING
