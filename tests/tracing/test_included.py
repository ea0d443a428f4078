"""`--include` traces modules with a lecture; the oracle is a lecture that defines their functions itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_tools.analysis.outcome import problems
from trace_tools.errors import LectureError, UsageError
from trace_tools.pages.content.compose import make_document
from trace_tools.source.statements import parse_source
from trace_tools.trace.file import load
from trace_tools.trace.model import Frame, Step, Trace
from trace_tools.tracing.included import find_modules, first_numbers
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.tracer import Tracer

SHAPES = '''"""Shapes"""


def area(w, h):
    """The area of a rectangle"""
    if w < 0:
        raise ValueError("negative")
    product = w * h  # @inspect product
    assert product == h * w
    return product


class Box:
    def __init__(self, side):
        self.side = side

    def volume(self):
        return self.side**3  # @inspect self.side


def main():
    return area(1, 1)
'''

DENSE = "def area(x):\n    y = 2 * x  # @inspect y\n    return y\n\n\nonce = area(0)\n"

LECTURE = '''"""A lecture with helpers"""

import layers.dense
import shapes


def main():
    first()
    shapes.area(5, 5)


def first():
    """First"""
    a = shapes.area(3, 4)  # @inspect a
    b = shapes.Box(2).volume()  # @inspect b
    for i in range(3):
        c = layers.dense.area(i)  # @inspect c
    try:
        shapes.area(-1, 2)
    except ValueError:
        pass
    shapes.main()
'''


@pytest.fixture
def lecture(tmp_path: Path) -> Path:
    (tmp_path / "shapes.py").write_text(SHAPES)
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/__init__.py").touch()
    (tmp_path / "layers/dense.py").write_text(DENSE)
    (tmp_path / "lecture.py").write_text(LECTURE)
    return tmp_path / "lecture.py"


def _traced(lecture: Path, *include: str) -> Trace:
    options = TraceOptions(device="cpu", passes=1, include=include, force=True)
    result = Tracer(lecture, lecture.parent / "rendered", options).run()
    assert problems(result.trace) == [] and load(result.path).trace == result.trace
    return result.trace


def _executed(trace: Trace) -> list[tuple[str, int, list[str]]]:
    """Return the executed steps: function, line and values. Check that line and function fit the statement."""
    frames = {event.frame: event for event in trace.steps if isinstance(event, Frame)}
    executed = []
    for step in (event for event in trace.steps if isinstance(event, Step)):
        frame = frames[step.frame]
        statement = parse_source(trace.sources[frame.source].text, "").statements[step.statement]
        assert (statement.line, statement.function) == (step.line, frame.function)
        executed.append((frame.function, step.line, [f"{name} = {value.value}" for name, value in step.values or ()]))
    return executed


@pytest.mark.slow
def test_steps_equal_those_of_functions_in_the_lecture(lecture: Path) -> None:
    trace = _traced(lecture, "shapes.py", "layers")
    assert [source.path for source in trace.sources] == [
        "lecture.py",
        "shapes.py",
        "layers/__init__.py",
        "layers/dense.py",
    ]
    # The oracle: one file with the functions of all modules.
    without_modules = _traced(lecture)
    flat = lecture.with_name("flat.py")
    shapes_code = (
        SHAPES.partition("\n\n\n")[2]
        .replace("def main", "def main_of_shapes")
        .replace("area(1, 1)", "shapes.area(1, 1)")
    )
    flat.write_text(
        LECTURE.replace("import layers.dense\nimport shapes\n", "from types import SimpleNamespace as Space\n")
        .replace("layers.dense.area", "dense")
        .replace("shapes.main", "main_of_shapes")
        + "\n\n"
        + shapes_code
        + "\n\n"
        + DENSE.replace("def area", "def dense").replace("once = area(0)\n", "")
        + "\n\nshapes = Space(area=area, Box=Box)\n"
    )
    expected = [
        (f.replace("main_of_shapes", "main").replace("dense", "area"), v) for f, _, v in _executed(_traced(flat))
    ]
    steps = [(function, values) for function, _, values in _executed(trace)]
    in_functions = [step for step in steps if step[0] != "<module>"]
    on_import = [("area", ["y = 0"]), ("area", [])]
    assert in_functions[:2] == on_import
    assert in_functions[2:] == [step for step in expected if step[0] != "<module>"]
    assert {frame.source for frame in without_modules.steps if isinstance(frame, Frame)} == {0}


@pytest.mark.slow
def test_exceptions_and_claims_in_modules_are_recorded(lecture: Path) -> None:
    trace = _traced(lecture, "shapes")
    steps = [event for event in trace.steps if isinstance(event, Step)]
    assert {step.claim.source for step in steps if step.claim} == {"product == h * w"}
    assert [(step.line, step.raised.origin_line) for step in steps if step.raised] == [(19, 19), (7, 7)]


def test_pages_name_the_modules_of_called_functions(lecture: Path) -> None:
    document = make_document(_traced(lecture, "shapes", "layers.dense"))
    names = {call.name for section in document.sections for call in _calls(section.blocks)}
    assert {"shapes.area", "shapes.Box.volume", "layers.dense.area", "shapes.main"} <= names


def _calls(blocks: object) -> list:  # type: ignore[type-arg]
    from trace_tools.pages.document import Call, CodeListing

    calls = []
    for block in blocks:  # type: ignore[attr-defined]
        if isinstance(block, Call):
            calls += [block, *_calls(block.blocks)]
        if isinstance(block, CodeListing):
            inner = [call for row in block.rows for e in row.executions for call in e.calls]
            calls += [*inner, *(deeper for call in inner for deeper in _calls(call.blocks))]
    return calls


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("nothing.py", "--include nothing.py: no such module; expected a Python file"),
        ("lecture.py", "--include lecture.py: this is the lecture"),
        ("no.such.module", "--include no.such.module: no such module"),
        ("trace_tools.errors", "--include trace_tools.errors: trace-tools itself"),
        ("math", "--include math: no such module"),  # it is written in C
    ],
)
def test_modules_that_cannot_be_included_are_reported(lecture: Path, include: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        find_modules([include], lecture)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "line"), [("x = = 1\n", 1), ("x = 1\ny = 2  # @inpsect y\n", 2)])
def test_a_mistake_in_a_module_is_reported_with_its_line(lecture: Path, text: str, line: int) -> None:
    lecture.with_name("shapes.py").write_text(text)
    with pytest.raises(LectureError, match=rf"shapes\.py:{line}: "):
        find_modules(["shapes"], lecture)


def test_modules_are_found_once_by_path_or_name(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lecture.parent)
    by_name, by_path = (
        find_modules(["shapes", "layers", "json.decoder"], lecture),
        find_modules(["shapes.py", "layers", "shapes"], lecture),
    )
    assert [module.name for module in by_path] == ["shapes", "layers", "layers.dense"] == [m.name for m in by_name][:3]
    decoder = by_name[-1]
    assert (decoder.name, decoder.path) == ("json.decoder", os.path.join("json", "decoder.py"))
    assert "class JSONDecoder" in decoder.text


def test_statements_are_numbered_across_sources() -> None:
    sources = [parse_source("x = 1\nif x:\n    y = 2\n", "a.py"), parse_source("z = 3\n", "b.py")]
    assert first_numbers(sources) == [0, 4]  # three statements, and the script's only cell
