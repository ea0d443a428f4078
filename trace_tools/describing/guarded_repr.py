"""Run the lecture's code that only observation calls (`__repr__`, a property, `str(error)`) under a time limit.

Such code may raise anything, never end, swallow exceptions raised in it, print, warn, draw random numbers, or wait for
a lock that the lecture holds. The guard gives it limited time and then ends it; the lecture continues as if it had not
run.

    guard = Guard()
    guard.call(lambda: repr(3), "repr", 0.2)    # ("3", None)
    guard.call(lambda: repr(x), "repr", 0.2)    # (None, "repr took too long")

On the main thread, unless the lecture uses SIGALRM, a timer interrupts the code, whether asleep or at work. On other
threads the code runs in a separate thread, which is abandoned when the time is up. In that thread it sees other
thread-local objects, and can't acquire an RLock that the lecture's thread holds. Code that must run in the lecture's
frame, an expression of `@inspect`, is watched in that frame on any thread (`Deadline`); off the main thread, sleeping
and waiting can't be interrupted there.

A single long call of C that holds the interpreter can't be ended: `"x" * 10**10`. Other side effects, such as a change
to a list of the code's own object, persist. Random generators are restored only while the lecture has one thread,
because another thread may have drawn from them meanwhile.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import ctypes
import random
import signal
import sys
import threading
import warnings
from _thread import get_ident
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from operator import length_hint
from sys import _getframe
from types import FrameType
from typing import Any

from trace_tools.describing.safe_repr import class_name, without_addresses
from trace_tools.describing.threads import start_apart
from trace_tools.machines import accelerators
from trace_tools.util.interpreter import collector_paused

REPEAT_S = 0.05  # until code that still runs is interrupted again
IN_A_ROW = 8  # interruptions, each raised when the previous one is caught
SOON_S = 0.005  # until code that caught them all is interrupted again
EXPRESSION_S = 10.0  # for one evaluation of an expression, which may compute
CALLS = 20  # more nested calls than ending an observation needs
MESSAGE_S = 0.2  # for the text of an exception
PATIENCE = 3  # calls of one kind that may take too long in a run

_throw = ctypes.pythonapi.PyThreadState_SetAsyncExc  # holds the interpreter while it runs, as `_withdraw` does
_throw.argtypes, _throw.restype = (ctypes.c_ulong, ctypes.py_object), None
_withdraw = ctypes.PyDLL(None).PyThreadState_SetAsyncExc
_withdraw.argtypes, _withdraw.restype = (ctypes.c_ulong, ctypes.c_void_p), None
_set_handler, _handler_of = signal.signal, signal.getsignal  # our own references, in case the lecture replaces them


def _descend(calls: int) -> None:
    """Raise RecursionError if the stack has no room for so many calls, without which code could not be ended."""
    if calls:
        _descend(calls - 1)


class _TooSlow(BaseException):
    """Raised inside observed code when its time is up."""


class _TooSlowAgain(_TooSlow):
    """Triggers the next SIGALRM when it is created, so that code that catches it gets another at its next step.

    This ends `while True: try: … except BaseException: pass`, because the jump back is outside the `try`. The chain
    ends after `IN_A_ROW` exceptions: in Python 3.12 such a jump can count as part of the `try`, and a generator that
    only does `yield` there would catch each of them. The next chain, after `SOON_S`, finds the code at another
    position. C code creates the exception and reports the signal, because Python would run the handler before the
    exception exists.
    """

    __init__ = staticmethod(partial(_thread.interrupt_main, signal.SIGALRM))


class _Settled(BaseException):
    """Raised by `_settle`, and caught there."""


class _GivenUp(Exception):
    """Raised instead of evaluating an expression that took too long before."""


class Deadline:
    """Observes code that runs in this thread from `start` to `close`; this base class sets no time limit.

    A caller that leaves the code sets `armed` to False and then calls `withdraw`, in the frame that catches the
    exception and before anything else. Python raises only at calls of functions and at jumps, and between these two
    steps there are no such instructions.
    """

    armed = False
    withdraw: Callable[[], object] = bool

    def start(self, seconds: float, top: FrameType) -> None:
        """Begin; the frame `top` calls the observed code."""

    def close(self) -> None:
        """End, and restore the changed state."""


NO_DEADLINE = Deadline()


class _Noted(Deadline):
    """A watch that marks its thread as observing, turns off torch modes, and restores random generators."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.restoring = contextlib.ExitStack()

    def start(self, seconds: float, top: FrameType) -> None:
        if len(threading._active) <= 1:  # type: ignore[attr-defined]
            self.restoring.callback(_generators())
        if "torch" in sys.modules:
            from trace_tools.describing.tensors import unseen_by_modes

            self.restoring.enter_context(unseen_by_modes())
        self.guard.observing.add(get_ident())

    def close(self) -> None:
        self.guard.observing.discard(get_ident())
        self.restoring.close()


class _Alarm(_Noted):
    """A watch that SIGALRM ends, on the main thread."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.fired = 0
        self.top: FrameType | None = None
        self.tracing: list[Any] = []  # the lecture's own trace function, if it was replaced
        self.handler = self.expire  # one object, so that it can be recognised

    def start(self, seconds: float, top: FrameType) -> None:
        _descend(CALLS)
        super().start(seconds, top)
        self.top = top
        self.armed = True
        _set_handler(signal.SIGALRM, self.handler)
        signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)

    def expire(self, number: int, frame: FrameType | None) -> None:
        if not self.armed:
            return
        self.fired += 1
        if self.fired % IN_A_ROW:
            raise _TooSlowAgain
        signal.setitimer(signal.ITIMER_REAL, SOON_S, REPEAT_S)
        # In Python 3.12 a jump back to the end of a `try` counts as part of it, and a loop of one call is never
        # outside. An exception of a trace function comes at the next opcode instead, which is in the `except` clause.
        self.tracing = self.tracing or [sys.gettrace()]
        while frame is not None and frame is not self.top:
            frame.f_trace, frame.f_trace_opcodes = self.trace, True
            frame = frame.f_back
        sys.settrace(self.trace)
        raise _TooSlow

    def trace(self, frame: FrameType, event: str, content: object) -> Any:
        if self.armed and event not in ("exception", "return"):
            raise _TooSlow
        return self.trace

    def close(self) -> None:
        self.armed = False
        if self.tracing:
            sys.settrace(self.tracing[0])
        if signal.getitimer(signal.ITIMER_REAL)[1] == REPEAT_S:  # else the observed code has set its own timer
            signal.setitimer(signal.ITIMER_REAL, 0)
        if _handler_of(signal.SIGALRM) is self.handler:
            _set_handler(signal.SIGALRM, signal.SIG_DFL)
        self.top = None
        del self.handler  # breaks a reference cycle
        super().close()


class _Thrown(_Noted):
    """A watch that ends the code by exceptions from another thread, which take effect once the code is awake."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.over = _thread.allocate_lock()

    def start(self, seconds: float, top: FrameType) -> None:
        super().start(seconds, top)
        self.over.acquire()
        self.armed = True
        with contextlib.suppress(RuntimeError):  # no more threads: no time limit
            start_apart(self.throw, seconds, get_ident())

    def throw(self, seconds: float, ident: int) -> None:
        withdraw, remaining = partial(_withdraw, ident, None), repeat(ident, IN_A_ROW)
        while not self.over.acquire(timeout=seconds):
            seconds = REPEAT_S if length_hint(remaining) else SOON_S
            with collector_paused():  # a collection runs code, which jumps, and switches threads
                again, remaining = _thrown_again(ident)
                if self.armed:  # still true when this is thrown, because Python switches threads only where it raises
                    self.withdraw = withdraw
                    _throw(ident, again)

    def close(self) -> None:
        self.armed = False
        self.withdraw()
        if self.withdraw is not Deadline.withdraw:
            _settle()
        if self.over.locked():
            self.over.release()
        super().close()


def _settle() -> None:
    """End the search for an exception that `_withdraw` has withdrawn.

    While an exception waits for its thread, in Python 3.11 and 3.12 each thread checks for its own at every call and
    jump, and in 3.11 a traced function never begins. Withdrawing the exception does not end that; raising another one
    does.
    """
    with collector_paused(), contextlib.suppress(_Settled):
        _throw(get_ident(), _Settled)
        for _ in range(1000):  # the exception comes at the first jump
            pass
        _withdraw(get_ident(), None)  # unless another thread's exception has ended the search of all


def _thrown_again(ident: int) -> tuple[type[_TooSlow], repeat[int]]:
    """Return a class like `_TooSlowAgain` for any thread, and an iterator as long as the rest to be thrown."""
    again, remaining = type("_TooSlow", (_TooSlow,), {}), repeat(ident, IN_A_ROW - 1)
    setattr(again, "__init__", staticmethod(partial(next, map(_throw, remaining, repeat(again)), None)))  # noqa: B010
    return again, remaining


class Guard:
    """The guard of one run: limits the time of calls, and remembers which kinds of calls were too slow."""

    def __init__(self) -> None:
        self.observing: set[int] = set()  # threads that run observed code, or were abandoned in it
        self.slow: Counter[tuple[str, int]] = Counter()  # calls that took too long, and how often

    def call(
        self, call: Callable[[], Any], name: str, seconds: float, kind: type | None = None
    ) -> tuple[Any, str | None]:
        """Return the result of `call`, code of the lecture, within `seconds` (above 0), or None and the reason.

        `name` and `kind` identify the call: after some calls of a kind took too long, other calls of that kind are
        refused. Only KeyboardInterrupt passes through.
        """
        key = (name, id(kind))  # a class can make itself unhashable
        if self.slow[key] >= PATIENCE:
            return None, f"{name} not called: it took too long {PATIENCE} times"
        try:
            return self._limited(call, seconds), None
        except KeyboardInterrupt:
            raise
        except _TooSlow:
            self.slow[key] += 1
            return None, f"{name} took too long"
        except BaseException as error:  # even SystemExit: no exception of it may end the lecture
            return None, f"{name} raised {self.describe_exception(error)}"

    def describe_exception(self, error: BaseException) -> str:
        """Return "ValueError: its message", whatever its `__str__` does."""
        name = class_name(type(error))
        if issubclass(type(error), _TooSlow):
            return f"took longer than {EXPRESSION_S:g} s"
        if issubclass(type(error), _GivenUp):
            return "not evaluated: it took too long before"
        try:
            message = self._limited(lambda: without_addresses(str(error)), MESSAGE_S)
        except KeyboardInterrupt:
            raise
        except BaseException:  # not described in turn: its own message may also fail
            message = "(its message can't be read)"
        return f"{name}: {message}" if message else name

    def watch(self, source: str) -> Deadline:
        """Return the watch for an evaluation of an expression; raise _GivenUp if it took too long before."""
        if self.slow[source, 0]:
            raise _GivenUp
        if get_ident() in self.observing:
            return NO_DEADLINE
        return _Alarm(self) if _alarm_is_free() else _Thrown(self)

    def failed(self, source: str, error: BaseException) -> None:
        """Note that an expression raised `error`; raise it again if it is Ctrl-C."""
        if issubclass(type(error), KeyboardInterrupt):
            raise error
        if issubclass(type(error), _TooSlow):
            self.slow[source, 0] += 1

    def _limited(self, call: Callable[[], Any], seconds: float) -> Any:
        """Run `call`, and raise `_TooSlow` after `seconds`; inside another call with a time limit, just run it."""
        if get_ident() in self.observing:
            return call()
        if not _alarm_is_free():
            return self._elsewhere(call, seconds)
        watch = _Alarm(self)
        with _suspended(), _quietly():
            try:
                watch.start(seconds, _getframe())
                return call()
            finally:
                watch.armed = False
                watch.close()

    def _elsewhere(self, call: Callable[[], Any], seconds: float) -> Any:
        """Run `call` in its own thread; abandon the thread if the time is up and it can't be interrupted."""
        begun, done = _thread.allocate_lock(), _thread.allocate_lock()
        begun.acquire(), done.acquire()
        outcome: list[Any] = []  # its result and its exception
        thrown: list[bool] = []  # non-empty after an exception was thrown at it
        context = contextvars.copy_context()

        def run() -> None:
            withdraw = partial(_withdraw, get_ident(), None)
            self.observing.add(get_ident())
            try:
                begun.release()  # exceptions thrown from now on are caught
                with _suspended():
                    outcome[:] = [context.run(call), None]
            except BaseException as error:
                if thrown:
                    withdraw()
                outcome[:] = [None, error]
            if thrown:
                withdraw()
                _settle()
            self.observing.discard(get_ident())
            threading._active.pop(get_ident(), None)  # type: ignore[attr-defined]  # if `call` asked for its thread
            done.release()

        noted = _Noted(self)
        noted.start(seconds, _getframe())
        try:
            try:
                ident = start_apart(run)
            except RuntimeError:  # no more threads: no time limit
                return call()
            begun.acquire()
            if not done.acquire(timeout=seconds):
                again, _ = _thrown_again(ident)
                with collector_paused():
                    if not outcome:  # still true when this is thrown, see `_Thrown.throw`
                        thrown += (True,)
                        _throw(ident, again)
                # it is asleep: an exception that waits for it would delay all threads
                if not done.acquire(timeout=REPEAT_S):
                    _withdraw(ident, None)
                    _settle()
                raise _TooSlow
        finally:
            noted.close()
        result, error = outcome
        outcome.clear()
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error


def _alarm_is_free() -> bool:
    return (
        get_ident() == threading.main_thread().ident
        and _handler_of(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        and signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Show no warning from the block; leave filters unchanged, because a change shows old warnings again."""
    original = warnings.showwarning
    warnings.showwarning = lambda *args, **kwargs: None
    try:
        yield
    finally:
        warnings.showwarning = original


def _suspended() -> contextlib.AbstractContextManager[None]:
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from trace_tools.describing.tensors import modes_suspended

    return modes_suspended()


def _generators() -> Callable[[], None]:
    """Return a function that restores the present state of the lecture's default random generators."""
    writes: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    numpy = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    if numpy is not None:
        writes.append((numpy.set_state, numpy.get_state()))
    torch = sys.modules.get("torch")
    if torch is not None:
        generators = [torch.default_generator]
        gpu = accelerators.in_use()
        if gpu is not None and gpu.can_wait():
            generators += gpu.generators()
        writes += [(generator.set_state, generator.get_state()) for generator in generators]

    def restore() -> None:
        for write, state in writes:
            write(state)

    return restore
