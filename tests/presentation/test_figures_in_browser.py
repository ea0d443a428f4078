"""All figures of the lecture's pages in a browser: text overlaps neither data nor other text, and stays inside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, resize, show

pytestmark = pytest.mark.slow

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
let texts = 0;
document.querySelectorAll("main svg:not(.explore *)").forEach((svg) => {
  const frame = svg.getBoundingClientRect(), report = (...facts) => faults.push([svg.ariaLabel, ...facts]);
  const shown = [...svg.querySelectorAll("text")]
    .filter((text) => text.getBoundingClientRect().width && !text.querySelector("tspan"));  // their box is too high
  const words = shown.map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect(), size = scaled(text);
    const spare = Math.max(0, (bottom - top - 0.95 * size) / 2);
    const halo = text.hasAttribute("paint-order");
    return { text: text.textContent.trim(), halo, size, left, right, top: top + spare, bottom: bottom - spare };
  });
  texts += words.length;
  words.forEach((one, index) => {
    if (one.size * svg.width.baseVal.value < 10.95 * frame.width) report("small", one.text, one.size);
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
return [faults, texts];
"""

# Opens everything that is folded, and gives the grid of figures a colour of its own.
OPEN = """
document.querySelectorAll("main details").forEach((box) => { box.open = true; });
document.documentElement.style.setProperty("--soft", "rgb(1, 2, 3)");
"""

# Returns the faults of figures of measurements: text that is small or leaves its column, bars of different scales.
BARS = r"""
const faults = [];
for (const bars of document.querySelectorAll("main .bars")) {
  const frame = bars.getBoundingClientRect(), rows = [...bars.children];
  if (frame.right > document.documentElement.clientWidth || !frame.width) faults.push("outside the window");
  for (const row of rows) {
    const [label, svg, number] = row.children, words = document.createRange();
    words.selectNodeContents(label);
    const one = words.getBoundingClientRect(), other = number.getBoundingClientRect();
    const over = one.right > other.left + 1 && one.bottom > other.top && one.top < other.bottom;
    if (over || other.right > frame.right + 1 || one.right > frame.right + 1) faults.push(["over", row.textContent]);
    for (const part of row.querySelectorAll("span, a, small, code, b"))
      if (parseFloat(getComputedStyle(part).fontSize) < 11) faults.push(["small", part.textContent]);
    const room = svg.getBoundingClientRect(), bar = svg.firstChild.getBoundingClientRect();
    const first = rows[0].children[1].getBoundingClientRect();
    if (room.left !== first.left || Math.abs(room.width - first.width) > 0.1) faults.push(["scale", row.textContent]);
    if (!(bar.width > 0 && bar.right < room.right + 0.1)) faults.push(["bar", row.textContent]);
  }
}
return [faults, document.querySelectorAll("main .bars li").length];
"""


def test_text_in_figures_is_large_enough_and_overlaps_nothing(browser: Any, lecture_site: Path) -> None:
    machine = min(lecture_site.glob("*/trace.yaml")).parent
    counts: Counter[str] = Counter()
    for page in sorted(machine.glob("*.html")):
        show(browser, page)
        browser.execute_script(OPEN)
        for size in (WIDE, NARROW):
            resize(browser, size)
            for script in (SWEEP, BARS):
                faults, count = browser.execute_script(script)
                assert faults == [], (page.name, size)
                counts[script] += count
    assert min(counts.values()) > 300
