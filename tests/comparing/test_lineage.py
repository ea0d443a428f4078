from __future__ import annotations

import pytest

from trace_tools.comparing.lineage import Lineage
from trace_tools.schema import SourceFile

SOURCE = """\
import time
from trace_tools import measure, peak_flops

def main():
    rate = peak_flops("float32")
    side = round(rate / 1e9)
    found, rows = {}, []
    for name in ("a", "b"):
        found[name] = (name, timed(side))
    rows.append(found)
    count = twice(3)
    given = twice(side)
    with_default = lambda: side
    names = [n for n in ("a", "b")]

def timed(size):
    start = time.perf_counter()
    work = size + 1
    return time.perf_counter() - start

def twice(x):
    y = 2 * x
    return y

def outer():
    seconds = measure(work).seconds
    def inner():
        share = seconds / 2
        return share
    def other():
        seconds = 1
        return seconds
    a, b = inner(), other()

def apart():
    plain = [1, 2]
    plain.append(3)
    total = sum(plain)
"""
LINES = {number: line for number, line in enumerate(SOURCE.splitlines(), 1)}


def lineage(*edited: int) -> Lineage:
    return Lineage([SourceFile("lecture.py", SOURCE)], {(0, number) for number in edited})


@pytest.mark.parametrize(
    ("function", "expression", "is_measured"),
    [
        ("main", "rate", True),
        ("main", "2 * side - 1", True),
        ("main", "found['a']", True),  # a container that something measured was put into
        ("main", "rows", True),
        ("main", "given", True),
        ("main", "with_default()", True),
        ("main", "names", False),
        ("main", "peak_flops('int8')", True),
        ("main", "timed(1)", True),
        ("timed", "work", True),  # it was called with a measured size
        ("timed", "start", True),
        ("twice", "y", True),
        ("main", "count", True),  # too much: calls of one function are not told apart
        ("outer.inner", "share", True),
        ("outer.other", "seconds", False),  # another variable of that name
        ("outer", "a", True),
        ("outer", "b", False),
        ("apart", "total", False),
        ("apart", "len(plain", False),  # not an expression
        ("nowhere", "nothing", False),
    ],
)
def test_what_follows_from_a_measurement(function: str, expression: str, is_measured: bool) -> None:
    assert lineage().is_measured((0, function), expression) == is_measured


def test_what_follows_from_an_edited_statement_too_is_not_excused() -> None:
    side = next(n for n in range(20) if _text(n).startswith("side ="))
    found = lineage(side)
    assert found.is_measured((0, "main"), "rate") and not found.is_measured((0, "main"), "side")
    assert not found.is_measured((0, "main"), "found") and not found.is_measured((0, "timed"), "work")
    assert found.is_measured((0, "timed"), "start")


def _text(number: int) -> str:
    from trace_tools.statements import parse_source

    return LINES[parse_source(SOURCE, "lecture.py").statements[number].line].strip()


def test_a_source_that_this_python_does_not_read_has_no_lineage() -> None:
    assert not Lineage([SourceFile("a.py", "x = = 1\n")]).is_measured((0, "<module>"), "x")
