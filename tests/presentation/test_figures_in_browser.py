"""All figures of the lecture's pages in a browser: text overlaps neither data nor other text, and stays inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.committed import committed_traces
from tests.pages.browsing import ask, show
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document, Narration, Section, rows_shown, visible
from trace_tools.pages.margin import margin_notes
from trace_tools.pages.section_charts import index_figures, section_figures, section_points, views_of
from trace_tools.presentation.charts import plot
from trace_tools.presentation.charts.distributions import histogram, samples
from trace_tools.presentation.charts.drawing import width_of
from trace_tools.presentation.charts.roofline import roof_of, roofline
from trace_tools.presentation.charts.storage import storage
from trace_tools.trace.file import load

pytestmark = pytest.mark.slow

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"  # the same as on the pages

# Returns the faults of all figures: text that is too small, leaves its figure, or overlaps other text, a line of data
# or part of a mark. The box of a text is as high as capitals and descenders. Marks in the grid's colour are no data.
SWEEP = r"""
const meet = (a, b, by = 0.5) =>
  a.left < b.right - by && b.left < a.right - by && a.top < b.bottom - by && b.top < a.bottom - by;
const holds = (a, b) =>
  a.left < b.left + 1 && a.right > b.right - 1 && a.top < b.top + 2 && a.bottom > b.bottom - 2;
const scaled = (text) => {
  const { a, b } = text.getScreenCTM();
  return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
};
const faults = [];
document.querySelectorAll("svg").forEach((svg) => {
  const frame = svg.getBoundingClientRect(), report = (...facts) => faults.push([svg.parentElement.title, ...facts]);
  const shown = [...svg.querySelectorAll("text")].filter((text) => text.getBoundingClientRect().width);
  const words = shown.map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect(), size = scaled(text);
    const spare = Math.max(0, (bottom - top - 0.95 * size) / 2);
    const halo = text.hasAttribute("paint-order");
    return { text: text.textContent.trim(), halo, size, left, right, top: top + spare, bottom: bottom - spare };
  });
  words.forEach((one, index) => {
    if (one.size < 10.95) report("small", one.text, one.size);
    if (!(one.left > frame.left - 0.5 && one.right < frame.right + 0.5)) report("outside", one.text);
    if (!(one.top > frame.top && one.bottom < frame.bottom)) report("outside", one.text);
    words.slice(index + 1).filter((other) => meet(one, other)).forEach((other) => report("over", one.text, other.text));
  });
  svg.querySelectorAll("path, line, circle, rect").forEach((mark) => {
    const { fill, stroke } = getComputedStyle(mark), box = mark.getBoundingClientRect();
    if (mark.closest("defs, clipPath") || stroke === "rgb(1, 2, 3)") return;
    const near = words.filter((one) => !one.halo && meet(one, box, -1));
    if (fill !== "none" && ["circle", "rect"].includes(mark.tagName)) {
      near.filter((one) => meet(one, box) && !holds(box, one)).forEach((one) => report("over a mark", one.text));
    } else if (stroke !== "none" && near.length) {
      const matrix = mark.getScreenCTM();
      for (let at = 0; at <= mark.getTotalLength(); at += 1) {
        const { x, y } = mark.getPointAtLength(at).matrixTransform(matrix);
        const hit = near.findIndex((one) => x > one.left && x < one.right && y > one.top && y < one.bottom);
        if (hit >= 0) report("over a line", near.splice(hit, 1)[0].text);
      }
    }
  });
});
return faults;
"""


def figures(document: Document) -> Iterator[tuple[str, str | None]]:
    """Draw the figures of a lecture's pages, and rooflines with a second machine that is half as fast."""
    for section in document.sections:
        points = [*section_points(section)]
        slower = [replace(p, flops_per_second=p.flops_per_second / 2) for p in points]
        roofs = [roof_of(*it) for it in (("here", document.machine, points), ("slower", document.machine, slower))]
        yield f"{section.slug} roofline, two machines", roofline(roofs, "roofline")  # as in reports
        yield from of_section(section)
        for drawn in section_figures(section, document):
            yield f"{section.slug} {drawn.name}", drawn.svg
    for drawn in index_figures(document):
        yield f"index {drawn.name}", drawn.svg


def of_section(section: Section) -> Iterator[tuple[str, str | None]]:
    """Draw a section's plots, and the figures that are folded next to its lines."""
    for block in visible(section.blocks):
        if isinstance(block, Narration) and block.narrative.kind == "plot":
            yield f"{section.slug} {block.number}", plot.figure(block.narrative, f"fig{block.number}")
            if not block.narrative.svg:
                narrow = plot.figure(block.narrative, f"fig{block.number}n", plot.NARROW)
                yield f"{section.slug} {block.number}, narrow", narrow
    views = views_of(section.blocks)
    for row in rows_shown(section.blocks):
        for note in margin_notes(row):
            name = f"{section.slug} {note.name} {row.anchor}"
            tensor = note.value.tensor if note.value is not None else None
            if note.timing is not None:
                yield name, samples(note.timing)
            if tensor is not None and tensor.storage is not None:
                yield name, storage(note.name, tensor, views.get(tensor.storage, ()))
            if tensor is not None and tensor.statistics is not None:
                yield name, histogram(tensor.statistics)


@pytest.fixture(scope="module")
def drawn(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Open all figures on one page, on which the grid has its own colour."""
    style = f":root {{ --soft: rgb(1, 2, 3) }} svg {{ display: block; font-family: {SANS} }}"
    drawings = [(name, svg) for name, svg in figures(make_document(load(committed_traces()[0]).trace)) if svg]
    assert len(drawings) > 100
    page = tmp_path_factory.mktemp("figures") / "all.html"
    boxes = "".join(f'<div title="{name.replace(chr(34), "")}">{svg}</div>' for name, svg in drawings)
    page.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{boxes}", encoding="utf-8")
    show(browser, page)
    return browser


def test_text_in_figures_is_large_enough_and_overlaps_nothing(drawn: Any) -> None:
    assert drawn.execute_script(SWEEP) == []


def test_text_is_no_wider_than_estimated(drawn: Any) -> None:
    script = """[...document.querySelectorAll("text:not([transform], [transform] text)")].map(
        (text) => [text.textContent, parseFloat(getComputedStyle(text).fontSize), text.getComputedTextLength()])"""
    for words, size, width in ask(drawn, script):
        assert width <= 1.06 * width_of(words, size) + 1, words
