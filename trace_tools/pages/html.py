"""Write a document as HTML pages that work alone, and the files that their scripts load.

    writer = HtmlWriter(document, site)
    writer.section(document.sections[0])                        a page as text, and its script with data
    writer.index()                                              another page
    one_file(trace)                                             the whole lecture as one self-contained page

Each page contains its text, style and figures, and a content security policy that allows only these, by hash, and
scripts next to the page: the player and its steps, other machines' columns.
Templates escape everything; Markup comes only from `prose`, `svg` and `highlight`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    Section,
    narratives,
    prefix,
    shared_storages,
    views_of,
    visible,
)
from trace_tools.pages.margin import counted_once
from trace_tools.pages.narration import as_html
from trace_tools.pages.pictures import INLINE, Picture, read_picture
from trace_tools.pages.player import step_block
from trace_tools.pages.section_charts import section_figures
from trace_tools.presentation import prose
from trace_tools.presentation.page_shell import IMAGES, Assets, allowed, assets, highlighted
from trace_tools.presentation.report import templates_with_reports
from trace_tools.presentation.storage import Views, storage
from trace_tools.trace.model import Explore, Image, Step, Trace, Value
from trace_tools.util.interpreter import collector_paused

DOTS = 6  # number of colours for storages
# of a note, what stays on one line: shapes, a number and its unit, a name and its value
_TOGETHER = re.compile(
    r"\([\d, ]{,20}\)|'[^']{,14}': |'[^']{,24}'|(?<=\d:) |(?<=\d) (?=[A-Za-zµ])|(?<=[·=…]) |strides |(?<=\w)[-/](?=\w)"
)
_JOINED = str.maketrans({" ": "\u00a0", "-": "-\u2060", "/": "/\u2060"})


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
    templates.filters |= {"counted_once": counted_once, "tables": summaries.tables}
    templates.filters["together"] = lambda text: _TOGETHER.sub(lambda part: part[0].translate(_JOINED), text)
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

    def section(self, section: Section) -> tuple[str, str]:
        """Return the page of one section, and its script: the player's steps, results for other machines' pages."""
        sections = self._document.sections
        at = sections.index(section)
        floored = floors_block(timed_lines(section), known_machines())
        page = self._written(
            "section.html.j2",
            section,
            assets=_allowing(assets("page", "questions", "figures"), section.blocks, self._site.picture),
            notices_shown=(*self._document.notices, *overview.section_notices(section, self._document)),
            floored=bool(floored),
            drawn=section_figures(section, self._document),
            previous=sections[at - 1] if at else None,
            next=sections[at + 1] if at + 1 < len(sections) else None,
        )
        steps = step_block(section, self._document.machine)
        data = json.dumps({"steps": steps, "lines": results_block(section), "floors": floored})
        return page, f"page.section = {data};\n{explorations.script(_explored(section.blocks))}"

    def index(self) -> str:
        """Return the machine's own index."""
        document, files = self._document, assets("page", "index", "report", "figures")
        files = _allowing(files, (*document.opening, *document.setup), self._site.picture)
        notices = (*document.notices, *overview.document_notices(document))
        return self._written("index.html.j2", assets=files, notices_shown=notices)

    def setup(self) -> str | None:
        """Return the page of the code outside sections; None without such code."""
        if not overview.around(self._document):
            return None
        files, notices = assets("page", "figures"), self._document.notices
        return self._written("setup.html.j2", assets=files, notices_shown=notices, is_setup=True)

    def single_page(self) -> str:
        """Return the lecture as one page: its introduction, all sections, the code around them, the run."""
        document, explored, lines = self._document, dict[str, Explore](), dict[str, list[Step]]()
        parts: dict[str, str] = {}  # by id
        for section in document.sections:
            notices, drawn = [*overview.section_notices(section, document)], section_figures(section, document)
            parts[section.slug] = self._written("lesson.html.j2", section, notices_shown=notices, drawn=drawn)
            explored |= _explored(section.blocks)
            lines |= timed_lines(section)
        if overview.around(document):
            code = self._written("around.html.j2")
            parts[overview.SETUP] = f"<h1>Code outside the sections</h1>{code}"
        floored = floors_block(lines, known_machines())
        return self._written(
            "whole.html.j2",
            assets=_alone(explored, floored),
            notices_shown=(*document.notices, *overview.document_notices(document)),
            floored=bool(floored),
            whole=[(identity, Markup(part)) for identity, part in parts.items()],
        )

    def _written(self, template: str, section: Section | None = None, **more: Any) -> str:
        """Return a page or a part of it; on one page of all, links of its prose lead to the other parts."""
        page = _HtmlPage(self._document, self._site, section)
        names = {} if section is None else {"section": section}
        link = partial(_link, self._document, "index" if section is None else section.slug)
        linked = prose.linked.set(link if self._document.one_page else prose.safe_url)
        text = _environment().get_template(template).render(document=self._document, page=page, **names, **more)
        prose.linked.reset(linked)
        return text


def _link(document: Document, slug: str, url: str) -> str | None:
    """Return where a link in the prose of a page leads on the one page of all; None for a file."""
    parts = urlsplit(safe) if (safe := prose.safe_url(url)) else None
    if parts is None or parts.scheme or parts.netloc:
        return safe
    page = parts.path.removeprefix("./").removesuffix(".html") or slug
    section = next((section for section in document.sections if section.slug == page), None)
    if section is not None and parts.fragment:
        return f"#{prefix(section.number, one_page=True)}{parts.fragment}"
    return f"#{page}" if section is not None or page == "index" else None


def _explored(blocks: Sequence[Block]) -> dict[str, Explore]:
    """Return the figures with inputs among these blocks, by their ids."""
    narrations = (it for it in visible(blocks) if isinstance(it, Narration))
    return {f"said-{it.number}": it.narrative for it in narrations if isinstance(it.narrative, Explore)}


def _allowing(files: Assets, blocks: Sequence[Block], picture: Callable[[str], Picture | None]) -> Assets:
    """Allow the hosts of a page's images and videos on the web, and video files next to it."""
    shown = [it.url for it in narratives(blocks) if isinstance(it, Image)]  # and videos
    parts = (urlsplit(url) for url in shown if prose.on_the_web(url) and picture(url) is None)
    sources = " ".join(["'self' data:", *sorted({f"{part.scheme}://{part.netloc}" for part in parts})])
    return replace(files, policy=files.policy.replace(IMAGES, f"img-src {sources}; media-src {sources}"))


def _alone(explored: Mapping[str, Explore], floored: str) -> Assets:
    """Return the style and script of a self-contained page, with a policy that forbids loading anything."""
    shown = assets("page", "questions", "index", "report", "figures")
    data = f"page.section = {json.dumps({'floors': floored})};\n" if floored else ""
    more = assets(*(["compare"] if floored else []), *(["explore"] if explored else [])).js
    files = allowed(shown.css, f"{shown.js}{data}{_inline(explorations.script(explored))}{more}")
    return replace(files, policy=files.policy.replace(IMAGES, "img-src data:; media-src data:"))


def _inline(script: str) -> str:
    """Return the script of explorations for a page's own text, in which strings must not end it."""
    return re.sub(r"<(?=[/!a-zA-Z])", r"\\u003c", script)  # only in strings: comparisons have blanks


def _cover(document: Document) -> dict[str, Any]:
    """Return, for a template, the first figure, text and code that are marked `@cover`, with their writer."""
    first: dict[str, overview.Covered] = {}
    for one in overview.covered(document):
        first.setdefault(one.kind, one)
    figure, code = first.get("figure"), first.get("code")
    explored = _explored([figure.block] if figure is not None else [])
    cover_page = _HtmlPage(document, ALONE, code.section if code is not None else None)
    return {"figure": figure, "words": first.get("text"), "code": code, "cover_page": cover_page, "explored": explored}


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
    cover = _cover(first.document) if first is not None else {}
    files = assets("page", "index", "report", "figures")
    if cover.get("explored"):
        script = _inline(explorations.script(cover["explored"]))
        files = allowed(files.css, f"{files.js}{assets('questions').js}{script}{assets('explore').js}", beside=True)
    return template.render(
        title=title, machines=machines, searched=searched, report=report, assets=files, first=first, **cover
    )


@dataclass(frozen=True)
class _HtmlPage:
    """The data of one page for the templates: of a section, or of the code outside the sections."""

    document: Document
    site: SiteContext
    section: Section | None

    @cached_property
    def blocks(self) -> Sequence[Block]:
        return self.section.blocks if self.section else (*self.document.opening, *self.document.setup)

    @cached_property
    def shared(self) -> Sequence[str]:
        """The storages that several expressions share."""
        return self.section.shared if self.section else shared_storages(self.blocks)

    @property
    def prefix(self) -> str:
        """How the anchors of its section begin."""
        return "" if self.section is None else prefix(self.section.number, one_page=self.document.one_page)

    @property
    def home(self) -> str:
        """The address of the site's first page; of the text on a page that is alone."""
        return "#text" if self.site.alone else f"{self.site.root}index.html"

    def meta(self, section: Section | None = None) -> Markup:
        """Return the line under a page's title."""
        parts = [escape(part) for part in overview.meta(self.document, section)]
        if self.site.has_trace:
            parts.append(Markup('<a href="trace.yaml">trace.yaml</a>'))
        return Markup(" · ").join(parts)

    def code(self, line: CodeLine) -> Markup:
        """Return a source line without its margin, highlighted in the context of the source."""
        # in a string of several lines, leading blanks are inside its tag
        text = re.sub(rf"^(<[^>]*>)?[ \t]{{0,{line.indent}}}", r"\1", self._highlighted[line.number - 1])
        text = re.sub(r'(class="c"># ?-{60})-+', r"\1", text)  # a rule stays on one line
        # code before a comment is an element of its own, so that the comment can stand above it
        return Markup(re.sub(r'^(.*\S *)(<\w+ class="c">[^<]*</\w+>)$', r"<span>\1</span>\2", text))

    def narration(self, narration: Narration) -> Markup:
        return as_html(narration, self.image, web=not self.site.alone)

    def image(self, address: str) -> str | None:
        picture = self.site.picture(address)
        if picture is None:
            return None
        is_inside = self.site.alone or len(picture.content) <= INLINE
        return picture.address if is_inside else f"figures/{picture.name}"

    def storage(self, value: Value | None) -> tuple[str, int]:
        """Return the label of a storage that several expressions share, and the number of its colour; else ""."""
        label = value.tensor.storage if value is not None and value.tensor is not None else None
        return (label, self.shared.index(label) % DOTS + 1) if label and label in self.shared else ("", 0)

    def cells(self, value: Value | None) -> Markup:
        """Return the position of a matrix in a shared storage, for `page.js`: label, offset, strides."""
        label, _ = self.storage(value)
        tensor = value.tensor if label and value is not None and summaries.is_small(value) else None
        if tensor is None or tensor.strides is None:
            return Markup("")
        return Markup(' data-cells="{} {}"').format(label, " ".join(map(str, (tensor.offset or 0, *tensor.strides))))

    def stored(self, note: MarginNote) -> tuple[summaries.ElementGrid, list[str]] | None:
        """Return the storage of a note's tensor, and what there is to say of it."""
        tensor = note.value.tensor if note.value is not None else None
        if tensor is None or tensor.storage is None:
            return None
        return storage(note.name, tensor, self._views.get(tensor.storage, ()))

    @cached_property
    def _highlighted(self) -> tuple[str, ...]:
        return highlighted(self.document.source)

    @cached_property
    def _views(self) -> Views:
        return views_of(self.blocks)
