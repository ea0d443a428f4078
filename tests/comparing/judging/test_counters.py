"""FLOPs, bytes and memory of a step on both sides."""

from __future__ import annotations

from tests.comparing.planted import at, differ, made, with_steps
from trace_tools.schema import Meters


def test_the_allocators_rounding_is_not_a_change() -> None:
    meters = Meters(0, 0, 0, 1000, 1000)
    a = with_steps(made(0), at(6, allocated_bytes=1024, meters=meters))
    rounded = differ(a, with_steps(a, at(6, allocated_bytes=1536, meters=meters)))
    assert not rounded.matters and [f.verdict for _, f in rounded.findings("memory")] == ["rounding"]
    assert differ(a, with_steps(a, at(6, allocated_bytes=1024 + 2**24, meters=meters))).matters
