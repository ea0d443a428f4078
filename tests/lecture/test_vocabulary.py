"""The calls of a lecture record narratives; `decide` chooses a sentence that the samples agree on."""

from __future__ import annotations

import datetime
import gc
import math
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import numpy
import pytest

from tests.cases_in_one import each
from trace_tools import ask, decide, explore, image, link, plot, table, text
from trace_tools.lecture.vocabulary import listening
from trace_tools.trace.explorations import Input, Menu, Result
from trace_tools.trace.model import Answer, Narrative


def narrative_of(call: Callable[..., None], *arguments: object, **options: object) -> Narrative:
    narratives: list[Narrative] = []
    with listening(narratives.append):
        call(*arguments, **options)
    [narrative] = narratives
    return narrative


@each(
    ("value", "than", "sentence"),
    [
        (1.2, 1.0, "more"),
        (0.8, 1.0, "less"),
        (1.0, 1.0, "same"),
        (1.05, (0.9, 1.1), "same"),
        ([0.1, 0.95, 1.05, 1.0, 9.0], (0.9, 1.1), "same"),
        ([0.95, 1.0, 1.2, 1.3], (0.9, 1.1), "who knows"),
        (math.nan, (0.9, 1.1), "who knows"),
        (0.89, (0.9, 1.1), "less"),
        ([1.2, 1.3, 1.4, 1.3, 0.1], 1.1, "more"),  # the middle half of the samples decides
        ([0.8, 1.3, 1.4, 0.7], 1.0, "who knows"),
    ],
)
def test_decide_chooses_the_sentence_that_samples_agree_on(value: object, than: object, sentence: str) -> None:
    texts = {"above": "more", "below": "less", "equal": "same", "undecided": "who knows"}
    narrative = narrative_of(decide, value, than=than, **texts)
    assert (narrative.kind, narrative.text) == ("text", sentence)
    assert narrative.choice is not None and narrative.choice.sentences == ["more", "less", "who knows", "same"]


def test_narratives_are_recorded_inside_a_pause() -> None:
    log: list[str] = []

    @contextmanager
    def pause() -> Iterator[None]:
        log.append("pause")
        yield
        log.append("go on")

    with listening(lambda narrative: log.append(narrative.kind), pause):
        text("a")
        plot({"y": [1, 2]})
    assert log == ["pause", "text", "go on", "pause", "plot", "go on"]
    text("nobody listens")


def test_arguments_of_compatible_types_are_accepted() -> None:
    reference = narrative_of(link, "https://example.org", authors=["A", "B"], date=datetime.date(2019, 10, 4))
    assert (reference.authors, reference.date) == ("A, B", "2019-10-04")
    assert narrative_of(link, "https://example.org", authors="A", date=2019).date == "2019"
    assert narrative_of(image, PurePosixPath("a/b.png"), width="50%").width == "50%"
    width = narrative_of(image, "a.png", width=numpy.int8(3)).width  # type: ignore[arg-type]
    assert (type(width), width) == (int, 3)
    assert narrative_of(table, [[1]], ("n",)).columns == ["n"]


def test_figure_keeps_no_object_of_its_caller_alive() -> None:
    figures = pytest.importorskip("matplotlib.figure")

    class Large:
        pass

    def plot_and_drop(size: str) -> weakref.ref[Large]:
        large, figure = Large(), figures.Figure()
        figure.add_subplot().set_title(f"$10^{{{size}}}$ of it")  # a formula that matplotlib has not cached
        narrative_of(plot, figure)
        return weakref.ref(large)

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        assert [plot_and_drop(size)() for size in ("31", "x_{1}")] == [None, None]
    finally:
        gc.enable() if was_enabled else None


def test_lines_and_labels_of_a_figure() -> None:
    """Labels outside the figure are not cut off."""
    figures = pytest.importorskip("matplotlib.figure")
    plain, with_long_label, with_legend = (figures.Figure(figsize=(4, 3)) for _ in range(3))
    for figure in (plain, with_long_label, with_legend):
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], label="a line"), axes.plot([0, 1], [1, 0])
    with_long_label.axes[0].set_ylabel("a label\nof more lines\nthan there is room for\nbeside the axis")
    with_legend.axes[0].legend(loc="upper left", bbox_to_anchor=(1.05, 1))
    for figure in (plain, with_long_label, with_legend):
        narrative, drawn = narrative_of(plot, figure), figure.get_tightbbox()  # in inches
        assert [series.name for series in narrative.series] == ["a line", "line 2"]
        tag = re.search(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', narrative.svg)
        assert tag is not None
        width, height = map(float, tag.groups())
        if figure is plain:
            assert (width, height) == (4 * 72, 3 * 72)
            heard: list[Any] = []
            with listening(heard.append, draws=False):
                plot(figure)
            assert (heard[0].svg, heard[0].series) == (None, narrative.series)
        else:
            assert width >= 72 * (max(drawn.x1, 4) - min(drawn.x0, 0)) > 4 * 72 and height >= 3 * 72


@each(
    ("call", "arguments", "options", "error"),
    [
        (decide, [1.0], {"than": (0, 2), "above": "a", "below": "b", "undecided": "c"}, "expected equal="),
        (text, [3], {}, r"text: Expected `str`.* at `\$\.text`"),
        (link, [["https://a", "https://b"]], {}, "link: found .*; expected an address"),
        (link, ["The title", "https://a"], {}, "link: found 'The title'; expected an address, .* and then the title"),
        (link, ["www.example.org"], {}, "link: found 'www.example.org'; expected an address"),
        (link, ["https://a"], {"title": {"a": 1}}, r"link: Expected `str.* at `\$\.title`"),
        (image, ["a.png"], {"width": 0}, "found the width 0; expected pixels above 0, or a percentage"),
        (image, ["a.png"], {"width": "wide"}, "found the width 'wide'; expected pixels above 0"),
        (image, ["\ud800.png"], {}, r"found '\\ud800.png'; expected a file's path"),
        (image, ["../a.png"], {}, "found '../a.png'; expected a path that stays in the folder"),
        (table, [[[1, 2]], ["n"]], {}, "row 0 has 2 entries; expected 1"),
        (table, [[[1, 2]]], {}, "table: found no names of columns"),
        (table, [[{"a": 1}], ["a"]], {}, "table: row 0 is a dict; expected a list of its cells"),
        (table, [[[10**5000]], ["n"]], {}, "Exceeds the limit .* for integer string conversion"),
        (plot, [{"y": [1]}], {"style": "bar"}, r"plot: Invalid enum value 'bar' - at `\$.series\[0\].style`"),
        (plot, [{"y": [-1]}], {"style": "stacked"}, "plot: a stack needs .* numbers of 0 or more"),
        (plot, [{"y": [1]}], {"style": "stacked", "y_scale": "log"}, "plot: a stack needs y_scale='linear'"),
        (plot, [{"y": [1]}], {"y_scale": "ln"}, r"plot: Invalid enum value 'ln' - at `\$.y_scale`"),
        (plot, [{"y": 1}], {}, "plot: series 'y' is a int; expected a sequence of numbers"),
        (plot, [[1, 2]], {}, r"plot: found list; expected \{name: values\}, or a matplotlib Figure"),
        (plot, [{"y": [1, 2]}], {"x": [1]}, "y has 2 entries; expected 1"),
        (ask, ["?", [1]], {}, "ask: Expected `int .* str`, got `array`"),
        (ask, ["?", True], {}, "found True; expected a finite number or a text"),
        (ask, ["?", float("nan")], {}, "found nan; expected a finite number or a text"),
        (ask, ["?", 1], {"within": -1}, "ask: Expected `float` >= 0"),
        (ask, ["?", "c"], {"choices": ["a", "b"]}, "found 'c'; expected one of a, b"),
        (ask, ["?", "a"], {"choices": ["a"], "slips": {"z": ""}}, "found 'z'; expected one of a"),
    ],
)
def test_wrong_arguments_are_errors_at_the_call(
    call: Callable[..., None], arguments: list[object], options: dict[str, object], error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        call(*arguments, **options)


def test_a_question_keeps_its_answer() -> None:
    narrative = narrative_of(ask, "How many?", 12, unit="B", within=0, hint="Count.", slips={11: "One is missing."})
    assert narrative.kind == "ask" and narrative.text == "How many?"
    assert narrative.answer == Answer(12, "B", 0.0, hint="Count.", slips=[(11, "One is missing.")])
    chosen_answer = narrative_of(ask, "Which?", "b", choices=["a", "b"], slips={"a": "Not that."}).answer
    assert chosen_answer is not None and (chosen_answer.within, chosen_answer.choices) == (None, ["a", "b"])


def product(x: float, y: float) -> dict[str, float]:
    """Two results"""
    return {"a": x * y, "b": x > y}


EXPLORED: dict[str, Any] = {
    "inputs": {"x": (3, 1, 2000)},
    "menus": {"GPU": {"A": {"y": 1.5, "z": 1}, "B": {"y": 20.0}}},
}


def test_exploration_keeps_its_formula_and_results() -> None:
    sentence = "{a} of {GPU}: {b?more|less than {y}}"
    narrative = narrative_of(explore, product, sentence, **EXPLORED, units={"a": "B"}, names={"x": "X"})
    assert (narrative.kind, narrative.text) == ("explore", sentence) and narrative.exploration is not None
    exploration = narrative.exploration
    assert (exploration.name, exploration.parameters) == ("product", ["x", "y"])
    assert exploration.formula == "def product(x, y):\n    return (x * y, x > y)"
    assert exploration.inputs == [Input("x", "X", 3.0, 1.0, 2000.0, "log", whole=True)]
    number, rows = Input("y", "y", 1.5, 0.015, 2000.0, "log"), [("A", [1.5]), ("B", [20.0])]
    assert exploration.menus == [Menu("GPU", [number], rows, own=True)]
    assert exploration.results == [Result("a", "a", 4.5, "B"), Result("b", "b", True)]


@each(
    ("says", "options", "message"),
    [
        ("", {**EXPLORED, "inputs": {"x": (5, 0, 2)}}, "x is 5; expected a number from 0 to 2"),
        ("", {**EXPLORED, "inputs": {"x": 5}}, "explore: x is 5; expected (number, least, most)"),
        ("", {**EXPLORED, "inputs": {"x": ("a", 0, 2)}}, "explore: x is 'a'; expected a number"),
        ("", {**EXPLORED, "inputs": {"x": (1, 0, math.inf)}}, "x is 1; expected a number from 0 to inf"),
        ("", {**EXPLORED, "menus": {}}, "missing 1 required positional argument: 'y'"),
        (
            "",
            {**EXPLORED, "menus": {"GPU": {"A": {"y": 1}, "B": {}}}},
            "explore: B has no y; expected the same numbers",
        ),
        ("{c}", EXPLORED, "the sentence uses c; expected one of GPU, a, b, x, y"),
        ("{a?x|y}", EXPLORED, "the sentence chooses by a; expected a result that is true"),
        ("{a", EXPLORED, "the sentence: a { has no }"),
        ("", {**EXPLORED, "stack": ["b"]}, "the stack has b; expected results that are numbers: a"),
        ("", {**EXPLORED, "limit": "x"}, "the limit is x; expected a number, and a stack"),
        ("", {**EXPLORED, "curve": ("y", "a")}, "the curve is y, a; expected an input and a result"),
        ("", {**EXPLORED, "across": "x"}, "across is x; expected a menu"),
    ],
)
def test_invalid_explorations_are_refused(says: str, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)) as refused:
        explore(product, says, **options)
    assert "\n" not in str(refused.value)


def test_functions_that_are_not_arithmetic_are_refused() -> None:
    with pytest.raises(ValueError, match="explore: <built-in function len>: expected a plain function"):
        explore(len, "", **EXPLORED)
