"""edtrace's vocabulary records narratives; only the last test needs edtrace itself."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.cases_in_one import each
from tests.traces import example_trace
from trace_tools.edtrace.words import (
    EdtraceContext,
    NotShownWarning,
    Piece,
    Word,
    guarded,
    join_pieces,
    stand_ins,
    words,
)
from trace_tools.lecture.citations import Library, NotFetchedWarning, Reference
from trace_tools.lecture.vocabulary import listening
from trace_tools.trace.model import Narrative, Note, Step, Text, Video
from trace_tools.trace.trace_file import load, write

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
ABSTRACT = Reference(
    "A Title", ["Ada Example", "Bo Sample"], "An Institute", "2020-05-28", "https://example.org/p", "It.", "N"
)

Target = namedtuple("Target", ["href", "title"])


def links(markdown: str) -> list[Target]:
    """Return the links of a line of Markdown, as markdown-it reads it."""
    (line,) = (token for token in MarkdownIt().parse(markdown) if token.type == "inline")
    opened = (child for child in line.children or [] if child.type == "link_open")
    return [Target(child.attrs["href"], child.attrs.get("title")) for child in opened]


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


def test_text_is_a_piece_of_a_line_or_a_verbatim_block(record: Record) -> None:
    assert record(lambda w: w["text"]("- *a*")) == [Piece(text="- *a*")]
    (block,) = record(lambda w: w["text"]("a\n```\n  b", verbatim=True))
    assert block == Text(text="````\na\n```\n  b\n````")


def test_command_output_is_shown_without_color_codes(record: Record) -> None:
    command = [sys.executable, "-c", "print('\\x1b[31mred\\x1b[0m')"]
    assert record(lambda w: w["system_text"](command)) == [Text(text="```\nred\n```")]


def test_four_kinds_of_links(record: Record) -> None:
    def linked(*arguments: Any, **fields: Any) -> str:
        (link,) = record(lambda w: w["link"](*arguments, **fields))
        assert isinstance(link, Piece)
        return link.text

    hover = "A Title. Ada Example, Bo Sample (An Institute), 2020-05-28. N. It."
    assert linked(ABSTRACT) == f'[Example+ 2020](<https://example.org/p> "{hover}")'
    assert linked(title=" [article]", url="https://example.org") == r"[\[article\]](<https://example.org>)"
    assert linked("https://example.org/a/b") == "[example.org/…/b](<https://example.org/a/b>)"
    assert (linked(stand_ins), linked(Reference)) == ("`stand_ins`", "`Reference`")
    assert linked(title="no address") == "no address"
    tricky = linked(title='A "<b>" & C', url="https://example.org/a(b)", authors=["A"])
    assert [(token.href, token.title) for token in links(tricky)] == [("https://example.org/a(b)", 'A "<b>" & C. A.')]
    with pytest.raises(ValueError, match="link: found a int; expected a reference, an address or a function"):
        record(lambda w: w["link"](3))


def test_unfetched_paper_stays_a_link(record: Record) -> None:
    with pytest.warns(NotFetchedWarning, match="2005.14165 was not fetched"):
        (link,) = record(lambda w: w["link"]("https://arxiv.org/abs/2005.14165"))
    assert link == Piece(text="[arXiv:2005.14165](<https://arxiv.org/abs/2005.14165>)")


@each(
    ("pieces", "lines"),
    [
        (["- Adam ", "[A](<u>)", ", or not"], ["- Adam [A](<u>), or not"]),
        (["one th", "at is ", "split"], ["one that is split"]),
        (["See", "[a](<u>)", "[b](<u>)", ", (", "[c](<u>)", ")."], ["See [a](<u>) [b](<u>), ([c](<u>))."]),
        (
            ["## Title", "- one", "  - below ", "**b**", "3. three"],
            ["## Title", "- one", "  - below **b**", "3. three"],
        ),
        (["Adam", " - momentum"], ["Adam - momentum"]),
        (["See ", "# 3"], ["See # 3"]),
        (["a", "of several\nlines", "b"], ["a", "of several\nlines", "b"]),
    ],
)
def test_pieces_of_a_step_are_joined_to_lines(pieces: list[str], lines: list[str]) -> None:
    recorded: list[dict[str, Any]] = []
    for piece in pieces:
        new = {"kind": "text", "text": piece}
        joined = join_pieces(recorded[-1], new) if recorded else None
        recorded[-1:] = [joined] if joined is not None else [*recorded[-1:], new]
    assert [it["text"] for it in recorded] == lines
    assert join_pieces({"kind": "image", "url": "a.png"}, {"kind": "text", "text": "a"}) is None


@each(
    ("text", "style", "shown"),
    [
        ("A digit ", {"fontWeight": "bold"}, "**A digit** "),
        ("two ", {"fontStyle": "italic", "color": "red"}, "*two* "),
        ("- a b", {"fontWeight": 600}, "- **a b**"),
        ("x", {"fontFamily": "monospace"}, "`x`"),
        ("$x$", {"fontWeight": "bold"}, "$x$"),
        ("red", {"color": "red"}, "red"),
    ],
)
def test_styles_become_markdown(record: Record, text: str, style: dict[str, Any], shown: str) -> None:
    assert record(lambda w: w["text"](text, style)) == [Piece(text=shown)]


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
    assert (image.url, image.width) == (url, width)
    (styled,) = record(lambda w: w["image"](url, style={"width": given_width, "border": "1px"}))
    assert styled.width == width


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
        Video(url="https://example.org/v.mp4", width=300)
    ]
    assert record(lambda w: w["note"]("slowly")) == [Note(text="slowly")]
    assert record(lambda w: w["graph"](None)) == []
    spec = stand_ins(EdtraceContext(Library()))[""]["make_graph"]([{"id": "a"}], [])
    (graph,) = record(lambda w: w["graph"](spec))
    assert graph == Text(text="A graph of 1 node: a.")
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
    texts = [Text(text=it.text) if isinstance(it, Piece) else it for it in narratives]
    assert isinstance(loaded, Step) and loaded.narrative == texts


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
