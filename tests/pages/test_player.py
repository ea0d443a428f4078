from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.cases_in_one import each
from tests.pages.hostile import hostile_trace
from tests.pages.played import training
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import LECTURE, lecture, number
from tests.pages.test_html import Page, site_context
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Section, Stepping, Stop
from trace_tools.pages.html import HtmlWriter
from trace_tools.pages.player import StorageContents, step_block
from trace_tools.trace.model import Raised, Run, Tensor, Text, Trace, Value

STEPS = """\
from trace_tools import text


def main():
    f()


def f():
    x = zeros()  # @inspect x
    y = view(x)  # @inspect y
    y[0] = 9  # @inspect y
    total = g(1)  # @inspect total
    g(2)  # @clear total x
    secret()  # @hide
    shown = secret()  # @hide @inspect shown
    [text(word) for word in "ab"]  # @animate
    for word in "ab":
        text(word)


def g(n):  # @inspect n
    double = 2 * n  # @inspect double
    return double
"""


def vector(*elements: float, name: str = "A", **fields: Any) -> Value:
    layout: dict[str, Any] = {"strides": [1], "storage": name} | fields
    return Value("tensor", tensor=Tensor("float32", [len(elements)], "cpu", elements=list(elements), **layout))


def played() -> Recording:
    recording = Recording(STEPS)
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "x = zeros", values=[("x", vector(0.0, 0.0, 0.0))])
    recording.step(f, "y = view", values=[("y", vector(0.0, 0.0, offset=1))])
    recording.step(f, "y[0] = 9", values=[("y", vector(9.0, 0.0, offset=1))])
    for code, n, fields in (("total = g", 1, {"values": [("total", number(2))]}), ("g(2)", 2, {})):
        g = recording.frame("g", recording.step(f, code, **fields), arguments=[("n", number(n))])
        recording.step(g, "double", values=[("double", number(2 * n))])
        recording.step(g, "return double")
    recording.step(f, "secret()")
    recording.step(f, "shown = secret", values=[("shown", number(7))])
    recording.step(f, "[text(word)", narrative=[Text(text=word) for word in "ab"])
    for word in "ab":
        recording.step(f, "for word")
        recording.step(f, "text(word)", narrative=[Text(text=word)])
    recording.step(f, "for word")
    return recording


def stepping_of(recording: Recording, section_index: int = 0) -> Stepping:
    return make_document(recording.trace()).sections[section_index].stepping


def lines(stops: Sequence[Stop], text: str = STEPS) -> list[str]:
    return [text.splitlines()[stop.line - 1].strip().partition("  #")[0] for stop in stops]


def changes(stop: Stop) -> list[tuple[str, str]]:
    return [(variable.name, variable.change) for variable in stop.variables]


def test_the_player_stops_at_executed_steps_in_order() -> None:
    stepping = stepping_of(played())
    assert lines(stepping.stops) == [
        "x = zeros()",
        "y = view(x)",
        "y[0] = 9",
        "total = g(1)",
        "double = 2 * n",
        "return double",
        "g(2)",
        "double = 2 * n",
        "return double",
        "shown = secret()",  # hidden, but its value is inspected
        '[text(word) for word in "ab"]',
        "text(word)",  # the `for` that contains only prose is not on the page
        "text(word)",
    ]
    assert [stop.number for stop in stepping.stops] == list(range(1, 14))
    assert [stop.inside for stop in stepping.stops] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    assert [(frame.function, frame.of) for frame in stepping.frames] == [("f", None), ("g", 3), ("g", 6)]


def test_every_stop_has_an_element_on_the_page() -> None:
    for recording in (played(), lecture()):
        document = make_document(recording.trace())
        for section in document.sections:
            ids = Page(HtmlWriter(document, site_context()).section(section)).ids()
            assert {stop.anchor for stop in section.stepping.stops} <= set(ids)
            assert {f"said-{number}" for number, _ in section.stepping.narrations} <= set(ids)


def test_calls_without_a_listing_stop_at_another_calls_rows() -> None:
    recording = Recording(
        "def main():\n    f()\n\ndef f():\n    for i in range(9):\n        g(i)\n\ndef g(n):\n    return n\n"
    )
    f = recording.call(recording.frame("main"), "f()", "f")
    for _ in range(9):
        recording.step(f, "for i")
        recording.step(recording.call(f, "g(i)", "g"), "return n")
    stops = stepping_of(recording).stops
    assert {stop.anchor for stop in stops if stop.line == 9} == {"call-2-L9"}
    assert not any(stop.code for stop in stops)


def test_code_missing_from_the_page_is_stored_at_its_caller() -> None:
    text = (
        "from trace_tools import text\n\ndef main():\n    f()\n\ndef f():\n    text(g())\n\ndef g():\n    return 'a'\n"
    )
    recording = Recording(text)
    f = recording.call(recording.frame("main"), "f()", "f")
    caller = recording.step(f, "text(g())", narrative=[Text(text="a")])
    recording.step(recording.frame("g", caller), "return")
    stops = stepping_of(recording).stops
    assert [(stop.anchor, stop.code) for stop in stops] == [("said-1", ""), ("said-1", "return 'a'")]


def test_stops_list_new_and_written_variables() -> None:
    stops = stepping_of(played()).stops
    assert [changes(stop) for stop in stops[:6]] == [
        [("x", "new")],
        [("y", "new")],
        [("y", "written")],
        [("total", "new")],
        [("n", "new"), ("double", "new")],
        [],
    ]
    assert [variable.argument for variable in stops[4].variables] == [True, False]


def test_a_new_view_reveals_a_write_to_its_storage() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    a = 1\n    b = 2\n    c = 3\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "a = 1", values=[("x", matrix(2, 3))])
    recording.step(f, "b = 2", values=[("row", vector(3.0, 4.0, 5.0, offset=3))])  # the second row, unchanged
    recording.step(f, "c = 3", values=[("column", vector(1.0, 8.0, offset=1, strides=[3]))])  # 4 became 8
    assert [changes(stop) for stop in stepping_of(recording).stops] == [
        [("x", "new")],
        [("row", "new")],
        [("column", "written")],
    ]


def test_clear_removes_names() -> None:
    stop = stepping_of(played()).stops[6]
    assert changes(stop) == [("total", "cleared"), ("x", "cleared")]
    assert all(variable.value is None for variable in stop.variables)


def test_clear_removes_expressions_of_the_name_but_not_longer_names() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    a = 1\n    b = 2  # @clear x\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    names = ["x", "x.shape", 'x["k"]', "xs", "f(x)"]
    recording.step(f, "a = 1", values=[(name, number(1)) for name in names])
    recording.step(f, "b = 2")
    assert [variable.name for variable in stepping_of(recording).stops[1].variables] == ["x", "x.shape", 'x["k"]']


def test_only_animated_lines_reveal_their_outputs_one_at_a_time() -> None:
    stepping = stepping_of(played())
    assert [stop.outputs for stop in stepping.stops if stop.outputs] == [2]
    assert stepping.narrations == ((1, 10), (2, 10), (3, 11), (4, 12))


def test_stops_have_the_line_numbers_of_the_shown_text() -> None:
    changed = LECTURE.replace('    text("Hello.")\n', '    text(\n        "More.")\n')
    stops = make_document(lecture().trace(), changed).sections[0].stepping.stops
    assert lines(stops, changed)[:3] == ["text(", "x = torch.ones(2, 3)", "y = x.t()"]


def test_rewording_prose_keeps_step_numbers() -> None:
    before = make_document(lecture().trace()).sections[0].stepping
    after = (
        make_document(lecture().trace(), LECTURE.replace('text("Hello.")', 'text("Hello again.")')).sections[0].stepping
    )
    assert [(stop.number, stop.execution.step.statement, stop.execution.step.id) for stop in after.stops] == [
        (stop.number, stop.execution.step.statement, stop.execution.step.id) for stop in before.stops
    ]
    assert [step for _, step in after.narrations] == [step for _, step in before.narrations]
    assert after.stops[0].anchor.startswith("said-")


def test_a_stop_reports_its_exception() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    raise ValueError('no')\n")
    f = recording.frame("f", recording.step(recording.frame("main"), "f()", raised=Raised("ValueError", "no")))
    recording.step(f, "raise", raised=Raised("ValueError", "no"))
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 5")
    [stop] = make_document(recording.trace(run=run)).sections[0].stepping.stops
    assert stop.execution.failure is not None and not stop.execution.failure.caught


def section(trace: Trace) -> Section:
    return make_document(trace).sections[0]


def unpacked(block: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(block)))


def test_the_block_has_every_stop() -> None:
    first_section = section(played().trace())
    block = unpacked(step_block(first_section))
    stops = first_section.stepping.stops
    keys = ("line", "anchor", "inside")
    assert [tuple(stop[key] for key in keys) for stop in block["stops"]] == [
        (stop.line, stop.anchor, stop.inside) for stop in stops
    ]
    assert [frame[1] for frame in block["frames"]] == [-1, 3, 6]
    seen = [(at, *variable) for at, stop in enumerate(block["stops"]) for variable in stop["seen"]]
    assert [(at, name, text, change, storage) for at, name, text, _, change, storage in seen][:5] == [
        (0, "x", "f32[3] = [0., 0., 0.]", 1, "A"),
        (1, "y", "f32[2] = [0., 0.]", 1, "A"),
        (2, "y", "f32[2] = [9., 0.]", 3, "A"),
        (3, "total", "2", 1, ""),
        (4, "n", "1", 1 + 8, ""),
    ]
    assert [(at, stop["outputs"]) for at, stop in enumerate(block["stops"]) if stop["outputs"]] == [(10, 2)]


def test_the_same_steps_give_the_same_bytes() -> None:
    assert step_block(section(training(300))) == step_block(section(training(300)))


def test_hostile_text_is_sanitised_and_truncated() -> None:
    text = zlib.decompress(base64.b64decode(step_block(section(hostile_trace())))).decode()
    assert "\u202e" not in text and "\x1b" not in text and len(text) < 100_000


def tensor_value(view: np.ndarray, base: np.ndarray, label: str = "A") -> Value:
    """Return a numpy view as the tracer records a tensor."""
    offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    strides = [stride // base.itemsize for stride in view.strides]
    elements = [element.item() for element in view.flatten()]
    shape = list(view.shape)
    return Value(
        "tensor", tensor=Tensor("float32", shape, "cpu", None, strides, offset, storage=label, elements=elements)
    )


def some_view(base: np.ndarray, choose: random.Random) -> np.ndarray:
    view = base.reshape(choose.choice([(12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)]))
    if choose.random() < 0.5:
        view = view.T
    start = choose.randrange(view.shape[0])
    view = view[start : start + choose.randint(1, 4) : choose.randint(1, 2)]
    return np.broadcast_to(view, (2, *view.shape)) if choose.random() < 0.2 else view


@each("seed", range(20))
def test_a_write_is_detected_if_a_view_shows_changed_elements(seed: int) -> None:
    choose = random.Random(seed)
    base, last_seen = np.arange(12, dtype=np.float32), np.full(12, np.nan, dtype=np.float32)
    contents = StorageContents()
    indices = np.arange(12)
    for turn in range(60):
        if choose.random() < 0.5:
            base[choose.randrange(12)] = turn + 100
        state = choose.getstate()
        view = some_view(base, choose)
        choose.setstate(state)
        viewed = some_view(indices, choose).flatten()
        seen_before = ~np.isnan(last_seen[viewed])
        assert contents.note(tensor_value(view, base)) == bool((last_seen[viewed] != base[viewed])[seen_before].any())
        last_seen[viewed] = base[viewed]


def test_unchanged_nan_and_other_storages_are_no_writes() -> None:
    contents = StorageContents()
    base = np.array([np.nan, 1.0], dtype=np.float32)
    assert [contents.note(tensor_value(base, base)) for _ in range(2)] == [False, False]
    assert not contents.note(tensor_value(base + 1, base + 1, "B"))
    base[:] = 0
    assert contents.note(tensor_value(base, base))


def test_values_without_elements_or_strides_reveal_no_write() -> None:
    contents = StorageContents()
    large = Tensor("float32", [1000], "cpu", strides=[1], storage="A")
    sparse = Tensor("float32", [2], "cpu", storage="A", elements=[1.0, 2.0])
    for value in (Value("int", 3), Value("tensor", tensor=large), Value("tensor", tensor=sparse)):
        assert not contents.note(value)
