"""Run processes of two lectures in turn until the noise is small enough, and compare them.

    benched = run_rounds(BenchRequest(Path("A.py"), Path("B.py"), budget_s=300, find=1.2), say=print)
    benched.judged.difference.matters
    benched.rounds, benched.ended     # 8, "enough to detect 1.2×"

A round is a new process of each, one right after the other, in the order AB, BA, AB …: load hits both, and drift
cancels. The number of rounds depends on the noise and the available time, never on the result: a test that stops once
it is significant is significant far too often (Armitage, McPherson and Rowe, "Repeated significance tests on
accumulating data", 1969).

OpenMP's threads sleep while they wait for each other (OMP_WAIT_POLICY, OpenMP 5.2, section 21.7), unless the
environment sets another policy. By default they spin. On two busy cores a training loop of 0.25 s then took 5 to 17 s,
because each thread held the core that the other waited for; with sleeping threads it took 0.4 to 0.5 s.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trace_tools.bench.judgement import FEWEST_ROUNDS, RoundsJudgement, judge_rounds
from trace_tools.diff.difference import Side
from trace_tools.diff.judge.between import DEFAULT, Choices
from trace_tools.errors import TraceToolsError
from trace_tools.machines import machine as machines
from trace_tools.trace.identities import PASS, ProcessId
from trace_tools.trace.model import Run, Trace
from trace_tools.tracing.merge.merging import ending_by_code
from trace_tools.tracing.options import DEFAULTS, TraceOptions
from trace_tools.tracing.run_folder import Traced, merge_folder, run_folder
from trace_tools.tracing.supervisor import Tracer
from trace_tools.util import formats

WAITING = {"OMP_WAIT_POLICY": "passive"}
MOST_ESTIMATING = 0.15  # largest share of the time spent on estimating the noise
DROPPED = 3  # rounds that may fail before there are enough, or in a row


class TooFewRoundsError(TraceToolsError):
    """Too few rounds to judge; exit code 3 means that the question could not be answered."""

    def __init__(self, message: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The lectures to compare, and the time limit."""

    a: Path
    b: Path
    names: tuple[str, str] | None = None  # names for the report, if not the paths
    options: TraceOptions = DEFAULTS
    budget_s: float = 300.0
    find: float = 1.2  # the smallest ratio to detect
    keep: Path | None = None  # folder in which both traces are kept, in A/ and B/
    choices: Choices = DEFAULT


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The result, the number of rounds, and why the rounds ended."""

    judged: RoundsJudgement
    rounds: int
    seconds: float
    ended: str
    dropped: tuple[str, ...]  # processes that ended differently from those before them


@dataclass(slots=True)
class _Contender:
    """One of the two lectures, and the folder of its journals."""

    letter: str
    tracer: Tracer
    folder: Path = field(default_factory=Path)
    fails: bool = False  # it failed in the first round, so it probably fails in all

    def run(self, name: str) -> str | None:
        """Run one process; return why it cannot be compared, or None. Raises KeyboardInterrupt on Ctrl-C."""
        status, _ = self.tracer.runner.run(name, self.folder)
        if self.tracer.runner.interrupts:
            raise KeyboardInterrupt
        # the lecture itself may end the process with status 0
        complete = not (self.folder / f"{ProcessId.parse(name).file_stem}.tail").exists()
        if status not in (0, 1) or (status == 0 and not complete):
            return f"{self.letter} {ending_by_code(status)}"
        if name == "pass 1":
            self.fails = status != 0
        return None if status == 0 or self.fails else f"{self.letter} ended differently than in earlier rounds"

    def discard(self, name: str) -> None:
        """Remove the journal of one process, so that it is in no trace."""
        for path in self.folder.glob(f"{ProcessId.parse(name).file_stem}.*"):
            path.unlink()

    def options(self) -> dict[str, Any]:
        """Return the options stored in the run's folder."""
        return dict(json.loads((self.folder / "run.json").read_text(encoding="utf-8")))

    def machine(self) -> Trace:
        """Return the machine from the prepared folder, in the form that a tracer reuses."""
        machine = machines.from_json((self.folder / "machine.json").read_text(encoding="utf-8"))
        versions = [(name, of) for name, of in json.loads((self.folder / "versions.json").read_text("utf-8"))]
        run = Run(lecture="", started="", seed=0, passes=0, limit=2, complete=False)
        return Trace(title="", run=run, machine=machine, versions=versions, sources=[], steps=[])

    def merge(self, rounds: int, beside: Sequence[str], out: Path) -> Traced:
        """Merge the journals of the first rounds and of additional processes, without deleting them."""
        done = {**self.options(), "passes": rounds, "beside": list(beside)}
        (self.folder / "run.json").write_text(json.dumps(done), encoding="utf-8")
        return merge_folder(self.folder, out)


def run_rounds(request: BenchRequest, say: Callable[[str], None]) -> BenchResult:
    """Run both lectures in turn and judge them; report the noise after each round.

    Raises LectureError and UsageError before anything has run, and TooFewRoundsError if there is no basis for a
    judgement. Ctrl-C ends the rounds; complete rounds are judged if they are enough, without counts of FLOPs and bytes.
    """
    started = time.monotonic()
    names = request.names or (str(request.a), str(request.b))
    with ExitStack() as stack:
        stack.enter_context(_environment(WAITING))
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        out = request.keep or temporary
        options = replace(request.options, passes=1)
        contenders = [
            _Contender("A", Tracer(request.a, out / "A", options)),
            _Contender("B", Tracer(request.b, out / "B", options)),
        ]
        for side in contenders:
            side.folder = stack.enter_context(run_folder(temporary / "journals"))

        def judged(rounds: int, beside: Sequence[str], out: Path) -> RoundsJudgement:
            traces = [side.merge(rounds, beside, out / side.letter).trace for side in contenders]
            a, b = (Side(name, trace) for name, trace in zip(names, traces, strict=True))
            return judge_rounds(a, b, rounds, request.choices)

        tried, rounds, in_a_row, ended, process = 0, 0, 0, "", "pass 1"
        dropped: list[str] = []
        beside: list[str] = []
        estimate_s, estimated_at = 0.0, started
        try:
            say("measuring the machine")
            contenders[0].tracer.prepare(contenders[0].folder)
            contenders[1].tracer.like = contenders[0].machine()
            contenders[1].tracer.prepare(contenders[1].folder)
            with suppress(OSError):  # the file does not exist on a CPU
                shutil.copy(contenders[0].folder / machines.FREE_FILE, contenders[1].folder)
            other_processes = contenders[0].options()["beside"]  # such as the metering process
            while not ended:
                tried += 1
                process, began = str(ProcessId(PASS, rounds + 1)), time.monotonic()
                ended_as = [side.run(process) for side in contenders[:: 1 if tried % 2 else -1]]
                failures = sorted(why for why in ended_as if why is not None)
                now = time.monotonic()
                round_s, spent_s = now - began, now - started
                line = f"round {tried}: {spent_s:.0f} s"
                # one more round, and the work after the last one
                remaining_s = round_s * (1 + len(other_processes)) + estimate_s
                out_of_time = spent_s + remaining_s > request.budget_s
                if failures:
                    for side in contenders:
                        side.discard(process)
                    dropped.append(f"round {tried} is skipped: {' and '.join(failures)}")
                    line = dropped[-1]
                rounds += not failures
                in_a_row = in_a_row + 1 if failures else 0
                process = ""  # no round is incomplete
                if in_a_row > DROPPED:
                    ended = f"the last {in_a_row} rounds were lost: {' and '.join(failures)}"
                elif rounds < FEWEST_ROUNDS:
                    ended = "too many rounds were lost" if out_of_time and len(dropped) > DROPPED else ""
                    total_s = spent_s + (FEWEST_ROUNDS - 2) * round_s + remaining_s
                    if tried == 1 and total_s > request.budget_s:
                        line += f"; the {FEWEST_ROUNDS} rounds needed will take about {total_s:.0f} s"
                elif out_of_time:
                    ended = f"the budget of {request.budget_s:.0f} s was used up"
                elif now - estimated_at >= estimate_s / MOST_ESTIMATING:
                    so_far = judged(rounds, (), temporary)
                    estimated_at = time.monotonic()
                    estimate_s, spent_s = estimated_at - now, estimated_at - started
                    if so_far.would_find is None or so_far.noise is None:
                        ended = "all steps are too short to time"
                    else:
                        noise, ratio = formats.percent(so_far.noise), formats.ratio(so_far.would_find)
                        line = f"round {tried}: noise {noise}, can detect {ratio}×, {spent_s:.0f} s"
                        ended = f"enough to detect {formats.ratio(request.find)}×" * (so_far.would_find <= request.find)
                say(line)
            for process in other_processes if rounds >= FEWEST_ROUNDS else ():
                say(process)
                for side in contenders:
                    side.run(process)
                beside.append(process)
        except KeyboardInterrupt:
            ended = "Ctrl-C"
            for side in contenders if process else ():
                side.discard(process)
        if rounds < FEWEST_ROUNDS:
            why = f"{ended} after {formats.plural(rounds, 'round')}; at least {FEWEST_ROUNDS} are needed to judge"
            raise TooFewRoundsError(why, 130 if ended == "Ctrl-C" else 3)
        return BenchResult(judged(rounds, beside, out), rounds, time.monotonic() - started, ended, tuple(dropped))


@contextmanager
def _environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are unset, for processes started in the `with` block."""
    new = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


# --- reports --------------------------------------------------------------------------------------


def summary(benched: BenchResult) -> list[str]:
    """Return the introduction of the report: how it was measured, what could be detected, and the slow functions."""
    judged = benched.judged
    text = f"{formats.plural(benched.rounds, 'round')} of A and B in turn, {benched.seconds:.0f} s: {benched.ended}"
    if judged.would_find is None or judged.noise is None:
        return [f"{text}; TIME NOT JUDGED: {judged.difference.time_not_judged}", *benched.dropped]
    text += f"; noise {formats.percent(judged.noise)}; can detect {formats.ratio(judged.would_find)}× in half of "
    text += "the functions that take 5% of the run or more"
    lines = [text]
    for f in judged.functions:
        low, high = f.interval
        change = f"× {formats.ratio(f.ratio)} ({formats.ratio(low)} to {formats.ratio(high)})"
        times = f"{formats.duration(f.a_ns)} → {formats.duration(f.b_ns)}"
        missed = "" if f.verdict in ("slower", "faster") else f"; can detect {formats.ratio(f.would_find)}×"
        lines.append(f"{formats.one_line(f.function, 60)}: {times}, {change}, {f.verdict}{missed}")
    return [*lines, *benched.dropped]


def plain_rounds(benched: BenchResult) -> dict[str, Any]:
    """Return the rounds as data for scripts; ratios are B / A."""
    judged = benched.judged
    return {
        "rounds": benched.rounds,
        "seconds": round(benched.seconds, 3),
        "ended": benched.ended,
        "dropped": list(benched.dropped),
        "noise": judged.noise,
        "would_find": judged.would_find,
        "functions": [
            {
                "function": f.function,
                "a_ns": f.a_ns,
                "b_ns": f.b_ns,
                "ratio": f.ratio,
                "interval": list(f.interval),
                "verdict": f.verdict,
                "would_find": f.would_find,
            }
            for f in judged.functions
        ],
    }
