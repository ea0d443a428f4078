"""A source does the same with probes as without; the run without probes is the oracle.

The following may differ:

- A frame's `f_locals` also has names that begin with "_@". The module's `globals()` have such names until it has run.
- The values that an `assert` compares live until the statement ends, not only until they are compared.
- A code object has other names, constants and size (`co_*`), but the same name, lines, flags and signature.
- A RecursionError is raised a few calls earlier, and the last entry of its traceback may be in a probe.
- Python raises "too many statically nested blocks" at a few levels less.
- A function that is made from another function's code needs that function's globals.
- `f_lineno` of a frame that has ended is the line of its last probe. `tb_lineno` of a traceback entry is correct.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.tracing.probed import Outcome, Probed, new_module, plain, probed
from trace_tools.source.directives import Directive, DirectiveName, Inspected, Position, parse_directives
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement, parse_source
from trace_tools.tracing.instrument import instrument

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))
EXPRESSIONS = ("__name__", "undefined.attribute", "len(__name__)")


def everywhere(name: DirectiveName) -> Callable[[ParsedSource], list[Directive]]:
    """Return a function that makes a directive for each statement and position that may have one."""

    def directives(source: ParsedSource) -> list[Directive]:
        inspected = tuple(Inspected(text, ast.parse(text, mode="eval").body) for text in EXPRESSIONS)
        inspected = inspected if name == "inspect" else ()
        positions = ((s, position) for s in source.statements for position in _positions(source, s))
        return [Directive(name, s.number, position, s.line, inspected) for s, position in positions]

    return directives


def _positions(source: ParsedSource, statement: Statement) -> Iterator[Position]:
    node = statement.node
    is_compound = hasattr(node, "body") or hasattr(node, "cases")
    if isinstance(node, FUNCTIONS):
        yield "header"
    elif not _in_class_body(source, statement):
        if is_compound and not isinstance(node, (ast.ClassDef, ast.Try, ast.TryStar)):
            yield "header"
        yield "after"
        if statement.parent is not None and not is_compound:
            yield "before"


def _in_class_body(source: ParsedSource, statement: Statement) -> bool:
    while statement.parent is not None:
        statement = source.statements[statement.parent]
        if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)):
            return isinstance(statement.node, ast.ClassDef)
    return False


VARIANTS: dict[str, Callable[[ParsedSource], Sequence[Directive]]] = {
    "as written": parse_directives,
    "bare": lambda source: (),
    "all inspected": everywhere("inspect"),
    "all stepped over": everywhere("stepover"),
    "both": lambda source: [*everywhere("inspect")(source), *everywhere("stepover")(source)],
}


@functools.cache
def plain_outcome(path: Path) -> Outcome:
    return plain(path.read_text(encoding="utf-8"), path)


@pytest.mark.parametrize(
    "variant", [pytest.param(v, marks=pytest.mark.slow) if v == "all inspected" else v for v in VARIANTS]
)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_source_runs_the_same_with_probes(path: Path, variant: str, tmp_path: Path) -> None:
    source = parse_source(path.read_text(encoding="utf-8"), str(path))
    outcome = probed(source.text, path, tmp_path / "x.journal", VARIANTS[variant](source))
    assert outcome == plain_outcome(path)


@each("path", CASES)
def test_cases_run_to_their_end(path: Path) -> None:
    outcome = plain_outcome(path)
    assert outcome.error is None or outcome.error[1] == "code 99"


# ------------------------------------------------------------------------------ the differences


def run_both(text: str, tmp_path: Path) -> tuple[Any, Any]:
    """Return the results of `main` without and with probes."""
    module = new_module(text, "both.py")
    exec(compile(text, "both.py", "exec", dont_inherit=True), vars(module))
    expected = module.main()
    with Probed(text, "both.py", tmp_path / "x.journal") as lecture:
        return expected, lecture.module.main()


def test_blocks_nest_fifteen_deep(tmp_path: Path) -> None:
    lines = ["    " * n + f"for x{n} in range(1):" for n in range(1, 16)]
    text = "\n".join(["def main():", *lines, "    " * 16 + "return x1", ""])
    assert run_both(text, tmp_path) == (0, 0)


# ------------------------------------------------------------------------------ the syntax tree


@each("path", CASES)
def test_probes_are_on_lines_of_the_source(path: Path) -> None:
    source = parse_source(path.read_text(encoding="utf-8"), str(path))
    written = {node.lineno for node in ast.walk(source.tree) if hasattr(node, "lineno")}
    assert {node.lineno for node in ast.walk(instrument(source).tree) if hasattr(node, "lineno")} == written


def test_only_bare_calls_in_main_are_skipped(tmp_path: Path) -> None:
    text = """
done = []
def first(): done.append("first")
def second(): done.append("second"); first()
def main():
    first()
    second()
    done.append(first() or "not bare")
    for section in (first, second):
        section()
"""
    source = parse_source(text, "x.py")
    module = new_module(text, "x.py")
    lecture = Probed(text, "x.py", tmp_path / "x.journal")
    vars(module).update(lecture.hooks)
    tree = instrument(source, skipped=frozenset({"first"})).tree
    exec(compile(tree, "x.py", "exec"), vars(module))
    module.main()
    assert module.done == ["second", "first", "not bare", "second", "first"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in Python 3.12")
def test_type_parameters(tmp_path: Path) -> None:
    text = """
type Pair[T] = tuple[T, T]
class Box[T]:
    def get[S: int = int](self, x: S) -> T: return x  # @inspect x
def first[T](x: Pair[T]) -> T:
    type Local = T
    return x[0], Local.__name__
def main():
    return first((1, 2)), Box[int]().get(3), first.__type_params__[0].__name__, Pair.__value__
"""
    if sys.version_info < (3, 13):
        text = text.replace(" = int](self", "](self")
    expected, actual = run_both(text, tmp_path)
    assert repr(actual) == repr(expected)
