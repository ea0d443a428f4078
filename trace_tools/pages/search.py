"""Build the search index of a document, a script that pages load on the first search; no server is needed.

    index_script(document)      'page.searchIndex = "eNqtW…";', the file `search-index.js`

An entry is a link target (a title, a paragraph, a row of code) with its text and the heading above it. The index covers
source and prose, so its size does not depend on the number of steps. `search.js` finds and ranks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from trace_tools.pages import overview
from trace_tools.pages.document import Block, Call, CodeListing, Document, Narration, visible
from trace_tools.pages.narration import FORMATS
from trace_tools.presentation import prose
from trace_tools.presentation.page_shell import packed
from trace_tools.trace.model import Ask, Note, Text
from trace_tools.util import formats

FILE = "search-index.js"
LONGEST = 30_000  # characters of an entry
# Words that mean the same, as people type them and as lectures say it. A query with one also finds the others.
SYNONYMS = (
    ("OOM", "batch size too big", "out of memory"),
    ("batchsize", "batch"),
    ("slow", "memory-bound"),
    ("MFU", "GPU slow", "GPU utilization", "model FLOPs utilization"),
    ("quantization", "int8", "fp8", "a scale for each block"),
    ("how many GPUs", "size the run"),
    ("throughput", "tokens per second", "tokens a second"),
    ("benchmark", "timing", "a median of many"),
    ("kernel launch", "launch-bound", "launch time"),
    ("inference", "decoding"),
    ("multi head attention", "what heads cost"),
    ("peak memory", "memory of a training step"),
    ("gradient checkpointing", "activation checkpoints"),
    ("checkpoint size", "a checkpoint holds"),
    ("crash", "killed and resumed"),
    ("gradient accumulation", "micro-batches"),
    ("Adam memory", "AdamW memory", "bytes per parameter"),
    ("number of parameters", "parameter count", "weights of a layer"),
    ("half precision", "fp16"),
    ("underflow", "loss scaling", "updates that vanish"),
    ("loss doesn't go down", "the first loss"),
    ("reproducible", "seeds", "determinism"),
    ("cost", "price", "dollars"),
    ("cost of training", "days and dollars"),
    ("MoE", "mixture of experts"),
    ("num_workers", "dataloader", "data loader"),
    ("FSDP", "ZeRO3", "ZeRO-3", "fully_shard"),
    ("allreduce", "all-reduce"),
    ("NVLink", "fast links"),
)

Kind = Literal["section", "heading", "failed", "text", "exercise", "claim", "code", "table", "figure", "link", "note"]


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
    index = {
        "pages": list(pages),
        "synonyms": SYNONYMS,
        "entries": list(map(astuple, entries(document))),
    }
    return f'page.searchIndex = "{packed(index)}";\n'


def entries(document: Document) -> Iterator[SearchEntry]:
    """Yield every link target of a document, page by page."""
    lines: set[int] = set()
    for page, section in enumerate(document.sections):
        yield SearchEntry("section", page, "", _line(prose.readable_text(section.title)))
        if section.summary:
            yield SearchEntry("text", page, "", _line(prose.passages(section.summary)))
        yield from _entries(section.blocks, page, lines)
    if overview.speaks(document):
        yield from _entries(document.opening, len(document.sections), lines)
    yield from _entries(overview.around(document), len(document.sections) + 1, lines)


def _entries(blocks: Sequence[Block], page: int, lines: set[int]) -> Iterator[SearchEntry]:
    """Yield the link targets of a page; code that is on several pages is listed for the first one."""
    kind: Kind
    under = ""
    for block in visible(blocks):
        if isinstance(block, Narration):
            narrative, terms = block.narrative, ""
            if isinstance(narrative, Note):  # not on HTML pages
                continue
            if isinstance(narrative, Text | Ask):
                for heading in block.headings:
                    title = _line(heading.text)
                    yield SearchEntry("heading", page, heading.anchor, title, "", under)
                    under = title
                terms = ", ".join(dict.fromkeys(prose.terms(narrative.text)))
            if text := _line(FORMATS[type(narrative)].search(narrative)):
                kind = FORMATS[type(narrative)].entry
                yield SearchEntry(kind, page, f"said-{block.number}", text, formats.shorten(terms, 300), under)
        elif isinstance(block, Call):
            if block.shown == "part":
                title = _line(prose.readable_text(block.title))
                name = block.name if block.name != title else ""
                yield SearchEntry("heading", page, block.anchor, title, name, under)
                under = title
            continue
        for row in block.rows if isinstance(block, CodeListing) else ():
            position = row.lines[0].number if row.lines else None
            if position is not None and position not in lines and any(line.text.strip() for line in row.lines):
                lines.add(position)
                text = formats.visible("\n".join(line.text.rstrip() for line in row.lines))
                claims = [e.step.claim for e in row.executions if e.step.claim is not None]
                kind = "code" if not claims else "claim" if all(claim.held for claim in claims) else "failed"
                observed = dict.fromkeys(name for e in row.executions for name, _ in e.values)
                also = ", ".join(formats.one_line(name, 60) for name in observed if name not in text)
                yield SearchEntry(kind, page, row.anchor, text.strip(), formats.shorten(also, 300), under)


def _line(text: str) -> str:
    return formats.one_line(text, LONGEST)
