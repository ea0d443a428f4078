"""Lectures as a single HTML file: it has the contents of all pages. `test_every_page.py` has the rest."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from tests.pages.whole_lecture import LECTURE, ON_THE_WEB, whole_lecture
from tests.pages.written import Page, html_pages
from trace_tools.pages.html import one_file

PNG = b"\x89PNG\r\n\x1a\n"
NUMBERED = re.compile(r"^(said-|range-|fig)(\d+|N)")  # ids of a narration, which count on from section to section


def words(html: str) -> str:
    """Return the text of a page without spaces, and without the remark that a picture is on the web."""
    return re.sub(r"\s+", "", re.sub(r"<[^>]+>", "", html.replace("Image on the web: An image", "")))


def ids(html: str) -> list[str]:
    """Return the ids of a page; those of figures have the name of their page."""
    return [NUMBERED.sub(r"\1N", identity) for identity in re.findall(r' id="([^"]+)"', html)]


def test_the_file_has_the_text_of_the_pages() -> None:
    pages, whole = html_pages(whole_lecture()), one_file(whole_lecture(), LECTURE)
    for number, slug in enumerate(["00-first", "01-second"]):
        main = re.findall(r"<main[^>]*>(.*)</main>", pages[slug], re.DOTALL)[0]
        main = re.sub(r'<nav class="turn".*?</nav>| · <a href="trace.yaml".*?</a>', "", main, flags=re.DOTALL)
        part = whole.partition(f'id="{slug}"')[2].partition('<p class="label back"')[0].partition(">")[2]
        assert words(part) == words(main)
        assert ids(part) == [
            name if NUMBERED.match(name) or slug in name else f"{number}--{name}" for name in ids(main)
        ]
        assert part.count("<a ") == main.count("<a ") - 1  # a link to a file is plain text in the single file
    assert words(pages["setup"]).count("textK=3") == words(whole).count("textK=3") == 1
    text = Page(whole).text("main")
    assert "What main says." in text and "It promises much." in text
    absent = ("search-open", "player", "machines", "again", "panel", "search", "keys")
    assert not {*absent} & {*Page(whole).ids()} and "<noscript" not in whole


def test_pictures_are_embedded_and_remote_ones_are_links(tmp_path: Path) -> None:
    (tmp_path / "small.png").write_bytes(PNG + b"small")
    (tmp_path / "large.png").write_bytes(PNG + bytes(200_000))
    (tmp_path / "film.webm").write_bytes(b"\x1aE\xdf\xa3film")
    page = Page(one_file(whole_lecture(), LECTURE, tmp_path))
    sources = [(attributes["src"] or "").partition(",") for tag, attributes in page.tags if tag in ("img", "video")]
    assert [kind for kind, _, _ in sources] == ["data:image/png;base64"] * 2 + ["data:video/webm;base64"]
    assert base64.b64decode(sources[1][2]) == PNG + bytes(200_000)  # large images, too
    assert [attributes.get("href") for tag, attributes in page.tags if tag == "a"].count(ON_THE_WEB) == 1
    assert "Image on the web: An image" in page.text("label")
