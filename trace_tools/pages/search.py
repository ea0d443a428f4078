"""Build the search index of a document, a script that pages load on the first search; no server is needed.

    index_script(document)      'searchIndex = "eNqtW…";', the file `search-index.js`

An entry is a link target (a title, a paragraph, a row of code) with its text and the heading above it. The index covers
source and prose, so its size does not depend on the number of steps. The lecture's own vocabulary finds synonyms: terms
in bold, long forms of abbreviations, and function names of headings.

Abbreviations count only if the lecture's own text defines them, as in "A mixture of experts (MoE)" or "HFU, hardware
FLOPs utilization, counts".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal

from trace_tools.pages import overview
from trace_tools.pages.document import Block, CodeListing, CodeRow, Document, Narration, visible
from trace_tools.pages.narration import FORMATS
from trace_tools.presentation import prose
from trace_tools.presentation.payload import packed
from trace_tools.trace.model import Ask, Note, Text
from trace_tools.util import formats

_SHORT = r"[A-Z][A-Za-z0-9]{0,7}[A-Z]s?"  # FLOPs, MoE, KV
_WORDS = r"(?<![\w/-])(?:[\w/-]{1,40} ){1,6}[\w/-]{1,40}"  # word boundaries, so that long texts take no time
_IN_BRACKETS = re.compile(rf"({_WORDS}) \(({_SHORT})\)")
_BESIDE = re.compile(rf"({_WORDS}), ({_SHORT})\b")
_BEFORE = re.compile(rf"\b({_SHORT})(?:, | \()(?=({_WORDS}))")
_SMALL = frozenset(["a", "an", "and", "for", "from", "in", "of", "on", "or", "the", "to", "with"])


def abbreviations(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return (abbreviation, long form) as the texts define them, each abbreviation once, in order."""
    long_forms: dict[str, str] = {}
    for text in texts:
        for pattern, spells in ((_IN_BRACKETS, _has_letters), (_BESIDE, _has_initials)):
            for match in pattern.finditer(text):
                words = match[1].split()
                fitting = (words[first:] for first in range(len(words) - 1, -1, -1))  # the shortest match
                if long := next((long for long in fitting if spells(match[2], long)), None):
                    long_forms.setdefault(match[2].removesuffix("s"), " ".join(long))
        for match in _BEFORE.finditer(text):
            words = match[2].split()
            fitting = (words[:last] for last in range(2, len(words) + 1))
            if long := next((long for long in fitting if _has_initials(match[1], long)), None):
                long_forms.setdefault(match[1].removesuffix("s"), " ".join(long))
    return list(long_forms.items())


def _has_letters(short: str, words: list[str]) -> bool:
    """Return whether the letters occur in the words in this order, the first one at the beginning (Schwartz &
    Hearst, 2003).
    """
    remaining = iter(" ".join(words).lower())
    first = words[0].lower()
    return (
        len(words) > 1
        and first not in _SMALL
        and first[0] == short[0].lower()
        and all(letter in remaining for letter in short.lower())
    )


def _has_initials(short: str, words: list[str]) -> bool:
    """Return whether the capitals are the initials of the words, ignoring small words."""
    parts = [part for word in words for part in re.split(r"[-/]", word) if part]
    initials = "".join(part[0].lower() for part in parts if part.lower() not in _SMALL)
    own = parts[0].lower() not in _SMALL and parts[-1].lower() not in _SMALL if parts else False
    return own and len(parts) > 1 and initials == re.sub(r"[^A-Z]", "", short).lower()


FILE = "search-index.js"
# What people type, and the field's word for it; used if the lecture has that word.
ASKED = (
    ("OOM", "out of memory"),
    ("slow", "memory-bound"),
    ("GPU utilization", "MFU"),
    ("gradient checkpointing", "activation checkpointing"),
    ("half precision", "fp16"),
    ("cost", "dollars"),
)

Kind = Literal["section", "heading", "text", "table", "figure", "link", "note", "exercise", "code", "claim", "failed"]
ORDER: tuple[Kind, ...] = (
    "section", "heading", "failed", "text", "exercise", "claim", "code", "table", "figure", "link", "note",
)  # fmt: skip
CODE = ("code", "claim", "failed")


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """One link target.

    `also` lists further names: for code, observed names that it does not spell out; for prose, the terms that it
    introduces; for a heading, its function.
    """

    kind: Kind
    page: int  # index in `pages`
    anchor: str  # "" is the top of the page
    text: str
    also: str = ""
    under: str = ""  # the heading above it


def index_script(document: Document) -> str:
    """Return the index as a script that pages can load from any address, including `file://`."""
    sections = [(s.slug, f"{s.number} {prose.readable_text(s.title)}") for s in document.sections]
    pages = [*sections, ("index", "Index"), (overview.SETUP, "Code outside the sections")]
    listed = list(entries(document))
    texts = [entry.text for entry in listed if entry.kind not in CODE]
    index = {
        "pages": [(address, formats.one_line(title, 120)) for address, title in pages],
        "same": [*abbreviations(texts), *(pair for pair in ASKED if any(pair[1] in text for text in texts))],
        "entries": [
            astuple(entry) for entry in sorted(listed, key=lambda entry: (entry.page, ORDER.index(entry.kind)))
        ],
    }
    return f'searchIndex = "{packed(index)}";\n'


def entries(document: Document) -> Iterator[SearchEntry]:
    """Yield every link target of a document, page by page."""
    lines: set[tuple[int, int]] = set()
    for page, section in enumerate(document.sections):
        yield SearchEntry("section", page, "", _line(prose.readable_text(section.title)))
        if section.summary:
            yield SearchEntry("text", page, "", _line(prose.passages(section.summary)))
        yield from _entries(section.blocks, page, lines)
    if overview.speaks(document):
        yield from _entries(document.opening, len(document.sections), lines)
    yield from _entries(overview.around(document), len(document.sections) + 1, lines)


def _entries(blocks: Sequence[Block], page: int, lines: set[tuple[int, int]]) -> Iterator[SearchEntry]:
    """Yield the link targets of a page; code that is on several pages is listed for the first one."""
    under = ""
    for entry in _targets(blocks, page, lines):
        yield replace(entry, under=under)
        under = entry.text if entry.kind == "heading" else under


def _targets(blocks: Sequence[Block], page: int, lines: set[tuple[int, int]]) -> Iterator[SearchEntry]:
    kind: Kind
    for block in visible(blocks):
        rows: Sequence[CodeRow] = ()
        if isinstance(block, Narration):
            it, terms = block.narrative, ""
            if isinstance(it, Text | Note | Ask):
                for heading in block.headings:
                    yield SearchEntry("heading", page, heading.anchor, _line(heading.text))
                terms = ", ".join(dict.fromkeys(prose.terms(it.text)))
            if text := _line(FORMATS[type(it)].search(it)):
                kind = FORMATS[type(it)].entry
                yield SearchEntry(kind, page, f"said-{block.number}", text, formats.shorten(terms, 300))
        elif isinstance(block, CodeListing):
            rows = block.rows
        elif block.shown == "part":
            title = _line(prose.readable_text(block.title))
            yield SearchEntry("heading", page, block.anchor, title, block.name if block.name != title else "")
        for row in rows:
            position = (row.lines[0].source, row.lines[0].number) if row.lines else None
            if position is not None and position not in lines and any(line.text.strip() for line in row.lines):
                lines.add(position)
                text = formats.visible("\n".join(line.text.rstrip() for line in row.lines))
                claims = [e.step.claim for e in row.executions if e.step.claim is not None]
                kind = "code" if not claims else "claim" if all(claim.held for claim in claims) else "failed"
                observed = dict.fromkeys(name for e in row.executions for name, _ in e.values)
                also = ", ".join(formats.one_line(name, 60) for name in observed if name not in text)
                yield SearchEntry(kind, page, row.anchor, text.strip(), formats.shorten(also, 300))


def _line(text: str) -> str:
    return formats.one_line(text, prose.LONGEST)
