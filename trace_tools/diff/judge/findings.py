"""Find differences between matched executions: values, claims, memory, FLOPs and output.

    judge = StepJudge(context, same_counters=True)
    list(judge.findings(a, b, renamed={"h": "hidden"}))  # [Finding("values", "changed", Subject("value", 0, "y")), …]

Equal observations are included with the verdict "same", so that they can be counted.

Counts must agree exactly if device type, torch version and operators are the same; otherwise the differing operators
are named. Tensor bytes are exact as well. The caching allocator's bytes are not exact, because it rounds each tensor up
to 512 bytes, and a large tensor may take up to 1 MiB more of its block (`c10/cuda/CUDACachingAllocator.cpp`:
kMinBlockSize, kSmallSize).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from trace_tools.analysis.rates import not_counted, timing_of
from trace_tools.analysis.summaries import comparison
from trace_tools.diff.align.code import Matching, translated
from trace_tools.diff.difference import (
    MOVED,
    OWN_TIME,
    ROUNDING,
    VARIES,
    Aspect,
    Durations,
    Finding,
    FramePair,
    Side,
    StepPair,
    Subject,
    Verdict,
)
from trace_tools.diff.judge.values import Context, alike, judge
from trace_tools.trace.model import Ask, Claim, Counts, Explore, Meters, Narrative, Observed, Step, Value
from trace_tools.util import formats

SHOWN = 80  # characters of a message in a detail


@dataclass(slots=True)
class StepJudge:
    """Judges executions in the order of the lecture; tracks which storages of A and B correspond."""

    context: Context
    same_counters: bool  # device type and torch version are equal, so counts must agree exactly
    storages: tuple[dict[str, set[str]], dict[str, set[str]]] = field(default_factory=lambda: ({}, {}))

    def findings(self, a: Step, b: Step, renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Yield the findings on an execution that both sides have."""
        yield from self.claims(a.claim, b.claim)
        yield from self.named(a.values or [], b.values or [], renamed)
        yield from counter_findings(a, b, exact=self.same_counters)
        if a.claim is None or b.claim is None:  # a failed claim raises, which is reported already
            errors = [step.raised and (step.raised.type, step.raised.message) for step in (a, b)]
            if errors[0] != errors[1] and not (a.raised and b.raised and alike(errors[0], errors[1])):
                why = "an exception ended the step"
                yield Finding("steps", "changed", Subject("raised"), a.raised, b.raised, why, True, 1.0)
            elif errors[0] is not None:
                yield Finding("steps", "same", Subject("raised"), a.raised, b.raised)
        # Output, warnings and narrative never matter by themselves, because they contain numbers that vary.
        kinds = ", ".join(dict.fromkeys(narrative.kind for narrative in b.narrative or a.narrative or []))
        prose = (" ".join(map(_prose, step.narrative or ())) for step in (a, b))
        for subject, x, y, texts in (
            (Subject("printed"), a.stdout, b.stdout, (a.stdout or "", b.stdout or "")),
            (Subject("warnings"), a.warnings, b.warnings, ("\n".join(a.warnings or []), "\n".join(b.warnings or []))),
            (Subject("told", expression=kinds), a.narrative, b.narrative, prose),
        ):
            if x or y:
                cuts = (part for step in (a, b) for part in step.left_out or () if part.what == "stdout")
                cut = min((part.at or 0 for part in cuts), default=0)
                equal = cut and isinstance(x, str) and isinstance(y, str) and alike(x[:cut], y[:cut])
                if equal or x == y or alike(x, y):  # as far as both recorded it
                    yield Finding("output", "same", subject)
                else:
                    yield Finding("output", "changed", subject, *texts)

    def arguments(self, calls: Sequence[FramePair], matching: Matching) -> Iterator[Finding]:
        """Compare the arguments of called functions, at the calling statement."""
        before = 0
        for call in calls:
            if call.a is None or call.b is None or not (call.a.arguments or call.b.arguments):
                continue
            arguments = call.a.arguments or [], call.b.arguments or []
            for finding in self.named(*arguments, matching.renamed(call.a.function)):
                of = finding.subject
                subject = Subject("argument", before + of.index, of.expression, call.b.function)
                yield replace(finding, subject=subject)
            before += max(map(len, arguments))

    def claims(self, a: Claim | None, b: Claim | None) -> Iterator[Finding]:
        """Compare two claims, and their sides as values."""
        if a is None or b is None:
            if a is not None:
                yield Finding("claims", "only in A", Subject("claim", 0, a.source), a)
            if b is not None:
                yield Finding("claims", "only in B", Subject("claim", 0, b.source), None, b, matters=not b.held)
            return
        subject = Subject("claim", 0, b.source)
        if a.held == b.held:
            yield Finding("claims", "same", subject)
        else:
            messages = [formats.one_line(message, SHOWN) for message in (a.message, b.message) if message]
            runs = (a.failed_runs or []) + (b.failed_runs or [])
            detail = "; ".join([*messages, *([f"in {', '.join(runs)}"] if runs else [])])
            yield Finding("claims", "changed", subject, a, b, detail or None, True, 1.0)
        together = a.held and b.held and self.are_equal(a) and self.are_equal(b)
        for index, ((other, x), (source, y)) in enumerate(zip(a.sides, b.sides, strict=False)):
            if other == source:  # else the claim was edited
                found = self.value(Subject("side", index, source), x, y)
                if together and found.verdict == "changed":
                    found = replace(found, verdict="noise", detail=f"{MOVED}: {found.detail}", matters=False)
                yield found

    def are_equal(self, claim: Claim) -> bool:
        """Return whether a claim that held compares sides that are equal, or the same object."""
        operators, sides = comparison(claim.source), [value for _, value in claim.sides]
        if operators:
            return {"==", "is"}.issuperset(operators)
        return len(sides) > 1 and all(judge(sides[0], side, self.context).verdict != "changed" for side in sides)

    def named(self, a: Sequence[Observed], b: Sequence[Observed], renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Compare values by their expressions, the n-th of one with the n-th of the same."""
        for in_a, in_b in paired(a, b, renamed):
            if in_a is not None and in_b is not None:
                yield self.value(Subject("value", in_b, b[in_b][0]), a[in_a][1], b[in_b][1])
            elif in_b is not None:
                yield Finding("values", "only in B", Subject("value", in_b, b[in_b][0]), None, b[in_b][1])
            elif in_a is not None:
                yield Finding("values", "only in A", Subject("value", in_a, a[in_a][0]), a[in_a][1])

    def value(self, subject: Subject, a: Value, b: Value) -> Finding:
        """Compare two values and their storages."""
        judgement = judge(a, b, self.context)
        aliasing = self._aliasing(a, b)
        if aliasing and not (judgement.detail or "").startswith(VARIES):
            changes = [judgement.detail] if judgement.verdict == "changed" and judgement.detail else []
            detail = "; ".join([*changes, aliasing])
            return Finding("values", "changed", subject, a, b, detail, True, judgement.size)
        if judgement.verdict == "same":
            return Finding("values", "same", subject)
        matters = judgement.verdict == "changed"
        return Finding("values", judgement.verdict, subject, a, b, judgement.detail, matters, judgement.size)

    def _aliasing(self, a: Value, b: Value) -> str | None:
        """Return how the set of tensors that share memory with this one differs, if it does."""
        in_a = a.tensor.storage if a.tensor is not None else None
        in_b = b.tensor.storage if b.tensor is not None else None
        if in_a is None or in_b is None:
            return None
        partners, back = self.storages[0].setdefault(in_a, {in_b}), self.storages[1].setdefault(in_b, {in_a})
        lost, gained = in_b not in partners, in_a not in back
        partners.add(in_b)  # reported once: later tensors share the memory for the same reason
        back.add(in_a)
        if lost:
            return "it shares memory with tensors in A, but not with their counterparts in B"
        return "it shares memory with tensors in B, but not with their counterparts in A" if gained else None


def paired(
    a: Sequence[Observed], b: Sequence[Observed], renamed: Mapping[str, str]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield indices (in a, in b) of the values of one expression, in B's order, then the values that only A has."""
    unmatched: dict[str, list[int]] = {}  # in a, by name; the first is last
    for index, (name, _) in reversed(list(enumerate(a))):
        unmatched.setdefault(translated(name, renamed), []).append(index)
    for index, (name, _) in enumerate(b):
        yield (unmatched[name].pop() if unmatched.get(name) else None), index
    yield from ((index, None) for indices in unmatched.values() for index in reversed(indices))


def _prose(narrative: Narrative) -> str:
    texts = (getattr(narrative, name, None) for name in ("text", "title", "url"))
    words = str(next(filter(None, texts), narrative.kind))
    if isinstance(narrative, Explore):
        results = narrative.exploration.results
        return f"{words} {', '.join(f'{one.label}: {one.value} {one.unit or str()}'.rstrip() for one in results)}"
    if isinstance(narrative, Ask):
        return f"{words} Answer: {narrative.answer.value} {narrative.answer.unit or ''}".rstrip()
    return words


def absence(row: StepPair, a: Side, b: Side, last_matched: int, excused: str | None) -> Iterator[Finding]:
    """Yield the finding that only one side has a step, and the step's time, which may explain why its caller got
    slower.

    `excused` is the reason if that is no difference of the lecture. A claim that failed in the step is a difference in
    any case. The step is not judged if the other side could not have recorded it.
    """
    step, prose = row.step, row.prose or (bool(row.step.narrative) and row.step.claim is None)
    subject = Subject("step", expression="prose" if prose else "a step")
    in_a = row.b is None
    side, other, letter = (a, b, "B") if in_a else (b, a, "A")
    only, unjudged = other.trace.run.only, None
    if row.beyond_limit:
        unjudged = f"{letter} only counted this execution, which is beyond --limit"
    elif not other.trace.run.complete and row.number > last_matched:
        unjudged = f"{letter} is partial and ended before this step"
    elif only and only != side.trace.run.only:
        unjudged = f"{letter} ran only {only}"
    if unjudged is not None:
        yield Finding("steps", "not judged", subject, detail=unjudged)
        return
    verdict: Verdict = "only in A" if in_a else "only in B"
    timing = timing_of(step, side.trace.machine)
    took_ns: float | None = None
    if timing is not None and timing.clock != "launch":
        took_ns = float(median(timing.whole_ns or timing.samples_ns))
    if excused is not None and (step.claim is None or step.claim.held):
        yield Finding("steps", "noise", subject, detail=f"{VARIES}: {excused}")
    else:
        shown_ns = None if prose else took_ns
        aspect: Aspect = "output" if prose else "steps"
        yield Finding(aspect, verdict, subject, *_sides(shown_ns, in_a=in_a), None, not prose)
    if timing is not None and took_ns is not None:
        yield Finding(
            "time", verdict, OWN_TIME, *_sides(took_ns, in_a=in_a), None, False, durations=Durations(timing.clock)
        )


def _sides(only: float | None, *, in_a: bool) -> tuple[float | None, float | None]:
    return (only, None) if in_a else (None, only)


# --- FLOPs, bytes and memory ----------------------------------------------------------------------


ROUNDED_BYTES = 2**20  # largest excess of a block over the request
NAMED = 4  # most operators in one detail

_ASPECTS: dict[str, Aspect] = {
    "flops": "flops",
    "bytes_read": "flops",
    "bytes_written": "flops",
    "live_bytes": "memory",
    "peak_bytes": "memory",
}


def counter_findings(a: Step, b: Step, *, exact: bool) -> Iterator[Finding]:
    """Yield the findings on the counters of two matched steps, including "same"; `exact`: all counts must agree."""
    if a.meters is not None and b.meters is not None:
        operators = _differing_operators(a.meters, b.meters)
        yield from _count_findings(a.meters, b.meters, Subject("counter"), operators, exact=exact)
        if operators and a.meters.flops == b.meters.flops:
            of_operators = Subject("counter", expression="operators")
            yield Finding("flops", "changed", of_operators, detail=operators, matters=exact)
    x, y = a.allocated_bytes, b.allocated_bytes
    subject = Subject("counter", expression="allocated_bytes")
    if x is not None and x == y:
        yield Finding("memory", "same", subject)
    elif x is not None and y is not None:
        live_a, live_b = (None if step.meters is None else step.meters.live_bytes for step in (a, b))
        tensors = None if live_a is None or live_b is None else live_b - live_a
        unexplained = abs(y - x - (tensors or 0))
        if unexplained < ROUNDED_BYTES and (tensors == 0 or (tensors is None and abs(y - x) <= 512)):
            detail = f"{ROUNDING}: {_by(x, y, 'B')}; the allocator rounded the same tensors differently"
            yield Finding("memory", "noise", subject, x, y, detail)
        else:
            same = (
                ", although the same tensors are alive: different workspaces or fragmentation" if tensors == 0 else ""
            )
            yield Finding("memory", "changed", subject, x, y, _by(x, y, "B") + same, True, float(abs(y - x)))
    if len(a.measured or ()) == len(b.measured or ()):  # counts of one call of each measured function
        for index, calls in enumerate(zip(a.measured or (), b.measured or (), strict=True)):
            yield from _count_findings(*calls, Subject("measured", index), None, exact=exact)


def _count_findings(a: Counts, b: Counts, of: Subject, operators: str | None, *, exact: bool) -> Iterator[Finding]:
    """Compare counts field by field; the operators explain all of them and are named with the first."""
    unlike = set(a.uncounted or ()) ^ set(b.uncounted or ())
    for name, aspect in _ASPECTS.items():
        subject = Subject(of.kind, of.index, name)
        x, y = getattr(a, name, None), getattr(b, name, None)
        if x is None and y is None:
            continue
        if x is None or y is None:
            why = (a if x is None else b).why or "not counted"
            yield Finding(aspect, "not judged", subject, x, y, f"no figure in {'A' if x is None else 'B'}: {why}")
        elif x == y:
            yield Finding(aspect, "same", subject)
        elif name == "flops" and unlike:
            shown = ", ".join(sorted(unlike)[:NAMED])
            detail = f"operators without a FLOP formula on one side only: {shown}"
            yield Finding(aspect, "not judged", subject, x, y, detail)
        else:
            detail = _by(x, y, "FLOP" if name == "flops" else "B")
            if name == "flops" and (missing := not_counted(a, NAMED)):
                detail = f"{detail}, at least ({missing})"
            if aspect == "flops" and operators:
                detail, operators = f"{detail}: {operators}", None
            matters = exact or name == "flops" or aspect == "memory"
            yield Finding(aspect, "changed", subject, x, y, detail, matters, abs(y - x))


def _by(x: int, y: int, unit: str) -> str:
    share = f" ({formats.percent(abs(y - x) / x)})" if x and abs(y - x) < 100 * x else ""
    return f"{'+' if y > x else '−'}{formats.quantity(abs(y - x), unit)}{share}"


def _differing_operators(a: Meters, b: Meters) -> str | None:
    """Name the operators that one side called more often, the largest differences first."""
    if a.operators is None or b.operators is None:
        return None
    in_a, in_b = Counter[str](), Counter[str]()
    for totals, calls in ((in_a, a.operators), (in_b, b.operators)):
        for name, count in calls:
            totals[name] += count
    differing = [name for name in {**in_a, **in_b} if in_a[name] != in_b[name]]
    differing.sort(key=lambda name: (-abs(in_b[name] - in_a[name]), name))
    parts = [f"{n} × {in_a[n]} → {in_b[n]}" for n in differing[:NAMED]]
    more = [f"and {len(differing) - NAMED} more"] if len(differing) > NAMED else []
    return ", ".join([*parts, *more]) or None
