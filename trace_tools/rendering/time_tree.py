"""A call tree with durations → where a section's time went, statement by statement.

    times(tree, frames, where)
    # (StatementTime("loss = model(x)", 216, "L216", ns=11200000, executions=100, inside=(StatementTime(…), …)), …)

Executions of one statement count together, and so do the calls it made; what happened inside stands in the order
in which it first ran. Times are the host's: beside a device they say when the host went on, not when the work
was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trace_tools.call_tree import Tree
from trace_tools.schema import Frame, Omitted, Step

DEEPEST = 8  # calls inside calls

Where = Callable[[Step], tuple[str, int, str]]  # a step → its code, line and anchor


@dataclass(frozen=True, slots=True)
class StatementTime:
    """One statement with all its executions, or a section: how long they took together, and on what."""

    code: str
    line: int  # 0 of a section
    anchor: str  # "" where it is not on the page
    ns: int
    executions: int
    inside: tuple[StatementTime, ...] = ()


def times(tree: Tree, frames: Iterable[Frame], where: Where, depth: int = 0) -> tuple[StatementTime, ...]:
    """Return what the statements of these calls took, in the order of their first execution."""
    executed: dict[tuple[int, int], list[Step]] = {}
    omitted: dict[tuple[int, int], list[Omitted]] = {}  # of statements that have executions, too: the first is kept
    for frame in frames:
        for step in tree.steps_of(frame.frame):
            executed.setdefault((frame.source, step.statement), []).append(step)
        for left in tree.omitted_in(frame.frame):
            omitted.setdefault((frame.source, left.statement), []).append(left)
    found = []
    for statement, steps in executed.items():
        left_out = omitted.get(statement, ())
        calls = [call for step in steps for call in tree.calls(step.id)] if depth < DEEPEST else []
        ns = sum(map(typical_ns, steps)) + sum(left.host_ns for left in left_out)
        count = len(steps) + sum(left.omitted for left in left_out)
        inside = times(tree, calls, where, depth + 1) if calls else ()
        found.append(StatementTime(*where(steps[0]), ns, count, inside))
    return tuple(found)


def typical_ns(step: Step) -> int:
    """Return the middle of a step's host times (ns), warm where there are any; 0 where it has none."""
    samples: Sequence[int] = step.host_ns or step.cold_ns or ()
    return sorted(samples)[len(samples) // 2] if samples and not step.suspended else 0
