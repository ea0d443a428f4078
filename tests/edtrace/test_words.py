"""The words of edtrace: what each tells, with nobody's module but ours."""

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

Tell = Callable[[Callable[[dict[str, Word]], Any]], list[Narrative]]


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tell:
    """Return what is told by a call of words, in a folder that is a copy of another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()

    def offline(url: str) -> bytes:
        raise OSError("no network")

    def told(call: Callable[[dict[str, Word]], Any]) -> list[Narrative]:
        heard: list[Narrative] = []
        with listening(heard.append):
            call(words(EdtraceContext(Library(None, offline), tmp_path / "real")))
        return heard

    return told


def test_text_flows_and_has_a_style_and_as_it_is_it_is_a_block(tell: Tell) -> None:
    assert tell(lambda w: w["text"]("- *a*")) == [Text(text="- *a*", flows=True)]
    (styled,) = tell(lambda w: w["text"]("a", {"color": "red", "fontSize": 20}))
    assert styled.style == [("color", "red"), ("fontSize", "20")]
    (block,) = tell(lambda w: w["text"]("a\n```\n  b", verbatim=True))
    assert block == Text(text="````\na\n```\n  b\n````")


def test_what_a_command_prints_is_shown_without_its_colours(tell: Tell) -> None:
    command = [sys.executable, "-c", "print('\\x1b[31mred\\x1b[0m')"]
    assert tell(lambda w: w["system_text"](command)) == [Text(text="```\nred\n```")]


def test_the_four_ways_of_a_link(tell: Tell) -> None:
    (known,) = tell(lambda w: w["link"](ABSTRACT))
    assert known == Link(
        text="It.", url="https://example.org/p", title="A Title", authors="Ada Example, Bo Sample (An Institute)",
        date="2020-05-28", label="Example+ 2020", notes="N", flows=True,
    )  # fmt: skip
    (made,) = tell(lambda w: w["link"](title=" [article]", url="https://example.org"))
    assert (made.label, made.title, made.url) == ("[article]", "[article]", "https://example.org")
    (address,) = tell(lambda w: w["link"]("https://example.org/a/b"))
    assert (address.label, address.title) == ("example.org/…/b", None)
    (function,) = tell(lambda w: w["link"](stand_ins))
    assert (function.label, function.target, function.url) == ("stand_ins", "stand_ins", None)
    assert function.title and function.title.startswith("words.py, line ")
    (of_class,) = tell(lambda w: w["link"](Reference))
    assert of_class.target == "Reference"
    with pytest.raises(ValueError, match="link: found a int; expected a reference, an address or a function"):
        tell(lambda w: w["link"](3))


def test_a_paper_that_is_not_fetched_stays_a_link(tell: Tell) -> None:
    with pytest.warns(NotFetchedWarning, match="2005.14165 was not fetched"):
        (told,) = tell(lambda w: w["link"]("https://arxiv.org/abs/2005.14165"))
    assert (told.label, told.url) == ("arXiv:2005.14165", "https://arxiv.org/abs/2005.14165")


@pytest.mark.parametrize(
    ("given", "width"),
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
def test_an_image_has_its_width_in_pixels_or_relative(tell: Tell, given: Any, width: Any) -> None:
    url = "https://example.org/images/gpu-node_overview.png?as=webp"
    (told,) = tell(lambda w: w["image"](url, width=given))
    assert (told.url, told.width, told.title, told.flows) == (url, width, "gpu node overview", True)
    (styled,) = tell(lambda w: w["image"](url, style={"width": given, "border": "1px"}))
    assert (styled.width, styled.style) == (width, [("border", "1px")])


def test_an_image_that_the_lecture_makes_is_kept_and_one_that_lies_beside_it_is_not(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "made.png").write_bytes(PNG)
    (made,) = tell(lambda w: w["image"]("made.png"))
    assert made.url and made.url.startswith("data:image/png;base64,iVBORw0K")
    (tmp_path / "real" / "made.png").write_bytes(PNG)
    assert tell(lambda w: w["image"](str(tmp_path / "made.png")))[0].url == "made.png"
    (tmp_path / "large.png").write_bytes(PNG * 100_000)
    with pytest.warns(NotShownWarning, match="large.png was made by the lecture and is 2,800,000 bytes"):
        assert tell(lambda w: w["image"]("large.png"))[0].url == "large.png"
    with pytest.warns(NotShownWarning, match="expected a path that stays in the folder"):
        assert tell(lambda w: w["image"]("real/../made.png")) == []
    with pytest.raises(ValueError, match=r"image: 'gone\.png' does not exist"):
        tell(lambda w: w["image"]("gone.png"))


def test_videos_notes_plots_and_graphs(tell: Tell) -> None:
    assert tell(lambda w: w["video"]("https://example.org/v.mp4", width=300)) == [
        Video(url="https://example.org/v.mp4", title="v", width=300, flows=True)
    ]
    assert tell(lambda w: w["note"]("slowly")) == [Note(text="slowly")]
    assert tell(lambda w: w["graph"](None)) == []
    spec = stand_ins(EdtraceContext(Library()))[""]["make_graph"]([{"id": "a"}], [])
    (graph,) = tell(lambda w: w["graph"](spec))
    assert (graph.kind, graph.text, graph.series) == ("plot", "A graph of 1 node.", [])
    rows = {"data": {"values": [{"x": 1, "y": 2}]}, "mark": "arc"}

    class Chart:
        def to_dict(self) -> dict[str, Any]:
            return rows

    assert tell(lambda w: w["plot"](rows))[0].kind in ("table", "plot") and tell(lambda w: w["plot"](Chart()))


def test_a_word_that_nobody_hears_does_nothing(tmp_path: Path) -> None:
    assert words(EdtraceContext(Library()))["text"]("a") is None


def test_what_they_tell_is_valid_in_a_trace(tell: Tell, tmp_path: Path) -> None:
    def everything(w: dict[str, Word]) -> None:
        w["text"]("a", {"color": "red"}), w["link"](ABSTRACT), w["link"](title="no address"), w["link"](stand_ins)
        w["image"]("https://example.org/a.png"), w["video"]("https://example.org/a.mp4"), w["note"]("n")

    trace = example_trace()
    told = tell(everything)
    place = next(n for n, event in enumerate(trace.steps) if isinstance(event, Step) and event.narrative)
    step = trace.steps[place]
    assert isinstance(step, Step) and step.narrative is not None
    step.narrative[:] = told
    write(trace, tmp_path / "trace.yaml")
    loaded = load(tmp_path / "trace.yaml").trace.steps[place]
    assert isinstance(loaded, Step) and loaded.narrative == told


def test_anothers_way_of_asking_for_papers_may_fail() -> None:
    def raising(url: str, **fields: Any) -> Reference:
        raise ConnectionError("no network")

    desk = EdtraceContext(Library())
    with pytest.warns(NotFetchedWarning, match=r"ConnectionError: no network"):
        found = guarded(desk, raising, Reference)("https://arxiv.org/abs/1", notes="N")
    assert found == Reference(url="https://arxiv.org/abs/1", notes="N")
    there = guarded(desk, lambda url, **fields: Reference(url=url, **fields), Reference)
    assert there("https://example.org", title="T").title == "T"


def test_the_stand_ins_have_all_that_the_real_ones_have() -> None:
    edtrace = pytest.importorskip("edtrace", reason="the real one; the words above are tested without it")
    ours = stand_ins(EdtraceContext(Library()))
    assert set(edtrace.__all__) <= ours[""].keys()
    assert [one.name for one in fields(edtrace.Reference)] == [one.name for one in fields(Reference)]
    for part in ("execute_util", "arxiv_util", "reference"):
        own = {
            n
            for n, it in vars(sys.modules[f"edtrace.{part}"]).items()
            if getattr(it, "__module__", "") == f"edtrace.{part}"
        }
        missing = own - ours[part].keys() - {"CodeLocation", "Rendering", "remove_ansi_escape_sequences"}
        assert not missing
