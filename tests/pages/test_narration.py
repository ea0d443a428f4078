from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cases_in_one import each
from tests.pages.explored import EXPLORED
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_html, as_markdown
from trace_tools.trace.model import Answer, Ask, Image, Link, Narrative, Note, Plot, Series, Table, Text, Varied, Video

NARRATIVES = [
    Text(text="Says *it*."),
    Note(text="Says *it*."),
    Link(title="Says it", url="https://example.org", authors="A. Author"),
    Image(title="Says it", url="there.png"),
    Image(title="Says it", url="https://example.org/a.png", width="50%"),
    Video(title="Says it", url="there.png", width=300),
    Table(title="Says it", columns=["a", "b"], rows=[[1, "<x>"], [None, 2.5]]),
    Ask(text="Says it", answer=Answer(3, "B", 0.01)),
    replace(EXPLORED[0], title="Says it"),
    Plot(title="Says it", series=[Series("loss", [1, 2], [3, 4])]),
]


def image(address: str) -> str | None:
    return f"figures/{address}" if address == "there.png" else None


@each("narrative", NARRATIVES, ids=[narrative.kind for narrative in NARRATIVES])
def test_every_kind_of_narrative_is_on_both_pages(narrative: Narrative) -> None:
    narration = Narration(narrative, 3)
    html, markdown = as_html(narration, image), as_markdown(narration, image, lambda name, svg: f"figures/{name}.svg")
    assert 'id="said-3"' in html and "Says" in html and "Says" in markdown
    assert "<x>" not in html and "<x>" not in markdown.replace("\\<x>", "")


def test_missing_images_are_reported() -> None:
    narration = Narration(Image(url="nowhere.png"), 1)
    assert "Image not shown: nowhere.png" in as_html(narration, image)
    assert "Image not shown" in as_markdown(narration, image, lambda name, svg: name)


def test_texts_of_other_runs_are_shown() -> None:
    narration = Narration(Text(text="Fast.", others=[("Slow.", 2)]), 1, sometimes="this is the text of 4 of 6 runs")
    for text in (as_html(narration, image), as_markdown(narration, image, lambda name, svg: name)):
        assert "This is the text of 4 of 6 runs" in text and "Slow." in text


def test_columns_of_rates_or_seconds_have_one_prefix() -> None:
    """The prefix suits the median and is also used for other runs; FLOPs and texts get no prefix."""
    rows = [["slow", 4e9, 0.002, 268_435_456], ["fast", 192e9, 0.0116, 2**31], ["none", None, 0.5, 0]]
    varied = [Varied([4e9, 5e9], [6e9], row=0, column=1)]
    columns = ["what", "rate, FLOP/s", "s", "claimed, FLOPs"]
    narration = Narration(Table(columns=columns, rows=rows, varied=varied), 1)
    text = as_markdown(narration, image, lambda name, svg: name)
    assert "| what | rate, GFLOP/s | ms | claimed, FLOPs |" in text
    assert "| slow | 4 \\[4 … 5\\] | 2.0 | 268,435,456 |" in text and "| none | – | 500.0 | 0 |" in text
    page = as_html(narration, image)
    assert ">rate, GFLOP/s<" in page and "192" in page and "4 … 5 in 2 warm runs; first runs: 6" in page


@pytest.mark.parametrize(
    "url", ["https://a;script-src/x.png", "https://u@example.org/x.png", "javascript:x", "https:x"]
)
def test_media_with_unsafe_addresses_are_not_shown(url: str) -> None:
    for kind in (Image, Video):
        narration = Narration(kind(url=url), 1)
        assert "not shown" in as_html(narration, image) and "src=" not in as_html(narration, image)
        assert "not shown" in as_markdown(narration, image, lambda name, svg: name)
