"""Run the lecture's code that only observation calls (`__repr__`, a property, `str(error)`, an `@inspect` expression).

It must not end the lecture, its operators are hidden from the lecture's modes of torch, and the random numbers that it
draws are drawn again by the lecture.

    guard = Guard()
    guard.call(lambda: repr(x), "repr", 0.2)  # ("3", None) or (None, "repr raised ValueError: …")

On the main thread a timer interrupts code that takes too long, unless the lecture uses SIGALRM or the code catches it.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import sys
import sysconfig
import threading
import types
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from trace_tools.machines import accelerators

MESSAGE_S = 0.2  # for the text of an exception


class TooSlowError(BaseException):
    """Raised inside observed code when its time is up."""


class Guard:
    """The guard of one run."""

    def __init__(self) -> None:
        self.observing: set[int] = set()  # threads that run observed code

    def call(self, call: Callable[[], Any], name: str, seconds: float) -> tuple[Any, str | None]:
        """Return the result of `call`, code of the lecture, or why it failed. Only errors of signals pass."""
        try:
            with self.evaluating(), _limited(seconds):
                return call(), None
        except TooSlowError:
            return None, f"{name} took too long"
        except BaseException as error:  # even SystemExit: no exception of it may end the lecture
            if is_of_a_signal(error):  # it is meant for the lecture, which may wait for its timeout
                raise
            return None, f"{name} raised {self.describe_exception(error)}"

    def describe_exception(self, error: BaseException) -> str:
        """Return "ValueError: its message", whatever its `__str__` does."""
        name = class_name(type(error))
        try:
            with self.evaluating(), _limited(MESSAGE_S):
                message = without_addresses(str(error))
        except BaseException as failure:  # not described in turn: its own message may also fail
            if is_of_a_signal(failure):
                raise
            message = "(its message can't be read)"
        return f"{name}: {message}" if message else name

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Mark this thread as observing, hide it from the lecture's torch modes, and restore random generators."""
        ident, outermost = get_ident(), get_ident() not in self.observing
        # only in a lecture with one thread, because another may draw meanwhile
        alone = outermost and len(threading._active) <= 1  # type: ignore[attr-defined]
        generators = _generators() if alone else []
        self.observing.add(ident)
        try:
            with contextlib.ExitStack() as stack:
                if sys.modules.get("torch") is not None:
                    from trace_tools.describing import torch_modes

                    stack.enter_context(torch_modes.hidden())
                yield
        finally:
            if outermost:
                self.observing.discard(ident)
            for restore, state in generators:
                restore(state)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in the block after some seconds, on the main thread if SIGALRM is free."""
    on_main = get_ident() == threading.main_thread().ident
    if not on_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _too_slow(*_: object) -> NoReturn:
    raise TooSlowError


def _generators() -> list[tuple[Callable[[Any], object], Any]]:
    """Return the lecture's default random generators: how to restore each, and its present state."""
    generators: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if (numpy := getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)) is not None:
        generators.append((numpy.set_state, numpy.get_state()))
    if (torch := sys.modules.get("torch")) is not None:
        gpu = accelerators.in_use()
        of_gpus = torch.cuda.default_generators if gpu is not None and gpu.can_wait() else ()
        generators += [(one.set_state, one.get_state()) for one in (torch.default_generator, *of_gpus)]
    return generators


def is_of_a_signal(error: BaseException | None) -> bool:
    """Return whether a signal has raised an error, by Ctrl-C or a handler's frame in its traceback."""
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = [handler.__code__ for handler in handlers if isinstance(handler, types.FunctionType | types.MethodType)]
    entry = None if error is None else error.__traceback__
    while entry is not None and entry.tb_frame.f_code not in codes:
        entry = entry.tb_next
    return entry is not None or isinstance(error, KeyboardInterrupt)


# --- without any code of the lecture --------------------------------------------------------------


LONGEST_NAME = 200  # characters of a class name

_VALUE_TYPES = frozenset(
    "bool int float str none complex list tuple set frozenset dict tensor parameter ndarray error cycle".split()  # noqa: SIM905
)
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{9,16}\b")


def class_name(kind: type) -> str:
    """Return the name of a class, with its module if it is the name of a type of `Value`."""
    name = kind.__name__
    if name in _VALUE_TYPES and kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"  # the class re.error is no failed expression
    return name[:LONGEST_NAME]


def is_a(kind: type, base: object) -> bool:
    """Return whether `kind` is derived from the class `base`, whatever a metaclass such as ABCMeta registers."""
    return isinstance(base, type) and type.__subclasscheck__(base, kind)


def is_installed(kind: type) -> bool:
    """Return whether a class comes from Python or an installed package, not from the lecture."""
    if kind.__module__ == "__main__":
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return type(file) is not str or file.startswith(_INSTALLED)


def plain_repr(obj: object) -> str:
    """Return the repr of `obj` without memory addresses."""
    return without_addresses(repr(obj))


def without_addresses(text: str) -> str:
    """Remove differences between runs: `<f at 0x7f3a…>` becomes `<f>`."""
    text = str.__str__(text)  # a subclass could still run its own code
    return _ADDRESS.sub(lambda match: "" if match[0].startswith(" ") else "0x…", text) if "0x" in text else text
