"""Render traces into a folder of pages: one folder per machine, reports that compare them, and an index.

    render_folder(Path("rendered"))
    render_site([SiteTrace(trace, "cpu", lecture_text, lecture_folder)], Path("rendered"))

The second call writes `rendered/cpu/index.html`, `rendered/cpu/03-tensors.html`, the same as Markdown,
`rendered/cpu/figures/*.svg`, and for the whole site `rendered/index.html` and `rendered/machines.js`. The files in a
machine's folder depend on its trace alone: their scripts find other machines in `machines.js`, and the results of
another machine in its own files. A file is written only if its bytes change. A page that an earlier rendering made and
this one does not is removed: `.pages` in each folder lists the pages that were made there.

    list(stale_files(Path("rendered")))     ["rendered/cpu/03-tensors.html: differs", "rendered/index.md: missing"]

`stale_files` renders in memory and compares byte by byte, in both directions, so that pages without a trace are found
as well. Other files in the folder (such as a picture) are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePath

from trace_tools.diff.difference import Side
from trace_tools.errors import UsageError
from trace_tools.pages import html, markdown, overview
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document
from trace_tools.pages.html import SiteContext
from trace_tools.pages.pictures import read_picture
from trace_tools.pages.search import FILE, index_script
from trace_tools.presentation.page_shell import SECTION, assets, highlighted, section_script
from trace_tools.source.layout import cut_source
from trace_tools.source.statements import ParsedSource
from trace_tools.trace.file import load
from trace_tools.trace.model import Trace, why_no_folder
from trace_tools.util.files import MANIFEST, manifest, update_folder
from trace_tools.util.interpreter import collector_paused
from trace_tools.util.processes import cores, in_processes

TRACE = "trace.yaml"
PARTIAL = "partial"
SECTIONS = 4  # number of sections that justify a process
REPORTS = "diff"  # the folder that compares the machines
MACHINES = "machines.js"  # the script file of the whole site, which the pages of machines load
_OURS = re.compile(
    r"(?:(?:index|setup|\d\d+-[a-z0-9-]+)\.(?:html|md)|figures/[a-z0-9][a-z0-9-]*\.(?:svg|png|jpg|gif|webp|mp4|webm|ogv)"
    r"|\d\d+-[a-z0-9-]+\.js|(?:search-index|section|machines)\.js)"
)


@dataclass(frozen=True)
class SiteTrace:
    """One trace of a site, and the folder of its pages: `<folder>/`, or `<folder>/partial/`."""

    trace: Trace
    folder_slug: str
    lecture_text: str | None = None  # the current text; None: only the stored text
    lecture_folder: Path | None = None  # folder of its images
    partial: bool = False

    @property
    def folder(self) -> str:
        """The folder of its pages below the site's."""
        return f"{self.folder_slug}/{PARTIAL}" if self.partial else self.folder_slug

    @cached_property
    def document(self) -> Document:
        """The content of its pages."""
        return make_document(self.trace, self.lecture_text)


@collector_paused()
def get_ready(source: ParsedSource) -> None:
    """Prepare the data that does not depend on a run of the lecture, ahead of its pages."""
    html.load_templates()
    lines = cut_source(source.text, source.path).lines
    highlighted(tuple(line or "" for line in lines))


def render_site(site: Sequence[SiteTrace], out: Path, compared: Sequence[Side] = ()) -> list[Path]:
    """Write the pages of all traces, reports on the `compared` ones, and the index; return the files that changed.

    The index lists the given traces, so pass all traces of the folder. Raises UsageError if a folder's name is not a
    plain name or the folder cannot be written.
    """
    files = site_files(site, out, compared)
    patterns = dict.fromkeys(files, _OURS)
    if REPORTS in files:
        from trace_tools.diff.report.comparison_report import PAIR

        patterns[REPORTS] = PAIR
    return [path for folder in files for path in update_folder(out / folder, files[folder], patterns[folder])]


@collector_paused()
def site_files(site: Sequence[SiteTrace], out: Path, compared: Sequence[Side] = ()) -> dict[str, dict[str, bytes]]:
    """Return all files of a site by their folder below `out` and their name; the site's own folder is "" and last."""
    for one in site:
        if problem := why_no_folder(one.folder_slug):
            raise UsageError(problem)
        highlighted(one.document.source)  # shared data is computed once, before processes are forked
    parts = 1
    if len(site) == 1:  # the pages of one machine are divided among processes
        parts = max(1, min(cores(), len(site[0].document.sections) // SECTIONS))
    calls: list[Callable[[], dict[str, bytes]]] = [partial(_reports, compared)] if compared else []
    calls += [partial(_machine_files, one, out, part, parts) for one in site for part in range(parts)]
    written = in_processes(calls)
    reports = written.pop(0) if compared else {}
    files_by_folder: dict[str, dict[str, bytes]] = {}
    for one, files in zip((one for one in site for _ in range(parts)), written, strict=True):
        files_by_folder.setdefault(one.folder, {}).update(files)
    if reports:
        files_by_folder[REPORTS] = reports
    has_reports = bool(reports) or (out / REPORTS / "index.html").is_file()
    return files_by_folder | {"": _site_files(site, has_reports=has_reports)}


def _reports(sides: Sequence[Side]) -> dict[str, bytes]:
    """Return the files that compare the machines; empty if their lectures have no step in common."""
    from trace_tools.diff.compare import compare  # late: loads NumPy, which a site of one machine does not need
    from trace_tools.diff.report.comparison_report import report_files

    try:
        comparison = compare(sides)
    except UsageError:
        return {}
    return report_files(comparison, "../index.html")


@collector_paused()
def render_folder(out: Path, lecture: Path | None = None) -> Path:
    """Render every trace in `out`, compare the machines if there are several, and return the site's index.

    `lecture` is the current lecture; the default is the file with the trace's name next to `out`, if it exists. Raises
    TraceFileError for an unreadable trace.
    """
    site, compared = traces_in(out, lecture)
    render_site(site, out, compared)
    return out / "index.html"


def traces_in(out: Path, lecture: Path | None = None) -> tuple[list[SiteTrace], list[Side]]:
    """Return the traces of a site's folder, and those that reports compare: each machine's whole trace."""
    paths = sorted([*out.glob(f"*/{TRACE}"), *out.glob(f"*/{PARTIAL}/{TRACE}")])
    site = [placed(load(path), path, path.parent, lecture) for path in paths]
    complete = [Side(str(path), one.trace) for path, one in zip(paths, site, strict=True) if not one.partial]
    return site, complete if len(complete) > 1 else []


def render_files(traces: Iterable[Path], out: Path | None, lecture: Path | None = None) -> Iterator[str]:
    """Render traces into `out`, or their own sites; yield a line for each index, and for each truncated trace.

    Raises TraceFileError for an unreadable trace, before anything is written.
    """
    paths = list(traces)
    sites: list[tuple[Path, list[SiteTrace], list[Side]]]
    if out is not None:
        sites = [(out, [placed(load(path), path, None, lecture) for path in paths], [])]
    else:
        sites = [(root, *traces_in(root, lecture)) for root in dict.fromkeys(map(site_of, paths))]
    for root, site, compared in sites:
        yield from (f"{root / one.folder}: {one.trace.run.ended}" for one in site if one.trace.run.cut_short)
        render_site(site, root, compared)
        yield str(root / "index.html")


def site_of(trace: Path) -> Path:
    """Return the folder of a trace's site, relative to the current folder; `..` from the trace's own folder."""
    partial = Path(os.path.abspath(trace)).parent.name == PARTIAL
    return Path(os.path.normpath(trace.parent / ("../.." if partial else "..")))


def placed(trace: Trace, path: Path, folder: Path | None, lecture: Path | None) -> SiteTrace:
    """Return a file's trace with its folder in the site: its own folder, else one named after its machine.

    `lecture` is the current lecture; the default is the file with the trace's name next to the site, if it exists.
    """
    beside = Path(os.path.abspath(site_of(path))).parent
    named = Path(trace.run.lecture)  # a module of a package: with the package's folders
    lecture_file = lecture if lecture is not None and lecture.name == named.name else beside / named
    try:
        text = lecture_file.read_text(encoding="utf-8") if lecture_file.is_file() else None
    except (OSError, UnicodeDecodeError):
        text = None  # use the stored text
    is_partial = not trace.run.complete if folder is None else folder.name == PARTIAL
    slug = trace.machine.slug if folder is None else folder.parent.name if is_partial else folder.name
    parents = Path(os.path.abspath(lecture_file)).parents
    its_folder = parents[min(len(named.parts), len(parents)) - 1]  # of its file, or of its package
    return SiteTrace(trace, slug, text, its_folder, is_partial)


def _machine_files(one: SiteTrace, out: Path, part: int, parts: int) -> dict[str, bytes]:
    """Return the files of one machine by their names in its folder; they depend on nothing but its trace.

    With several parts, each writes its share of the sections, and the first one also writes all other files.
    """
    document = one.document
    context = SiteContext(
        picture=lambda address: read_picture(one.lecture_folder, address),
        root="../" * (one.folder.count("/") + 1),
        has_trace=(out / one.folder / "trace.yaml").exists(),
    )
    pages, texts = html.HtmlWriter(document, context), markdown.MarkdownWriter(document, context)
    files: dict[str, str | None] = {}
    if part == 0:
        files = {"index.html": pages.index(), "index.md": texts.index(), "setup.html": pages.setup()}
        files |= {FILE: index_script(document) + str(assets("search").js), SECTION: section_script()}
    for section in document.sections[part::parts]:
        files[f"{section.slug}.html"], files[f"{section.slug}.js"] = pages.section(section)
        files[f"{section.slug}.md"] = texts.section(section)
    return {name: text.encode("utf-8") for name, text in files.items() if text is not None} | texts.files


def _site_files(site: Sequence[SiteTrace], *, has_reports: bool) -> dict[str, bytes]:
    """Return the list of machines, and the index, which searches the pages of the first machine with a whole trace."""
    title = site[0].document.title if site else "No traces"
    slugs: dict[str, set[str]] = {}  # of folders, by their machine's name
    for one in site:
        slugs.setdefault(one.trace.machine.name, set()).add(one.folder_slug)
    machines, listed = [], []
    for one in site:
        name = one.trace.machine.name
        name += f" ({one.folder_slug})" if len(slugs[name]) > 1 else ""
        machines.append(overview.MachineRow(name, one.folder, one.document))
        pages = [section.slug for section in one.document.sections]
        short = name + " (partial)" * one.partial
        listed.append({"name": short, "folder": one.folder, "sections": pages})
    machines.sort(key=lambda machine: machine.folder.endswith(f"/{PARTIAL}"))
    searched = (machines[0].document.machine.name, f"{machines[0].folder}/") if machines else None
    report = f"{REPORTS}/index.html" if has_reports else None
    data = json.dumps({"list": listed, "report": report}, ensure_ascii=False)
    return {
        MACHINES: f"page.machines = {data};\n{assets('compare').js}".encode(),
        "index.html": html.site_index(title, machines, searched, report).encode("utf-8"),
        "index.md": markdown.site_index(title, machines, report).encode("utf-8"),
    }


_AT_THE_TOP = re.compile(rf"[\w-]+\.(?:html|md)|{re.escape(MACHINES)}|\.pages")


def stale_files(folder: Path, lecture: Path | None = None) -> Iterator[str]:
    """Yield a line for each file that differs, is missing, or belongs to no trace, in order.

    `lecture` is the current lecture; without it, or if its name differs, the file with the traces' name next to the
    folder is used. Raises UsageError without a trace, TraceFileError for an unreadable one.
    """
    site, compared = traces_in(folder, lecture)
    if not any(not one.partial for one in site):
        raise UsageError(f"{folder}: no traces; expected */{TRACE}")
    files_by_folder = site_files(site, folder, compared if (folder / REPORTS).is_dir() else ())
    expected = {
        str(PurePath(inner, name)): content
        for inner, files in files_by_folder.items()
        for name, content in {**files, MANIFEST: manifest(files)}.items()
    }
    existing = set()  # all that rendering can make: everything in its folders, and pages at the top level
    for root, folders, names in os.walk(folder):
        inside = Path(root).relative_to(folder)
        folders[:] = [name for name in folders if not name.startswith(".")]
        existing |= {str(inside / name) for name in names if inside.parts or _AT_THE_TOP.fullmatch(name)}
    existing -= {f"{one.folder}/{TRACE}" for one in site}
    for name in sorted(existing | expected.keys()):
        if name not in existing:
            yield f"{folder / name}: missing"
        elif name not in expected:
            yield f"{folder / name}: not made from any of these traces"
        elif (folder / name).read_bytes() != expected[name]:
            yield f"{folder / name}: differs"
