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
def unraisable_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that swallows what ends it does so again when it is collected; pytest's hook would be ended too."""
    monkeypatch.setattr(sys, "unraisablehook", bool)


class Repr:
    """An object whose repr is whatever a test makes it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __repr__(self) -> str:
        return self.make()  # type: ignore[no-any-return]


def of(make: Callable[[], Any], seconds: float = 5.0) -> tuple[str | None, str | None]:
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


def in_a_generator() -> str:
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


def in_what_swallows() -> str:
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
    in_a_generator,
    in_what_swallows,
    calling_itself,
]
ENDLESS = [*RUNNING, asleep, waiting_for_a_lock]


def in_a_thread(call: Callable[[], Any]) -> Any:
    """What `call` returns in a thread, within 5 s."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(5)
    assert found, "it never came back"
    return found[0]


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
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


def test_a_good_repr() -> None:
    assert of(lambda: "<fine>") == ("<fine>", None)
    text, why = of(lambda: Text("x"))
    assert (text, type(text), why) == ("x", str, None)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no"), "repr raised ValueError: no"),
        (SystemExit(3), "repr raised SystemExit: 3"),
        (MemoryError(), "repr raised MemoryError"),
        (GeneratorExit(), "repr raised GeneratorExit"),
    ],
)
def test_a_repr_that_raises(error: BaseException, why: str) -> None:
    assert of(raising(error)) == (None, why)


def test_a_repr_that_recurses() -> None:
    obj = Repr(lambda: repr(obj))
    text, why = of(lambda: repr(obj))
    assert text is None and why is not None and why.startswith("repr raised RecursionError: maximum recursion depth")


def test_a_repr_that_is_no_string() -> None:
    assert of(lambda: 3) == (None, "repr raised TypeError: __repr__ returned non-string (type int)")


def test_keyboard_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        of(raising(KeyboardInterrupt()))


@each("endless", ENDLESS)
def test_what_never_ends_is_ended(endless: Callable[[], str]) -> None:
    started = time.monotonic()
    assert of(endless, 0.02) == (None, "repr took too long")
    assert time.monotonic() - started < 2 and sys.gettrace() is None


@each("endless", ENDLESS)
def test_in_another_thread_it_is_left_behind(endless: Callable[[], str]) -> None:
    before = threading.enumerate()
    assert in_a_thread(lambda: of(endless, 0.02)) == (None, "repr took too long")
    assert threading.enumerate() == before


def watched(call: Callable[[], Any], seconds: float = 0.02) -> str:
    """What the lecture's frame does with an expression of `@inspect`."""
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
def test_an_expression_is_ended_in_place(endless: Callable[[], str]) -> None:
    assert watched(endless).startswith("_TooSlow")


@each("endless", RUNNING)
def test_an_expression_is_ended_in_place_in_another_thread(endless: Callable[[], str]) -> None:
    assert in_a_thread(lambda: watched(endless)).startswith("_TooSlow")


def test_time_that_is_up_as_it_returns_ends_nothing_else() -> None:
    """Whenever the interruption comes, it is gone once the expression is left."""

    def nearly() -> None:
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass

    def often() -> set[str]:
        found = set()
        for n in range(300):
            found.add(watched(nearly, 0.0004 + n / 1e6))
            for _ in range(20):
                len("")
        return found

    for found in (often(), in_a_thread(often)):
        assert found <= {"returned", "_TooSlow", "_TooSlowAgain"}


def test_what_took_too_long_often_is_called_no_more() -> None:
    guard = Guard()
    found = [guard.call(forever, "repr", 0.01, str)[1] for _ in range(PATIENCE + 1)]
    assert found == ["repr took too long"] * PATIENCE + [f"repr not called: it took too long {PATIENCE} times"]
    assert guard.call(lambda: 1, "repr", 1, int) == (1, None)
    assert guard.watch("x.p") is not NO_DEADLINE
    guard.slow["x.p", 0] += 1
    assert guard.describe_exception(raised_by(lambda: guard.watch("x.p"))).startswith("not evaluated: it took too long")


def raised_by(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value


def test_random_numbers_are_drawn_by_the_lecture_alone() -> None:
    def draws() -> tuple[Any, ...]:
        numpy.random.randn()  # keeps a second number for later
        return random.random(), random.gauss(0, 1), numpy.random.randn(), torch.rand(1).item()

    def seeded(between: Callable[[], Any]) -> tuple[Any, ...]:
        random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
        draws()
        between()
        return draws()

    expected = seeded(lambda: None)
    assert seeded(lambda: of(lambda: str(draws()))) == expected
    assert seeded(lambda: watched(draws, 5)) == expected
    with in_use():
        assert seeded(lambda: of(lambda: str(draws()))) == expected


def test_what_the_observed_code_does_to_the_alarm_is_its_own() -> None:
    handler = lambda *_: None  # noqa: E731
    before = signal.getsignal(signal.SIGALRM)
    try:
        watched(lambda: (signal.signal(signal.SIGALRM, handler), signal.setitimer(signal.ITIMER_REAL, 9)), 5)
        assert signal.getsignal(signal.SIGALRM) is handler and 8 < signal.getitimer(signal.ITIMER_REAL)[0] <= 9
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_lock_that_the_lecture_holds() -> None:
    lock = threading.Lock()
    with lock:
        assert of(lambda: str(lock.acquire()), 0.02) == (None, "repr took too long")
        assert in_a_thread(lambda: of(lambda: str(lock.acquire()), 0.02)) == (None, "repr took too long")


def test_a_repr_that_asks_for_its_thread_leaves_no_trace_of_it() -> None:
    with in_use():
        text, _ = of(lambda: threading.current_thread().name)
    assert text is not None and text.startswith("Dummy-") and threading.active_count() == 1


def test_context_variables_are_the_lectures() -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")
    number.set(7)
    with in_use():
        assert of(lambda: str(number.get())) == ("7", None)


def test_it_notes_who_observes() -> None:
    guard = Guard()
    inside: list[set[int]] = []
    for where in (contextlib.nullcontext(), in_use()):
        with where:
            guard.call(lambda: inside.append(set(guard.observing)), "repr", 1)
    assert inside[0] == {threading.get_ident()} and len(inside[1]) == 2 and guard.observing == set()


def test_nested_reprs_share_one_alarm() -> None:
    text, why = of(lambda: str(of(lambda: "inner", 0.01)), 5.0)
    assert (text, why) == ("('inner', None)", None)


@contextlib.contextmanager
def in_use() -> Iterator[list[int]]:
    """The lecture uses the alarm."""
    rung: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    try:
        yield rung
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_where_the_lecture_uses_the_alarm_it_is_left_alone() -> None:
    with in_use() as rung:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert of(forever, 0.2) == (None, "repr took too long")
        assert watched(forever) == "_TooSlow"
    assert rung == [signal.SIGALRM]


def test_warnings_stay_inside_and_old_ones_are_not_shown_again() -> None:
    def warn() -> str:
        warnings.warn("from the repr", stacklevel=1)
        return "warned"

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("from the lecture", stacklevel=1)
            assert of(warn) == ("warned", None)
    assert [str(w.message) for w in shown] == ["from the lecture"]


def test_exceptions() -> None:
    class Worse(Exception):
        def __str__(self) -> str:
            raise self

    assert Guard().describe_exception(ValueError("no")) == "ValueError: no"
    assert Guard().describe_exception(ValueError()) == "ValueError"
    assert Guard().describe_exception(KeyError("k")) == "KeyError: 'k'"
    assert Guard().describe_exception(ValueError(object())) == "ValueError: <object object>"
    assert Guard().describe_exception(Worse()) == "Worse: (its message can't be read)"
    assert of(raising(Worse())) == (None, "repr raised Worse: (its message can't be read)")


def test_what_was_interrupted_keeps_no_traced_function_from_beginning() -> None:
    """In Python 3.11 none does while an exception waits for its thread, and after one was taken back."""
    text = """
import signal, sys, threading, time
from trace_tools.describing.guarded_repr import Guard
signal.signal(signal.SIGALRM, lambda *_: None)  # in use: the guard takes another thread
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
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=25, check=False)
    assert ended.stdout.splitlines() == ["('shown', None) (None, 'repr took too long')", "['<lambda>']"], ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL, reason="the alarm is in use")
def test_nothing_of_it_is_left_where_the_stack_ends() -> None:
    guard, limit, depth = Guard(), sys.getrecursionlimit(), len(list(traceback.walk_stack(None)))

    def deeper() -> None:
        guard.call(lambda: 1, "one", 5)
        deeper()

    try:
        for more in range(30):  # it ends at another call of the guard's each time
            sys.setrecursionlimit(depth + 200 + more)
            with pytest.raises(RecursionError):
                deeper()
            assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and not guard.observing
    finally:
        sys.setrecursionlimit(limit)


def test_no_garbage_is_collected_where_a_thread_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `__del__` would run between asking whether the observed code is over and ending it."""
    collected: list[bool] = []
    throw = guarded_repr._throw

    def thrown(ident: int, kind: type) -> None:
        if ident != threading.get_ident() or kind is guarded_repr._Settled:  # else it is thrown again, where it comes
            collected.append(gc.isenabled())
        throw(ident, kind)

    monkeypatch.setattr(guarded_repr, "_throw", thrown)
    monkeypatch.setattr(guarded_repr, "_alarm_is_free", lambda: False)

    def endless() -> None:
        while True:
            pass

    assert Guard().call(endless, "endless", 0.05) == (None, "endless took too long")
    assert collected and not any(collected) and gc.isenabled()
