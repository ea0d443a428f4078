"""A document → the index beside its pages, a script that they load when it is first asked for: no server is needed.

    index = SearchIndex(document)
    index.within(100_000)       "eNqtW…", at most so many characters, for `search.js`
    index.script()              'searchIndex = "eNqtW…";', the file `search-index.js`

An entry is a place that a link can lead to (a title, a paragraph, a row of code) and the text that stands
there, under the heading above it. The index is made from what the pages show of the source and the prose, so it does
not grow with steps. Ideas are found by the lecture's own vocabulary: the terms that its prose introduces in bold, what
its abbreviations stand for, and the names of the functions behind its headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import chain, islice
from typing import Literal

from trace_tools import formats
from trace_tools.narrative import PROSE
from trace_tools.rendering import explorations, overview, prose
from trace_tools.rendering.document import Block, CodeListing, CodeRow, Document, Narration, visible
from trace_tools.rendering.narration import CELLS
from trace_tools.rendering.packing import deltas, packed, table
from trace_tools.rendering.vocabulary import abbreviations

LIMITS = (5_000, 600, 300, 160, 80)  # characters of an entry: the first that fits the budget
DEFINITION = 160  # characters of one that nothing on the pages calls
FILE = "search-index.js"
LARGEST = 1_000_000  # bytes of that file

Kind = Literal["section", "heading", "text", "table", "figure", "link", "note", "exercise", "code", "claim", "failed"]
ORDER: tuple[Kind, ...] = (
    "section", "heading", "failed", "text", "exercise", "claim", "code", "table", "figure", "link", "note",
)  # fmt: skip
CODE = ("code", "claim", "failed")


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """One place that can be found.

    `also` has names that belong to it: of code, what was observed and is not spelt out; of prose, the terms that it
    introduces; of a heading, the function behind it.
    """

    kind: Kind
    page: int  # place in `pages`
    anchor: str  # "" is the top of the page
    text: str
    also: str = ""
    under: str = ""  # the heading above it


class SearchIndex:
    """The entries of a document, packed to what there is room for."""

    def __init__(self, document: Document) -> None:
        sections = [(s.slug, f"{s.number} {prose.plain_text(s.title)}") for s in document.sections]
        pages = [*sections, ("index", "Index"), (overview.SETUP, "Around the sections")]
        self._pages = [(address, formats.one_line(title, 120)) for address, title in pages]
        found = list(entries(document))
        self._entries = sorted(found, key=lambda entry: (entry.page, ORDER.index(entry.kind)))
        self._same = abbreviations(entry.text for entry in found if entry.kind not in CODE)
        self._packed: dict[int, str] = {}  # by the limit of an entry's length

    def script(self) -> str:
        """Return the index as a file that a page can load from wherever it lies itself, `file://` included."""
        return f'searchIndex = "{self.within(LARGEST)}";\n'

    def within(self, budget: int) -> str:
        """Return the index in at most `budget` characters; what it had to leave out, it says to the reader."""
        for limit in LIMITS:
            if limit not in self._packed:
                shown = [_cut(entry, limit) for entry in self._entries]
                reach = f"Of long passages, the first {limit:,} characters are searched."
                self._packed[limit] = self._pack(shown, reach if shown != self._entries else "")
            text = self._packed[limit]
            if len(text) <= budget:
                return text
        kept = sorted(self._entries, key=lambda entry: ORDER.index(entry.kind))
        while kept and len(text) > budget:
            kept = kept[: min(len(kept) - 1, len(kept) * budget // len(text))]
            reach = f"Of {len(self._entries):,} places, only {len(kept):,} are searched: titles first."
            text = self._pack([_cut(entry, LIMITS[-1]) for entry in kept], reach)
        return text

    def _pack(self, shown: Sequence[SearchEntry], reach: str) -> str:
        anchors, first, last = zip(*map(_split, shown), strict=True) if shown else ((), (), ())
        return packed(
            {
                "pages": self._pages,
                "reach": reach,
                "same": self._same,
                "page": deltas([entry.page for entry in shown]),
                "kind": table(entry.kind for entry in shown),
                "anchor": table(anchors),
                "first": deltas(first),
                "last": deltas(last),
                "text": [entry.text for entry in shown],
                "also": table(entry.also for entry in shown),
                "under": table(entry.under for entry in shown),
            }
        )


def _cut(entry: SearchEntry, limit: int) -> SearchEntry:
    return entry if len(entry.text) <= limit else replace(entry, text=formats.shorten(entry.text, limit))


def _split(entry: SearchEntry) -> tuple[str, int, int]:
    """Split "call-7-L216" into "call-#-L#", 7 and 216: numbers that grow in order deflate to little."""
    numbers = re.findall(r"\d+", entry.anchor, re.ASCII)
    if not 1 <= len(numbers) <= 2 or "#" in entry.anchor or any(len(n) > 9 or n != str(int(n)) for n in numbers):
        return entry.anchor, 0, 0
    return re.sub(r"\d+", "#", entry.anchor, flags=re.ASCII), int(numbers[0]), int(numbers[-1])


def entries(document: Document) -> Iterator[SearchEntry]:
    """Yield every place of a document that can be found, page by page."""
    lines: set[tuple[int, int]] = set()
    for page, section in enumerate(document.sections):
        yield SearchEntry("section", page, "", _line(prose.plain_text(section.title)))
        if section.summary:
            yield SearchEntry("text", page, "", _line(prose.passages(section.summary)))
        yield from _entries(section.blocks, page, lines)
    if overview.speaks(document):
        yield from _entries(document.opening, len(document.sections), lines)
    for entry in _entries(overview.around(document), len(document.sections) + 1, lines):
        yield _cut(entry, DEFINITION)


def _entries(blocks: Sequence[Block], page: int, lines: set[tuple[int, int]]) -> Iterator[SearchEntry]:
    """Yield the places of a page; code that stands on several pages is found once, where it stands first."""
    under = ""
    for entry in _places(blocks, page, lines):
        yield replace(entry, under=under)
        under = entry.text if entry.kind == "heading" else under


def _places(blocks: Sequence[Block], page: int, lines: set[tuple[int, int]]) -> Iterator[SearchEntry]:
    for block in visible(blocks):
        rows: Sequence[CodeRow] = ()
        if isinstance(block, Narration):
            yield from _said(block, page)
        elif isinstance(block, CodeListing):
            rows = block.rows
        elif block.shown == "part":
            title = _line(prose.plain_text(block.title))
            yield SearchEntry("heading", page, block.anchor, title, block.function if block.function != title else "")
        elif block.header is not None and block.shown != "named":
            rows = (block.header,)
        for row in rows:
            place = (row.lines[0].source, row.lines[0].number) if row.lines else None
            if place is not None and place not in lines and any(line.text.strip() for line in row.lines):
                lines.add(place)
                yield _code(row, page)


def _said(said: Narration, page: int) -> Iterator[SearchEntry]:
    it = said.narrative
    anchor, terms = f"said-{said.number}", ""
    if it.kind in PROSE:
        yield from (SearchEntry("heading", page, heading.anchor, _line(heading.text)) for heading in said.headings)
        text = prose.passages(it.text or "")
        terms = ", ".join(dict.fromkeys(prose.terms(it.text or "")))
    elif it.kind == "table":
        cells = islice(chain(it.columns or [], *(it.rows or [])), CELLS)
        text = " · ".join(prose.plain_text(cell) for cell in cells if isinstance(cell, str))
    elif it.kind == "plot":
        names = (series.name for series in it.series or ())
        drawn = re.findall(r"<text[^>]*>([^<]+)</text>", it.svg or "")
        text = " · ".join(filter(None, dict.fromkeys((it.x_label, it.y_label, *names, *map(unescape, drawn)))))
    elif it.exploration is not None:
        text = explorations.sentence(it.exploration, it.text or "")
    else:
        text = " ".join(filter(None, (it.text, it.authors, it.date)))
    kinds: dict[str, Kind] = {
        "plot": "figure",
        "explore": "figure",
        "image": "figure",
        "link": "link",
        "table": "table",
        "note": "note",
        "ask": "exercise",
    }
    told = _line(f"{prose.plain_text(it.title or '')} {text}")
    if told:
        yield SearchEntry(kinds.get(it.kind, "text"), page, anchor, told, formats.shorten(terms, 300))


def _code(row: CodeRow, page: int) -> SearchEntry:
    text = formats.visible("\n".join(line.text.rstrip() for line in row.lines))
    claims = [e.step.claim for e in row.executions if e.step.claim is not None]
    kind: Kind = "code" if not claims else "claim" if all(claim.held for claim in claims) else "failed"
    observed = dict.fromkeys(name for e in row.executions for name, _ in e.values)
    also = ", ".join(formats.one_line(name, 60) for name in observed if name not in text)
    return SearchEntry(kind, page, row.anchor, text.strip(), formats.shorten(also, 300))


def _line(text: str) -> str:
    return formats.one_line(text, LIMITS[0] * 40)
