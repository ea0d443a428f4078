"""Traces of a small lecture with known noise, and changes that can be planted in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tests.diff.plain_tracing import traced
from trace_tools.diff.difference import Difference, Side
from trace_tools.diff.judge.between import DEFAULT, Choices, difference_between
from trace_tools.trace.model import Claim, Machine, Measured, Meters, Step, Tensor, Trace, Value

LECTURE = """\
def main():
    first()
    second()
def first():
    x = 1
    y = x + 1  # @inspect y
    assert y == 2
def second():
    total = 0
    for i in range(20):
        total += work(i)
    done = [total]
def work(i):
    a = i + 1
    b = a * 2
    return b
main()
"""
CPU = Machine("A processor", "cpu", "cpu", cpu="A processor", cores=2, threads=2)
SLOW_LINE = 15  # b = a * 2
INSERTED = LECTURE.replace("    a = i + 1\n", "    a = i + 1\n    sum(range(9))\n")
MANY = "".join(f"x{n} = {n}\n" for n in range(60))
HARNESS_NS = [400_000_000, 401_000_000, 399_000_000]  # duration of `measure`, independent of the measured function


def made(seed: int, noise: float = 0.02, passes: int = 3, **changes: Any) -> Trace:
    """Return a trace of the lecture in which every step takes about 10 µs and y is a tensor."""
    random_ns = random.Random(seed)
    base = replace(_base(), **changes)
    steps = [
        replace(e, host_ns=[round(10_000 * random_ns.lognormvariate(0, noise)) for _ in range(passes)])
        if isinstance(e, Step)
        else e
        for e in base.steps
    ]
    return with_steps(replace(base, steps=steps), _observed)


@cache
def _base() -> Trace:
    return traced(LECTURE, machine=CPU)


def _observed(step: Step) -> Step:
    if step.line == 6:
        return replace(step, annotated=True, values=[("y", tensor())], meters=Meters(8, 16, 16, 1024, 2048))
    if step.line == 7:
        sides = [("y", Value("int", 2)), ("2", Value("int", 2))]
        return replace(step, claim=Claim("y == 2", True, sides), meters=Meters(0, 16, 0, 1024, 1024))
    return step


def tensor(**changes: Any) -> Value:
    """Return the value of y."""
    elements: list[Any] = [1.0, 2.0, 3.0, 4.0]
    unchanged = Tensor("float32", [2, 2], "cpu", 16, [2, 1], 0, True, storage="s1", storage_bytes=16, elements=elements)
    return Value("tensor", tensor=replace(unchanged, **changes))


def with_steps(trace: Trace, change: Callable[[Step], Step]) -> Trace:
    """Return the trace with `change` applied to each step."""
    return replace(trace, steps=[change(e) if isinstance(e, Step) else e for e in trace.steps])


def at(line: int, **changes: Any) -> Callable[[Step], Step]:
    """Return a change that replaces fields of the steps of one line."""
    return lambda step: replace(step, **changes) if step.line == line else step


def slower(factor: float, line: int = SLOW_LINE) -> Callable[[Step], Step]:
    """Return a change that multiplies the durations of the steps of one line by `factor`."""

    def change(step: Step) -> Step:
        if step.line != line or step.host_ns is None:
            return step
        return replace(step, host_ns=[round(ns * factor) for ns in step.host_ns])

    return change


def differ(a: Trace, b: Trace, choices: Choices = DEFAULT) -> Difference:
    """Compare two traces."""
    return difference_between(Side("a.yaml", a), Side("b.yaml", b), choices)


def differ_at(line: int, a: dict[str, Any], b: dict[str, Any], choices: Choices = DEFAULT) -> Difference:
    """Compare two traces that have these fields in the steps of one line, and are equal otherwise."""
    return differ(*(with_steps(made(0), at(line, **fields)) for fields in (a, b)), choices)


def ints(**values: int) -> list[tuple[str, Value]]:
    """Return the values of a step that inspects integers."""
    return [(name, Value("int", n)) for name, n in values.items()]


def noisy(trace: Trace, seed: int) -> Trace:
    """Return the trace with durations of about 10 µs and 0.2% noise."""
    random_ns = random.Random(seed)
    return with_steps(
        trace, lambda s: replace(s, host_ns=[round(10_000 * random_ns.lognormvariate(0, 0.002)) for _ in range(5)])
    )


def measuring(*seconds: float, flops: int | None = None, harness_factor: float = 1.0, machine: Machine = CPU) -> Trace:
    """Return a trace in which line 6 measures functions that take `seconds`; the call of its section is in line 2."""
    calls = [Measured([s, 1.01 * s, s / 1.01], flops, 4_000, 4_000, "float32") for s in seconds]
    harness_ns = [round(harness_factor * ns) for ns in HARNESS_NS]
    changes = {"annotated": True, "values": None, "meters": None, "harness": True, "host_ns": harness_ns}
    trace = with_steps(made(0, machine=machine), at(6, measured=calls, **changes))
    return with_steps(trace, at(2, harness=True, host_ns=harness_ns))
