"""What edtrace wrote, as a trace: beside our own trace of the same lecture, and what else can be in such a file."""

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
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced_by_edtrace(copied("exchanged.py", tmp_path_factory.mktemp("theirs")))


def by_place(trace: Trace) -> dict[tuple[str, str, int], Step]:
    """Return the steps below `main` by function, line and how often that line has run in all."""
    tree, lines = Tree(trace), trace.sources[0].text.split("\n")
    found: dict[tuple[str, str, int], Step] = {}
    for step in tree.by_id.values():
        function, line = tree.frames[step.frame].function, lines[step.line - 1].strip()
        if function != "<module>":
            nth = 1 + sum(key[:2] == (function, line) for key in found)
            found[function, line, nth] = step
    return found


@pytest.mark.slow
def test_it_is_the_trace_that_we_make_of_the_same_lecture(
    written: Path, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    theirs, ours = imported(written), traced_by_us(written.with_suffix(".py"), environment)
    told = [{key: step.narrative for key, step in by_place(trace).items()} for trace in (theirs, ours)]
    assert list(told[0].items()) == list(told[1].items())
    frames = [[event for event in trace.steps if isinstance(event, Frame)] for trace in (theirs, ours)]
    calls = [[(frame.function, frame.arguments) for frame in of] for of in frames]
    assert calls[0] == calls[1][1:]  # ours has the module's body as well
    values = [{key: step.values for key, step in by_place(trace).items() if step.values} for trace in (theirs, ours)]
    last_look = ("loops", "for i in range(3):  # @inspect i", 4)  # the header is left: edtrace still has the last `i`
    assert values[0].keys() - values[1].keys() == {last_look} and values[1].keys() <= values[0].keys()
    context = Context(devices=("cpu", theirs.machine.device))
    for key, known in values[1].items():
        for (name, value), (same, other) in zip(known, values[0][key], strict=True):
            assert name == same and judge(value, other, context).verdict == "same", (key, name)


def test_it_is_written_loaded_and_rendered(written: Path, tmp_path: Path) -> None:
    (tmp_path / "edtrace").mkdir()
    write(imported(written), tmp_path / "edtrace" / "trace.yaml")
    loaded = load(tmp_path / "edtrace" / "trace.yaml").trace
    assert repr(loaded) == repr(imported(written))  # nan is not equal to itself
    page = render_folder(tmp_path).parent / "edtrace" / "00-values.md"
    told = page.read_text(encoding="utf-8")
    assert "f32[2]" in told and "a table\nof two lines" in told and "Pair(a=1, b=[2, 3])" in told
    assert 'text("done")' not in told


def test_the_forerunner_wrote_plain_values_and_what_was_printed() -> None:
    trace = imported(CASES / "cs336_2025.json")
    assert trace.title == "Lecture 01" and trace.run.lecture == "lecture_01.py"
    main, said, called, encode, inside = trace.steps
    assert isinstance(main, Frame) and isinstance(encode, Frame) and isinstance(inside, Step)
    assert isinstance(said, Step) and isinstance(called, Step)
    assert (main.function, encode.function, encode.of, inside.line) == ("main", "encode", called.id, 10)
    assert [(n, v.type, v.value) for n, v in encode.arguments or []] == [("string", "str", "ab")]
    assert said.stdout == "printed\n" and called.warnings == ["warned"]
    words, link = said.narrative or []
    assert words == Text(text="## Tokens", flows=True) and isinstance(link, Link)
    assert (link.text, link.url, link.label) == (None, "https://example.org/t", "[article]")
    assert link.style == [("color", "gray")]
    (_, indices), (_, lost) = called.values or []
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


def of(kind: str, contents: Any, dtype: str | None = None, shape: list[int] | None = None) -> dict[str, Any]:
    return {"type": kind, "contents": contents, "dtype": dtype, "shape": shape}


@each(
    ("theirs", "ours"),
    [
        (of("NoneType", "None"), {"type": "none"}),
        (of("float", "-inf"), {"type": "float", "value": -math.inf}),
        (of("numpy.float64", 0.5), {"type": "float64", "value": 0.5, "text": "0.5"}),
        (of("sympy.core.symbol.Symbol", "x"), {"type": "Symbol", "text": "x"}),
        (of("torch.Size", [of("int", 2)]), {"type": "Size", "text": "torch.Size([2])"}),
        (of("re.error", "bad"), {"type": "re.error", "text": "bad"}),
        (of("collections.Counter", {"a": of("int", 1)}), {"type": "Counter", "length": 1}),
        (of("m.Point", {"a": of("int", 1)}), {"type": "Point", "length": None}),
        (of("str", "\ud800"), {"type": "str", "value": "\\ud800"}),
    ],
)
def test_values_are_what_they_were(theirs: dict[str, Any], ours: dict[str, Any], tmp_path: Path) -> None:
    last = imported(saved(tmp_path / "t.json", step(1), step(env={"x": theirs, "gone": None}))).steps[-1]
    assert isinstance(last, Step) and last.values is not None and [name for name, _ in last.values] == ["x"]
    value = last.values[0][1]
    assert {name: getattr(value, name) for name in ours} == ours


def test_arrays_keep_all_that_is_there(tmp_path: Path) -> None:
    whole = of("torch.nn.parameter.Parameter", [[1.0, "nan"]], "torch.bfloat16", [1, 2])
    part = of("numpy.ndarray", [[1], [2]], "int64", [9, 9])
    nothing = of("torch.Tensor", [], "torch.float32", [5])
    env = {"whole": whole, "part": part, "nothing": nothing}
    last = imported(saved(tmp_path / "t.json", step(1), step(env=env))).steps[-1]
    assert isinstance(last, Step)
    values = dict(last.values or [])
    kept = values["whole"].tensor
    assert values["whole"].type == "parameter" and kept is not None and kept.dtype == "bfloat16"
    assert kept.elements is not None and kept.elements[0] == 1.0 and math.isnan(float(str(kept.elements[1])))
    kept = values["part"].tensor
    assert kept is not None and (kept.elements, kept.corner, kept.corner_shape) == (None, [1, 2], [2, 1])
    kept = values["nothing"].tensor
    assert kept is not None and (kept.elements, kept.corner) == (None, None)


def test_what_can_not_be_read_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
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
    ("content", "said"),
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
def test_what_is_no_trace_is_one_line(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(TraceFileError) as raised:
        imported(path)
    assert str(raised.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"env": {"x": of("int", "1")}}, "steps[1].env['x'].contents: expected int, found str"),
        ({"env": {"x": of("torch.Tensor", [[1, 2]], "torch.int64", [1, 1])}}, "steps[1].env['x'].contents: found 2 el"),
        ({"env": {"x": of("torch.Tensor", [1], None, [1])}}, "steps[1].env['x'].dtype: expected a str, found a NoneT"),
        ({"renderings": [{"data": 1}]}, "steps[1].renderings[0].type: expected a str, found none"),
        ({"stack": [{"path": "l.py", "line_number": 9, "function_name": "main"}]}, "steps[1].stack[0]: found line 9"),
    ],
)
def test_what_is_wrong_in_a_step_is_said_at_its_place(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", step(1), step(**more))
    with pytest.raises(TraceFileError) as raised:
        imported(path)
    assert str(raised.value).startswith(f"{path}: {said}") and "\n" not in str(raised.value)


def test_a_source_that_is_no_python_is_said_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match=r"^l.py:1: not valid Python"):
        imported(saved(tmp_path / "t.json", step(1), source="def main(:\n"))
