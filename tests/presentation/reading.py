"""Read a figure as a browser would: its elements and their positions, independently of the code that drew them."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring

from trace_tools.presentation.charts.svg import clean


def read(figure: str | None) -> Element:
    """Parse a figure, and check that the cleaner of foreign drawings would remove nothing but its links."""
    assert figure is not None
    root = fromstring(figure)
    plain = re.sub(r"<a [^>]*>|<g>", "<g>", figure).replace("</a>", "</g>")
    cleaned = clean(plain.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '), "x", "d")
    assert cleaned is not None
    for tag in ("rect", "path", "circle", "line", "text"):
        drawn = [e for e in root.iter(tag) if e.attrib or (e.text or "").strip()]
        assert len(list(fromstring(cleaned).iter(tag))) == len(drawn), tag
    assert "style" not in figure and "onload" not in figure
    return root


def words(root: Element) -> list[str]:
    """Return all texts of a figure."""
    return [text.text or "" for text in root.iter("text")]


def places(path: str) -> list[tuple[float, float]]:
    """Return the corners of a path that consists of M, L, H, V, h and v."""
    corners: list[tuple[float, float]] = []
    for letter, numbers in re.findall(r"([MLHVhv])([-\d. ]+)", path):
        values = [float(n) for n in numbers.split()]
        x, y = corners[-1] if corners else (0.0, 0.0)
        move = {"H": (values[0], y), "V": (x, values[0]), "h": (x + values[0], y), "v": (x, y + values[0])}
        corners.append(move.get(letter) or (values[0], values[1]))
    return corners


def circles(root: Element) -> list[tuple[float, float]]:
    """Return the centres of all circles of a figure."""
    return [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.iter("circle")]
