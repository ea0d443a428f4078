"""Directives: the cases in cases/directives/, and unusual line endings and encodings."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.errors import LectureError
from trace_tools.source.directives import Directive, parse_directives
from trace_tools.source.statements import ParsedSource, parse_source, read_source

CASES = Path(__file__).parent / "cases" / "directives"
CASE = re.compile(r"^## ([^\n]*)\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.M | re.S)


def cases() -> list[tuple[str, str, str]]:
    """Return (title, source, expected) of every case."""
    all_cases = []
    for path in sorted(CASES.glob("*.md")):
        content = path.read_text(encoding="utf-8")
        in_file = [(f"{path.stem}: {title}", *rest) for title, *rest in CASE.findall(content)]
        assert len(in_file) == content.count("```python"), f"{path}: a case is not in the expected form"
        all_cases += in_file
    return all_cases


def describe(directive: Directive, source: ParsedSource) -> str:
    statement = source.statements[directive.statement]
    inspected = [i.source + (f" [{i.unit}]" if i.unit else "") for i in directive.inspected]
    text = f"@{directive.name} {', '.join([*inspected, *directive.names])}".rstrip()
    statement_text = f"statement {directive.statement} ({type(statement.node).__name__}, line {statement.line})"
    return f"{directive.line} {text} → {statement_text}, {directive.position}\n"


def outcome(text: str) -> str:
    source = parse_source(text, "lecture.py")
    try:
        directives = parse_directives(source)
    except LectureError as error:
        return f"{error}\n"
    return "".join(describe(directive, source) for directive in directives)


def directives_of(text: str) -> list[tuple[int, str, int, str]]:
    directives = parse_directives(parse_source(text, "lecture.py"))
    return [(d.line, d.name, d.statement, d.position) for d in directives]


@each(("title", "source", "expected"), cases())
def test_directive_cases(title: str, source: str, expected: str) -> None:
    assert outcome(source) == expected, title


UNUSUAL_SOURCE = "x = f(  # @inspect x\n\t1)\nif x:  # @inspect x\n\ty = '# @hide'  # @inspect y\n"
UNUSUAL_SOURCE_DIRECTIVES = [(1, "inspect", 0, "after"), (3, "inspect", 1, "header"), (4, "inspect", 2, "after")]


@each(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: text.removesuffix("\n"),
        lambda text: text.replace("\nif", "\n\fif"),
        lambda text: text.replace("x = f", "é = 'ÀÉ', f"),
    ],
)
def test_unusual_line_endings_and_encodings(change: Callable[[str], str]) -> None:
    text = change(UNUSUAL_SOURCE)
    ast.parse(text.removeprefix("\ufeff"))  # it must be valid Python
    assert directives_of(text) == UNUSUAL_SOURCE_DIRECTIVES


def test_declared_encoding(tmp_path: Path) -> None:
    path = tmp_path / "lecture.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nx = d['é']  # @inspect d['é'] [µs]\n".encode("latin-1"))
    [directive] = parse_directives(read_source(path))
    assert (directive.inspected[0].source, directive.inspected[0].unit) == ("d['é']", "µs")


def test_expressions_keep_their_text_and_value() -> None:
    text = '\nx = 1  # @inspect f( 1,2 )  d["a"][0]\n'
    [directive] = parse_directives(parse_source(text, "lecture.py"))
    names = {"f": lambda *a: a, "d": {"a": [7]}}
    assert [i.source for i in directive.inspected] == ["f( 1,2 )", 'd["a"][0]']
    for inspected in directive.inspected:
        assert inspected.node.lineno == 2
        compiled = compile(ast.Expression(inspected.node), "lecture.py", "eval")
        assert eval(compiled, names) == eval(inspected.source, names)


@pytest.mark.slow
def test_five_thousand_lines_parse_within_five_seconds() -> None:
    lines = ["if x:  # @inspect x"] + ["    y = f(a, 'b', 3.0)[0] + g.h  # the sum @inspect y"] * 4_999
    source = parse_source("\n".join(lines), "lecture.py")
    start = time.perf_counter()
    assert len(parse_directives(source)) == 5_000
    assert time.perf_counter() - start < 5  # about 0.2 s on an idle machine; never quadratic


def test_unknown_and_misspelt_directives_in_edtrace_lectures() -> None:
    text = "from edtrace import text\n# @todo later\nx = 1  # @author\ny = 2  # @inpsect y\nz = 3  # @inspect z\n"
    borrowed = parse_source(text, "lecture.py")
    errors: list[LectureError] = []
    assert [d.line for d in parse_directives(borrowed)] == [d.line for d in parse_directives(borrowed, errors)] == [5]
    assert [error.line for error in errors] == [4]
    own_errors: list[LectureError] = []
    own_text = text.replace("edtrace", "trace_tools") + "def main(): text(x)\n"
    parse_directives(parse_source(own_text, "lecture.py"), own_errors)
    assert [error.line for error in own_errors] == [3, 4]


def test_at_sign_followed_by_a_space_is_a_comment() -> None:
    for module in ("trace_tools", "edtrace"):
        text = (
            f"from {module} import text\nfor dim in (1, 2):\n    # @ inspect dim\n    x = dim  # @inspect x  # @ hide\n"
        )
        errors: list[LectureError] = []
        assert [d.line for d in parse_directives(parse_source(text, "lecture.py"), errors)] == [4]
        assert errors == []
