"""One execution on both sides → what is not the same about its values, claims, memory, FLOPs and output.

    judge = RowJudge(context, same_counters=True)
    list(judge.findings(place, (0, "main"), renamed={"h": "hidden"}))  # [Finding("values", "changed", "y", …), …]

What is the same is among them with the verdict "same", so that it can be counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trace_tools.comparing.align import Place
from trace_tools.comparing.counters import counter_findings
from trace_tools.comparing.difference import Aspect, Finding, TimeFinding
from trace_tools.comparing.lineage import Function
from trace_tools.comparing.values import SHOWN, Context, Judgement, judge
from trace_tools.rendering import formats
from trace_tools.rendering.summaries import claim_summary, summary
from trace_tools.schema import Claim, Narrative, Raised, Step, Value

_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d]\w*")

Named = list[tuple[str, Value]]
MEASURED = "it follows from a clock or from the machine's peaks"


@dataclass(slots=True)
class RowJudge:
    """Judges executions in the order of the lecture; remembers which storage of A is which of B."""

    context: Context
    same_counters: bool  # device type and torch version are the same: counts have to agree exactly
    is_measured: Callable[[Function, str], bool] = lambda function, expression: False  # see `lineage`
    storages: tuple[dict[str, set[str]], dict[str, set[str]]] = field(default_factory=lambda: ({}, {}))

    def findings(self, place: Place, function: Function, renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Yield what there is to say of an execution that both sides have, in a function of B."""
        a, b = place.a, place.b
        if a is None or b is None:
            return
        yield from self.claims(a.claim, b.claim, function)
        yield from self.named(a.values or [], b.values or [], function, renamed)
        yield from counter_findings(a, b, exact=self.same_counters)
        if a.claim is None or b.claim is None:  # a failed claim raises: that is told already
            yield from _raised(a.raised, b.raised)
        yield from _output(a, b)

    def claims(self, a: Claim | None, b: Claim | None, function: Function) -> Iterator[Finding]:
        """Compare two claims, and their sides as values."""
        if a is None or b is None:
            if a is not None:
                yield Finding("claims", "only in A", _line(a.source), _claimed(a))
            if b is not None:
                yield Finding("claims", "only in B", _line(b.source), None, _claimed(b), matters=not b.held)
            return
        name = _line(b.source)
        if a.held == b.held:
            yield Finding("claims", "same", name)
        else:
            detail = f"in {', '.join((a.failed_runs or []) + (b.failed_runs or []))}"
            known = [part for part in (a.message, b.message) if part]
            detail = "; ".join([*map(_line, known), *([detail] if a.failed_runs or b.failed_runs else [])])
            yield Finding("claims", "claim flipped", name, _claimed(a), _claimed(b), detail or None, True, 1.0)
        for (other, x), (source, y) in zip(a.sides, b.sides, strict=False):
            if other == source:  # else the claim was edited
                yield self.value(source, x, y, function)

    def named(self, a: Named, b: Named, function: Function, renamed: Mapping[str, str]) -> Iterator[Finding]:
        """Compare values by the expressions they are of, the n-th of one with the n-th of the same."""
        left: dict[str, list[Value]] = {}
        for name, value in reversed(a):
            left.setdefault(_translated(name, renamed), []).append(value)
        for name, value in b:
            if left.get(name):
                yield self.value(name, left[name].pop(), value, function)
            else:
                yield Finding("values", "only in B", _line(name), None, summary(value, SHOWN))
        for name, values in left.items():
            for value in reversed(values):
                yield Finding("values", "only in A", _line(name), summary(value, SHOWN))

    def value(self, expression: str, a: Value, b: Value, function: Function) -> Finding:
        """Compare two values, and which memory they lie in."""
        name, found = _line(expression), judge(a, b, self.context)
        if found.verdict == "changed" and self.is_measured(function, expression):
            found = Judgement("varies", MEASURED, found.size)
        aliasing = self._aliasing(a, b)
        if aliasing and found.verdict != "varies":
            detail = "; ".join([found.detail, aliasing] if found.verdict == "changed" and found.detail else [aliasing])
            return Finding("values", "changed", name, summary(a, SHOWN), summary(b, SHOWN), detail, True, found.size)
        if found.verdict == "same":
            return Finding("values", "same", name)
        sides = summary(a, SHOWN), summary(b, SHOWN)
        return Finding("values", found.verdict, name, *sides, found.detail, found.verdict == "changed", found.size)

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


def _line(text: str) -> str:
    return formats.one_line(text, SHOWN)


def _translated(name: str, renamed: Mapping[str, str]) -> str:
    return _IDENTIFIER.sub(lambda found: renamed.get(found[0], found[0]), name) if renamed else name


def _claimed(claim: Claim) -> str:
    return _line(f"{'held' if claim.held else 'failed'}: {claim_summary(claim, SHOWN - 10)}")


def _raised(a: Raised | None, b: Raised | None) -> Iterator[Finding]:
    if a is None and b is None:
        return
    in_a, in_b = (None if r is None else _line(f"{r.type}: {r.message}") for r in (a, b))
    if in_a == in_b:
        yield Finding("steps", "same", "raised", in_a, in_b)
    else:
        yield Finding("steps", "changed", "raised", in_a, in_b, "an exception left it", True, 1.0)


# --- what was said --------------------------------------------------------------------------------


def _output(a: Step, b: Step) -> Iterator[Finding]:
    """Compare what was printed, warned of and told; none of it matters by itself: numbers are in it that vary."""
    if a.stdout or b.stdout:
        yield _said("printed", a.stdout or "", b.stdout or "")
    if a.warnings or b.warnings:
        yield _said("warnings", "\n".join(a.warnings or []), "\n".join(b.warnings or []))
    if a.narrative or b.narrative:
        same = a.narrative == b.narrative
        kinds = ", ".join(dict.fromkeys(told.kind for told in b.narrative or a.narrative or []))
        yield Finding("output", "same", kinds) if same else _said(kinds, _told(a.narrative), _told(b.narrative))


def _told(narrative: list[Narrative] | None) -> str:
    return " ".join(told.text or told.title or told.url or told.kind for told in narrative or [])


def _said(name: str, a: str, b: str) -> Finding:
    if a == b:
        return Finding("output", "same" if name in ("printed", "warnings") else "changed", name, _line(a), _line(b))
    start = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, start - 20)
    return Finding("output", "changed", name, _line(a[start:]), _line(b[start:]))


def absence(side: str, step: Step, reason: str | None, time: TimeFinding | None) -> Finding:
    """Say that only one side has a step, and how long it took; `reason` is why that says nothing."""
    name = "a step"
    if reason is not None:
        return Finding("steps", "not judged", name, detail=reason)
    prose = bool(step.narrative) and step.claim is None
    aspect: Aspect = "output" if prose else "steps"
    took = None if time is None or prose else formats.duration(time.a_ns + time.b_ns)
    if side == "A":
        return Finding(aspect, "only in A", "prose" if prose else name, a=took, matters=not prose)
    return Finding(aspect, "only in B", "prose" if prose else name, b=took, matters=not prose)
