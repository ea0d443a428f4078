from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from tests.cases_in_one import each
from tests.pages.browsing import show
from trace_tools.lecture import vocabulary
from trace_tools.presentation.charts import svg
from trace_tools.presentation.charts.plot import figure
from trace_tools.presentation.charts.svg import clean
from trace_tools.trace.model import Narrative

HOSTILE = [
    "<script>alert(1)</script>",
    '<rect onload="alert(1)" onclick="alert(1)"/>',
    '<a href="javascript:alert(1)"><text>x</text></a>',
    '<use href="https://example.org/a.svg#x"/>',
    '<use xlink:href="data:image/svg+xml,x"/>',
    '<image href="https://example.org/a.png"/>',
    '<image href="data:image/svg+xml;base64,AAAA"/>',
    "<style>rect{fill:url(https://example.org)}</style>",
    '<rect style="fill:url(https://example.org/#a)"/>',
    '<rect fill="url(&quot;//example.org&quot;)"/>',
    '<rect fill="\\75rl(//example.org)"/>',
    '<rect fill="u/**/rl(//example.org)"/>',
    '<rect filter="url(//example.org#f)" mask="url(//example.org#m)"/>',
    '<foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="alert(1)"/></foreignObject>',
    '<set attributeName="href" to="javascript:alert(1)"/><animate attributeName="x" values="1"/>',
    "<text>&lt;script&gt;alert(1)&lt;/script&gt;</text>",
    '<rect id="&quot;&gt;&lt;script&gt;"/>',
    "<metadata><x/></metadata><iframe/><object/><video/>",
    "<?php x ?><!-- <script> -->",
]


def within(inner: str) -> str:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {names} width="100pt" height="50pt" viewBox="0 0 100 50">{inner}</svg>'


@each("inner", HOSTILE)
def test_cleaned_figures_run_and_load_nothing(inner: str) -> None:
    cleaned = clean(within(inner), "fig1", 'A "title" </title><script>')
    assert cleaned is not None and "<script" not in cleaned
    for element in fromstring(cleaned).iter():
        assert element.tag in {"svg", "title", "desc", "rect", "text", "use", "image", "g", "defs", "path"}
        for name, value in element.attrib.items():
            assert not name.startswith("on") and name not in ("style", "filter", "mask")
            assert "example.org" not in value and "javascript" not in value and "data:" not in value


@each(
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
def test_malformed_unsafe_or_huge_svg_is_refused(source: str) -> None:
    assert clean(source, "fig1", "") is None


def test_styles_become_attributes_and_ids_get_a_prefix() -> None:
    inner = '<defs><clipPath id="c"><rect/></clipPath></defs>'
    inner += '<g style="fill: #000000; stroke: #2f6fdd; clip-path: url(#c)"><rect/></g>'
    cleaned = clean(within(inner), "fig7", "d") or ""
    assert 'id="fig7-c"' in cleaned and 'clip-path="url(#fig7-c)"' in cleaned
    assert 'fill="currentColor"' in cleaned and "var(--s1, #2f6fdd)" in cleaned
    assert 'width="133" height="67"' in cleaned  # points are 4/3 of a pixel


# --- figures of a drawing library: nothing that is seen is lost ---


def matplotlib_figure() -> Any:
    """Return a figure with bars, markers, a legend, turned text and clipping."""
    matplotlib = pytest.importorskip("matplotlib.figure")
    drawing = matplotlib.Figure(figsize=(5, 3))
    drawing.patch.set_alpha(0)
    axes, bits = drawing.subplots(1, 2)
    axes.plot([1, 2, 3], [3.3333333, 1, 2], "o-", color=svg.PALETTE[0], label="loss")
    axes.plot([1, 2, 9], [1, 2, 30], "--", color=svg.PALETTE[1])
    axes.set_xlim(1, 3)
    axes.set_ylabel("nat")
    axes.legend()
    for n in range(12):
        bits.bar(n, 1, color=svg.PALETTE[n % 2], edgecolor=svg.SOFT, alpha=0.4)
    return drawing


@pytest.fixture(scope="module")
def figures() -> tuple[str, str]:
    """Return a figure as matplotlib writes it, and cleaned."""
    matplotlib = pytest.importorskip("matplotlib")
    written = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "a", "svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        matplotlib_figure().savefig(written, format="svg", metadata={"Date": None})
    source = written.getvalue()
    return source[source.index("<svg") :], clean(source, "fig1", "What it shows") or ""


def test_cleaned_figures_are_shorter_and_keep_text_and_references(figures: tuple[str, str]) -> None:
    source, cleaned = figures
    assert len(cleaned) < 0.65 * len(source) and "style=" not in cleaned and "<style" not in cleaned
    words = [[t.text for t in fromstring(text).iter() if t.tag.endswith("text")] for text in figures]
    assert words[0] == words[1] and "loss" in words[0]
    ids = re.findall(r'(?:url\(|href=")#([^")]+)', cleaned)
    assert ids and all(f'id="{identity}"' in cleaned for identity in ids)
    narrative: list[Narrative] = []
    with_image = matplotlib_figure()
    with_image.axes[0].imshow([[1, 2], [3, 4]])
    with vocabulary.listening(narrative.append):
        vocabulary.plot(with_image, title="Mine")
    recorded = figure(narrative[0], "fig1") or ""
    assert "Mine" in recorded and "data:image/png" in recorded and len(re.findall("<path", recorded)) > 10


@pytest.mark.slow
def test_cleaning_keeps_the_picture(browser: Any, tmp_path: Path, figures: tuple[str, str]) -> None:
    image, chops = (pytest.importorskip(f"PIL.{name}") for name in ("Image", "ImageChops"))
    colours = ";".join(f"--s{n}:{colour}" for n, colour in enumerate(svg.PALETTE, start=1))
    style = f"body{{margin:0;background:#fff;color:#000;font-family:'DejaVu Sans'}} svg{{{colours};--paper:#fff;"
    pictures = []
    for text in figures:
        page = f"<!doctype html><style>{style}--soft:{svg.SOFT}}}</style>{text}"
        (tmp_path / "figure.html").write_text(page, encoding="utf-8")
        show(browser, tmp_path / "figure.html", (700, 450))
        pictures.append(image.open(io.BytesIO(base64.b64decode(browser.get_screenshot_as_base64()))).convert("L"))
    assert pictures[0].getextrema()[0] < 100  # something was drawn
    assert chops.difference(*pictures).getextrema()[1] < 64  # edges may move by a hundredth of a pixel
