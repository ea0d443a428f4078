"""Rates on the pages of the committed traces agree with the lecture's own measurements.

The expected rates are counts divided by seconds, computed here from the trace's YAML, which PyYAML or `json` reads.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.committed import committed_traces
from tests.pages.recording import Recording
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import CodeListing, CodeRow, Document, visible
from trace_tools.pages.margin import margin_notes, timed
from trace_tools.pages.section_charts import section_points
from trace_tools.trace.file import dump, load
from trace_tools.trace.model import Machine, Measured, Meters, Peak, Step, Trace

FACTOR = 1.5  # largest ratio between a rate on a page and the lecture's measurement of the same operation
RATE = re.compile(r"([\d.,e+-]+) ([kMGTPE]?)(FLOP/s|B/s)")
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
CALLS = re.compile(r"(?<![\w.])(measure|count)\(")

Raw = dict[str, Any]
Rates = dict[str, float]  # "FLOP/s", "B/s"


def raw_of(text: str) -> Raw:
    """Read a trace's YAML. Each step is a line, and most lines are JSON, which is faster to read."""
    head, _, steps = text.partition("\nsteps:\n")
    return {**yaml.safe_load(head), "steps": [event for line in steps.splitlines() for event in read_line(line)]}


def read_line(line: str) -> list[Raw]:
    try:
        return [json.loads(line.removeprefix("- "))]
    except ValueError:  # such as `.nan`
        return list(yaml.safe_load(line))


def rates(counts: Raw, seconds: float) -> Rates:
    """Divide FLOPs and bytes by seconds; leave out rates of 0."""
    moved = (counts.get("bytes_read") or 0) + (counts.get("bytes_written") or 0)
    all_rates = {"FLOP/s": (counts.get("flops") or 0) / seconds, "B/s": moved / seconds}
    return {name: rate for name, rate in all_rates.items() if rate}


def measurements(step: Raw) -> list[tuple[Raw, Rates]]:
    """Return the counts and rates of each measurement of a step."""
    return [(call, rates(call, statistics.median(call["seconds"]))) for call in step.get("measured") or ()]


def own_rates(step: Raw) -> Rates:
    """Return the rates by the step's own time."""
    samples = step.get("device_ns") or step.get("host_ns") or step.get("cold_ns")
    return rates(step.get("meters") or {}, statistics.median(samples) / 1e9) if samples else {}


def operation(counts: Raw) -> tuple[object, ...]:
    """Return a key that is equal for measurements of the same operation: its counts and operators."""
    operators = tuple(map(tuple, counts.get("operators") or ()))
    return (*(counts.get(name) for name in ("flops", "bytes_read", "bytes_written", "dtype")), operators)


def close(a: float, b: float, tolerance: float = 2e-3) -> bool:
    """Return whether two numbers agree; the default tolerance allows for the rounding of rates on a page."""
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def rows(document: Document) -> Iterator[CodeRow]:
    """Yield the rows of code of all sections."""
    for section in document.sections:
        for block in visible(section.blocks):
            yield from block.rows if isinstance(block, CodeListing) else ()


def rates_shown(row: CodeRow) -> Iterator[tuple[int, float, str]]:
    """Yield each rate in a row's details: its measurement's number (0 if the page shows none), the rate, its unit."""
    for note in margin_notes(row):
        for name, text in note.facts:
            if name.endswith("achieved"):
                number, prefix, unit = RATE.match(text).groups()  # type: ignore[union-attr]
                call = int(name.partition(":")[0]) if ":" in name else 0
                yield call, float(number.replace(",", "")) * PREFIXES[prefix], unit


def section_of(raw: Raw) -> dict[int, str]:
    """Return the section of each frame: the function that `main` called."""
    steps = {step["id"]: step for step in raw["steps"] if "id" in step}
    frames = {frame["frame"]: frame for frame in raw["steps"] if "function" in frame}
    section_by_frame: dict[int, str] = {}
    for number, frame in frames.items():
        caller = steps[frame["of"]]["frame"] if frame.get("of") is not None else None
        if caller is not None:
            is_section = frames[caller]["function"] == "main"
            section_by_frame[number] = frame["function"] if is_section else section_by_frame.get(caller, "")
    return section_by_frame


def wrong_rates(document: Document, raw: Raw) -> Iterator[str]:
    """Yield a message for each rate, or point of a roofline chart, on a page that contradicts the trace.

    A step that calls `measure` must show the rate of its measurement, any other step the rate by its own time. The
    latter must also agree with the measurements of the same operation in its section, within `FACTOR`.
    """
    steps = {step["id"]: step for step in raw["steps"] if "id" in step}
    lines = raw["sources"][0]["text"].splitlines()
    sections = section_of(raw)
    benchmarks: dict[tuple[object, ...], list[Rates]] = {}
    for step in steps.values():
        for call, call_rates in measurements(step):
            benchmarks.setdefault((sections.get(step["frame"]), *operation(call)), []).append(call_rates)
    for row in rows(document):
        timed_execution = timed(row)
        for number, rate, unit in rates_shown(row):
            assert timed_execution is not None
            step = steps[timed_execution.step.id]
            where = f"line {step['line']}: {rate:.4g} {unit}"
            calls = measurements(step)
            if step.get("harness") or calls:
                expected = calls[number - 1 if number else 0][1] if calls else {}
                if number == 0 and len(calls) > 1:
                    yield f"{where} without the number of its measurement"
                elif not close(rate, expected.get(unit, 0.0)):
                    yield f"{where}, measured {expected.get(unit)}"
                continue
            if CALLS.search(lines[step["line"] - 1]):
                yield f"{where} of a step that measures or counts"
            if not close(rate, own_rates(step).get(unit, 0.0)):
                yield f"{where}, but {own_rates(step).get(unit)} by its own time"
            for benchmark in benchmarks.get((sections.get(step["frame"]), *operation(step.get("meters") or {})), []):
                if unit in benchmark and not 1 / FACTOR <= rate / benchmark[unit] <= FACTOR:
                    yield f"{where}, where the lecture measured {benchmark[unit]:.4g}"
    in_trace = [call_rates for step in steps.values() for _, call_rates in measurements(step)]
    in_trace += [own_rates(step) for step in steps.values() if not step.get("harness") and not step.get("measured")]
    points = sorted((pair["FLOP/s"], pair["FLOP/s"] / pair["B/s"]) for pair in in_trace if len(pair) == 2)
    for section in document.sections:
        for point in section_points(section):
            low, high = (point.flops_per_second * (1 + error) for error in (-1e-9, 1e-9))
            candidates = points[bisect_left(points, (low, 0.0)) : bisect_right(points, (high, math.inf))]
            if not any(close(point.intensity, intensity, 1e-9) for _, intensity in candidates):
                yield f"{section.slug}: {point.name} at {point.flops_per_second:.4g} FLOP/s"


@pytest.mark.slow
def test_rates_on_pages_agree_with_the_lectures_measurements() -> None:
    for path in committed_traces():
        trace = load(path).trace
        raw = raw_of(path.read_text(encoding="utf-8"))
        calls = [call for step in raw["steps"] for call in step.get("measured") or ()]
        assert sum(bool(call.get("flops")) for call in calls) > 10  # measurements to compare with
        document = make_document(trace)
        assert any(True for row in rows(document) for _ in rates_shown(row))
        assert list(wrong_rates(document, raw)) == []


# --- `wrong_rates` notices wrong rates ---------------------------------------------------------------

LECTURE = """def main():
    f()

def f():
    a = measure(lambda: x @ w)
    b, c = measure(one), measure(other)
    d = count(lambda: x @ w)
    y = x @ w  # @inspect y
"""
MATMUL = Meters(2_000_000, 8_000, 4_000, dtype="float32")


def recorded(own_ns: int = 1_000_000) -> Trace:
    """Return a trace in which one matmul is measured, counted, and executed once.

    It took 1 ms when it was measured, and `own_ns` when it was executed.
    """
    call = Measured([0.001] * 3, 2_000_000, 8_000, 4_000, "float32")
    fast_call = replace(call, seconds=[0.0001] * 3)
    recording = Recording(LECTURE)
    f = recording.call(recording.frame("main"), "f()", "f")
    benchmark: Any = {"annotated": True, "host_ns": [300_000_000] * 3, "meters": MATMUL, "harness": True}
    recording.step(f, "a =", measured=[call], **benchmark)
    recording.step(f, "b, c =", measured=[call, fast_call], **benchmark)
    recording.step(f, "d =", **benchmark)
    recording.step(f, "y =", annotated=True, host_ns=[own_ns] * 3, meters=MATMUL)
    peaks = [Peak("float32", 2e11, "measured"), Peak("memory", 4e10, "measured")]
    return recording.trace(machine=Machine("A processor", "cpu", "cpu", peaks=peaks))


def test_correct_rates_pass() -> None:
    trace = recorded()
    document = make_document(trace)
    assert [(call, unit) for row in rows(document) for call, _, unit in rates_shown(row)] == [
        *((0, unit) for unit in ("FLOP/s", "B/s")),
        *((call, unit) for call in (1, 2) for unit in ("FLOP/s", "B/s")),
        *((0, unit) for unit in ("FLOP/s", "B/s")),
    ]
    assert len(list(section_points(document.sections[0]))) == 4
    trace = replace(trace, steps=[s for s in trace.steps if not (isinstance(s, Step) and s.line == 6)])
    assert list(wrong_rates(make_document(trace), raw_of(dump(trace)))) == []


def test_wrong_rates_of_measuring_steps_are_noticed() -> None:
    """They are noticed even in a trace that lacks the measurements, because of the lecture's code."""
    trace = recorded()
    stripped = [replace(s, harness=False, measured=None) if isinstance(s, Step) else s for s in trace.steps]
    wrong_document = make_document(replace(trace, steps=stripped))
    messages = list(wrong_rates(wrong_document, raw_of(dump(trace))))
    assert [sum(f"line {line}: " in message for message in messages) for line in (5, 6, 7)] == [2, 2, 2]
    assert any("x @ w" in message for message in messages)  # points of the roofline chart
    messages = list(wrong_rates(wrong_document, raw_of(dump(replace(trace, steps=stripped)))))
    assert sum("of a step that measures or counts" in message for message in messages) == 6


def test_a_rate_that_contradicts_a_measurement_is_noticed() -> None:
    trace = recorded(own_ns=2_000_000)
    messages = list(wrong_rates(make_document(trace), raw_of(dump(trace))))
    assert sum("line 8: 1e+09 FLOP/s, where the lecture measured 2e+09" in message for message in messages) == 2
