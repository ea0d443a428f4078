"""Traces → a folder of pages: one folder per machine, and an index of them all.

    render_site([Rendered(trace, "cpu", lecture_text, lecture_folder)], Path("rendered"))

writes `rendered/cpu/index.html`, `rendered/cpu/03-tensors.html`, the same as Markdown, `rendered/cpu/figures/*.svg`
and `rendered/index.html`. A file is written only when its bytes change; a page that an earlier rendering made
and this one does not is removed, as `.pages` in each folder lists what was made there.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_tools.errors import UsageError
from trace_tools.file_format.trace_file import collector_paused, load
from trace_tools.files import update_folder
from trace_tools.publishing.columns import Counterparts, column, counterparts
from trace_tools.publishing.processes import in_processes
from trace_tools.publishing.roofs import other_roofs
from trace_tools.rendering import html, markdown, overview
from trace_tools.rendering.columns import columns_block
from trace_tools.rendering.compose import make_document
from trace_tools.rendering.document import Document, Notice, Section
from trace_tools.rendering.html import MachineLink, Surroundings
from trace_tools.rendering.pictures import read_picture
from trace_tools.rendering.search import SearchIndex
from trace_tools.schema import Trace

PARTIAL = "partial"
REPORTS = "diff"  # the folder that compares the machines
_OURS = re.compile(
    r"(?:index|setup|\d\d+-[a-z0-9-]+)\.(?:html|md)|figures/[a-z0-9][a-z0-9-]*\.(?:svg|png|jpg|gif|webp)"
)
_FOLDER = re.compile(r"[\w][\w.-]*")


@dataclass(frozen=True, slots=True)
class Rendered:
    """One trace to render, and where: `<folder>/`, or `<folder>/partial/`."""

    trace: Trace
    folder_slug: str
    lecture_text: str | None = None  # as it is now; None: only the stored text
    lecture_folder: Path | None = None  # where its images lie
    partial: bool = False
    notes: tuple[str, ...] = ()  # what its file no longer had, as `load` says

    @property
    def folder(self) -> str:
        """Return the machine's folder below the site's."""
        return f"{self.folder_slug}/{PARTIAL}" if self.partial else self.folder_slug


@collector_paused()
def render_site(traces: Sequence[Rendered], out: Path) -> list[Path]:
    """Write the pages of all traces and the index of the site; return the files that changed.

    The index lists the traces given, so give all that lie in the folder. Raises UsageError when a folder's
    name is no plain name or the place can't be written.
    """
    for rendered in traces:
        if not _FOLDER.fullmatch(rendered.folder_slug):
            raise UsageError(f"{rendered.folder_slug!r} can't be a folder's name; expected letters, digits, - and _")
    site = [(rendered, make_document(rendered.trace, rendered.lecture_text)) for rendered in traces]
    others = counterparts([(name, r.trace) for name, r in zip(_names(site), traces, strict=True)])
    calls = [functools.partial(_machine_files, place, site, beside, out) for place, beside in enumerate(others)]
    changed: list[Path] = []
    for rendered, files in zip(traces, in_processes(calls), strict=True):
        changed += update_folder(out / rendered.folder, files, _OURS)
    return changed + update_folder(out, _site_files(site, out), _OURS)


@collector_paused()
def render_folder(out: Path, lecture: Path | None = None) -> Path:
    """Render every trace that lies in `out`, and return the site's index.

    `lecture` is the lecture as it is now; without it, the file of the trace's name beside `out`, if there is one.
    Raises TraceFileError for a trace that can't be read.
    """
    paths = sorted([*out.glob("*/trace.yaml"), *out.glob(f"*/{PARTIAL}/trace.yaml")])
    render_site([_loaded(path, path.parent, lecture) for path in paths], out)
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
        render_site([_loaded(path, None, lecture) for path in paths], out)
        yield str(out / "index.html")
        return
    for root in dict.fromkeys(map(site_of, paths)):
        yield str(render_folder(root, lecture))


def site_of(trace: Path) -> Path:
    """Return the folder of the site in which a trace lies, seen from here; `..` from beside the trace itself."""
    partial = Path(os.path.abspath(trace)).parent.name == PARTIAL
    return Path(os.path.normpath(trace.parent / ("../.." if partial else "..")))


def _loaded(path: Path, folder: Path | None, lecture: Path | None) -> Rendered:
    """Load a trace for its place: in the folder where it lies, else in one with its machine's name."""
    loaded = load(path)
    trace = loaded.trace
    beside = Path(os.path.abspath(site_of(path))).parent
    found = lecture if lecture is not None else beside / Path(trace.run.lecture).name
    same = found.name == Path(trace.run.lecture).name
    try:
        text = found.read_text(encoding="utf-8") if same and found.is_file() else None
    except (OSError, UnicodeDecodeError):
        text = None  # the stored text serves
    partial = not trace.run.complete if folder is None else folder.name == PARTIAL
    slug = trace.machine.slug if folder is None else folder.parent.name if partial else folder.name
    return Rendered(trace, slug, text, found.parent if same else None, partial, loaded.notes)


def _machine_files(
    at: int, site: Sequence[tuple[Rendered, Document]], beside: Sequence[Counterparts], out: Path
) -> dict[str, bytes]:
    """Return the files of the site's n-th machine by their names in its folder; `beside` are the others' steps."""
    rendered, document = site[at]
    up = "../" * (rendered.folder.count("/") + 1)
    columns = {s.slug: columns_block([column(s, other) for other in beside]) for s in document.sections}
    place = Surroundings(
        machines=lambda section: _switcher(rendered, site, up, section),
        picture=lambda address: read_picture(rendered.lecture_folder, address),
        columns=lambda section: columns[section.slug],
        roofs=lambda section: other_roofs([section] if section else document.sections, beside, index=section is None),
        home=f"{up}index.html",
        has_trace=(out / rendered.folder / "trace.yaml").exists(),
        notices=(
            *(Notice("partial", f"The trace file: {note}.") for note in rendered.notes),
            *_about_partial(rendered, site, out),
        ),
    )
    pages = html.HtmlWriter(document, place)
    texts = markdown.MarkdownWriter(document, place)
    files = {"index.html": pages.index(), "index.md": texts.index()}
    setup = pages.setup()
    if setup is not None:
        files["setup.html"] = setup
    for section in document.sections:
        files[f"{section.slug}.html"] = pages.section(section)
        files[f"{section.slug}.md"] = texts.section(section)
    return {name: text.encode("utf-8") for name, text in files.items()} | texts.files


def _about_partial(rendered: Rendered, site: Sequence[tuple[Rendered, Document]], out: Path) -> list[Notice]:
    """Point from complete pages to the partial trace beside them."""
    given = any(other.partial and other.folder_slug == rendered.folder_slug for other, _ in site)
    beside = given or (out / rendered.folder / PARTIAL / "trace.yaml").exists()
    if rendered.partial or not beside:
        return []
    text = "A later run on this machine did not finish; what it did is recorded apart."
    return [Notice("info", text, f"{PARTIAL}/index.html")]


def _switcher(
    rendered: Rendered, site: Sequence[tuple[Rendered, Document]], up: str, section: Section | None
) -> list[MachineLink]:
    """Link to the same section on every machine that has it, else to that machine's index."""
    links = []
    for name, (other, document) in zip(_names(site), site, strict=True):
        has = section is not None and any(s.slug == section.slug for s in document.sections)
        page = f"{section.slug}.html" if has and section is not None else "index.html"
        links.append(MachineLink(name, f"{up}{other.folder}/{page}", other is rendered))
    return links


def _names(site: Sequence[tuple[Rendered, Document]]) -> list[str]:
    """Return a short name for each trace; its folder's, where several would read the same."""
    short = [document.machine.name if document.machine.device != "cpu" else "CPU" for _, document in site]
    folders = {name: {r.folder_slug for s, (r, _) in zip(short, site, strict=True) if s == name} for name in short}
    named = [r.folder_slug if len(folders[name]) > 1 else name for name, (r, _) in zip(short, site, strict=True)]
    return [f"{name} (partial)" if rendered.partial else name for name, (rendered, _) in zip(named, site, strict=True)]


def _full_names(site: Sequence[tuple[Rendered, Document]]) -> list[str]:
    """Return each machine's own name, with its folder's where another has the same."""
    folders: dict[str, set[str]] = {}
    for rendered, document in site:
        folders.setdefault(document.machine.name, set()).add(rendered.folder_slug)
    return [
        f"{d.machine.name} ({r.folder_slug})" if len(folders[d.machine.name]) > 1 else d.machine.name for r, d in site
    ]


def _site_files(site: Sequence[tuple[Rendered, Document]], out: Path) -> dict[str, bytes]:
    title = site[0][1].title if site else "No traces"
    machines = [overview.machine_row(d, r.folder, name) for name, (r, d) in zip(_full_names(site), site, strict=True)]
    sections = _section_rows(site)
    reports = f"{REPORTS}/index.html"
    more = [("What differs between the machines", reports)] if (out / reports).is_file() else []
    return {
        "index.html": html.site_index(title, machines, sections, _searched(site), more).encode("utf-8"),
        "index.md": markdown.site_index(title, machines, sections).encode("utf-8"),
    }


def _searched(site: Sequence[tuple[Rendered, Document]]) -> tuple[str, SearchIndex] | None:
    """Return the machine whose pages the site's index searches: the first with a complete trace."""
    for rendered, document in sorted(site, key=lambda one: one[0].partial):
        return document.machine.name, SearchIndex(document, f"{rendered.folder}/")
    return None


def _section_rows(site: Sequence[tuple[Rendered, Document]]) -> list[overview.SectionRow]:
    """List every section once, in reading order, with its page on each machine."""
    pages: dict[tuple[int, str], list[tuple[str, str, int, int]]] = {}
    titles: dict[tuple[int, str], str] = {}
    for full, (rendered, document) in zip(_full_names(site), site, strict=True):
        name = full + (" (partial)" if rendered.partial else "")
        for section in document.sections:
            key = (section.number, section.slug)
            titles.setdefault(key, section.title)
            address = f"{rendered.folder}/{section.slug}"
            pages.setdefault(key, []).append((name, address, section.held, section.failed))
    return [overview.SectionRow(key[0], titles[key], tuple(pages[key])) for key in sorted(pages)]
