"""The words of the real edtrace, and of modules like CS336's, emit narratives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cases_in_one import each
from trace_tools.edtrace.words import NotFetchedWarning, NotShownWarning, Piece, _emit, adopt_words, join_pieces
from trace_tools.lecture.vocabulary import listening
from trace_tools.trace.model import Narrative, Note, Table, Text, Video

NAMES = {"edtrace", "execute_util", "file_util", "arxiv_util", "reference"}
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a lecture; imports are those of a process that traces it."""
    for name, value in (("meta_path", [*sys.meta_path]), ("gettrace", sys.gettrace)):
        monkeypatch.setattr(sys, name, value)
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in NAMES}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    adopt_words(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in NAMES]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def edtrace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the real edtrace, without a network; its `asked` lists the addresses that it wanted."""
    pytest.importorskip("edtrace", reason="records edtrace's own functions")
    asked: list[str] = []

    def no_network(url: str, **_: Any) -> None:
        asked.append(url)
        raise ConnectionError("no network")

    monkeypatch.setattr("requests.get", no_network)
    module = importlib.import_module("edtrace")
    vars(module)["asked"] = asked
    return module


def recorded(call: Callable[[], Any]) -> list[Narrative]:
    narratives: list[Narrative] = []
    with listening(narratives.append):
        call()
    return narratives


def test_texts_notes_and_output_of_commands(edtrace: Any) -> None:
    command = [sys.executable, "-c", "print('\\x1b[31mred\\x1b[0m')"]
    for call, shown in (
        (lambda: edtrace.text("- *a*"), Piece(text="- *a*")),
        (lambda: edtrace.text("a\n```\n  b", verbatim=True), Text(text="````\na\n```\n  b\n````")),
        (lambda: edtrace.text("a", {"color": "red"}), Piece(text="a")),
        (lambda: edtrace.text("a", "bold"), Piece(text="a")),
        (lambda: edtrace.text(3), Piece(text="3")),
        (lambda: edtrace.note("slowly"), Note(text="slowly")),
        (lambda: edtrace.system_text(command), Text(text="```\nred\n```")),
    ):
        assert recorded(call) == [shown]
    edtrace.text("outside a trace")
    assert importlib.import_module("edtrace.execute_util").pop_renderings() == []


def test_links_show_author_and_year_with_the_rest_on_hover(edtrace: Any) -> None:
    paper = edtrace.Reference(
        "A Title", ["Ada Example", "Bo Sample"], "An Institute", "2020-05-28", "https://example.org/p", "It.", "N"
    )
    hover = "A Title. Ada Example, Bo Sample, An Institute, 2020-05-28. N. It."
    tricky = {"title": 'A "<b>" & C', "url": "https://example.org/a(b)", "authors": ["A"]}
    for arguments, fields, shown in (
        ([paper], {}, f'[Example+ 2020](<https://example.org/p> "{hover}")'),
        ([], {"authors": ["Claude Example"], "date": "1950"}, "Example 1950"),
        ([], {"authors": ["A Team", "Ada Example"], "date": "2025"}, "A Team 2025"),
        ([], {"title": " [article]", "url": "https://example.org"}, r"[\[article\]](<https://example.org>)"),
        ([], tricky, r'[A](<https://example.org/a(b)> "A \"&lt;b>\" &amp; C. A.")'),
        (["https://www.example.org/a/b?c"], {}, "[example.org/…/b](<https://www.example.org/a/b?c>)"),
        ([adopt_words], {}, "`adopt_words`"),
        ([Path], {}, "`Path`"),
        ([], {"title": "no address"}, "no address"),
        (["a title", "https://e.org"], {}, "a title"),
        ([], {}, "?"),
        ([edtrace.Reference(authors="Ada", date="2020", url="https://[")], {}, '[Ada 2020](<https://[> "Ada, 2020.")'),
    ):
        assert recorded(lambda a=arguments, f=fields: edtrace.link(*a, **f)) == [Piece(text=shown)]


def test_papers_stay_links_without_a_network(edtrace: Any) -> None:
    urls = ["https://arxiv.org/abs/2005.14165", "https://arxiv.org/pdf/1412.6980"]
    with pytest.warns(NotFetchedWarning, match=r"2005\.14165 was not fetched \(ConnectionError: ") as warned:
        narratives = recorded(lambda: [edtrace.link(url) for url in urls])
    assert narratives == [
        Piece(text=f"[arXiv:{number}](<{url}>)") for number, url in zip(("2005.14165", "1412.6980"), urls, strict=True)
    ]
    assert len(warned) == len(edtrace.asked) == 1, "a host that does not answer is not asked again"
    reference = importlib.import_module("edtrace.arxiv_util").arxiv_reference(urls[0], notes="N")
    assert reference == edtrace.Reference(url=urls[0], notes="N")


def test_images_and_videos(edtrace: Any, folder: Path) -> None:
    url = "https://example.org/images/gpu-node_overview.png?as=webp"
    given = {400: 400, "50%": "50%", "400px": 400, 0.5: "50%", "wide": None, None: None}
    for width, shown in given.items():
        (image,) = recorded(lambda width=width: edtrace.image(url, width=width))
        assert (image.url, image.width) == (url, shown)
    assert recorded(lambda: edtrace.image(url, style={"width": "50%", "border": "1px"}))[0].width == "50%"
    film = "https://example.org/v.mp4"
    assert recorded(lambda: edtrace.video(film, width=300)) == [Video(url=film, width=300)]
    assert edtrace.asked == [], "addresses are not downloaded"
    # edtrace's name for the copy of an image; the digest is `printf URL | md5sum`
    copy = Path("var/files/image-bba4eedd0321459d35f95379a5a5689f-https_example_org_one_gif.gif")
    copy.write_bytes(b"GIF89a")
    assert recorded(lambda: edtrace.image("https://example.org/one.gif"))[0].url == str(copy)
    (folder / "made.png").write_bytes(PNG)
    for path in ("made.png", str(folder / "made.png")):
        assert recorded(lambda path=path: edtrace.image(path))[0].url == "made.png"
    with pytest.warns(NotShownWarning, match="'poem' of edtrace is not shown"):
        _emit([SimpleNamespace(type="poem", style={}, data="x")])
    with pytest.warns(NotShownWarning, match="expected a path that stays in the folder"):
        assert recorded(lambda: edtrace.image(f"../{folder.name}/made.png")) == []
    with pytest.raises(ValueError, match=r"gone\.png"):
        edtrace.image("gone.png")


def test_plots_are_tables_of_their_data_and_graphs_are_described(edtrace: Any) -> None:
    rows = [{"x": 1, "y": 2.5}, {"x": 2, "c": "a"}]
    layers = {"title": {"text": "T"}, "data": {"values": rows}, "layer": [{"mark": "line"}, {"data": {"values": [7]}}]}
    assert recorded(lambda: edtrace.plot(layers)) == [
        Table(title="T", columns=["x", "y", "c"], rows=[[1, 2.5, None], [2, None, "a"]]),
        Table(title="T", columns=["data"], rows=[[7]]),
    ]
    named = {"title": ["Two", "lines"], "datasets": {"d": rows[:1]}, "hconcat": [{"data": {"name": "d"}}]}
    assert recorded(lambda: edtrace.plot(named)) == [Table(title="Two lines", columns=["x", "y"], rows=[[1, 2.5]])]
    away = {"title": "Far", "data": {"url": "data.csv"}, "mark": "bar"}
    assert recorded(lambda: edtrace.plot(away)) == [Text(text="Far")]
    assert recorded(lambda: edtrace.plot(None)) == [Text(text="A figure")]
    nodes = [{"id": "a", "x": 0, "y": 0}, {"id": 2, "label": "<two>"}, {"id": "alone"}]
    edges = [{"source": "a", "target": 2, "label": "f & g"}, {"source": 2, "target": 2}]
    (graph,) = recorded(lambda: edtrace.graph(edtrace.make_graph(nodes, edges)))
    assert graph == Text(text=r"A graph of 3 nodes: a → \<two\> (f & g), \<two\> → \<two\>, alone.")
    assert recorded(lambda: edtrace.graph(None)) == []


def test_modules_of_cs336_are_adopted_and_others_with_their_names_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "execute_util.py").write_text("def text(x):\n    return 2 * x\n", encoding="utf-8")
    before = sys.gettrace
    assert importlib.import_module("execute_util").text(2) == 4 and sys.gettrace is before
    del sys.modules["execute_util"]
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "lectures" / "cs336_style")
    words = importlib.import_module("execute_util")
    assert recorded(lambda: words.link(title="T", url="https://example.org")) == [
        Piece(text="[T](<https://example.org>)")
    ]


def test_code_of_the_lecture_sees_a_tracer(edtrace: Any, folder: Path) -> None:
    """CS336's `spawn` runs its function in other processes, which are not recorded, if `sys.gettrace()` is None."""
    seen: dict[str, Any] = {}
    for path in (folder / "lecture.py", Path(sys.prefix) / "library.py"):
        exec(compile("import sys; found = sys.gettrace()", str(path), "exec"), names := {})
        seen[path.name] = names["found"]
    assert callable(seen["lecture.py"]) and seen["library.py"] is sys.gettrace()


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
    joined: list[dict[str, Any]] = []
    for piece in pieces:
        new = {"kind": "text", "text": piece}
        one = join_pieces(joined[-1], new) if joined else None
        joined[-1:] = [one] if one is not None else [*joined[-1:], new]
    assert [it["text"] for it in joined] == lines
    assert join_pieces({"kind": "image", "url": "a.png"}, {"kind": "text", "text": "a"}) is None
