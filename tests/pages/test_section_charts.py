"""The figures of a document's pages: which exist, their links and their captions."""

from __future__ import annotations

from dataclasses import replace

from tests.pages.lectures import first_section
from tests.pages.recording import of_section
from tests.presentation.reading import read
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document
from trace_tools.pages.section_charts import index_figures, section_figures, section_points
from trace_tools.trace.model import Machine, Meters, Peak, Process

LINES = "x = load()\ny = x @ x  # @inspect y\nz = y + 1\nu = y @ y  # @inspect u\nv = y @ x  # @inspect v"


def make_example(device: str = "cpu", ns: int = 1_000_000) -> Document:
    recording, f = of_section(LINES)
    recording.step(f, "x = load()", host_ns=[3 * ns], meters=Meters(live_bytes=8192, peak_bytes=8192))
    meters = Meters(2_000_000, 8_000, 4_000, 16384, 65536, dtype="float32")
    recording.step(f, "y = x @ x", annotated=True, host_ns=[ns] * 3, meters=meters)
    recording.step(f, "z = y + 1", host_ns=[ns], meters=Meters(1, 8, 8, 16384, 16384))
    for line, flops in (
        ("u = y @ y", 1_000_000),
        ("v = y @ x", 500_000),
    ):  # points of other intensities, at lower rates
        few = Meters(flops, 8_000, 4_000, 16384, 16384, dtype="float32")
        recording.step(f, line, annotated=True, host_ns=[ns] * 3, meters=few)
    peaks = [Peak("float32", 2e11, "measured"), Peak("memory", 4e10, "measured")]
    return make_document(recording.trace(machine=Machine("A machine", "m", device, peaks=peaks)))


def links(svg: str) -> list[str | None]:
    return [link.get("href") for link in read(svg).iter("a")]


def names(document: Document) -> list[str]:
    return [figure.name for figure in section_figures(document.sections[0], document)]


def test_a_section_has_time_memory_and_roofline_figures() -> None:
    document = make_example()
    time, memory, roof = section_figures(document.sections[0], document)
    assert names(document) == ["00-f-time", "00-f-memory", "00-f-roofline"]
    hrefs = [links(figure.svg) for figure in (time, memory, roof)]
    assert hrefs == [["#L5", "#L6", "#L7", "#L8", "#L9"], ["#L6", "#L7", "#L8", "#L9"], ["#L6", "#L8", "#L9"]]
    assert (
        time.title == "“x = load()” takes 43% of 7 ms" and memory.title == "Tensors take at most 64 KiB, at y = x @ x"
    )
    assert roof.title == "“y = x @ x” 1.0% of its roof, “v = y @ x” 0.2%"
    point, *_ = section_points(document.sections[0].blocks)
    assert (point.name, point.intensity, point.flops_per_second) == ("y = x @ x", 2_000_000 / 12_000, 2e9)
    assert (
        "its time in a second run (warm)" in time.caption
        and "A roof is the smaller" in roof.caption
        and "cache" not in roof.caption
    )
    assert section_figures(document.sections[0], make_example("cuda"))[0].caption.endswith("is only its launch.")
    draft = replace(document, run=replace(document.run, processes=[Process("pass 1", "complete", cold_ns=1)]))
    assert "its time in the only run (cold);" in section_figures(draft.sections[0], draft)[0].caption
    time, roof = index_figures(document)
    assert links(time.svg) == ["00-f.html", *(f"00-f.html#L{n}" for n in range(5, 10))]
    assert links(roof.svg) == ["00-f.html#L6", "00-f.html#L8", "00-f.html#L9"]
    unknown = replace(document, machine=Machine("A machine", "m", "cpu"))
    for figures in (section_figures(unknown.sections[0], unknown), index_figures(unknown)):
        assert figures[-1].caption.endswith("so no roof is drawn.")


def test_figures_that_would_show_nothing_are_left_out() -> None:
    short = make_example(ns=100_000)  # a section of half a millisecond has no figure of its time
    assert "00-f-time" not in names(short) and "index-time" not in [it.name for it in index_figures(short)]
    assert index_figures(make_example(ns=0)) == []
    section = replace(short.sections[0], blocks=())
    assert "00-f-roofline" not in [figure.name for figure in section_figures(section, short)]
    for ns, is_drawn in ((10**6, True), (11 * 10**6, False)):  # three points are needed that are not far below it
        assert ("00-f-roofline" in names(make_example(ns=ns))) is is_drawn


def test_narrative_calls_are_left_out_of_times() -> None:
    recording, f = of_section("from trace_tools import text\nx = load()\ntext('a')")
    recording.step(f, "x = load()", host_ns=[3_000_000])
    recording.step(f, "text(", host_ns=[9_000_000])
    assert [(time.code, time.ns) for time in first_section(recording.trace()).times] == [("x = load()", 3_000_000)]
