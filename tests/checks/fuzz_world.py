"""The library that random programs use: it is not traced, and it prints the calls that it gets."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

CALLS = 150  # number of calls after which a program's functions return at once
MOST = 6  # maximum elements of a sequence, and characters of a text

_fuel = 0
_lecture = ""


def begin(path: str) -> None:
    """Begin a run of the lecture at `path`."""
    global _lecture, _fuel
    _lecture, _fuel = path, CALLS
    gc.disable()  # only programs collect cycles; otherwise allocations of probes would decide when
    sys.unraisablehook = lambda failed: say("unraisable", failed.exc_value)


def end() -> None:
    gc.collect()
    gc.enable()


def spend() -> bool:
    """Count a call; return whether functions may still do anything."""
    global _fuel
    _fuel -= 1
    return _fuel > 0


def say(*values: object) -> Any:
    """Print values in one write, so that output of other threads does not mix with it; return the last value."""
    line = re.sub(" at 0x[0-9a-f]+", "", " ".join(shown(value) for value in values))
    sys.stdout.write(f"{line}\n")
    return values[-1] if values else None


def shown(value: object) -> str:
    """Return a text for a value that is the same in all processes, without addresses."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}{value.args}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(str, value))}"
    return f"<{getattr(value, '__qualname__', '?')}>" if callable(value) else repr(value)


def cut(value: Any) -> Any:
    """Return a value of limited size, so that programs stay fast."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value % 10_007
    return value[:MOST] if isinstance(value, (str, bytes, list, tuple)) else value


def told(error: BaseException) -> None:
    """Print an exception with its positions in the lecture."""
    summary = traceback.extract_tb(error.__traceback__)
    places = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in summary if e.filename == _lecture]
    if places and isinstance(error, UnboundLocalError):
        # In code that runs often, Python 3.11 joins two instructions and then reports the position of the first.
        places[-1] = (places[-1][0], 0, 0, 0, 0)
    say(error, places, error.__cause__, error.__context__, error.__suppress_context__)


class Thrown(Exception):
    """An exception of the programs that is no built-in."""


class Noisy:
    """Prints when it is finalized."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Noisy {type(self.name).__name__}"  # a name may contain it: its own text could take for ever

    def __del__(self) -> None:
        say("died", self.name)


class Odd:
    """An object whose operators raise, print or return unusual values."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Odd {self.value}"

    def __bool__(self) -> bool:
        say("truth of", self.value)
        if self.value % 3 == 2:
            raise Thrown("no truth", self.value)
        return self.value % 2 == 0

    def __eq__(self, other: object) -> Any:
        say("compared", self.value)
        return Odd(self.value + 1) if isinstance(other, Odd) else self.value == other

    __hash__ = None  # type: ignore[assignment]


class Manager:
    """A context manager that prints when it is entered and left, and suppresses the given exceptions."""

    def __init__(self, name: object, *swallowed: type[BaseException]) -> None:
        self.name, self.swallowed = name, swallowed

    def __enter__(self) -> Any:
        return say("enter", self.name)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        say("leave", self.name, error)
        return kind is not None and issubclass(kind, self.swallowed)

    async def __aenter__(self) -> Any:
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> bool:
        await asyncio.sleep(0)
        return self.__exit__(*error)


class Counted:
    """A synchronous and asynchronous iterable that prints each turn and may raise at its end."""

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.n, self.error = n, error

    def __iter__(self) -> Iterator[int]:
        for i in range(self.n):
            yield say("turn", i)
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> Any:
        for i in self:
            await asyncio.sleep(0)
            yield i


def noted(thing: Any) -> Any:
    """Print a decorated object, and return it unchanged."""
    return say("decorates", thing)


def back(function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
    """Call a function of the lecture from this library for each value."""
    return [function(value) for value in values]


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function in a new thread and return its result in a list."""
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(function(*args))
        except BaseException as error:
            say("thread failed", error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results


def drive(generator: Any, how: int) -> list[Any]:
    """Use a generator: send to it, throw into it, close it, or take its next values."""
    got: list[Any] = []
    try:
        got.append(next(generator))
        for turn in range(3):
            if how == 1:
                got.append(generator.throw(Thrown("into", turn)))
            elif how == 2:
                got.append(generator.send(turn))
            elif how == 3 and turn:
                generator.close()
            else:
                got.append(next(generator))
    except StopIteration as stop:
        got.append(("returned", stop.value))
    return got[:MOST]


async def taken(generator: Any) -> list[Any]:
    """Take a few values of an asynchronous generator, and close it."""
    got: list[Any] = []
    async for value in generator:
        got.append(value)
        if len(got) == 2:
            break
    await generator.aclose()
    return got
