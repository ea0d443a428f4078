"""The search index: its entries, their links, and how it is cut to a limit."""

from __future__ import annotations

import base64
import json
import zlib
from itertools import accumulate
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.pages.explored import explored_lecture
from tests.pages.hostile import hostile_trace
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import failing, lecture
from tests.pages.test_html import Page, site_context
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import HtmlWriter
from trace_tools.pages.search import SearchEntry, SearchIndex, abbreviations, entries
from trace_tools.trace.model import Claim, Link, Note, Plot, Table, Text, Trace, Value


def unpacked(text: str) -> dict[str, Any]:
    """Decode an index as `search.js` does."""
    index: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return index


def rows(text: str) -> list[tuple[str, str, str]]:
    """Return (address, kind, text) of each entry of an index."""
    packed = unpacked(text)
    table = {name: [packed[name]["of"][at] for at in accumulate(packed[name]["at"])] for name in ("kind", "anchor")}
    numbers = zip(accumulate(packed["first"]), accumulate(packed["last"]), strict=True)
    anchors = []
    for anchor, pair in zip(table["anchor"], numbers, strict=True):
        remaining = iter(pair)
        anchors.append("".join(str(next(remaining)) if letter == "#" else letter for letter in anchor))
    pages = [packed["pages"][at][0] for at in accumulate(packed["page"])]
    links = [f"{page}.html#{anchor}" if anchor else f"{page}.html" for page, anchor in zip(pages, anchors, strict=True)]
    return list(zip(links, table["kind"], packed["text"], strict=True))


def entries_of(trace: Trace) -> list[SearchEntry]:
    return list(entries(make_document(trace)))


@pytest.mark.parametrize(
    "trace", [lecture().trace(), failing().trace(), hostile_trace()], ids=["plain", "failing", "hostile"]
)
def test_every_entry_links_to_an_element_of_a_page(trace: Trace) -> None:
    document = make_document(trace)
    writer = HtmlWriter(document, site_context())
    pages = {f"{s.slug}.html": Page(writer.section(s)).ids() for s in document.sections}
    pages |= {"index.html": Page(writer.index()).ids(), "setup.html": Page(writer.setup() or "").ids()}
    links = [link for link, _, _ in rows(SearchIndex(document).packed_in(10**6))]
    assert links
    for link in links:
        page, _, anchor = link.partition("#")
        assert page in pages and (not anchor or anchor in pages[page]), link


def test_prose_headings_code_claims_and_names_are_found() -> None:
    indexed = [(entry.kind, entry.text) for entry in entries_of(lecture().trace())]
    assert ("section", "The first part") in indexed
    assert ("heading", "A part inside") in indexed
    assert ("text", "With a summary.") in indexed and ("text", "Inside, 3.") in indexed
    assert ("code", "x = torch.ones(2, 3)  # (2, 3)") in indexed
    assert ("claim", "assert x.sum() == 6") in indexed
    assert ("code", "def helper(a):") in indexed and ("code", "import torch") in indexed
    assert not [text for kind, text in indexed if "secret" in text]  # hidden lines are on no page


def test_a_line_shown_for_several_calls_is_found_once() -> None:
    lines = [entry.text for entry in entries_of(failing().trace())]
    assert lines.count('raise ValueError("no")') == 1
    assert lines.count("total = i * n") == 1


def test_failed_claims_and_inspected_expressions_are_indexed() -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    x = g()\n    assert x\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "x = g()", values=[("x", matrix(2, 3)), ("x.stride()", Value("int", 3))])
    recording.step(f, "assert", claim=Claim("x", False, []))
    assert [(e.kind, e.text, e.also) for e in entries_of(recording.trace())[1:3]] == [
        ("code", "x = g()", "x.stride()"),
        ("failed", "assert x", ""),
    ]


def test_tables_figures_links_notes_and_formulas_are_indexed() -> None:
    narrative = [
        Text(text="It takes $6 \\times N \\cdot D$ FLOPs.\n\n## Its heading\n\n```python\ncode\n```"),
        Table(columns=["dtype", "bytes"], rows=[["bf16", 2], [None, 4.5]], title="Sizes"),
        Plot(title="The loss", series=[]),
        Link(url="https://example.org", title="A paper", authors="A. Uthor"),
        Note(text="Slowly."),
    ]
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "g()", narrative=narrative)
    indexed = [(e.kind, e.anchor, e.text) for e in entries_of(recording.trace())[1:-1]]
    assert [entry for entry in indexed if entry[0] != "code"] == [
        ("heading", "its-heading", "Its heading"),
        ("text", "said-1", "It takes 6 × N · D FLOPs. code"),
        ("table", "said-2", "Sizes dtype · bytes · bf16"),
        ("figure", "said-3", "The loss"),
        ("link", "said-4", "A paper A. Uthor"),
        ("note", "said-5", "Slowly."),
    ]


def test_the_index_is_cut_to_its_limit_and_reports_it() -> None:
    body = "".join(f'    text("""{"word " * n}""")\n' for n in range(1, 150))
    recording = Recording(f"from trace_tools import text\ndef main():\n    f()\n\ndef f():\n{body}")
    f = recording.call(recording.frame("main"), "f()", "f")
    for n in range(1, 150):
        recording.step(f, f'text("""{"word " * n}"""', narrative=[Text(text=f"{n * n} odd words " * n)])
    index = SearchIndex(make_document(recording.trace()))
    complete = index.packed_in(10**6)
    assert unpacked(complete)["reach"] == ""
    entry_count = len(rows(complete))
    shorter = index.packed_in(len(complete) - 1)
    assert len(shorter) < len(complete) and len(rows(shorter)) == entry_count
    assert unpacked(shorter)["reach"].endswith(" of long passages are searched.")
    smallest = index.packed_in(900)
    assert len(smallest) <= 900 and 0 < len(rows(smallest)) < entry_count
    assert "titles first" in unpacked(smallest)["reach"] and rows(smallest)[0][1] == "section"
    assert index.packed_in(0)


def test_the_same_document_gives_the_same_index() -> None:
    first, second = (SearchIndex(make_document(lecture().trace())).packed_in(10**6) for _ in range(2))
    assert first == second


def test_the_index_does_not_grow_with_steps() -> None:
    sizes = []
    for turns in (3, 300):
        recording = Recording("def main():\n    f()\n\ndef f():\n    for i in range(n):\n        x = i\n")
        f = recording.call(recording.frame("main"), "f()", "f")
        for turn in range(turns):
            recording.step(f, "for i")
            recording.step(f, "x = i", values=[("x", Value("int", turn))])
        sizes.append(len(SearchIndex(make_document(recording.trace())).packed_in(10**6)))
    assert sizes[0] == sizes[1]


@each("anchor", ["L216", "call-7-L216", "said-3", "", "a-70b-model", "x-007", "a-1-b-2-c-3", "no-9999999999"])
def test_anchors_survive_packing(anchor: str) -> None:
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "g()")
    index = SearchIndex(make_document(recording.trace()))
    index._entries = [SearchEntry("text", 0, anchor, "here")]
    assert rows(index.packed_in(10**6)) == [("00-f.html" + (f"#{anchor}" if anchor else ""), "text", "here")]


def test_figures_with_inputs_are_found_by_their_text() -> None:
    indexed = [(e.kind, e.anchor, e.text) for e in entries_of(explored_lecture())]
    text = "How long It takes 9.494 days on 1024 H100s, which is quick."
    assert ("figure", "said-2", text) in indexed


@each(
    ("text", "expected"),
    [
        ("A mixture of experts (MoE) has many.", [("MoE", "mixture of experts")]),
        ("counted in floating-point operations (FLOPs).", [("FLOP", "floating-point operations")]),
        ("divide by the root mean square (RMS) of it", [("RMS", "root mean square")]),
        ("the model FLOPs utilization, MFU. An MFU of 0.5", [("MFU", "model FLOPs utilization")]),
        ("HFU, hardware FLOPs utilization, counts", [("HFU", "hardware FLOPs utilization")]),
        ("RoPE (rotary position embedding) turns", [("RoPE", "rotary position embedding")]),
        ("low-rank adaptation (LoRA) trains less", [("LoRA", "low-rank adaptation")]),
        ("A GPU (the processor that trains models) is rented", []),
        ("its own memory (HBM) is fast", []),
        ("weights, AdamW keeps two averages", []),
        ("the first (A), the second (B)", []),
        ("", []),
    ],
)
def test_abbreviations_are_paired_with_their_meaning(text: str, expected: list[tuple[str, str]]) -> None:
    assert abbreviations([text]) == expected


def test_the_first_meaning_of_an_abbreviation_is_kept() -> None:
    texts = ["mixture of experts (MoE)", "MoE, model of everything, is another", "a margin of error (MoE)"]
    assert abbreviations(texts) == [("MoE", "mixture of experts")]


def test_abbreviation_search_handles_very_long_texts() -> None:
    assert abbreviations(["word " * 20_000, "A B " * 20_000, "(" * 20_000, "AB, " * 5_000, "a-" * 200_000]) == []
