"""edtrace's JSON files are imported as traces; one is compared with our own trace of the same lecture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.notebooks.theirs import CASES, copied, traced_by_edtrace, traced_by_us
from trace_tools.diff.judge.values import Context, judge
from trace_tools.edtrace.import_json import imported
from trace_tools.errors import LectureError, TraceFileError
from trace_tools.pages.site import render_folder
from trace_tools.trace.model import Frame, Link, Step, Text, Trace
from trace_tools.trace.trace_file import load, write
from trace_tools.trace.tree import Tree


@pytest.fixture(scope="module")
def edtrace_json(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_by_edtrace(copied("exchanged.py", tmp_path_factory.mktemp("theirs")))


def steps_by_line(trace: Trace) -> dict[tuple[str, str, int], Step]:
    """Return the steps below `main`, by function, line, and how many times that line has run so far."""
    tree, lines = Tree(trace), trace.sources[0].text.split("\n")
    steps: dict[tuple[str, str, int], Step] = {}
    for step in tree.by_id.values():
        function, line = tree.frames[step.frame].function, lines[step.line - 1].strip()
        if function != "<module>":
            nth = 1 + sum(key[:2] == (function, line) for key in steps)
            steps[function, line, nth] = step
    return steps


@pytest.mark.slow
def test_imported_trace_equals_our_own_of_the_same_lecture(
    edtrace_json: Path, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    theirs, ours = imported(edtrace_json), traced_by_us(edtrace_json.with_suffix(".py"), environment)
    steps = [steps_by_line(trace) for trace in (theirs, ours)]
    narratives = [{key: step.narrative for key, step in by_line.items()} for by_line in steps]
    assert list(narratives[0].items()) == list(narratives[1].items())
    frames = [[event for event in trace.steps if isinstance(event, Frame)] for trace in (theirs, ours)]
    calls = [[(frame.function, frame.arguments) for frame in trace_frames] for trace_frames in frames]
    assert calls[0] == calls[1][1:]  # our trace has the module's body as well
    values = [{key: step.values for key, step in by_line.items() if step.values} for by_line in steps]
    # After the loop, edtrace records the last `i` again.
    loop_header = ("loops", "for i in range(3):  # @inspect i", 4)
    assert values[0].keys() - values[1].keys() == {loop_header} and values[1].keys() <= values[0].keys()
    context = Context(devices=("cpu", theirs.machine.device))
    for key, own_values in values[1].items():
        for (name, value), (imported_name, imported_value) in zip(own_values, values[0][key], strict=True):
            assert name == imported_name and judge(value, imported_value, context).verdict == "same", (key, name)


def test_imported_trace_is_written_loaded_and_rendered(edtrace_json: Path, tmp_path: Path) -> None:
    (tmp_path / "edtrace").mkdir()
    write(imported(edtrace_json), tmp_path / "edtrace" / "trace.yaml")
    loaded = load(tmp_path / "edtrace" / "trace.yaml").trace
    assert repr(loaded) == repr(imported(edtrace_json))  # by repr, because nan != nan
    page = render_folder(tmp_path).parent / "edtrace" / "00-values.md"
    text = page.read_text(encoding="utf-8")
    assert "f32[2]" in text and "a table\nof two lines" in text and "Pair(a=1, b=[2, 3])" in text
    assert 'text("done")' not in text


def test_older_format_with_plain_values_and_printed_output() -> None:
    trace = imported(CASES / "cs336_2025.json")
    assert trace.title == "Lecture 01" and trace.run.lecture == "lecture_01.py"
    main, telling, calling, encode, inside = trace.steps
    assert isinstance(main, Frame) and isinstance(encode, Frame) and isinstance(inside, Step)
    assert isinstance(telling, Step) and isinstance(calling, Step)
    assert (main.function, encode.function, encode.of, inside.line) == ("main", "encode", calling.id, 10)
    assert [(n, v.type, v.value) for n, v in encode.arguments or []] == [("string", "str", "ab")]
    assert telling.stdout == "printed\n" and calling.warnings == ["warned"]
    words, link = telling.narrative or []
    assert words == Text(text="## Tokens", flows=True) and isinstance(link, Link)
    assert (link.text, link.url, link.label) == (None, "https://example.org/t", "[article]")
    assert link.style == [("color", "gray")]
    (_, indices), (_, lost) = calling.values or []
    assert indices.type == "list" and [item.value for item in indices.items or []] == [97, 98]
    assert [(key.value, value.type, value.value) for key, value in lost.entries or []] == [
        ("a", "none", None),
        ("b", "float", 1.5),
    ]


def step(line: int = 2, function: str = "main", **more: Any) -> dict[str, Any]:
    element = {"path": "l.py", "line_number": line, "function_name": function, "code": ""}
    return {"stack": [element], "env": {}, "renderings": [], **more}


def saved(path: Path, *steps: dict[str, Any], source: str = "def main():\n    x = 1\n", **more: Any) -> Path:
    path.write_text(json.dumps({"files": {"l.py": source}, "hidden_line_numbers": {}, "steps": [*steps], **more}))
    return path


def typed(kind: str, contents: Any, dtype: str | None = None, shape: list[int] | None = None) -> dict[str, Any]:
    return {"type": kind, "contents": contents, "dtype": dtype, "shape": shape}


@each(
    ("theirs", "ours"),
    [
        (typed("NoneType", "None"), {"type": "none"}),
        (typed("float", "-inf"), {"type": "float", "value": -math.inf}),
        (typed("numpy.float64", 0.5), {"type": "float64", "value": 0.5, "text": "0.5"}),
        (typed("sympy.core.symbol.Symbol", "x"), {"type": "Symbol", "text": "x"}),
        (typed("torch.Size", [typed("int", 2)]), {"type": "Size", "text": "torch.Size([2])"}),
        (typed("re.error", "bad"), {"type": "re.error", "text": "bad"}),
        (typed("collections.Counter", {"a": typed("int", 1)}), {"type": "Counter", "length": 1}),
        (typed("m.Point", {"a": typed("int", 1)}), {"type": "Point", "length": None}),
        (typed("str", "\ud800"), {"type": "str", "value": "\\ud800"}),
    ],
)
def test_values_keep_their_types_and_contents(theirs: dict[str, Any], ours: dict[str, Any], tmp_path: Path) -> None:
    last = imported(saved(tmp_path / "t.json", step(1), step(env={"x": theirs, "gone": None}))).steps[-1]
    assert isinstance(last, Step) and last.values is not None and [name for name, _ in last.values] == ["x"]
    value = last.values[0][1]
    assert {name: getattr(value, name) for name in ours} == ours


def test_arrays_keep_all_recorded_elements(tmp_path: Path) -> None:
    whole = typed("torch.nn.parameter.Parameter", [[1.0, "nan"]], "torch.bfloat16", [1, 2])
    part = typed("numpy.ndarray", [[1], [2]], "int64", [9, 9])
    nothing = typed("torch.Tensor", [], "torch.float32", [5])
    env = {"whole": whole, "part": part, "nothing": nothing}
    last = imported(saved(tmp_path / "t.json", step(1), step(env=env))).steps[-1]
    assert isinstance(last, Step)
    values = dict(last.values or [])
    tensor = values["whole"].tensor
    assert values["whole"].type == "parameter" and tensor is not None and tensor.dtype == "bfloat16"
    assert tensor.elements is not None and tensor.elements[0] == 1.0 and math.isnan(float(str(tensor.elements[1])))
    tensor = values["part"].tensor
    assert tensor is not None and (tensor.elements, tensor.corner, tensor.corner_shape) == (None, [1, 2], [2, 1])
    tensor = values["nothing"].tensor
    assert tensor is not None and (tensor.elements, tensor.corner) == (None, None)


def test_unreadable_parts_are_reported_and_the_rest_kept(tmp_path: Path) -> None:
    source = "def main():\n    x = 1  # @inspect x or y\n"
    elsewhere = {"stack": [{"path": "other.py", "line_number": 1, "function_name": "f", "code": ""}], "env": {}}
    image = {"type": "image", "data": "../up.png", "style": {}}
    later = {"type": "card", "data": {"title": "new"}}
    path = saved(tmp_path / "t.json", step(1), elsewhere, step(renderings=[image, later]), source=source)
    trace = imported(path)
    assert trace.run.dropped[1] == "1 steps outside the lecture's files"
    assert trace.run.dropped[2].startswith("l.py:2: ")
    last = trace.steps[-1]
    assert isinstance(last, Step) and last.narrative is not None
    assert last.narrative[0].text == "(image: `../up.png`)" and '"title": "new"' in (last.narrative[1].text or "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is not JSON: Expecting value: line 1 column 2 (char 1); expected a trace that edtrace wrote"),
        ("[]", "expected a mapping, found a list"),
        ("{}", "files: expected a dict, found none"),
        ('{"files": {}, "steps": []}', "contains no source or no step; expected a trace that edtrace wrote"),
        ('{"files": {"l.py": 1}, "steps": [1]}', "files['l.py']: expected a text, found a int"),
        (
            '{"files": {"l.py": "x"}, "steps": [{"stack": [], "env": {}, "renderings": []}]}',
            "contains no step of its own source; expected a trace that edtrace wrote",
        ),
        ('{"files": {"l.py": "x"}, "steps": [1]}', "steps[0]: expected a mapping, found a int"),
    ],
)
def test_invalid_trace_files_are_one_line_errors(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(TraceFileError) as raised:
        imported(path)
    assert str(raised.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"env": {"x": typed("int", "1")}}, "steps[1].env['x'].contents: expected int, found str"),
        (
            {"env": {"x": typed("torch.Tensor", [[1, 2]], "torch.int64", [1, 1])}},
            "steps[1].env['x'].contents: found 2 el",
        ),
        (
            {"env": {"x": typed("torch.Tensor", [1], None, [1])}},
            "steps[1].env['x'].dtype: expected a str, found a NoneT",
        ),
        ({"renderings": [{"data": 1}]}, "steps[1].renderings[0].type: expected a str, found none"),
        ({"stack": [{"path": "l.py", "line_number": 9, "function_name": "main"}]}, "steps[1].stack[0]: found line 9"),
    ],
)
def test_step_errors_report_their_location(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", step(1), step(**more))
    with pytest.raises(TraceFileError) as raised:
        imported(path)
    assert str(raised.value).startswith(f"{path}: {message}") and "\n" not in str(raised.value)


def test_invalid_python_source_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match=r"^l.py:1: not valid Python"):
        imported(saved(tmp_path / "t.json", step(1), source="def main(:\n"))
