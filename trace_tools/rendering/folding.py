"""Blocks as composed → blocks as shown: which calls are open, and where each heading can be linked to.

A call that speaks to the reader becomes a part of the text under its own title; another one stands folded
under its line. The same code is not shown over and over: from the fifth call of a function on a page (the
second, when nothing was observed in it) a call is only named. Trouble is always shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trace_tools.rendering import prose
from trace_tools.rendering.document import Block, Call, CodeLine, Heading, Listing, Row, Said, calls_shown, visible

BODIES = 4  # of one function on a page
SHORT = 6  # rows that may stand open
# What the templates and scripts call their own parts: a heading of that name must not be found in their place.
_TAKEN = re.compile(
    "text|theme|steps|panel|player|keys|search|index|machines?|main|module|columns|differing|figures|claims|run|sections"
    r"|(?:step|said|call|search|fig)-?\d+|step-(?:at|back|done|help|now|on|said)|keys-(?:close|title)"
    r"|mode-(?:animate|notes|predict)|search-(?:for|found|open|said)|differs-(?:back|now|on)"
    r"|(?:figure|claims)-.+|.+-(?:title|desc)"
)


def fold(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks with what is shown of each call decided, and headings given their anchors."""
    return _Folder().blocks(blocks)


def headings(blocks: Sequence[Block]) -> tuple[Heading, ...]:
    """Return the headings of folded blocks in order: of their prose, and the titles of their parts."""
    return tuple(_headings(blocks))


def _headings(blocks: Sequence[Block]) -> Iterator[Heading]:
    for block in blocks:
        if isinstance(block, Said):
            yield from block.headings
        elif isinstance(block, Call) and block.shown == "part":
            yield Heading(block.level, prose.plain_text(block.title), block.anchor)
            yield from _headings(block.blocks)


def shared_storages(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the storages that more than one of the page's inspected expressions lie in, in order of appearance."""
    names: dict[str, set[str]] = {}
    for block in visible(blocks):
        for row in block.rows if isinstance(block, Listing) else ():
            for execution in row.executions:
                for name, value in execution.values:
                    if value.tensor is not None and value.tensor.storage is not None:
                        names.setdefault(value.tensor.storage, set()).add(name)
    return tuple(storage for storage, users in names.items() if len(users) > 1)


def anchors(blocks: Sequence[Block]) -> dict[int, str]:
    """Return, for each step whose row is shown, the anchor of that row."""
    found: dict[int, str] = {}
    for block in visible(blocks):
        for row in block.rows if isinstance(block, Listing) else ():
            for execution in row.executions:
                found.setdefault(execution.step, row.anchor)
    return found


def line_anchors(blocks: Sequence[Block]) -> dict[tuple[int, int], str]:
    """Return, for each line of a source that is shown, the anchor of the first row it stands in."""
    found: dict[tuple[int, int], str] = {}
    for block in visible(blocks):
        for row in block.rows if isinstance(block, Listing) else ():
            for line in row.lines:
                found.setdefault((line.source, line.number), row.anchor)
    return found


def speaks(call: Call) -> bool:
    """Whether a call has something to say to the reader itself: prose, or a part of its own."""
    return any(
        (isinstance(block, Said) and block.narrative.kind != "note") or (isinstance(block, Call) and speaks(block))
        for block in call.blocks
    )


def any_trouble(blocks: Iterable[Block]) -> bool:
    """Whether there is a failed claim or an uncaught exception in any execution of these blocks."""
    for block in blocks:
        if isinstance(block, Call) and block.troubled:
            return True
        if isinstance(block, Listing) and any(e.troubled for row in block.rows for e in row.executions):
            return True
    return False


def any_observation(blocks: Iterable[Block]) -> bool:
    """Whether anything was inspected, claimed or printed in these blocks or in the calls they made."""
    rows = (row for block in blocks if isinstance(block, Listing) for row in block.rows)
    executions = (execution for row in rows for execution in row.executions)
    return any(
        e.values or e.claim or e.stdout or e.warnings or any(call.observed for call in e.calls) for e in executions
    )


def first_trouble(blocks: Sequence[Block]) -> str | None:
    """Return the anchor of the first shown row where a claim failed or an uncaught exception began."""
    for block in visible(blocks):
        for row in block.rows if isinstance(block, Listing) else ():
            for e in row.executions:
                raised = e.failure is not None and e.failure.origin and not e.failure.caught
                if raised or (e.claim is not None and not e.claim.held):
                    return row.anchor
    return None


def _rows(call: Call) -> list[Row]:
    return [row for block in call.blocks if isinstance(block, Listing) for row in block.rows]


def _at_the_margin(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Take the common indentation from a body that is shown without its `def` line."""
    listings = [block for block in blocks if isinstance(block, Listing)]
    texts = [line.text for listing in listings for row in listing.rows for line in row.lines if line.text.strip()]
    margin = min((len(text) - len(text.lstrip()) for text in texts), default=0)
    return tuple(_moved(block, margin) if isinstance(block, Listing) else block for block in blocks)


def _moved(listing: Listing, margin: int) -> Listing:
    def moved(line: CodeLine) -> CodeLine:
        cut = min(margin, len(line.text) - len(line.text.lstrip()))
        return replace(line, text=line.text[cut:], indent=line.indent + cut)

    return Listing(tuple(replace(row, lines=tuple(map(moved, row.lines))) for row in listing.rows))


class _Folder:
    """Walks a page's blocks in order, remembering what it has shown."""

    def __init__(self) -> None:
        self._bodies: Counter[str] = Counter()
        self._first: dict[str, str] = {}  # anchor of each function's first shown call
        self._anchors: Counter[str] = Counter()

    def blocks(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        return tuple(self._block(block) for block in blocks)

    def _block(self, block: Block) -> Block:
        if isinstance(block, Call):
            return self._call(block)
        if isinstance(block, Listing):
            return Listing(tuple(self._row(row) for row in block.rows))
        if block.narrative.kind != "text":
            return block
        found = [Heading(level, text, self._anchor(text)) for level, text in prose.headings(block.narrative.text or "")]
        return replace(block, headings=tuple(found))

    def _row(self, row: Row) -> Row:
        shown = {call.frame: self._call(call) for call in calls_shown(row)}
        if not shown:
            return row
        executions = (
            replace(e, calls=tuple(shown.get(call.frame, call) for call in e.calls)) if e.calls else e
            for e in row.executions
        )
        return replace(row, executions=tuple(executions))

    def _call(self, call: Call) -> Call:
        bodies = self._bodies[call.function]
        if bodies == 0 and speaks(call):
            call = replace(call, shown="part", anchor=self._anchor(prose.plain_text(call.title)))
            call = replace(call, blocks=_at_the_margin(call.blocks))
        elif call.troubled:
            call = replace(call, shown="open")
        elif bodies >= BODIES or (bodies and not call.observed):
            return replace(call, shown="named", anchor=self._first[call.function])
        elif bodies == 0 and len(_rows(call)) <= SHORT and call.observed:
            call = replace(call, shown="open")
        self._bodies[call.function] += 1
        self._first.setdefault(call.function, call.anchor)
        return replace(call, blocks=self.blocks(call.blocks))

    def _anchor(self, text: str) -> str:
        """Return an address for a heading that no other heading of the page has."""
        name = prose.slug(text)
        if _TAKEN.fullmatch(name):
            name = f"{name}-heading"
        self._anchors[name] += 1
        return name if self._anchors[name] == 1 else f"{name}-{self._anchors[name]}"
