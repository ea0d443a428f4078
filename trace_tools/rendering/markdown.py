"""A document → Markdown pages that read well on a code host.

    pages = MarkdownWriter(document, place)
    pages.section(document.sections[0]), pages.index()      two pages as text
    pages.files                                             {"figures/00-overview-fig1.svg": b"…"}

Code stands in fences with what was observed as comments, plots and images in files beside the page, long
values behind `<details>`, which is the only HTML here. Nothing from a trace can end a fence or begin a tag.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trace_tools import formats, summaries
from trace_tools.rendering import overview, prose
from trace_tools.rendering.charts import svg
from trace_tools.rendering.charts.of_pages import PageFigure, index_figures, section_figures
from trace_tools.rendering.columns import Column, differing_lines
from trace_tools.rendering.document import (
    Block,
    Call,
    CodeListing,
    CodeRow,
    Document,
    Heading,
    Notice,
    Section,
    reading_minutes,
    shared_storages,
)
from trace_tools.rendering.html import Surroundings
from trace_tools.rendering.markdown_text import (
    code_span,
    escape,
    fenced,
    folded,
    inline_markdown,
    joined,
    table,
    to_markdown,
)
from trace_tools.rendering.narration import as_markdown
from trace_tools.rendering.remarks import Remark, below, remarked, remarks

WIDEST = 116  # characters of a line with its comment
COLUMN = 64  # where comments stand at most


_TO_A_SECTION = re.compile(r"\]\(([\w-]+)\.html(?:#([\w.-]*))?\)")


def _anchors(section: Section) -> dict[str, str]:
    """Return a section's anchors as GitHub makes them of its headings, by ours."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for heading in (Heading(1, f"{section.number} {section.title}", ""), *section.headings):
        text = prose.plain_text(heading.text).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found[heading.anchor] = f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor
        counts[anchor] += 1
    return found


class MarkdownWriter:
    """Writes the pages of one document; `files` are the figures they show."""

    def __init__(self, document: Document, place: Surroundings) -> None:
        self._document = document
        self._place = place
        self._page = "index"
        self._shared: Sequence[str] = ()  # storages of the page that several of its expressions lie in
        self.files: dict[str, bytes] = {}

    def section(self, section: Section) -> str:
        """Return the page of one section."""
        self._page, self._shared = section.slug, section.shared
        sections = self._document.sections
        at = sections.index(section)
        turn = [f"← {_linked(other)}" for other in sections[at - 1 : at]]
        turn += [f"{_linked(other)} →" for other in sections[at + 1 : at + 2]]
        roofs = self._place.roofs(section)
        page = joined(
            [
                f"# {section.number} {inline_markdown(section.title)}",
                self._meta(section),
                *self._notices(overview.section_notices(section)),
                to_markdown(section.summary, self._image) if section.summary else "",
                *self._blocks(section.blocks),
                *self._drawn("This section in figures", section_figures(section, self._document, roofs)),
                *_differing(self._place.columns(section).columns),
                "---\n\n" + " · ".join(turn) if turn else "",
            ]
        )
        return self._on_a_code_host(page)

    def index(self) -> str:
        """Return the machine's own index."""
        document = self._document
        self._page, self._shared = "index", shared_storages((*document.opening, *document.setup))
        setup = self._blocks(document.setup) if document.setup else ()
        processes = ["process", "ended", "first run", "second", "memory, at most", "remarks"]
        return joined(
            [
                f"# {inline_markdown(document.title)}",
                self._meta(None),
                *self._notices(overview.document_notices(document)),
                *(self._blocks(document.opening) if overview.speaks(document) else ()),
                "## Sections",
                table(["", "section", "reading", "claims", "time"], list(map(_entry, document.sections))),
                *self._drawn("The run in figures", index_figures(document, self._place.roofs(None))),
                "## The machine",
                table(["", ""], _escaped([*overview.headline(document), *overview.machine_facts(document.machine)])),
                table(["peak", "at most", "source"], _escaped(map(overview.peak_texts, document.machine.peaks))),
                "## The run",
                table(["", ""], _escaped(overview.run_facts(document))),
                table(processes, _escaped(map(overview.process_texts, document.run.processes))),
                *_claims(overview.claim_lists(document)),
                *(["## Setup", *folded("What the module does before `main`", setup)] if document.setup else []),
            ]
        )

    # --- around the text ---

    def _meta(self, section: Section | None) -> str:
        parts = [escape(part) for part in overview.meta(self._document, section)]
        if self._place.has_trace:
            parts.append("[trace.yaml](trace.yaml)")
        if section is None:
            home = self._place.home.removesuffix(".html")
            return " · ".join([*parts, f"[all machines]({home}.md)"])
        return " · ".join([*parts, "[contents](index.md)"])

    def _on_a_code_host(self, page: str) -> str:
        """Let links between sections lead to their Markdown, and to the anchors that a code host gives its headings."""
        pages = {section.slug: section for section in self._document.sections}

        def there(found: re.Match[str]) -> str:
            section, anchor = pages.get(found[1]), found[2] or ""
            if section is None:
                return found[0]
            known = _anchors(section).get(anchor) if anchor else None
            return f"]({section.slug}.md{f'#{known}' if known else ''})"

        fence = ""  # that is open: nothing in it is a link
        lines = page.split("\n")
        for at, line in enumerate(lines):
            marks = re.match(r"`{3,}", line.lstrip(" >"))
            if marks and (not fence or line.strip(" >") == fence):
                fence = "" if fence else marks[0]
            elif not fence:
                lines[at] = _TO_A_SECTION.sub(there, line)
        return "\n".join(lines)

    def _notices(self, more: Iterable[Notice]) -> Iterator[str]:
        for notice in (*self._document.notices, *self._place.notices, *more):
            mark = {"failed": "✗ ", "info": ""}.get(notice.kind, "⚠ ")
            link = _page(notice.link.split(".html")[0]) if notice.link and ".html" in notice.link else None
            yield f"> {mark}{escape(formats.one_line(notice.text, 600))}" + (f" [Look at it]({link})." if link else "")

    # --- blocks ---

    def _blocks(self, blocks: Iterable[Block]) -> Iterator[str]:
        for block in blocks:
            if isinstance(block, CodeListing):
                yield from self._listing(block.rows)
            elif isinstance(block, Call):
                yield from self._call(block)
            else:
                yield as_markdown(block, self._image, self._drawing)

    def _call(self, call: Call) -> Iterator[str]:
        if call.shown == "part":
            yield f"{'#' * call.level} {inline_markdown(call.title)}"
            inner = self._blocks(call.blocks)
            minutes = reading_minutes(call.blocks, deeper=None)
            yield from folded(f"Deeper, {minutes} min", inner) if call.deeper else inner
        elif call.shown != "named":
            which = f", call {call.number} of {call.total}" if call.total > 1 else ""
            title = f"`{formats.one_line(call.name, 60)}`{which}"
            yield from folded(title, self._blocks(call.with_header()))

    def _listing(self, rows: Sequence[CodeRow]) -> Iterator[str]:
        """Write rows as fences, broken where something stands under a row."""
        gathered: list[CodeRow] = []
        for place, row in enumerate(rows):
            gathered.append(row)
            under = below(row)
            if under or place == len(rows) - 1:
                yield fenced("\n".join(_commented(gathered, self._shared)), "python")
                yield from _by_rank(gathered)
                yield from _details(gathered)
                gathered = []
            for it in under:
                yield from self._call(it.call) if it.call is not None else [_below(it)]

    # --- files beside the page ---

    def _drawn(self, heading: str, drawn: Sequence[PageFigure]) -> Iterator[str]:
        """Write the figures of what was measured."""
        if drawn:
            yield f"## {heading}"
        for it in drawn:
            name = self._drawing(it.name, it.svg)
            yield f"### {escape(it.title)}\n\n![{escape(it.title)}]({name})\n\n*{escape(it.caption)}*"

    def _drawing(self, name: str, drawn: str) -> str:
        path = f"figures/{self._page}-{name}.svg"
        self.files[path] = svg.standalone(drawn).encode("utf-8")
        return path

    def _image(self, address: str) -> str | None:
        picture = self._place.picture(address)
        if picture is None:
            return None
        self.files[f"figures/{picture.name}"] = picture.content
        return f"figures/{picture.name}"


def _page(name: str) -> str:
    """Return the file of a page; the code around the sections is on the index."""
    return "index.md" if name == overview.SETUP else f"{name}.md"


def _differing(columns: Sequence[Column]) -> Iterator[str]:
    """List for each other machine the lines that differ there."""
    for column in columns:
        rows = [[str(line), escape(there)] for line, there in differing_lines(column)]
        if rows:
            counted = f"{formats.plural(len(rows), 'line')} {'differs' if len(rows) == 1 else 'differ'}"
            yield from folded(f"On {formats.one_line(column.name, 60)}, {counted}", [table(["line", "there"], rows)])


def _title(section: Section) -> str:
    return f"{section.number} {escape(prose.plain_text(section.title))}"


def _linked(section: Section) -> str:
    return f"[{_title(section)}]({section.slug}.md)"


def _entry(section: Section) -> list[str]:
    failure = f" **✗ {escape(section.failure.type)}**" if section.failure is not None else ""
    link = f"[{inline_markdown(section.title)}]({section.slug}.md){failure}"
    claims, time = _claim_count(section.held, section.failed), overview.section_time(section)
    return [str(section.number), link, overview.reading(section), claims, time]


def _claims(lists: Sequence[overview.ClaimList]) -> Iterator[str]:
    if lists:
        yield "## All claims"
    for listed in lists:
        yield f"### {inline_markdown(listed.title)}"
        rows = []
        for line in listed.claims:
            source, sides, _ = overview.claim_texts(line)
            mark = "✓" if line.claim.held else "**✗**"
            rows.append([mark, f"[{line.line}]({_page(listed.slug)})", code_span(source), escape(sides), line.kind])
        yield table(["", "line", "claim", "was", "is"], rows)


def _claim_count(held: int, failed: int) -> str:
    return " ".join([*([f"{held} ✓"] if held else []), *([f"**{failed} ✗**"] if failed else [])])


def _escaped(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    return [list(map(escape, row)) for row in rows]


def _commented(rows: Sequence[CodeRow], shared: Sequence[str]) -> Iterator[str]:
    """Write code with its remarks as comments: behind the line where they fit, else on lines of their own."""
    written = [
        ([formats.visible(x.text) for x in row.lines], [_comment(r, shared) for r in beside if not _unsaid(r)])
        for row, beside in remarked(rows)
    ]
    fitting = [len(code[0]) for code, comments in written if comments and _fits(code, comments)]
    column = max((width for width in fitting if width <= COLUMN), default=0) + 2
    for code, comments in written:
        if _fits(code, comments) and comments:
            yield code[0].ljust(column) + ("" if len(code[0]) < column else "  ") + "# " + " · ".join(comments)
            continue
        yield from code
        margin = " " * (len(code[0]) - len(code[0].lstrip())) if code else ""
        yield from (f"{margin}# → {comment}" for comment in comments)


def _fits(code: Sequence[str], comments: Sequence[str]) -> bool:
    length = sum(len(comment) + 3 for comment in comments)
    return len(code) == 1 and max(len(code[0]) + 2, min(COLUMN, WIDEST)) + length <= WIDEST


def _unsaid(remark: Remark) -> bool:
    return remark.kind == "time" and remark.quiet  # the details have it


def _comment(remark: Remark, shared: Sequence[str]) -> str:
    label = f"{remark.label}: " if remark.label else ""
    if remark.kind in ("held", "failed"):
        mark, plain = ("✓", "holds") if remark.kind == "held" else ("✗", "FAILED")
        return f"{label}{mark}" if remark.quiet else f"{label}{mark} {remark.text or plain}"
    if remark.kind == "caught":
        return f"{label}↯ {remark.text}"
    if remark.kind == "call":
        return f"{label}calls {remark.name}" + (f", {remark.text}" if remark.text else "")
    if remark.ranks:
        told = "; ".join(f"{ranks}: {text}" for ranks, text in remark.ranks)
        return f"{label}{remark.name} by rank" + (f": {told}" if len(told) <= WIDEST // 2 else ", below")
    tensor = remark.value.tensor if remark.value is not None else None
    if tensor is not None:
        storage = f" · storage {formats.one_line(tensor.storage or '', 20)}" if tensor.storage in shared else ""
        return f"{label}{remark.name}: {remark.text}{storage}"
    return f"{label}{remark.name} = {remark.text}" if remark.name else f"{label}{remark.text}"


def _by_rank(rows: Sequence[CodeRow]) -> Iterator[str]:
    """Yield a table of what is not the same on all ranks, if anything in these rows is not."""
    told = [
        [
            str(row.lines[0].number if row.lines else "") + (f", execution {remark.label}" if remark.label else ""),
            code_span(remark.name),
            escape(ranks),
            escape(text),
        ]
        for row in rows
        for remark in remarks(row)
        for ranks, text in remark.ranks
    ]
    if told:
        yield table(["line", "value", "on", "is"], told)


def _details(rows: Sequence[CodeRow]) -> Iterator[str]:
    """Fold away what a closer look at the rows shows: elements, statistics, meters, what was cut beside its line."""
    parts: list[str] = []
    for row in rows:
        for remark in remarks(row):
            if remark.ranks:
                continue
            grids = _grids(remark)
            cut = remark.kind == "value" and "…" in remark.text
            if grids or (remark.facts and (remark.counted or cut)):
                name = code_span(remark.name) if remark.name else "time"
                line = row.lines[0].number if row.lines else ""
                known = (f"{escape(name)} {escape(formats.one_line(text, 600))}" for name, text in remark.facts)
                parts.append(f"**Line {line}, {name}**: {'; '.join(known)}")
                parts += [fenced(grid, "text") for grid in grids]
    if parts:
        yield from folded("More about these lines", parts)


def _grids(remark: Remark) -> list[str]:
    """Return the elements of a matrix, or of several, in aligned columns."""
    tensor = remark.value.tensor if remark.value is not None else None
    found = []
    for label, rows in summaries.grids(tensor) if tensor is not None and len(tensor.shape) > 1 else ():
        widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(max(map(len, rows)))]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)) for row in rows)
        found.append("\n".join([label, *lines] if label else lines))
    return found


def _below(it: Remark) -> str:
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


def site_index(title: str, machines: Sequence[overview.MachineRow], sections: Sequence[overview.SectionRow]) -> str:
    """Return the first page: what the lecture teaches, its sections on the first machine, and every machine."""
    rows, listed = [], []
    first = machines[0] if machines else None
    toc = []
    for section in first.document.sections if first is not None else ():
        name = f"[{escape(prose.plain_text(section.title))}]({first.folder}/{section.slug}.md)" if first else ""
        toc.append([str(section.number), name, escape(overview.opening_words(section)), overview.reading(section)])
    alike = len({m.used[0] for m in machines}) == 1  # then its name is the column's
    for m in machines:
        name = f"[{escape(m.name)}]({m.folder}/index.md)" + "".join(f" **{escape(note)}**" for note in m.notes)
        rows.append(
            [
                name,
                escape(m.used[1] if alike else " ".join(m.used)),
                str(m.document.run.passes),
                _claim_count(m.document.held, m.document.failed),
                m.duration,
            ]
        )
    for s in sections:
        pages = (f"[{escape(n)}]({address}.md) {_claim_count(held, failed)}" for n, address, held, failed in s.pages)
        listed.append([str(s.number), escape(prose.plain_text(s.title)), ", ".join(pages)])
    return joined(
        [
            f"# {inline_markdown(title)}",
            to_markdown(first.document.promise or "") if first is not None else "",
            *(("## Sections", table(["", "section", "", "reading"], toc)) if toc else ()),
            "## Machines",
            "Every number on these pages was made by running the lecture on the machine named.",
            table(["machine", machines[0].used[0] if alike else "with", "passes", "claims", "time"], rows),
            joined(folded("Claims by section and machine", [table(["", "section", "on"], listed)])),
        ]
    )
