"""HTML and Markdown pages of special runs; `tests/golden` compares the pages of a usual one completely."""

from __future__ import annotations

import re

import pytest

from tests.pages.lectures import failing, first_section, lecture
from tests.pages.recording import of_section
from tests.pages.written import Page, html, html_pages, markdown
from trace_tools.pages.document import Call, Narration
from trace_tools.trace.model import Image, Machine, Meters, Run, Table, Text, Value, Video


def test_missing_flops_are_explained() -> None:
    recording, f = of_section("x = 1")
    meters = Meters(uncounted=["aten.odd"], why="fused")
    recording.step(f, "x = 1", annotated=True, host_ns=[5 * 10**6], meters=meters)
    text = html(recording.trace())
    assert re.search("no FLOP formula</th><td>[^<]*aten.odd", text) and "fused" in text and "FLOPs" not in text


def test_an_emulated_device_is_named_on_every_page() -> None:
    machine = Machine("A device", "emulated-a-device", "cuda", emulated=True)
    pages = html_pages(lecture().trace(machine=machine))
    assert all("Emulated" in Page(text).text("notice") for text in pages.values()) and "by software" in pages["index"]
    assert "> ⚠ Emulated" in markdown(lecture().trace(machine=machine))
    assert not any("mulated" in text for text in html_pages(lecture().trace()).values())


@pytest.mark.parametrize("survived", [False, True])
def test_an_uncaught_exception_is_in_a_notice_and_at_its_line(survived: bool) -> None:
    """It ended the run, or only the section of a run that kept going."""
    run = Run("lecture.py", "2025", 0, 3, 100, complete=survived, ended=None if survived else "ValueError at line 61")
    trace = failing(survived=survived).trace(run=run)
    page, text = Page(html(trace, 1)), markdown(trace, 1)
    ended = "section" if survived else "run"
    assert "ValueError" in page.text("failure") and f"the {ended} ended here" in page.text("failure")
    assert f"> **✗ ValueError** (not caught: the {ended} ended here)" in text
    assert ("run ended" in text, "partial" in text) == (not survived, not survived)
    assert ("This trace is partial: ValueError at line 61" in page.text("notice")) is not survived
    assert "> ✗ " in text and "ValueError at line 61" in text
    assert "never" in page.text("unrun")


def test_cells_of_markdown_tables_are_escaped() -> None:
    recording, f = of_section("g()")
    table = Table(title="T", columns=["a|b", "$n$"], rows=[["x|y", 1.5], [None, 10**5]])
    recording.step(f, "g()", narrative=[table])
    assert "| a\\|b | $n$ |\n| --- | --- |\n| x\\|y | 1.5 |\n| – | 100,000 |" in markdown(recording.trace())


def test_deeper_parts_are_folded_after_the_closing_text() -> None:
    recording, f = of_section(
        "text('Core.')\nmore()  # @deeper\ntext('Closing.')", 'def more():\n    """More of it"""\n    text("Deeper.")\n'
    )
    recording.step(f, "text('Core", narrative=[Text(text="Core.")])
    recording.step(recording.call(f, "more()", "more"), 'text("Deep', narrative=[Text(text="Deeper.")])
    recording.step(f, "text('Clos", narrative=[Text(text="Closing.")])
    section = first_section(recording.trace())
    [*_, closing, above, part] = section.blocks
    assert isinstance(part, Call) and part.shown == "part" and part.deeper
    assert isinstance(closing, Narration) and closing.takeaway and isinstance(above, Narration) and not above.takeaway
    assert [(it.level, it.anchor) for it in section.headings] == [(2, "deeper"), (3, "more-of-it")]
    assert section.stepping.stops[-1].anchor == f"said-{closing.number}"  # the player goes in the order of the run
    for page, heading in ((html(recording.trace()), ">More of it<"), (markdown(recording.trace()), "# More of it")):
        main = page.partition("<main")[2] or page
        order = ("Core.", "Closing.", "Deeper: ", heading, "</summary>", "Deeper.")
        assert [*map(main.index, order)] == sorted(map(main.index, order))


def test_the_policy_allows_the_hosts_of_media_on_the_web() -> None:
    media = [kind(url=f"https://{kind.__name__}.example/a.png".lower()) for kind in (Image, Video)]
    recording, f = of_section("x = 1")
    recording.step(f, "x = 1", narrative=media, values=[("x", Value("int", 1))])
    policy = html(recording.trace()).partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.count("https:") == 4
    assert "img-src &#39;self&#39; data: https://image.example https://video.example;" in policy
    assert "media-src &#39;self&#39; data: https://image.example https://video.example;" in policy
