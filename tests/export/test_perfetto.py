"""Events for Perfetto: their required fields, the nesting of slices, and their times."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.traces import example_trace
from trace_tools.errors import UsageError
from trace_tools.export.perfetto import events_of
from trace_tools.trace.model import Omitted, Step

# Required fields of each phase, from the document "Trace Event Format".
REQUIRED = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
    "C": {"name", "ph", "ts", "pid", "args"},
    "M": {"name", "ph", "pid", "args"},
}


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    exported = json.loads(json.dumps(events_of(example_trace()), allow_nan=False))
    assert exported["displayTimeUnit"] in ("ms", "ns")
    trace_events: list[dict[str, Any]] = exported["traceEvents"]
    return trace_events


def test_events_have_the_fields_of_their_phase(events: list[dict[str, Any]]) -> None:
    """Times are not negative, counters are numbers, and metadata names the process and its threads."""
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys()
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
    names = {(event["name"], event["args"]["name"]) for event in events if event["ph"] == "M"}
    assert ("thread_name", "Thread-1") in names and ("process_name", "A lecture for tests on NVIDIA H200") in names


def test_slices_of_a_thread_are_nested(events: list[dict[str, Any]]) -> None:
    for thread in {event["tid"] for event in events if event["ph"] == "X"}:
        open_ends: list[float] = []  # when the slices end that contain the current one
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == thread]
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            while open_ends and open_ends[-1] <= event["ts"] + 1e-6:
                open_ends.pop()
            assert not open_ends or event["ts"] + event["dur"] <= open_ends[-1] + 1e-6
            open_ends.append(event["ts"] + event["dur"])


def test_durations_are_medians_and_counters_are_at_the_ends_of_steps(events: list[dict[str, Any]]) -> None:
    [call] = [event for event in events if event["name"] == "product"]
    same_line = [event for event in events if event["name"].startswith("y = product")]
    [step] = [event for event in same_line if event["cat"] == "step"]
    [outer_step] = [event for event in events if event["name"] == "matmul()"]
    assert call["dur"] == 15.0 and step["dur"] == 21.0 and step["ts"] == call["ts"]
    assert {event["cat"] for event in events if event.get("tid") == step["tid"] and event["ph"] == "X"} == {
        "call", "step", "omitted",
    }  # fmt: skip
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    device_slices = {event["cat"]: event for event in same_line if event is not step}
    assert {kind: tracks[event["tid"]] for kind, event in device_slices.items()} == {
        "launch": "main: launched by the host", "device": "main: on the device",
    }  # fmt: skip
    assert [(event["ts"], event["dur"]) for event in device_slices.values()] == [(step["ts"], 4.0), (step["ts"], 7.0)]
    allocated = {e["args"]["bytes"]: e["ts"] for e in events if e["name"] == "allocated on the device"}
    assert allocated == {
        1536: pytest.approx(step["ts"] + step["dur"]), 2048: pytest.approx(outer_step["ts"] + outer_step["dur"]),
    }  # fmt: skip
    assert [event["dur"] for event in events if event.get("cat") == "omitted"] == [41.0]


def test_a_trace_without_times_is_reported() -> None:
    steps_without_times = [
        replace(e, host_ns=None, cold_ns=None, device_ns=None, launch_ns=None)
        if isinstance(e, Step)
        else replace(e, host_ns=0)
        if isinstance(e, Omitted)
        else e
        for e in example_trace().steps
    ]
    with pytest.raises(UsageError, match="no times"):
        events_of(example_trace(steps=steps_without_times))
