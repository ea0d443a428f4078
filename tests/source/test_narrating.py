"""Which statements only tell the reader something: read off by hand, of lectures in each vocabulary."""

from __future__ import annotations

import pytest

from tests.pages.recording import Recording
from trace_tools.source.narrating import narrating
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Link
from trace_tools.trace.tree import Tree

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
BORROWED = """\
from edtrace import image, link, text
def main():
    text("a"), link("b")
    article("c")
    answer = article("d")
def article(url):
    return link(url)
"""


def ran(source: str) -> Recording:
    """Return a recording in which each statement of each function ran once, in calls that the code makes."""
    made = Recording(source)
    parsed = parse_source(source, "lecture.py")

    def call(function: str, of: int) -> None:
        for statement in parsed.statements:
            if statement.function == function:
                code = source.split("\n")[statement.line - 1].strip()
                told = [Link(url="x")] if "link(url)" in code else None
                step = made.step(of, code, host_ns=[2_000], narrative=told)
                for name in parsed.functions:
                    if f"{name}(" in code and not code.startswith("def"):
                        call(name, made.frame(name, step))

    call("main", made.frame("main"))
    return made


@pytest.mark.parametrize(
    ("source", "lines"),
    [(OURS, {4, 5, 6, 7, 8, 9, 11, 17, 18, 20, 22, 26}), (BORROWED, {3, 4, 7})],
)
def test_what_only_tells(source: str, lines: set[int]) -> None:
    parsed = parse_source(source, "lecture.py")
    found = narrating(Tree(ran(source).trace()), [parsed])
    assert {parsed.statements[number].line for place, number in found if place == 0} == lines


def test_a_source_that_cannot_be_parsed_has_none() -> None:
    assert narrating(Tree(ran(OURS).trace()), [None]) == frozenset()
