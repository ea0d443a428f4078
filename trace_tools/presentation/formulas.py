r"""Convert TeX formulas to MathML at build time, or to plain text for the search.

    mathml(r"\frac{a}{b}")        "<math><mrow><mfrac>…</mfrac></mrow></math>"
    readable(r"6 \times ND")      "6 × ND"

A formula that cannot be converted to plain MathML is shown as TeX, with a note.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from xml.etree.ElementTree import Element, tostring

# Environments that the converter knows by another name, and the arguments that may follow.
_ENVIRONMENT = re.compile(r"\\(begin|end)\{(aligned|gather)(?:ed|at)?\*?\}(?:\[[tbc]\]|\{\d\})?")
_ESCAPED = re.compile(r"\\([_%#&${}])")


# Those that lay out and nothing else: no links, styles or classes. The converter's elements are MathML's.
_ATTRIBUTES = re.compile(
    "display|displaystyle|scriptlevel|mathvariant|mathcolor|stretchy|fence|separator|form|accent|accentunder|lspace"
    "|rspace|width|height|depth|voffset|linethickness|columnalign|rowspacing|columnspacing|columnlines|rowlines"
    "|notation|minsize|maxsize|movablelimits|symmetric|largeop"
)
_CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3, "mroot": 2}


@lru_cache(maxsize=4096)
def mathml(tex: str, *, display: bool = False) -> str:
    """Return a formula as MathML, or as TeX if it cannot be converted to plain MathML."""
    from latex2mathml.converter import convert_to_element  # the import takes 40 ms, and many pages have no formula

    try:
        element = convert_to_element(_ENVIRONMENT.sub(_renamed, tex), display="block" if display else "inline")
        _check(element)
    except Exception:  # the converter raises IndexError, KeyError and its own errors
        return f'<code class="tex" title="This formula could not be set; this is its TeX.">{html.escape(tex)}</code>'
    for implied in ("xmlns", *(() if display else ("display",))):  # in HTML
        element.attrib.pop(implied, None)
    return str(tostring(element, encoding="unicode"))


def _renamed(match: re.Match[str]) -> str:
    """Return the converter's name for an environment: aligned or centred lines."""
    if match[2] == "aligned":
        return rf"\{match[1]}{{split}}"
    return r"\begin{array}{c}" if match[1] == "begin" else r"\end{array}"


def _check(element: Element) -> None:
    """Unescape an element's text; raise ValueError for anything but plain MathML."""
    for part in element.iter():
        refused = [name for name in part.attrib if name != "xmlns" and not _ATTRIBUTES.fullmatch(name)]
        if refused:
            raise ValueError(f"not plain MathML: {part.tag} {refused}")
        if len(part) != _CHILDREN.get(part.tag, len(part)):
            raise ValueError(f"a part of {part.tag} is missing")
        if part.text:
            part.text = html.unescape(part.text)
            if part.tag == "mtext":
                part.text = _ESCAPED.sub(r"\1", part.text)
            elif "\\" in part.text:
                raise ValueError(f"unknown command {part.text}")


def readable(tex: str) -> str:
    """Return a formula as a line of text, without braces and commands."""
    from latex2mathml.symbols_parser import convert_symbol

    def symbol(command: re.Match[str]) -> str:
        code = convert_symbol(command[0])
        return chr(int(code, 16)) if code else command[1]

    text = re.sub(r"\\(?:text|mathrm|operatorname|mathbf|begin|end|left|right|[,;!: ])", " ", tex)
    text = re.sub(r"\\([a-zA-Z]+)", symbol, _ESCAPED.sub(r"\1", text))
    return re.sub(r"\s+", " ", re.sub(r"[{}\\]", "", text)).strip()
