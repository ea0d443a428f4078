r"""Convert a lecture to cells of prose and code that do the same when run in order.

    cells_of(parse_source("def main():\n    a()\n\ndef a():\n    x = 1\n", "l.py"))
    # [NotebookCell("# L", prose=True), NotebookCell("## A", prose=True), NotebookCell("x = 1", statements=(3,))]

A call in `main` is replaced by the function's body, at module level. The function and its call are kept if that could
change the meaning: the function is called more than once or with arguments, returns or yields, or has a local name that
is also the module's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement, bare_call, title_of
from trace_tools.source.versions import constant_prose
from trace_tools.source.vocabularies import words_called
from trace_tools.trace.model import MAIN, MODULE, Note
from trace_tools.util import formats

_NAMES = (ast.ClassDef, *FUNCTIONS)
_SCOPES = (*_NAMES, ast.Lambda)
_ONLY_INSIDE = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell; for code, with the numbers of the statements that run in it."""

    text: str
    prose: bool = False
    statements: tuple[int, ...] = ()


def cells_of(source: ParsedSource, main: str = MAIN) -> list[NotebookCell]:
    """Return a lecture as cells."""
    return _Layout(source, main).cells()


class _Layout:
    """Converts one lecture."""

    def __init__(self, source: ParsedSource, main: str) -> None:
        self._source = source
        self._main = main
        self._lines = source.text.split("\n")
        self._words = words_called(source)
        self._numbers = {id(statement.node): statement for statement in source.statements}
        self._module = {name for node in source.tree.body for name in _bound(node)}
        loaded = [node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
        self._used = {name: loaded.count(name) for name in {*loaded}}
        self._verbatim: set[int] = set()  # line numbers after which a line begins inside a string
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and isinstance(getattr(node, "value", ""), (str, bytes)):
                self._verbatim |= {*range(node.lineno, node.end_lineno or node.lineno)}

    def cells(self) -> list[NotebookCell]:
        source = self._source
        title = NotebookCell(f"# {title_of(source, source.path)}", prose=True)
        prose = (ast.get_docstring(source.tree) or "").strip().partition("\n\n")[2]
        drafts = [title, *([NotebookCell(prose, prose=True)] if prose else [])]
        main = source.function(self._main)
        laid_out = {self._main} if main is not None and self._can_be_laid_out(main, calls=0) else set()
        if laid_out and main is not None:
            for node in _body(main.node):
                if (name := self._section(node)) is not None:
                    laid_out.add(name)
        kept = [
            node
            for node in _body(source.tree)
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'")
            and getattr(node, "name", None) not in laid_out
        ]
        drafts += self._of(kept)
        if main is not None and not laid_out:
            ran = tuple(s.number for s in source.statements if s.function == self._main)
            drafts.append(NotebookCell(f"{self._main}()", statements=ran))
        for node in _body(main.node) if main is not None and laid_out else ():
            name = self._section(node)
            if name is None:
                drafts += self._of([node])
                continue
            section = source.functions[name].node
            doc = ast.get_docstring(section) if isinstance(section, FUNCTIONS) else None
            heading, _, more = (doc or formats.readable(name)).strip().partition("\n")
            drafts.append(NotebookCell(f"## {heading}", prose=True))
            drafts += [NotebookCell(more.strip(), prose=True)] if more.strip() else []
            drafts += self._of(_body(section))
        return list(_joined(drafts))

    def _section(self, node: ast.stmt) -> str | None:
        """Return the name of the function that a statement of `main` calls, if its body can replace the call."""
        name = bare_call(node)
        definition = self._source.function(name) if name is not None else None
        if name is None or definition is None or ast.unparse(node) != f"{name}()":
            return None
        return name if self._can_be_laid_out(definition, calls=1) else None

    def _can_be_laid_out(self, definition: Statement, calls: int) -> bool:
        node = definition.node
        plain = isinstance(node, ast.FunctionDef) and not node.decorator_list and not ast.unparse(node.args)
        if not plain or definition.function != MODULE or (calls and self._used.get(getattr(node, "name", "")) != calls):
            return False
        inner = list(_inside(node))
        own = {name for part in inner for name in _bound(part)}
        return not any(isinstance(part, _ONLY_INSIDE) for part in inner) and not own & self._module

    def _of(self, nodes: Sequence[ast.stmt]) -> Iterator[NotebookCell]:
        """Yield the cells of consecutive statements, with the comments between them."""
        end = None
        for node in nodes:
            statement = self._numbers[id(node)]
            word = self._words.get(statement.number)
            narrative = constant_prose(node, *word) if word is not None else None
            first = statement.first_line if end is None else min(end + 1, statement.first_line)
            first = max(first, statement.first_line - self._comments_above(statement.first_line))
            if narrative is not None:
                about = "*Note for the presenter:* " if isinstance(narrative, Note) else ""
                yield NotebookCell(about + narrative.text, prose=True)
            elif end is None or statement.first_line > end:  # else it shares a line with the previous one
                text = self._text(first, statement.end_line, statement.node.col_offset)
                lines = (s for s in self._source.statements if first <= s.line <= statement.end_line)
                ran = (s for s in lines if s.function == statement.function)  # a function's body runs in its calls
                yield NotebookCell(text, statements=tuple(s.number for s in ran))
            end = statement.end_line

    def _comments_above(self, line: int) -> int:
        above = 0
        while line - above > 1 and self._lines[line - above - 2].strip().startswith("#"):
            above += 1
        return above

    def _text(self, first: int, last: int, indent: int) -> str:
        blank = " " * indent
        lines = [
            line if number - 1 in self._verbatim else line.removeprefix(blank)
            for number, line in enumerate(self._lines[first - 1 : last], first)
        ]
        return "\n".join(lines).strip("\n")


def _body(node: ast.AST) -> list[ast.stmt]:
    """Return the statements of a module or a function without its docstring."""
    body: list[ast.stmt] = list(getattr(node, "body", []))
    return body[1:] if isinstance(node, (ast.Module, *FUNCTIONS)) and ast.get_docstring(node) is not None else body


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that a function's own frame executes: definitions, but not their bodies."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _inside(child)


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node, or a statement of the module, binds."""
    if isinstance(node, _NAMES):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    else:
        stored = (part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        yield from (part.id for part in stored)


def _joined(cells: Sequence[NotebookCell]) -> Iterator[NotebookCell]:
    """Merge consecutive cells of prose under one heading, and consecutive cells of code."""
    waiting: NotebookCell | None = None
    for cell in cells:
        if waiting is None:
            waiting = cell
        elif waiting.prose != cell.prose or (cell.prose and cell.text.startswith("## ")):
            yield waiting
            waiting = cell
        else:
            between = "\n\n" if cell.prose or cell.text.startswith(("def ", "class ", "@")) else "\n"
            text, numbers = f"{waiting.text}{between}{cell.text}", (*waiting.statements, *cell.statements)
            waiting = replace(waiting, text=text, statements=numbers)
    if waiting is not None:
        yield waiting
