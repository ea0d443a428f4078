"""Hold back a lecture's signal handlers while the tracer reads values, up to the next probe.

    signals = Signals(used=True)
    signals.hold()       # after an annotated statement
    describe(value)      # a handler could raise here, and its exception would be taken for an error of the value:
    signals.release()    # the lecture would wait forever for its timeout. It runs here.

In all other probes a handler runs as Python runs it. What it raises leaves the probe, and at most the step that the
probe was writing is lost. Blocking the signals in the main thread would not do, because the system then delivers them
to another thread, and Python still calls the handler in the main thread.
"""

from __future__ import annotations

# `signal` turns each number into an enum, which takes longer than the call.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from _thread import get_ident
from sys import _getframe
from typing import Any

MAIN = threading.main_thread().ident
NAMES = ("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD")
NUMBERS = tuple(int(getattr(signal, name)) for name in NAMES)


class Signals:
    """The handlers that are held back; Python runs handlers in the main thread only.

    If they are not `used`, nothing is held back, because looking for handlers takes 0.6 µs at each value.
    """

    def __init__(self, *, used: bool) -> None:
        self.used = used
        self.holding = False
        self.handlers: list[Any] = []  # as last seen, by signal
        self.own: list[tuple[int, Any]] = []  # the lecture's handlers among them
        self.replaced: list[tuple[int, Any]] = []  # those that `_note` replaces now
        self.arrived: list[int] = []

    def hold(self) -> None:
        """Replace the lecture's handlers by one that notes the signal, unless they are replaced already."""
        if not self.used or self.holding or get_ident() != MAIN:
            return
        handlers = [*map(_signal.getsignal, NUMBERS)]
        if handlers != self.handlers:
            own = [
                (number, handler)
                for number, handler in zip(NUMBERS, handlers, strict=True)
                if callable(handler) and handler is not _signal.default_int_handler
            ]
            self.handlers, self.own = handlers, own  # at once, because a handler may raise in the calls above
        self.holding = True  # first, because a handler may raise below
        self.replaced = self.own[:]
        for number, _ in self.own:
            _signal.signal(number, self._note)

    def release(self) -> None:
        """Put the handlers back and run those whose signals have arrived. They may raise; the next call continues."""
        if not (self.holding or self.arrived) or get_ident() != MAIN:
            return
        while self.replaced:
            _signal.signal(*self.replaced[-1])
            self.replaced.pop()
        self.holding = False
        while self.arrived:
            number = self.arrived.pop()
            dict(self.own)[number](number, _getframe(1))

    def _note(self, number: int, _: object) -> None:
        if number not in self.arrived:
            self.arrived.append(number)
