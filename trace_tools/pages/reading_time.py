"""Estimate how long a page takes: its words, its open code and its questions.

reading_minutes(section.blocks)                  6, its core
reading_minutes(section.blocks, deeper=True)     3, its folded parts
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trace_tools.pages.document import Block, Call, CodeListing, Narration, stretches
from trace_tools.pages.narration import FORMATS
from trace_tools.trace.model import Ask, Link, Note, Text

# A lecture's prose is read slower than a novel: adults read English non-fiction at 238 words a minute (the mean of 190
# studies in Brysbaert, "How many words do we read per minute?", Journal of Memory and Language 109, 2019). The times of
# a line of code and of a question are estimates of ours.
WORDS_A_MINUTE, LINE_S, QUESTION_S = 200, 2, 40
_WORD = re.compile(r"[^\W_][\w.%’'-]*")


def reading_minutes(blocks: Sequence[Block], *, deeper: bool | None = False) -> int:
    """Return the reading time of a page or part: of its core, with `deeper` of its folded parts, with None of both.

    The result is in minutes, rounded. Folded content (answers, called functions, lines that did not run), links and
    observations beside code are left out.
    """
    minutes = sum(_minutes(block) for block, in_deeper in _parts(blocks) if deeper is None or in_deeper is deeper)
    return max(round(minutes), 1) if minutes else 0


def _parts(blocks: Sequence[Block], in_deeper: bool = False) -> Iterator[tuple[Block, bool]]:
    """Yield the open blocks of a page, each with whether it is in a deeper part."""
    for block in blocks:
        if isinstance(block, Call) and block.shown == "part":
            yield Narration(Text(text=block.title), 0), in_deeper
            yield from _parts(block.blocks, in_deeper or block.deeper)
        else:
            yield block, in_deeper


def _minutes(block: Block) -> float:
    if isinstance(block, Narration):
        it = block.narrative
        text = "" if isinstance(it, Link | Note) else FORMATS[type(it)].search(it)
        return len(_WORD.findall(text)) / WORDS_A_MINUTE + isinstance(it, Ask) * QUESTION_S / 60
    if isinstance(block, CodeListing):
        rows = (row for unrun, some in stretches(block.rows) if not unrun for row in some)
        return sum(bool(line.text.strip()) for row in rows for line in row.lines) * LINE_S / 60
    return 0.0
