from __future__ import annotations

import re
from xml.etree.ElementTree import fromstring

import pytest

from trace_tools.rendering.figures import describe, figure
from trace_tools.rendering.svg import clean, standalone
from trace_tools.schema import Narrative, Scalar, Series

HOSTILE = [
    "<script>alert(1)</script>",
    '<rect onload="alert(1)" onclick="alert(1)"/>',
    '<a href="javascript:alert(1)"><text>x</text></a>',
    '<use href="https://example.org/a.svg#x"/>',
    '<use xlink:href="data:image/svg+xml,x"/>',
    '<image href="https://example.org/a.png"/>',
    '<image href="data:image/svg+xml;base64,AAAA"/>',
    '<image href="javascript:alert(1)"/>',
    "<style>rect{fill:url(https://example.org)}</style>",
    '<rect style="fill:url(https://example.org/#a)"/>',
    '<rect style="background:url(x);-moz-binding:url(x)"/>',
    '<rect fill="url(&quot;//example.org&quot;)"/>',
    '<rect fill="\\75rl(//example.org)"/>',
    '<rect fill="u/**/rl(//example.org)"/>',
    '<rect filter="url(//example.org#f)" mask="url(//example.org#m)"/>',
    '<foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="alert(1)"/></foreignObject>',
    '<set attributeName="href" to="javascript:alert(1)"/><animate attributeName="x" values="1"/>',
    "<text>&lt;script&gt;alert(1)&lt;/script&gt;</text>",
    '<text style="font: 10px url(x)">a</text>',
    '<rect id="&quot;&gt;&lt;script&gt;"/>',
    "<metadata><x/></metadata><iframe/><object/><video/>",
    "<?php x ?><!-- <script> -->",
]


def within(inner: str) -> str:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {names} width="100pt" height="50pt" viewBox="0 0 100 50">{inner}</svg>'


@pytest.mark.parametrize("inner", HOSTILE)
def test_nothing_in_a_figure_runs_or_loads(inner: str) -> None:
    cleaned = clean(within(inner), "fig1", 'A "title" </title><script>', "x")
    assert cleaned is not None
    for element in fromstring(cleaned).iter():
        assert element.tag in {"svg", "title", "desc", "rect", "text", "use", "image", "g", "defs", "path"}
        for name, value in element.attrib.items():
            assert not name.startswith("on") and name not in ("style", "filter", "mask")
            assert "example.org" not in value and "javascript" not in value and "data:" not in value
    assert "<script" not in cleaned


@pytest.mark.parametrize(
    "source",
    [
        "",
        "not xml",
        "<html/>",
        "<svg",
        '<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><svg>&a;</svg>',
        "<svg>" + "x" * 3_000_000 + "</svg>",
    ],
)
def test_what_is_no_plain_svg_is_refused(source: str) -> None:
    assert clean(source, "fig1", "", "") is None


def test_styles_become_attributes_and_ids_get_a_prefix() -> None:
    inner = '<defs><clipPath id="c"><rect/></clipPath></defs>'
    inner += '<g style="fill: #000000; stroke: #2f6fdd; clip-path: url(#c)"><rect/></g>'
    cleaned = clean(within(inner), "fig7", "t", "d") or ""
    assert 'id="fig7-c"' in cleaned and 'clip-path="url(#fig7-c)"' in cleaned
    assert 'fill="currentColor"' in cleaned and "var(--s1, #2f6fdd)" in cleaned
    assert 'width="133" height="67"' in cleaned  # points are 4/3 of a pixel


def test_a_lectures_own_matplotlib_figure_survives() -> None:
    from matplotlib.figure import Figure

    from trace_tools import narrative

    drawn = Figure()
    axes = drawn.subplots()
    axes.plot([1, 2], [3, 4], label="line")
    axes.imshow([[1, 2], [3, 4]])
    axes.legend()
    heard: list[Narrative] = []
    with narrative.listening(heard.append):
        narrative.plot(drawn, title="Mine")
    cleaned = figure(heard[0], "fig1") or ""
    assert "<title" in cleaned and "Mine" in cleaned and "data:image/png" in cleaned
    assert "style=" not in cleaned and "<style" not in cleaned
    assert len(re.findall("<path", cleaned)) > 10


def plotted(style: str, x: list[Scalar], y: list[Scalar], **more: str) -> Narrative:
    return Narrative("plot", title="T", x_label="n", y_label="t", series=[Series("a", x, y, style)], **more)


@pytest.mark.parametrize("style", ["line", "points", "bars", "steps"])
def test_plots_of_every_style_are_drawn_the_same_twice(style: str) -> None:
    one = plotted(style, [1, 2, 4], [3.0, 1.0, 2.0], x_scale="log", y_scale="log")
    drawn = figure(one, "fig1")
    assert drawn is not None and drawn == figure(one, "fig1")
    fromstring(standalone(drawn))


def test_odd_numbers_are_gaps_and_odd_names_are_text() -> None:
    nan = float("nan")
    assert figure(plotted("line", [1, 2], [nan, None]), "f") is None
    assert figure(Narrative("plot"), "f") is None
    drawn = figure(plotted("line", [1, 2, 3, 4], [10**400, 1, nan, 2]), "f")
    assert drawn is not None
    named = Narrative("plot", title="$x$", series=[Series("<script>$\\frac{", ["a", "$b_"], [1, 2], "bars")] * 2)
    drawn = figure(named, "f") or ""
    assert "&lt;script&gt;$\\frac{" in drawn and "$b_" in drawn


def test_a_figure_is_described_in_words() -> None:
    words = describe(plotted("line", [1, 2, 3], [3.0, None, 1.0]))
    assert words == "across: n, up: t. a: 3 values from 1.0 to 3.0."
