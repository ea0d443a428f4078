"""A call tree with durations → where a section's time went, statement by statement.

    spent(tree, frames, place)
    # (Spent("loss = model(x)", 216, "L216", ns=11200000, executions=100, inside=(Spent(…), …)), …)

Executions of one statement count together, and so do the calls it made; what happened inside stands in the order
in which it first ran. Times are the host's: beside a device they say when the host went on, not when the work
was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from trace_tools.call_tree import Tree
from trace_tools.schema import Frame, Step

DEEPEST = 8  # calls inside calls

Place = Callable[[Step, int], tuple[str, int, str]]  # a step and its source → code, line, anchor


@dataclass(frozen=True, slots=True)
class Spent:
    """One statement with all its executions: how long they took together, and on what."""

    code: str
    line: int
    anchor: str  # "" where it is not on the page
    ns: int
    executions: int
    inside: tuple[Spent, ...] = ()


@dataclass
class _Group:
    first: Step
    source: int
    ns: int = 0
    executions: int = 0
    calls: list[Frame] = field(default_factory=list)


def spent(tree: Tree, frames: Iterable[Frame], place: Place, depth: int = 0) -> tuple[Spent, ...]:
    """Return what the statements of these calls took, in the order of their first execution."""
    groups: dict[tuple[int, int], _Group] = {}
    for frame in frames:
        for step in tree.steps_of(frame.frame):
            group = groups.setdefault((frame.source, step.statement), _Group(step, frame.source))
            group.ns += typical_ns(step)
            group.executions += 1
            group.calls += tree.calls(step.id)
        for omitted in tree.omitted_in(frame.frame):
            known = groups.get((frame.source, omitted.statement))
            if known is not None:
                known.ns += omitted.host_ns
                known.executions += omitted.omitted
    return tuple(_spent(tree, group, place, depth) for group in groups.values())


def _spent(tree: Tree, group: _Group, place: Place, depth: int) -> Spent:
    code, line, anchor = place(group.first, group.source)
    inside = spent(tree, group.calls, place, depth + 1) if group.calls and depth < DEEPEST else ()
    return Spent(code, line, anchor, group.ns, group.executions, inside)


def typical_ns(step: Step) -> int:
    """Return the middle of a step's host times (ns), warm where there are any; 0 where it has none."""
    samples: Sequence[int] = step.host_ns or step.cold_ns or ()
    return sorted(samples)[len(samples) // 2] if samples and not step.suspended else 0
