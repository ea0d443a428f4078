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
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from trace_tools.notebooks.magics import fenced
from trace_tools.notebooks.restructured_inline import DIRECTIVE, TARGET, InlineConverter
from trace_tools.notebooks.restructured_tables import list_table, table_at

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_BULLET = re.compile(r"([-*+•])(?:\s+|$)")
_NUMBER = re.compile(r"\(?(\d+|#|[a-zA-Z])[.)](?:\s+|$)")
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


class Converter:
    """Converts the blocks of one file, in order."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._underlines: list[str] = []  # of headings, by level
        self._inline = InlineConverter(texts)

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
            for convert in (
                self._heading, self._explicit, partial(table_at, inline=self._inline), self._list, self._fields,
                self._doctest, self._line_block, self._quoted, self._definition,
            ):  # fmt: skip
                converted = convert(lines, at)
                if converted is not None:
                    text, at = converted
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
        return f"{'#' * min(self._underlines.index(underline) + 1, 6)} {self._inline.markdown(title)}"

    def _explicit(self, lines: list[str], at: int) -> tuple[str, int] | None:
        """Convert a directive; targets, substitutions and comments are dropped."""
        line = lines[at]
        target = TARGET.match(line)
        if not line.startswith("..") and target is None:
            return None
        if line.startswith("..") and not re.match(r"\.\.(\s|$)", line):
            return None
        body, end = _indented_below(lines, at + 1)
        directive, footnote = DIRECTIVE.match(line), _FOOTNOTE.match(line)
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
            return fenced(inside, language)
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
            return list_table(argument, dedented, self._inline)
        if name in _ADMONITIONS:
            return self._admonition(name, argument, dedented)
        title = self._inline.markdown(argument).strip()
        parts = [f"**{title}**" if re.search("[^\\W\\d]", title) else "", self._nested(dedented)]
        return "\n\n".join(part for part in parts if part)

    def _admonition(self, name: str, argument: str, body: list[str]) -> str:
        titled = name in ("admonition", "topic", "sidebar", "rubric")
        title = argument if titled else {"seealso": "See also"}.get(name, name.capitalize())
        if name.startswith("version") or name == "deprecated":
            words = {"versionadded": "Added in", "versionchanged": "Changed in"}
            title, argument = f"{words.get(name, 'Deprecated since')} {argument}", ""
        if name == "rubric":
            return f"**{self._inline.markdown(title)}**"
        first = [] if titled or not argument else [argument]
        text = self._nested([*first, *body])
        return _prefixed(f"**{self._inline.markdown(title)}**" + (f"\n\n{text}" if text else ""), "> ")

    def _list(self, lines: list[str], at: int) -> tuple[str, int] | None:
        items: list[str] = []
        begin = _BULLET if _BULLET.match(lines[at]) else _NUMBER
        while at < len(lines):
            mark = begin.match(lines[at])
            if mark is None:
                break
            body, end = _indented_below(lines, at + 1)
            first_line = lines[at][mark.end() :]
            if not first_line and not body:
                return None if not items else ("\n".join(items), at)
            text = self._nested([first_line]) if not body else self._item(first_line, body)
            bullet = "- " if begin is _BULLET else f"{len(items) + 1 if mark[1] == '#' else mark[1]}. "
            if mark[1].isalpha():
                bullet, text = "- ", f"{mark[1]}. {text}"
            items.append(bullet + _prefixed(text, " " * len(bullet)).lstrip(" "))
            at = end
        return ("\n".join(items), at) if items else None

    def _item(self, first_line: str, body: list[str]) -> str:
        return self._nested([first_line, *textwrap.dedent("\n".join(body)).split("\n")])

    def _fields(self, lines: list[str], at: int) -> tuple[str, int] | None:
        start = at
        entries: list[str] = []
        while at < len(lines) and (one := _FIELD.match(lines[at])) is not None and "`" not in one[1]:
            body, at = _indented_below(lines, at + 1)
            value = self._item(one[2] or "", body)
            entries += [f"- **{one[1]}**: {value}"] if value else []
        return ("\n".join(entries), at) if at > start else None

    def _doctest(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if not lines[at].startswith(">>> "):
            return None
        end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
        return fenced("\n".join(lines[at:end]), "python"), end

    def _line_block(self, lines: list[str], at: int) -> tuple[str, int] | None:
        if not re.match(r"\|\s", lines[at]):
            return None
        end = next((n for n in range(at, len(lines)) if not re.match(r"\||\s+\S", lines[n])), len(lines))
        return "\\\n".join(self._inline.markdown(line.lstrip("| ")) for line in lines[at:end]), end

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
        text = f"**{self._inline.markdown(lines[at])}**\n\n{self._nested(body)}"
        return "- " + _prefixed(text, "  ").lstrip(" "), end

    def _paragraph(self, lines: list[str], at: int) -> tuple[str, int]:
        end = at + 1
        while end < len(lines) and lines[end].strip():
            end += 1
        text = "\n".join(line.strip() for line in lines[at:end])
        if not text.endswith("::"):
            return _unmarked(self._inline.markdown(text)), end
        body, after = _indented_below(lines, end)
        prose = text[:-2].rstrip() if text[:-2].endswith((" ", "\n")) else text[:-1]
        prose = "" if text == "::" else prose
        parts = [
            _unmarked(self._inline.markdown(prose)),
            fenced(textwrap.dedent("\n".join(body)).strip("\n")) if body else "",
        ]
        return "\n\n".join(part for part in parts if part), after


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
