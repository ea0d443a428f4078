"""A trace within a size: samples go before facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import example_trace
from trace_tools.trace.model import Event, Step, Tensor, Value
from trace_tools.trace.plain_yaml import flow
from trace_tools.trace.structure import to_plain
from trace_tools.tracing.merge import size_cap
from trace_tools.tracing.merge.size_cap import capped


def _size(events: list[Event]) -> int:
    return sum(len(flow(to_plain(event))) for event in events)


def test_a_trace_that_fits_is_left_alone() -> None:
    events = example_trace().steps
    assert capped(events) == (events, [])


def test_elements_go_and_shapes_stay() -> None:
    tensor = Tensor("float32", [100], "cpu", bytes=400, strides=[1], elements=[0.5] * 100)
    step = Step(0, 0, 0, 1, host_ns=[5], values=[("x", Value("tensor", tensor=tensor))], stdout="y" * 5000)
    events: list[Event] = [replace(step, id=n) for n in range(10)]
    small, dropped = capped(events, _size(events) - 1000)
    kept = small[0]
    assert isinstance(kept, Step) and kept.values and kept.values[0][1].tensor
    assert kept.values[0][1].tensor.elements is None and kept.values[0][1].tensor.shape == [100]
    assert kept.host_ns == [5] and kept.stdout == "y" * 5000
    assert len(dropped) == 2 and dropped[1].startswith("elements")


def test_only_what_was_thinned_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, large = Step(0, 0, 0, 1, host_ns=[5]), Step(1, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))])
    events: list[Event] = [plain] * 20 + [large]
    measured: list[int] = []
    monkeypatch.setattr(size_cap, "flow", lambda plain: measured.append(plain["id"]) or flow(plain))
    _, dropped = capped(events, 1500)
    assert len(dropped) == 3 and measured == [0] * 20 + [1, 1] and events[-1] is large


def test_long_texts_go_last() -> None:
    step = Step(0, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))], stdout="y" * 5000)
    small, dropped = capped([step], 100)
    kept = small[0]
    assert isinstance(kept, Step) and kept.values and kept.stdout == "y" * 1000
    assert (kept.values[0][1].value, kept.values[0][1].length) == ("z" * 1000, 5000)
    assert len(dropped) == 3
