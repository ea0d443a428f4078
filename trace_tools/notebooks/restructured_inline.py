r"""Convert reStructuredText inside a paragraph to Markdown: literals, roles, links, substitutions.

InlineConverter([".. _w: https://example.org"]).markdown("See ``x``, :math:`x^2` and w_.")
# "See `x`, $x^2$ and [w](https://example.org)."
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

DIRECTIVE = re.compile(r"\.\. +(?:\|([^|]+)\| +)?([\w:+.-]+?):: *(.*)$")
TARGET = re.compile(r"(?:\.\. +_(?:`([^`]+)`|(_)|([^:`]+?)):|(__))(?: +(.*))?$")
_AS_CODE = {
    "code", "func", "function", "class", "meth", "method", "mod", "module", "data", "attr", "exc", "obj", "const",
    "literal", "option", "envvar", "command", "file", "program", "kbd", "samp", "py", "cpp", "c", "macro", "type",
    "member", "download-code",
}  # fmt: skip
_INLINE = re.compile(
    r"(?P<code>``(?P<literal>.+?)``(?!`))"
    r"|(?P<role>:(?P<name>[\w:+.-]+):`(?P<content>(?:\\.|[^`\\])+)`)"
    r"|(?P<link>`(?P<text>[^`<]*?)\s*<(?P<target>[^`<>]+)>`__?)"
    r"|(?P<phrase>`(?P<referred>[^`]+)`__?)(?![\w`])"
    r"|(?P<interpreted>`(?P<plain>[^`]+)`)"
    r"|(?P<substitution>\|(?P<replaced>[^|\s](?:[^|]*[^|\s])?)\|_{0,2})"
    r"|(?P<footnote>\[(?P<note>[\w#*-]+)\]_)"
    r"|(?P<url>https?://[^\s<>`\"')\]]+[^\s<>`\"')\].,;:!?])"
    r"|(?P<word>(?<![\w`])(?P<reference>[A-Za-z0-9][\w.-]*?)__?(?!\w))"
    r"|(?P<escape>\\(?P<escaped>.|\n))"
    r"|(?P<special>\$|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w))",
    re.DOTALL,
)


class InlineConverter:
    """Converts the paragraphs of one file, whose blocks may define links and substitutions anywhere."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._targets: dict[str, str] = {}  # of links, by name
        self._anonymous: list[str] = []
        self._substitutions: dict[str, str] = {}
        for text in texts:
            lines = text.expandtabs().split("\n")
            for at, line in enumerate(lines):
                target = TARGET.match(line.strip())
                if target is not None:
                    url = (target[5] or "").strip()
                    if not url and at + 1 < len(lines) and re.match(r"\s+https?:", lines[at + 1]):
                        url = lines[at + 1].strip()
                    name = target[1] or target[3]
                    if name and url:
                        self._targets[_normal(name)] = url
                    elif url:
                        self._anonymous.append(url)
                embedded = re.finditer(r"`([^`<]+?)\s*<([^`<>]+)>`_(?!_)", line)
                self._targets |= {_normal(one[1]): one[2] for one in embedded if not one[2].endswith("_")}
                directive = DIRECTIVE.match(line.strip())
                if directive is not None and directive[1]:
                    self._substitutions[directive[1]] = (
                        f"![{directive[1]}]({directive[3]})" if directive[2] == "image" else directive[3]
                    )

    def markdown(self, text: str) -> str:
        """Return a paragraph's text as Markdown."""
        return _INLINE.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        kinds: dict[str, Callable[[], str]] = {
            "code": lambda: _code(match["literal"]),
            "role": lambda: self._role(match["name"], match["content"]),
            "link": lambda: self._link(match["text"], match["target"]),
            "phrase": lambda: self._link(match["referred"], match["referred"] + "_", anonymous=match[0].endswith("__")),
            "interpreted": lambda: _code(match["plain"]),
            "substitution": lambda: self._substitutions.get(match["replaced"], match[0]),
            "footnote": lambda: f"\\[{match['note']}\\]",
            "url": lambda: f"<{match[0]}>",
            "word": lambda: self._word(match[0], match["reference"]),
            "escape": lambda: "" if match["escaped"].isspace() else match[0],
            "special": lambda: "".join("\\" + c for c in match[0]),
        }
        return next(made() for kind, made in kinds.items() if match[kind] is not None)

    def _role(self, name: str, content: str) -> str:
        name = name.rpartition(":")[2].lower()
        content = " ".join(content.split())
        titled = re.fullmatch(r"(.+?)\s*<([^<>]+)>", content)
        text = titled[1] if titled else content
        if name == "math":
            return f"${content}$"
        if name == "octicon":
            return ""
        if name in ("emphasis", "strong"):
            return f"*{text}*" if name == "emphasis" else f"**{text}**"
        if name in ("pep", "rfc"):
            number = re.sub(r"\D", "", text)
            url = (
                f"https://peps.python.org/pep-{number:>04}/"
                if name == "pep"
                else f"https://www.rfc-editor.org/rfc/rfc{number}"
            )
            return f"[{name.upper()} {text}]({url})"
        if titled and re.match("https?:", titled[2]):
            return f"[{text}]({titled[2]})"
        if name in _AS_CODE:
            return _code(text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!"))
        return text.rstrip("/").rpartition("/")[2] if name == "doc" and not titled else text

    def _link(self, text: str, target: str, *, anonymous: bool = False) -> str:
        text, target = " ".join(text.split()), "".join(target.split()) if not target.endswith("_") else target
        if target.endswith("_"):
            address = (
                self._anonymous.pop(0) if anonymous and self._anonymous else self._targets.get(_normal(target[:-1]))
            )
            if address is None:
                return text
            target = address
        escaped = re.sub(r"([\[\]])", r"\\\1", text)
        return f"[{escaped}]({target.replace(' ', '%20')})" if text else f"<{target}>"

    def _word(self, written: str, name: str) -> str:
        url = self._targets.get(_normal(name))
        if url is not None:
            return f"[{name}]({url})"
        return re.sub(r"_+$", lambda end: "\\_" * len(end[0]), written)


def _normal(name: str) -> str:
    return " ".join(name.lower().split())


def _code(text: str) -> str:
    text = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    space = " " if "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{space}{text}{space}{fence}"
