"""Represent the difference between two traces as one value: `judge.between` builds it, all reports read it.

    Difference
      settings   settings, versions and hardware that differ
      matching   functions and statements of A and B that were edited, renamed or moved
      frames     calls, matched as a tree
      rows       executions of statements, in the order of the lecture
        findings   differences of values, claims, memory, FLOPs, steps, output, and the comparison of durations, the
                   step's own or its measured calls'

A missing counterpart is `None`. Steps and frames are the traces' own. "A" is the base, "B" the trace under test: ratios
are B / A, so more than 1 is slower.

    difference.rows[12].findings[0]
    # Finding("values", "changed", Subject("value", 0, "y.stride()"), a=Value("tuple", …), b=Value("tuple", …), …)

Both sides of a finding are data; `wording` turns them into text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import Literal

from trace_tools.analysis.rates import Clock
from trace_tools.diff.align.code import Matching
from trace_tools.errors import LectureError
from trace_tools.source.layout import cut_source, split_lines
from trace_tools.source.vocabularies import narrating, parsed_or_none
from trace_tools.trace.model import Claim, Frame, Raised, Scalar, Step, Trace, Value
from trace_tools.trace.tree import Tree

Aspect = Literal["claims", "values", "time", "memory", "flops", "steps", "output"]
ASPECTS: tuple[Aspect, ...] = ("claims", "values", "time", "memory", "flops", "steps", "output")

Verdict = Literal[
    "same",
    "noise",  # no difference: `detail` begins with one of the words below
    "changed",
    "only in A",
    "only in B",
    "not judged",  # `detail` has the reason
    "ratio",  # times on different machines, which always differ
]

# The first words of the details of noise.
VARIES = "varies"  # between the passes of A or of B
ROUNDING = "rounding"  # within the tolerance for its dtype
MOVED = "moved together"  # the sides of a claim, which are equal in A and in B
UNDETECTED = "no difference detected"  # of times, which does not mean "same"

Kind = Literal[
    "value",  # an inspected expression
    "argument",  # of a call that the statement made, if the `def` line is inspected
    "claim",
    "side",  # one side of a claim's comparison
    "counter",  # a field of `Meters`, `allocated_bytes`, or "operators"
    "measured",  # one call of `measure`, a field of `Measured`
    "executions",  # how often a statement ran in one call
    "step",  # whether it ran
    "raised",
    "printed",
    "warnings",
    "told",  # prose, tables, figures
    "code",  # the statement itself, in reports
    "time",  # the step's own time
    "launch",  # on a device: the host's time until the step's work was launched
]
Observation = Value | Claim | Raised | Scalar  # the observation of one side; counts are integers


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a finding; its row gives frame, statement and execution."""

    kind: Kind
    index: int = 0  # index within its kind in the step of B, or of A if only A has it
    expression: str = ""  # from B's source, or A's if only A has it; for a count, its field
    function: str = ""  # the function of an argument


OWN_TIME = Subject("time")
LAUNCH_TIME = Subject("launch")


@dataclass(frozen=True)
class Side:
    """One of the compared traces, with its name."""

    name: str  # the file's path, or REV:path
    trace: Trace
    label: str = ""  # a short name; by default the machine's folder

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.trace.machine.slug)

    @cached_property
    def tree(self) -> Tree:
        """The call tree of the trace."""
        return Tree(self.trace)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the source."""
        return self.trace.source.text.split("\n")

    @cached_property
    def prose(self) -> frozenset[int]:
        """The numbers of the statements that only emit narrative, or import the words for it."""
        return narrating(self.trace.source)

    @cached_property
    def shown_lines(self) -> list[str]:
        """The lines of the source without directives, as pages show them."""
        source = self.trace.source
        try:
            return [line or "" for line in cut_source(source.text, source.path).lines]
        except LectureError:  # the syntax of another Python version
            return split_lines(source.text)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each top-level function of the lecture, which is the first line of its docstring."""
        parsed = parsed_or_none(self.trace.source)
        nodes = parsed.tree.body if parsed is not None else []
        docs = {n.name: ast.get_docstring(n) for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        return {name: text.splitlines()[0] for name, text in docs.items() if text and text.strip()}


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A difference that existed before the lecture began."""

    group: Literal["setting", "version", "machine", "source"]
    name: str  # "seed", "torch", "threads", "lecture.py"
    a: Scalar  # None if missing on that side
    b: Scalar
    unit: str | None = None  # "B", "FLOP/s"
    measured: tuple[bool, bool] = (False, False)  # whether that side of a peak was measured


@dataclass(frozen=True, slots=True)
class Durations:
    """How the times of a finding were compared; ratios are B / A.

    On one machine, whole statements are judged, and the fields from `overall` to `detectable` are about all executions
    of the statement.
    """

    clock: Clock | None = None  # "call" if one call by `measure` was timed; "launch" for `LAUNCH_TIME`
    a_samples_ns: Sequence[float] = ()  # one per process, where both sides were timed
    b_samples_ns: Sequence[float] = ()
    executions: int = 1  # number of executions that were judged together
    overall: float | None = None  # ratio of all of them
    interval: tuple[float, float] | None = None  # 95% interval of `overall`
    p: float | None = None  # under the hypothesis of no difference
    adjusted_p: float | None = None  # after Benjamini–Hochberg
    detectable: float | None = None  # the smallest ratio (above 1) that would probably have been detected
    a_share: float | None = None  # share of the machine's own roofline, of compute or memory, whichever is larger
    b_share: float | None = None
    roof: str | None = None  # the peak of that roofline: "memory", "bfloat16"; "A: …, B: …" if they differ


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between two executions.

    The sides of a time are of one execution, or of one call that it measured, in ns. They are geometric means over
    processes if times were judged, else medians.
    """

    aspect: Aspect
    verdict: Verdict
    subject: Subject
    a: Observation = None  # the observation; None if missing on that side
    b: Observation = None
    detail: str | None = None  # the exact difference, its size, or why it is none
    matters: bool = False  # it makes the exit code 1 by default
    size: float = 0.0  # size of the effect, for ranking within an aspect: relative difference, bytes, FLOPs
    cause: int | None = None  # the row with the same difference: where a leak began, the statement inside a call
    origins: tuple[int, ...] = ()  # the rows it may follow from: edits, longer loops
    durations: Durations = Durations()

    @property
    def numbers(self) -> tuple[float, float] | None:
        """Both sides of a count or a time."""
        a, b = self.a, self.b
        return (a, b) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else None

    @property
    def change(self) -> float:
        """How much more B has, or how much longer it took; 0 if a side is no number."""
        a, b = (0 if side is None else side for side in (self.a, self.b))
        return b - a if isinstance(a, (int, float)) and isinstance(b, (int, float)) else 0.0

    @property
    def ratio(self) -> float | None:
        """The ratio B / A of a time that was compared."""
        if self.aspect != "time" or self.numbers is None or self.verdict not in ("noise", "changed", "ratio"):
            return None
        a_ns, b_ns = self.numbers
        return max(b_ns, 1.0) / max(a_ns, 1.0)


@dataclass(frozen=True, slots=True)
class FramePair:
    """One call in A, in B or in both; `parent` is the row that made it (None if not traced)."""

    a: Frame | None
    b: Frame | None
    parent: int | None
    depth: int
    section: str | None = None  # its section, with B's name if B has it, or None for the module and `main`

    @property
    def frame(self) -> Frame:
        """The call in B, or in A if only A has it."""
        frame = self.b or self.a
        assert frame is not None
        return frame


@dataclass(frozen=True, slots=True)
class StepPair:
    """One execution of one statement in A, in B or in both; `frame` is its index in `Difference.frames`."""

    number: int  # its index in `Difference.rows`
    frame: int
    a: Step | None
    b: Step | None
    edited: bool = False  # the statement's code is not the same, or only one side has it
    prose: bool = False  # it only emits narrative, on a side that has it
    beyond_limit: bool = False  # the other side executed it as often, but its trace holds only the total
    excused: str | None = None  # why one side may lack it without a difference of the lecture
    findings: tuple[Finding, ...] = ()  # observations that differ, and all times, which come last

    @property
    def step(self) -> Step:
        """The step of B, or of A if only A has it."""
        step = self.b or self.a
        assert step is not None
        return step

    def having(self, findings: Iterable[Finding]) -> StepPair:
        """Return the row with these findings; itself if they are its own, as for most of 100,000 rows."""
        new = tuple(findings)
        return (
            self
            if all(map(is_, new, self.findings)) and len(new) == len(self.findings)
            else replace(self, findings=new)
        )

    @property
    def is_one_sided(self) -> bool:
        """Return whether only one side ran it."""
        return self.a is None or self.b is None

    @property
    def times(self) -> list[Finding]:
        """The times of the step and of its launch, or of each of its measurements."""
        return [finding for finding in self.findings if finding.aspect == "time"]

    @property
    def matters(self) -> bool:
        """Return whether any finding here makes the exit code 1."""
        return any(finding.matters for finding in self.findings)


@dataclass(frozen=True, slots=True)
class TimeStatistics:
    """Counts of judged times, and the smallest changes that could have been detected."""

    judged: int = 0  # steps with a verdict
    different: int = 0  # number of judged steps that are faster or slower
    statements: int = 0  # tested; all executions of a statement in a function are judged together
    not_judged: tuple[tuple[str, int], ...] = ()  # (reason, number of steps)
    a_processes: int = 0  # the maximum over steps
    b_processes: int = 0
    noise: float | None = None  # standard deviation of a typical statement's log between processes; 0.03 is about 3%
    drift: float | None = None  # B / A common to most statements, attributed to the machine
    detectable: float | None = None  # the smallest ratio that would have been detected in half of the statements
    passes_for_20_percent: int | None = None  # processes per side that would detect a 20% change in half of them


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance within which two numbers of a dtype are equal: |b − a| ≤ absolute + relative · |a|."""

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
    counts: tuple[tuple[Aspect, Verdict, int], ...]  # number of findings with each verdict, including "same"
    tolerances: tuple[Tolerance, ...]  # the tolerances that were used
    notes: tuple[str, ...] = ()  # partial traces, and comparisons left out, with reasons
    ignored: tuple[str, ...] = ()  # excluded by --only and --ignore
    time_not_judged: str | None = None  # why no time could be judged although that was asked for: exit code 3

    @property
    def matters(self) -> bool:
        """Return whether any difference matters: exit code 1."""
        return any(row.matters for row in self.rows)

    def findings(self, aspect: Aspect) -> Iterator[tuple[StepPair, Finding]]:
        """Yield every finding of one aspect with its row, in the order of the lecture."""
        for row in self.rows:
            for finding in row.findings:
                if finding.aspect == aspect:
                    yield row, finding

    def function_of(self, row: StepPair) -> str:
        """Return the qualified name of a row's function, in B if it has it."""
        return self.frames[row.frame].frame.function
