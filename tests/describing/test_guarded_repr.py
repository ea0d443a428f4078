"""Code of the lecture that only observation calls may raise anything or, on the main thread, never end."""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy
import pytest
import torch

from tests.cases_in_one import each
from trace_tools.describing.guarded_repr import Guard
from trace_tools.describing.safe_repr import plain_repr


class Repr:
    """An object whose repr calls a function of a test."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __repr__(self) -> str:
        return self.make()  # type: ignore[no-any-return]


def call_guarded(make: Callable[[], Any], seconds: float = 5.0) -> tuple[str | None, str | None]:
    """Return the repr under a guard, and the reason if there is none."""
    obj = Repr(make)
    return Guard().call(lambda: plain_repr(obj), "repr", seconds)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def make() -> NoReturn:
        raise error

    return make


def forever() -> str:
    while True:
        pass


def asleep() -> str:
    while True:
        time.sleep(100)


def waiting_for_a_lock() -> str:
    lock = threading.Lock()
    lock.acquire()
    return str(lock.acquire())


@pytest.fixture(autouse=True)
def signals_and_warnings_are_unchanged() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM), warnings.showwarning, list(warnings.filters)
    yield
    assert (signal.getsignal(signal.SIGALRM), warnings.showwarning, list(warnings.filters)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Text(str):
    """A string that runs code when it is used."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("used")

    def __getitem__(self, index: Any) -> str:
        raise ValueError("used")


def test_successful_reprs_are_returned() -> None:
    assert call_guarded(lambda: "<fine>") == ("<fine>", None)
    text, reason = call_guarded(lambda: Text("x"))
    assert (text, type(text), reason) == ("x", str, None)


@each("endless", [forever, asleep, waiting_for_a_lock])
def test_endless_reprs_are_interrupted(endless: Callable[[], str]) -> None:
    started = time.perf_counter()
    assert call_guarded(endless, 0.02) == (None, "repr took too long")
    assert time.perf_counter() - started < 5


def test_nested_reprs_share_one_alarm() -> None:
    text, reason = call_guarded(lambda: str(call_guarded(lambda: "inner", 0.01)), 5.0)
    assert (text, reason) == ("('inner', None)", None)
    text, _ = call_guarded(lambda: str(call_guarded(forever, 5.0)), 0.02)
    assert text == "(None, 'repr took too long')"


@contextlib.contextmanager
def alarm_in_use() -> Iterator[list[int]]:
    """Handle SIGALRM as a lecture would; yield the list of received signals."""
    received: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: received.append(number))
    try:
        yield received
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_alarms_of_the_lecture_are_preserved() -> None:
    with alarm_in_use() as received:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert call_guarded(lambda: time.sleep(0.1) or "slept", 0.02) == ("slept", None)  # type: ignore[func-returns-value]
    assert received == [signal.SIGALRM]


def test_observed_code_does_not_advance_random_generators() -> None:
    def draws() -> tuple[Any, ...]:
        numpy.random.randn()  # keeps a second number for later
        return random.random(), random.gauss(0, 1), numpy.random.randn(), torch.rand(1).item()

    def seeded(between: Callable[[], Any]) -> tuple[Any, ...]:
        random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
        draws()
        between()
        return draws()

    def evaluate() -> None:
        with Guard().evaluating():
            draws()

    expected = seeded(lambda: None)
    assert seeded(lambda: call_guarded(lambda: str(draws()))) == seeded(evaluate) == expected


def test_observing_threads_are_noted() -> None:
    guard = Guard()
    observers: list[set[int]] = []

    def observe() -> None:
        guard.call(lambda: observers.append(set(guard.observing)), "repr", 1)

    observe()
    thread = threading.Thread(target=observe)
    thread.start()
    thread.join()
    assert observers == [{threading.get_ident()}, {thread.ident}] and guard.observing == set()


def test_descriptions_of_exceptions() -> None:
    class Worse(Exception):
        def __str__(self) -> str:
            raise self

    assert Guard().describe_exception(ValueError("no")) == "ValueError: no"
    assert Guard().describe_exception(ValueError()) == "ValueError"
    assert Guard().describe_exception(KeyError("k")) == "KeyError: 'k'"
    assert Guard().describe_exception(ValueError(object())) == "ValueError: <object object>"
    assert Guard().describe_exception(Worse()) == "Worse: (its message can't be read)"
    assert call_guarded(raising(Worse())) == (None, "repr raised Worse: (its message can't be read)")


@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_the_guard_cleans_up_after_recursion_errors() -> None:
    guard, limit, depth = Guard(), sys.getrecursionlimit(), len(list(traceback.walk_stack(None)))

    def deeper() -> None:
        guard.call(lambda: 1, "one", 5)
        deeper()

    try:
        for extra in range(30):  # each time another call of the guard exceeds the limit
            sys.setrecursionlimit(depth + 200 + extra)
            with pytest.raises(RecursionError):
                deeper()
            assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and not guard.observing
    finally:
        sys.setrecursionlimit(limit)
