"""The search index: its entries and their links."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from tests.pages.explored import explored_lecture
from tests.pages.hostile import hostile_trace
from tests.pages.recording import Recording, matrix
from tests.pages.test_compose import failing, lecture
from tests.pages.test_html import Page, site_context
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import HtmlWriter
from trace_tools.pages.search import SearchEntry, entries, index_script
from trace_tools.trace.model import Claim, Link, Note, Plot, Table, Text, Trace, Value


def unpacked(script: str) -> dict[str, Any]:
    """Decode an index as `search.js` does."""
    index: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(script.split('"')[1])))
    return index


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
    index = unpacked(index_script(document))
    assert index["entries"]
    for _, page, anchor, *_ in index["entries"]:
        ids = pages[f"{index['pages'][page][0]}.html"]
        assert not anchor or anchor in ids, (page, anchor)


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


def test_the_same_document_gives_the_same_index() -> None:
    first, second = (index_script(make_document(lecture().trace())) for _ in range(2))
    assert first == second


def test_the_index_does_not_grow_with_steps() -> None:
    sizes = []
    for turns in (3, 300):
        recording = Recording("def main():\n    f()\n\ndef f():\n    for i in range(n):\n        x = i\n")
        f = recording.call(recording.frame("main"), "f()", "f")
        for turn in range(turns):
            recording.step(f, "for i")
            recording.step(f, "x = i", values=[("x", Value("int", turn))])
        sizes.append(len(index_script(make_document(recording.trace()))))
    assert sizes[0] == sizes[1]


def test_figures_with_inputs_are_found_by_their_text() -> None:
    indexed = [(e.kind, e.anchor, e.text) for e in entries_of(explored_lecture())]
    text = "How long It takes 9.494 days on 1024 H100s, which is quick."
    assert ("figure", "said-2", text) in indexed
