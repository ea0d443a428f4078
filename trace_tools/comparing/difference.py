"""What differs between two traces, as one value: `judging.between` makes it, every report reads it.

    Difference
      settings   what was set, installed or built in differently
      matching   which function and statement of A is which of B, where they were edited, renamed or moved
      frames     calls, matched as a tree
      rows       executions of statements, in the order of the lecture
        findings   what is not the same about values, claims, memory, FLOPs, steps, output
        times      how the durations compare, its own or those of what it measured

A side that has no counterpart is `None`. Steps and frames are the traces' own. "A" is what is compared
with (the base), "B" what is looked at: ratios are B / A, so more than 1 is slower.

    difference.rows[12].findings[0]
    # Finding("values", "changed", Subject("value", 0, "y.stride()"), a=Value("tuple", …), b=Value("tuple", …), …)

Both sides of a finding are data: `wording` says how reports write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from trace_tools.call_tree import Tree
from trace_tools.comparing.matching.functions import FunctionMatch, Matching
from trace_tools.rates import Clock
from trace_tools.schema import Claim, Frame, Raised, Scalar, Step, Trace, Value

Aspect = Literal["claims", "values", "time", "memory", "flops", "steps", "output"]
ASPECTS: tuple[Aspect, ...] = ("claims", "values", "time", "memory", "flops", "steps", "output")

Verdict = Literal[
    "same",
    "varies",  # between the passes of A or of B
    "random",  # it follows from a device's generator in A or B
    "rounding",  # within the tolerance for its dtype
    "changed",
    "faster",
    "slower",
    "no difference detected",  # which is not "same"
    "not judged",  # and `why` says why
    "ratio",  # of times on different machines: everything differs
    "claim flipped",
    "only in A",
    "only in B",
    "edited",  # of a statement: it explains what follows
]

# Verdicts on values that are counted and never matter, as reports count them; any other but "same" matters.
HARMLESS: dict[Verdict, str] = {
    "varies": "vary or follow from clocks",
    "random": "device-random",
    "rounding": "rounding only",
}

Kind = Literal[
    "value",  # an inspected expression
    "argument",  # of a call that the statement made, where the `def` line is inspected
    "claim",
    "side",  # of a claim's comparison
    "counter",  # a field of `Meters`, `allocated_bytes`, or "operators"
    "measured",  # one call of `measure`: a field of `Measured`
    "executions",  # how often a statement ran in one call
    "step",  # whether it ran at all
    "raised",
    "printed",
    "warnings",
    "told",  # prose, tables, figures
    "time",  # its own
]
Observation = Value | Claim | Raised | Scalar  # what one side was; counts are integers


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about; the row that it stands in gives frame, statement and execution."""

    kind: Kind
    index: int = 0  # place among those of its kind in the step: B's, or A's where B has none
    expression: str = ""  # as B's source has it, or A's where B has none; of a count the field
    function: str = ""  # whose argument it is


OWN_TIME = Subject("time")


@dataclass(frozen=True)
class Side:
    """One of the traces that are compared: how it was named, and what its file no longer had of it."""

    name: str  # the file's path, or REV:path
    trace: Trace
    notes: tuple[str, ...] = ()
    label: str = ""  # a short name: the machine's folder, where none was given

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.trace.machine.slug)

    @cached_property
    def tree(self) -> Tree:
        """The trace's calls and steps, by where they hang."""
        return Tree(self.trace)

    @property
    def is_complete(self) -> bool:
        """Whether the lecture ran to its end and the file holds all of it."""
        return self.trace.run.complete and not self.notes


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Something that was not the same before the lecture began."""

    group: Literal["setting", "version", "machine", "source"]
    name: str  # "seed", "torch", "threads", "lecture.py"
    a: Scalar  # None: there is none on that side
    b: Scalar
    unit: str | None = None  # "B", "FLOP/s"
    measured: tuple[bool, bool] = (False, False)  # that side of a peak is no datasheet's


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one execution that is not the same on both sides."""

    aspect: Aspect
    verdict: Verdict
    subject: Subject
    a: Observation = None  # what it was; None where a side has none
    b: Observation = None
    detail: str | None = None  # what exactly differs, or by how much
    matters: bool = False  # it makes the exit code 1, where nothing else was asked for
    size: float = 0.0  # of the effect, for ranking within an aspect: relative difference, bytes, FLOPs
    cause: int | None = None  # the row that says the same: where a leak began, the statement inside a call
    origin: int | None = None  # the row it may follow from: an edit, a loop that ran longer, a changed count
    setting: int | None = None  # the setting that it repeats: place in `Difference.settings`


@dataclass(frozen=True, slots=True)
class TimeFinding:
    """How the durations of one execution compare, or of one call that it measured; ratios are B / A.

    `a_ns` and `b_ns` are the execution's own, over processes: geometric means where times were judged, else
    medians. What is judged on one machine is a statement: from `overall` on it is about all its executions.
    """

    verdict: Verdict  # "faster", "slower", "no difference detected", "not judged", "ratio", "only in A", "only in B"
    clock: Clock  # "call": of what `measure` was given
    a_ns: float
    b_ns: float
    ratio: float | None = None
    executions: int = 1  # that were judged together
    overall: float | None = None  # their ratio
    interval: tuple[float, float] | None = None  # of that, 95%
    p: float | None = None  # of no difference
    adjusted_p: float | None = None  # after Benjamini–Hochberg
    detectable: float | None = None  # the smallest ratio (above 1) that would probably have been called
    a_share: float | None = None  # of its own machine's roof, compute or memory, whichever it came nearer to
    b_share: float | None = None
    roof: str | None = None  # which: "memory", "bfloat16"; "A: …, B: …" where they differ
    why: str | None = None  # it was not judged
    cause: int | None = None  # the row, inside this one's call, where most of the difference is
    origin: int | None = None  # as in `Finding`
    subject: Subject = OWN_TIME  # or ("measured", k): seconds of one call, by the step's k-th `measure`
    a_samples_ns: tuple[float, ...] = ()  # one per process, where both sides were timed
    b_samples_ns: tuple[float, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether it makes the exit code 1: a verdict on one machine."""
        return self.verdict in ("faster", "slower")

    @property
    def change_ns(self) -> float:
        """How much longer B took (ns); negative when it was faster."""
        return self.b_ns - self.a_ns


@dataclass(frozen=True, slots=True)
class FramePair:
    """One call, in A, in B or in both; `parent` is the row that made it (None: nothing traced did)."""

    a: Frame | None
    b: Frame | None
    parent: int | None
    depth: int
    section: str | None = None  # it belongs to, as B calls it where B has it; None for the module and `main`

    @property
    def frame(self) -> Frame:
        """The call in B, or in A where B has none."""
        frame = self.b or self.a
        assert frame is not None
        return frame


@dataclass(frozen=True, slots=True)
class StepPair:
    """One execution of one statement, in A, in B or in both; `frame` is its place in `Difference.frames`."""

    number: int  # its place in `Difference.rows`
    frame: int
    a: Step | None
    b: Step | None
    edited: bool = False  # the statement's code is not the same, or only one side has it
    beyond_limit: bool = False  # the other side executed it as often, but its trace holds only the total
    excused: str | None = None  # why it says nothing that one side lacks it
    findings: tuple[Finding, ...] = ()  # without what is the same
    times: tuple[TimeFinding, ...] = ()  # its own; where it measured, one for each measurement instead

    @property
    def step(self) -> Step:
        """The step of B, or of A where B has none."""
        step = self.b or self.a
        assert step is not None
        return step

    @property
    def time(self) -> TimeFinding | None:
        """The time that speaks for the row: of several measurements one that was called different."""
        return next((time for time in self.times if time.matters), self.times[0] if self.times else None)

    @property
    def matters(self) -> bool:
        """Whether anything here makes the exit code 1."""
        return any(found.matters for found in self.all)

    @property
    def all(self) -> list[Finding | TimeFinding]:
        """Everything that was found at the row."""
        return [*self.findings, *self.times]


@dataclass(frozen=True, slots=True)
class TimeStatistics:
    """How times were judged, and how finely they could have been."""

    judged: int = 0  # steps with a verdict
    different: int = 0  # of them faster or slower
    statements: int = 0  # tested: all executions of one in one function are judged together
    not_judged: tuple[tuple[str, int], ...] = ()  # (why, how many steps)
    a_processes: int = 0  # the most a step has
    b_processes: int = 0
    noise: float | None = None  # standard deviation of a typical statement's log between processes; 0.03 is about 3%
    degrees_of_freedom: float | None = None  # of the prior that each statement's variance is shrunk towards
    drift: float | None = None  # B / A of what most statements have in common: taken for the machine's
    detectable: float | None = None  # the smallest ratio that half of the statements would have shown
    passes_for_20_percent: int | None = None  # processes a side that would find a 20% change in half of them


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Within which two numbers of a dtype count as equal: |b − a| ≤ absolute + relative · |a|."""

    dtype: str
    relative: float
    absolute: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that differs between two traces."""

    a: Side
    b: Side
    same_machine: bool
    settings: tuple[SettingChange, ...]
    matching: Matching
    frames: tuple[FramePair, ...]
    rows: tuple[StepPair, ...]
    times: TimeStatistics
    counts: tuple[tuple[Aspect, Verdict, int], ...]  # how often each verdict was given, "same" included
    tolerances: tuple[Tolerance, ...]  # those that were used
    notes: tuple[str, ...] = ()  # a partial trace, what was not compared and why
    ignored: tuple[str, ...] = ()  # what --only and --ignore left out
    time_not_judged: str | None = None  # why no time could be, where judgement was asked for: exit code 3

    @property
    def same_source(self) -> bool:
        """Whether both sides ran the same code."""
        return self.matching.same

    @property
    def functions(self) -> tuple[FunctionMatch, ...]:
        """Which function of A is which of B, of those that are not the same."""
        return self.matching.functions

    @property
    def matters(self) -> bool:
        """Whether anything differs that matters: exit code 1."""
        return any(row.matters for row in self.rows)

    def findings(self, aspect: Aspect) -> Iterator[tuple[StepPair, Finding]]:
        """Yield every finding of one aspect with its row, in the order of the lecture."""
        for row in self.rows:
            for finding in row.findings:
                if finding.aspect == aspect:
                    yield row, finding

    def function_of(self, row: StepPair) -> str:
        """Return the qualified name of the function a row ran in, as B calls it if it has it."""
        return self.frames[row.frame].frame.function

    def renamed(self, row: StepPair) -> Mapping[str, str]:
        """Return the variables that have another name in B, in the function a row ran in."""
        frame = self.frames[row.frame].a
        return self.matching.renamed(frame.source, frame.function) if frame is not None else {}

    def source_line(self, row: StepPair) -> str:
        """Return the text of a row's line, stripped, as B has it if it does."""
        pair, on_b = self.frames[row.frame], row.b is not None
        frame, side = (pair.b, self.b) if on_b else (pair.a, self.a)
        assert frame is not None
        lines = _lines(side.trace.sources[frame.source].text)
        line = row.step.line
        return lines[line - 1].strip() if line <= len(lines) else ""


@lru_cache(maxsize=16)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))
