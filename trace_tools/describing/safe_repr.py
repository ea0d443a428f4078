"""`repr` of an object nobody vouches for: it may raise, hang, warn, or return anything.

    attempt(lambda: plain_repr(object()), "repr", 0.2)  # ("<object object>", None)
    attempt(lambda: plain_repr(broken), "repr", 0.2)    # (None, "repr raised ValueError: no")

A repr can be interrupted only where Python lets signals in: on the main thread, at a bytecode, and if
the lecture doesn't use SIGALRM itself. Elsewhere, or inside one long call of C, it takes the time it takes.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

REPEAT_S = 0.05  # a repr may swallow the interruption: it comes again

LONGEST_NAME = 200  # characters of a class name

_NAME = type.__dict__["__name__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_VALUE_TYPES = frozenset(
    "bool int float str none complex list tuple set frozenset dict tensor parameter ndarray error cycle".split()  # noqa: SIM905
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{9,16}\b")


class _TooSlow(BaseException):
    """Raised inside a repr when its time is up."""


def class_name(kind: type) -> str:
    """Return the name of a class without asking its metaclass; qualified where a `Value` type has that name."""
    name: str = _NAME(kind)
    if name in _VALUE_TYPES and (module := _MODULE(kind)) != "builtins":
        name = f"{module}.{name}"  # re.error is not an expression that failed
    return name[:LONGEST_NAME]


def plain_repr(obj: object) -> str:
    """Return the repr of `obj` without memory addresses."""
    return without_addresses(repr(obj))


def attempt(call: Callable[[], Any], name: str, seconds: float) -> tuple[Any, str | None]:
    """Return what `call`, code of the lecture, returns within `seconds` (above 0), or None and why it did not.

    Only KeyboardInterrupt passes through.
    """
    try:
        with _quietly():
            return _limited(call, seconds), None
    except KeyboardInterrupt:
        raise
    except _TooSlow:
        return None, f"{name} took too long"
    except BaseException as error:  # even SystemExit: nothing it raises may end the lecture
        return None, f"{name} raised {describe_exception(error)}"


def describe_exception(error: BaseException, seconds: float = 0.2) -> str:
    """Return "ValueError: its message", whatever its `__str__` does."""
    name = class_name(type(error))
    try:
        with _quietly():
            message = without_addresses(_limited(lambda: str(error), seconds))
    except KeyboardInterrupt:
        raise
    except BaseException:  # not described in turn: its message may be no better
        message = "(its message can't be read)"
    return f"{name}: {message}" if message else name


def without_addresses(text: str) -> str:
    """Remove what differs from run to run: `<f at 0x7f3a…>` becomes `<f>`."""
    text = str.__str__(text)  # a subclass could still run code of its own
    return _ADDRESS.sub(lambda found: "" if found[0].startswith(" ") else "0x…", text) if "0x" in text else text


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Show no warning from the block; leave filters alone, since touching them shows old warnings again."""
    if not _on_main_thread():  # two threads could restore each other's replacement
        yield
        return
    shown = warnings.showwarning
    warnings.showwarning = lambda *args, **kwargs: None
    try:
        yield
    finally:
        warnings.showwarning = shown


def _limited(call: Callable[[], Any], seconds: float) -> Any:
    """Call it; raise `_TooSlow` inside it after `seconds`, where that can be done without the lecture noticing."""
    alarm_is_free = (
        hasattr(signal, "SIGALRM")
        and _on_main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
    if not alarm_is_free:
        return call()
    armed = True

    def expire(number: int, frame: object) -> None:
        if armed:
            raise _TooSlow

    signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)
        return call()
    finally:
        armed = False  # first: Python runs signal handlers at calls, so none can come before this
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
