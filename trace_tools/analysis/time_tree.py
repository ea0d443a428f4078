"""Divide a section's time among its statements, from a call tree with durations.

    times(tree, frames, where)
    # (StatementTime("loss = model(x)", 216, "L216", ns=11200000, executions=100, inside=(StatementTime(…), …)), …)

Executions of one statement count together, and so do the calls it made; statements inside are listed in the order of
their first execution. Times are the host's: with a device they show when the host continued, not when the work was
done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from trace_tools.trace.model import Frame, Omitted, Step
from trace_tools.trace.tree import Tree

DEEPEST = 8  # calls inside calls

Where = Callable[[Step], tuple[str, int, str]]  # a step → its code, line and anchor


@dataclass(frozen=True, slots=True)
class StatementTime:
    """One statement with all its executions, or a section: their total time, and its parts."""

    code: str
    line: int  # 0 of a section
    anchor: str  # "" where it is not on the page
    ns: int
    executions: int
    inside: tuple[StatementTime, ...] = ()


def times(
    tree: Tree, frames: Iterable[Frame], where: Where, left_out: Collection[tuple[int, int]] = (), depth: int = 0
) -> tuple[StatementTime, ...]:
    """Return the times of the statements in these calls, in the order of their first execution.

    `left_out` are statements whose time is not work of the lecture, by source and number.
    """
    executed: dict[tuple[int, int], list[Step]] = {}
    # of statements that also have executions, because the first is kept
    omitted: dict[tuple[int, int], list[Omitted]] = {}
    for frame in frames:
        for step in tree.steps_of(frame.frame):
            executed.setdefault((frame.source, step.statement), []).append(step)
        for left in tree.omitted_in(frame.frame):
            omitted.setdefault((frame.source, left.statement), []).append(left)
    statements = []
    for statement, steps in executed.items():
        if statement in left_out:
            continue
        rest = omitted.get(statement, ())
        calls = [call for step in steps for call in tree.calls(step.id)] if depth < DEEPEST else []
        ns = sum(map(typical_ns, steps)) + sum(left.host_ns for left in rest)
        count = len(steps) + sum(left.omitted for left in rest)
        inside = times(tree, calls, where, left_out, depth + 1) if calls else ()
        statements.append(StatementTime(*where(steps[0]), ns, count, inside))
    return tuple(statements)


def typical_ns(step: Step) -> int:
    """Return the median of a step's host times (ns), of warm runs if it has any; 0 without times."""
    samples: Sequence[int] = step.host_ns or step.cold_ns or ()
    return sorted(samples)[len(samples) // 2] if samples and not step.suspended else 0
