"""PDFs that the installed browser prints, read by pypdf, and errors if a browser does not print."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.export.test_html_file import no_sections, one_section
from tests.export.whole_lecture import whole_lecture
from tests.pages.hostile import hostile_trace
from tests.programs import BROWSER, require
from trace_tools.errors import UsageError
from trace_tools.export import html_file
from trace_tools.export.html_file import one_file, printed
from trace_tools.pages.site import SiteTrace
from trace_tools.trace.model import Trace

pytestmark = pytest.mark.slow

PAGE = "<!doctype html><title>A page</title><h1>A page</h1>"


def pdf_of(trace: Trace) -> Any:
    """Print a trace; return the PDF as pypdf's reader."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf reads the PDFs")
    require(BROWSER)
    return pypdf.PdfReader(io.BytesIO(printed(one_file(SiteTrace(trace, "cpu")))))


@pytest.fixture(scope="module")
def lecture_pdf() -> Any:
    return pdf_of(whole_lecture())


def text_of(page: Any) -> str:
    """Return the text of a page without its first word, the page number."""
    return " ".join(page.extract_text().split()[1:])


def annotations(reader: Any) -> list[Any]:
    return [annotation.get_object() for page in reader.pages for annotation in page.get("/Annots", [])]


def test_sections_begin_on_new_numbered_pages(lecture_pdf: Any) -> None:
    texts = [text_of(page) for page in lecture_pdf.pages]
    titles = ["A whole lecture", "0 The first part", "1 The second part", "Code outside the sections"]
    positions = [next(n for n, text in enumerate(texts) if text.startswith(title)) for title in titles]
    assert positions == sorted({*positions}) and positions[0] == 0
    assert "What main says." in " ".join(texts[: positions[1]])
    assert any(text.startswith("The machine and the run") for text in texts)
    assert [page.extract_text().split()[0] for page in lecture_pdf.pages] == [
        str(number) for number in range(1, len(texts) + 1)
    ]
    for number, code in ((1, "assert x == 4"), (2, "assert y == 6")):
        section = " ".join(texts[positions[number] : positions[number + 1]])
        assert code in section and "return n * 2" in section
        assert "4 MB (right within 1%)" in section[section.index(" Answers ") :] and "Check" not in section


def levels_and_titles(outline: list[Any], level: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the level and title of each entry of a nested outline."""
    for entry in outline:
        if isinstance(entry, list):
            yield from levels_and_titles(entry, level + 1)
        else:
            yield level, entry.title


def test_the_outline_has_the_headings_of_all_sections(lecture_pdf: Any) -> None:
    assert lecture_pdf.metadata.title == "A whole lecture · A processor"
    entries = list(levels_and_titles(lecture_pdf.outline))
    for title, next_title in (
        ("0 The first part", "1 The second part"),
        ("1 The second part", "Code outside the sections"),
    ):
        assert (1, "Same heading") in entries[entries.index((0, title)) : entries.index((0, next_title))]


def test_links_go_to_destinations_and_to_the_web(lecture_pdf: Any) -> None:
    links = [annotation for annotation in annotations(lecture_pdf) if annotation["/Subtype"] == "/Link"]
    urls = {link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})}
    assert "https://example.org/a?b=1&c=2" in urls and all(url.startswith("https://") for url in urls)
    internal = [link["/Dest"] for link in links if "/Dest" in link]
    destinations = {str(name).removeprefix("/") for name in lecture_pdf.named_destinations}
    assert len(internal) > 10 and all(
        str(name).removeprefix("/") in destinations for name in internal if isinstance(name, str)
    )


def test_fonts_are_embedded(lecture_pdf: Any) -> None:
    embedded_count = 0
    for page in lecture_pdf.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            font = font.get_object()
            if font["/Subtype"] == "/Type3":
                continue  # its glyphs are drawings, without a font file
            described = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
            assert any(name.startswith("/FontFile") for name in described["/FontDescriptor"].get_object())
            embedded_count += 1
    assert embedded_count


@pytest.mark.slow
@pytest.mark.parametrize("trace", [one_section(), no_sections()], ids=["one section", "no sections"])
def test_small_lectures_are_printed(trace: Trace) -> None:
    reader = pdf_of(trace)
    assert 1 <= len(reader.pages) <= 4
    assert text_of(reader.pages[0]).startswith("A lecture")


@pytest.mark.slow
def test_links_are_the_only_actions_of_a_hostile_trace() -> None:
    reader = pdf_of(hostile_trace())
    catalog = reader.trailer["/Root"]
    assert reader.pages and not {"/OpenAction", "/AA", "/JavaScript"} & {*catalog, *catalog.get("/Names", {})}
    actions = [annotation["/A"] for annotation in annotations(reader) if "/A" in annotation]
    assert all(action["/S"] == "/URI" and action["/URI"].startswith(("http", "mailto:")) for action in actions)


# --- browsers that fail ---


@pytest.fixture
def fake_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that replaces the browser with a shell script, in which `$out` is the path of the PDF.

    After the test, the folder of temporary files must be empty.
    """

    def install(script: str) -> str:
        path = tmp_path / "chromium"
        path.write_text(
            f'#!/bin/sh\nfor arg in "$@"; do case "$arg" in --print-to-pdf=*) out=${{arg#*=}};; esac; done\n{script}\n'
        )
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "work"))
    monkeypatch.setattr(html_file.tempfile, "tempdir", None)
    (tmp_path / "work").mkdir()
    yield install
    assert [*(tmp_path / "work").iterdir()] == []


DBUS_ERROR = "echo '[1:2:3/4.5:ERROR:dbus/bus.cc:405] Failed to connect' >&2"
DISK_FULL = "echo '[1:1:3/4.5:ERROR:x/handler.cc:266] Failed to write file: No space left on device (28)' >&2"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"{DBUS_ERROR}\nexit 0", "it exited with 0"),
        (f"{DBUS_ERROR}\nexit 21", "it exited with 21"),
        (f"{DISK_FULL}\n{DBUS_ERROR}", "Failed to write file: No space left on device (28)"),
        (f"printf '%%PDF-1.4 incomplete' > $out\n{DISK_FULL}", "Failed to write file: No space left on device (28)"),
        ("kill -9 $$", "it exited with -9"),
    ],
)
def test_missing_or_incomplete_output_is_reported_with_its_reason(fake_browser: Any, script: str, reason: str) -> None:
    browser = fake_browser(script)
    with pytest.raises(UsageError) as raised:
        printed(PAGE)
    assert str(raised.value) == f"{browser} printed no PDF: {reason}"


def test_a_hanging_browser_is_killed_with_its_processes(
    fake_browser: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    browser = fake_browser(f"sleep 1000 & echo $! > {tmp_path}/child\nwait")
    monkeypatch.setattr(html_file, "LONGEST_S", 1)
    with pytest.raises(UsageError, match=f"{browser} printed no PDF in 1 s"):
        printed(PAGE)
    child_status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while child_status.exists() and child_status.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_browser_that_cannot_read_the_page_is_reported(fake_browser: Any) -> None:
    """The title of a browser's own error page is the address of the page."""
    browser = fake_browser('for arg in "$@"; do last=$arg; done\nprintf "%%PDF-1.4 /Title ($last) %%%%EOF" > $out')
    with pytest.raises(UsageError, match=f"{browser} can't read /.*/page.html; .*TMPDIR"):
        printed(PAGE)


def test_a_missing_browser_is_reported_with_the_names_of_browsers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no browser on PATH that prints a PDF: looked for chromium, "):
        printed(PAGE)
