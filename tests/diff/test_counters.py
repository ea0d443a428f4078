"""FLOPs, bytes and memory of a step on both sides."""

from __future__ import annotations

from tests.diff.planted import at, differ, made, with_steps
from trace_tools.trace.model import Meters


def test_counts_that_are_lower_bounds_say_so() -> None:
    meters = Meters(flops=1000, uncounted=["aten.sort"])
    a = with_steps(made(0), at(6, meters=meters))
    b = with_steps(a, at(6, meters=Meters(flops=2000, uncounted=["aten.sort"])))
    [detail] = [f.detail for _, f in differ(a, b).findings("flops") if f.verdict == "changed"]
    assert detail is not None and "at least" in detail and "aten.sort" in detail


def test_the_allocators_rounding_is_not_a_change() -> None:
    meters = Meters(0, 0, 0, 1000, 1000)
    a = with_steps(made(0), at(6, allocated_bytes=1024, meters=meters))
    rounded = differ(a, with_steps(a, at(6, allocated_bytes=1536, meters=meters)))
    assert not rounded.matters and [f.verdict for _, f in rounded.findings("memory")] == ["rounding"]
    assert differ(a, with_steps(a, at(6, allocated_bytes=1024 + 2**24, meters=meters))).matters
