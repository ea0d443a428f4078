from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from tests.pages.hostile import hostile_trace
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import LECTURE, failing, lecture
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Call
from trace_tools.pages.html import HtmlWriter, SiteContext
from trace_tools.pages.markdown import MarkdownWriter
from trace_tools.trace.model import (
    Claim,
    Image,
    Link,
    Machine,
    Meters,
    Note,
    Plot,
    Run,
    Scalar,
    Series,
    Statistics,
    Table,
    Tensor,
    Text,
    Trace,
    Value,
)

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """A parsed page: its tags, its ids, and its text by tag and class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1][0] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag, style in self.open:
            self.texts += [(name, data) for name in (tag, *style.split())]

    def text(self, name: str) -> str:
        return re.sub(r"\s+", " ", "".join(data for label, data in self.texts if label == name)).strip()

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]


def site_context() -> SiteContext:
    return SiteContext(picture=lambda address: None)


def html(trace: Trace, number: int = 0) -> str:
    document = make_document(trace)
    return HtmlWriter(document, site_context()).section(document.sections[number])


def one_line(code: str, **step: object) -> str:
    recording = Recording(f"def main():\n    f()\n\ndef f():\n    {code}\n")
    recording.step(recording.call(recording.frame("main"), "f()", "f"), code, **step)
    return html(recording.trace())


def pages(trace: Trace) -> list[str]:
    document = make_document(trace)
    writer = HtmlWriter(document, site_context())
    return [*map(writer.section, document.sections), writer.index()]


@pytest.mark.parametrize(
    "trace", [lecture().trace(), failing().trace(), hostile_trace()], ids=["plain", "failing", "hostile"]
)
def test_pages_are_well_formed_and_self_contained(trace: Trace) -> None:
    for text in pages(trace):
        page = Page(text)
        assert page.open == []
        assert len(page.ids()) == len(set(page.ids()))
        for tag, attributes in page.tags:
            assert "style" not in attributes and not any(name.startswith("on") for name in attributes), (
                tag,
                attributes,
            )
            assert tag not in {"iframe", "object", "embed", "form", "base", "foreignobject", "animate", "set"}
            for name in ("src", "href", "xlink:href"):
                address = attributes.get(name)
                if tag == "script":
                    # a file in the folder of the page, or the site's list of machines
                    assert address is None or re.fullmatch(r"[\w-]+\.js|\.\./machines\.js", address), address
                elif address and tag != "a":
                    assert address.startswith(("data:image/", "data:,", "figures/", "#")), (tag, address)
                elif address:
                    assert re.match(r"https?://|mailto:|#|[\w./-]+$|[\w./-]+#[\w-]+$", address), address
        for target in re.findall(r'href="#([^"]+)"', text):
            assert target in page.ids()


def test_the_content_policy_allows_only_the_pages_script_and_style() -> None:
    [text, *_] = pages(lecture().trace())
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    for tag in ("script", "style"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy
    assert policy.startswith("default-src &#39;none&#39;") and "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_no_text_of_a_trace_becomes_a_tag() -> None:
    for text in pages(hostile_trace()):
        page = Page(text)
        assert [tag for tag, attributes in page.tags if "src" not in attributes].count("script") == 1
        assert "pwned" not in page.text("script")
        assert not [
            attributes
            for tag, attributes in page.tags
            if tag == "img" and not attributes["src"].startswith("figures/00-")
        ]
        assert "49" not in page.text("h1") and "\u202e" not in text and "\x00" not in text
        assert len(text) < 2_500_000


def test_pages_are_deterministic() -> None:
    trace = lecture().trace()
    assert pages(trace) == pages(trace)


def test_observations_are_in_the_row_of_their_line() -> None:
    text = html(lecture().trace())
    line = LECTURE.splitlines().index("    x = torch.ones(2, 3)  # (2, 3) @inspect x") + 1
    [row] = re.findall(rf'<div class="row" id="L{line}">.*?(?=<div class="row")', text, re.DOTALL)
    assert "torch.ones" in re.sub(r"<[^>]+>", "", row) and "f32[2, 3]" in row
    assert "⋯" in row and "21 µs ± 4.8%" in html(lecture().trace())
    assert re.search(r'<details class="o value first grids"><summary>.*<td>5.</td>', row)  # a small matrix, folded
    assert "@inspect" not in text


def test_shared_storage_has_a_colour_and_a_label() -> None:
    text = html(lecture().trace())
    assert text.count('<span class="dot s1"></span>') == 2
    assert text.count('<span class="storage s1">storage A</span>') == 2


def test_a_varying_value_shows_its_spread() -> None:
    value = Value("float", 0.31, varies=True, samples=[0.31, 0.35, 0.33], unit="s")
    text = one_line("x = 1", values=[("x", value)])
    assert "310 ms … 350 ms · varies" in text and "0.31, 0.35, 0.33" in text


def test_missing_flops_are_explained() -> None:
    text = one_line("x = 1", annotated=True, host_ns=[5 * 10**6], meters=Meters(uncounted=["aten.odd"], why="fused"))
    assert "no FLOP formula for aten.odd" in text and "fused" in text and "FLOPs" not in text


def test_a_failed_claim_is_marked_in_row_contents_and_notice() -> None:
    claim = Claim("x == 2", False, [("x", Value("int", 1)), ("2", Value("int", 2))], message="x is off")
    text = one_line("assert x == 2", claim=claim)
    page = Page(text)
    assert '<div class="row trouble" id="L5">' in text
    assert "✗ 1 == 2" in page.text("beside")
    assert "This claim failed" in page.text("failure") and "x is off" in page.text("failure")
    assert "1 ✗" in page.text("contents")
    assert 'href="#L5">Show it</a>' in text


def test_an_emulated_device_is_named_on_every_page() -> None:
    trace = lecture().trace(machine=Machine("A device", "emulated-a-device", "cuda", emulated=True))
    index = pages(trace)[-1]
    assert all("Emulated: software imitated this device" in Page(text).text("notice") for text in pages(trace))
    assert "by software" in index
    real = lecture().trace(machine=Machine("A device", "a-device", "cuda"))
    assert not any("mulated" in text for text in pages(real))


def test_an_uncaught_exception_is_marked_before_the_remaining_code() -> None:
    recording = failing()
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61")
    page = Page(html(recording.trace(run=run), 1))
    assert "This trace is partial: ValueError at line 61" in page.text("notice")
    assert "ValueError" in page.text("failure") and "not caught: the run ended here" in page.text("failure")
    assert "never" in page.text("unrun")


def test_a_large_tensor_shows_its_corner_and_statistics() -> None:
    stats = Statistics(-4.9, 5.1, 0.0003, 1.0, nan=2)
    tensor = Tensor(
        "bfloat16", [1024, 1024], "cuda:0", 2**21, corner=[0.5, -1.25, 1e-5, 2.0], corner_shape=[2, 2], statistics=stats
    )
    page = Page(one_line("x = 1", values=[("x", Value("tensor", tensor=tensor))]))
    assert "bf16[1024, 1024] · 2 MiB" in page.text("beside")
    assert page.text("grid") == "0.50000-1.25000…0.000012.00000…⋮⋮⋮"
    assert "-4.9 … 5.1" in page.text("facts") and "2 nan" in page.text("facts")


def test_narrative_of_every_kind_is_shown() -> None:
    narratives = [
        Text(text="Costs $2BDK$ FLOPs, <b>really</b>."),
        Note(text="Slowly."),
        Link(url="https://a.b/c", title="A paper", authors="Who", date="2019"),
        Link(url="javascript:alert(1)", title="A trap"),
        Image(url="missing.png", title="A picture"),
        Table(title="T", columns=["a", "$n$"], rows=[["$x$", 1.5], [None, 10**5]]),
        Plot(title="Loss", series=[Series("a", [1, 2], [3.0, 4.0])]),
    ]
    text = one_line("g()", narrative=narratives)
    page = Page(text)
    assert "<math" in text and "&lt;b&gt;really&lt;/b&gt;" in text
    assert page.text("note").startswith("Note for the presenter")
    assert '<a href="https://a.b/c" rel="noreferrer">A paper</a>' in text and "javascript:alert" not in text
    assert "Image not shown: missing.png" in page.text("figure")
    assert '<th scope="col" class="right">' in text and "100,000" in page.text("table")
    assert 'role="img"' in text and "a: 2 values from 3 to 4" in text


@pytest.mark.parametrize(
    ("cells", "right"),
    [([1.5, "–", 2], True), (["9.58e+21", "2e25", "1,024", "12%"], True), ([None, "–"], False), ([1, "1 of 2"], False)],
)
def test_only_columns_of_numbers_are_right_aligned(cells: list[Scalar], right: bool) -> None:
    text = one_line("g()", narrative=[Table(columns=["n"], rows=[[cell] for cell in cells])])
    assert ('<th scope="col" class="right">n</th>' in text) == right


def test_pages_link_to_their_neighbours_and_to_the_machines_of_the_site() -> None:
    document = make_document(failing().trace())
    writer = HtmlWriter(document, site_context())
    first, second = map(writer.section, document.sections)
    assert '<a class="next" href="01-second.html" rel="next">' in first and 'rel="prev"' not in first
    assert '<a href="00-first.html" rel="prev">' in second
    assert '<a href="../index.html#machines">' in first


def test_a_small_matrix_shows_all_its_elements() -> None:
    page = Page(one_line("x = 1", values=[("x", matrix(2, 3))]))
    assert page.text("grid") == "0.1.2.3.4.5."


def test_deeper_parts_are_folded_under_their_heading() -> None:
    recording = Recording(
        "from trace_tools import text\n"
        "def main():\n    f()\ndef f():\n    text('Core.')\n    more()  # @deeper\n"
        'def more():\n    """More of it"""\n    text(\'Deeper.\')\n'
    )
    section = recording.call(recording.frame("main"), "f()", "f")
    recording.step(section, "text('Core", narrative=[Text(text="Core.")])
    inner = recording.call(section, "more()", "more")
    recording.step(inner, "text('Deep", narrative=[Text(text="Deeper.")])
    document = make_document(recording.trace())
    [_, part] = document.sections[0].blocks
    assert isinstance(part, Call) and part.shown == "part" and part.deeper
    html = HtmlWriter(document, site_context()).section(document.sections[0])
    text = MarkdownWriter(document, site_context()).section(document.sections[0])
    for page, heading in ((html, ">More of it<"), (text, "# More of it")):
        main = page.partition("<main")[2] or page
        assert main.index(heading) < main.lower().index("deeper, 1 min</summary>") < main.index("Deeper.")
