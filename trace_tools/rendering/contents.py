"""A section → the lines of its contents: its headings, with how the claims under each stand.

contents(section)     [ContentsLine("Views share storage", "views-share-storage", 2, held=4, failed=0), …]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trace_tools.rendering.document import Call, Heading, Listing, Row, Said, Section, visible

DEEPEST = 3  # level of the headings that are listed


@dataclass(frozen=True, slots=True)
class ContentsLine:
    """One heading of a page, and the claims between it and the next."""

    text: str
    anchor: str
    level: int
    held: int
    failed: int


def contents(section: Section) -> list[ContentsLine]:
    """Return the headings of a section that its contents list."""
    place = dict(_places(section))
    held = Counter(place.get(line.anchor) for line in section.claims if line.claim.held)
    failed = Counter(place.get(line.anchor) for line in section.claims if not line.claim.held)
    return [
        ContentsLine(h.text, h.anchor, h.level, held[h.anchor], failed[h.anchor]) for h in _listed(section.headings)
    ]


def _listed(headings: tuple[Heading, ...]) -> list[Heading]:
    return [heading for heading in headings if heading.level <= DEEPEST]


def _places(section: Section) -> Iterator[tuple[str, str]]:
    """Yield the anchor of each row with that of the heading it stands under."""
    listed = {heading.anchor for heading in _listed(section.headings)}
    under = ""
    for block in visible(section.blocks):
        own = [h.anchor for h in block.headings] if isinstance(block, Said) else []
        if isinstance(block, Call) and block.shown == "part":
            own = [block.anchor]
        under = next((anchor for anchor in reversed(own) if anchor in listed), under)
        for row in _rows(block):
            yield row.anchor, under


def _rows(block: Listing | Said | Call) -> tuple[Row, ...]:
    return block.rows if isinstance(block, Listing) else ()
