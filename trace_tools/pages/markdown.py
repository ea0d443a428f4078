"""Write a document as Markdown pages for a code host.

    pages = MarkdownWriter(document, site)
    pages.section(document.sections[0]), pages.index()      two pages as text
    pages.files                                             {"figures/00-overview-fig1.svg": b"…"}

Code is in fences, with observations as comments. Plots and images are files next to the page; long values are folded in
`<details>`, the only HTML. Text from a trace can never close a fence or open a tag.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trace_tools.analysis import summaries
from trace_tools.pages import overview
from trace_tools.pages.document import (
    Block,
    Call,
    CodeListing,
    CodeRow,
    Document,
    Heading,
    MarginNote,
    Notice,
    Section,
    shared_storages,
)
from trace_tools.pages.exercises import Exercise
from trace_tools.pages.html import SiteContext
from trace_tools.pages.margin import counted_once
from trace_tools.pages.narration import as_markdown
from trace_tools.pages.section_charts import section_figures
from trace_tools.presentation import prose
from trace_tools.presentation.charts import svg
from trace_tools.presentation.markdown_text import (
    code_span,
    escape,
    fenced,
    folded,
    inline_markdown,
    joined,
    table,
    to_markdown,
)
from trace_tools.presentation.report import Part, markdown_blocks
from trace_tools.trace.model import Ask
from trace_tools.util import formats

WIDEST = 116  # characters of a line with its comment
COLUMN = 64  # last column where comments start
_PAGE = re.compile(r"\]\(((?:[\w-]+/)*)([\w-]+)\.html(?:#([\w.-]*))?\)")  # a link to one of our pages


def _anchors(section: Section) -> dict[str, str]:
    """Map our anchors of a section to GitHub's, which derive from headings."""
    anchors: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for heading in (Heading(1, f"{section.number} {section.title}", ""), *section.headings):
        text = prose.readable_text(heading.text).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        anchors[heading.anchor] = f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor
        counts[anchor] += 1
    return anchors


class MarkdownWriter:
    """Writes the pages of one document; `files` are their figures."""

    def __init__(self, document: Document, site: SiteContext) -> None:
        self._document = document
        self._site = site
        self._page = "index"
        self._shared: Sequence[str] = ()  # storages of the page shared by several expressions
        self._asked: list[Exercise] = []  # questions of the page whose answers are not yet written
        self.files: dict[str, bytes] = {}

    def section(self, section: Section) -> str:
        """Return the page of one section."""
        self._page, self._shared = section.slug, section.shared
        sections = self._document.sections
        at = sections.index(section)
        turn = [f"← {_linked(other)}" for other in sections[at - 1 : at]]
        turn += [f"{_linked(other)} →" for other in sections[at + 1 : at + 2]]
        drawn = section_figures(section, self._document)
        figures = [Part("This section in figures", drawn)] if drawn else []
        page = joined(
            [
                f"# {section.number} {inline_markdown(section.title)}",
                self._meta(section),
                *self._notices(overview.section_notices(section, self._document)),
                to_markdown(section.summary, self._image) if section.summary else "",
                *self._blocks(section.blocks),
                *self._answers(),
                *markdown_blocks(figures),
                "---\n\n" + " · ".join(turn) if turn else "",
            ]
        )
        return self._on_a_code_host(page)

    def index(self) -> str:
        """Return the machine's own index."""
        document, parts = self._document, list(overview.index_parts(self._document))
        self._page, self._shared = "index", shared_storages((*document.opening, *document.setup))
        setup = folded("Module code that runs before `main`", self._blocks(document.setup))
        page = joined(
            [
                f"# {inline_markdown(document.title)}",
                self._meta(None),
                *self._notices(overview.document_notices(document)),
                *(self._blocks(document.opening) if overview.speaks(document) else ()),
                *markdown_blocks(parts),
                *(["## Setup", *setup] if document.setup else []),
                *self._answers(),
            ]
        )
        return self._on_a_code_host(page)

    # --- around the text ---

    def _meta(self, section: Section | None) -> str:
        parts = [escape(part) for part in overview.meta(self._document, section)]
        if self._site.has_trace:
            parts.append("[trace.yaml](trace.yaml)")
        parts.append(f"[all machines]({self._site.root}index.md)" if section is None else "[contents](index.md)")
        return " · ".join(parts)

    def _on_a_code_host(self, page: str) -> str:
        """Redirect links to other pages to their Markdown, and to the code host's anchors."""
        pages = {section.slug: section for section in self._document.sections}

        def to_markdown_page(match: re.Match[str]) -> str:
            section, anchor = pages.get(match[2]), match[3] or ""
            if section is None:
                return "](index.md)" if match[2] == overview.SETUP else match[0]  # its code is on the index
            heading = _anchors(section).get(anchor) if anchor else None
            return f"]({section.slug}.md{f'#{heading}' if heading else ''})"

        return _PAGE.sub(to_markdown_page, page)

    def _notices(self, more: Iterable[Notice]) -> Iterator[str]:
        for notice in (*self._document.notices, *more):
            mark = {"failed": "✗ ", "info": ""}.get(notice.kind, "⚠ ")
            link = f" [Show it]({notice.link})." if notice.link and not notice.link.startswith(self._page) else ""
            yield f"> {mark}{escape(notice.text)}{link}"

    # --- blocks ---

    def _blocks(self, blocks: Iterable[Block]) -> Iterator[str]:
        for block in blocks:
            if isinstance(block, CodeListing):
                yield from self._listing(block.rows)
            elif isinstance(block, Call):
                yield from self._call(block)
            else:
                if isinstance(block.narrative, Ask):
                    self._asked.append(Exercise(block.narrative))
                yield as_markdown(block, self._image, self._drawing, len(self._asked))

    def _answers(self) -> Iterator[str]:
        """Write the answers to the questions so far, folded, so that readers do not see them by accident."""
        answers = [exercise.answer_markdown(number) for number, exercise in enumerate(self._asked, 1)]
        yield from ["## Answers", *folded("Show the answers", answers)] if answers else []
        self._asked = []

    def _call(self, call: Call) -> Iterator[str]:
        if call.shown == "part":
            yield f"{'#' * call.level} {inline_markdown(call.title)}"
            inner = self._blocks(call.blocks)
            yield from folded("Deeper", inner) if call.deeper else inner
        elif call.shown != "named":
            position = f", call {call.number} of {call.total}" if call.total > 1 else ""
            title = f"`{call.name}`{position}"
            yield from folded(title, self._blocks(call.blocks))

    def _listing(self, rows: Sequence[CodeRow]) -> Iterator[str]:
        """Write rows as fences, interrupted by the blocks under a row."""
        gathered: list[CodeRow] = []
        for index, row in enumerate(rows):
            gathered.append(row)
            if row.under or index == len(rows) - 1:
                yield fenced("\n".join(_commented(gathered, self._shared)), "python")
                yield from _details(gathered)
                gathered = []
            for it in row.under:
                yield from self._call(it.call) if it.call is not None else [_under(it)]

    # --- files next to the page ---

    def _drawing(self, name: str, drawn: str) -> str:
        path = f"figures/{self._page}-{name}.svg"
        self.files[path] = svg.standalone(drawn).encode("utf-8")
        return path

    def _image(self, address: str) -> str | None:
        picture = self._site.picture(address)
        if picture is None:
            return None
        self.files[f"figures/{picture.name}"] = picture.content
        return f"figures/{picture.name}"


def _linked(section: Section) -> str:
    return f"[{section.number} {inline_markdown(section.title)}]({section.slug}.md)"


def _commented(rows: Sequence[CodeRow], shared: Sequence[str]) -> Iterator[str]:
    """Write code with its notes as comments: after the line if they fit, else on their own lines."""
    written = []
    for row, beside in counted_once(rows):
        written.append(([formats.visible(x.text) for x in row.lines], [_comment(note, shared) for note in beside]))
    widths = [len(code[0]) for code, comments in written if comments and len(code) == 1]
    column = max((width for width in widths if width <= COLUMN), default=0)
    for code, comments in written:
        line = " · ".join(comments)
        if line and len(code) == 1 and max(column, len(code[0])) + len(line) + 4 <= WIDEST:
            yield f"{code[0].ljust(column)}  # {line}"
        else:
            yield from code
            margin = " " * (len(code[0]) - len(code[0].lstrip())) if code else ""
            yield from (f"{margin}# → {comment}" for comment in comments)


def _comment(note: MarginNote, shared: Sequence[str]) -> str:
    label = f"{note.label}: " if note.label else ""
    if note.kind in ("held", "failed"):
        mark, plain = ("✓", "holds") if note.kind == "held" else ("✗", "FAILED")
        return f"{label}{mark}" if note.collapsed else f"{label}{mark} {note.text or plain}"
    if note.kind == "caught":
        return f"{label}↯ {note.text}"
    if note.kind == "call":
        return label + f"calls {note.name}" + (f", {note.text}" if note.text else "")
    tensor = note.value.tensor if note.value is not None else None
    if tensor is not None:
        storage = f" · storage {tensor.storage or ''}" if tensor.storage in shared else ""
        return f"{label}{note.name}: {note.text}{storage}"
    return f"{label}{note.name} = {note.text}" if note.name else f"{label}{note.text}"


def _details(rows: Sequence[CodeRow]) -> Iterator[str]:
    """Fold the details of the rows: elements, and values that were cut."""
    parts: list[str] = []
    for row in rows:
        for note in row.beside:
            texts = []  # elements of one or more matrices, or the first rows of a frame, in aligned columns
            for grid in summaries.tables(note.value) if note.value is not None else ():
                columns = range(max(map(len, grid.rows)))
                widths = [max(len(cells[at]) for cells in grid.rows if at < len(cells)) for at in columns]
                lines = ("  ".join(map(str.rjust, cells, widths)).rstrip() for cells in grid.rows)
                texts.append("\n".join([grid.label, *lines] if grid.label else lines))
            cut = note.kind == "value" and "…" in note.text
            if texts or cut:
                facts = "; ".join(f"{escape(name)} {escape(formats.one_line(text, 600))}" for name, text in note.facts)
                line = row.lines[0].number if row.lines else ""
                parts.append(f"**Line {line}, {code_span(note.name)}**" + (f": {facts}" if facts else ""))
                parts += [fenced(text, "text") for text in texts]
    if parts:
        yield from folded("More about these lines", parts)


def _under(it: MarginNote) -> str:
    label = f" ({escape(it.label)})" if it.label else ""
    if it.kind == "more":
        return f"*{escape(it.label)}*"
    if it.kind == "stdout":
        return fenced(it.text, "text") + (f"\n*{escape(it.label)}*" if it.label else "")
    if it.kind == "warning":
        return f"> **Warning** {escape(' '.join(it.text.split()))}"
    mark = "✗ " if it.kind == "failure" else ""
    quoted = "".join(f"\n> {line}" for line in fenced(it.text, "text").rstrip("\n").split("\n")) if it.text else ""
    return f"> **{mark}{escape(it.name)}**{label}" + (f"\n>{quoted}" if quoted else "")


def site_index(title: str, machines: Sequence[overview.MachineRow], report: str | None = None) -> str:
    """Return the first page: the lecture's introduction, its sections on the first machine, and every machine."""
    first = machines[0] if machines else None
    toc = []
    for section in first.document.sections if first is not None else ():
        name = f"[{section.number} {inline_markdown(section.title)}]({first.folder if first else ''}/{section.slug}.md)"
        toc.append([name, inline_markdown(overview.opening(section)), overview.reading(section)])
    parts = joined(markdown_blocks(overview.site_parts(machines, report)))
    return joined(
        [
            f"# {inline_markdown(title)}",
            *(f"> ⚠ {escape(it.text)}" for it in (first.document.notices if first else ()) if it.kind == "partial"),
            to_markdown(first.document.promise or "") if first is not None else "",
            *(("## Sections", table(["section", "", "reading"], toc)) if toc else ()),
            _PAGE.sub(r"](\1\2.md)", parts),
        ]
    )
