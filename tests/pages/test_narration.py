from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cases_in_one import each
from tests.pages.explored import EXPLORED
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_html, as_markdown
from trace_tools.trace.model import Answer, Ask, Image, Link, Narrative, Note, Plot, Series, Table, Text, Varied, Video

SAID = [
    Text(text="Says *it*."),
    Note(text="Says *it*."),
    Link(title="Says it", url="https://example.org", authors="A. Author"),
    Image(title="Says it", url="there.png"),
    Image(title="Says it", url="https://example.org/a.png", width="50%", flows=True),
    Video(title="Says it", url="there.png", width=300),
    Table(title="Says it", columns=["a", "b"], rows=[[1, "<x>"], [None, 2.5]]),
    Ask(text="Says it", answer=Answer(3, "B", 0.01)),
    replace(EXPLORED[0], title="Says it"),
    Plot(title="Says it", series=[Series("loss", [1, 2], [3, 4])]),
]


def image(address: str) -> str | None:
    return f"figures/{address}" if address == "there.png" else None


@each("narrative", SAID, ids=[one.kind for one in SAID])
def test_each_word_stands_on_both_pages_with_what_it_says(narrative: Narrative) -> None:
    said = Narration(narrative, 3)
    page, text = as_html(said, image), as_markdown(said, image, lambda name, svg: f"figures/{name}.svg")
    assert 'id="said-3"' in page and "ays" in page and "it" in text
    assert "<x>" not in page and "<x>" not in text


def test_an_image_that_is_not_there_is_said() -> None:
    said = Narration(Image(url="nowhere.png"), 1)
    assert "Image not shown: nowhere.png" in as_html(said, image)
    assert "Image not shown" in as_markdown(said, image, lambda name, svg: name)


def test_what_other_runs_said_stands_below() -> None:
    said = Narration(Text(text="Fast.", others=[("Slow.", 2)]), 1, sometimes="this is the text of 4 of 6 runs")
    for text in (as_html(said, image), as_markdown(said, image, lambda name, svg: name)):
        assert "This is the text of 4 of 6 runs" in text and "Slow." in text


def test_a_column_of_rates_or_seconds_has_one_prefix_on_both_pages() -> None:
    """The prefix suits the median; what other runs had is written with it, a count in FLOPs and a text as they are."""
    rows = [["slow", 4e9, 0.002, 268_435_456], ["fast", 192e9, 0.0116, 2**31], ["none", None, 0.5, 0]]
    varied = [Varied([4e9, 5e9], [6e9], row=0, column=1)]
    columns = ["what", "rate, FLOP/s", "s", "claimed, FLOPs"]
    said = Narration(Table(columns=columns, rows=rows, varied=varied), 1)
    text = as_markdown(said, image, lambda name, svg: name)
    assert "| what | rate, GFLOP/s | ms | claimed, FLOPs |" in text
    assert "| slow | 4 \\[4 … 5\\] | 2.0 | 268,435,456 |" in text and "| none | – | 500.0 | 0 |" in text
    page = as_html(said, image)
    assert ">rate, GFLOP/s<" in page and "192" in page and "4 … 5 in 2 warm runs; first runs: 6" in page


@pytest.mark.parametrize(
    "url", ["https://a;script-src/x.png", "https://u@example.org/x.png", "javascript:x", "https:x"]
)
def test_an_image_is_had_from_no_address_that_a_policy_can_not_name(url: str) -> None:
    for kind in (Image, Video):
        said = Narration(kind(url=url), 1)
        assert "not shown" in as_html(said, image) and "src=" not in as_html(said, image)
        assert "not shown" in as_markdown(said, image, lambda name, svg: name)
