"""The figures of a document's pages: which exist, their links and their captions."""

from __future__ import annotations

from dataclasses import replace

from tests.pages.lectures import first_section
from tests.pages.recording import of_section
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Document
from trace_tools.pages.section_charts import index_figures, section_figures
from trace_tools.presentation.report import Bars
from trace_tools.trace.model import Machine, Meters, Peak, Process, Text

LINES = "x = load()\ny = x @ x  # @inspect y\nz = y + 1\nu = y @ y  # @inspect u\nv = y @ x  # @inspect v"


def make_example(device: str = "cpu", ns: int = 1_000_000, machine: Machine | None = None) -> Document:
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
    return make_document(recording.trace(machine=machine or Machine("A machine", "m", device, peaks=peaks)))


def links(figure: Bars) -> list[str]:
    return [bar.link for bar in figure.rows]


def names(document: Document) -> list[str]:
    return [figure.name for figure in section_figures(document.sections[0], document)]


def test_a_section_has_figures_of_time_memory_and_roofs() -> None:
    document = make_example()
    time, memory, roof = section_figures(document.sections[0], document)
    assert names(document) == ["00-f-time", "00-f-memory", "00-f-roofline"]
    assert time.title == "“x = load()” takes 43% of 7 ms"
    assert links(time) == ["#L5", "#L6", "#L7", "#L8", "#L9"]
    assert memory.title == "“y = x @ x” takes the most memory: 64 KiB"
    assert [(bar.label, bar.number) for bar in memory.rows] == [("x = load()", "8 KiB"), ("y = x @ x", "64 KiB")]
    assert roof.title == "“y = x @ x” reaches 1.0% of its roof, “v = y @ x” 0.2%"
    assert [bar.soft for bar in roof.rows] == [f"at {n} FLOP/byte, under the float32 peak" for n in (167, 83.3, 41.7)]
    assert "times are those of a second run (warm)" in time.caption.lower() and "cache" not in roof.caption
    assert section_figures(document.sections[0], make_example("cuda"))[0].caption.endswith("is only its launch.")
    draft = replace(document, run=replace(document.run, processes=[Process("pass 1", "complete", cold_ns=1)]))
    assert "those of the only run (cold);" in section_figures(draft.sections[0], draft)[0].caption
    time, roof = index_figures(document)
    assert links(time) == ["00-f.html", *(f"00-f.html#L{n}" for n in range(5, 10))]
    assert (time.rows[0].label, time.rows[0].is_code, time.rows[1].depth) == ("0 F", False, 1)
    assert links(roof) == ["00-f.html#L6", "00-f.html#L8", "00-f.html#L9"]
    unknown = make_example(machine=Machine("A machine", "m", "cpu"))
    assert names(unknown) == ["00-f-time", "00-f-memory"]  # without a roof there is no share of it


def test_parts_are_labelled_with_their_headings() -> None:
    recording, f = of_section(
        "from trace_tools import text\ng()", 'def g():\n    """Part *one*"""\n    text("a")\n    x = load()\n'
    )
    g = recording.call(f, "g()", "g")
    recording.step(g, 'text("a")', narrative=[Text(text="a")])
    recording.step(g, "x = load()", host_ns=[3_000_000])
    [part] = first_section(recording.trace()).costs
    assert (part.label, part.anchor, part.is_code) == ("Part one", "part-one", False)
    assert [inside.label for inside in part.inside] == ["x = load()"]


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
    assert [(cost.label, cost.ns) for cost in first_section(recording.trace()).costs] == [("x = load()", 3_000_000)]
