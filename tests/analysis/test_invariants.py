"""Violations of what must hold in a GPU's trace, each made by hand in one that has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pretend_gpu import pretend_gpu
from tests.traces import example_trace
from trace_tools.analysis.invariants import violations
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import document_notices
from trace_tools.trace.model import Meters, Peak, Step, Trace

SHEET = [Peak("float32", 60e12, "a datasheet"), Peak("memory", 4e12, "a datasheet")]


def on_gpu(**changes: object) -> Trace:
    """A GPU's trace with one annotated step, which has `changes`."""
    trace = pretend_gpu(example_trace())
    step = next(event for event in trace.steps if isinstance(event, Step))
    plain = Step(step.id, step.frame, step.statement, step.line, annotated=True, **changes)  # type: ignore[arg-type]
    others = [replace(e, device_ns=None, meters=None, measured=None) if isinstance(e, Step) else e for e in trace.steps]
    steps = [plain if isinstance(event, Step) and event.id == step.id else event for event in others]
    return replace(trace, machine=replace(trace.machine, peaks=SHEET), steps=steps)


METERS = Meters(flops=10**6, bytes_read=10, bytes_written=10, live_bytes=400, dtype="float32")
RIGHT = {
    "host_ns": [1_000_000, 1_000_000, 1_000_000],
    "device_ns": [900_000, 1_040_000, 900_000],
    "allocated_bytes": 512,
    "meters": METERS,
}


def test_a_trace_in_which_all_holds() -> None:
    assert violations(on_gpu(**RIGHT)) == []
    assert violations(example_trace()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device_ns": [900_000, 2_000_000]}, "took longer on the device than on the host, which waited for it"),
        ({"allocated_bytes": 100}, "ended with less allocated than their tensors hold"),
        ({"meters": replace(METERS, flops=10**12)}, "had a rate that is too high"),
    ],
)
def test_what_cannot_be(changes: dict[str, object], said: str) -> None:
    [line] = violations(on_gpu(**{**RIGHT, **changes}))
    assert line.startswith(f"1 annotated step {said}: most at line ")


def test_a_measured_peak_above_the_datasheets() -> None:
    card, gamer = "Pretend GPU", "NVIDIA GeForce RTX 4090"
    slice_ = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    for name, times, is_doubted in (
        (card, 1.03, False),
        (card, 1.10, True),
        (gamer, 1.13, False),  # 2.85 GHz, where the datasheet names 2.52
        (gamer, 1.30, True),
        (slice_, 1.08, False),  # 1.98 GHz, where the datasheet's peak is at 1.83
    ):
        trace = on_gpu(**RIGHT)
        measured = Peak("float32", times * 60e12, "measured", measured=True)
        machine = replace(trace.machine, name=name, peaks=[*SHEET, measured])
        line = f"the measured float32 peak is {times:.2f} times the datasheet's"
        assert violations(replace(trace, machine=machine)) == ([line] if is_doubted else [])


def test_the_machines_index_says_so(tmp_path: Path) -> None:
    document = make_document(on_gpu(**{**RIGHT, "allocated_bytes": 100}))
    assert [notice.kind for notice in document_notices(document)].count("doubtful") == 1
