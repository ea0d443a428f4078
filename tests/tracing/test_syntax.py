"""Questions about syntax trees: irrefutable patterns and preambles are compared with what Python compiles."""

from __future__ import annotations

import ast

from tests.cases_in_one import each
from trace_tools.source.cells import preamble_length
from trace_tools.tracing.syntax import catches_assertions, is_irrefutable, suspends


def compiles(text: str) -> bool:
    try:
        compile(text, "x.py", "exec")
    except SyntaxError:
        return False
    return True


@each("pattern", ["_", "x", "(x)", "_ as y", "1 | x", "1", "[x]", "x if x", "1 as y", "a.b"])
def test_python_allows_no_case_after_an_irrefutable_one(pattern: str) -> None:
    [match] = ast.parse(f"match v:\n    case {pattern}: pass\n").body
    assert isinstance(match, ast.Match)
    assert is_irrefutable(match.cases[0]) != compiles(f"match v:\n    case {pattern}: pass\n    case 2: pass\n")


@each(
    ("text", "length"),
    [("'doc'\nfrom __future__ import annotations\nx = 1\n", 2), ("x = 1\n", 0), ("'doc'\n'no doc'\n", 1), ("", 0)],
)
def test_preamble_stays_first(text: str, length: int) -> None:
    assert preamble_length(ast.parse(text).body) == length
    lines = text.splitlines(keepends=True)
    assert compiles("".join([*lines[:length], "probe = 1\n", *lines[length:]]))


@each(
    ("statement", "expected"),
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
def test_only_a_statements_own_expressions_suspend_it(statement: str, expected: bool) -> None:
    [function] = ast.parse(f"async def f():\n    {statement}\n").body
    assert isinstance(function, ast.AsyncFunctionDef) and suspends(function.body[0]) is expected


@each(
    ("statement", "expected"),
    [
        ("try: pass\nexcept AssertionError: pass", True),
        ("try: pass\nexcept (ValueError, Exception): pass", True),
        ("try: pass\nexcept: pass", True),
        ("try: pass\nexcept ValueError: pass", False),
        ("try: pass\nexcept unknown.Error: pass", False),
        ("with contextlib.suppress(AssertionError): pass", True),
    ],
)
def test_blocks_that_catch_assertion_errors(statement: str, expected: bool) -> None:
    [block] = ast.parse(statement).body
    assert catches_assertions(block) is expected
