"""Statements: their numbers, lines and names, and files in the encodings that Python reads."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.errors import LectureError
from trace_tools.source.statements import Statement, parse_source, read_source

PYTHON = ".".join(map(str, sys.version_info[:2]))


# Each statement is described behind its line: number and class, first line, last line of the header, last line.
HEADERS = """\
x = 1  # 0 Assign 1 1 1
y = f(  # 1 Assign 2 4 4
    2,
)
a = 1; b = 2  # 2 Assign 5 5 5; 3 Assign 5 5 5
@cached
@bound(
    1)
def f(  # 4 FunctionDef 6 11 14
    x,
):
    @inner
    def g(): return x  # 5 FunctionDef 12 13 13; 6 Return 13 13 13
    return g  # 7 Return 14 14 14
class A(  # 8 ClassDef 15 16 17
    B):
    x = 1  # 9 Assign 17 17 17
with (  # 10 With 18 20 21
    a as b,
):
    pass  # 11 Pass 21 21 21
if x: y = 1  # 12 If 22 22 22; 13 Assign 22 22 22
"""
# Number, parent, last line of the header.
BRANCHES = """\
if a:  # 0 in None to 1
    b  # 1 in 0 to 2
elif c:  # 2 in 0 to 3
    d  # 3 in 2 to 4
else:
    e  # 4 in 2 to 6
for i in x:  # 5 in None to 7
    f  # 6 in 5 to 8
else:
    g  # 7 in 5 to 10
try:  # 8 in None to 11
    h  # 9 in 8 to 12
except E:
    i  # 10 in 8 to 14
except F as e:
    j  # 11 in 8 to 16
else:
    k  # 12 in 8 to 18
finally:
    l  # 13 in 8 to 20
match x:  # 14 in None to 21
    case 1:
        m  # 15 in 14 to 23
    case {"k": n} if (
        n):
        o  # 16 in 14 to 26
"""
# Number, function.
FUNCTIONS = """\
x = 1  # 0 <module>
class Block(Base):  # 1 <module>
    size = 2  # 2 Block
    def forward(self):  # 3 Block
        def inner():  # 4 Block.forward
            pass  # 5 Block.forward.inner
        class Local:  # 6 Block.forward
            def m(self): pass  # 7 Block.forward.Local; 8 Block.forward.Local.m
        return inner  # 9 Block.forward
async def main():  # 10 <module>
    await x  # 11 main
"""


@each(
    ("text", "described"),
    [
        (HEADERS, lambda s: f"{s.number} {type(s.node).__name__} {s.first_line} {s.header_end} {s.end_line}"),
        (BRANCHES, lambda s: f"{s.number} in {s.parent} to {s.header_end}"),
        (FUNCTIONS, lambda s: f"{s.number} {s.function}"),
    ],
)
def test_numbers_lines_and_functions_of_statements(text: str, described: Callable[[Statement], str]) -> None:
    found: dict[int, list[str]] = {}
    for statement in parse_source(text, "lecture.py").statements:
        found.setdefault(statement.line, []).append(described(statement))
    written = ((number, line.partition("  # ")[2]) for number, line in enumerate(text.splitlines(), 1))
    assert found == {number: note.split("; ") for number, note in written if note}


def test_function_returns_the_last_definition() -> None:
    source = parse_source("def f(): pass\ndef f(): pass\nclass g: pass\n", "lecture.py")
    function = source.functions.get("f")
    assert function is not None and function.line == 2
    assert source.functions.get("g") is None
    methods = parse_source(FUNCTIONS, "lecture.py").functions
    assert [*methods] == ["Block.forward", "Block.forward.inner", "Block.forward.Local.m", "main"]


def test_every_statement_occurs_once_in_source_order() -> None:
    text = inspect.getsource(inspect)
    parsed = parse_source(text, "module.py").statements
    expected = sorted((n.lineno, n.col_offset) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt))
    assert [(s.line, s.node.col_offset) for s in parsed] == expected
    assert [s.number for s in parsed] == list(range(len(parsed)))


def test_byte_order_mark_is_removed() -> None:
    source = parse_source("\ufeffx = 1\n", "lecture.py")
    assert source.text == "x = 1\n"
    assert (source.statements[0].line, source.statements[0].node.col_offset) == (1, 0)


@each(
    "content",
    [
        b"x = '\xc3\xa9'\n",
        b"\xef\xbb\xbfx = '\xc3\xa9'\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"y = '''a\r\nb'''\r\nx = '\xc3\xa9'\r\n",
        b"y = 1\rx = '\xc3\xa9'\r",
        b"x = '\xc3\xa9'",
    ],
)
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


@each(
    ("content", "error"),
    [
        (b"x = 1\ny = 2\nz = '\xe9'\n", ": can't be decoded: 'utf-8' codec can't decode byte 0xe9 in position 17"),
        (b"\xff\xfex\0=\x001\0", ": can't be decoded: invalid or missing encoding declaration"),
        (b"# coding: klingon\n", ": can't be decoded: unknown encoding"),
        (b"x = 1\ny = (\n", f":2: not valid Python {PYTHON}: '(' was never closed"),
        (b"x = 1\n  y = 2\n", f":2: not valid Python {PYTHON}: unexpected indent"),
    ],
)
def test_undecodable_files_are_reported(content: bytes, error: str, tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_bytes(content)
    with pytest.raises(LectureError) as caught:
        read_source(path)
    message = str(caught.value).removeprefix(str(path))
    assert message == error if "not valid" in error else message.startswith(error)
    assert "\n" not in message


def test_null_byte_is_a_one_line_error() -> None:
    with pytest.raises(LectureError, match=rf"^lecture\.py.*: not valid Python {re.escape(PYTHON)}: .*null bytes$"):
        parse_source("x = 1\0", "lecture.py")
