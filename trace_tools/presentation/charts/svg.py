"""Make any SVG safe for a page: it cannot run, load or style anything outside itself.

Only elements and attributes of an allowlist are kept. `style` attributes become presentation attributes (the pages'
content policy forbids them), ids get a prefix, and black, white and the palette's colours become the page's variables,
so that figures follow dark mode.

    clean('<svg …><rect style="fill: #000000" onclick="x()"/></svg>', "fig1", "What it shows")
    standalone(figure)      the same with its own colours, as a file
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from xml.etree.ElementTree import Element, ParseError, SubElement, fromstring, tostring

from trace_tools.util import formats

LARGEST = 2_000_000  # characters
PALETTE = ("#2f6fdd", "#d9480f", "#1a8f58", "#9a5bd0", "#b8860b", "#0b8fa3")
DARK = ("#82aaff", "#ff9a66", "#63d49a", "#cfa2ff", "#e6bd4a", "#63d2e6")
SOFT, SOFT_DARK = "#7a828e", "#9aa2ad"

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"


_ELEMENTS = re.compile(
    "svg|g|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|defs|clipPath|use|title|desc|linearGradient"
    "|radialGradient|stop|pattern|marker|symbol|image"
)
_ATTRIBUTES = re.compile(
    "id|x|y|x1|y1|x2|y2|cx|cy|r|rx|ry|fx|fy|dx|dy|d|points|width|height|viewBox|transform|offset|preserveAspectRatio"
    "|gradientUnits|gradientTransform|patternUnits|patternTransform|markerWidth|markerHeight|refX|refY|orient"
    "|clipPathUnits|fill|fill-opacity|fill-rule|stroke|stroke-width|stroke-opacity|stroke-dasharray|stroke-dashoffset"
    "|stroke-linecap|stroke-linejoin|stroke-miterlimit|opacity|color|font-size|font-weight|font-style|text-anchor"
    "|dominant-baseline|clip-path|clip-rule|marker-start|marker-mid|marker-end|stop-color|stop-opacity|letter-spacing"
    "|visibility|display|overflow"
)
_COLOURS = {"#000000": "currentColor", "black": "currentColor", "#ffffff": "var(--paper, #ffffff)"}
_COLOURS |= {colour: f"var(--s{n}, {colour})" for n, colour in enumerate(PALETTE, start=1)}
_COLOURS[SOFT] = f"var(--soft, {SOFT})"
_REFERENCE = re.compile(r"url\(\s*#([\w.:-]+)\s*\)")
_LONG = re.compile(r"-?\d+\.\d{3,}+(?!e)")  # numbers with more digits than a screen shows


@lru_cache(maxsize=64)  # Markdown shows the same figure
def clean(source: str, prefix: str, description: str) -> str | None:
    """Return `source` as safe inline SVG with a description; None if it is not readable SVG."""
    if len(source) > LARGEST:
        return None
    source = re.sub(r"<!DOCTYPE[^>\[]*>", "", source, count=1)
    if re.search(r"<!(?!--|\[CDATA\[)", source):
        return None  # a document type with its own entities
    try:
        root = fromstring(source)
    except ParseError:
        return None
    if root.tag not in (f"{_SVG}svg", "svg"):
        return None
    named = set(re.findall(r"#([\w.:-]+)", source))  # includes colours, which are not ids
    width, height = _pixels(root.get("width", "")), _pixels(root.get("height", ""))
    out = Element("svg", {"fill": "currentColor", "stroke-linejoin": "round"} | dict(_attributes(root, prefix, named)))
    for name, value in (("width", width), ("height", height)):
        out.attrib.pop(name, None)
        if value is not None:
            out.set(name, f"{value:.0f}")
    if "viewBox" not in out.attrib and width and height:
        out.set("viewBox", f"0 0 {width:g} {height:g}")
    out.attrib |= {"role": "img", "aria-label": formats.shorten(description, 1_000)}
    _copy((child for child in root if child.tag.removeprefix(_SVG) not in ("title", "desc")), out, prefix, named)
    return tostring(out, encoding="unicode").replace(" />", "/>")


def standalone(figure: str) -> str:
    """Return a cleaned figure as a file: with its namespace, and with light and dark colours."""
    light = "".join(f"--s{n}:{colour};" for n, colour in enumerate(PALETTE, start=1))
    dark = "".join(f"--s{n}:{colour};" for n, colour in enumerate(DARK, start=1))
    style = (
        f"svg{{color:#1d2129;--paper:none;--soft:{SOFT};{light}font-family:system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{color:#e4e6eb;--soft:{SOFT_DARK};{dark}}}}}"
    )
    head, _, content = figure.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{content}\n'


def _copy(children: Iterable[Element], out: Element, prefix: str, named: Set[str]) -> None:
    """Copy the allowed children of an element recursively, without groups that have no effect."""
    for old in children:
        tag = old.tag.removeprefix(_SVG)
        if not _ELEMENTS.fullmatch(tag):
            continue
        attributes = dict(_attributes(old, prefix, named))
        new = out if tag == "g" and not attributes else SubElement(out, tag, attributes)
        if new is not out:
            new.text = old.text if old.text and tag in ("text", "tspan", "title", "desc") else None
            new.tail = old.tail if old.tail and out.tag in ("text", "tspan") else None
        _copy(old, new, prefix, named)


def _attributes(element: Element, prefix: str, named: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield the allowed attributes and styles of an element; its id only if something refers to it."""
    for name, value in [*element.attrib.items(), *_styled(element.get("style", ""))]:
        if name in (_XLINK, "href"):
            if value.startswith("#"):
                yield "href", f"#{prefix}-{value[1:]}"
            elif element.tag.endswith("image") and re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]*$", value):
                yield "href", value
        elif name == "id":
            if value in named:
                yield name, f"{prefix}-{value}"
        elif _ATTRIBUTES.fullmatch(name) and (safe := _value(value, prefix)) is not None:
            yield name, _LONG.sub(lambda number: f"{float(number[0]):.2f}", " ".join(safe.split()))


def _value(value: str, prefix: str) -> str | None:
    """Return an attribute's value with the page's colours and prefixed references; None if it could load something."""
    value = _COLOURS.get(value.strip().lower(), value.strip())
    value = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
    others = _REFERENCE.sub("", value)
    return None if re.search(r"url|image|expression|[\\<@;]|/\*|//", others, re.IGNORECASE) else value


def _styled(style: str) -> Iterator[tuple[str, str]]:
    """Read the declarations of a `style` attribute as attributes; of the `font` shorthand, its size."""
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


def _pixels(length: str) -> float | None:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(pt|px|)\s*", length)
    return float(match[1]) * (4 / 3 if match[2] == "pt" else 1) if match else None
