"""A document → the figures of its pages: which there are, what they link to, what their captions say."""

from __future__ import annotations

from dataclasses import replace

from tests.pages.recording import Recording
from tests.presentation.reading import read
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document
from trace_tools.pages.section_charts import index_figures, section_figures, section_points
from trace_tools.presentation.charts.roofline import Roof, RoofPoint
from trace_tools.trace.model import Machine, Meters, Peak, Process

LECTURE = """\
def main():
    train()


def train():
    x = load()
    y = x @ x  # @inspect y
    z = y + 1
"""


def document(device: str = "cpu", ns: int = 1_000_000) -> Document:
    made = Recording(LECTURE)
    train = made.call(made.frame("main"), "train()", "train")
    made.step(train, "x = load()", host_ns=[3 * ns], meters=Meters(live_bytes=8192, peak_bytes=8192))
    meters = Meters(2_000_000, 8_000, 4_000, 16384, 65536, dtype="float32")
    made.step(train, "y = x @ x", annotated=True, host_ns=[ns] * 3, meters=meters)
    made.step(train, "z = y + 1", host_ns=[ns], meters=Meters(1, 8, 8, 16384, 16384))
    peaks = [Peak("float32", 2e11, "measured"), Peak("memory", 4e10, "measured")]
    return make_document(made.trace(machine=Machine("A machine", "m", device, peaks=peaks)))


def test_what_takes_less_than_a_millisecond_has_no_figure_of_its_time() -> None:
    for ns, titles in ((1_000_000, ["time"]), (100_000, [])):  # five times as long in all
        made = document(ns=ns)
        figures = [section_figures(made.sections[0], made), index_figures(made)]
        assert [[f.name for f in some if f.name == "time"] for some in figures] == [titles, titles]


def test_narrative_calls_are_not_in_the_figure_of_time() -> None:
    told = LECTURE.replace("def main", "from trace_tools import text\ndef main").replace(
        "    z =", "    text('a')\n    z ="
    )
    made = Recording(told)
    train = made.call(made.frame("main"), "train()", "train")
    made.step(train, "x = load()", host_ns=[3_000_000])
    made.step(train, "text(", host_ns=[9_000_000])
    page = make_document(made.trace())
    assert [(time.code, time.ns) for time in page.sections[0].times] == [("x = load()", 3_000_000)]


def test_a_section_shows_its_time_its_memory_and_its_steps_under_the_roof() -> None:
    made = document()
    time, memory, roof = section_figures(made.sections[0], made)
    assert [figure.name for figure in (time, memory, roof)] == ["time", "memory", "roofline"]
    hrefs = [[link.get("href") for link in read(figure.svg).iter("a")] for figure in (time, memory, roof)]
    assert hrefs == [["#L6", "#L7", "#L8"], ["#L7", "#L8"], ["#L7"]]
    assert time.caption == "The width of a statement is its time in a second run (warm); its calls are below it."
    assert section_figures(made.sections[0], document("cuda"))[0].caption.endswith("is only its launch.")
    draft = replace(made, run=replace(made.run, processes=[Process("pass 1", "complete", cold_ns=1)]))
    assert "its time in the only run (cold);" in section_figures(draft.sections[0], draft)[0].caption


def test_an_index_has_the_time_of_its_sections_and_links_to_their_pages() -> None:
    made = document()
    time, roof = index_figures(made)
    page = f"{made.sections[0].slug}.html"
    assert [link.get("href") for link in read(time.svg).iter("a")] == [page, *(f"{page}#L{n}" for n in (6, 7, 8))]
    assert [link.get("href") for link in read(roof.svg).iter("a")] == [f"{page}#L7"]
    assert index_figures(document(ns=0)) == []


def test_only_what_was_asked_about_has_a_place_and_other_machines_stand_beside_it() -> None:
    made = document()
    section = made.sections[0]
    [point] = section_points(section)
    assert (point.name, point.link) == ("y = x @ x", "#L7")
    assert (point.intensity, point.flops_per_second) == (2_000_000 / 12_000, 2e9)
    assert list(section_points(section, counterpart=lambda here: None)) == []
    quiet = replace(section, blocks=())
    assert "roofline" not in [figure.name for figure in section_figures(quiet, made)]
    other = Roof("other", (("float32", 1e12),), 1e11, (RoofPoint(1, 1e9, "y"),))
    assert "other: float32" in section_figures(quiet, made, [other])[-1].svg


def test_toys_three_decades_below_the_roof_have_none() -> None:
    slow, slower = document(ns=9 * 10**6), document(ns=11 * 10**6)  # 2 MFLOP in that time, under 200 GFLOP/s
    assert "roofline" in [figure.name for figure in section_figures(slow.sections[0], slow)]
    assert "roofline" not in [figure.name for figure in section_figures(slower.sections[0], slower)]


def test_where_no_peak_is_known_the_caption_says_so() -> None:
    made = document()
    assert "A roof is the smaller" in section_figures(made.sections[0], made)[2].caption
    unknown = replace(made, machine=Machine("A machine", "m", "cpu"))
    for figures in (section_figures(unknown.sections[0], unknown), index_figures(unknown)):
        assert figures[-1].caption.endswith("so no roof is drawn.")
