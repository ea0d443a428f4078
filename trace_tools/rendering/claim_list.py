"""A document → all its claims, section by section, as a machine's index lists them.

list(claim_list(document, "setup"))     [SectionClaims("01-napkin-math", "1 Napkin math", (ClaimEntry(…), …)), …]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trace_tools import formats
from trace_tools.rendering.document import ClaimLine, Document
from trace_tools.schema import Claim
from trace_tools.summaries import claim_summary


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    """One claim in the list of all claims."""

    held: bool
    source: str
    sides: str
    line: int
    page: str  # slug of the page it stands on
    anchor: str
    judged: int
    tells: bool  # its sides say more than its source does


@dataclass(frozen=True, slots=True)
class SectionClaims:
    """A section's claims in the list of all claims."""

    slug: str
    title: str
    claims: tuple[ClaimEntry, ...]

    @property
    def held(self) -> int:
        """How many of them held in every timed run."""
        return sum(claim.held for claim in self.claims)

    @property
    def failed(self) -> int:
        """How many did not."""
        return len(self.claims) - self.held


def claim_list(document: Document, around: str) -> Iterator[SectionClaims]:
    """Yield the claims of each section, then those outside; `around` is the page where these stand."""
    for section in document.sections:
        if section.claims:
            entries = tuple(_entry(line, section.slug) for line in section.claims)
            yield SectionClaims(section.slug, f"{section.number} {section.title}", entries)
    if document.claims_outside:
        entries = tuple(_entry(line, around) for line in document.claims_outside)
        yield SectionClaims(around, "Outside the sections", entries)


def _entry(line: ClaimLine, page: str) -> ClaimEntry:
    claim = line.claim
    source, sides = formats.one_line(claim.source, 160), claim_summary(claim)
    tells = not claim.held or _tells(claim, sides)
    return ClaimEntry(claim.held, source, sides, line.line, page, line.anchor, line.judged, tells)


def _tells(claim: Claim, sides: str) -> bool:
    """Whether the values of a claim that holds say more than its source: not of `x == 6`, which was 6."""
    return " == " not in claim.source and bool(sides) and sides != claim.source
