"""Any SVG → SVG that can stand in a page: nothing in it runs, loads or styles anything outside itself.

Elements and attributes are those of a list; what is not on it is left out. `style` attributes become
presentation attributes (the pages' security policy forbids them), ids get a prefix so that several figures can
share a page, and black, white and the palette's colours become the page's own, so that figures follow
dark mode.

    clean('<svg …><rect style="fill: #000000" onclick="x()"/></svg>', "fig1", "A title", "What it shows")
    standalone(figure)      the same with its own colours, as a file
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError, SubElement, fromstring, tostring

from trace_tools import formats
from trace_tools.rendering.svg_slim import slim

LARGEST = 2_000_000  # characters
PALETTE = ("#2f6fdd", "#d9480f", "#1a8f58", "#9a5bd0", "#b8860b", "#0b8fa3")
DARK = ("#82aaff", "#ff9a66", "#63d49a", "#cfa2ff", "#e6bd4a", "#63d2e6")
SOFT, SOFT_DARK = "#7a828e", "#9aa2ad"

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTS = _words(
    "svg g path rect circle ellipse line polyline polygon text tspan defs clipPath use title desc linearGradient "
    "radialGradient stop pattern marker symbol image"
)
_ATTRIBUTES = _words(
    "id x y x1 y1 x2 y2 cx cy r rx ry fx fy dx dy d points width height viewBox transform offset preserveAspectRatio "
    "gradientUnits gradientTransform patternUnits patternTransform markerWidth markerHeight refX refY orient "
    "clipPathUnits fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-dasharray stroke-dashoffset "
    "stroke-linecap stroke-linejoin stroke-miterlimit opacity color font-size font-weight font-style text-anchor "
    "dominant-baseline clip-path clip-rule marker-start marker-mid marker-end stop-color stop-opacity letter-spacing "
    "visibility display overflow"
)
_COLOURS = {"#000000": "currentColor", "black": "currentColor", "#ffffff": "var(--paper, #ffffff)"}
_COLOURS |= {colour: f"var(--s{place}, {colour})" for place, colour in enumerate(PALETTE, start=1)}
_COLOURS[SOFT] = f"var(--soft, {SOFT})"
_REFERENCE = re.compile(r"url\(\s*#([\w.:-]+)\s*\)")


def clean(source: str, prefix: str, title: str, description: str) -> str | None:
    """Return `source` as safe inline SVG with a title and a description; None when it can't be read as SVG."""
    root = _parsed(source)
    if root is None:
        return None
    out = Element("svg")
    _copy(root, out, prefix)
    width, height = _size(root)
    for name, value in (("width", width), ("height", height)):
        out.attrib.pop(name, None)
        if value is not None:
            out.set(name, f"{value:.0f}")
    if "viewBox" not in out.attrib and width and height:
        out.set("viewBox", f"0 0 {width:g} {height:g}")
    for old in [child for child in out if child.tag in ("title", "desc")]:
        out.remove(old)
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        label = Element(tag, id=f"{prefix}-{tag}")
        label.text = formats.visible(formats.shorten(text, 1_000))
        out.insert(place, label)
    out.attrib = {"fill": "currentColor", "stroke-linejoin": "round"} | out.attrib
    out.attrib |= {"role": "img", "aria-labelledby": f"{prefix}-title {prefix}-desc"}
    slim(out)
    return tostring(out, encoding="unicode")


def standalone(figure: str) -> str:
    """Return a cleaned figure as a file: with its namespace, and colours that follow the reader's scheme."""
    light = "".join(f"--s{n}:{colour};" for n, colour in enumerate(PALETTE, start=1))
    dark = "".join(f"--s{n}:{colour};" for n, colour in enumerate(DARK, start=1))
    style = (
        f"svg{{color:#1d2129;--paper:none;--soft:{SOFT};{light}font-family:system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{color:#e4e6eb;--soft:{SOFT_DARK};{dark}}}}}"
    )
    head, _, rest = figure.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{rest}\n'


def _parsed(source: str) -> Element | None:
    if len(source) > LARGEST:
        return None
    source = re.sub(r"<!DOCTYPE[^>\[]*>", "", source, count=1)
    if "<!" in re.sub(r"<!--.*?-->|<!\[CDATA\[", "", source, flags=re.DOTALL):
        return None  # a document type with entities of its own
    try:
        root = fromstring(source)
    except ParseError:
        return None
    return root if root.tag in (f"{_SVG}svg", "svg") else None


def _copy(source: Element, out: Element, prefix: str) -> None:
    """Copy what is on the list from one element into another, and so on downwards."""
    stack = [(source, out)]
    while stack:
        old, new = stack.pop()
        for name, value in _attributes(old, prefix):
            new.set(name, value)
        new.text = formats.visible(old.text) if old.text and new.tag in ("text", "tspan", "title", "desc") else None
        for child in old:
            tag = child.tag.removeprefix(_SVG) if isinstance(child.tag, str) else ""
            if tag in _ELEMENTS:
                stack.append((child, SubElement(new, tag)))
                if child.tail and new.tag in ("text", "tspan"):
                    new[-1].tail = formats.visible(child.tail)


def _attributes(element: Element, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in [*element.attrib.items(), *_styled(element.get("style", ""))]:
        if name in (_XLINK, "href"):
            if value.startswith("#"):
                yield "href", f"#{prefix}-{value[1:]}"
            elif element.tag.endswith("image") and re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*$", value):
                yield "href", value
        elif name == "id":
            yield name, f"{prefix}-{value}"
        elif name in _ATTRIBUTES and (safe := _value(value, prefix)) is not None:
            yield name, safe


def _value(value: str, prefix: str) -> str | None:
    """Return an attribute's value with the page's colours and prefixed references; None where it could load."""
    value = _COLOURS.get(value.strip().lower(), value.strip())
    value = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
    rest = _REFERENCE.sub("", value)
    return None if re.search(r"url|image|expression|[\\<@;]|/\*|//", rest, re.IGNORECASE) else value


def _styled(style: str) -> Iterator[tuple[str, str]]:
    """Read a `style` attribute's declarations as attributes; of the `font` shorthand, its size."""
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "font":
            if size := re.search(r"(\d+(?:\.\d+)?)px", value):
                yield "font-size", size[1]
            if weight := re.search(r"\b(bold|[1-9]00)\b", value):
                yield "font-weight", weight[1]
        elif name and value:
            yield name, value.removesuffix("px") if name == "font-size" else value


def _size(root: Element) -> tuple[float | None, float | None]:
    """Return the natural width and height in pixels."""
    return _pixels(root.get("width", "")), _pixels(root.get("height", ""))


def _pixels(length: str) -> float | None:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(pt|px|)\s*", length)
    return float(found[1]) * (4 / 3 if found[2] == "pt" else 1) if found else None
