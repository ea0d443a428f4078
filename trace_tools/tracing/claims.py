"""Which of a lecture's asserts raise when they fail: those that do so in plain Python, in every process.

In a timed run every failing assert raises, unless the user has asked to keep going. In the metering process, where
everything is slow, and in the shaken one, where clocks are wrong, a claim about time fails that holds plainly; what it
would raise there is no part of the lecture. So these processes go by evidence: each timed run notes in its journal
how often each assert was evaluated and which of these evaluations raised (`Evaluations`), and of an evaluation that
fails in another process `TimedClaims` says what the timed runs made of it.

    timed = TimedClaims(folder, passes=3)
    timed.raises((12, 4))    # False: the fourth evaluation of statement 12 held in all timed runs
    timed.raises((12, 400))  # None: no timed run came that far
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import sleep  # now: a lecture may put another in `time`

from trace_tools.tracing.journal import Evaluated, read_evaluated

RANGES = 1000  # of evaluations that raised, kept of each assert; beyond them the last one grows
POLL_S = 0.05
MEASURED = 0  # stands for all evaluations under `measure` and `count`, see `Evaluations`

Evaluation = tuple[int, int]  # the assert's statement, and which of its evaluations in the run; or MEASURED


class Evaluations:
    """How often each assert was evaluated in one run, and when that raised.

    `measure` calls a function hundreds of times in a timed run, and once in others: evaluations under it are counted
    apart from those of the lecture itself, and all stand for one another.
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.raised: dict[int, list[list[int]]] = {}  # ranges of evaluations, first and last
        self.measured: dict[int, bool] = {}  # asserts evaluated under `measure`: whether any has raised there

    def next(self, statement: int, *, measured: bool) -> Evaluation:
        """Count one evaluation; return which it is."""
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
        """Yield what the journal keeps: a record for each assert that was evaluated."""
        for statement in sorted({*self.counts, *self.measured}):
            raised, measured = self.raised.get(statement, []), self.measured.get(statement)
            yield (Evaluated, statement, self.counts.get(statement, 0), raised, measured)


class TimedClaims:
    """What the timed runs made of each evaluation; read from their journals when it is first asked for.

    Where processes run side by side that has to wait: the parent writes a process's status once it has ended.
    """

    def __init__(self, folder: Path, passes: int) -> None:
        self.folder = folder.absolute()  # the lecture may go elsewhere
        self.passes = passes
        self._found: dict[int, list[Evaluated]] | None = None  # by statement, one of each run

    def raises(self, evaluation: Evaluation) -> bool | None:
        """Whether an evaluation that fails is to raise: True where it did in a timed run, None where none had it."""
        statement, count = evaluation
        if self._found is None:
            self._wait()
            self._found = {}
            for path in sorted(self.folder.glob("pass-*.journal")):
                for record in read_evaluated(path):
                    self._found.setdefault(record.statement, []).append(record)
        found = self._found.get(statement, [])
        if count == MEASURED:
            there = [record.measured for record in found if record.measured is not None]
            return any(there) if there else None
        there = [
            any(first <= count <= last for first, last in record.raised)
            for record in found
            if record.evaluations >= count
        ]
        return any(there) if there else None

    def _wait(self) -> None:
        """Wait until all passes have ended. Should their parent die, the watching thread ends this process."""
        while True:
            started, ended = (list(self.folder.glob(f"pass-*.{kind}")) for kind in ("journal", "status"))
            if len(ended) >= max(self.passes, len(started)):
                return
            sleep(POLL_S)
