"""PDFs that the real browser prints, read by pypdf; and errors if a browser cannot print."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.export.test_html_file import nothing, tiny
from tests.notebooks.whole_lecture import whole_lecture
from tests.pages.hostile import hostile_trace
from tests.programs import BROWSER, require
from trace_tools.errors import UsageError
from trace_tools.export import html_file
from trace_tools.export.html_file import one_file, printed
from trace_tools.pages.site import SiteTrace
from trace_tools.trace.model import Trace

pytestmark = pytest.mark.slow

PAGE = "<!doctype html><title>A page</title><h1>A page</h1>"


def read(trace: Trace) -> Any:
    pypdf = pytest.importorskip("pypdf", reason="pypdf reads the PDFs")
    require(BROWSER)
    return pypdf.PdfReader(io.BytesIO(printed(one_file(SiteTrace(trace, "cpu")))))


@pytest.fixture(scope="module")
def whole() -> Any:
    return read(whole_lecture())


def text_of(page: Any) -> str:
    """Return the text of a page, without its number, which comes first."""
    return " ".join(page.extract_text().split()[1:])


def annotations(reader: Any) -> list[Any]:
    return [annotation.get_object() for page in reader.pages for annotation in page.get("/Annots", [])]


def test_sections_begin_on_new_numbered_pages(whole: Any) -> None:
    texts = [text_of(page) for page in whole.pages]
    titles = ["A whole lecture", "0 The first part", "1 The second part", "Code outside the sections"]
    positions = [next(n for n, text in enumerate(texts) if text.startswith(title)) for title in titles]
    assert positions == sorted({*positions}) and positions[0] == 0
    assert "What main says." in " ".join(texts[: positions[1]])
    assert any(text.startswith("The machine and the run") for text in texts)
    assert [page.extract_text().split()[0] for page in whole.pages] == [
        str(number) for number in range(1, len(texts) + 1)
    ]
    for number, code in ((1, "assert x == 4"), (2, "assert y == 6")):
        section = " ".join(texts[positions[number] : positions[number + 1]])
        assert code in section and "return n * 2" in " ".join(texts[positions[1] :])
        assert "4 MB (right within 1%)" in section[section.index(" Answers ") :] and "Check" not in section


def titled(outline: list[Any], level: int = 0) -> Iterator[tuple[int, str]]:
    for entry in outline:
        if isinstance(entry, list):
            yield from titled(entry, level + 1)
        else:
            yield level, entry.title


def test_the_outline_has_the_headings_of_all_sections(whole: Any) -> None:
    assert whole.metadata.title == "A whole lecture · A processor"
    titles = list(titled(whole.outline))
    for title, next_one in (
        ("0 The first part", "1 The second part"),
        ("1 The second part", "Code outside the sections"),
    ):
        assert (1, "Same heading") in titles[titles.index((0, title)) : titles.index((0, next_one))]


def test_links_go_to_destinations_and_to_the_web(whole: Any) -> None:
    links = [one for one in annotations(whole) if one["/Subtype"] == "/Link"]
    addresses = {one["/A"]["/URI"] for one in links if "/URI" in one.get("/A", {})}
    assert "https://example.org/a?b=1&c=2" in addresses and all(one.startswith("https://") for one in addresses)
    inside = [one for one in links if "/Dest" in one]
    named = {str(name).removeprefix("/") for name in whole.named_destinations}
    assert len(inside) > 10 and all(
        str(one["/Dest"]).removeprefix("/") in named for one in inside if isinstance(one["/Dest"], str)
    )


def test_fonts_are_embedded(whole: Any) -> None:
    embedded = 0
    for page in whole.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            font = font.get_object()
            if font["/Subtype"] == "/Type3":
                continue  # its letters are drawings
            inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
            assert any(name.startswith("/FontFile") for name in inner["/FontDescriptor"].get_object())
            embedded += 1
    assert embedded


@pytest.mark.slow
@pytest.mark.parametrize("trace", [tiny(), nothing()], ids=["three lines", "no section"])
def test_small_lectures_are_printed(trace: Trace) -> None:
    reader = read(trace)
    assert 1 <= len(reader.pages) <= 4
    assert text_of(reader.pages[0]).startswith("A lecture")


@pytest.mark.slow
def test_a_hostile_trace_is_printed_without_actions() -> None:
    reader = read(hostile_trace())
    catalog = reader.trailer["/Root"]
    assert reader.pages and not {"/OpenAction", "/AA", "/JavaScript"} & {*catalog, *catalog.get("/Names", {})}
    actions = [one["/A"] for one in annotations(reader) if "/A" in one]
    assert all(action["/S"] == "/URI" and action["/URI"].startswith(("http", "mailto:")) for action in actions)


# --- browsers that fail ---


@pytest.fixture
def browser_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that replaces the browser with a shell script."""

    def put(script: str) -> str:
        fake = tmp_path / "chromium"
        fake.write_text(
            f'#!/bin/sh\nfor one in "$@"; do case "$one" in --print-to-pdf=*) out=${{one#*=}};; esac; done\n{script}\n'
        )
        fake.chmod(0o755)
        return str(fake)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "work"))
    monkeypatch.setattr(html_file.tempfile, "tempdir", None)
    (tmp_path / "work").mkdir()
    yield put
    assert [*(tmp_path / "work").iterdir()] == []  # all files are removed


NOISE = "echo '[1:2:3/4.5:ERROR:dbus/bus.cc:405] Failed to connect' >&2"
FULL = "echo '[1:1:3/4.5:ERROR:x/handler.cc:266] Failed to write file: No space left on device (28)' >&2"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f"{NOISE}\nexit 0", "it exited with 0"),
        (f"{NOISE}\nexit 21", "it exited with 21"),
        (f"{FULL}\n{NOISE}", "Failed to write file: No space left on device (28)"),
        (f"printf '%%PDF-1.4 half of it' > $out\n{FULL}", "Failed to write file: No space left on device (28)"),
        ("kill -9 $$", "it exited with -9"),
    ],
)
def test_a_browser_without_output_is_reported_with_its_reason(browser_that: Any, script: str, why: str) -> None:
    fake = browser_that(script)
    with pytest.raises(UsageError) as raised:
        printed(PAGE)
    assert str(raised.value) == f"{fake} printed no PDF: {why}"


def test_a_hanging_browser_is_killed_with_its_processes(
    browser_that: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = browser_that(f"sleep 1000 & echo $! > {tmp_path}/child\nwait")
    monkeypatch.setattr(html_file, "LONGEST_S", 1)
    with pytest.raises(UsageError, match=f"{fake} printed no PDF in 1 s"):
        printed(PAGE)
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    end = time.monotonic() + 10
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_browser_that_cannot_read_the_page_is_reported(browser_that: Any) -> None:
    fake = browser_that('for one in "$@"; do last=$one; done\nprintf "%%PDF-1.4 /Title ($last) %%%%EOF" > $out')
    with pytest.raises(UsageError, match=f"{fake} can't read /.*/page.html; .*TMPDIR"):
        printed(PAGE)


def test_a_missing_browser_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no browser on PATH that prints a PDF: looked for chromium, "):
        printed(PAGE)
