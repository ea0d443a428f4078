"""Traces and the lecture's text → the pages of a site, each made when it is asked for.

    site = Site(Path("lectures"), serve_trace(trace, path, text, modules={}))
    site.page("cpu/05-matmul.html")         its bytes, or None where there is no such page
    site.file("cpu/trace.yaml")             a file to send as it is

An address is looked up among those of the pages, never on the disk. A section traced alone after an edit
takes the place of the one in the whole lecture's trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from trace_tools.rendering.compose import make_document
from trace_tools.rendering.document import Document, Section
from trace_tools.rendering.html import HtmlWriter, MachineLink, Surroundings
from trace_tools.rendering.page_base import HALL, SECTION, shared_script
from trace_tools.rendering.pictures import Picture, read_picture
from trace_tools.rendering.search import FILE
from trace_tools.schema import Trace

PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class ServedTrace:
    """A trace with the document that is shown of it."""

    trace: Trace
    path: Path
    text: str  # of the lecture, whose prose the document has
    document: Document
    modules: Mapping[Path, bytes] = field(default_factory=dict)  # what those beside the lecture held when it ran


def serve_trace(trace: Trace, path: Path, text: str, modules: Mapping[Path, bytes]) -> ServedTrace:
    """Make a trace's document with the lecture's prose as it is now."""
    return ServedTrace(trace, path, text, make_document(trace, text), modules)


class Site:
    """The pages of one machine; a page is made once."""

    def __init__(
        self,
        lecture_folder: Path,
        whole: ServedTrace | None = None,
        section: ServedTrace | None = None,
        failed: ServedTrace | None = None,
    ) -> None:
        self._folder = lecture_folder
        self._made: dict[str, bytes] = {}
        self._pictures: dict[str, Picture] = {}
        self._lock = threading.Lock()
        self._makers: dict[str, Callable[[], str | None]] = {}
        self._files: dict[str, Path] = {}
        if whole is not None:
            later = {s.function: s for s in section.document.sections} if section is not None else {}
            sections = tuple(later.get(s.function, s) for s in whole.document.sections)
            slug = whole.trace.machine.slug
            self._add(whole, slug, replace(whole.document, sections=sections))
            if section is not None:  # its pages show the text that its own trace is of
                self._add(section, slug, replace(section.document, sections=sections), only=set(later))
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

    def _add(self, one: ServedTrace, folder: str, document: Document, only: set[str] | None = None) -> None:
        """Add the pages of a document; with `only`, of the sections of these functions."""

        def picture(address: str) -> Picture | None:
            found = read_picture(self._folder, address)
            if found is not None:
                self._pictures[f"{folder}/figures/{found.name}"] = found
            return found

        def machines(section: Section | None) -> list[MachineLink]:
            return [MachineLink(document.machine.name, f"{section.slug}.html" if section else "index.html", True)]

        writer = HtmlWriter(document, Surroundings(machines=machines, picture=picture))
        if only is None:
            self._makers |= {f"{folder}/index.html": writer.index, f"{folder}/setup.html": writer.setup}
            self._makers |= {f"{folder}/{FILE}": writer.search_index}
            self._makers |= {f"{folder}/{name}": partial(shared_script, name) for name in (HALL, SECTION)}
        for section in document.sections:
            if only is None or section.function in only:
                self._makers[f"{folder}/{section.slug}.html"] = partial(writer.section, section)
                self._makers[f"{folder}/{section.slug}.js"] = partial(writer.section_data, section)
        self._files.setdefault(f"{folder}/trace.yaml", one.path)
