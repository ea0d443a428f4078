"""The figures of a document's pages: which exist, their links and their captions."""

from __future__ import annotations

from dataclasses import replace

from tests.pages.recording import Recording
from tests.presentation.reading import read
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document
from trace_tools.pages.section_charts import index_figures, section_figures, section_points
from trace_tools.trace.model import Machine, Meters, Peak, Process

LECTURE = """\
def main():
    train()


def train():
    x = load()
    y = x @ x  # @inspect y
    z = y + 1
"""


def make_example(device: str = "cpu", ns: int = 1_000_000) -> Document:
    recording = Recording(LECTURE)
    train = recording.call(recording.frame("main"), "train()", "train")
    recording.step(train, "x = load()", host_ns=[3 * ns], meters=Meters(live_bytes=8192, peak_bytes=8192))
    meters = Meters(2_000_000, 8_000, 4_000, 16384, 65536, dtype="float32")
    recording.step(train, "y = x @ x", annotated=True, host_ns=[ns] * 3, meters=meters)
    recording.step(train, "z = y + 1", host_ns=[ns], meters=Meters(1, 8, 8, 16384, 16384))
    peaks = [Peak("float32", 2e11, "measured"), Peak("memory", 4e10, "measured")]
    return make_document(recording.trace(machine=Machine("A machine", "m", device, peaks=peaks)))


def test_sections_below_a_millisecond_have_no_time_figure() -> None:
    for ns, titles in ((1_000_000, ["time"]), (100_000, [])):  # the section takes five times as long
        document = make_example(ns=ns)
        figures = [section_figures(document.sections[0], document), index_figures(document)]
        assert [[f.name for f in part if f.name.endswith("time")] for part in figures] == [
            [f"{page}-{t}" for t in titles] for page in ("00-train", "index")
        ]


def test_narrative_calls_are_left_out_of_times() -> None:
    source = LECTURE.replace("def main", "from trace_tools import text\ndef main").replace(
        "    z =", "    text('a')\n    z ="
    )
    recording = Recording(source)
    train = recording.call(recording.frame("main"), "train()", "train")
    recording.step(train, "x = load()", host_ns=[3_000_000])
    recording.step(train, "text(", host_ns=[9_000_000])
    page = make_document(recording.trace())
    assert [(time.code, time.ns) for time in page.sections[0].times] == [("x = load()", 3_000_000)]


def test_a_section_has_time_memory_and_roofline_figures() -> None:
    document = make_example()
    time, memory, roof = section_figures(document.sections[0], document)
    assert [figure.name for figure in (time, memory, roof)] == ["00-train-time", "00-train-memory", "00-train-roofline"]
    hrefs = [[link.get("href") for link in read(figure.svg).iter("a")] for figure in (time, memory, roof)]
    assert hrefs == [["#L6", "#L7", "#L8"], ["#L7", "#L8"], ["#L7"]]
    assert time.caption == "The width of a statement is its time in a second run (warm); its calls are below it."
    assert section_figures(document.sections[0], make_example("cuda"))[0].caption.endswith("is only its launch.")
    draft = replace(document, run=replace(document.run, processes=[Process("pass 1", "complete", cold_ns=1)]))
    assert "its time in the only run (cold);" in section_figures(draft.sections[0], draft)[0].caption


def test_figures_of_the_index_link_to_section_pages() -> None:
    document = make_example()
    time, roof = index_figures(document)
    page = f"{document.sections[0].slug}.html"
    assert [link.get("href") for link in read(time.svg).iter("a")] == [page, *(f"{page}#L{n}" for n in (6, 7, 8))]
    assert [link.get("href") for link in read(roof.svg).iter("a")] == [f"{page}#L7"]
    assert index_figures(make_example(ns=0)) == []


def test_the_roofline_has_inspected_steps() -> None:
    document = make_example()
    section = document.sections[0]
    [point] = section_points(section)
    assert (point.name, point.link) == ("y = x @ x", "#L7")
    assert (point.intensity, point.flops_per_second) == (2_000_000 / 12_000, 2e9)
    without_steps = replace(section, blocks=())
    assert "00-train-roofline" not in [figure.name for figure in section_figures(without_steps, document)]


def test_steps_three_decades_below_the_roof_have_no_roofline() -> None:
    slow, slower = make_example(ns=9 * 10**6), make_example(ns=11 * 10**6)  # 2 MFLOP, with a roof of 200 GFLOP/s
    assert "00-train-roofline" in [figure.name for figure in section_figures(slow.sections[0], slow)]
    assert "00-train-roofline" not in [figure.name for figure in section_figures(slower.sections[0], slower)]


def test_the_caption_reports_unknown_peaks() -> None:
    document = make_example()
    assert "A roof is the smaller" in section_figures(document.sections[0], document)[2].caption
    unknown = replace(document, machine=Machine("A machine", "m", "cpu"))
    for figures in (section_figures(unknown.sections[0], unknown), index_figures(unknown)):
        assert figures[-1].caption.endswith("so no roof is drawn.")
