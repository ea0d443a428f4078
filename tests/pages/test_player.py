from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tests.cases_in_one import each
from tests.pages.lectures import LECTURE, first_section, lecture, number
from tests.pages.played import STEPS, played, vector
from tests.pages.recording import Recording, matrix, of_section
from tests.pages.written import unpacked
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Stepping, Stop
from trace_tools.pages.player import step_block
from trace_tools.trace.model import Tensor, Text, Value


def stepping_of(recording: Recording) -> Stepping:
    return first_section(recording.trace()).stepping


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
    assert [frame[:2] for frame in stepping.frames] == [("f", -1), ("g", 3), ("g", 6)]
    assert [stop.outputs for stop in stepping.stops if stop.outputs] == [2]  # only the animated line
    assert stepping.narrations == ((1, 10), (2, 10), (3, 11), (4, 12))


def test_calls_without_a_listing_stop_at_another_calls_rows() -> None:
    recording, f = of_section("for i in range(9):\n    g(i)", "def g(n):\n    return n\n")
    for _ in range(9):
        recording.step(f, "for i")
        recording.step(recording.call(f, "g(i)", "g"), "return n")
    stops = stepping_of(recording).stops
    assert {stop.anchor for stop in stops if stop.line == 9} == {"call-2-L9"}
    assert not any(stop.code for stop in stops)


def test_code_missing_from_the_page_is_stored_at_its_caller() -> None:
    recording, f = of_section("from trace_tools import text\ntext(g())", "def g():\n    return 'a'\n")
    caller = recording.step(f, "text(g())", narrative=[Text(text="a")])
    recording.step(recording.frame("g", caller), "return")
    assert [(stop.anchor, stop.code) for stop in stepping_of(recording).stops] == [
        ("said-1", ""),
        ("said-1", "return 'a'"),
    ]


def test_stops_list_new_written_and_cleared_variables() -> None:
    stops = stepping_of(played()).stops
    assert [changes(stop) for stop in stops[:7]] == [
        [("x", "new")],
        [("y", "new")],
        [("y", "written")],
        [("total", "new")],
        [("n", "new"), ("double", "new")],
        [],
        [("total", "cleared"), ("x", "cleared")],
    ]
    assert [variable.argument for variable in stops[4].variables] == [True, False]
    assert all(variable.value is None for variable in stops[6].variables)


def test_clear_removes_expressions_of_the_name_but_not_longer_names() -> None:
    recording, f = of_section("a = 1\nb = 2  # @clear x")
    names = ["x", "x.shape", 'x["k"]', "xs", "f(x)"]
    recording.step(f, "a = 1", values=[(name, number(1)) for name in names])
    recording.step(f, "b = 2")
    assert [variable.name for variable in stepping_of(recording).stops[1].variables] == names[:3]


def test_stops_have_the_lines_of_the_shown_text_and_keep_their_numbers() -> None:
    def stepping(edited: str) -> Stepping:
        return make_document(lecture().trace(), edited).sections[0].stepping

    longer = LECTURE.replace('    text("Hello.")\n', '    text(\n        "More.")\n')
    assert lines(stepping(longer).stops, longer)[:3] == ["text(", "x = torch.ones(2, 3)", "y = x.t()"]
    before, after = stepping(LECTURE), stepping(LECTURE.replace('text("Hello.")', 'text("Hello again.")'))
    ids = [[(stop.number, stop.execution.step.id) for stop in shown.stops] for shown in (before, after)]
    assert ids[0] == ids[1]
    assert [step for _, step in after.narrations] == [step for _, step in before.narrations]
    assert after.stops[0].anchor.startswith("said-")


def test_the_data_of_a_page_have_every_stop_with_its_changes() -> None:
    block = unpacked(step_block(first_section(played().trace())))
    assert [frame[1] for frame in block["frames"]] == [-1, 3, 6]
    assert [stop["inside"] for stop in block["stops"]] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    seen = [(at, *variable) for at, stop in enumerate(block["stops"]) for variable in stop["seen"]]
    assert [(at, name, text, change, storage) for at, name, text, _, change, storage in seen][:5] == [
        (0, "x", "f32[3] = [0., 0., 0.]", 1, "A"),
        (1, "y", "f32[2] = [0., 0.]", 1, "A"),
        (2, "y", "f32[2] = [9., 0.]", 3, "A"),
        (3, "total", "2", 1, ""),
        (4, "n", "1", 1 + 8, ""),
    ]


def writes(*values: Value) -> list[bool]:
    """Observe the values one after another, each under a new name; return which of them reveal a write."""
    recording, f = of_section("\n".join(f"a{n} = {n}" for n in range(len(values))))
    for n, value in enumerate(values):
        recording.step(f, f"a{n} =", values=[(f"v{n}", value)])
    return [changes(stop) == [(f"v{n}", "written")] for n, stop in enumerate(stepping_of(recording).stops)]


def view_of(base: np.ndarray, view: np.ndarray, label: str = "A") -> Value:
    """Return a numpy view as the tracer records a tensor."""
    offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    strides = [stride // base.itemsize for stride in view.strides]
    elements = [element.item() for element in view.flatten()]
    tensor = Tensor("float32", list(view.shape), "cpu", None, strides, offset, storage=label, elements=elements)
    return Value("tensor", tensor=tensor)


def some_view(base: np.ndarray, choose: random.Random) -> np.ndarray:
    view = base.reshape(choose.choice([(12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)]))
    if choose.random() < 0.5:
        view = view.T
    start = choose.randrange(view.shape[0])
    view = view[start : start + choose.randint(1, 4) : choose.randint(1, 2)]
    return np.broadcast_to(view, (2, *view.shape)) if choose.random() < 0.2 else view


@each("seed", range(10))
def test_a_write_is_detected_if_a_view_shows_changed_elements(seed: int) -> None:
    choose = random.Random(seed)
    base, last_seen = np.arange(12, dtype=np.float32), np.full(12, np.nan, dtype=np.float32)
    values, expected = [], []
    for turn in range(60):
        if choose.random() < 0.5:
            base[choose.randrange(12)] = turn + 100
        state = choose.getstate()
        values.append(view_of(base, some_view(base, choose)))
        choose.setstate(state)
        viewed = some_view(np.arange(12), choose).flatten()
        seen_before = ~np.isnan(last_seen[viewed])
        expected.append(bool((last_seen[viewed] != base[viewed])[seen_before].any()))
        last_seen[viewed] = base[viewed]
    assert writes(*values) == expected


def test_what_reveals_a_write() -> None:
    nan, changed = (np.array([first, 1.0], dtype=np.float32) for first in (np.nan, 0.0))
    row, column = vector(3.0, 4.0, 5.0, offset=3), vector(1.0, 8.0, offset=1, strides=[3])
    assert writes(matrix(2, 3), row, column) == [False, False, True]  # the row is unchanged; 4 became 8
    assert writes(*[view_of(nan, nan)] * 2, view_of(changed, changed, "B")) == [False] * 3
    assert writes(view_of(nan, nan), view_of(changed, changed)) == [False, True]
    large = Tensor("float32", [1000], "cpu", strides=[1], storage="A")
    sparse = Tensor("float32", [2], "cpu", storage="A", elements=[1.0, 2.0])
    assert not any(writes(number(3), *(Value("tensor", tensor=it) for it in (large, sparse))))
