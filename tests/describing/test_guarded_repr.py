"""Code of the lecture that only observation calls may raise anything or, on the main thread, never end."""

from __future__ import annotations

import collections
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import pytest
import torch

from tests.cases_in_one import each
from trace_tools.describing.guarded_repr import Guard, class_name, is_a, plain_repr, without_addresses


def guarded(call: Callable[[], Any], seconds: float = 5.0) -> tuple[Any, str | None]:
    return Guard().call(call, "repr", seconds)


def forever() -> None:
    while True:
        pass


def waiting_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@pytest.fixture(autouse=True)
def signals_and_warnings_are_unchanged() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM), warnings.showwarning, list(warnings.filters)
    yield
    assert (signal.getsignal(signal.SIGALRM), warnings.showwarning, list(warnings.filters)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@each("endless", [forever, lambda: time.sleep(100), waiting_for_a_lock])
def test_endless_code_is_interrupted(endless: Callable[[], None]) -> None:
    started = time.perf_counter()
    assert guarded(endless, 0.02) == (None, "repr took too long")
    assert time.perf_counter() - started < 5


def test_nested_calls_share_one_alarm() -> None:
    assert guarded(lambda: guarded(lambda: "inner", 0.01)) == (("inner", None), None)
    assert guarded(lambda: guarded(forever), 0.02) == ((None, "repr took too long"), None)


def test_alarms_of_the_lecture_are_preserved() -> None:
    received: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: received.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert guarded(lambda: time.sleep(0.1), 0.02) == (None, None)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 1_000)
        assert guarded(int) == (0, None) and signal.setitimer(signal.ITIMER_REAL, 0)[0] > 900
    finally:
        signal.signal(signal.SIGALRM, previous)
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

    assert seeded(lambda: guarded(draws)) == seeded(lambda: None)


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

    assert Guard().describe_exception(ValueError()) == "ValueError"
    assert Guard().describe_exception(KeyError("k")) == "KeyError: 'k'"
    assert Guard().describe_exception(ValueError(object())) == "ValueError: <object object>"
    assert Guard().describe_exception(Worse()) == "Worse: (its message can't be read)"


def test_addresses_are_removed() -> None:
    assert plain_repr(object()) == "<object object>"
    assert plain_repr(test_addresses_are_removed) == "<function test_addresses_are_removed>"
    assert "0x" not in plain_repr([].append)
    assert without_addresses("0x7f3a12345678, 0xff, 0x12") == "0x…, 0xff, 0x12"


def test_a_text_that_runs_code_when_used() -> None:
    class Text(str):
        __str__ = __getitem__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

    assert type(without_addresses(Text("x"))) is str


def test_class_names() -> None:
    assert class_name(int) == "int"
    assert class_name(type("error", (), {"__module__": "re"})) == "re.error"
    assert len(class_name(type("x" * 10_000, (), {}))) == 200


def test_registered_classes_are_not_derived() -> None:
    assert is_a(collections.Counter, dict) and not is_a(dict, "dict")
    assert issubclass(dict, Mapping) and not is_a(dict, Mapping)
