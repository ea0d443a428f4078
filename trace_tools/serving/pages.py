"""Traces and the lecture's text → the pages of a site, each made when it is asked for.

    site = Site(Path("lectures"), shown(trace, path, text, modules={}))
    site.page("cpu/05-matmul.html")         its bytes, or None where there is no such page
    site.file("cpu/trace.yaml")             a file to send as it is

An address is looked up among those of the pages, never on the disk. A section traced alone after an edit
takes the place of the one in the whole lecture's trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trace_tools.rendering.compose import make_document
from trace_tools.rendering.document import Document, Section
from trace_tools.rendering.html import HtmlWriter, MachineLink, Surroundings
from trace_tools.rendering.pictures import Picture, read_picture
from trace_tools.schema import Trace

PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class Shown:
    """A trace with the document that is shown of it."""

    trace: Trace
    path: Path
    text: str  # of the lecture, whose prose the document has
    document: Document
    modules: Mapping[Path, bytes] = field(default_factory=dict)  # what those beside the lecture held when it ran


def shown(trace: Trace, path: Path, text: str, modules: Mapping[Path, bytes]) -> Shown:
    """Make a trace's document with the lecture's prose as it is now."""
    return Shown(trace, path, text, make_document(trace, text), modules)


class Site:
    """The pages of one machine; a page is made once."""

    def __init__(
        self,
        lecture_folder: Path,
        whole: Shown | None = None,
        section: Shown | None = None,
        failed: Shown | None = None,
    ) -> None:
        self._folder = lecture_folder
        self._made: dict[str, bytes] = {}
        self._pictures: dict[str, Picture] = {}
        self._lock = threading.Lock()
        self._makers: dict[str, Callable[[], str | None]] = {}
        self._files: dict[str, Path] = {}
        if whole is not None:
            self._add(whole, whole.trace.machine.slug, _merged(whole.document, section))
        if whole is not None and section is not None:
            own = {s.function for s in section.document.sections}
            merged = replace(section.document, sections=_merged(whole.document, section).sections)
            self._add(replace(section, document=merged), section.trace.machine.slug, merged, own)
        if failed is not None:
            self._add(failed, f"{failed.trace.machine.slug}/{PARTIAL}", failed.document)

    @property
    def addresses(self) -> Mapping[str, object]:
        """The addresses of all pages, the first one's first."""
        return self._makers

    def page(self, address: str) -> bytes | None:
        """Return a page, made now unless it was before."""
        maker = self._makers.get(address)
        if maker is None:
            return None
        with self._lock:
            if address not in self._made:
                made = maker()
                if made is None:
                    return None
                self._made[address] = made.encode("utf-8")
            return self._made[address]

    def file(self, address: str) -> Path | None:
        """Return the trace that lies at an address."""
        return self._files.get(address)

    def picture(self, address: str) -> Picture | None:
        """Return a picture too large to stand in the page that was made with it."""
        return self._pictures.get(address)

    def _add(self, one: Shown, folder: str, document: Document, only: set[str] | None = None) -> None:
        writer = HtmlWriter(document, self._place(folder, document))
        for name, maker in _makers(writer, document, only):
            self._makers[f"{folder}/{name}"] = maker
        self._files.setdefault(f"{folder}/trace.yaml", one.path)

    def _place(self, folder: str, document: Document) -> Surroundings:
        def picture(address: str) -> Picture | None:
            found = read_picture(self._folder, address)
            if found is not None:
                self._pictures[f"{folder}/figures/{found.name}"] = found
            return found

        def machines(section: Section | None) -> list[MachineLink]:
            return [MachineLink(document.machine.name, f"{section.slug}.html" if section else "index.html", True)]

        return Surroundings(machines=machines, picture=picture)


def _merged(document: Document, section: Shown | None) -> Document:
    """Put the sections of a later trace in the places of those of the same name."""
    later = {s.function: s for s in section.document.sections} if section is not None else {}
    return replace(document, sections=tuple(later.get(s.function, s) for s in document.sections))


def _makers(
    writer: HtmlWriter, document: Document, only: set[str] | None
) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Yield the name of each page and what makes it; with `only`, of the sections of these functions."""
    if only is None:
        yield "index.html", writer.index
        yield "setup.html", writer.setup
    for section in document.sections:
        if only is None or section.function in only:
            yield f"{section.slug}.html", lambda section=section: writer.section(section)  # type: ignore[misc]
