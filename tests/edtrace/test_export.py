"""What edtrace's viewer is given: beside what edtrace itself wrote of the same lecture, and of our own traces."""

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
    """Return what is exported, as JSON's strict readers, a browser's among them, have it."""
    made: dict[str, Any] = json.loads(json.dumps(exported(trace).content, allow_nan=False))
    return made


def stacks(trace: dict[str, Any]) -> list[tuple[tuple[Any, ...], ...]]:
    """Return all stacks, with the texts of their lines, but for those in generator expressions."""
    names = ("path", "line_number", "function_name", "code")
    found = [tuple(tuple(one[name] for name in names) for one in step["stack"]) for step in trace["steps"]]
    return [stack for stack in found if not any(element[2].startswith("<") for element in stack)]


def renderings(trace: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(it, sort_keys=True) for step in trace["steps"] for it in step["renderings"])


def values(trace: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for step in trace["steps"]:
        for name, value in step["env"].items():
            text = json.dumps(value).replace("NaN", '"nan"').replace("Infinity", '"inf"')
            yield name, text.replace("exchanged.Pair", "Pair")


@pytest.mark.slow
def test_what_edtrace_wrote_comes_back(tmp_path: Path) -> None:
    path = traced_by_edtrace(copied("exchanged.py", tmp_path))
    theirs, trace = json.loads(path.read_text(encoding="utf-8")), imported(path)
    back = plain(trace)
    assert back.keys() == theirs.keys()
    assert back["files"] == theirs["files"] and back["hidden_line_numbers"] == theirs["hidden_line_numbers"]
    assert list(values(back)) == list(values(theirs))
    told = [[one for one in renderings(of) if '"plot"' not in one] for of in (back, theirs)]
    assert told[0] == told[1] and len(renderings(back)) == len(renderings(theirs))
    assert set(stacks(back)) <= set(stacks(theirs)) | {s for s in stacks(back) if "square" in s[-1][2]}
    assert {type(one) for step in back["steps"] for one in step.values()} == {list, dict}
    path.write_text(json.dumps(back), encoding="utf-8")
    again = imported(path)
    assert list(map(repr, again.steps)) == list(map(repr, trace.steps))  # nan is not nan


def test_our_own_trace_is_steps_with_stacks() -> None:
    trace = plain(example_trace())
    assert (
        trace["steps"][0]["stack"][0]["function_name"] == "main" and trace["steps"][0]["stack"][0]["line_number"] == 8
    )
    assert not any(one["function_name"] == "<module>" for step in trace["steps"] for one in step["stack"])
    lines = [[one["line_number"] for one in step["stack"]] for step in trace["steps"]]
    product = lines.index([9, 19])
    assert lines[product : product + 4] == [[9, 19], [9, 19, 25], [9, 19, 26], [9, 19]]  # called, begun, done, back
    opened, begun, _, done = trace["steps"][product : product + 4]
    assert opened["env"] == {} and begun["env"].keys() == {"a", "b"} and done["env"].keys() == {"y"}
    kinds = [it["type"] for step in trace["steps"] for it in step["renderings"]]
    assert {"markdown", "note", "link", "image", "plot"} == {*kinds}
    spec = next(it["data"] for step in trace["steps"] for it in step["renderings"] if it["type"] == "plot")
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
def test_values_have_their_types(ours: Value, theirs: tuple[str, Any]) -> None:
    def contents(it: Any) -> Any:
        inner = it["contents"]
        if isinstance(inner, dict):
            return {name: contents(one) for name, one in inner.items()}
        return [contents(one) for one in inner] if isinstance(inner, list) else inner

    made = value_of(ours)
    assert (made["type"], contents(made)) == theirs
    assert made.keys() == {"type", "contents", "dtype", "shape"}


def test_arrays_are_nested_as_deep_as_their_shape() -> None:
    whole = value_of(Value("tensor", tensor=Tensor("float32", [2, 2], "cpu", elements=[1.0, math.inf, 0.0, 2.0])))
    assert whole == {
        "type": "torch.Tensor", "contents": [[1.0, "inf"], [0.0, 2.0]], "dtype": "torch.float32", "shape": [2, 2],
    }  # fmt: skip
    part = Tensor("float32", [9, 9], "cpu", corner=[1.0, 2.0], corner_shape=[1, 2], statistics=Statistics())
    assert value_of(Value("ndarray", tensor=part))["contents"] == [[1.0, 2.0]]
    assert value_of(Value("tensor", tensor=Tensor("int64", [], "cpu", elements=[7])))["contents"] == 7
    assert value_of(Value("tensor", tensor=Tensor("int64", [3], "cpu")))["contents"] == []


def test_a_drawing_is_an_image() -> None:
    steps = example_trace().steps
    at = next(n for n, event in enumerate(steps) if isinstance(event, Step) and event.narrative)
    drawn = Step(3, 2, 8, 15, narrative=[Plot(series=[], svg="<svg></svg>")])
    [shown] = [
        it
        for step in plain(example_trace(steps=[*steps[:at], drawn, *steps[at + 1 :]]))["steps"]
        for it in step["renderings"]
        if str(it["data"]).startswith("data:")
    ]
    assert (shown["type"], shown["data"]) == ("image", "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=")
