"""What a lecture can say, and that a sentence about a measured number is what its samples agree on."""

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
from trace_tools.trace.model import Answer, Input, Menu, Narrative, Result


def chosen(value: object, **options: object) -> Narrative:
    heard: list[Narrative] = []
    with listening(heard.append):
        decide(value, above="more", below="less", undecided="who knows", **options)  # type: ignore[arg-type]
    [narrative] = heard
    return narrative


@pytest.mark.parametrize(
    ("value", "than", "said"),
    [
        (1.2, 1.0, "more"),
        (0.8, 1.0, "less"),
        (1.0, 1.0, "who knows"),
        (1.05, (0.9, 1.1), "who knows"),
        (0.89, (0.9, 1.1), "less"),
        ([1.2, 1.3, 1.4, 1.3, 0.1], 1.1, "more"),  # its middle half
        ([0.8, 1.3, 1.4, 0.7], 1.0, "who knows"),
    ],
)
def test_a_sentence_is_what_the_samples_agree_on(value: object, than: object, said: str) -> None:
    narrative = chosen(value, than=than)
    assert (narrative.kind, narrative.text) == ("text", said)
    assert narrative.choice is not None and narrative.choice.sentences == ["more", "less", "who knows"]


def test_each_word_is_said_inside_a_pause() -> None:
    log: list[str] = []

    @contextmanager
    def pause() -> Iterator[None]:
        log.append("pause")
        yield
        log.append("go on")

    with listening(lambda told: log.append(told.kind), pause):
        text("a")
        plot({"y": [1, 2]})
    assert log == ["pause", "text", "go on", "pause", "plot", "go on"]
    text("nobody listens")


def said(word: Callable[..., None], *arguments: object, **options: object) -> Narrative:
    heard: list[Narrative] = []
    with listening(heard.append):
        word(*arguments, **options)
    [narrative] = heard
    return narrative


def test_what_is_reasonable_is_taken() -> None:
    reference = said(link, "https://example.org", authors=["A", "B"], date=datetime.date(2019, 10, 4))
    assert (reference.authors, reference.date) == ("A, B", "2019-10-04")
    assert said(link, "https://example.org", authors="A", date=2019).date == "2019"
    assert said(image, PurePosixPath("a/b.png"), width="50%").width == "50%"
    width = said(image, "a.png", width=numpy.int8(3)).width  # type: ignore[arg-type]
    assert (type(width), width) == (int, 3)
    assert said(table, [[1]], ("n",)).columns == ["n"]


def test_a_figure_keeps_nothing_of_its_caller_alive() -> None:
    figures = pytest.importorskip("matplotlib.figure")

    class Large:
        pass

    def draws(size: str) -> weakref.ref[Large]:
        large, figure = Large(), figures.Figure()
        figure.add_subplot().set_title(f"$10^{{{size}}}$ of it")  # a formula that no figure had before
        said(plot, figure)
        return weakref.ref(large)

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        assert [draws(size)() for size in ("31", "x_{1}")] == [None, None]
    finally:
        gc.enable() if was_enabled else None


def test_the_lines_of_a_figure_have_their_labels_or_numbers() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label="loss")
    axes.plot([0, 1], [1, 0])
    assert [series.name for series in said(plot, figure).series] == ["loss", "line 2"]


def size_of(svg: str) -> tuple[float, float]:
    """Return width and height in points, as the file says."""
    tag = re.search(r"<svg[^>]*>", svg)
    assert tag
    width, height = (re.search(rf'\b{name}="([\d.]+)pt"', tag[0]) for name in ("width", "height"))
    assert width and height
    return float(width[1]), float(height[1])


def test_a_label_that_sticks_out_of_a_figure_is_not_cut_off() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    plain, long, beside = (figures.Figure(figsize=(4, 3)) for _ in range(3))
    for figure in (plain, long, beside):
        figure.add_subplot().plot([0, 1], [0, 1], label="a line")
    long.axes[0].set_ylabel("a label\nof more lines\nthan there is room for\nbeside the axis")
    beside.axes[0].legend(loc="upper left", bbox_to_anchor=(1.05, 1))
    assert size_of(said(plot, plain).svg) == (4 * 72, 3 * 72)
    for figure in (long, beside):
        width, height = size_of(said(plot, figure).svg)
        drawn = figure.get_tightbbox()  # in inches, as matplotlib has it
        assert width >= 72 * (max(drawn.x1, 4) - min(drawn.x0, 0)) > 4 * 72
        assert height >= 3 * 72


@each(
    ("word", "arguments", "options", "error"),
    [
        (link, [["https://a", "https://b"]], {}, "link: url is a list; expected text"),
        (link, ["https://a"], {"authors": [["A"]]}, r"link: authors\[0\] is a list; expected text"),
        (link, ["https://a"], {"title": {"a": 1}}, "link: title is a dict; expected text"),
        (image, ["a.png"], {"width": 0}, "image: width is 0; expected pixels above 0, or a percentage"),
        (image, ["a.png"], {"width": map(str, [1])}, "image: width is a map; expected pixels above 0"),
        (image, ["a.png"], {"width": "wide"}, "image: width is 'wide'; expected pixels above 0"),
        (image, ["\ud800.png"], {}, r"image: found '\\ud800.png'; expected a file's path"),
        (image, ["../a.png"], {}, "image: found '../a.png'; expected a path that stays in the folder"),
        (table, [[[1, 2]], ["n"]], {}, "table: row 0 has 2 cells; expected 1"),
        (table, [[[10**5000]], ["n"]], {}, "Exceeds the limit .* for integer string conversion"),
        (table, [[[1]], "n"], {}, "table: columns is a str; expected a list of texts"),
        (plot, [{"y": [1]}], {"style": "bar"}, "plot: style is 'bar'; expected one of line, points, bars, stacked"),
        (plot, [{"y": [-1]}], {"style": "stacked"}, "plot: series 'y' has -1 in a stack; expected 0 or more"),
        (plot, [{"y": [1]}], {"style": "stacked", "y_scale": "log"}, "plot: stacked bars need y_scale='linear'"),
        (plot, [{"y": [1]}], {"y_scale": "ln"}, "plot: y_scale is 'ln'; expected one of linear, log"),
        (plot, [{"y": 1}], {}, "plot: series 'y' is a int; expected a sequence of numbers"),
        (plot, [[1, 2]], {}, r"plot: found list; expected \{name: values\} or a matplotlib Figure"),
        (plot, [{"y": [1, 2]}], {"x": [1]}, "plot: series 'y' has 1 x values and 2 y values"),
    ],
)
def test_a_wrong_argument_is_an_error_where_it_stands(
    word: Callable[..., None], arguments: list[object], options: dict[str, object], error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        word(*arguments, **options)


def test_a_question_keeps_its_answer() -> None:
    told = said(ask, "How many?", 12, unit="B", within=0, hint="Count.", slips={11: "One is missing."})
    assert told.kind == "ask" and told.text == "How many?"
    assert told.answer == Answer(12, "B", 0.0, hint="Count.", slips=[(11, "One is missing.")])
    chosen = said(ask, "Which?", "b", choices=["a", "b"], slips={"a": "Not that."}).answer
    assert chosen is not None and (chosen.within, chosen.choices) == (None, ["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("?", [1]), {}, "ask: answer is a list; expected a number or a text"),
        (("?", True), {}, "ask: answer is a bool; expected a number or a text"),
        (("?", float("nan")), {}, "ask: answer is nan; expected a finite number"),
        (
            (
                "?",
                1,
            ),
            {"within": -1},
            "ask: within is -1; expected a relative tolerance of 0 or more",
        ),
        (("?", "c"), {"choices": ["a", "b"]}, "ask: the answer is 'c'; expected a choice: 'a', 'b'"),
        (("?", "a"), {"choices": ["a"], "slips": {"z": ""}}, "ask: a slip is 'z'; expected a choice: 'a'"),
        (([1], 1), {}, "ask: question is a list; expected text"),
    ],
)
def test_a_question_that_is_none_is_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        ask(*arguments, **options)


def product(x: float, y: float) -> dict[str, float]:
    """Two results"""
    return {"a": x * y, "b": x > y}


def squared(x: float) -> dict[str, float]:
    """No arithmetic that is the same in JavaScript"""
    return {"a": x**2}


EXPLORED: dict[str, Any] = {
    "inputs": {"x": (3, 1, 2000)},
    "menus": {"GPU": {"A": {"y": 1.5, "z": 1}, "B": {"y": 20.0}}},
}


def test_a_figure_that_answers_keeps_its_formula_and_what_it_came_to() -> None:
    told = said(
        explore, product, "{a} of {GPU}: {b?more|less than {y}}", **EXPLORED, units={"a": "B"}, names={"x": "X"}
    )
    assert (told.kind, told.text) == (
        "explore",
        "{a} of {GPU}: {b?more|less than {y}}",
    ) and told.exploration is not None
    it = told.exploration
    assert (it.name, it.parameters, it.formula) == (
        "product",
        ["x", "y"],
        "def f0(v0, v1):\n    return (v0 * v1, v0 > v1)",
    )
    assert it.inputs == [Input("x", "X", 3.0, 1.0, 2000.0, "log", whole=True)]
    assert it.menus == [
        Menu("GPU", [Input("y", "y", 1.5, 0.015, 2000.0, "log")], [("A", [1.5]), ("B", [20.0])], own=True)
    ]
    assert it.results == [Result("a", "a", 4.5, "B"), Result("b", "b", True)]


@each(
    ("function", "says", "options", "message"),
    [
        (squared, "", {"inputs": {"x": (1, 0, 2)}}, "explore: line"),
        (squared, "", {"inputs": {"x": (1, 0, 2)}}, "x ** 2: its last digit may differ in JavaScript: write a product"),
        (
            product,
            "",
            {"inputs": {"x": (1, 0, 2)}},
            "explore: found numbers for x; expected one for each parameter, x, y",
        ),
        (product, "", {**EXPLORED, "inputs": {"x": (5, 0, 2)}}, "explore: x is 5; expected a number from 0 to 2"),
        (product, "", {**EXPLORED, "inputs": {"x": 5}}, "explore: x is 5; expected (number, least, most)"),
        (product, "", {**EXPLORED, "inputs": {"x": ("a", 0, 2)}}, "explore: x is 'a'; expected a number"),
        (product, "", {**EXPLORED, "inputs": {"x": (1, 0, math.inf)}}, "explore: x is inf; expected a finite number"),
        (product, "", {**EXPLORED, "menus": {"GPU": {}}}, "explore: GPU has 0 rows; expected 1 to 200"),
        (
            product,
            "",
            {**EXPLORED, "menus": {"GPU": {"A": {"y": 1}, "B": {}}}},
            "explore: B has no y; expected the same numbers in each row of GPU",
        ),
        (product, "{c}", EXPLORED, "explore: the sentence uses c; expected one of GPU, a, b, x, y"),
        (product, "{a?x|y}", EXPLORED, "explore: the sentence has a choice by a; expected a result that is true"),
        (product, "{a", EXPLORED, "explore: the sentence: a { has no }"),
        (product, "", {**EXPLORED, "stack": ["b"]}, "explore: the stack has b; expected results that are numbers: a"),
        (product, "", {**EXPLORED, "limit": "x"}, "explore: the limit is x; expected a number, and a stack"),
        (product, "", {**EXPLORED, "curve": ("y", "a")}, "explore: the curve is y, a; expected an input and a result"),
        (product, "", {**EXPLORED, "across": "x"}, "explore: across is x; expected a menu"),
        (len, "", EXPLORED, "explore: found a builtin_function_or_method; expected a function of the lecture"),
    ],
)
def test_a_figure_that_can_not_answer_is_refused(function: Any, says: str, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)) as refused:
        explore(function, says, **options)
    assert "\n" not in str(refused.value)
