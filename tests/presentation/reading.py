"""Read a figure as a browser would: its elements and their positions, independently of the code that drew them."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element


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
