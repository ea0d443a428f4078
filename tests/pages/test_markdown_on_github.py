"""GitHub's renderer (cmark-gfm) leaves no raw markup and no dead link in the lecture's Markdown pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.pages.written import Page

cmarkgfm = pytest.importorskip("cmarkgfm")

pytestmark = pytest.mark.slow  # they render the lecture

# A link, a fence, a tag, a heading, bold. `f["x"]()` in the sides of a claim is code, not a link.
RAW = re.compile(r"\]\((?!\))|```|</?[a-z]+>|^#+ |\*\*[a-z]", re.MULTILINE)


def plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def anchors_of(html: str) -> Iterable[str]:
    """Yield the anchors that GitHub gives to the headings of a page."""
    counts: Counter[str] = Counter()
    for heading in re.findall(r"<h[1-6]>(.*?)</h[1-6]>", html, re.DOTALL):
        anchor = re.sub(r"[^\w\- ]", "", plain(heading).strip().lower()).replace(" ", "-")
        yield f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor
        counts[anchor] += 1


@pytest.fixture(scope="module")
def pages(lecture_site: Path) -> dict[Path, str]:
    """Return the HTML of each Markdown page of the lecture."""
    unsafe = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(lecture_site.rglob("*.md"))}
    return {path: cmarkgfm.github_flavored_markdown_to_html(text, options=unsafe) for path, text in texts.items()}


def test_no_raw_markup_is_left(pages: dict[Path, str]) -> None:
    assert len(pages) > 30
    for path, html in pages.items():
        prose = plain(re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.DOTALL))
        assert RAW.findall(re.sub(r"\$[^$]*\$", "", prose)) == [], path.name


def test_links_and_pictures_lead_to_files_and_anchors(pages: dict[Path, str]) -> None:
    anchors = {path: {*anchors_of(html)} for path, html in pages.items()}
    relative = 0
    for path, html in pages.items():
        for tag, attributes in Page(html).tags:  # fails if tags are not closed
            address = attributes.get("src" if tag == "img" else "href") or ""
            if not address or re.match(r"[a-z]+:", address):
                continue
            relative += 1
            name, _, anchor = unquote(address).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file() and target.suffix != ".html", (path.name, address)
            assert not anchor or target.suffix != ".md" or anchor in anchors[target], (path.name, address)
            is_drawing = tag == "img" and target.suffix == ".svg"
            assert not is_drawing or "prefers-color-scheme" in target.read_text(encoding="utf-8"), address
    assert relative > 100
