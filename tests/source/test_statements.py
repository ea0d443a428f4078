"""Statements: their numbers, lines and names, and files in the encodings that Python reads."""

from __future__ import annotations

import ast
import inspect
import py_compile
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from tests.cases_in_one import each
from trace_tools.errors import LectureError
from trace_tools.source.statements import Statement, parse_source, qualified_name, read_source
from trace_tools.trace.model import MODULE

PYTHON = ".".join(map(str, sys.version_info[:2]))


def statements(text: str) -> tuple[Statement, ...]:
    return parse_source(textwrap.dedent(text), "lecture.py").statements


def table(text: str) -> list[tuple[int, str, int, int, int, int]]:
    """Return (number, kind, first_line, line, header_end, end_line) of each statement."""
    return [(s.number, type(s.node).__name__, s.first_line, s.line, s.header_end, s.end_line) for s in statements(text)]


def test_simple_statements() -> None:
    assert table("x = 1\ny = f(\n    2,\n)\na = 1; b = 2\n") == [
        (0, "Assign", 1, 1, 1, 1),
        (1, "Assign", 2, 2, 4, 4),
        (2, "Assign", 5, 5, 5, 5),
        (3, "Assign", 5, 5, 5, 5),
    ]


def test_headers_and_decorators() -> None:
    text = """\
    @cached
    @bound(
        1)
    def f(
        x,
    ):
        @inner
        def g(): return x
        return g
    class A(
        B):
        x = 1
    with (
        a as b,
    ):
        pass
    if x: y = 1
    """
    assert table(text) == [
        (0, "FunctionDef", 1, 4, 6, 9),
        (1, "FunctionDef", 7, 8, 8, 8),
        (2, "Return", 8, 8, 8, 8),
        (3, "Return", 9, 9, 9, 9),
        (4, "ClassDef", 10, 10, 11, 12),
        (5, "Assign", 12, 12, 12, 12),
        (6, "With", 13, 13, 15, 16),
        (7, "Pass", 16, 16, 16, 16),
        (8, "If", 17, 17, 17, 17),
        (9, "Assign", 17, 17, 17, 17),
    ]


def test_branches_handlers_and_cases_in_order() -> None:
    text = """\
    if a:
        b
    elif c:
        d
    else:
        e
    for i in x:
        f
    else:
        g
    try:
        h
    except E:
        i
    except F as e:
        j
    else:
        k
    finally:
        l
    match x:
        case 1:
            m
        case {"k": n} if (
            n):
            o
    """
    numbers = [(s.number, s.parent, s.line, type(s.node).__name__) for s in statements(text)]
    assert numbers == [
        (0, None, 1, "If"),
        (1, 0, 2, "Expr"),
        (2, 0, 3, "If"),
        (3, 2, 4, "Expr"),
        (4, 2, 6, "Expr"),
        (5, None, 7, "For"),
        (6, 5, 8, "Expr"),
        (7, 5, 10, "Expr"),
        (8, None, 11, "Try"),
        (9, 8, 12, "Expr"),
        (10, 8, 14, "Expr"),
        (11, 8, 16, "Expr"),
        (12, 8, 18, "Expr"),
        (13, 8, 20, "Expr"),
        (14, None, 21, "Match"),
        (15, 14, 23, "Expr"),
        (16, 14, 26, "Expr"),
    ]
    assert {s.number: s.header_end for s in statements(text) if s.number in (0, 2, 5, 8, 14)} == {
        0: 1,
        2: 3,
        5: 7,
        8: 11,
        14: 21,
    }


def test_functions_and_qualified_names() -> None:
    text = """\
    x = 1
    class Block(Base):
        size = 2
        def forward(self):
            def inner():
                pass
            class Local:
                def m(self): pass
            return inner
    async def main():
        await x
    """
    parsed = statements(text)
    assert [(s.number, s.function) for s in parsed] == [
        (0, MODULE),
        (1, MODULE),
        (2, "Block"),
        (3, "Block"),
        (4, "Block.forward"),
        (5, "Block.forward.inner"),
        (6, "Block.forward"),
        (7, "Block.forward.Local"),
        (8, "Block.forward.Local.m"),
        (9, "Block.forward"),
        (10, MODULE),
        (11, "main"),
    ]
    assert [qualified_name(parsed[n]) for n in (1, 3, 4, 7, 10)] == [
        "Block",
        "Block.forward",
        "Block.forward.inner",
        "Block.forward.Local.m",
        "main",
    ]


def test_function_returns_the_last_definition() -> None:
    source = parse_source("def f(): pass\ndef f(): pass\nclass g: pass\n", "lecture.py")
    function = source.function("f")
    assert function is not None and function.line == 2
    assert source.function("g") is None


@pytest.mark.parametrize("module", [ast, inspect, py_compile, textwrap])
def test_every_statement_occurs_once_in_source_order(module: ModuleType) -> None:
    text = inspect.getsource(module)
    parsed = parse_source(text, "module.py").statements
    expected = sorted((n.lineno, n.col_offset) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt))
    assert [(s.line, s.node.col_offset) for s in parsed] == expected
    assert [s.number for s in parsed] == list(range(len(parsed)))
    assert all(s.parent is None or s.parent < s.number for s in parsed)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1\ny = (\n", f"lecture.py:2: not valid Python {PYTHON}: '(' was never closed"),
        ("x = 1\n  y = 2\n", f"lecture.py:2: not valid Python {PYTHON}: unexpected indent"),
    ],
)
def test_syntax_errors_name_line_and_cause(text: str, error: str) -> None:
    with pytest.raises(LectureError) as caught:
        parse_source(text, "lecture.py")
    assert str(caught.value) == error


def test_null_byte_is_a_one_line_error() -> None:
    with pytest.raises(LectureError, match=rf"^lecture\.py.*: not valid Python {re.escape(PYTHON)}: .*null bytes$"):
        parse_source("x = 1\0", "lecture.py")


def test_byte_order_mark_is_removed() -> None:
    source = parse_source("\ufeffx = 1\n", "lecture.py")
    assert source.text == "x = 1\n"
    assert (source.statements[0].line, source.statements[0].node.col_offset) == (1, 0)


READABLE = {
    "UTF-8": b"x = '\xc3\xa9'\n",
    "UTF-8 with BOM": b"\xef\xbb\xbfx = '\xc3\xa9'\n",
    "BOM and declared": b"\xef\xbb\xbf# coding: utf-8\nx = '\xc3\xa9'\n",
    "Latin-1": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
    "declared in line 2": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\xe9'\n",
    "CRLF": b"x = '\xc3\xa9'\r\n",
    "CRLF inside a string": b"y = '''a\r\nb'''\r\nx = '\xc3\xa9'\r\n",
    "CR": b"y = 1\rx = '\xc3\xa9'\r",
    "no last newline": b"x = '\xc3\xa9'",
}


@each("content", [pytest.param(content, id=name) for name, content in READABLE.items()])
def test_files_are_decoded_as_python_does(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_bytes(content)
    plain: dict[str, object] = {}
    exec(compile(content, "lecture.py", "exec"), plain)  # CPython decodes the bytes itself
    source = read_source(path)
    read: dict[str, object] = {}
    exec(compile(source.tree, "lecture.py", "exec"), read)
    assert source.path == str(path)
    assert "\r" not in source.text and "\ufeff" not in source.text
    assert (read["x"], read.get("y")) == (plain["x"], plain.get("y")) == ("é", plain.get("y"))


UNREADABLE = {
    b"x = 1\ny = 2\nz = '\xe9'\n": ": can't be decoded: 'utf-8' codec can't decode byte 0xe9 in position 17",
    b"# coding: ascii\nx = '\xe9'\n": ": can't be decoded: 'ascii' codec can't decode byte 0xe9",
    b"\xff\xfex\0=\x001\0": ": can't be decoded: invalid or missing encoding declaration",
    b"# coding: klingon\n": ": can't be decoded: unknown encoding",
    b"# coding: hex\n": ": can't be decoded: 'hex' is not a text encoding",
    b"x = (\n": f":1: not valid Python {PYTHON}: '(' was never closed",
}


@each(("content", "error"), UNREADABLE.items())
def test_undecodable_files_are_reported(content: bytes, error: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_bytes(content)
    with pytest.raises(LectureError) as caught:
        read_source(path)
    assert str(caught.value).startswith(f"{path}{error}")
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        LectureError, match=r"gone\.py: can't be read: No such file or directory; expected a Python file"
    ):
        read_source(tmp_path / "gone.py")
    with pytest.raises(LectureError, match=r": can't be read: Is a directory; expected a Python file"):
        read_source(str(tmp_path))
