"""Decide which asserts of a lecture raise when they fail: the same ones as in plain Python, in every run.

In a timed run every failing assert raises, unless the user has asked to continue after failed claims. The counted run
is slow, so claims about time may fail in it: there an evaluation raises if it did so in an earlier run of the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from trace_tools.describing.safe_repr import is_a

MEASURED = 0  # represents all evaluations under `measure` and `count`, which vary in number

# read this way because a class of the lecture may define its own attribute
traceback_of = BaseException.__dict__["__traceback__"].__get__


class Claims:
    """The asserts of one run: how often each was evaluated, which evaluations raised, and with which errors."""

    def __init__(self, earlier: Sequence[Claims] = (), *, failing_raise: bool = True) -> None:
        self.earlier = earlier
        self.failing_raise = failing_raise
        self.counts: Counter[int] = Counter()  # evaluations by statement
        self.measured: set[int] = set()  # statements evaluated under `measure`
        self.raised: set[tuple[int, int]] = set()  # statement, and number of the evaluation or MEASURED
        # by id of a raised AssertionError: the step of its claim, and where it was raised
        self.failing: dict[int, tuple[int, tuple[str, int] | None]] = {}

    def evaluated(self, statement: int, *, measured: bool = False) -> int:
        """Count an evaluation; return its number among those of the statement, or MEASURED."""
        if measured:
            self.measured.add(statement)
            return MEASURED
        self.counts[statement] += 1
        return self.counts[statement]

    def raises(self, statement: int, *, measured: bool, is_caught: Callable[[], bool]) -> bool:
        """Count a failing evaluation of an assert; return whether it raises.

        It raises as in the earlier runs. If none reached it, it raises if the user has asked for that, or if the
        lecture is about to catch the error, because its handler is part of the lecture.
        """
        number = self.evaluated(statement, measured=measured)
        reached = [
            run
            for run in self.earlier
            if (statement in run.measured if number == MEASURED else number <= run.counts[statement])
        ]
        if reached:
            raises = any((statement, number) in run.raised for run in reached)
        else:
            raises = self.failing_raise or is_caught()
        if raises:
            self.raised.add((statement, number))
        return raises

    def note_error(self, error: BaseException, step: int) -> None:
        """Note that the claim of a step raised this error. A reference would keep the objects in its frames alive."""
        self.failing[id(error)] = step, _origin(error)

    def step_of(self, error: BaseException | None) -> int | None:
        """Return the step of the claim that raised this error, once; None for other errors.

        If a library has swallowed the error, another one may now have its address, but not its origin.
        """
        step, origin = self.failing.pop(id(error), (None, None))
        return step if is_a(type(error), AssertionError) and _origin(error) == origin else None


def _origin(error: BaseException | None) -> tuple[str, int] | None:
    """Return the file and line where an error was first raised; re-raising it elsewhere changes neither."""
    entry = traceback_of(error) if error is not None else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry is not None else None
