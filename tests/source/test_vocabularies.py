from __future__ import annotations

from typing import get_args

import pytest

from tests.cases_in_one import each
from tests.pages.recording import Recording
from trace_tools.source.statements import parse_source
from trace_tools.source.vocabularies import BORROWED, narrating, narrative_calls, words_called
from trace_tools.trace.model import Link, Narrative
from trace_tools.trace.tree import Tree


@each(
    ("source", "expected"),
    [
        ("from edtrace import text\ntext('a'), text('b')", {1: "text"}),
        ("from edtrace import text, link\ntext('a'), link(f), text(':')\ntext('a'),", {1: "text", 2: "text"}),
        ("from edtrace import text\ntext('a'), f()", {}),
        ("from edtrace import system_text as run\nrun(['date'])", {1: "text"}),
        ("import edtrace\nedtrace.link(f)", {1: "link"}),
        ("import edtrace.execute_util as words\nwords.video('v.mp4')", {1: "video"}),
        ("from edtrace import execute_util\nexecute_util.graph(None)", {1: "text"}),
        ("from execute_util import *\nimage('a.png')\nlink(f)", {1: "image", 2: "link"}),
        ("from execute_util import explore\nexplore(f)", {}),
        ("from other import text\ntext('a')", {}),
        ("from .execute_util import text\ntext('a')", {}),
        ("from edtrace import text\nx = text('a')", {}),
    ],
)
def test_narrative_calls_of_each_vocabulary(source: str, expected: dict[int, str]) -> None:
    assert narrative_calls(parse_source(source, "lecture.py")) == expected


def test_calls_are_marked_as_borrowed_or_own() -> None:
    source = "from edtrace import text\nfrom trace_tools import note\ntext('a')\nnote('b')\n"
    assert words_called(parse_source(source, "lecture.py")) == {2: ("text", True), 3: ("note", False)}


def test_calls_make_known_kinds_of_narrative() -> None:
    kinds = {kind for words in BORROWED.values() for kind in words.values()}
    assert kinds < {kind.__name__.lower() for kind in get_args(Narrative)}


# --- Statements that only narrate; the expected lines were determined by hand ---

OURS = """\
from trace_tools import decide, link, note, text
import trace_tools as t
def main():
    text("a"), link("b")
    t.table([[1]], ["x"])
    intro()
    if True:
        text("c")
        outro()
    for word in "ab":
        text(word)
        x = 1
    total = sum([1, 2])
    shown(total)
    work()
def intro():
    text("d")
    decide(1.0, above="e", below="f", undecided="g")
def outro():
    note("i")
def shown(what):
    text(f"{what}")
    return what
def work():
    y = 2
    text("h")
"""
THEIRS = """\
from edtrace import image, link, text
def main():
    text("a"), link("b")
    article("c")
    answer = article("d")
def article(url):
    return link(url)
"""


def recorded(source: str) -> Recording:
    """Return a recording in which each statement of each function ran once, in calls that the code makes."""
    recording = Recording(source)
    parsed = parse_source(source, "lecture.py")

    def call(function: str, frame: int) -> None:
        for statement in parsed.statements:
            if statement.function == function:
                code = source.split("\n")[statement.line - 1].strip()
                narrative = [Link(url="x")] if "link(url)" in code else None
                step = recording.step(frame, code, host_ns=[2_000], narrative=narrative)
                for name in parsed.functions:
                    if f"{name}(" in code and not code.startswith("def"):
                        call(name, recording.frame(name, step))

    call("main", recording.frame("main"))
    return recording


@pytest.mark.parametrize(
    ("source", "lines"),
    [(OURS, {4, 5, 6, 7, 8, 9, 11, 17, 18, 20, 22, 26}), (THEIRS, {3, 4, 7})],
)
def test_statements_that_only_narrate(source: str, lines: set[int]) -> None:
    parsed = parse_source(source, "lecture.py")
    statements = narrating(Tree(recorded(source).trace()), [parsed])
    assert {parsed.statements[number].line for source_index, number in statements if source_index == 0} == lines


def test_unparsable_source_has_no_narrating_statements() -> None:
    assert narrating(Tree(recorded(OURS).trace()), [None]) == frozenset()
