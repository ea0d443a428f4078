r"""Write text as Markdown for a code host, so that no HTML, link or fence in it takes effect.

to_markdown("<b>bold</b>")     "\<b\>bold\</b\>"
code_span("a ` b")             "`` a ` b ``"
fenced("x = 1", "python")      "```python\nx = 1\n```\n"
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from trace_tools.presentation.prose import Image, dedented, safe_url
from trace_tools.presentation.varied import spread
from trace_tools.trace.model import Varied
from trace_tools.util import formats


def escape(text: str) -> str:
    """Escape text so that Markdown shows it literally: no emphasis, link, math, table cell or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", text).replace("&", "&amp;")


def code_span(text: str) -> str:
    """Return text as inline code, with any number of backticks in it."""
    text = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else "` `"


def fenced(text: str, language: str = "") -> str:
    """Return text as a fenced block that its content cannot close."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`{3,}", text)), default=2))
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells cannot be closed by their content; "" without rows. Cells are Markdown."""
    if not rows:
        return ""
    cells = ([re.sub(r"(?<!\\)\|", r"\|", text.replace("\n", " ")) for text in row] for row in (columns, *rows))
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([head, "|" + " --- |" * len(columns), *body])


def to_markdown(markdown: str, image: Image = lambda path: None, varied: Sequence[Varied] = ()) -> str:
    """Return the author's text for a code host, which sanitises it: in place, with images that exist, headings from
    level 2, an open fence closed, and each number that varied followed by its range: 9.7 [3.5 … 9.7].
    """
    for one in sorted((v for v in varied if v.end is not None), key=lambda v: -(v.end or 0)):
        markdown = f"{markdown[: one.end]} {range_of(one)}{markdown[one.end :]}"
    lines, fence = dedented(markdown).split("\n"), ""
    for at, line in enumerate(lines):
        marks = re.match(r"\s*(`{3,}|~{3,})", line)
        if marks and (not fence or line.strip() == fence):
            fence = "" if fence else marks[1]
        elif not fence:
            line = _TAG.sub(lambda m: m[0] if m[0] != "<" else r"\<", re.sub(r"^# ", "## ", line))
            lines[at] = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)", lambda m: _shown(m[1], image(m[2])), line)
    return "\n".join([*lines, *([fence] if fence else [])]).strip("\n") + "\n"


_TAG = re.compile(
    r"(`+).*?\1|\$[^$]*\$|\]\(<[^>]*>|<https?:[^>\s]*>|\\<|<(?=[a-zA-Z/!?])"
)  # code, math, addresses, and "<" of a tag


def _shown(alt: str, address: str | None) -> str:
    return f"![{alt}]({address})" if address else f"*[{alt or 'image'}: not shown]*"


def joined(parts: Iterable[str]) -> str:
    """Join blocks of Markdown."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def folded(title: str, inner: Iterable[str]) -> list[str]:
    """Fold blocks under a title, in `<details>`; backticks in the title become `<code>`."""
    shown = re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(title))
    return [f"<details><summary>{shown}</summary>", *inner, "</details>"]


def range_of(varied: Varied) -> str:
    """Return the Markdown that follows a number, "[3.5 … 9.7]"; that of the first runs if only these differ."""
    only_first = varied.cold_samples and len({*varied.samples}) < 2
    return escape(f"[first runs: {spread(varied.cold_samples or ())}]" if only_first else f"[{spread(varied.samples)}]")


def inline_markdown(markdown: str) -> str:
    """Return one line of Markdown for a table cell, a heading or an item of a list: a block in it stays text."""
    line = formats.one_line(markdown, 2_000)
    text = re.sub(r"^(?=[#>+-]+ )", r"\\", line) if line[:1] in "#>+-" else to_markdown(line).strip()
    return text if "\n" not in text else escape(line)


def link_markdown(title: str, url: str | None) -> str:
    """Return a link with a plain title; only the title if the address is unsafe."""
    safe = safe_url(url) if url else None
    address = re.sub(r"[()<>]", lambda match: f"%{ord(match[0]):X}", safe or "")
    return f"[{escape(title)}]({address})" if safe else escape(title)
