"""A document → HTML pages that can be read with nothing beside them, and the files that their scripts load.

    writer = HtmlWriter(document, place)
    writer.section(document.sections[0]), writer.index()        two pages as text
    writer.section_data(document.sections[0])                   what the first one's script shows when it is asked for
    writer.whole()                                              the whole lecture as one page, with nothing beside it

Each page carries its text, its style and its figures, and a security policy that allows only these, by their hashes,
and scripts beside it: the player and its steps, other machines' columns, what is folded beside lines, figures of what
was measured. Templates escape everything; what is Markup here was made by `prose`, `svg` or `highlight`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment
from markupsafe import Markup, escape

from trace_tools import formats, summaries
from trace_tools.floors import ceilings
from trace_tools.rendering import columns, explorations, overview, prose
from trace_tools.rendering.charts.distributions import histogram, samples
from trace_tools.rendering.charts.of_pages import index_figures, section_figures
from trace_tools.rendering.charts.roofline import Roof
from trace_tools.rendering.charts.storage import Views, storage, views_of
from trace_tools.rendering.charts.svg import embedded, frame
from trace_tools.rendering.columns import ColumnsBlock
from trace_tools.rendering.document import (
    Block,
    Call,
    CodeLine,
    CodeListing,
    Document,
    Narration,
    Notice,
    Section,
    SourceText,
    reading_minutes,
    shared_storages,
    stretches,
    visible,
)
from trace_tools.rendering.floored import floors_block, timed_lines
from trace_tools.rendering.highlight import highlighted
from trace_tools.rendering.joined import Place, apart, ids, led, within
from trace_tools.rendering.narration import as_html, on_the_web
from trace_tools.rendering.packing import packed
from trace_tools.rendering.page_base import HERE, Assets, allowed, assets, environment
from trace_tools.rendering.passages import REFERENCES
from trace_tools.rendering.pictures import Picture
from trace_tools.rendering.player import step_block
from trace_tools.rendering.remarks import Remark, below, remarked
from trace_tools.rendering.search import SearchIndex
from trace_tools.schema import Step, Value

DOTS = 6  # colours of storages


@dataclass(frozen=True, slots=True)
class MachineLink:
    """One entry of the machine switcher, or of the one between ranks; no link where nothing is to be seen there."""

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
    ranks: Callable[[Section | None], Sequence[MachineLink]] = lambda section: ()  # as all had the page, then as each
    of_ranks: int = 0  # that ran the lecture, more than there are links to
    rank: int | None = None  # as which the pages show it; None: as all of them
    home: str = "index.html"  # of the whole site
    has_trace: bool = True  # trace.yaml lies beside the pages
    alone: bool = False  # nothing lies beside the page: it has all of it
    notices: tuple[Notice, ...] = ()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    def shown(text: str) -> Markup:
        return Markup(prose.to_html(text))

    found = environment(HERE / "templates")
    found.globals["overview"] = overview
    found.filters |= {"prose": shown, "remarked": remarked, "below": below, "stretches": stretches}
    found.filters |= {"drawing": Markup, "frame": lambda figure: Markup(frame(figure))}
    found.tests |= {
        "listing": lambda block: isinstance(block, CodeListing),
        "call": lambda block: isinstance(block, Call),
        "failing": lambda row: any(e.troubled for e in row.executions),
    }
    return found


def load_templates() -> None:
    """Compile all templates, which the first page would wait for."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@lru_cache(maxsize=32)
def highlighted_source(source: SourceText) -> tuple[str, ...]:
    """Return the HTML of each line of a source, which is made once."""
    return highlighted(source.lines)


class HtmlWriter:
    """Writes the pages of one document."""

    def __init__(self, document: Document, place: Surroundings) -> None:
        self._document = document
        self._place = place
        self._sections: dict[str, tuple[str, str]] = {}  # page and data, by slug

    def section(self, section: Section) -> str:
        """Return the page of one section."""
        return self._section(section)[0]

    def section_data(self, section: Section) -> str:
        """Return the script beside a section's page: the player's steps, other machines' columns, what is folded."""
        return self._section(section)[1]

    def _section(self, section: Section) -> tuple[str, str]:
        if section.slug not in self._sections:
            self._sections[section.slug] = self._made(section)
        return self._sections[section.slug]

    def _made(self, section: Section) -> tuple[str, str]:
        sections, place = self._document.sections, self._place
        at = sections.index(section)
        block = step_block(section)
        notices = [*overview.section_notices(section)]
        if block.kept < block.total:
            told = "the first and last executions of each line, and those that changed something"
            link = "trace.yaml" if place.has_trace else None
            notices.append(Notice("info", f"The player has {block.kept:,} of {block.total:,} steps: {told}.", link))
        beside = place.columns(section)
        floored = floors_block(timed_lines(section), self._document, ceilings())
        drawn = section_figures(section, self._document, place.roofs(section))
        explored = _explored(section)
        more = [*(["explore"] if explored else []), *(["passages"] if _is_borrowed(section.blocks) else [])]
        whole = self._page(
            "section.html.j2",
            _HtmlPage(self._document, place, section, section.blocks, section.shared),
            _allowing(assets("page", "search", "figures", "exercises", *self._switch, *more), section.blocks),
            notices,
            section=section,
            steps=block,
            beside=beside,
            floored=bool(floored),
            drawn=drawn,
            previous=sections[at - 1] if at else None,
            next=sections[at + 1] if at + 1 < len(sections) else None,
        )
        page, folded = _parted(whole)
        data = {"steps": block.text, "columns": beside.text, "folded": packed(folded), "floors": floored}
        data["figures"] = packed([embedded(figure.svg) for figure in drawn])
        script = explorations.script({f"said-{it.number}": it for it in explored})
        return page, f"const sectionData = {json.dumps(data)};\n{script}"

    @property
    def _switch(self) -> list[str]:
        """The style and script of the switch between ranks, on pages that have one."""
        return ["ranks"] if self._place.ranks(None) else []

    def index(self) -> str:
        """Return the machine's own index."""
        document = self._document
        around = (*document.opening, *document.setup)
        more = [*self._switch, *(["passages"] if _is_borrowed(around) else [])]
        return self._page(
            "index.html.j2",
            _HtmlPage(document, self._place, None, around, shared_storages(document.opening)),
            _allowing(assets("page", "overview", "search", "figures", *more), around),
            overview.document_notices(document),
            drawn=index_figures(document, self._place.roofs(None)),
        )

    def whole(self) -> str:
        """Return the lecture as one page: what it promises, all sections, the code around them, the run."""
        document, around = self._document, overview.around(self._document)
        outside = (*document.opening, *document.setup)
        run = _HtmlPage(document, self._place, None, outside, shared_storages(document.opening))
        setup = _HtmlPage(document, self._place, None, outside, shared_storages(around))
        parts: dict[Place, str] = {}
        explored: dict[str, Narration] = {}
        lines: dict[str, list[Step]] = {}
        for section in document.sections:
            place = Place(section.slug, f"{section.number}")
            parts[place] = self._part(
                "lesson.html.j2",
                _HtmlPage(document, self._place, section, section.blocks, section.shared),
                section=section,
                notices_shown=[*overview.section_notices(section)],
                drawn=section_figures(section, document),
                beside=columns.NOTHING,
                floored=False,
            )
            explored |= {within(place.name, f"said-{it.number}"): it for it in _explored(section)}
            lines |= {within(place.name, anchor): steps for anchor, steps in timed_lines(section).items()}
        if around:
            title = "<h1>The code around the sections</h1>"
            parts[Place(overview.SETUP, overview.SETUP)] = title + self._part("around.html.j2", setup)
        told = self._part("glance.html.j2", run) + self._part("run.html.j2", run, drawn=index_figures(document))
        parts[index := Place("index", "index")] = f"<h1>The machine and the run</h1>{told}"
        first = ""
        if document.sections:
            row = overview.MachineRow(document.machine.name, ".", document)
            first = self._part("promise.html.j2", run, first=row, cover=overview.cover(document), said=run.said)
        if overview.speaks(document):
            first += apart(self._part("opening.html.j2", run), index.name)
        borrowed = any(_is_borrowed(blocks) for blocks in (outside, *(section.blocks for section in document.sections)))
        floored = floors_block(lines, document, ceilings())
        text = self._page(
            "whole.html.j2",
            run,
            _alone(explored, floored, *(["passages"] if borrowed else [])),
            overview.document_notices(document),
            floored=bool(floored),
            whole=[(place.identity, Markup(apart(part, place.name))) for place, part in parts.items()],
            first=Markup(first),
        )
        return led(text, {f"{place.identity}.html": place for place in parts}, {*ids(text)})

    def _part(self, template: str, page: _HtmlPage, **more: Any) -> str:
        found = _environment().get_template(template)
        return _brief(found.render(document=self._document, page=page, whole=True, **more))

    def setup(self) -> str | None:
        """Return the page of the code around the sections; None where there is none."""
        document, around = self._document, overview.around(self._document)
        if not around:
            return None
        blocks = (*document.opening, *document.setup)
        page = _HtmlPage(document, self._place, None, blocks, shared_storages(around))
        return self._page("setup.html.j2", page, assets("page", "search", *self._switch), (), is_setup=True)

    def _page(self, template: str, page: _HtmlPage, assets: Assets, notices: Iterable[Notice], **more: Any) -> str:
        document = self._document
        found = _environment().get_template(template)
        text = found.render(
            document=document,
            page=page,
            assets=assets,
            notices_shown=(*document.notices, *self._place.notices, *notices),
            **more,
        )
        return _brief(text)

    def search_index(self) -> str:
        """Return the file that the pages load when a reader first searches: the index, and what finds things in it."""
        return SearchIndex(self._document).script() + str(assets("finding").js)


def _explored(section: Section) -> list[Narration]:
    """Return the figures of a section that answer back."""
    return [it for it in visible(section.blocks) if isinstance(it, Narration) and it.narrative.exploration]


def _is_borrowed(blocks: Sequence[Block]) -> bool:
    """Whether something on a page was told in another tool's words, which look otherwise."""
    said = (it.narrative for it in visible(blocks) if isinstance(it, Narration))
    return any(it.flows or it.style or it.kind in ("video", REFERENCES) for it in said)


def _allowing(found: Assets, blocks: Sequence[Block]) -> Assets:
    """Allow a page also the images and videos on the web that stand on it, by their hosts, and videos beside it."""
    said = [it.narrative for it in visible(blocks) if isinstance(it, Narration)]
    hosts: dict[str, set[str]] = {"image": set(), "video": set()}
    for it in said:
        if it.kind in hosts and it.url and on_the_web(it.url):
            parts = urlsplit(it.url)
            hosts[it.kind].add(f"{parts.scheme}://{parts.netloc}")
    policy = found.policy
    if hosts["image"]:
        policy = policy.replace("img-src 'self' data:", " ".join(["img-src 'self' data:", *sorted(hosts["image"])]))
    if any(it.kind == "video" for it in said):
        policy += "; " + " ".join(["media-src 'self' data:", *sorted(hosts["video"])])
    return replace(found, policy=policy)


def _alone(explored: Mapping[str, Narration], floored: str, *more: str) -> Assets:
    """Return the style and the script of a page that has nothing beside it, and a policy by which it loads nothing."""
    shown = assets("page", "overview", "figures", "exercises", "whole", *more)
    floors = ["floors"] if floored else []
    answers = ["explore", "exploring"] if explored else []
    answering = assets("hanging", "linked", "numbers", "answering", *floors, *answers)
    beside = f"const sectionData = {json.dumps({'floors': floored})};\n" if floored else ""
    script = re.sub(
        r"<(?=[/!a-zA-Z])", r"\\u003c", explorations.script(explored)
    )  # in strings: comparisons have blanks
    found = allowed(shown.css + answering.css, f"{shown.js}{beside}{script}{answering.js}")
    return replace(found, policy=found.policy.replace("img-src 'self' data:", "img-src data:; media-src data:"))


def site_index(
    title: str,
    machines: Sequence[overview.MachineRow],
    sections: Sequence[overview.SectionRow],
    searched: tuple[str, str] | None = None,
    more: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the first page: what the lecture teaches, its sections on the first machine, and every machine.

    `searched` is the machine whose pages it searches, and their folder. `more` are links to other pages that lie below:
    name, address.
    """
    template = _environment().get_template("site.html.j2")
    first = machines[0] if machines and machines[0].document.sections else None
    files = assets("page", "overview", "search") if searched is not None else assets("page", "overview")
    text = template.render(
        title=title,
        machines=machines,
        sections=sections,
        searched=searched,
        more=more,
        assets=files,
        first=first,
        cover=overview.cover(first.document) if first is not None else None,
        said=lambda said: as_html(said, lambda address: None),
    )
    return _brief(text)


def not_found(home: str) -> str:
    """Return the page that a host shows for an address at which there is nothing; `home` is the first page's."""
    template = _environment().get_template("not_found.html.j2")
    return template.render(assets=assets("page"), page=SimpleNamespace(home=home))


def _brief(page: str) -> str:
    """Write the figures of a page briefly, and no line breaks where none are seen: beside the tags of blocks."""
    page = re.sub(r"<svg .*?</svg>", lambda figure: embedded(figure[0]), page, flags=re.DOTALL)
    return re.sub(r"(</?(?:div|details|section|table)\b[^<>]*>)\n+", r"\1", page)


_FOLDED = re.compile(r'<details class="(o [^"]*)"><summary>(.*?)</summary>(.*?)</details>', re.DOTALL)


def _parted(page: str) -> tuple[str, list[str]]:
    """Return a page without what is folded beside its lines, and that, in the order of the page (`folded.js`)."""
    return _FOLDED.sub(r'<div class="\1 more">\2</div>', page), [found[3] for found in _FOLDED.finditer(page)]


@dataclass(frozen=True)
class _HtmlPage:
    """What the templates ask about one page, with the blocks on it and the storages that several of them show."""

    document: Document
    place: Surroundings
    section: Section | None
    blocks: Sequence[Block]
    shared: Sequence[str]

    @property
    def home(self) -> str:
        return self.place.home

    @property
    def machine(self) -> str:
        """The machine's name, and which of its ranks it is whose page this is."""
        name = formats.one_line(self.document.machine.name, 60)
        return name if self.place.rank is None else f"{name}, rank {self.place.rank}"

    @cached_property
    def ranks(self) -> Sequence[MachineLink]:
        """The switch between ranks, all of them together first; nothing where there are none."""
        return self.place.ranks(self.section)

    def meta(self, section: Section | None = None) -> Markup:
        """Return the line under a page's title."""
        parts = [escape(part) for part in overview.meta(self.document, section)]
        if self.place.rank is not None:
            parts.append(escape(f"as rank {self.place.rank} of {self.place.of_ranks} had it"))
        if self.place.has_trace:
            parts.append(Markup('<a href="trace.yaml">trace.yaml</a>'))
        return Markup(" · ").join(parts)

    def code(self, line: CodeLine) -> Markup:
        """Return a source line, highlighted as part of its whole source, without its margin."""
        text = self._highlighted[line.source][line.number - 1]
        # in a string of several lines, leading blanks stand inside its tag
        return Markup(re.sub(rf"^(<[^>]*>)?[ \t]{{0,{line.indent}}}", r"\1", text))

    def minutes(self, blocks: Sequence[Block]) -> int:
        """Return how long a part takes to read, what is folded in it included."""
        return reading_minutes(blocks, deeper=None)

    def said(self, said: Narration) -> Markup:
        return as_html(said, self.image, web=not self.place.alone)

    def image(self, address: str) -> str | None:
        picture = self.place.picture(address)
        if picture is None:
            return None
        return picture.address if self.place.alone else picture.inline or f"figures/{picture.name}"

    def dot(self, value: Value | None) -> Markup:
        """Return the coloured dot of a storage that several expressions share."""
        label, colour = self._storage(value)
        return Markup('<span class="dot s{}"></span>').format(colour) if label else Markup("")

    def storage(self, value: Value | None) -> Markup:
        """Return the label of such a storage: colour alone says nothing to some."""
        label, colour = self._storage(value)
        words = Markup(' <span class="storage s{}">storage {}</span>')
        return words.format(colour, formats.one_line(label, 20)) if label else Markup("")

    def _storage(self, value: Value | None) -> tuple[str | None, int]:
        label = value.tensor.storage if value is not None and value.tensor is not None else None
        return (label, self.shared.index(label) % DOTS + 1) if label in self.shared else (None, 0)

    def grids(self, value: Value | None) -> list[tuple[str, list[list[str]]]]:
        if value is None or value.tensor is None or not value.tensor.shape:
            return []
        alone = len(value.tensor.shape) == 1 and len(value.tensor.elements or ()) <= summaries.INLINE_ELEMENTS
        return [] if alone and value.tensor.elements is not None else summaries.grids(value.tensor)

    def cells(self, value: Value | None) -> Markup:
        """Say where a matrix lies in a storage that others share, for `linked.js`: its label, offset, strides."""
        label, _ = self._storage(value)
        if label is None or value is None or value.tensor is None or value.tensor.strides is None:
            return Markup("")
        lie = (value.tensor.offset or 0, *value.tensor.strides)
        return Markup(' data-cells="{} {}"').format(formats.one_line(label, 20), " ".join(map(str, lie)))

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
        return [highlighted_source(source) for source in self.document.sources]

    @cached_property
    def _views(self) -> Views:
        return views_of(self.blocks)

    def is_small(self, value: Value | None) -> bool:
        """Whether a tensor's elements stand beside the line without being asked for."""
        return value is not None and summaries.is_small(value)
