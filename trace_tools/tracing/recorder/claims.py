"""Decide which asserts of a lecture raise when they fail: the same ones as in plain Python, in every run.

In a timed run every failing assert raises, unless the user has asked to continue after failed claims. The counted run
is slow, so claims about time may fail in it: such an error is not part of the lecture. There an evaluation raises if it
did so in a timed run of the same process (`TimedClaims`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_tools.describing.safe_repr import is_a

RANGES = 1000  # ranges of raising evaluations kept per assert; beyond them the last range grows
MEASURED = 0  # represents all evaluations under `measure` and `count`, see `Evaluations`

# read this way because a class of the lecture may define its own attribute
traceback_of = BaseException.__dict__["__traceback__"].__get__

Evaluation = tuple[int, int]  # statement of the assert, and index of the evaluation in the run or MEASURED


class Evaluations:
    """How often each assert was evaluated in one run, and which evaluations raised.

    `measure` calls a function hundreds of times in a timed run and once in other runs. Evaluations under it are
    therefore counted separately from the lecture's own, and they all count as the same evaluation.
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.raised: dict[int, list[list[int]]] = {}  # ranges of evaluations: first and last
        self.measured: dict[int, bool] = {}  # asserts evaluated under `measure`: whether any evaluation raised

    def next(self, statement: int, *, measured: bool) -> Evaluation:
        """Count one evaluation and return its identity: the statement and its index."""
        if measured:
            self.measured.setdefault(statement, False)
            return statement, MEASURED
        self.counts[statement] = count = self.counts.get(statement, 0) + 1
        return statement, count

    def note_raised(self, evaluation: Evaluation) -> None:
        """Note that an evaluation raises."""
        statement, count = evaluation
        ranges = self.raised.setdefault(statement, [])
        if count == MEASURED:
            self.measured[statement] = True
        elif ranges and (ranges[-1][1] == count - 1 or len(ranges) == RANGES):
            ranges[-1][1] = count
        else:
            ranges.append([count, count])

    def has_raised(self, statement: int, count: int) -> bool:
        """Return whether an evaluation raised."""
        return any(first <= count <= last for first, last in self.raised.get(statement, ()))


class TimedClaims:
    """Results of each evaluation in the earlier, timed runs of this process."""

    def __init__(self, runs: Sequence[Evaluations]) -> None:
        self.runs = runs

    def raises(self, evaluation: Evaluation) -> bool | None:
        """Return whether a failing evaluation should raise: as in a timed run; None if none reached it."""
        statement, count = evaluation
        if count == MEASURED:
            results = [run.measured[statement] for run in self.runs if statement in run.measured]
        else:
            results = [run.has_raised(statement, count) for run in self.runs if run.counts.get(statement, 0) >= count]
        return any(results) if results else None


class Claims:
    """The asserts of one run: which failing ones raise, and which errors they raised."""

    def __init__(self, timed: TimedClaims | None, *, failing_raise: bool) -> None:
        self.timed = timed
        self.failing_raise = failing_raise
        self.evaluations = Evaluations()
        # By id of a raised AssertionError: the step of its claim, and the position where it was raised.
        self.failing: dict[int, tuple[int, tuple[str, int] | None]] = {}

    def raises(self, statement: int, *, measured: bool, is_caught: Callable[[], bool]) -> bool:
        """Count a failing evaluation of an assert; return whether it raises.

        It raises as in the timed runs. If they have no result, it raises if the user has asked for that, or if the
        lecture is about to catch the error, because its handler is part of the lecture.
        """
        evaluation = self.evaluations.next(statement, measured=measured)
        raised = self.timed.raises(evaluation) if self.timed else None
        if raised is None:
            raised = self.failing_raise or is_caught()
        if raised:
            self.evaluations.note_raised(evaluation)
        return raised

    def note_error(self, error: BaseException, step: int) -> None:
        """Note that the claim of a step raised this error.

        No reference to the error is kept, because that would keep the objects in its frames alive.
        """
        self.failing[id(error)] = step, _origin(error)

    def step_of(self, error: BaseException | None) -> int | None:
        """Return the step of the claim that raised this error, once; None for other errors.

        If a library has swallowed the error, another error may now have its address; it is recognized by its different
        origin.
        """
        step, origin = self.failing.pop(id(error), (None, None))
        return step if is_a(type(error), AssertionError) and _origin(error) == origin else None


def _origin(error: BaseException | None) -> tuple[str, int] | None:
    """Return the file and line where an error was first raised; re-raising it elsewhere changes neither."""
    entry = traceback_of(error) if error is not None else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return (entry.tb_frame.f_code.co_filename, entry.tb_lineno) if entry is not None else None
