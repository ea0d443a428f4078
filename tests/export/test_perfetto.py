"""Events for Perfetto: the fields that the format requires, and slices that are nested like calls."""

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
    content = json.loads(json.dumps(events_of(example_trace()), allow_nan=False))
    assert content["displayTimeUnit"] in ("ms", "ns")
    events_in_content: list[dict[str, Any]] = content["traceEvents"]
    return events_in_content


def test_events_have_the_fields_of_their_phase(events: list[dict[str, Any]]) -> None:
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys()
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
    names = {(event["name"], event["args"]["name"]) for event in events if event["ph"] == "M"}
    assert ("thread_name", "Thread-1") in names and ("process_name", "A lecture for tests on NVIDIA H200") in names


def test_slices_of_a_thread_are_nested(events: list[dict[str, Any]]) -> None:
    for thread in {event["tid"] for event in events if event["ph"] == "X"}:
        open_until: list[float] = []
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == thread]
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            while open_until and open_until[-1] <= event["ts"] + 1e-6:
                open_until.pop()
            assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-6
            open_until.append(event["ts"] + event["dur"])


def test_times_are_medians_and_counters_have_their_times(events: list[dict[str, Any]]) -> None:
    [call] = [event for event in events if event["name"] == "product"]
    named = [event for event in events if event["name"].startswith("y = product")]
    [step] = [event for event in named if event["cat"] == "step"]
    assert call["dur"] == 15.0 and step["dur"] == 21.0 and step["ts"] == call["ts"]
    assert {event["cat"] for event in events if event.get("tid") == step["tid"] and event["ph"] == "X"} == {
        "call", "step", "omitted",
    }  # fmt: skip
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    beside = {event["cat"]: event for event in events if event.get("name") == step["name"] and event is not step}
    assert {kind: tracks[event["tid"]] for kind, event in beside.items()} == {
        "launch": "main: launched by the host", "device": "main: on the device",
    }  # fmt: skip
    assert [(event["ts"], event["dur"]) for event in beside.values()] == [(step["ts"], 4.0), (step["ts"], 7.0)]
    allocated = [e["args"]["bytes"] for e in events if e["name"] == "allocated on the device"]
    assert sorted(allocated) == [1536, 2048]
    assert [event["dur"] for event in events if event.get("cat") == "omitted"] == [41.0]


def test_a_trace_without_times_is_reported() -> None:
    steps = [
        replace(e, host_ns=None, cold_ns=None, device_ns=None, launch_ns=None)
        if isinstance(e, Step)
        else replace(e, host_ns=0)
        if isinstance(e, Omitted)
        else e
        for e in example_trace().steps
    ]
    with pytest.raises(UsageError, match="no times"):
        events_of(example_trace(steps=steps))
