import contextlib
import contextvars
import gc
import random
import signal
import subprocess
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
from trace_tools.describing import guarded_repr
from trace_tools.describing.guarded_repr import NO_DEADLINE, PATIENCE, Deadline, Guard
from trace_tools.describing.safe_repr import plain_repr


@pytest.fixture(autouse=True)
def unraisable_exceptions_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that swallows exceptions also does so when it is collected; that could interrupt pytest's hook."""
    monkeypatch.setattr(sys, "unraisablehook", bool)


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


def swallowing() -> str:
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def swallowing_in_one_line() -> str:
    while True:
        try:  # noqa: SIM105
            len("")
        except BaseException:
            pass


def swallowing_finally() -> str:
    while True:
        try:
            time.sleep(0.001)
        finally:
            continue  # noqa: B012


def suppressing() -> str:
    while True:
        with contextlib.suppress(BaseException):
            forever()


def swallowing_in_a_generator() -> str:
    def numbers() -> Iterator[None]:
        while True:
            try:  # noqa: SIM105
                yield
            except BaseException:
                pass

    while True:
        try:
            for _ in numbers():
                pass
        except BaseException:
            pass


def nested_swallowing() -> str:
    while True:
        try:
            swallowing()
        except BaseException:
            swallowing()


def calling_itself() -> str:
    try:
        return forever()
    except BaseException:
        return calling_itself()


def waiting_for_a_lock() -> str:
    lock = threading.Lock()
    lock.acquire()
    while True:
        try:  # noqa: SIM105
            lock.acquire()
        except BaseException:
            pass


RUNNING = [
    forever,
    swallowing,
    swallowing_in_one_line,
    swallowing_finally,
    suppressing,
    swallowing_in_a_generator,
    nested_swallowing,
    calling_itself,
]
ENDLESS = [*RUNNING, asleep, waiting_for_a_lock]


def in_a_thread(call: Callable[[], Any]) -> Any:
    """Return what `call` returns in another thread; fail if it takes longer than 5 s."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(5)
    assert results, "the call did not return"
    return results[0]


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


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no"), "repr raised ValueError: no"),
        (SystemExit(3), "repr raised SystemExit: 3"),
        (MemoryError(), "repr raised MemoryError"),
        (GeneratorExit(), "repr raised GeneratorExit"),
    ],
)
def test_a_repr_that_raises(error: BaseException, reason: str) -> None:
    assert call_guarded(raising(error)) == (None, reason)


def test_a_repr_that_recurses() -> None:
    obj = Repr(lambda: repr(obj))
    text, reason = call_guarded(lambda: repr(obj))
    assert (
        text is None and reason is not None and reason.startswith("repr raised RecursionError: maximum recursion depth")
    )


def test_a_repr_that_is_not_a_string() -> None:
    assert call_guarded(lambda: 3) == (None, "repr raised TypeError: __repr__ returned non-string (type int)")


def test_keyboard_interrupts_are_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        call_guarded(raising(KeyboardInterrupt()))


@each("endless", ENDLESS)
def test_endless_reprs_are_interrupted(endless: Callable[[], str]) -> None:
    started = time.monotonic()
    assert call_guarded(endless, 0.02) == (None, "repr took too long")
    assert time.monotonic() - started < 2 and sys.gettrace() is None


@each("endless", ENDLESS)
def test_endless_reprs_in_other_threads_are_abandoned(endless: Callable[[], str]) -> None:
    before = threading.enumerate()
    assert in_a_thread(lambda: call_guarded(endless, 0.02)) == (None, "repr took too long")
    assert threading.enumerate() == before


def watched(call: Callable[[], Any], seconds: float = 0.02) -> str:
    """Run `call` as a lecture's frame evaluates an expression of `@inspect`; return how it ended."""
    watch: Deadline = NO_DEADLINE
    try:
        watch = Guard().watch("x.y")
        watch.start(seconds, sys._getframe())
        call()
        watch.armed = False
        watch.withdraw()
        watch.close()
        return "returned"
    except BaseException as error:
        watch.armed = False
        watch.withdraw()
        watch.close()
        return type(error).__name__


@each("endless", ENDLESS)
def test_endless_expressions_are_interrupted(endless: Callable[[], str]) -> None:
    assert watched(endless).startswith("_TooSlow")


@each("endless", RUNNING)
def test_endless_expressions_in_other_threads_are_interrupted(endless: Callable[[], str]) -> None:
    assert in_a_thread(lambda: watched(endless)).startswith("_TooSlow")


def test_late_interruptions_stay_inside_the_expression() -> None:
    """Time runs out at many moments near the end of the expression; no interruption may come after it."""

    def nearly_too_long() -> None:
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass

    def evaluate_repeatedly() -> set[str]:
        outcomes = set()
        for n in range(300):
            outcomes.add(watched(nearly_too_long, 0.0004 + n / 1e6))
            for _ in range(20):
                len("")
        return outcomes

    for outcomes in (evaluate_repeatedly(), in_a_thread(evaluate_repeatedly)):
        assert outcomes <= {"returned", "_TooSlow", "_TooSlowAgain"}


def test_repeatedly_slow_code_is_no_longer_called() -> None:
    guard = Guard()
    reasons = [guard.call(forever, "repr", 0.01, str)[1] for _ in range(PATIENCE + 1)]
    assert reasons == ["repr took too long"] * PATIENCE + [f"repr not called: it took too long {PATIENCE} times"]
    assert guard.call(lambda: 1, "repr", 1, int) == (1, None)
    assert guard.watch("x.p") is not NO_DEADLINE
    guard.slow["x.p", 0] += 1
    assert guard.describe_exception(raised_by(lambda: guard.watch("x.p"))).startswith("not evaluated: it took too long")


def raised_by(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value


def test_observed_code_does_not_advance_random_generators() -> None:
    def draws() -> tuple[Any, ...]:
        numpy.random.randn()  # keeps a second number for later
        return random.random(), random.gauss(0, 1), numpy.random.randn(), torch.rand(1).item()

    def seeded(between: Callable[[], Any]) -> tuple[Any, ...]:
        random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
        draws()
        between()
        return draws()

    expected = seeded(lambda: None)
    assert seeded(lambda: call_guarded(lambda: str(draws()))) == expected
    assert seeded(lambda: watched(draws, 5)) == expected
    with alarm_in_use():
        assert seeded(lambda: call_guarded(lambda: str(draws()))) == expected


def test_alarms_set_by_observed_code_persist() -> None:
    handler = lambda *_: None  # noqa: E731
    before = signal.getsignal(signal.SIGALRM)
    try:
        watched(lambda: (signal.signal(signal.SIGALRM, handler), signal.setitimer(signal.ITIMER_REAL, 9)), 5)
        assert signal.getsignal(signal.SIGALRM) is handler and 8 < signal.getitimer(signal.ITIMER_REAL)[0] <= 9
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_waiting_for_a_held_lock_is_interrupted() -> None:
    lock = threading.Lock()
    with lock:
        assert call_guarded(lambda: str(lock.acquire()), 0.02) == (None, "repr took too long")
        assert in_a_thread(lambda: call_guarded(lambda: str(lock.acquire()), 0.02)) == (None, "repr took too long")


def test_current_thread_in_a_repr_leaves_no_dummy_thread() -> None:
    with alarm_in_use():
        text, _ = call_guarded(lambda: threading.current_thread().name)
    assert text is not None and text.startswith("Dummy-") and threading.active_count() == 1


def test_reprs_see_context_variables_of_the_lecture() -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")
    number.set(7)
    with alarm_in_use():
        assert call_guarded(lambda: str(number.get())) == ("7", None)


def test_observing_threads_are_noted() -> None:
    guard = Guard()
    observers: list[set[int]] = []
    for context in (contextlib.nullcontext(), alarm_in_use()):
        with context:
            guard.call(lambda: observers.append(set(guard.observing)), "repr", 1)
    assert observers[0] == {threading.get_ident()} and len(observers[1]) == 2 and guard.observing == set()


def test_nested_reprs_share_one_alarm() -> None:
    text, reason = call_guarded(lambda: str(call_guarded(lambda: "inner", 0.01)), 5.0)
    assert (text, reason) == ("('inner', None)", None)


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
        assert call_guarded(forever, 0.2) == (None, "repr took too long")
        assert watched(forever) == "_TooSlow"
    assert received == [signal.SIGALRM]


def test_reprs_do_not_affect_shown_warnings() -> None:
    def warn() -> str:
        warnings.warn("from the repr", stacklevel=1)
        return "warned"

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("from the lecture", stacklevel=1)
            assert call_guarded(warn) == ("warned", None)
    assert [str(w.message) for w in shown] == ["from the lecture"]


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


def test_interruptions_do_not_stop_tracing_of_functions() -> None:
    """Python 3.11 traces no function while an exception is pending for its thread, or after one was withdrawn."""
    program = """
import signal, sys, threading, time
from trace_tools.describing.guarded_repr import Guard
signal.signal(signal.SIGALRM, lambda *_: None)  # in use, so the guard uses another thread
print(Guard().call(lambda: "shown", "repr", 5), Guard().call(lambda: time.sleep(30), "repr", 0.1))
def endless():
    while True:
        pass
watch = Guard().watch("x.y")
try:
    watch.start(0.1, sys._getframe())
    endless()
except BaseException:
    watch.armed = False
    watch.withdraw()
watch.close()
calls = []
sys.settrace(lambda frame, event, arg: calls.append(frame.f_code.co_name))
(lambda: None)()
sys.settrace(None)
print(calls)
"""
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=25, check=False)
    assert completed.stdout.splitlines() == ["('shown', None) (None, 'repr took too long')", "['<lambda>']"], (
        completed.stderr
    )


@pytest.mark.slow
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


def test_garbage_collection_is_paused_while_a_thread_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a `__del__` could run between the check that the observed code still runs and its interruption."""
    collector_enabled: list[bool] = []
    throw = guarded_repr._throw

    def recording_throw(ident: int, kind: type) -> None:
        if ident != threading.get_ident() or kind is guarded_repr._Settled:  # not where an interruption repeats itself
            collector_enabled.append(gc.isenabled())
        throw(ident, kind)

    monkeypatch.setattr(guarded_repr, "_throw", recording_throw)
    monkeypatch.setattr(guarded_repr, "_alarm_is_free", lambda: False)

    def endless() -> None:
        while True:
            pass

    assert Guard().call(endless, "endless", 0.05) == (None, "endless took too long")
    assert collector_enabled and not any(collector_enabled) and gc.isenabled()
