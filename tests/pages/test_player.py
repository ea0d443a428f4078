from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.cases_in_one import each
from tests.pages.hostile import hostile_trace
from tests.pages.played import training
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import LECTURE, lecture, number
from tests.pages.test_html import Page, html, site_context
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Section, Stepping, Stop
from trace_tools.pages.html import HtmlWriter
from trace_tools.pages.player import BUDGET, StepBlock, StorageContents, step_block
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


def vector(*elements: float, name: str = "A", **more: Any) -> Value:
    known: dict[str, Any] = {"strides": [1], "storage": name} | more
    return Value("tensor", tensor=Tensor("float32", [len(elements)], "cpu", elements=list(elements), **known))


def played() -> Recording:
    made = Recording(STEPS)
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "x = zeros", values=[("x", vector(0.0, 0.0, 0.0))])
    made.step(f, "y = view", values=[("y", vector(0.0, 0.0, offset=1))])
    made.step(f, "y[0] = 9", values=[("y", vector(9.0, 0.0, offset=1))])
    for code, n, more in (("total = g", 1, {"values": [("total", number(2))]}), ("g(2)", 2, {})):
        g = made.frame("g", made.step(f, code, **more), arguments=[("n", number(n))])
        made.step(g, "double", values=[("double", number(2 * n))])
        made.step(g, "return double")
    made.step(f, "secret()")
    made.step(f, "shown = secret", values=[("shown", number(7))])
    made.step(f, "[text(word)", narrative=[Text(text=word) for word in "ab"])
    for word in "ab":
        made.step(f, "for word")
        made.step(f, "text(word)", narrative=[Text(text=word)])
    made.step(f, "for word")
    return made


def stepping_of(made: Recording, place: int = 0) -> Stepping:
    return make_document(made.trace()).sections[place].stepping


def lines(stops: Sequence[Stop], text: str = STEPS) -> list[str]:
    return [text.splitlines()[stop.line - 1].strip().partition("  #")[0] for stop in stops]


def changes(stop: Stop) -> list[tuple[str, str]]:
    return [(known.name, known.change) for known in stop.variables]


def test_the_player_stops_at_what_was_executed_in_order_and_not_at_what_is_hidden() -> None:
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
        "shown = secret()",  # hidden, but it has something to show
        '[text(word) for word in "ab"]',
        "text(word)",  # the `for` that holds nothing but prose is not on the page
        "text(word)",
    ]
    assert [stop.number for stop in stepping.stops] == list(range(1, 14))
    assert [stop.inside for stop in stepping.stops] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    assert [(frame.function, frame.of) for frame in stepping.frames] == [("f", None), ("g", 3), ("g", 6)]


def test_every_stop_stands_at_an_element_of_the_page() -> None:
    for made in (played(), lecture()):
        document = make_document(made.trace())
        for section in document.sections:
            ids = Page(HtmlWriter(document, site_context()).section(section)).ids()
            assert {stop.anchor for stop in section.stepping.stops} <= set(ids)
            assert {f"said-{number}" for number, _ in section.stepping.narrations} <= set(ids)


def test_a_call_that_is_only_named_borrows_the_rows_where_its_code_stands() -> None:
    made = Recording(
        "def main():\n    f()\n\ndef f():\n    for i in range(9):\n        g(i)\n\ndef g(n):\n    return n\n"
    )
    f = made.call(made.frame("main"), "f()", "f")
    for _ in range(9):
        made.step(f, "for i")
        made.step(made.call(f, "g(i)", "g"), "return n")
    stops = stepping_of(made).stops
    assert {stop.anchor for stop in stops if stop.line == 9} == {"call-2-L9"}
    assert not any(stop.code for stop in stops)


def test_code_that_is_nowhere_on_the_page_is_carried_and_stands_at_its_caller() -> None:
    text = (
        "from trace_tools import text\n\ndef main():\n    f()\n\ndef f():\n    text(g())\n\ndef g():\n    return 'a'\n"
    )
    made = Recording(text)
    f = made.call(made.frame("main"), "f()", "f")
    said = made.step(f, "text(g())", narrative=[Text(text="a")])
    made.step(made.frame("g", said), "return")
    stops = stepping_of(made).stops
    assert [(stop.anchor, stop.code) for stop in stops] == [("said-1", ""), ("said-1", "return 'a'")]


def test_a_stop_knows_what_changed_and_what_a_write_through_another_name_did() -> None:
    stops = stepping_of(played()).stops
    assert [changes(stop) for stop in stops[:6]] == [
        [("x", "new")],
        [("y", "new")],
        [("y", "written")],
        [("total", "new")],
        [("n", "new"), ("double", "new")],
        [],
    ]
    assert [known.argument for known in stops[4].variables] == [True, False]


def test_a_new_view_that_shows_other_elements_tells_of_a_write() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    a = 1\n    b = 2\n    c = 3\n")
    f = made.call(made.frame("main"), "f()", "f")
    made.step(f, "a = 1", values=[("x", matrix(2, 3))])
    made.step(f, "b = 2", values=[("row", vector(3.0, 4.0, 5.0, offset=3))])  # the second row, as it was
    made.step(f, "c = 3", values=[("column", vector(1.0, 8.0, offset=1, strides=[3]))])  # 4 became 8
    assert [changes(stop) for stop in stepping_of(made).stops] == [
        [("x", "new")],
        [("row", "new")],
        [("column", "written")],
    ]


def test_clear_takes_names_away() -> None:
    stop = stepping_of(played()).stops[6]
    assert changes(stop) == [("total", "cleared"), ("x", "cleared")]
    assert all(known.value is None for known in stop.variables)


def test_clear_takes_expressions_of_the_name_with_it_and_no_longer_names() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    a = 1\n    b = 2  # @clear x\n")
    f = made.call(made.frame("main"), "f()", "f")
    names = ["x", "x.shape", 'x["k"]', "xs", "f(x)"]
    made.step(f, "a = 1", values=[(name, number(1)) for name in names])
    made.step(f, "b = 2")
    assert [known.name for known in stepping_of(made).stops[1].variables] == ["x", "x.shape", 'x["k"]']


def test_only_animated_lines_reveal_their_outputs_one_at_a_time() -> None:
    stepping = stepping_of(played())
    assert [stop.outputs for stop in stepping.stops if stop.outputs] == [2]
    assert stepping.narrations == ((1, 10), (2, 10), (3, 11), (4, 12))


def test_lines_follow_the_text_that_is_shown() -> None:
    changed = LECTURE.replace('    text("Hello.")\n', '    text("Hello.")\n    text("More.")\n')
    stops = make_document(lecture().trace(), changed).sections[0].stepping.stops
    assert lines(stops, changed)[:3] == ['text("Hello.")', "x = torch.ones(2, 3)", "y = x.t()"]


@pytest.mark.parametrize("new", ['text("Hello again.")', 'note("Hello.")', 'text("New.")\n    text("Hello.")'])
def test_reworded_prose_leaves_the_steps_numbers_as_they_are(new: str) -> None:
    before = make_document(lecture().trace()).sections[0].stepping
    after = make_document(lecture().trace(), LECTURE.replace('text("Hello.")', new)).sections[0].stepping
    assert [(stop.number, stop.execution.step.statement, stop.execution.step.id) for stop in after.stops] == [
        (stop.number, stop.execution.step.statement, stop.execution.step.id) for stop in before.stops
    ]
    assert [step for _, step in after.narrations] == [step for _, step in before.narrations]
    assert after.stops[0].anchor.startswith("said-")


def test_an_exception_is_told_at_its_stop() -> None:
    made = Recording("def main():\n    f()\n\ndef f():\n    raise ValueError('no')\n")
    f = made.frame("f", made.step(made.frame("main"), "f()", raised=Raised("ValueError", "no")))
    made.step(f, "raise", raised=Raised("ValueError", "no"))
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 5")
    [stop] = make_document(made.trace(run=run)).sections[0].stepping.stops
    assert stop.execution.failure is not None and not stop.execution.failure.caught


MANY = 10_000


def section(trace: Trace) -> Section:
    return make_document(trace).sections[0]


def unpacked(block: StepBlock) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(block.text)))


def table(column: Any) -> list[str]:
    return [column["of"][place] for place in accumulate(column["at"])]


def test_the_columns_say_what_the_stops_say() -> None:
    shown = section(played().trace())
    block = step_block(shown)
    columns = unpacked(block)
    stops = shown.stepping.stops
    assert (block.kept, block.total, columns["total"]) == (len(stops), len(stops), len(stops))
    assert list(accumulate(columns["stops"]["line"])) == [stop.line for stop in stops]
    assert table(columns["stops"]["anchor"]) == [stop.anchor for stop in stops]
    assert columns["stops"]["inside"] == [stop.inside for stop in stops]
    assert columns["frames"]["of"] == [-1, 3, 6]
    seen = columns["seen"]
    told = zip(accumulate(seen["stop"]), table(seen["name"]), seen["text"], seen["change"], strict=True)
    assert list(told)[:5] == [
        (0, "x", "f32[3] = [0., 0., 0.]", 1),
        (1, "y", "f32[2] = [0., 0.]", 1),
        (2, "y", "f32[2] = [9., 0.]", 3),
        (3, "total", "2", 1),
        (4, "n", "1", 1 + 8),
    ]
    assert table(seen["storage"])[:4] == ["A", "A", "A", ""]
    assert columns["outputs"] == [[10, 2]]


def test_the_same_steps_give_the_same_bytes() -> None:
    assert step_block(section(training(300))).text == step_block(section(training(300))).text


@pytest.mark.slow
def test_a_page_of_ten_thousand_steps_keeps_to_its_weight_with_all_of_them() -> None:
    trace = training(MANY)
    block = step_block(section(trace))
    assert block.kept == block.total >= MANY
    assert len(block.text) <= BUDGET
    assert len(html(trace).encode()) <= 400_000


def test_beyond_the_budget_repetitions_go_first() -> None:
    shown = section(training(3_000))
    whole = step_block(shown)
    less = step_block(shown, len(whole.text) - 1)
    columns = unpacked(less)
    assert len(less.text) < len(whole.text) and less.kept < less.total == columns["total"]
    # of a line that is executed again and again, `rate` never changes and the losses always do
    kept = table(columns["seen"]["name"])
    assert (kept.count("rate"), kept.count("loss")) == (2, table(unpacked(whole)["seen"]["name"]).count("loss"))
    numbers = list(accumulate(columns["stops"]["number"]))
    assert numbers[0] == 1 and numbers[-1] == less.total


def test_a_block_never_exceeds_its_budget_and_its_calls_stay_in_it() -> None:
    shown = section(training(3_000))
    for budget in (10_000, 3_000, 1_500):
        block = step_block(shown, budget)
        columns = unpacked(block)
        assert len(block.text) <= budget and 0 < block.kept < block.total
        for at, inside in enumerate(columns["stops"]["inside"]):
            assert at + inside < block.kept
        assert all(-1 <= of < block.kept for of in columns["frames"]["of"])


def test_a_page_says_when_its_player_does_not_have_all_steps() -> None:
    trace = training(2_000)
    assert "The player has" not in html(trace)
    with mock.patch("trace_tools.pages.html.step_block", lambda shown: step_block(shown, 9_000)):
        page = html(trace)
    assert "The player has" in page and 'href="trace.yaml">Show it' in page


def test_tricks_are_cut_and_made_visible() -> None:
    text = zlib.decompress(base64.b64decode(step_block(section(hostile_trace())).text)).decode()
    assert "\u202e" not in text and "\x1b" not in text and len(text) < 100_000


def seen(view: np.ndarray, base: np.ndarray, label: str = "A") -> Value:
    """Describe a numpy view as the tracer describes a tensor."""
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
def test_a_write_is_noticed_exactly_where_a_view_shows_something_else_than_was_seen(seed: int) -> None:
    choose = random.Random(seed)
    base, last_seen = np.arange(12, dtype=np.float32), np.full(12, np.nan, dtype=np.float32)
    contents = StorageContents()
    places = np.arange(12)
    for turn in range(60):
        if choose.random() < 0.5:
            base[choose.randrange(12)] = turn + 100
        state = choose.getstate()
        view = some_view(base, choose)
        choose.setstate(state)
        at = some_view(places, choose).flatten()
        known = ~np.isnan(last_seen[at])
        assert contents.note(seen(view, base)) == bool((last_seen[at] != base[at])[known].any())
        last_seen[at] = base[at]


def test_nan_that_stays_is_no_write_and_another_storage_is_another() -> None:
    contents = StorageContents()
    base = np.array([np.nan, 1.0], dtype=np.float32)
    assert [contents.note(seen(base, base)) for _ in range(2)] == [False, False]
    assert not contents.note(seen(base + 1, base + 1, "B"))
    base[:] = 0
    assert contents.note(seen(base, base))


def test_what_has_no_elements_or_no_strides_says_nothing() -> None:
    contents = StorageContents()
    large = Tensor("float32", [1000], "cpu", strides=[1], storage="A")
    sparse = Tensor("float32", [2], "cpu", storage="A", elements=[1.0, 2.0])
    for value in (Value("int", 3), Value("tensor", tensor=large), Value("tensor", tensor=sparse)):
        assert not contents.note(value)
