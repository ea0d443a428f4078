"""A drawing in fewer characters: it must look the same, which a browser judges."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from tests.rendering.browsing import show
from trace_tools.rendering import svg
from trace_tools.rendering.svg import clean
from trace_tools.rendering.svg_slim import embedded

STYLE = """<style>
body { margin: 0; background: #fff; color: #111; }
svg { --s1: #2f6fdd; --s2: #d9480f; --soft: #7a828e; --paper: #fff; }
</style>"""


def drawn() -> str:
    """A figure as matplotlib writes it: bars, lines, marks, a legend, turned text, clipping."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("svg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "a", "svg.fonttype": "none"}):
        figure = Figure(figsize=(5, 3))
        axes, bits = figure.subplots(1, 2)
        axes.plot([1, 2, 3], [3.3333333, 1, 2], "o-", color=svg.PALETTE[0], label="loss")
        axes.plot([1, 2, 9], [1, 2, 30], "--", color=svg.PALETTE[1])
        axes.set_xlim(1, 3)
        axes.set_ylabel("nat")
        axes.legend()
        for place in range(12):
            bits.bar(place, 1, color=svg.PALETTE[place % 2], edgecolor=svg.SOFT, alpha=0.4)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


@pytest.fixture(scope="module")
def figures() -> dict[str, str]:
    """The same figure as it was cleaned, slimmed, and as a page carries it."""
    patch = pytest.MonkeyPatch()
    source = drawn()
    patch.setattr(svg, "slim", lambda root: None)
    plain = clean(source, "fig1", "A title", "What it shows") or ""
    patch.undo()
    slim = clean(source, "fig1", "A title", "What it shows") or ""
    return {"plain": plain, "slim": slim, "embedded": embedded(slim)}


def pixels(browser: Any, folder: Path, figure: str) -> Any:
    image = pytest.importorskip("PIL.Image")
    (folder / "figure.html").write_text(f"<!doctype html>{STYLE}{figure}", encoding="utf-8")
    show(browser, folder / "figure.html", (700, 450))
    return image.open(io.BytesIO(base64.b64decode(browser.get_screenshot_as_base64()))).convert("L")


def test_it_looks_the_same(browser: Any, tmp_path: Path, figures: dict[str, str]) -> None:
    chops = pytest.importorskip("PIL.ImageChops")
    before = pixels(browser, tmp_path, figures["plain"])
    assert before.getextrema()[0] < 100  # something was drawn
    regrouped = pixels(browser, tmp_path, embedded(figures["plain"]))
    assert chops.difference(before, regrouped).getextrema()[1] == 0
    rounded = pixels(browser, tmp_path, figures["embedded"])
    assert chops.difference(before, rounded).getextrema()[1] < 64  # a hundredth of a pixel, at an edge


def test_it_is_much_shorter_and_says_the_same(figures: dict[str, str]) -> None:
    sizes = {name: len(text) for name, text in figures.items()}
    assert sizes["slim"] < 0.75 * sizes["plain"] and sizes["embedded"] < 0.55 * sizes["plain"]
    words = {name: sorted(filter(str.strip, fromstring(text).itertext())) for name, text in figures.items()}
    assert words["plain"] == words["slim"] == words["embedded"]


def test_what_is_referred_to_keeps_its_name(figures: dict[str, str]) -> None:
    import re

    for text in figures.values():
        for name in re.findall(r'(?:url\(|href=")#([^")]+)', text):
            assert f'id="{name}"' in text


def test_what_is_no_drawing_is_left_alone() -> None:
    assert embedded("<svg><p></svg>") == "<svg><p></svg>"
    assert embedded('<svg><g opacity="0.5"><rect/><rect/><rect/></g></svg>').count("<g") == 1
