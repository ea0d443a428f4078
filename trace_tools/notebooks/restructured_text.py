r"""Convert reStructuredText to Markdown, as far as readers need it.

    text = "A title\n=======\n\nSee ``x`` and :math:`x^2`."
    Converter([text]).markdown(text)      "# A title\n\nSee `x` and $x^2$."

Heading levels follow the order in which a file first uses their underlines, and links may be defined in another block,
so one converter reads all blocks of a file. Sphinx roles become code or text. Directives become quotes, code, formulas
or images; an unknown directive becomes its text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_BULLET = re.compile(r"([-*+•])(?:\s+|$)")
_NUMBER = re.compile(r"\(?(\d+|#|[a-zA-Z])[.)](?:\s+|$)")
_DIRECTIVE = re.compile(r"\.\. +(?:\|([^|]+)\| +)?([\w:+.-]+?):: *(.*)$")
_TARGET = re.compile(r"(?:\.\. +_(?:`([^`]+)`|(_)|([^:`]+?)):|(__))(?: +(.*))?$")
_FOOTNOTE = re.compile(r"\.\. +\[([^\]]+)\] *(.*)$")
_OPTION = re.compile(r":[\w -]+:(?: +.*)?$")
_FIELD = re.compile(r":([^:\s][^:]*):(?:\s+(.*))?$")
_ADMONITIONS = {
    "attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning", "seealso", "todo",
    "admonition", "topic", "sidebar", "versionadded", "versionchanged", "deprecated", "rubric",
}  # fmt: skip
_CODE = {
    "code", "code-block", "sourcecode", "highlight-block", "parsed-literal", "prompt", "testcode", "doctest",
    "ipython", "plot",
}  # fmt: skip
_SILENT = {
    "contents", "meta", "currentmodule", "module", "highlight", "toctree", "default-role", "role", "index", "tags",
    "sectnum", "codeauthor", "sectionauthor", "minigallery",
}  # fmt: skip
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


class Converter:
    """Converts the blocks of one file, in order."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._underlines: list[str] = []  # of headings, by level
        self._targets: dict[str, str] = {}
        self._anonymous: list[str] = []
        self._substitutions: dict[str, str] = {}
        for text in texts:
            self._learn(text)

    def _learn(self, text: str) -> None:
        """Collect link targets and substitutions."""
        lines = text.expandtabs().split("\n")
        for at, line in enumerate(lines):
            target = _TARGET.match(line.strip())
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
            directive = _DIRECTIVE.match(line.strip())
            if directive is not None and directive[1]:
                self._substitutions[directive[1]] = (
                    f"![{directive[1]}]({directive[3]})" if directive[2] == "image" else directive[3]
                )

    def markdown(self, text: str) -> str:
        """Return the text as Markdown."""
        blocks = self._blocks([line.rstrip() for line in text.expandtabs().split("\n")])
        return re.sub(r"\n{3,}", "\n\n", "\n\n".join(block for block in blocks if block)).strip("\n")

    def _nested(self, lines: Sequence[str]) -> str:
        """Return lines inside a list or a directive as Markdown."""
        dedented = textwrap.dedent("\n".join(lines)).split("\n")
        return "\n\n".join(block for block in self._blocks(dedented) if block)

    def _blocks(self, lines: list[str]) -> Iterator[str]:
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            for block in (
                self._heading, self._explicit, self._table, self._list, self._fields, self._doctest,
                self._line_block, self._quoted, self._definition,
            ):  # fmt: skip
                blocks = block(lines, at)
                if blocks is not None:
                    text, at = blocks
                    yield text
                    break
            else:
                text, at = self._paragraph(lines, at)
                yield text

    def _heading(self, lines: list[str], at: int) -> tuple[str, int] | None:
        rule = _RULE.match(lines[at])
        after = [line.rstrip() for line in lines[at + 1 : at + 3]]
        if (
            rule is not None
            and len(after) == 2
            and after[0].strip()
            and re.fullmatch(re.escape(rule[1]) + "{3,}", after[1])
        ):
            return self._titled(rule[1] * 2, after[0].strip()), at + 3
        if rule is not None and len(lines[at].strip()) >= 4 and not (after and after[0].strip()):
            return "---", at + 1
        under = _UNDERLINE.match(after[0]) if after else None
        if under is None or rule is not None or lines[at].startswith((" ", ".. ")):
            return None
        is_title = len(after[0]) >= min(len(lines[at]), 4)
        return (self._titled(under[1], lines[at].strip()), at + 2) if is_title else None

    def _titled(self, underline: str, title: str) -> str:
        if underline not in self._underlines:
            self._underlines.append(underline)
        return f"{'#' * min(self._underlines.index(underline) + 1, 6)} {self._inline(title)}"

    def _explicit(self, lines: list[str], at: int) -> tuple[str, int] | None:
        """Convert a directive; targets, substitutions and comments are dropped."""
        line = lines[at]
        target = _TARGET.match(line)
        if not line.startswith("..") and target is None:
            return None
        if line.startswith("..") and not re.match(r"\.\.(\s|$)", line):
            return None
        body, end = _indented_below(lines, at + 1)
        directive, footnote = _DIRECTIVE.match(line), _FOOTNOTE.match(line)
        if footnote is not None:
            return f"\\[{footnote[1]}\\] {self._item(footnote[2], body)}", end
        if target is None and directive is not None and not directive[1]:
            return self._directive(directive[2], directive[3].strip(), body), end
        return "", end

    def _directive(self, name: str, argument: str, body: list[str]) -> str:
        name = name.rpartition(":")[2].lower() if not name.startswith("..") else name
        dedented = textwrap.dedent("\n".join(body)).split("\n") if body else []
        options: dict[str, str] = {}
        while dedented and _OPTION.match(dedented[0]):
            key, _, value = dedented.pop(0)[1:].partition(":")
            options[key.strip()] = value.strip()
        inside = "\n".join(dedented).strip("\n")
        if name in _SILENT:
            return ""
        if name in _CODE:
            language = argument.split(" ")[0] if name in ("code", "code-block", "sourcecode") else ""
            return _fence(inside, language)
        if name == "math":
            written = []  # formulas are separated by empty lines
            for formula in re.split(r"\n\s*\n", "\n".join([argument, *dedented]).strip()):
                formula = textwrap.dedent(formula).strip()
                if re.search(r"\\\\|(?<!\\)&", formula) and "\\begin{" not in formula:
                    formula = f"\\begin{{aligned}}\n{formula}\n\\end{{aligned}}"
                written.append(f"$$\n{formula}\n$$")
            return "\n\n".join(written)
        if name in ("image", "figure"):
            shown = f"![{options.get('alt', '')}]({argument.replace(' ', '%20')})"
            return "\n\n".join(part for part in (shown, self._nested(dedented)) if part)
        if name in ("literalinclude", "include"):
            return f"`{argument}`"
        if name == "raw":
            match = dict.fromkeys(re.findall(r"(?:src|href)=[\"'](https?://[^\"']+)", inside))
            return "\n\n".join(f"<{url}>" for url in match)
        if name == "list-table":
            return self._list_table(argument, dedented)
        if name in _ADMONITIONS:
            return self._admonition(name, argument, dedented)
        title = self._inline(argument).strip()
        parts = [f"**{title}**" if re.search("[^\\W\\d]", title) else "", self._nested(dedented)]
        return "\n\n".join(part for part in parts if part)

    def _admonition(self, name: str, argument: str, body: list[str]) -> str:
        titled = name in ("admonition", "topic", "sidebar", "rubric")
        title = argument if titled else {"seealso": "See also"}.get(name, name.capitalize())
        if name.startswith("version") or name == "deprecated":
            words = {"versionadded": "Added in", "versionchanged": "Changed in"}
            title, argument = f"{words.get(name, 'Deprecated since')} {argument}", ""
        if name == "rubric":
            return f"**{self._inline(title)}**"
        first = [] if titled or not argument else [argument]
        text = self._nested([*first, *body])
        return _prefixed(f"**{self._inline(title)}**" + (f"\n\n{text}" if text else ""), "> ")

    def _list(self, lines: list[str], at: int) -> tuple[str, int] | None:
        items: list[str] = []
        begin = _BULLET if _BULLET.match(lines[at]) else _NUMBER
        while at < len(lines):
            mark = begin.match(lines[at])
            if mark is None:
                break
            body, end = _indented_below(lines, at + 1)
            rest = lines[at][mark.end() :]
            if not rest and not body:
                return None if not items else ("\n".join(items), at)
            text = self._nested([rest]) if not body else self._item(rest, body)
            items.append(self._marked(begin, mark[1], len(items), text))
            at = end
        return ("\n".join(items), at) if items else None

    def _item(self, rest: str, body: list[str]) -> str:
        dedented = textwrap.dedent("\n".join(body)).split("\n")
        return self._nested([rest, *dedented])

    def _marked(self, begin: re.Pattern[str], mark: str, before: int, text: str) -> str:
        bullet = "- " if begin is _BULLET else f"{mark}. "
        if mark == "#":
            bullet = f"{before + 1}. "
        elif mark.isalpha():
            bullet, text = "- ", f"{mark}. {text}"
        return bullet + _prefixed(text, " " * len(bullet)).lstrip(" ")

    def _fields(self, lines: list[str], at: int) -> tuple[str, int] | None:
        entries: list[str] = []
        while at < len(lines) and (one := _FIELD.match(lines[at])) is not None and "`" not in one[1]:
            body, at = _indented_below(lines, at + 1)
            value = self._item(one[2] or "", body)
            entries += [f"- **{one[1]}**: {value}"] if value else []
        return ("\n".join(entries), at) if entries or (at and _FIELD.match(lines[at - 1])) else None

    def _doctest(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if not lines[at].startswith(">>> "):
            return None
        end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
        return _fence("\n".join(lines[at:end]), "python"), end

    def _line_block(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if not re.match(r"\|\s", lines[at]):
            return None
        end = next((n for n in range(at, len(lines)) if not re.match(r"\||\s+\S", lines[n])), len(lines))
        return "\\\n".join(self._inline(line.lstrip("| ")) for line in lines[at:end]), end

    def _quoted(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if not lines[at].startswith(" "):
            return None
        body, end = _indented_below(lines, at)
        return _prefixed(self._nested(body), "> "), end

    def _definition(self, lines: list[str], at: int) -> tuple[str, int] | None:
        """Convert a term with its indented definition."""
        if at + 1 == len(lines) or not lines[at + 1].startswith(" ") or lines[at].rstrip().endswith("::"):
            return None
        body, end = _indented_below(lines, at + 1)
        return "- " + _prefixed(f"**{self._inline(lines[at])}**\n\n{self._nested(body)}", "  ").lstrip(" "), end

    def _paragraph(self, lines: list[str], at: int) -> tuple[str, int]:
        end = at + 1
        while end < len(lines) and lines[end].strip():
            end += 1
        text = "\n".join(line.strip() for line in lines[at:end])
        if not text.endswith("::"):
            return _unmarked(self._inline(text)), end
        body, after = _indented_below(lines, end)
        prose = text[:-2].rstrip() if text[:-2].endswith((" ", "\n")) else text[:-1]
        prose = "" if text == "::" else prose
        parts = [
            _unmarked(self._inline(prose)),
            _fence(textwrap.dedent("\n".join(body)).strip("\n")) if body else "",
        ]
        return "\n\n".join(part for part in parts if part), after

    # --- tables -----------------------------------------------------------------------------------

    def _table(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if re.match(r"\+[-=+]+\+$", lines[at]):
            end = next((n for n in range(at, len(lines)) if lines[n][:1] not in ("+", "|")), len(lines))
            return self._grid(lines[at:end]), end
        if re.match(r"=+(?: +=+)+ *$", lines[at]):
            rules = [n for n in range(at, len(lines)) if re.match(r"=+(?: +=+)* *$", lines[n])]
            blank = next((n for n in rules[1:] if n + 1 == len(lines) or not lines[n + 1].strip()), None)
            if blank is not None:
                return self._simple(lines[at : blank + 1]), blank + 1
        return None

    def _grid(self, lines: list[str]) -> str:
        columns = [match.start() for match in re.finditer(r"\+", lines[0])]
        rows: list[list[str]] = [[]]
        for line in lines[1:]:
            if line.startswith("+"):
                if not re.fullmatch(r"\+(?:[-=]+\+)+", line):
                    return _fence("\n".join(lines))  # cells that span others
                rows.append([])
            elif any(line[column : column + 1] != "|" for column in columns):
                return _fence("\n".join(lines))
            else:
                cells = [line[a + 1 : b].strip() for a, b in pairwise(columns)]
                rows[-1] = [
                    f"{had} {cell}".strip() for had, cell in zip(rows[-1] or [""] * len(cells), cells, strict=True)
                ]
        return self._rows([row for row in rows if row])

    def _simple(self, lines: list[str]) -> str:
        spans = [match.span() for match in re.finditer(r"=+", lines[0])]
        spans[-1] = (spans[-1][0], 10_000)
        rows: list[list[str]] = []
        for line in lines[1:-1]:
            if re.match(r"[=-]+(?: +[=-]+)* *$", line) or not line.strip():
                continue
            cells = [line[a:b].strip() for a, b in spans]
            if rows and not cells[0]:
                rows[-1] = [f"{had} {cell}".strip() for had, cell in zip(rows[-1], cells, strict=True)]
            else:
                rows.append(cells)
        has_head = any(re.match(r"=+(?: +=+)* *$", line) for line in lines[1:-1])
        return self._rows(rows if has_head else [[""] * len(spans), *rows])

    def _list_table(self, title: str, lines: list[str]) -> str:
        rows: list[list[str]] = []
        for line in lines:
            if match := re.match(r"\* +- ?(.*)", line):
                rows.append([match[1]])
            elif match := re.match(r" +- ?(.*)", line):
                rows[-1].append(match[1])
            elif line.strip() and rows:
                rows[-1][-1] += " " + line.strip()
        made = self._rows(rows)
        return f"**{self._inline(title)}**\n\n{made}" if title and made else made

    def _rows(self, rows: Sequence[Sequence[str]]) -> str:
        width = max((len(row) for row in rows), default=0)
        written = [[self._inline(cell).replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in rows]
        lines = ["| " + " | ".join(row) + " |" for row in written]
        return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""

    # --- inside a paragraph -----------------------------------------------------------------------

    def _inline(self, text: str) -> str:
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


def _fence(text: str, language: str = "") -> str:
    fence = "`" * max(3, max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _unmarked(text: str) -> str:
    """Escape a paragraph that Markdown would read as another block."""
    return re.sub(r"(?m)^(#+|>)(?=\s)", r"\\\1", text)


def _prefixed(text: str, prefix: str) -> str:
    return "\n".join((prefix + line).rstrip() for line in text.split("\n"))


def _indented_below(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """Return the indented or blank lines from `at`, without trailing blank lines, and the index after them."""
    end = at
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    body = list(lines[at:end])
    while body and not body[-1].strip():
        body.pop()
    return body, end
