"""GitHub's renderer (cmark-gfm) leaves no raw markup and no dead link in the lecture's Markdown pages."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

cmarkgfm = pytest.importorskip("cmarkgfm")

pytestmark = pytest.mark.slow  # they render the lecture

VOID = {"br", "hr", "img", "input"}
# A link, a fence, a tag, a heading, bold. `f["x"]()` in the sides of a claim is code, not a link.
RAW = re.compile(r"\]\((?!\))|```|</?[a-z]+>|^#+ |\*\*[a-z]")


class Page(HTMLParser):
    """A rendered page: its raw markup, links, pictures and anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.raw: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.anchors: set[str] = set()
        self.heading: str | None = None
        self.counts: Counter[str] = Counter()
        unsafe = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
        self.feed(cmarkgfm.github_flavored_markdown_to_html(path.read_text(encoding="utf-8"), options=unsafe))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        if tag == "img":
            self.pictures.append(str(attributes["src"]))
        if re.fullmatch("h[1-6]", tag):
            self.heading = ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(f"</{tag}>")
        if self.heading is not None and re.fullmatch("h[1-6]", tag):
            anchor = re.sub(r"[^\w\- ]", "", self.heading.strip().lower()).replace(" ", "-")
            self.anchors.add(f"{anchor}-{self.counts[anchor]}" if self.counts[anchor] else anchor)
            self.counts[anchor] += 1
            self.heading = None

    def handle_data(self, data: str) -> None:
        if self.heading is not None:
            self.heading += data
        if not {"code", "pre"} & {*self.open}:
            self.raw += [data for _ in RAW.finditer(re.sub(r"\$[^$]*\$", "", data))]


@pytest.fixture(scope="module")
def pages(lecture_site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(lecture_site.rglob("*.md"))}


def test_no_raw_markup_is_left_and_tags_are_closed(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert {str(path): page.raw for path, page in pages.items() if page.raw} == {}
    assert [path for path, page in pages.items() if page.open or page.wrong] == []


def test_links_lead_to_existing_files_and_anchors(pages: dict[Path, Page]) -> None:
    relative = 0
    for path, page in pages.items():
        for link in (link for link in page.links if not re.match(r"[a-z]+:", link)):
            relative += 1
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file() and target.suffix != ".html", (path.name, link)
            assert not anchor or target.suffix != ".md" or anchor in pages[target].anchors, (path.name, link)
    assert relative > 100


def test_pictures_exist_and_drawings_have_a_dark_scheme(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for picture in (path.parent / unquote(source) for source in page.pictures):
            assert picture.is_file(), (path.name, picture.name)
            is_drawing = picture.suffix == ".svg"
            assert not is_drawing or "prefers-color-scheme" in picture.read_text(encoding="utf-8"), picture.name
