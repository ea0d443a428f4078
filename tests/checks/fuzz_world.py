"""The library that random programs use: it is not traced, and it prints the calls that it gets.

The output of a program goes to standard output and, for each run, to a numbered file in `FUZZ_OUT`. This makes it
possible to compare runs whose standard output is not kept (metered and shaken runs).
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

CALLS = 150  # number of calls after which a program's functions return at once
MOST = 6  # maximum elements of a sequence, and characters of a text
MODULUS = 10_007

_fuel = 0
_lines: list[str] = []
_programs: list[str] = []
_lecture = ""


def begin(path: str) -> None:
    """Begin a run and forget the previous one. `path` is the lecture's."""
    global _lecture
    _lecture = path
    _lines.clear()
    gc.disable()  # only programs collect cycles; otherwise allocations of probes would decide when
    threading.excepthook = _thread_failed
    sys.unraisablehook = _unraisable
    if torch := sys.modules.get("torch"):  # torch is seeded differently in each process, except in a trace
        torch.manual_seed(0)
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1), use_reentrant=False)  # the first keeps its callers
    start(path)


def start(name: str) -> None:
    """Begin a program with its full number of calls."""
    global _fuel
    _fuel = CALLS
    _programs.append(name)


def end() -> None:
    """End a run, and write its output to a file if `FUZZ_OUT` is set."""
    gc.collect()
    gc.enable()
    folder = os.environ.get("FUZZ_OUT")
    if folder:
        runs = len(list(Path(folder).iterdir()))
        Path(folder, f"{runs:03}-{os.getpid()}.txt").write_text("\n".join(_lines), encoding="utf-8")


def spend() -> bool:
    """Count a call; return whether functions may still do anything."""
    global _fuel
    _fuel -= 1
    return _fuel > 0


def say(*values: object) -> Any:
    """Print values in one write, so that output of other threads does not mix with it; return the last value."""
    line = re.sub(" at 0x[0-9a-f]+", "", " ".join(shown(value) for value in values))
    if place := os.path.dirname(_lecture):  # a traced lecture has another path
        line = line.replace(f"{place}/", "")
    _lines.append(line)
    sys.stdout.write(f"{line}\n")
    return values[-1] if values else None


def shown(value: object, deep: int = 8) -> str:
    """Return a text for a value that is the same in all processes, without addresses and the tools' own names."""

    def all_of(values: Iterable[object]) -> str:
        return ", ".join(shown(one, deep - 1) for one in values) if deep else "…"

    if isinstance(value, BaseException):
        return f"{type(value).__name__}({all_of(value.args)})"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"{type(value).__name__}[{all_of(value)}]"
    if isinstance(value, dict):
        return f"{{{all_of(value)}: {all_of(value.values())}}}"
    if callable(value):
        return f"<{getattr(value, '__qualname__', type(value).__name__)}>"
    if hasattr(type(value), "detach"):
        return f"{tuple(value.shape)}{value.detach().tolist()}{value.requires_grad}"  # type: ignore[attr-defined]
    return repr(value) if type(value).__repr__ is not object.__repr__ else f"a {type(value).__name__}"


def cut(value: Any) -> Any:
    """Return a value of limited size, so that programs stay fast."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value % MODULUS
    if isinstance(value, (str, bytes, list, tuple)) and len(value) > MOST:
        return value[:MOST]
    return value


def told(error: BaseException | None, *, depth: int = 3) -> str:
    """Print and return an exception with its positions in the lecture, its cause and its context."""
    line = _told(error, depth)
    say(line)
    return line


def _told(error: BaseException | None, depth: int) -> str:
    if error is None or depth == 0:
        return "-"
    summary = traceback.extract_tb(error.__traceback__)
    places = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in summary if e.filename == _lecture]
    if places and isinstance(error, UnboundLocalError):
        # In code that runs often, Python 3.11 joins two instructions and then reports the position of the first.
        places[-1] = (places[-1][0], 0, 0, 0, 0)
    members = [_told(member, depth - 1) for member in getattr(error, "exceptions", ())]
    chain = f"cause {_told(error.__cause__, depth - 1)}, context {_told(error.__context__, depth - 1)}"
    notes = getattr(error, "__notes__", "")
    return f"{shown(error)} at {places} members {members} {chain} {error.__suppress_context__} {notes}"


def _thread_failed(failed: Any) -> None:
    say("thread failed", _told(failed.exc_value, 2))


def _unraisable(failed: Any) -> None:
    """Print the exception of a finalizer with its lines, without columns: those of a claim's sides may differ."""
    places = [(e.name, e.lineno) for e in traceback.extract_tb(failed.exc_traceback) if e.filename == _lecture]
    say("unraisable", shown(failed.exc_value), places)


class Thrown(Exception):
    """An exception of the programs that is no built-in."""


class Final(BaseException):
    """An exception that `except Exception` does not catch."""


class Noisy:
    """Prints when it is finalized."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Noisy {self.name}"

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

    def __add__(self, other: Any) -> Any:
        say("added", self.value)
        return Odd((self.value + int(other)) % 10)

    def __iadd__(self, other: Any) -> Any:
        say("added in place", self.value)
        self.value = (self.value + int(other)) % 10
        return self

    def __lt__(self, other: Any) -> Any:
        return Odd(self.value + 1)

    def __len__(self) -> int:
        return self.value

    def __getitem__(self, key: Any) -> Any:
        say("item", key)
        if key == self.value:
            raise IndexError(key)
        return key

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        say("attribute", name)
        return self.value


class Manager:
    """A context manager that prints when it is entered and left, and suppresses the given exceptions."""

    def __init__(self, name: object, *swallowed: type[BaseException]) -> None:
        self.name = name
        self.swallowed = swallowed

    def __repr__(self) -> str:
        return f"Manager {self.name}"

    def __enter__(self) -> Any:
        say("enter", self.name)
        return self.name

    def __exit__(self, kind: Any, error: Any, trace: types.TracebackType | None) -> bool:
        say("leave", self.name, _told(error, 1))
        return kind is not None and issubclass(kind, self.swallowed)

    async def __aenter__(self) -> Any:
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, kind: Any, error: Any, trace: types.TracebackType | None) -> bool:
        await asyncio.sleep(0)
        return self.__exit__(kind, error, trace)


class Counted:
    """A synchronous and asynchronous iterable that prints each turn and may raise at its end."""

    def __init__(self, n: int, error: BaseException | None = None) -> None:
        self.n = n
        self.error = error

    def __iter__(self) -> Iterator[int]:
        for i in range(self.n):
            say("turn", i)
            yield i
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> Any:
        for i in range(self.n):
            await asyncio.sleep(0)
            yield i
        if self.error is not None:
            raise self.error


def noted(tag: object) -> Callable[[Any], Any]:
    """Return a decorator that prints the decorated object and returns it unchanged."""
    say("decorator", tag)

    def decorate(thing: Any) -> Any:
        say("decorates", thing)
        return thing

    return decorate


def wrapped(function: Any) -> Any:
    """Return a library function that calls a function of the lecture."""

    def calls(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        say("wrapped", getattr(function, "__name__", "?"))
        return result

    return calls


def back(function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
    """Call a function of the lecture from this library for each value."""
    return [function(value) for value in values][:MOST]


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function in a new thread and return its result in a list."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function(*args)), name="other")
    thread.start()
    thread.join()
    return results


def drive(generator: Any, how: int) -> list[Any]:
    """Use a generator: send to it, throw into it, close it, or take its next values."""
    got: list[Any] = []
    if not hasattr(generator, "send"):
        return [generator]
    try:
        got.append(next(generator))
        for turn in range(3):
            if how % 4 == 1:
                got.append(generator.throw(Thrown("into", turn)))
            elif how % 4 == 2:
                got.append(generator.send(turn))
            elif how % 4 == 3 and turn:
                generator.close()
            else:
                got.append(next(generator))
    except StopIteration as stop:
        got.append(("returned", stop.value))
    return got[:MOST]


async def adrive(generator: Any, how: int) -> list[Any]:
    """Use an asynchronous generator in the same ways."""
    got: list[Any] = []
    try:
        got.append(await anext(generator))
        for turn in range(3):
            if how % 4 == 1:
                got.append(await generator.athrow(Thrown("into", turn)))
            elif how % 4 == 2:
                got.append(await generator.asend(turn))
            elif how % 4 == 3 and turn:
                await generator.aclose()
            else:
                got.append(await anext(generator))
    except StopAsyncIteration:
        got.append("ended")
    finally:
        await generator.aclose()
    return got[:MOST]


async def cancelled(coroutine: Any) -> Any:
    """Start a task, cancel it at its first pause, and return its result."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return say("cancelled")


def observed(thing: object) -> Any:
    """Return a weak reference that prints when its object is finalized."""
    return weakref.ref(thing, lambda _: say("unreferenced"))


def collect() -> None:
    """Collect garbage, which happens only here; it counts as thirty calls because it visits all objects."""
    global _fuel
    _fuel -= 30
    gc.collect()
