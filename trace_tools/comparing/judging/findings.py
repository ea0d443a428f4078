"""Executions on both sides → what is not the same about their values, claims, memory, FLOPs and output.

    judge = StepJudge(context, same_counters=True)
    list(judge.findings(a, b, renamed={"h": "hidden"}))  # [Finding("values", "changed", Subject("value", 0, "y")), …]

What is the same is among them with the verdict "same", so that it can be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trace_tools import formats
from trace_tools.comparing.difference import HARMLESS, Aspect, Finding, FramePair, StepPair, Subject, TimeFinding
from trace_tools.comparing.judging.counters import counter_findings
from trace_tools.comparing.judging.values import Context, judge
from trace_tools.comparing.matching.functions import Matching, translated
from trace_tools.schema import Claim, Narrative, Raised, Step, Value

SHOWN = 80  # characters of a message in a detail

Named = Sequence[tuple[str, Value]]


@dataclass(slots=True)
class StepJudge:
    """Judges executions in the order of the lecture; remembers which storage of A is which of B."""

    context: Context
    same_counters: bool  # device type and torch version are the same: counts have to agree exactly
    storages: tuple[dict[str, set[str]], dict[str, set[str]]] = field(default_factory=lambda: ({}, {}))

    def findings(self, a: Step, b: Step, renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Yield what there is to say of an execution that both sides have."""
        yield from self.claims(a.claim, b.claim)
        yield from self.named(a.values or [], b.values or [], renamed)
        yield from counter_findings(a, b, exact=self.same_counters)
        if a.claim is None or b.claim is None:  # a failed claim raises: that is told already
            yield from _raised(a.raised, b.raised)
        yield from _output(a, b)

    def arguments(self, calls: Sequence[FramePair], matching: Matching) -> Iterator[Finding]:
        """Compare what functions were called with, at the statement that called them."""
        before = 0
        for call in calls:
            if call.a is None or call.b is None or not (call.a.arguments or call.b.arguments):
                continue
            arguments = call.a.arguments or [], call.b.arguments or []
            for finding in self.named(*arguments, matching.renamed(call.a.source, call.a.function)):
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
            said = [formats.one_line(message, SHOWN) for message in (a.message, b.message) if message]
            runs = (a.failed_runs or []) + (b.failed_runs or [])
            detail = "; ".join([*said, *([f"in {', '.join(runs)}"] if runs else [])])
            yield Finding("claims", "claim flipped", subject, a, b, detail or None, True, 1.0)
        for place, ((other, x), (source, y)) in enumerate(zip(a.sides, b.sides, strict=False)):
            if other == source:  # else the claim was edited
                yield self.value(Subject("side", place, source), x, y)

    def named(self, a: Named, b: Named, renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Compare values by the expressions they are of, the n-th of one with the n-th of the same."""
        for in_a, in_b in paired(a, b, renamed):
            if in_a is not None and in_b is not None:
                yield self.value(Subject("value", in_b, b[in_b][0]), a[in_a][1], b[in_b][1])
            elif in_b is not None:
                yield Finding("values", "only in B", Subject("value", in_b, b[in_b][0]), None, b[in_b][1])
            elif in_a is not None:
                yield Finding("values", "only in A", Subject("value", in_a, a[in_a][0]), a[in_a][1])

    def value(self, subject: Subject, a: Value, b: Value) -> Finding:
        """Compare two values, and which memory they lie in."""
        found = judge(a, b, self.context)
        aliasing = self._aliasing(a, b)
        if aliasing and found.verdict != "varies":
            detail = "; ".join([found.detail, aliasing] if found.verdict == "changed" and found.detail else [aliasing])
            return Finding("values", "changed", subject, a, b, detail, True, found.size)
        if found.verdict == "same":
            return Finding("values", "same", subject)
        matters = found.verdict not in HARMLESS
        return Finding("values", found.verdict, subject, a, b, found.detail, matters, found.size)

    def _aliasing(self, a: Value, b: Value) -> str | None:
        """Say how what shares memory with a tensor's counterpart is not its own counterpart."""
        in_a = a.tensor.storage if a.tensor is not None else None
        in_b = b.tensor.storage if b.tensor is not None else None
        if in_a is None or in_b is None:
            return None
        known, back = self.storages[0].setdefault(in_a, {in_b}), self.storages[1].setdefault(in_b, {in_a})
        lost, gained = in_b not in known, in_a not in back
        known.add(in_b)  # said once: what follows lies where it lies for the same reason
        back.add(in_a)
        if lost:
            return "it shares memory in A that it does not share in B"
        return "it shares memory in B that it does not share in A" if gained else None


def paired(a: Named, b: Named, renamed: Mapping[str, str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield places (in a, in b) of the values of one expression, in B's order, then what only A has."""
    left: dict[str, list[int]] = {}
    for place, (name, _) in reversed(list(enumerate(a))):
        left.setdefault(translated(name, renamed), []).append(place)
    for place, (name, _) in enumerate(b):
        yield (left[name].pop() if left.get(name) else None), place
    yield from ((place, None) for places in left.values() for place in reversed(places))


def _raised(a: Raised | None, b: Raised | None) -> Iterator[Finding]:
    if a is None and b is None:
        return
    subject = Subject("raised")
    if a is not None and b is not None and (a.type, a.message) == (b.type, b.message):
        yield Finding("steps", "same", subject, a, b)
    else:
        yield Finding("steps", "changed", subject, a, b, "an exception left it", True, 1.0)


def _output(a: Step, b: Step) -> Iterator[Finding]:
    """Compare what was printed, warned of and told; none of it matters by itself: numbers are in it that vary."""
    kinds = ", ".join(dict.fromkeys(told.kind for told in b.narrative or a.narrative or []))
    told = (" ".join(map(_told, step.narrative or ())) for step in (a, b))
    for subject, x, y, texts in (
        (Subject("printed"), a.stdout, b.stdout, (a.stdout or "", b.stdout or "")),
        (Subject("warnings"), a.warnings, b.warnings, ("\n".join(a.warnings or []), "\n".join(b.warnings or []))),
        (Subject("told", 0, kinds), a.narrative, b.narrative, told),
    ):
        if x or y:
            first = min((it.at or 0 for step in (a, b) for it in step.left_out or () if it.what == "stdout"), default=0)
            if first and isinstance(x, str) and isinstance(y, str) and x[:first] == y[:first]:
                yield Finding("output", "same", subject)  # as far as both are there
            else:
                yield Finding("output", "same", subject) if x == y else Finding("output", "changed", subject, *texts)


def _told(narrative: Narrative) -> str:
    words = narrative.text or narrative.title or narrative.url or narrative.kind
    if narrative.exploration is not None:
        found = narrative.exploration.results
        return f"{words} {', '.join(f'{one.label}: {one.value} {one.unit or str()}'.rstrip() for one in found)}"
    if narrative.answer is None:
        return words
    return f"{words} Answer: {narrative.answer.value} {narrative.answer.unit or ''}".rstrip()


def absence(row: StepPair, excused: str | None, unjudged: str | None, time: TimeFinding | None) -> Finding:
    """Say that only one side has a step, and how long it took; the reasons are why that is no difference, or unknown.

    A claim that failed there is one all the same.
    """
    step = row.step
    failed = step.claim is not None and not step.claim.held
    prose = bool(step.narrative) and step.claim is None
    subject = Subject("step", expression="prose" if prose else "a step")
    if unjudged is not None:
        return Finding("steps", "not judged", subject, detail=unjudged)
    if excused is not None and not failed:
        return Finding("steps", "varies", subject, detail=excused)
    aspect: Aspect = "output" if prose else "steps"
    took = None if time is None or prose else time.a_ns + time.b_ns
    if row.b is None:
        return Finding(aspect, "only in A", subject, a=took, matters=not prose)
    return Finding(aspect, "only in B", subject, b=took, matters=not prose)
