"""edtrace's vocabulary records narratives; only the last test needs edtrace itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.traces import example_trace
from trace_tools.edtrace.words import EdtraceContext, NotShownWarning, Word, guarded, stand_ins, words
from trace_tools.lecture.citations import Library, NotFetchedWarning, Reference
from trace_tools.lecture.vocabulary import listening
from trace_tools.trace.model import Link, Narrative, Note, Step, Text, Video
from trace_tools.trace.trace_file import load, write

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
ABSTRACT = Reference(
    "A Title", ["Ada Example", "Bo Sample"], "An Institute", "2020-05-28", "https://example.org/p", "It.", "N"
)

Record = Callable[[Callable[[dict[str, Word]], Any]], list[Narrative]]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Return a function that passes the vocabulary to a call and returns the narratives that the call records.

    The working directory is a copy of the lecture's own folder, `real`.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()

    def offline(url: str) -> bytes:
        raise OSError("no network")

    def recorded(call: Callable[[dict[str, Word]], Any]) -> list[Narrative]:
        narratives: list[Narrative] = []
        with listening(narratives.append):
            call(words(EdtraceContext(Library(None, offline), tmp_path / "real")))
        return narratives

    return recorded


def test_text_flows_has_styles_and_verbatim_blocks(record: Record) -> None:
    assert record(lambda w: w["text"]("- *a*")) == [Text(text="- *a*", flows=True)]
    (styled,) = record(lambda w: w["text"]("a", {"color": "red", "fontSize": 20}))
    assert styled.style == [("color", "red"), ("fontSize", "20")]
    (block,) = record(lambda w: w["text"]("a\n```\n  b", verbatim=True))
    assert block == Text(text="````\na\n```\n  b\n````")


def test_command_output_is_shown_without_color_codes(record: Record) -> None:
    command = [sys.executable, "-c", "print('\\x1b[31mred\\x1b[0m')"]
    assert record(lambda w: w["system_text"](command)) == [Text(text="```\nred\n```")]


def test_four_kinds_of_links(record: Record) -> None:
    (paper,) = record(lambda w: w["link"](ABSTRACT))
    assert paper == Link(
        text="It.", url="https://example.org/p", title="A Title", authors="Ada Example, Bo Sample (An Institute)",
        date="2020-05-28", label="Example+ 2020", notes="N", flows=True,
    )  # fmt: skip
    (titled,) = record(lambda w: w["link"](title=" [article]", url="https://example.org"))
    assert (titled.label, titled.title, titled.url) == ("[article]", "[article]", "https://example.org")
    (address,) = record(lambda w: w["link"]("https://example.org/a/b"))
    assert (address.label, address.title) == ("example.org/…/b", None)
    (function,) = record(lambda w: w["link"](stand_ins))
    assert (function.label, function.target, function.url) == ("stand_ins", "stand_ins", None)
    assert function.title and function.title.startswith("words.py, line ")
    (of_class,) = record(lambda w: w["link"](Reference))
    assert of_class.target == "Reference"
    with pytest.raises(ValueError, match="link: found a int; expected a reference, an address or a function"):
        record(lambda w: w["link"](3))


def test_unfetched_paper_stays_a_link(record: Record) -> None:
    with pytest.warns(NotFetchedWarning, match="2005.14165 was not fetched"):
        (link,) = record(lambda w: w["link"]("https://arxiv.org/abs/2005.14165"))
    assert (link.label, link.url) == ("arXiv:2005.14165", "https://arxiv.org/abs/2005.14165")


@pytest.mark.parametrize(
    ("given_width", "width"),
    [
        (400, 400),
        ("50%", "50%"),
        ("400px", 400),
        ("10em", 160),
        (0.5, "50%"),
        ("40vw", "40%"),
        ("wide", None),
        (None, None),
    ],
)
def test_image_widths_are_pixels_or_percentages(record: Record, given_width: Any, width: Any) -> None:
    url = "https://example.org/images/gpu-node_overview.png?as=webp"
    (image,) = record(lambda w: w["image"](url, width=given_width))
    assert (image.url, image.width, image.title, image.flows) == (url, width, "gpu node overview", True)
    (styled,) = record(lambda w: w["image"](url, style={"width": given_width, "border": "1px"}))
    assert (styled.width, styled.style) == (width, [("border", "1px")])


def test_generated_images_are_embedded_and_existing_ones_linked(record: Record, tmp_path: Path) -> None:
    (tmp_path / "made.png").write_bytes(PNG)
    (made,) = record(lambda w: w["image"]("made.png"))
    assert made.url and made.url.startswith("data:image/png;base64,iVBORw0K")
    (tmp_path / "real" / "made.png").write_bytes(PNG)
    assert record(lambda w: w["image"](str(tmp_path / "made.png")))[0].url == "made.png"
    (tmp_path / "large.png").write_bytes(PNG * 100_000)
    with pytest.warns(NotShownWarning, match="large.png was made by the lecture and is 2,800,000 bytes"):
        assert record(lambda w: w["image"]("large.png"))[0].url == "large.png"
    with pytest.warns(NotShownWarning, match="expected a path that stays in the folder"):
        assert record(lambda w: w["image"]("real/../made.png")) == []
    with pytest.raises(ValueError, match=r"image: 'gone\.png' does not exist"):
        record(lambda w: w["image"]("gone.png"))


def test_videos_notes_plots_and_graphs(record: Record) -> None:
    assert record(lambda w: w["video"]("https://example.org/v.mp4", width=300)) == [
        Video(url="https://example.org/v.mp4", title="v", width=300, flows=True)
    ]
    assert record(lambda w: w["note"]("slowly")) == [Note(text="slowly")]
    assert record(lambda w: w["graph"](None)) == []
    spec = stand_ins(EdtraceContext(Library()))[""]["make_graph"]([{"id": "a"}], [])
    (graph,) = record(lambda w: w["graph"](spec))
    assert (graph.kind, graph.text, graph.series) == ("plot", "A graph of 1 node.", [])
    rows = {"data": {"values": [{"x": 1, "y": 2}]}, "mark": "arc"}

    class Chart:
        def to_dict(self) -> dict[str, Any]:
            return rows

    assert record(lambda w: w["plot"](rows))[0].kind in ("table", "plot") and record(lambda w: w["plot"](Chart()))


def test_vocabulary_calls_have_no_effect_outside_a_trace(tmp_path: Path) -> None:
    assert words(EdtraceContext(Library()))["text"]("a") is None


def test_recorded_narratives_are_valid_in_a_trace(record: Record, tmp_path: Path) -> None:
    def everything(w: dict[str, Word]) -> None:
        w["text"]("a", {"color": "red"}), w["link"](ABSTRACT), w["link"](title="no address"), w["link"](stand_ins)
        w["image"]("https://example.org/a.png"), w["video"]("https://example.org/a.mp4"), w["note"]("n")

    trace = example_trace()
    narratives = record(everything)
    position = next(n for n, event in enumerate(trace.steps) if isinstance(event, Step) and event.narrative)
    step = trace.steps[position]
    assert isinstance(step, Step) and step.narrative is not None
    step.narrative[:] = narratives
    write(trace, tmp_path / "trace.yaml")
    loaded = load(tmp_path / "trace.yaml").trace.steps[position]
    assert isinstance(loaded, Step) and loaded.narrative == narratives


def test_failing_custom_paper_lookup_is_a_warning() -> None:
    def raising(url: str, **fields: Any) -> Reference:
        raise ConnectionError("no network")

    context = EdtraceContext(Library())
    with pytest.warns(NotFetchedWarning, match=r"ConnectionError: no network"):
        reference = guarded(context, raising, Reference)("https://arxiv.org/abs/1", notes="N")
    assert reference == Reference(url="https://arxiv.org/abs/1", notes="N")
    succeeding = guarded(context, lambda url, **fields: Reference(url=url, **fields), Reference)
    assert succeeding("https://example.org", title="T").title == "T"


def test_stand_ins_have_all_names_of_edtrace() -> None:
    edtrace = pytest.importorskip("edtrace", reason="compares our names with edtrace's own")
    ours = stand_ins(EdtraceContext(Library()))
    assert set(edtrace.__all__) <= ours[""].keys()
    assert [field.name for field in fields(edtrace.Reference)] == [field.name for field in fields(Reference)]
    for part in ("execute_util", "arxiv_util", "reference"):
        own = {
            name
            for name, member in vars(sys.modules[f"edtrace.{part}"]).items()
            if getattr(member, "__module__", "") == f"edtrace.{part}"
        }
        missing = own - ours[part].keys() - {"CodeLocation", "Rendering", "remove_ansi_escape_sequences"}
        assert not missing
