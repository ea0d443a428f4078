"""Traces → a folder of pages: one folder per machine, and an index of them all.

    render_site([SiteTrace(trace, "cpu", lecture_text, lecture_folder)], Path("rendered"))

writes `rendered/cpu/index.html`, `rendered/cpu/03-tensors.html`, the same as Markdown, `rendered/cpu/figures/*.svg`
and `rendered/index.html`; of several ranks, each of the first few has pages of its own, `rendered/cpu/rank1/*.html`, as
if it had run the lecture alone: whoever reads one and goes on stays with that rank. A file is written only when its
bytes change; a page that an earlier rendering made and this one does not is removed, as `.pages` in each folder lists
what was made there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path

from trace_tools.comparing.difference import Side
from trace_tools.errors import UsageError
from trace_tools.file_format.trace_file import Loaded, load
from trace_tools.files import update_folder
from trace_tools.garbage import collector_paused
from trace_tools.publishing.columns import MOST_RANKS, Beside, Listed, beside, counterparts_of_ranks, other_roofs
from trace_tools.publishing.processes import in_processes
from trace_tools.ranks import of_rank
from trace_tools.rendering import html, markdown, overview
from trace_tools.rendering.columns import columns_block
from trace_tools.rendering.compose import make_document
from trace_tools.rendering.document import Document, Notice, Section
from trace_tools.rendering.html import MachineLink, Surroundings
from trace_tools.rendering.page_base import HALL, SECTION, shared_script
from trace_tools.rendering.pictures import read_picture
from trace_tools.rendering.player import numbered_as
from trace_tools.rendering.search import FILE
from trace_tools.schema import Trace

PARTIAL = "partial"
REPORTS = "diff"  # the folder that compares the machines
_OURS = re.compile(
    r"(?:rank\d+/)?(?:(?:index|setup|\d\d+-[a-z0-9-]+)\.(?:html|md)|figures/[a-z0-9][a-z0-9-]*\.(?:svg|png|jpg|gif|webp|mp4|webm|ogv)"
    r"|\d\d+-[a-z0-9-]+\.js|(?:search-index|hall|section)\.js)"
)
_FOLDER = re.compile(r"[\w][\w.-]*")


@dataclass(frozen=True)
class SiteTrace:
    """One trace of a site, and where its pages go: `<folder>/`, or `<folder>/partial/`; in there, `rank1/`."""

    trace: Trace
    folder_slug: str
    lecture_text: str | None = None  # as it is now; None: only the stored text
    lecture_folder: Path | None = None  # where its images lie
    partial: bool = False
    notes: tuple[str, ...] = ()  # what its file no longer had, as `load` says
    rank: int | None = None  # whose trace it is
    of: SiteTrace | None = None  # the trace of all ranks

    @property
    def folder(self) -> str:
        """The folder of its pages below the site's."""
        machine = f"{self.folder_slug}/{PARTIAL}" if self.partial else self.folder_slug
        return machine if self.rank is None else f"{machine}/rank{self.rank}"

    @property
    def notices(self) -> list[Notice]:
        """What its pages have to say of its file."""
        return [Notice("partial", f"The trace file: {note}.") for note in self.notes]

    @cached_property
    def document(self) -> Document:
        """What its pages say."""
        made = make_document(self.trace, self.lecture_text)
        if self.of is None:
            return made
        all_of_it = {section.slug: section for section in self.of.document.sections}
        return replace(made, sections=tuple(numbered_as(one, all_of_it.get(one.slug, one)) for one in made.sections))

    @cached_property
    def ranks(self) -> Sequence[SiteTrace]:
        """The lecture as each of its first ranks ran it, if anything of it was recorded."""
        first = range(self.trace.run.ranks or 0)[:MOST_RANKS]
        found = [replace(self, trace=of_rank(self.trace, rank), rank=rank, of=self) for rank in first]
        return [one for one in found if one.document.sections]


Traces = Sequence[SiteTrace]


def get_ready() -> None:
    """Load what the first page would wait for."""
    html.load_templates()


@collector_paused()
def render_site(site: Traces, out: Path) -> list[Path]:
    """Write the pages of all traces and the index of the site; return the files that changed.

    The index lists the traces given, so give all that lie in the folder. Raises UsageError when a folder's
    name is no plain name or the place can't be written.
    """
    for one in site:
        if not _FOLDER.fullmatch(one.folder_slug):
            raise UsageError(f"{one.folder_slug!r} can't be a folder's name; expected letters, digits, - and _")
        for source in one.document.sources:  # what pages share is made once, before processes are forked
            html.highlighted_source(source)
    sides = [Side(name, one.trace) for name, one in zip(_names(site), site, strict=True)]
    _ = [side.tree for side in sides]
    listed = [[*map(Listed.of, one.document.sections)] if len(site) > 1 or one.trace.run.ranks else [] for one in site]
    pairs = [*combinations(range(len(site)), 2)]
    compared = in_processes([partial(beside, sides[a], sides[b], listed[a], listed[b]) for a, b in pairs])
    others: list[list[Beside]] = [[] for _ in site]  # of each, in the order of the site
    for (a, b), (in_b, in_a) in zip(pairs, compared, strict=True):
        others[a].append(in_b)
        others[b].append(in_a)
    ranks = [
        [Beside.of(rank, of) for rank in counterparts_of_ranks(one.trace)] for one, of in zip(site, listed, strict=True)
    ]
    calls = [partial(_machine_files, *of_one, site, out) for of_one in zip(site, others, ranks, strict=True)]
    alone = [rank for one in site for rank in one.ranks]
    calls += [partial(_machine_files, rank, (), (), site, out) for rank in alone]
    made = {one.folder: files for one, files in zip([*site, *alone], in_processes(calls), strict=True)}
    changed: list[Path] = []
    for one in site:
        of_ranks = ((rank.folder.removeprefix(f"{one.folder}/"), made[rank.folder]) for rank in one.ranks)
        below = {f"{folder}/{name}": content for folder, files in of_ranks for name, content in files.items()}
        changed += update_folder(out / one.folder, made[one.folder] | below, _OURS)
    return changed + update_folder(out, _site_files(site, out), _OURS)


@collector_paused()
def render_folder(out: Path, lecture: Path | None = None) -> Path:
    """Render every trace that lies in `out`, and return the site's index.

    `lecture` is the lecture as it is now; without it, the file of the trace's name beside `out`, if there is one.
    Raises TraceFileError for a trace that can't be read.
    """
    paths = sorted([*out.glob("*/trace.yaml"), *out.glob(f"*/{PARTIAL}/trace.yaml")])
    render_site([placed(load(path), path, path.parent, lecture) for path in paths], out)
    return out / "index.html"


def render_files(traces: Iterable[Path], out: Path | None, lecture: Path | None = None) -> Iterator[str]:
    """Render traces into `out`, or where they lie with all that lie beside them; yield a line for each index.

    Raises TraceFileError for one that can't be read, UsageError for one that lies in no place of a site.
    """
    paths = list(traces)
    for path in paths:  # says what is wrong with a file that was named, before anything is written
        yield from (f"{path}: {note}" for note in load(path).notes)
        if out is None and path.name != "trace.yaml":
            raise UsageError(f"{path}: expected <machine>/trace.yaml; say with -o where its pages go")
    if out is not None:
        render_site([placed(load(path), path, None, lecture) for path in paths], out)
        yield str(out / "index.html")
        return
    for root in dict.fromkeys(map(site_of, paths)):
        yield str(render_folder(root, lecture))


def site_of(trace: Path) -> Path:
    """Return the folder of the site in which a trace lies, seen from here; `..` from beside the trace itself."""
    partial = Path(os.path.abspath(trace)).parent.name == PARTIAL
    return Path(os.path.normpath(trace.parent / ("../.." if partial else "..")))


def placed(loaded: Loaded, path: Path, folder: Path | None, lecture: Path | None) -> SiteTrace:
    """Return the trace of a file for its place: in the folder where it lies, else in one with its machine's name.

    `lecture` is the lecture as it is now; without it, the file of the trace's name beside the site, if there is one.
    """
    trace = loaded.trace
    beside = Path(os.path.abspath(site_of(path))).parent
    named = Path(trace.run.lecture)  # a module of a package: with the folders of that
    found = lecture if lecture is not None and lecture.name == named.name else beside / named
    try:
        text = found.read_text(encoding="utf-8") if found.is_file() else None
    except (OSError, UnicodeDecodeError):
        text = None  # the stored text serves
    is_partial = not trace.run.complete if folder is None else folder.name == PARTIAL
    slug = trace.machine.slug if folder is None else folder.parent.name if is_partial else folder.name
    return SiteTrace(trace, slug, text, _folder_of(found, named), is_partial, loaded.notes)


def _folder_of(lecture: Path, named: Path) -> Path:
    """Return the folder in which a lecture ran: that of its file, or of the package that it is in."""
    parents = Path(os.path.abspath(lecture)).parents
    return parents[min(len(named.parts), len(parents)) - 1]


def _machine_files(
    one: SiteTrace, others: Sequence[Beside], ranks: Sequence[Beside], site: Traces, out: Path
) -> dict[str, bytes]:
    """Return the files of one machine, or of one rank there, by their names in its folder.

    `others` are the other machines beside it, `ranks` its ranks.
    """
    document, whole, up = one.document, one.of or one, "../" * (one.folder.count("/") + 1)
    notices = one.notices
    given = any(other.partial and other.folder_slug == one.folder_slug for other in site)
    if one is whole and not one.partial and (given or (out / one.folder / PARTIAL / "trace.yaml").exists()):
        told = "A later run on this machine did not finish; what it did is recorded apart."
        notices.append(Notice("info", told, f"{PARTIAL}/index.html"))

    def page(there: SiteTrace, section: Section | None) -> str | None:
        """Return where the same section is in another trace, or its index; None where it has no such section."""
        if section is not None and all(s.slug != section.slug for s in there.document.sections):
            return None
        return f"{up}{there.folder}/{section.slug if section is not None else 'index'}.html"

    def machines(section: Section | None) -> list[MachineLink]:
        """Link to the same section on every machine that has it, else to that machine's index; of the same rank."""
        links = []
        for name, other in zip(_names(site), site, strict=True):
            there = next((rank for rank in other.ranks if rank.rank == one.rank), other)
            links.append(MachineLink(name, page(there, section) or f"{up}{there.folder}/index.html", other is whole))
        return links

    def as_ranks(section: Section | None) -> list[MachineLink]:
        """Link to the same section as all ranks had it, and as each that ran it."""
        of_each = [("all", whole), *((f"{rank.rank}", rank) for rank in whole.ranks)] if whole.ranks else []
        return [MachineLink(name, page(there, section) or "", there is one) for name, there in of_each]

    place = Surroundings(
        machines=machines,
        picture=lambda address: read_picture(one.lecture_folder, address),
        columns=lambda section: columns_block([other.columns[section.slug] for other in (*ranks, *others)]),
        roofs=lambda section: other_roofs([section] if section else document.sections, others, index=section is None),
        ranks=as_ranks,
        of_ranks=whole.trace.run.ranks or 0,
        rank=one.rank,
        home=f"{up}index.html",
        has_trace=(out / one.folder / "trace.yaml").exists(),
        notices=tuple(notices),
    )
    pages, texts = html.HtmlWriter(document, place), markdown.MarkdownWriter(document, place)
    files = {"index.html": pages.index(), "index.md": texts.index(), "setup.html": pages.setup()}
    files |= {FILE: pages.search_index()} | {name: shared_script(name) for name in (HALL, SECTION)}
    for section in document.sections:
        files[f"{section.slug}.html"] = pages.section(section)
        files[f"{section.slug}.js"] = pages.section_data(section)
        files[f"{section.slug}.md"] = texts.section(section)
    made = {name: text.encode("utf-8") for name, text in files.items() if text is not None} | texts.files
    # a rank's pages are for a switch, which Markdown has not: there, tables beside lines tell of ranks
    return made if one is whole else {name: content for name, content in made.items() if not name.endswith(".md")}


def _names(site: Traces) -> list[str]:
    """Return a short name for each trace; its folder's, where several would read the same."""
    short = [one.trace.machine.name if one.trace.machine.device != "cpu" else "CPU" for one in site]
    folders = [{other.folder_slug for name, other in zip(short, site, strict=True) if name == own} for own in short]
    named = [o.folder_slug if len(same) > 1 else n for n, o, same in zip(short, site, folders, strict=True)]
    return [f"{name} (partial)" if one.partial else name for name, one in zip(named, site, strict=True)]


def _full_names(site: Traces) -> list[str]:
    """Return each machine's own name, with its folder's where another has the same."""
    folders: dict[str, set[str]] = {}
    for one in site:
        folders.setdefault(one.trace.machine.name, set()).add(one.folder_slug)
    names = ((one.trace.machine.name, one.folder_slug) for one in site)
    return [f"{name} ({slug})" if len(folders[name]) > 1 else name for name, slug in names]


def _site_files(site: Traces, out: Path) -> dict[str, bytes]:
    """Return the index of the site, which searches the pages of the first machine with a complete trace."""
    title = site[0].document.title if site else "No traces"
    names = _full_names(site)
    machines = [overview.MachineRow(n, one.folder, one.document) for n, one in zip(names, site, strict=True)]
    pages: dict[tuple[int, str], list[tuple[str, str, int, int]]] = {}  # every section once, in reading order
    titles: dict[tuple[int, str], str] = {}
    for name, one in zip(names, site, strict=True):
        for section in one.document.sections:
            key = (section.number, section.slug)
            titles.setdefault(key, section.title)
            page = name + (" (partial)" if one.partial else ""), f"{one.folder}/{section.slug}"
            pages.setdefault(key, []).append((*page, section.held, section.failed))
    sections = [overview.SectionRow(key[0], titles[key], tuple(pages[key])) for key in sorted(pages)]
    machines.sort(key=lambda machine: machine.folder.endswith(f"/{PARTIAL}"))
    searched = (machines[0].document.machine.name, f"{machines[0].folder}/") if machines else None
    reports = f"{REPORTS}/index.html"
    more = [("What differs between the machines", reports)] if (out / reports).is_file() else []
    return {
        "index.html": html.site_index(title, machines, sections, searched, more).encode("utf-8"),
        "index.md": markdown.site_index(title, machines, sections).encode("utf-8"),
    }
