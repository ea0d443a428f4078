"""The search index; `tests/golden` has one with every kind of entry, and `test_every_page.py` follows the links."""

from __future__ import annotations

from tests.pages.lectures import failing, lecture
from tests.pages.recording import of_section
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.search import entries, index_script
from trace_tools.trace.model import Trace, Value


def texts_of(trace: Trace) -> list[tuple[str, str]]:
    return [(entry.kind, entry.text) for entry in entries(make_document(trace))]


def test_hidden_lines_are_not_found_and_lines_of_several_calls_once() -> None:
    assert {("text", "With a summary."), ("code", "x = torch.ones(2, 3)  # (2, 3)")} <= {*texts_of(lecture().trace())}
    texts = [text for _, text in texts_of(failing().trace())]
    assert not [text for text in texts if "secret" in text]
    assert texts.count('raise ValueError("no")') == texts.count("total = i * n") == 1


def test_the_index_does_not_grow_with_steps() -> None:
    sizes = []
    for turns in (3, 300):
        recording, f = of_section("for i in range(n):\n    x = i")
        for turn in range(turns):
            recording.step(f, "for i")
            recording.step(f, "x = i", values=[("x", Value("int", turn))])
        sizes.append(len(index_script(make_document(recording.trace()))))
    assert sizes[0] == sizes[1]
