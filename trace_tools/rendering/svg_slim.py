"""A cleaned SVG → the same drawing in a third of the characters.

    slim(root)             in place: coordinates to a hundredth of a pixel, no names that nothing refers to,
                           no groups without attributes, no shapes that can't be seen
    embedded("<svg …>")    a figure as a page carries it, whose stylesheet has the colours

A drawing library writes for every case; a page carries all its figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

_DECIMALS = re.compile(r"-?\d*\.\d+(?:e-?\d+)?")
_GEOMETRY = (
    "d", "points", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "width", "height", "transform",
)  # fmt: skip
_SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon")
# What neighbours can have in common: what is inherited, and clipping, which is the same for all in one place.
_COMMON = (
    "clip-path", "text-anchor", "stroke", "stroke-width", "stroke-linejoin", "stroke-linecap", "stroke-opacity",
    "font-size", "fill", "fill-opacity",
)  # fmt: skip
_REFERENCE = re.compile(r"#([\w.:-]+)")


def slim(root: Element) -> None:
    """Take out of a drawing what changes nothing that is seen."""
    for element in root.iter():
        _shorten(element)
    _prune(root)
    named = _referred(root)
    for element in root.iter():
        if element.get("id") not in named:
            element.attrib.pop("id", None)
    _unwrap(root)


@lru_cache(maxsize=4096)
def embedded(figure: str) -> str:
    """Return a figure for a page that defines the palette's colours: with what neighbours share said once."""
    try:
        root = fromstring(figure)
    except ParseError:
        return figure
    _prune(root)
    _unwrap(root)
    _gather(root)
    text = tostring(root, encoding="unicode").replace(" />", "/>")
    return re.sub(r"var\((--[a-z0-9]+), #[0-9a-f]{6}\)", r"var(\1)", text)


def _shorten(element: Element) -> None:
    for name in _GEOMETRY:
        value = element.get(name)
        if value is not None:
            short = _DECIMALS.sub(lambda found: f"{round(float(found[0]), 2) + 0:g}", value)
            element.set(name, re.sub(r"\s+", " ", short).strip())
    if re.match(r"rotate\(-?0[ )]", element.get("transform", "")):
        del element.attrib["transform"]
    if element.tag in _SHAPES and element.get("d") is not None:
        element.set("d", re.sub(r" ?([A-Za-z]) ?", r"\1", element.attrib["d"]))


def _prune(root: Element) -> None:
    """Remove what can't be seen, from the leaves upwards."""
    for child in list(root):
        _prune(child)
        hidden = child.tag in _SHAPES and len(child) == 0 and (child.get("opacity") == "0" or _without_paint(child))
        if hidden or (child.tag in ("g", "defs") and len(child) == 0):
            root.remove(child)


def _without_paint(shape: Element) -> bool:
    return shape.get("fill") == "none" and shape.get("stroke") == "none"


def _referred(root: Element) -> set[str]:
    """Return the names that an attribute points to, and those of the labels."""
    names: set[str] = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "aria-labelledby":
                names.update(value.split())
            elif "#" in value and name != "id":
                names.update(_REFERENCE.findall(value))
    return names


def _unwrap(root: Element) -> None:
    """Put the children of groups that say nothing in their group's place."""
    for child in root:
        _unwrap(child)
    inner = (list(child) if child.tag == "g" and not child.attrib else [child] for child in root)
    children = list(chain.from_iterable(inner))
    if len(children) != len(root) or any(a is not b for a, b in zip(children, root, strict=True)):
        root[:] = children


def _gather(root: Element, names: Sequence[str] = _COMMON) -> None:
    """Say once what neighbours have in common, on a group around them."""
    for child in root if names == _COMMON else ():
        _gather(child)
    if root.tag not in ("svg", "g") or not names:
        return
    name, *rest = names
    children: list[Element] = []
    for value, run in groupby(list(root), key=lambda child: _shared(child, name)):
        same = list(run)
        if value is None or len(same) < 3:
            children += same
            continue
        for child in same:
            del child.attrib[name]
        group = Element("g", {name: value})
        group.extend(same)
        _gather(group, rest)
        if len(group) == 1 and group[0].tag == "g":  # one group is enough
            group[0].attrib = {name: value} | group[0].attrib
            group = group[0]
        children.append(group)
    root[:] = children
    _gather(root, rest)


def _shared(child: Element, name: str) -> str | None:
    """Return an attribute that could stand on a group; None where the element is moved or is no shape."""
    if child.tag not in (*_SHAPES, "text", "use") or "transform" in child.attrib:
        return None
    return child.get(name)
