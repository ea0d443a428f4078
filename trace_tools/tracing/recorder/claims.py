"""Decide which asserts of a lecture raise when they fail: the same ones as in plain Python, in every process.

In a timed run every failing assert raises, unless the user has asked to continue after failed claims. The metering
process is slow and the perturbed process has wrong clocks, so claims about time that hold in plain Python may fail in
these processes. Such an error is not part of the lecture. These processes therefore use evidence: each timed run notes
in its journal how often each assert was evaluated and which evaluations raised (`Evaluations`). When an evaluation
fails in another process, `TimedClaims` reports its result in the timed runs.

    timed = TimedClaims(folder, passes=3)
    timed.raises((12, 4))    # False: the fourth evaluation of statement 12 held in all timed runs
    timed.raises((12, 400))  # None: no timed run evaluated statement 12 so often
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep  # bound now: a lecture may replace it in `time`

from trace_tools.describing.safe_repr import is_a
from trace_tools.tracing.journal import Evaluated, read_evaluated

RANGES = 1000  # ranges of raising evaluations kept per assert; beyond them the last range grows
POLL_S = 0.05
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

    def rows(self) -> Iterator[tuple[type[Evaluated], int, int, list[list[int]], bool | None]]:
        """Yield the records for the journal, one for each assert that was evaluated."""
        for statement in sorted({*self.counts, *self.measured}):
            raised, measured = self.raised.get(statement, []), self.measured.get(statement)
            yield (Evaluated, statement, self.counts.get(statement, 0), raised, measured)


class TimedClaims:
    """Results of each evaluation in the timed runs, read from their journals at the first query.

    If processes run in parallel, the first query waits: the parent writes the status of a process after its end.
    """

    def __init__(self, folder: Path, passes: int) -> None:
        self.folder = folder.absolute()  # absolute, because the lecture may change the working directory
        self.passes = passes
        self._records: dict[int, list[Evaluated]] | None = None  # by statement, one record per run

    def raises(self, evaluation: Evaluation) -> bool | None:
        """Return whether a failing evaluation should raise: True if it raised in a timed run, None if no timed run
        reached it.
        """
        statement, count = evaluation
        if self._records is None:
            self._wait()
            self._records = {}
            for path in sorted(self.folder.glob("pass-*.journal")):
                for record in read_evaluated(path):
                    self._records.setdefault(record.statement, []).append(record)
        records = self._records.get(statement, [])
        if count == MEASURED:
            results = [record.measured for record in records if record.measured is not None]
        else:
            results = [
                any(first <= count <= last for first, last in record.raised)
                for record in records
                if record.evaluations >= count
            ]
        return any(results) if results else None

    def _wait(self) -> None:
        """Wait until all passes have ended. If their parent dies, the watching thread ends this process."""
        while True:
            started, ended = (list(self.folder.glob(f"pass-*.{kind}")) for kind in ("journal", "status"))
            if len(ended) >= max(self.passes, len(started)):
                return
            sleep(POLL_S)


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
