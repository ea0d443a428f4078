"""Write a document as HTML pages that work alone, and the files that their scripts load.

    writer = HtmlWriter(document, site)
    writer.section(document.sections[0]), writer.index()        two pages as text
    writer.section_data(document.sections[0])                   the data that the first page's script loads
    one_file(trace)                                             the whole lecture as one self-contained page

Each page contains its text, style and figures, and a content security policy that allows only these, by hash, and
scripts next to the page: the player and its steps, other machines' columns.
Templates escape everything; Markup comes only from `prose`, `svg` and `highlight`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jinja2 import Environment
from markupsafe import Markup, escape

from trace_tools.analysis import summaries
from trace_tools.machines.peaks import known_machines
from trace_tools.pages import exercises, explorations, overview
from trace_tools.pages.columns import floors_block, results_block, timed_lines
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import (
    Block,
    Call,
    CodeLine,
    CodeListing,
    Document,
    MarginNote,
    Narration,
    Notice,
    Section,
    narratives,
    prefix,
    rows_shown,
    shared_storages,
    stretches,
    visible,
)
from trace_tools.pages.margin import counted_once
from trace_tools.pages.narration import as_html, on_the_web
from trace_tools.pages.pictures import Picture, read_picture
from trace_tools.pages.player import step_block
from trace_tools.pages.reading_time import reading_minutes
from trace_tools.pages.search import index_script
from trace_tools.pages.section_charts import section_figures, views_of
from trace_tools.presentation import prose
from trace_tools.presentation.charts.distributions import histogram, samples
from trace_tools.presentation.charts.storage import Views, storage
from trace_tools.presentation.page_shell import Assets, allowed, assets, highlighted
from trace_tools.presentation.report import templates_with_reports
from trace_tools.trace.model import Explore, Image, Step, Trace, Value, Video
from trace_tools.util import formats
from trace_tools.util.interpreter import collector_paused

DOTS = 6  # number of colours for storages


@dataclass(frozen=True, slots=True)
class SiteContext:
    """The facts about their site that a document's pages need."""

    picture: Callable[[str], Picture | None]
    root: str = "../"  # the site's folder, with its first page and `machines.js`
    has_trace: bool = True  # trace.yaml is next to the pages
    alone: bool = False  # the page is self-contained, with no other files


ALONE = SiteContext(picture=lambda address: None)  # for the site's first page


@lru_cache(maxsize=1)
def _environment() -> Environment:
    templates = templates_with_reports()
    templates.globals["overview"] = overview
    templates.filters |= {"counted_once": counted_once, "stretches": stretches}
    templates.filters |= {"divided": exercises.divided, "masked": exercises.masked, "asked": exercises.asked}
    templates.tests |= {
        "small": summaries.is_small,
        "listing": lambda block: isinstance(block, CodeListing),
        "call": lambda block: isinstance(block, Call),
        "failing": lambda row: any(e.troubled for e in row.executions),
    }
    return templates


def load_templates() -> None:
    """Compile all templates ahead of the first page."""
    for name in _environment().list_templates():
        _environment().get_template(name)


class HtmlWriter:
    """Writes the pages of one document."""

    def __init__(self, document: Document, site: SiteContext) -> None:
        self._document = document
        self._site = site
        self._sections: dict[str, tuple[str, str]] = {}  # page and data, by slug

    def section(self, section: Section) -> str:
        """Return the page of one section."""
        return self._section(section)[0]

    def section_data(self, section: Section) -> str:
        """Return the script for a section's page: the player's steps, results for the pages of other machines."""
        return self._section(section)[1]

    def _section(self, section: Section) -> tuple[str, str]:
        """Return the page of a section and its data, which are made together and once."""
        if section.slug in self._sections:
            return self._sections[section.slug]
        sections, site = self._document.sections, self._site
        at = sections.index(section)
        floored = floors_block(timed_lines(section), known_machines())
        drawn = section_figures(section, self._document)
        explored = _explored(section)
        page = self._page(
            "section.html.j2",
            _HtmlPage(self._document, site, section, section.blocks, section.shared),
            _allowing(
                assets("page", "questions", "figures"),
                section.blocks,
                self._site.picture,
            ),
            overview.section_notices(section),
            section=section,
            floored=bool(floored),
            drawn=drawn,
            previous=sections[at - 1] if at else None,
            next=sections[at + 1] if at + 1 < len(sections) else None,
        )
        data = {
            "steps": step_block(section),
            "lines": results_block(section),
            "floors": floored,
        }
        script = explorations.script(explored)
        self._sections[section.slug] = page, f"page.section = {json.dumps(data)};\n{script}"
        return self._sections[section.slug]

    def index(self) -> str:
        """Return the machine's own index."""
        document = self._document
        around = (*document.opening, *document.setup)
        return self._page(
            "index.html.j2",
            _HtmlPage(document, self._site, None, around, shared_storages(document.opening)),
            _allowing(assets("page", "index", "report", "figures"), around, self._site.picture),
            overview.document_notices(document),
        )

    def single_page(self) -> str:
        """Return the lecture as one page: its introduction, all sections, the code around them, the run."""
        document, around = self._document, overview.around(self._document)
        outside = (*document.opening, *document.setup)
        run = _HtmlPage(document, self._site, None, outside, shared_storages(document.opening))
        setup = _HtmlPage(document, self._site, None, outside, shared_storages(around))
        parts: dict[str, str] = {}  # by id
        explored: dict[str, Explore] = {}
        lines: dict[str, list[Step]] = {}
        linked = prose.linked.set(partial(_link, document, "index"))
        for section in document.sections:
            prose.linked.set(partial(_link, document, section.slug))
            parts[section.slug] = self._part(
                "lesson.html.j2",
                _HtmlPage(document, self._site, section, section.blocks, section.shared),
                section=section,
                notices_shown=[*overview.section_notices(section)],
                drawn=section_figures(section, document),
                floored=False,
            )
            explored |= _explored(section)
            lines |= timed_lines(section)
        prose.linked.set(partial(_link, document, "index"))
        if around:
            title = "<h1>Code outside the sections</h1>"
            parts[overview.SETUP] = title + self._part("around.html.j2", setup)
        first = ""
        if document.sections:
            row = overview.MachineRow(document.machine.name, ".", document)
            cover = overview.cover(document)
            explored |= cover.explored
            first = self._part("promise.html.j2", run, first=row, **_covered(cover, document, self._site))
        floored = floors_block(lines, known_machines())
        text = self._page(
            "whole.html.j2",
            run,
            _alone(explored, floored),
            overview.document_notices(document),
            floored=bool(floored),
            whole=[(identity, Markup(part)) for identity, part in parts.items()],
            first=Markup(first),
        )
        prose.linked.reset(linked)
        return text

    def _part(self, template: str, page: _HtmlPage, **more: Any) -> str:
        return _environment().get_template(template).render(document=self._document, page=page, whole=True, **more)

    def setup(self) -> str | None:
        """Return the page of the code outside sections; None without such code."""
        document, around = self._document, overview.around(self._document)
        if not around:
            return None
        blocks = (*document.opening, *document.setup)
        page = _HtmlPage(document, self._site, None, blocks, shared_storages(around))
        return self._page("setup.html.j2", page, assets("page", "figures"), (), is_setup=True)

    def _page(self, template: str, page: _HtmlPage, assets: Assets, notices: Iterable[Notice], **more: Any) -> str:
        document = self._document
        notices_shown = (*document.notices, *notices)
        template_of = _environment().get_template(template)
        return template_of.render(document=document, page=page, assets=assets, notices_shown=notices_shown, **more)

    def search_index(self) -> str:
        """Return the file that pages load for the first search: the index and the search code."""
        return index_script(self._document) + str(assets("search").js)


def _link(document: Document, slug: str, url: str) -> str | None:
    """Return where a link in the prose of a page leads on the one page of all; None for a file."""
    parts = urlsplit(safe) if (safe := prose.safe_url(url)) else None
    if parts is None or parts.scheme or parts.netloc:
        return safe
    page = parts.path.removeprefix("./").removesuffix(".html") or slug
    section = next((section for section in document.sections if section.slug == page), None)
    if section is not None:
        anchor = prefix(section.number, one_page=True) + unquote(parts.fragment)
        rows = (row.anchor for row in rows_shown(section.blocks))
        if anchor in (*(heading.anchor for heading in section.headings), *rows):
            return f"#{anchor}"
    return f"#{page}" if parts.path and (section is not None or page == "index") else None


def _explored(section: Section) -> dict[str, Explore]:
    """Return the figures with inputs of a section, by their ids."""
    narrations = (it for it in visible(section.blocks) if isinstance(it, Narration))
    return {f"said-{it.number}": it.narrative for it in narrations if isinstance(it.narrative, Explore)}


def _allowing(page_assets: Assets, blocks: Sequence[Block], picture: Callable[[str], Picture | None]) -> Assets:
    """Allow the hosts of a page's images and videos on the web, and video files next to it."""
    shown = [it for it in narratives(blocks) if isinstance(it, Image)]  # and videos
    hosts: dict[str, set[str]] = {"image": set(), "video": set()}
    for it in shown:
        if on_the_web(it.url) and picture(it.url) is None:
            parts = urlsplit(it.url)
            hosts[it.kind].add(f"{parts.scheme}://{parts.netloc}")
    policy = page_assets.policy
    if hosts["image"]:
        policy = policy.replace("img-src 'self' data:", " ".join(["img-src 'self' data:", *sorted(hosts["image"])]))
    if any(isinstance(it, Video) for it in shown):
        policy += "; " + " ".join(["media-src 'self' data:", *sorted(hosts["video"])])
    return replace(page_assets, policy=policy)


def _alone(explored: Mapping[str, Explore], floored: str) -> Assets:
    """Return the style and script of a self-contained page, with a policy that forbids loading anything."""
    shown = assets("page", "questions", "index", "report", "figures")
    data = f"page.section = {json.dumps({'floors': floored})};\n" if floored else ""
    more = assets(*(["compare"] if floored else []), *(["explore"] if explored else [])).js
    files = allowed(shown.css, f"{shown.js}{data}{_inline(explorations.script(explored))}{more}")
    return replace(files, policy=files.policy.replace("img-src 'self' data:", "img-src data:; media-src data:"))


def _inline(script: str) -> str:
    """Return the script of explorations for a page's own text, in which strings must not end it."""
    return re.sub(r"<(?=[/!a-zA-Z])", r"\\u003c", script)  # only in strings: comparisons have blanks


def _covered(cover: overview.Cover, document: Document, site: SiteContext) -> dict[str, Any]:
    """Return, for a template, the figure and the code that are marked `@cover`, with their writers."""
    section = cover.code[0] if cover.code is not None else None
    blocks, shared = (section.blocks, section.shared) if section is not None else ((), ())
    writer = _HtmlPage(document, site, section, blocks, shared)
    return {"cover": cover, "narration": writer.narration, "code_page": writer}


@collector_paused()
def one_file(trace: Trace, lecture: str | None = None, folder: Path | None = None) -> str:
    """Return the whole lecture as one page that loads nothing; `lecture` is its current text, `folder` has its images.

    It has all text, code, notes, figures, questions and calculators, but no player, search and other machines.
    """
    site = SiteContext(picture=lambda address: read_picture(folder, address), has_trace=False, alone=True)
    return HtmlWriter(make_document(trace, lecture, one_page=True), site).single_page()


def site_index(
    title: str,
    machines: Sequence[overview.MachineRow],
    searched: tuple[str, str] | None = None,
    report: str | None = None,
) -> str:
    """Return the first page: the lecture's introduction, its sections on the first machine, and every machine.

    `searched` is the machine for the search, and the folder of its pages; `report` compares the machines.
    """
    template = _environment().get_template("site.html.j2")
    first = machines[0] if machines and machines[0].document.sections else None
    cover = overview.cover(first.document) if first is not None else None
    files = assets("page", "index", "report", "figures")
    if cover is not None and cover.explored:
        script = _inline(explorations.script(cover.explored))
        files = allowed(files.css, f"{files.js}{assets('questions').js}{script}{assets('explore').js}", beside=True)
    covered = _covered(cover, first.document, ALONE) if first is not None and cover is not None else {}
    return template.render(
        title=title, machines=machines, searched=searched, report=report, assets=files, first=first, **covered
    )


@dataclass(frozen=True)
class _HtmlPage:
    """The data of one page for the templates, with its blocks and the storages that several expressions share."""

    document: Document
    site: SiteContext
    section: Section | None
    blocks: Sequence[Block]
    shared: Sequence[str]

    @property
    def prefix(self) -> str:
        """How the anchors of its section begin."""
        return "" if self.section is None else prefix(self.section.number, one_page=self.document.one_page)

    @property
    def home(self) -> str:
        """The address of the site's first page; of the text on a page that is alone."""
        return "#text" if self.site.alone else f"{self.site.root}index.html"

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.document.machine.name

    def meta(self, section: Section | None = None) -> Markup:
        """Return the line under a page's title."""
        parts = [escape(part) for part in overview.meta(self.document, section)]
        if self.site.has_trace:
            parts.append(Markup('<a href="trace.yaml">trace.yaml</a>'))
        return Markup(" · ").join(parts)

    def code(self, line: CodeLine) -> Markup:
        """Return a source line without its margin, highlighted in the context of its source."""
        text = self._highlighted[line.source][line.number - 1]
        # in a string of several lines, leading blanks are inside its tag
        return Markup(re.sub(rf"^(<[^>]*>)?[ \t]{{0,{line.indent}}}", r"\1", text))

    def minutes(self, blocks: Sequence[Block]) -> int:
        """Return the reading time of a part, including its folded parts."""
        return reading_minutes(blocks, deeper=None)

    def narration(self, narration: Narration) -> Markup:
        return as_html(narration, self.image, web=not self.site.alone)

    def image(self, address: str) -> str | None:
        picture = self.site.picture(address)
        if picture is None:
            return None
        return picture.address if self.site.alone else picture.inline or f"figures/{picture.name}"

    def dot(self, value: Value | None) -> Markup:
        """Return the coloured dot of a storage that several expressions share."""
        label, colour = self._storage(value)
        return Markup('<span class="dot s{}"></span>').format(colour) if label else Markup("")

    def storage(self, value: Value | None) -> Markup:
        """Return the label of such a storage, for readers who cannot see its colour."""
        label, colour = self._storage(value)
        words = Markup(' <span class="storage s{}">storage {}</span>')
        return words.format(colour, formats.one_line(label, 20)) if label else Markup("")

    def _storage(self, value: Value | None) -> tuple[str | None, int]:
        label = value.tensor.storage if value is not None and value.tensor is not None else None
        return (label, self.shared.index(label) % DOTS + 1) if label in self.shared else (None, 0)

    def grids(self, value: Value | None) -> list[summaries.ElementGrid]:
        return summaries.tables(value) if value is not None else []

    def cells(self, value: Value | None) -> Markup:
        """Return the position of a matrix in a shared storage, for `linked.js`: label, offset, strides."""
        label, _ = self._storage(value)
        if label is None or value is None or value.tensor is None or value.tensor.strides is None:
            return Markup("")
        if not summaries.is_small(value):
            return Markup("")
        lie = (value.tensor.offset or 0, *value.tensor.strides)
        return Markup(' data-cells="{} {}"').format(formats.one_line(label, 20), " ".join(map(str, lie)))

    def drawn(self, note: MarginNote) -> Markup:
        """Return the figure in the details of a note: samples, the storage, or a histogram."""
        value = note.value
        tensor = value.tensor if value is not None else None
        drawn = samples(note.timing) if note.timing is not None else None
        if tensor is not None and tensor.storage is not None:
            drawn = storage(note.name, tensor, self._views.get(tensor.storage, ()))
        if drawn is None and tensor is not None and tensor.statistics is not None:
            drawn = histogram(tensor.statistics)
        box = '<div class="drawnbox" tabindex="0" role="group" aria-label="Figure">{}</div>'
        return Markup(box).format(Markup(drawn)) if drawn else Markup("")

    @cached_property
    def _highlighted(self) -> list[tuple[str, ...]]:
        return [highlighted(source) for source in self.document.sources]

    @cached_property
    def _views(self) -> Views:
        return views_of(self.blocks)
