"""Make the pages of a site on request, from traces and the lecture's text.

    site = Site(Path("lectures"), serve_trace(trace, path, text, modules={}))
    site.page("cpu/05-matmul.html")         its bytes, or None for an unknown address
    site.file("cpu/trace.yaml")             a file to send unchanged

    live = live_page(html)                  adds the script that reloads a page after changes
    live.content, live.policy               the page and the content security policy to send

Addresses are looked up among the pages, never on the disk. A section that was traced alone after an edit replaces the
section of the whole lecture's trace.

A page's own policy allows only its own content, and a second policy could only restrict it further. So the policy moves
to a header, extended by the hashes of the server's script and style and by the connection for status messages.
"""

from __future__ import annotations

import hashlib
import html
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document, Section
from trace_tools.pages.html import HtmlWriter, MachineLink, SiteContext
from trace_tools.pages.pictures import Picture, read_picture
from trace_tools.pages.search import FILE
from trace_tools.presentation.page_shell import SECTION, shared_script, source_hash
from trace_tools.trace.model import Trace

PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class ServedTrace:
    """A trace with its document."""

    trace: Trace
    path: Path
    text: str  # of the lecture, the source of the document's prose
    document: Document
    modules: Mapping[Path, bytes] = field(default_factory=dict)  # content of the imported modules when it ran


def serve_trace(trace: Trace, path: Path, text: str, modules: Mapping[Path, bytes]) -> ServedTrace:
    """Make a trace's document with the lecture's current prose."""
    return ServedTrace(trace, path, text, make_document(trace, text), modules)


class Site:
    """The pages of one machine; each page is made once."""

    def __init__(
        self,
        lecture_folder: Path,
        lecture: ServedTrace | None = None,
        section: ServedTrace | None = None,
        failed: ServedTrace | None = None,
    ) -> None:
        self._folder = lecture_folder
        self._cache: dict[str, bytes] = {}
        self._pictures: dict[str, Picture] = {}
        self._lock = threading.Lock()
        self._makers: dict[str, Callable[[], str | None]] = {}
        self._files: dict[str, Path] = {}
        if lecture is not None:
            retraced = {s.function: s for s in section.document.sections} if section is not None else {}
            sections = tuple(retraced.get(s.function, s) for s in lecture.document.sections)
            slug = lecture.trace.machine.slug
            self._add(lecture, slug, replace(lecture.document, sections=sections))
            if section is not None:  # its pages show the text of its own trace
                self._add(section, slug, replace(section.document, sections=sections), only=set(retraced))
        if failed is not None:
            self._add(failed, f"{failed.trace.machine.slug}/{PARTIAL}", failed.document)

    @property
    def addresses(self) -> Mapping[str, object]:
        """The addresses of all pages; the address of the first page comes first."""
        return self._makers

    def page(self, address: str) -> bytes | None:
        """Return a page, from the cache if it was made before."""
        maker = self._makers.get(address)
        if maker is None:
            return None
        with self._lock:
            if address not in self._cache:
                text = maker()
                if text is None:
                    return None
                self._cache[address] = text.encode("utf-8")
            return self._cache[address]

    def file(self, address: str) -> Path | None:
        """Return the trace at an address, or None."""
        return self._files.get(address)

    def picture(self, address: str) -> Picture | None:
        """Return a picture that is too large to be embedded in its page."""
        return self._pictures.get(address)

    def _add(self, served: ServedTrace, folder: str, document: Document, only: set[str] | None = None) -> None:
        """Add the pages of a document; with `only`, just the pages of these sections."""

        def picture(address: str) -> Picture | None:
            image = read_picture(self._folder, address)
            if image is not None:
                self._pictures[f"{folder}/figures/{image.name}"] = image
            return image

        def machines(section: Section | None) -> list[MachineLink]:
            return [MachineLink(document.machine.name, f"{section.slug}.html" if section else "index.html", True)]

        writer = HtmlWriter(document, SiteContext(machines=machines, picture=picture))
        if only is None:
            self._makers |= {f"{folder}/index.html": writer.index, f"{folder}/setup.html": writer.setup}
            self._makers |= {f"{folder}/{FILE}": writer.search_index}
            self._makers[f"{folder}/{SECTION}"] = shared_script
        for section in document.sections:
            if only is None or section.function in only:
                self._makers[f"{folder}/{section.slug}.html"] = partial(writer.section, section)
                self._makers[f"{folder}/{section.slug}.js"] = partial(writer.section_data, section)
        self._files.setdefault(f"{folder}/trace.yaml", served.path)


# --- a page that reloads itself -------------------------------------------------------------------

STATIC = Path(__file__).parent / "static"
EVENTS = "/-/notices"  # no page has an address with this prefix
MARK = "live-page"  # name of the <meta> with the digest of the page

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_HIDDEN = '<div id="live" class="live" role="status" hidden></div>'


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page to send; `digest` changes with its content."""

    content: bytes
    policy: str
    digest: str


def live_page(page: bytes) -> LivePage:
    """Add the script to a rendered page."""
    text = page.decode("utf-8")
    digest = hashlib.sha256(page).hexdigest()[:16]
    meta = _POLICY.search(text)
    policy = html.unescape(meta[1]) if meta else "default-src 'none'; script-src 'none'; style-src 'none'"
    head = f'<meta name="{MARK}" content="{digest}">'
    text = text[: meta.start()] + head + text[meta.end() :] if meta else text
    css, js = _asset("live.css"), _asset("live.js")
    before, _, after = text.rpartition("</body>")
    text = f"{before}{_HIDDEN}<style>{css}</style><script>{js}</script></body>{after}"
    policy = policy.replace("script-src 'none'", "script-src").replace("script-src", f"script-src '{source_hash(js)}'")
    policy = policy.replace("style-src", f"style-src '{source_hash(css)}'")
    return LivePage(text.encode("utf-8"), f"{policy}; connect-src 'self'", digest)


def plain_page(title: str, text: str) -> LivePage:
    """Return a page for an address that has no page (yet); it is reloaded as well."""
    css = _asset("plain.css")
    policy = f"default-src 'none'; script-src 'none'; style-src '{source_hash(css)}'"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{html.escape(policy, False)}">'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = f"<main><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p></main>"
    page = f"<!doctype html>\n<html lang='en'><head>{head}<title>{html.escape(title)}</title>"
    return live_page(f"{page}<style>{css}</style></head><body>{body}</body></html>".encode())


@cache
def _asset(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")
