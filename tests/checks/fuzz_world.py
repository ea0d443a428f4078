"""What random programs act on: a library beside the lecture, which nothing traces, and which says what happens to it.

Everything that a program does to its world it says on standard output, and in a file of its own for each run (below
`FUZZ_OUT`, in order), so that a run whose output nobody keeps (the metered one, the shaken ones) can be compared, too.
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

CALLS = 150  # that a program may make before its functions return at once
MOST = 6  # elements of a sequence, and characters of a text
MODULUS = 10_007

_fuel = 0
_lines: list[str] = []
_programs: list[str] = []
_lecture = ""


def begin(path: str) -> None:
    """Begin a run: whatever one before left is forgotten. `path` is the lecture's."""
    global _lecture
    _lecture = path
    _lines.clear()
    gc.disable()  # cycles are collected where a program says so, not where a probe happens to allocate something
    threading.excepthook = _thread_failed
    sys.unraisablehook = _unraisable
    if torch := sys.modules.get("torch"):  # which draws something else in each process, but in those of a trace
        torch.manual_seed(0)
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1), use_reentrant=False)  # the first keeps its callers
    start(path)


def start(name: str) -> None:
    """Begin a program, with all its calls before it."""
    global _fuel
    _fuel = CALLS
    _programs.append(name)


def end() -> None:
    """End a run: write what it said, where that is asked for."""
    gc.collect()
    gc.enable()
    folder = os.environ.get("FUZZ_OUT")
    if folder:
        runs = len(list(Path(folder).iterdir()))
        Path(folder, f"{runs:03}-{os.getpid()}.txt").write_text("\n".join(_lines), encoding="utf-8")


def spend() -> bool:
    """Return whether a function may still do anything."""
    global _fuel
    _fuel -= 1
    return _fuel > 0


def say(*values: object) -> Any:
    """Print values with their types, in one piece whatever other threads print; return the last."""
    line = re.sub(" at 0x[0-9a-f]+", "", " ".join(shown(value) for value in values))
    if place := os.path.dirname(_lecture):  # a lecture that is traced is at another one
        line = line.replace(f"{place}/", "")
    _lines.append(line)
    sys.stdout.write(f"{line}\n")
    return values[-1] if values else None


def shown(value: object, deep: int = 8) -> str:
    """Return a value without what is another in each process, addresses and the tools' own names, and not too deep."""

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
    """Return a value that is no larger than what programs can compute with for long."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value % MODULUS
    if isinstance(value, (str, bytes, list, tuple)) and len(value) > MOST:
        return value[:MOST]
    return value


def told(error: BaseException | None, *, depth: int = 3) -> str:
    """Return an exception with its places in the lecture, its cause and its context, and say it."""
    line = _told(error, depth)
    say(line)
    return line


def _told(error: BaseException | None, depth: int) -> str:
    if error is None or depth == 0:
        return "-"
    summary = traceback.extract_tb(error.__traceback__)
    places = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in summary if e.filename == _lecture]
    if places and isinstance(error, UnboundLocalError):
        # In code that runs often, Python 3.11 joins two instructions, and then says where the one before stands.
        places[-1] = (places[-1][0], 0, 0, 0, 0)
    members = [_told(member, depth - 1) for member in getattr(error, "exceptions", ())]
    chain = f"cause {_told(error.__cause__, depth - 1)}, context {_told(error.__context__, depth - 1)}"
    notes = getattr(error, "__notes__", "")
    return f"{shown(error)} at {places} members {members} {chain} {error.__suppress_context__} {notes}"


def _thread_failed(failed: Any) -> None:
    say("thread failed", _told(failed.exc_value, 2))


def _unraisable(failed: Any) -> None:
    """Tell what an object's end raised, and at which lines; at which column a claim's sides end is not promised."""
    places = [(e.name, e.lineno) for e in traceback.extract_tb(failed.exc_traceback) if e.filename == _lecture]
    say("unraisable", shown(failed.exc_value), places)


class Thrown(Exception):
    """What programs throw that no builtin is."""


class Final(BaseException):
    """What `except Exception` leaves alone."""


class Noisy:
    """Says when it dies."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Noisy {self.name}"

    def __del__(self) -> None:
        say("died", self.name)


class Odd:
    """Whose operators raise, say or answer oddly."""

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
    """Says when it is entered and left; swallows what it is told to."""

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
    """An iterable, also asynchronously, that says each turn and may fail at its end."""

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
    """Return a decorator that says what it decorates and returns it."""
    say("decorator", tag)

    def decorate(thing: Any) -> Any:
        say("decorates", thing)
        return thing

    return decorate


def wrapped(function: Any) -> Any:
    """Return a function of a library that calls one of the lecture."""

    def calls(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        say("wrapped", getattr(function, "__name__", "?"))
        return result

    return calls


def back(function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
    """Call a function of the lecture from a library for each value."""
    return [function(value) for value in values][:MOST]


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function in a thread of its own; return what it returned."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function(*args)), name="other")
    thread.start()
    thread.join()
    return results


def drive(generator: Any, how: int) -> list[Any]:
    """Drive a generator: send to it, throw into it, close it, or leave it to die."""
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
    """Drive an asynchronous generator likewise."""
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
    """Start a task, cancel it at its first pause, and return what came of it."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return say("cancelled")


def observed(thing: object) -> Any:
    """Return a weak reference that says when its object dies."""
    return weakref.ref(thing, lambda _: say("unreferenced"))


def collect() -> None:
    """Collect garbage, here and nowhere else; it costs what thirty calls do, since all objects are looked at."""
    global _fuel
    _fuel -= 30
    gc.collect()
