"""Exports and pages of a recursion deeper than Python's own stack contain all its steps."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces import example_trace
from trace_tools.diff.difference import Side
from trace_tools.diff.judge.between import difference_between
from trace_tools.edtrace.export import DEEPEST, MOST_ELEMENTS, exported
from trace_tools.edtrace.import_json import imported
from trace_tools.export.html_file import one_file
from trace_tools.export.perfetto import events_of
from trace_tools.notebooks.notebook import notebook, percent
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Event, Frame, SourceFile, Step, Trace, Value
from trace_tools.trace.tree import Tree

LECTURE = '''\
def main():
    section()

def section():
    """How deep it goes"""
    x = even(0)  # @inspect x

def even(n):
    print(n)
    return odd(n + 1) + 1

def odd(n):
    print(n)
    return even(n + 1) + 1
'''
DEPTH = 3 * sys.getrecursionlimit()


@pytest.fixture(scope="module")
def deep() -> Trace:
    """Return a trace of two functions that call each other; each call prints its depth and takes 10 ns itself."""
    number = {statement.line: statement.number for statement in parse_source(LECTURE, "lecture.py").statements}
    lines = {"even": (9, 10), "odd": (13, 14)}
    assert LECTURE.splitlines()[8:10] == ["    print(n)", "    return odd(n + 1) + 1"]
    steps: list[Event] = [
        Frame(0, "main"),
        Step(0, 0, number[2], 2, host_ns=[10 * DEPTH + 10]),
        Frame(1, "section", of=0),
        Step(1, 1, number[6], 6, host_ns=[10 * DEPTH], values=[("x", Value("int", DEPTH))]),
    ]
    for n in range(DEPTH):
        name = ("even", "odd")[n % 2]
        printing, calling = lines[name]
        frame, step = n + 2, 2 * n + 2
        steps += [
            Frame(frame, name, of=step - 1, arguments=[("n", Value("int", n))]),
            Step(step, frame, number[printing], printing, host_ns=[4], stdout=f"{n}\n"),
            Step(step + 1, frame, number[calling], calling, host_ns=[10 * (DEPTH - n) - 4]),
        ]
    trace = example_trace(title="Deep", sources=[SourceFile("lecture.py", LECTURE)], steps=steps)
    run = replace(trace.run, lecture="lecture.py", complete=True, ended="complete", passes=1)
    return replace(trace, run=run, versions=[])


def test_each_step_follows_the_steps_it_called(deep: Trace) -> None:
    tree = Tree(deep)
    step_ids = [step.id for step in tree.with_calls(tree.by_id[0])]
    calling = [2 * n + 3 for n in range(DEPTH)]
    printing = [2 * n + 2 for n in range(DEPTH)]
    assert step_ids == [*printing, *reversed(calling), 1, 0]


def test_perfetto_nests_a_slice_for_each_call(deep: Trace) -> None:
    slices = [event for event in events_of(deep)["traceEvents"] if event["ph"] == "X"]
    assert Counter(event["cat"] for event in slices) == {"call": DEPTH + 2, "step": 2 * DEPTH + 2}
    calls = [event for event in slices if event["cat"] == "call" and event["name"] in ("even", "odd")]
    assert [round(call["dur"] * 1000) for call in calls] == [10 * (DEPTH - n) for n in range(DEPTH)]
    assert [round(call["ts"] * 1000) for call in calls] == [4 * n for n in range(DEPTH)]


@pytest.mark.slow
def test_notebooks_contain_printed_output_in_order(deep: Trace) -> None:
    cells = json.loads(notebook(deep))["cells"]
    streams = [out["text"] for cell in cells for out in cell.get("outputs", ()) if out["output_type"] == "stream"]
    printed = "".join(text if isinstance(text, str) else "".join(text) for text in streams)
    assert printed.split() == [str(n) for n in range(DEPTH)]
    assert "x = even(0)" in percent(deep)


@pytest.mark.slow
def test_edtrace_export_has_every_step_and_linear_size(deep: Trace, tmp_path: Path) -> None:
    export = exported(deep)
    steps = export.content["steps"]
    assert 3 < max(len(step["stack"]) for step in steps) <= DEEPEST + 1
    assert sum(len(step["stack"]) for step in steps) <= MOST_ELEMENTS
    print_lines = [call["code"] for step in steps if (call := step["stack"][-1])["code"].startswith("print")]
    assert len(print_lines) == DEPTH
    assert export.left_out is not None
    assert any("outermost" in rendering["data"] for step in steps for rendering in step["renderings"])
    text = json.dumps(export.content)
    assert len(text) < 4_000 * len(steps)
    (tmp_path / "theirs.json").write_text(text, encoding="utf-8")
    reimported = imported(tmp_path / "theirs.json")
    assert sum(isinstance(event, Step) for event in reimported.steps) >= 2 * DEPTH


@pytest.mark.slow
def test_pages_difference_and_single_file_are_made(deep: Trace, tmp_path: Path) -> None:
    render_site([SiteTrace(deep, "cpu")], tmp_path)
    pages = {path.suffix: path.read_text() for path in tmp_path.glob("cpu/00-*")}
    assert pages.keys() == {".html", ".md", ".js"} and "x = even(0)" in pages[".md"]
    assert "How deep it goes" in one_file(SiteTrace(deep, "cpu"))
    difference = difference_between(Side("a", deep), Side("b", replace(deep, steps=deep.steps[:-6])))
    assert difference.rows
