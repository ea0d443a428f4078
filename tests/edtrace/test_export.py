"""Traces are exported for edtrace's viewer; some are compared with the files that edtrace itself writes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.notebooks.theirs import copied, traced_by_edtrace
from tests.traces import example_trace
from trace_tools.edtrace.export import exported, value_of
from trace_tools.edtrace.import_json import imported
from trace_tools.trace.model import Plot, Statistics, Step, Tensor, Trace, Value


def plain(trace: Trace) -> dict[str, Any]:
    """Return the exported trace as a strict JSON parser, such as a browser's, reads it."""
    content: dict[str, Any] = json.loads(json.dumps(exported(trace).content, allow_nan=False))
    return content


def stacks(trace: dict[str, Any]) -> list[tuple[tuple[Any, ...], ...]]:
    """Return all stacks with the code of their lines, except stacks in generator expressions."""
    names = ("path", "line_number", "function_name", "code")
    all_stacks = [tuple(tuple(call[name] for name in names) for call in step["stack"]) for step in trace["steps"]]
    return [stack for stack in all_stacks if not any(element[2].startswith("<") for element in stack)]


def renderings(trace: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for step in trace["steps"] for item in step["renderings"])


def values(trace: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for step in trace["steps"]:
        for name, value in step["env"].items():
            text = json.dumps(value).replace("NaN", '"nan"').replace("Infinity", '"inf"')
            yield name, text.replace("exchanged.Pair", "Pair")


@pytest.mark.slow
def test_edtrace_json_survives_import_and_export(tmp_path: Path) -> None:
    path = traced_by_edtrace(copied("exchanged.py", tmp_path))
    theirs, trace = json.loads(path.read_text(encoding="utf-8")), imported(path)
    reexported = plain(trace)
    assert reexported.keys() == theirs.keys()
    assert reexported["files"] == theirs["files"] and reexported["hidden_line_numbers"] == theirs["hidden_line_numbers"]
    assert list(values(reexported)) == list(values(theirs))
    not_plots = [[text for text in renderings(side) if '"plot"' not in text] for side in (reexported, theirs)]
    assert not_plots[0] == not_plots[1] and len(renderings(reexported)) == len(renderings(theirs))
    assert set(stacks(reexported)) <= set(stacks(theirs)) | {s for s in stacks(reexported) if "square" in s[-1][2]}
    assert {type(field) for step in reexported["steps"] for field in step.values()} == {list, dict}
    path.write_text(json.dumps(reexported), encoding="utf-8")
    reimported = imported(path)
    assert list(map(repr, reimported.steps)) == list(map(repr, trace.steps))  # by repr, because nan != nan


def test_own_trace_is_exported_as_steps_with_stacks() -> None:
    trace = plain(example_trace())
    assert (
        trace["steps"][0]["stack"][0]["function_name"] == "main" and trace["steps"][0]["stack"][0]["line_number"] == 8
    )
    assert not any(call["function_name"] == "<module>" for step in trace["steps"] for call in step["stack"])
    lines = [[call["line_number"] for call in step["stack"]] for step in trace["steps"]]
    product = lines.index([9, 19])
    assert lines[product : product + 4] == [[9, 19], [9, 19, 25], [9, 19, 26], [9, 19]]  # call, start, end, return
    opened, begun, _, done = trace["steps"][product : product + 4]
    assert opened["env"] == {} and begun["env"].keys() == {"a", "b"} and done["env"].keys() == {"y"}
    kinds = [rendering["type"] for step in trace["steps"] for rendering in step["renderings"]]
    assert {"markdown", "note", "link", "image", "plot"} == {*kinds}
    plots = [item["data"] for step in trace["steps"] for item in step["renderings"] if item["type"] == "plot"]
    spec = plots[0]
    assert spec["data"]["values"][1] == {"series": "train", "x": 1, "y": 1.0}
    assert spec["mark"] == "line" and spec["encoding"]["y"]["scale"] == {"type": "log"}


@each(
    ("ours", "theirs"),
    [
        (Value("int", 3), ("int", 3)),
        (Value("bool", True), ("bool", True)),
        (Value("float", math.nan), ("float", "nan")),
        (Value("none"), ("NoneType", "None")),
        (Value("complex", text="1j"), ("complex", "1j")),
        (Value("int", text="0xff… (99999 bits)"), ("int", "0xff… (99999 bits)")),
        (Value("int64", 3, text="3"), ("numpy.int64", 3)),
        (Value("Size", text="torch.Size([2, 3])"), ("torch.Size", [2, 3])),
        (Value("list", items=[Value("int", 1)], length=1), ("list", [1])),
        (Value("dict", entries=[(Value("int", 1), Value("str", "a"))], length=1), ("dict", {"1": "a"})),
    ],
)
def test_values_are_exported_with_their_types(ours: Value, theirs: tuple[str, Any]) -> None:
    def contents(exported_value: Any) -> Any:
        inner = exported_value["contents"]
        if isinstance(inner, dict):
            return {name: contents(item) for name, item in inner.items()}
        return [contents(item) for item in inner] if isinstance(inner, list) else inner

    value = value_of(ours)
    assert (value["type"], contents(value)) == theirs
    assert value.keys() == {"type", "contents", "dtype", "shape"}


def test_arrays_are_nested_by_shape() -> None:
    whole = value_of(Value("tensor", tensor=Tensor("float32", [2, 2], "cpu", elements=[1.0, math.inf, 0.0, 2.0])))
    assert whole == {
        "type": "torch.Tensor", "contents": [[1.0, "inf"], [0.0, 2.0]], "dtype": "torch.float32", "shape": [2, 2],
    }  # fmt: skip
    part = Tensor("float32", [9, 9], "cpu", corner=[1.0, 2.0], corner_shape=[1, 2], statistics=Statistics())
    assert value_of(Value("ndarray", tensor=part))["contents"] == [[1.0, 2.0]]
    assert value_of(Value("tensor", tensor=Tensor("int64", [], "cpu", elements=[7])))["contents"] == 7
    assert value_of(Value("tensor", tensor=Tensor("int64", [3], "cpu")))["contents"] == []


def test_drawing_is_exported_as_an_image() -> None:
    steps = example_trace().steps
    position = next(n for n, event in enumerate(steps) if isinstance(event, Step) and event.narrative)
    drawn = Step(3, 2, 8, 15, narrative=[Plot(series=[], svg="<svg></svg>")])
    [image] = [
        it
        for step in plain(example_trace(steps=[*steps[:position], drawn, *steps[position + 1 :]]))["steps"]
        for it in step["renderings"]
        if str(it["data"]).startswith("data:")
    ]
    assert (image["type"], image["data"]) == ("image", "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=")
