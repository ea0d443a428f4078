import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from trace_tools.describing.safe_repr import attempt, class_name, describe_exception, plain_repr, without_addresses


class Repr:
    """An object whose repr is whatever a test makes it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __repr__(self) -> str:
        return self.make()  # type: ignore[no-any-return]


def of(make: Callable[[], Any], seconds: float = 5.0) -> tuple[str | None, str | None]:
    obj = Repr(make)
    return attempt(lambda: plain_repr(obj), "repr", seconds)


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def make() -> NoReturn:
        raise error

    return make


def forever() -> str:
    while True:
        pass


def forever_whatever_happens() -> str:
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        try:
            while time.monotonic() < end + 10:
                pass
        except BaseException:
            pass
    return "done"


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
    text, why = attempt(lambda: plain_repr(obj), "repr", 5.0)
    assert text is None and why is not None and why.startswith("repr raised RecursionError: maximum recursion depth")


def test_a_repr_that_is_no_string() -> None:
    assert of(lambda: 3) == (None, "repr raised TypeError: __repr__ returned non-string (type int)")


def test_keyboard_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        of(raising(KeyboardInterrupt()))


def test_a_repr_that_hangs_is_interrupted() -> None:
    started = time.monotonic()
    assert of(forever, 0.05) == (None, "repr took too long")
    assert of(forever_whatever_happens, 0.05)[1] in (None, "repr took too long")
    assert time.monotonic() - started < 5


def test_nested_reprs_share_one_alarm() -> None:
    text, why = of(lambda: str(of(lambda: "inner", 0.01)), 5.0)
    assert (text, why) == ("('inner', None)", None)


def test_where_the_lecture_uses_the_alarm_it_is_left_alone() -> None:
    rung: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)

    def slow() -> str:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        return "slow"

    try:
        assert of(slow, 0.01) == ("slow", None)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert rung == [signal.SIGALRM]


def test_in_another_thread_there_is_no_limit() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(of(lambda: time.sleep(0.05) or "slept", 0.001)))
    thread.start()
    thread.join()
    assert found == [("slept", None)]


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


def test_addresses_are_removed() -> None:
    assert plain_repr(object()) == "<object object>"
    assert plain_repr(test_addresses_are_removed) == "<function test_addresses_are_removed>"
    assert "0x" not in plain_repr([].append)
    assert without_addresses("0x7f3a12345678, 0xff, 0x12") == "0x…, 0xff, 0x12"


def test_class_names() -> None:
    class Meta(type):
        __name__ = property(raising(ValueError()))  # type: ignore[assignment]

    assert class_name(Meta("Odd", (), {})) == "Odd"
    assert class_name(int) == "int"
    assert class_name(type("error", (), {"__module__": "re"})) == "re.error"
    assert len(class_name(type("x" * 10_000, (), {}))) == 200


def test_exceptions() -> None:
    class Worse(Exception):
        def __str__(self) -> str:
            raise self

    assert describe_exception(ValueError("no")) == "ValueError: no"
    assert describe_exception(ValueError()) == "ValueError"
    assert describe_exception(KeyError("k")) == "KeyError: 'k'"
    assert describe_exception(ValueError(object())) == "ValueError: <object object>"
    assert describe_exception(Worse()) == "Worse: (its message can't be read)"
    assert of(raising(Worse())) == (None, "repr raised Worse: (its message can't be read)")
