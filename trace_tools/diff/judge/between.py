"""Compare two traces in stages.

difference = difference_between(Side("a.yaml", a), Side("b.yaml", b), Choices(aspects=frozenset({"time"})))
difference.matters     # whether any difference matters

align              matches calls and steps
findings_between   finds differences of values, claims, counts and output, step by step
judge_times        judges durations
explained          attributes findings to causes and edits
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from trace_tools.analysis.outcome import load_text
from trace_tools.diff.align.align import Aligned, align
from trace_tools.diff.difference import (
    ASPECTS,
    VARIES,
    Aspect,
    Difference,
    Finding,
    FramePair,
    SettingChange,
    Side,
    StepPair,
    Subject,
    TimeStatistics,
    Verdict,
)
from trace_tools.diff.judge.attribution import with_causes, with_origins
from trace_tools.diff.judge.findings import StepJudge, absence
from trace_tools.diff.judge.nondeterminism import reasons_for_absence
from trace_tools.diff.judge.times import judge_times
from trace_tools.diff.judge.values import Context, Tolerances
from trace_tools.diff.wording import subject_text
from trace_tools.errors import UsageError
from trace_tools.machines.machine import is_same_machine
from trace_tools.machines.peaks import peak_of
from trace_tools.trace.model import Trace
from trace_tools.util import formats
from trace_tools.util.interpreter import collector_paused

UNRELATED = 0.1  # share of the shorter trace's steps with a counterpart, below which it counts as another lecture


@dataclass(frozen=True, slots=True)
class Choices:
    """What to compare, and how strictly."""

    aspects: frozenset[Aspect] = frozenset(ASPECTS)
    ignored: tuple[str, ...] = ()  # patterns of expressions and functions to leave out, as in a shell
    tolerances: Tolerances = field(default_factory=Tolerances)
    time_asked: bool = False  # the user asked explicitly; between two machines, that question has no answer

    def wants(self, finding: Finding, function: str) -> bool:
        """Return whether a finding was asked for."""
        names = (subject_text(finding.subject), finding.subject.expression, function)
        return finding.aspect in self.aspects and not any(map(self.ignores, names))

    def ignores(self, name: str) -> bool:
        """Return whether an expression or function is left out."""
        return any(fnmatchcase(name, pattern) for pattern in self.ignored)


DEFAULT = Choices()


@collector_paused()  # else a third of the time is spent collecting garbage
def difference_between(a: Side, b: Side, choices: Choices = DEFAULT) -> Difference:
    """Compare two traces. Raises `UsageError` if one has no steps, or they are of unrelated lectures."""
    judged = findings_between(a, b, choices)
    if "time" in choices.aspects:
        judged = judge_times(judged, asked=choices.time_asked)
    return explained(judged, choices)


def findings_between(a: Side, b: Side, choices: Choices = DEFAULT) -> Difference:
    """Compare everything except times; only the time of a step that one side lacks is included.

    The result is not explained yet. Raises `UsageError` as `difference_between` does.
    """
    aligned = align(a.tree, b.tree)
    matched = [row for row in aligned.rows if row.a is not None and row.b is not None]
    _refuse_unrelated(a, b, len(matched))
    same_machine = is_same_machine(a.trace.machine, b.trace.machine)
    devices = a.trace.machine.device, b.trace.machine.device
    same_torch = dict(a.trace.versions).get("torch") == dict(b.trace.versions).get("torch")
    context = Context(choices.tolerances, devices)
    if same_machine:
        context.peaks = _measured_peaks(a), _measured_peaks(b)
    judge = StepJudge(context, same_counters=devices[0] == devices[1] and same_torch)
    absent, uneven = reasons_for_absence(aligned, a, b)
    last_matched = matched[-1].number if matched else -1
    last_execution = {(row.frame, row.step.statement): row.number for row in matched}
    called: dict[int, list[FramePair]] = {}
    for call in aligned.frames:
        if call.parent is not None:
            called.setdefault(call.parent, []).append(call)
    counts: Counter[tuple[Aspect, Verdict]] = Counter()
    rows = []
    for row in aligned.rows:
        pair = aligned.frames[row.frame]
        if any(step and step.statement in side.prose for side, step in ((a, row.a), (b, row.b))):
            row = replace(row, prose=True)
        findings: list[Finding] = []
        if row.a is not None and row.b is not None and pair.a is not None and pair.b is not None:
            findings += judge.findings(row.a, row.b, aligned.matching.renamed(pair.a.function))
            is_last = last_execution[row.frame, row.b.statement] == row.number and not row.prose
            if is_last and a.trace.run.complete and b.trace.run.complete:
                in_a = a.tree.executions(pair.a.frame, row.a.statement)
                in_b = b.tree.executions(pair.b.frame, row.b.statement)
                if in_a != in_b:
                    why = uneven.get(row.number)
                    verdict: Verdict = "changed" if why is None else "noise"
                    detail, counted = why and f"{VARIES}: {why}", (Subject("executions"), in_a, in_b)
                    findings.append(Finding("steps", verdict, *counted, detail, why is None, abs(in_b - in_a)))
            findings += judge.arguments(called.get(row.number, ()), aligned.matching)
        else:
            findings += absence(row, a, b, last_matched, absent.get(row.number))
        findings = [finding for finding in findings if choices.wants(finding, pair.frame.function)]
        counts.update((finding.aspect, finding.verdict) for finding in findings)
        differing = tuple(finding for finding in findings if finding.verdict != "same")
        excused = absent.get(row.number)
        if differing or excused is not None:
            row = replace(row, findings=differing, excused=excused)
        rows.append(row)
    left_out = [aspect for aspect in ASPECTS if aspect not in choices.aspects]
    return Difference(
        a=a,
        b=b,
        same_machine=same_machine,
        settings=settings_of(a.trace, b.trace),
        matching=aligned.matching,
        frames=aligned.frames,
        rows=tuple(rows),
        times=TimeStatistics(),
        counts=tuple((*of, n) for of, n in counts.items()),
        tolerances=tuple(choices.tolerances.of(dtype) for dtype in sorted(context.used)),
        notes=tuple(_notes(a, b, aligned, same_machine=same_machine)),
        ignored=(*left_out, *choices.ignored),
    )


def explained(difference: Difference, choices: Choices = DEFAULT) -> Difference:
    """Attribute findings to a cause, or to edits that they may follow from."""
    counts = Counter[tuple[Aspect, Verdict]](
        {(aspect, verdict): n for aspect, verdict, n in difference.counts if aspect != "time"}
    )
    rows = list(difference.rows)
    for number, row in enumerate(rows):
        if choices.ignores(difference.function_of(row)):
            rows[number] = row.having(_not_judged(f, "ignored") if f.aspect == "time" else f for f in row.findings)
        counts.update(("time", time.verdict) for time in rows[number].times)
    rows = with_causes(rows, difference.frames)
    rows = [_excused(row, rows) for row in rows]
    rows = with_origins(rows, difference.frames)
    counted = tuple((aspect, verdict, n) for (aspect, verdict), n in sorted(counts.items()))
    return replace(difference, rows=tuple(rows), counts=counted)


def _measured_peaks(side: Side) -> dict[float, str]:
    return {peak.per_second: peak.name for peak in side.trace.machine.peaks if peak.measured and peak.per_second}


def _not_judged(time: Finding, why: str) -> Finding:
    return replace(time, verdict="not judged", detail=why, matters=False, cause=None)


def _excused(row: StepPair, rows: list[StepPair]) -> StepPair:
    """Excuse the counts and times of calls that contain steps which did not run in all runs."""

    def excused(f: Finding) -> Finding:
        is_time = f.aspect == "time"
        if f.aspect not in ("flops", "memory", "time") or (is_time and f.cause is None):
            return f
        why = rows[row.number if f.cause is None else f.cause].excused
        if not why:
            return f
        return _not_judged(f, why) if is_time else replace(f, verdict="noise", matters=False, detail=f"{VARIES}: {why}")

    return row.having(map(excused, row.findings))


def _refuse_unrelated(a: Side, b: Side, matched: int) -> None:
    steps = [len(side.tree.by_id) for side in (a, b)]
    for side, count in zip((a, b), steps, strict=True):
        if not count:
            raise UsageError(f"{side.name}: has no steps to compare")
    if matched < UNRELATED * min(steps):
        raise UsageError(
            f"{a.name} and {b.name} are traces of different lectures: {matched:,} of {steps[0]:,} and {steps[1]:,} "
            "steps have a counterpart; expected traces of one lecture, or of two versions of it"
        )


def _notes(a: Side, b: Side, aligned: Aligned, *, same_machine: bool) -> Iterator[str]:
    if not same_machine:
        yield "two machines: times are shown as ratios and as shares of each machine's own roof, but not judged"
    yield from notes_of(a, "A")
    yield from notes_of(b, "B")
    if not aligned.matching.parsed:
        yield "a source is not valid in this version of Python; statements were matched by line"


# --- settings and notes ---------------------------------------------------------------------------


RUN = ("seed", "passes", "limit", "only", "keep_going", "inspect_all")
MACHINE = (
    *("name", "device", "emulated", "cpu", "cores", "threads"),
    *("multiprocessors", "compute_capability", "memory_bytes"),
)
INSTALLED = ("driver", "cuda", "tf32", "ram_bytes", "l2_bytes", "os")
NOTE_CHARACTERS = 120

_NUMBER = re.compile(r"[0-9.]+")


def settings_of(a: Trace, b: Trace) -> tuple[SettingChange, ...]:
    """Return the differences of settings, versions, machine and source; the most explanatory come first."""
    changes = [SettingChange("setting", name, getattr(a.run, name), getattr(b.run, name)) for name in RUN]
    of_a, of_b = dict(a.versions), dict(b.versions)
    changes += [SettingChange("version", name, of_a.get(name), of_b.get(name)) for name in of_a | of_b]
    for name in (*MACHINE, *INSTALLED):
        unit = "B" if name.endswith("_bytes") else None
        sides = getattr(a.machine, name), getattr(b.machine, name)
        changes.append(SettingChange("machine", name.removesuffix("_bytes"), *sides, unit))
    changes = [setting for setting in changes if setting.a != setting.b]
    for name in dict.fromkeys(peak.name for trace in (a, b) for peak in trace.machine.peaks):
        peaks = peak_of(a.machine, name), peak_of(b.machine, name)
        promised = [None if peak is None or peak.measured else peak.per_second for peak in peaks]
        if promised[0] != promised[1]:  # a datasheet's peak of one machine that the other lacks
            unit = "B/s" if name == "memory" else "FLOP/s"
            rate_a, rate_b = (None if peak is None else peak.per_second for peak in peaks)
            measured_a, measured_b = (peak is not None and peak.measured for peak in peaks)
            measured = measured_a, measured_b
            changes.append(SettingChange("machine", f"{name} peak", rate_a, rate_b, unit, measured))
    if a.source.path != b.source.path:
        changes.append(SettingChange("source", "file", a.source.path, b.source.path))
    if a.source.text != b.source.text:  # how many lines each has, and how many the other lacks
        lines = a.source.text.splitlines(), b.source.text.splitlines()
        kept = (Counter(lines[0]) & Counter(lines[1])).total()
        in_a, in_b = (f"{len(side):,} lines, {len(side) - kept:,} only here" for side in lines)
        changes.append(SettingChange("source", b.source.path, in_a, in_b))
    if a.run.commit != b.run.commit:
        changes.append(SettingChange("source", "commit", a.run.commit, b.run.commit))
    return tuple(changes)


def notes_of(side: Side, letter: str) -> Iterator[str]:
    """Yield notes on how a trace was made; of similar notes on the machine only the first."""
    run = side.trace.run
    if not run.complete:
        yield f"{letter} is partial: {_text(run.ended)}"
    for process in run.processes:
        if process.why_no_warm:
            yield f"{letter}, {process.name}: no warm run: {_text(process.why_no_warm)}"
    similar: dict[str, list[str]] = {}
    for process in run.processes:
        for note in process.notes or ():
            similar.setdefault(_NUMBER.sub("", note), []).append(f"{process.name}: {_text(note)}")
        if load := load_text(process):
            similar.setdefault(_NUMBER.sub("", load), []).append(f"{process.name}: {load}")
    for notes in similar.values():
        more = f" (and {len(notes) - 1} similar notes)" if len(notes) > 1 else ""
        yield f"{letter}, {notes[0]}{more}"
    for dropped in run.dropped[:5]:
        yield f"{letter} lost: {_text(dropped)}"


def _text(text: str) -> str:
    return formats.one_line(text, NOTE_CHARACTERS)
