"""Collect the pages of a folder for a host of static files, with a page for missing addresses, a site map, and
previews.

    files = static_site(Path("rendered"), "https://example.org/lecture/")
    update_folder(Path("site"), files, INSIDE)

Only files that `index.html` links to, directly or indirectly, are included. Links between pages stay relative. The
site's address is used in the map and in the previews (title, description and picture), which need absolute addresses.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from trace_tools.errors import UsageError
from trace_tools.pages.html import not_found
from trace_tools.pages.search import FILE
from trace_tools.presentation.page_shell import HALL
from trace_tools.trace.trace_file import load_head

INSIDE = re.compile(r"(?:(?!\.\.?/)[^/\\]+/)*(?!\.\.?$)[^/\\]+")  # a file's name within the site
FIRST = "index.html"
PREVIEW = (1200, 630)  # pixels, the shape that most sites use for previews
HAN = re.compile(r"[\u4e00-\u9fff]")
HAN_FONTS = ("Noto Serif CJK SC", "Noto Serif CJK JP", "Songti SC", "SimSun", "Noto Sans CJK JP")
INK, SOFT, PAPER, ACCENT = "#1d2129", "#5f6672", "#fdfdfb", "#2457c5"


def static_site(folder: Path, address: str) -> dict[str, bytes]:
    """Return the files of the site by name.

    Raises `UsageError` if `folder` has no pages, the address is invalid, a page links to a missing file, or a trace was
    made on an emulated device, which must not be published.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"--url {address}: expected the site's address, like https://example.org/lecture/")
    address = address.rstrip("/") + "/"
    if not (folder / FIRST).is_file():
        raise UsageError(f"{folder}: contains no pages ({FIRST} is missing)")
    files: dict[str, bytes] = {}
    pages: dict[str, _Page] = {}
    for name, content, page in _reached(folder):
        files[name] = content
        if page is not None:
            pages[name] = page
    for name in files:
        if name.endswith("trace.yaml") and load_head(folder / name).machine.emulated:
            raise UsageError(f"{folder / name}: was made on an emulated device, so it can't be published")
    lecture = pages[FIRST].title
    for name, page in pages.items():
        picture = None
        if (drawn := preview(page.title, page.description, lecture)) is not None:
            picture = f"previews/{name.removesuffix('.html').replace('/', '-')}.png"
            files[picture] = drawn
        files[name] = _with_preview(files[name].decode("utf-8"), page, address, name, picture).encode("utf-8")
    files["404.html"] = not_found(address).encode("utf-8")
    urls = "".join(f"<url><loc>{escape(_url(address, page))}</loc></url>\n" for page in sorted(pages))
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    files["sitemap.xml"] = f"{head}{urls}</urlset>\n".encode()  # sitemaps.org
    files[".nojekyll"] = b""  # makes GitHub serve the pages unchanged
    return files


class _Page(HTMLParser):
    """Reads a page's description and links from its HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title = self.description = self.inside = self.language = ""
        self.links: list[str] = []
        self.alternates: list[tuple[str, str]] = []  # language, relative address of the same page
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.inside = tag
        if tag == "meta" and attributes.get("name") == "description":
            self.description = attributes.get("content") or ""
        if tag == "html":
            self.language = attributes.get("lang") or "en"
        if tag == "a" and attributes.get("hreflang"):
            self.alternates.append((attributes["hreflang"] or "", attributes.get("href") or ""))
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset") and value]

    def handle_data(self, data: str) -> None:
        if self.inside == "title" and not self.title:
            self.title = data.strip()


def _reached(folder: Path) -> Iterator[tuple[str, bytes, _Page | None]]:
    """Yield the files that the first page leads to, including itself, by name; pages with their parsed form."""
    waiting, reached = [FIRST], {FIRST}
    while waiting:
        name = waiting.pop()
        content = (folder / name).read_bytes()
        page = _Page(content.decode("utf-8")) if name.endswith(".html") else None
        yield name, content, page
        if page is None:
            continue
        loaded = (join(dirname(name), script) for script in (FILE, HALL))  # loaded by scripts on demand
        links = [(target, target) for target in loaded if (folder / target).is_file()]
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc and parts.path:
                links.append((link, normpath(join(dirname(name), unquote(parts.path)))))
        for link, target in links:
            if not INSIDE.fullmatch(target) or not (folder / target).is_file():
                raise UsageError(f"{folder / name}: links to {link}, which does not exist")
            if target not in reached:
                reached.add(target)
                waiting.append(target)


def _with_preview(text: str, page: _Page, address: str, name: str, picture: str | None) -> str:
    """Return a page with a preview for other sites in its head (Open Graph, ogp.me), and its other languages."""
    width, height = PREVIEW
    properties = {
        "og:type": "article",
        "og:title": page.title,
        "og:description": page.description,
        "og:url": _url(address, name),
    }
    if picture is not None:
        properties |= {"og:image": _url(address, picture), "og:image:width": str(width), "og:image:height": str(height)}
    lines = "".join(
        f'<meta property="{key}" content="{escape(value)}">\n' for key, value in properties.items() if value
    )
    own = [(page.language, "")] if page.alternates else []
    for language, link in [*own, *page.alternates]:
        target = normpath(join(dirname(name), unquote(urlsplit(link).path))) if link else name
        lines += f'<link rel="alternate" hreflang="{escape(language)}" href="{escape(_url(address, target))}">\n'
    return text.replace("<title>", f'{lines}<meta name="twitter:card" content="summary_large_image">\n<title>', 1)


def _url(address: str, name: str) -> str:
    return address + quote("" if name == FIRST else name)


def preview(title: str, description: str, lecture: str) -> bytes | None:
    """Return the preview picture of a page as PNG: its title, its first sentence and the lecture's name.

    Return None for a Chinese page if no font with Chinese characters is installed.
    """
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    width, height = PREVIEW
    figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor=PAPER)
    head, _, site_title = title.partition(" · ")
    installed = {font.name for font in fontManager.ttflist}
    han = [name for name in HAN_FONTS if name in installed]
    if HAN.search(title + description + lecture) and not han:
        return None
    families = ["serif", *han]
    style: dict[str, Any] = {"family": families, "parse_math": False, "va": "top"}
    wide = 0.55 if HAN.search(head) else 1.0  # a Han character is about as wide as two letters
    lines = textwrap.wrap(head, int(34 * wide))[:3]
    figure.text(0.07, 0.84, "\n".join(lines), size=46, color=INK, linespacing=1.15, **style)
    top = 0.84 - 0.125 * len(lines) - 0.05
    words = textwrap.wrap(description, int(66 * wide), max_lines=int((top - 0.16) / 0.068), placeholder=" …")
    figure.text(0.07, top, "\n".join(words), size=22, color=SOFT, linespacing=1.3, **style)
    foot = " · ".join(dict.fromkeys(part for part in (lecture, site_title) if part and part != head))
    figure.text(0.07, 0.1, foot, size=18, color=ACCENT, **style)
    written = io.BytesIO()
    figure.savefig(written, format="png", metadata={"Software": None})  # so that equal texts give equal bytes
    return written.getvalue()
