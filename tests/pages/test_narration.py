from __future__ import annotations

import pytest

from tests.cases_in_one import each
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_html, as_markdown
from trace_tools.trace.model import Image, Narrative, Scalar, Table, Text, Varied, Video


def both(narrative: Narrative, sometimes: str | None = None) -> tuple[str, str]:
    """Return a narrative as HTML and as Markdown; no image exists."""
    narration = Narration(narrative, 3, sometimes=sometimes)
    return as_html(narration, lambda path: None), as_markdown(narration, lambda path: None, lambda name, svg: name)


def test_a_video_has_its_size_and_a_link() -> None:
    video = Narration(Video(title="A <film>", url="there.mp4", width=300), 3)
    html = as_html(video, lambda path: f"figures/{path}")
    assert 'src="figures/there.mp4"' in html and "300" in html and "<film>" not in html and 'id="said-3"' in html
    text = as_markdown(video, lambda path: f"figures/{path}", lambda name, svg: name)
    assert "(figures/there.mp4)" in text and "A \\<film\\>" in text


@each("url", ["a.png", "https://a;script-src/x.png", "https://u@example.org/x.png"])
def test_media_with_missing_files_and_unsafe_addresses_are_not_shown(url: str) -> None:
    for kind in (Image, Video):
        html, markdown = both(kind(url=url))
        assert "not shown" in html and "src=" not in html and "not shown" in markdown


def test_texts_of_some_runs_say_so() -> None:
    for text in both(Text(text="Fast.", others=[("Slow.", 2)]), "this is the text of 4 of 6 runs"):
        assert "This is the text of 4 of 6 runs" in text


@pytest.mark.parametrize(
    ("cells", "right"),
    [([1.5, "–", 2], True), (["9.58e+21", "2e25", "1,024", "12%"], True), ([None, "–"], False), ([1, "1 of 2"], False)],
)
def test_only_columns_of_numbers_are_right_aligned(cells: list[Scalar], right: bool) -> None:
    html, _ = both(Table(columns=["n"], rows=[[cell] for cell in cells]))
    assert ('<th scope="col" class="right">n</th>' in html) == right


def test_columns_of_rates_or_seconds_have_one_prefix() -> None:
    """The prefix suits the median, also for other runs; FLOPs and texts get none. Measures have three digits."""
    rows = [["slow", 4e9, 0.002, 268_435_456], ["fast", 192.355e9, 0.01163, 2**31], ["none", None, 3.8891, 0]]
    varied = [Varied([4e9, 5.4321e9], [6e9], row=0, column=1)]
    page, text = both(Table(columns=["what", "rate, FLOP/s", "s", "claimed, FLOPs"], rows=rows, varied=varied))
    lines = ["| slow | 4 \\[4 … 5.43\\] | 2 | 268,435,456 |", "| fast | 192 | 11.6 | ", "| none | – | 3890 | 0 |"]
    assert all(line in text for line in ["| what | rate, GFLOP/s | ms | claimed, FLOPs |", *lines])
    assert ">rate, GFLOP/s<" in page and "192" in page and "4 … 5.43 in 2 warm runs; first runs: 6" in page
