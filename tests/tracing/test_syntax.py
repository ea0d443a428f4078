"""Questions about syntax trees: Python itself says what is first, what takes all, and what suspends."""

from __future__ import annotations

import ast

import pytest

from tests.cases_in_one import each
from trace_tools.tracing.syntax import catches_assertions, is_irrefutable, preamble_length, suspends


def compiles(text: str) -> bool:
    try:
        compile(text, "x.py", "exec")
    except SyntaxError:
        return False
    return True


@each("pattern", ["_", "x", "(x)", "_ as y", "1 | x", "1", "[x]", "x if x", "1 as y", "a.b"])
def test_a_case_that_takes_all_is_one_after_which_python_allows_none(pattern: str) -> None:
    [match] = ast.parse(f"match v:\n    case {pattern}: pass\n").body
    assert isinstance(match, ast.Match)
    assert is_irrefutable(match.cases[0]) != compiles(f"match v:\n    case {pattern}: pass\n    case 2: pass\n")


@pytest.mark.parametrize(
    ("text", "length"),
    [("'doc'\nfrom __future__ import annotations\nx = 1\n", 2), ("x = 1\n", 0), ("'doc'\n'no doc'\n", 1), ("", 0)],
)
def test_what_must_stay_first(text: str, length: int) -> None:
    assert preamble_length(ast.parse(text).body) == length
    lines = text.splitlines(keepends=True)
    assert compiles("".join([*lines[:length], "probe = 1\n", *lines[length:]]))


@each(
    ("statement", "answer"),
    [
        ("x = yield 1", True),
        ("await f()", True),
        ("f = lambda: (yield)", False),
        ("async with a: pass", True),
        ("x = [i async for i in a]", True),
        ("x = (i async for i in a)", False),
        ("def g(): yield", False),
        ("if (yield): pass", True),
        ("if x: yield", False),
    ],
)
def test_a_statement_suspends_by_what_is_its_own(statement: str, answer: bool) -> None:
    [function] = ast.parse(f"async def f():\n    {statement}\n").body
    assert isinstance(function, ast.AsyncFunctionDef)
    assert suspends(function.body[0]) is answer


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("except AssertionError", True),
        ("except (ValueError, Exception)", True),
        ("except", True),
        ("except ValueError", False),
        ("except unknown.Error", False),
    ],
)
def test_what_catches_an_assertion_error(header: str, answer: bool) -> None:
    [tried] = ast.parse(f"try: pass\n{header}: pass\n").body
    assert catches_assertions(tried) is answer
    [block] = ast.parse("with contextlib.suppress(AssertionError): pass").body
    assert catches_assertions(block)
