"""A document → HTML pages that need nothing but themselves.

    writer = HtmlWriter(document, place)
    writer.section(document.sections[0]), writer.index()        two pages as text

Each page carries its style, its script and its figures, and a security policy that allows only these, by
their hashes. Templates escape everything; what is Markup here was made by `prose`, `svg` or `highlight`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from trace_tools import formats, summaries
from trace_tools.rendering import columns, figures, overview, prose
from trace_tools.rendering.charts.histogram import histogram
from trace_tools.rendering.charts.of_pages import index_figures, section_figures
from trace_tools.rendering.charts.roofline import Roof
from trace_tools.rendering.charts.samples import samples
from trace_tools.rendering.charts.storage import Views, storage, views_of
from trace_tools.rendering.charts.svg import embedded
from trace_tools.rendering.columns import ColumnsBlock
from trace_tools.rendering.document import (
    Call,
    CodeLine,
    Document,
    Listing,
    Narration,
    Notice,
    Section,
    SourceText,
    shared_storages,
)
from trace_tools.rendering.highlight import highlighted
from trace_tools.rendering.page_base import HERE, assets, environment
from trace_tools.rendering.pictures import Picture
from trace_tools.rendering.player import StepBlock, step_block
from trace_tools.rendering.remarks import Remark, below, remarks
from trace_tools.rendering.search import SearchIndex
from trace_tools.rendering.varied import in_words
from trace_tools.schema import Narrative, Scalar, Value

ROWS = 500  # of a table
DOTS = 6  # colours of storages
PAGE = 398_000  # bytes of a page, its index for the search included
LEAST = 20_000  # bytes of that index, on a page of any size
NUMBER = re.compile(r"[-−+~≈<>≤≥×]?\s?\d[\d,.]*(e[-+]?\d+)?\s?[%×]?")  # a table's cell that the lecture wrote itself
NO_NUMBER = (None, "", "-", "–", "—")


@dataclass(frozen=True, slots=True)
class MachineLink:
    """One entry of the machine switcher."""

    name: str
    link: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a document's pages need to know about where they will lie."""

    machines: Callable[[Section | None], Sequence[MachineLink]]
    picture: Callable[[str], Picture | None]
    columns: Callable[[Section], ColumnsBlock] = lambda section: columns.NOTHING  # of the other machines
    roofs: Callable[[Section | None], Sequence[Roof]] = lambda section: ()  # of the other machines, with their steps
    home: str = "index.html"  # of the whole site
    has_trace: bool = True  # trace.yaml lies beside the pages
    notices: tuple[Notice, ...] = ()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    found = environment(HERE / "templates")
    found.filters |= {
        "prose": lambda text: Markup(prose.to_html(text)),
        "drawing": Markup,  # of `charts`
        "remarks": remarks,
        "below": below,
        "time": overview.section_time,
        "claim": overview.claim_texts,
    }
    found.tests |= {
        "listing": lambda block: isinstance(block, Listing),
        "call": lambda block: isinstance(block, Call),
        "failing": lambda row: any(e.troubled for e in row.executions),
    }
    return found


def _cell(cell: Scalar) -> str | Markup:
    if cell is None:
        return "–"
    return Markup(prose.inline_html(cell)) if isinstance(cell, str) else formats.cell(cell)


@lru_cache(maxsize=32)
def _highlighted(source: SourceText) -> tuple[str, ...]:
    return highlighted(source.lines)


class HtmlWriter:
    """Writes the pages of one document."""

    def __init__(self, document: Document, place: Surroundings) -> None:
        self._document = document
        self._place = place
        self._search = SearchIndex(document)

    def section(self, section: Section) -> str:
        """Return the page of one section."""
        sections = self._document.sections
        at = sections.index(section)
        block = step_block(section)
        page = self._page(section, section.shared, [*overview.section_notices(section), *self._about_steps(block)])
        page.previous = sections[at - 1] if at else None
        page.next = sections[at + 1] if at + 1 < len(sections) else None
        beside = self._place.columns(section)
        drawn = section_figures(section, self._document, self._place.roofs(section))
        names = [
            "page",
            "search",
            "figures",
            *(["player"] if block.kept else []),
            *(["machines"] if beside.columns else []),
        ]
        shown = {"steps": block, "beside": beside, "drawn": drawn}
        return self._render("section.html.j2", page, assets=assets(*names), section=section, **shown)

    def _about_steps(self, block: StepBlock) -> Iterator[Notice]:
        """Say on the page that its player does not have all steps."""
        if block.kept < block.total:
            link = "trace.yaml" if self._place.has_trace else None
            told = "the first and last executions of each line, and those that changed something"
            yield Notice("info", f"The player has {block.kept:,} of {block.total:,} steps: {told}.", link)

    def index(self) -> str:
        """Return the machine's own index."""
        document = self._document
        page = self._page(None, shared_storages(document.opening), overview.document_notices(document))
        found = overview.machine_overview(document)
        drawn = index_figures(document, self._place.roofs(None))
        names = assets("page", "search", "figures")
        return self._render("index.html.j2", page, assets=names, overview=found, drawn=drawn)

    def setup(self) -> str | None:
        """Return the page of the code around the sections; None where there is none."""
        around = overview.around(self._document)
        if not around:
            return None
        page = self._page(None, shared_storages(around), ())
        page.is_setup = True
        return self._render("setup.html.j2", page, assets=assets("page", "search"))

    def _page(self, section: Section | None, shared: Sequence[str], notices: Iterable[Notice]) -> _HtmlPage:
        shown = (*self._document.notices, *self._place.notices, *notices)
        return _HtmlPage(self._document, self._place, section, shared, shown)

    def _render(self, template: str, page: _HtmlPage, **more: Any) -> str:
        found = _environment().get_template(template)
        return _with_index(found.render(document=self._document, page=page, **more), self._search)


def site_index(
    title: str,
    machines: Sequence[overview.MachineRow],
    sections: Sequence[overview.SectionRow],
    searched: tuple[str, SearchIndex] | None = None,
    more: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page that lists every machine and section; `searched` is the machine whose pages it searches.

    `more` are links to other pages that lie below: name, address.
    """
    template = _environment().get_template("site.html.j2")
    name, index = searched or ("", None)
    names = ("page", "search") if index is not None else ("page",)
    text = template.render(
        title=title, machines=machines, sections=sections, searched=name, more=more, assets=assets(*names)
    )
    return text if index is None else _with_index(text, index)


def _with_index(page: str, index: SearchIndex) -> str:
    """Put the index for the search into a page, as much of it as there is room for; write its figures briefly."""
    page = re.sub(r"<svg .*?</svg>", lambda figure: embedded(figure[0]), page, flags=re.DOTALL)
    head, place, tail = page.partition('<template id="index">')
    room = PAGE - len(page.encode("utf-8"))
    return head + place + index.within(max(LEAST, room)) + tail


@dataclass
class _HtmlPage:
    """What the templates ask about one page."""

    document: Document
    place: Surroundings
    section: Section | None
    shared: Sequence[str]
    notices: tuple[Notice, ...]
    previous: Section | None = None
    next: Section | None = None
    is_setup: bool = False

    @property
    def speaks(self) -> bool:
        """Whether `main` itself says something: that stands on the index."""
        return overview.speaks(self.document)

    @property
    def has_setup(self) -> bool:
        """Whether there is a page of the code around the sections."""
        return bool(overview.around(self.document))

    @property
    def machines(self) -> Sequence[MachineLink]:
        return self.place.machines(self.section)

    @property
    def home(self) -> str:
        return self.place.home

    def meta(self, section: Section | None = None) -> Markup:
        """Return the line under a page's title."""
        parts = [escape(part) for part in overview.meta(self.document, section)]
        if self.place.has_trace:
            parts.append(Markup('<a href="trace.yaml">trace.yaml</a>'))
        return Markup(" · ").join(parts)

    def code(self, line: CodeLine) -> Markup:
        """Return a source line, highlighted as part of its whole source, without its margin."""
        text = self._highlighted[line.source][line.number - 1]
        return Markup(_without_margin(text, line.indent))

    def prose(self, said: Narration) -> Markup:
        anchors = [heading.anchor for heading in said.headings]
        told = said.narrative
        return Markup(prose.to_html(told.text or "", anchors, self.image, told.varied or (), _ranges_of(said)))

    def cells(self, said: Narration) -> Iterator[list[Markup | str]]:
        """Yield the rows of a table; a cell that varied has its range on hover and focus."""
        varied = {(one.row, one.column): (number, one) for number, one in enumerate(said.narrative.varied or ())}
        for row, cells in enumerate((said.narrative.rows or [])[:ROWS]):
            shown = [_cell(cell) for cell in cells]
            for column in range(len(cells)):
                if (row, column) in varied:
                    number, one = varied[row, column]
                    told = prose.with_range(escape(shown[column]), in_words(one), f"{_ranges_of(said)}-{number}")
                    shown[column] = Markup(told)
            yield shown

    def reference(self, link: Narrative) -> Markup:
        """Return a link's title, as a link when its address is safe to follow."""
        title = formats.one_line(link.title or link.url or "a reference", 300)
        url = prose.safe_url(link.url or "")
        return Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, title) if url else escape(title)

    def image(self, address: str) -> str | None:
        picture = self.place.picture(address)
        return None if picture is None else picture.inline or f"figures/{picture.name}"

    def figure(self, said: Narration) -> Markup | None:
        drawn = figures.figure(said.narrative, f"fig{said.number}")
        return None if drawn is None else Markup(drawn)

    def is_numeric(self, table: Narrative, column: int) -> bool:
        """Whether a table's column holds numbers, which are set to the right; a dash stands for none."""
        cells = [row[column] for row in table.rows or [] if column < len(row)]
        found = [cell for cell in cells if cell not in NO_NUMBER]
        return bool(found) and all(isinstance(cell, (int, float)) or NUMBER.fullmatch(str(cell)) for cell in found)

    def dot(self, value: Value | None) -> Markup:
        """Return the coloured dot of a storage that several expressions share."""
        place = self._storage_place(value)
        return Markup("") if place is None else Markup('<span class="dot s{}"></span>').format(place % DOTS + 1)

    def storage(self, value: Value | None) -> Markup:
        """Return the label of such a storage: colour alone says nothing to some."""
        place = self._storage_place(value)
        if place is None or value is None or value.tensor is None:
            return Markup("")
        label = formats.one_line(value.tensor.storage or "", 20)
        return Markup(' <span class="storage s{}">storage {}</span>').format(place % DOTS + 1, label)

    def _storage_place(self, value: Value | None) -> int | None:
        storage = value.tensor.storage if value is not None and value.tensor is not None else None
        return self.shared.index(storage) if storage is not None and storage in self.shared else None

    def grids(self, value: Value | None) -> list[tuple[str, list[list[str]]]]:
        if value is None or value.tensor is None or not value.tensor.shape:
            return []
        alone = len(value.tensor.shape) == 1 and len(value.tensor.elements or ()) <= summaries.INLINE_ELEMENTS
        return [] if alone and value.tensor.elements is not None else summaries.grids(value.tensor)

    def drawn(self, remark: Remark) -> Markup:
        """Return what a closer look at a remark shows as a figure: samples, the storage, a histogram."""
        value = remark.value
        tensor = value.tensor if value is not None else None
        drawn = samples(remark.timing) if remark.timing is not None else None
        if tensor is not None and tensor.storage is not None:
            drawn = storage(remark.name, tensor, self._views.get(tensor.storage, ()))
        if drawn is None and tensor is not None and tensor.statistics is not None:
            drawn = histogram(tensor.statistics)
        box = '<div class="drawnbox" tabindex="0" role="group" aria-label="Figure">{}</div>'
        return Markup(box).format(Markup(drawn)) if drawn else Markup("")

    @cached_property
    def _highlighted(self) -> list[tuple[str, ...]]:
        return [_highlighted(source) for source in self.document.sources]

    @cached_property
    def _views(self) -> Views:
        document = self.document
        return views_of(self.section.blocks if self.section else (*document.opening, *document.setup))

    def is_small(self, value: Value | None) -> bool:
        """Whether a tensor's elements stand beside the line without being asked for."""
        return value is not None and summaries.is_small(value)


def _ranges_of(said: Narration) -> str:
    return f"range-{said.number}"


def _without_margin(text: str, margin: int) -> str:
    """Remove leading blanks from a highlighted line; in a string of several lines they stand inside its tag."""
    return re.sub(rf"^(<[^>]*>)?[ \t]{{0,{margin}}}", r"\1", text)
