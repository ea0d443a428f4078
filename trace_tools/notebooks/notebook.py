r"""Export a trace's lecture as a Jupyter notebook with observations as outputs, or as a script in percent cells.

    notebook(trace)      the text of an .ipynb file
    percent(trace)       "# %% [markdown]\n# # A lecture\n\n# %%\nimport torch\n…", in jupytext's format

The outputs of a cell are the output and narrative of its statements and of the calls in them, then the last inspected
values, and the claims.

    cells_of(parse_source("def main():\n    a()\n\ndef a():\n    x = 1\n", "l.py"))
    # [NotebookCell("# L", prose=True), NotebookCell("## A", prose=True), NotebookCell("x = 1", statements=(3,))]

The cells do what the lecture does. A call in `main` is replaced by the function's body, at module level, unless that
could change the meaning. It could if the function is called more than once or with arguments, returns or yields, or has
a local name that is also the module's.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from trace_tools.analysis.summaries import summary
from trace_tools.errors import UsageError, not_installed
from trace_tools.pages.content.passages import flowing
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_markdown
from trace_tools.presentation.charts.plot import figure
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement, bare_call, parse_source, title_of
from trace_tools.source.versions import constant_prose
from trace_tools.source.vocabularies import words_called
from trace_tools.trace.model import MAIN, MODULE, Note, Plot, Step, Text, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats


def needed(module: str) -> Any:
    """Import a package for notebooks. Raises UsageError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(not_installed(module, "export", "reading or writing notebooks")) from None


def notebook(trace: Trace) -> str:
    """Return the lecture as a notebook. Raises UsageError without nbformat, LectureError for invalid Python."""
    nbformat = needed("nbformat")
    text: str = nbformat.writes(_made(nbformat, trace))
    return text + "\n"


def percent(trace: Trace) -> str:
    """Return the lecture as a script in percent cells. Raises like `notebook`."""
    nbformat, jupytext = needed("nbformat"), needed("jupytext")
    made = _made(nbformat, trace)
    made.metadata = {"jupytext": {"notebook_metadata_filter": "-all", "cell_metadata_filter": "-all"}}
    text: str = jupytext.writes(made, fmt="py:percent")
    return text


def _made(nbformat: Any, trace: Trace) -> Any:
    """Return the notebook of a trace as nbformat's object."""
    if not trace.sources:
        raise UsageError("the trace contains no source because the lecture never started")
    source = parse_source(trace.sources[0].text, trace.sources[0].path)
    new, tree = nbformat.v4, Tree(trace)
    cells, ran = [], 0
    for number, cell in enumerate(cells_of(source, tree.main_name)):
        if cell.prose:
            made = new.new_markdown_cell(cell.text)
        else:
            in_lecture = (step for step in tree.by_id.values() if tree.frames[step.frame].source == 0)
            steps = [step for step in in_lecture if step.statement in cell.statements]
            ran += bool(steps)
            outputs = list(_outputs(new, tree, steps))
            made = new.new_code_cell(cell.text, outputs=outputs, execution_count=ran if steps else None)
        made["id"] = f"cell-{number}"
        cells.append(made)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "title": trace.title,
        "traced": {"machine": trace.machine.name, "started": trace.run.started},
    }
    return new.new_notebook(cells=cells, metadata=metadata)


def _outputs(new: Any, tree: Tree, steps: list[Step]) -> Iterator[Any]:
    """Yield the outputs of steps and of the calls that they made."""
    emitted: set[int] = set()
    last: dict[str, str] = {}
    for step in steps:
        for one in tree.with_calls(step):  # its own narrative follows that of its calls
            if one.id in emitted:
                continue
            emitted.add(one.id)
            if one.stdout:
                yield new.new_output("stream", name="stdout", text=one.stdout)
            for warning in one.warnings or []:
                yield new.new_output("stream", name="stderr", text=warning + "\n")
            for narration in flowing([Narration(part, n, one.id) for n, part in enumerate(one.narrative or [])]):
                if not isinstance(narration, Narration):
                    continue
                narrative = narration.narrative
                drawn = figure(narrative, f"fig{one.id}") if isinstance(narrative, Plot) else None
                if isinstance(narrative, Plot) and drawn is not None:
                    data = {"image/svg+xml": drawn, "text/plain": narrative.title or "a figure"}
                elif isinstance(narrative, Text):
                    data = {"text/markdown": narrative.text}
                else:
                    quoted = partial(quote, safe=":/;,+=%")
                    data = {"text/markdown": as_markdown(Narration(narrative, 0), quoted, lambda name, svg: "")}
                yield new.new_output("display_data", data=data)
        last |= {name: f"{name} = {summary(value)}" for name, value in step.values or []}
        if step.claim is not None:
            last[f"assert {step.claim.source}"] = f"{'✓' if step.claim.held else '✗'} {step.claim.source}"
    if last:
        yield new.new_output("display_data", data={"text/plain": "\n".join(last.values())})


# --- a lecture as cells ---------------------------------------------------------------------------

_NAMES = (ast.ClassDef, *FUNCTIONS)
_SCOPES = (*_NAMES, ast.Lambda)
_ONLY_INSIDE = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell; for code, with the numbers of the statements that run in it."""

    text: str
    prose: bool = False
    statements: tuple[int, ...] = ()


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
        drafts += self._cells_of(kept)
        if main is not None and not laid_out:
            ran = tuple(s.number for s in source.statements if s.function == self._main)
            drafts.append(NotebookCell(f"{self._main}()", statements=ran))
        for node in _body(main.node) if main is not None and laid_out else ():
            name = self._section(node)
            if name is None:
                drafts += self._cells_of([node])
                continue
            section = source.functions[name].node
            doc = ast.get_docstring(section) if isinstance(section, FUNCTIONS) else None
            heading, _, more = (doc or formats.readable(name)).strip().partition("\n")
            drafts.append(NotebookCell(f"## {heading}", prose=True))
            drafts += [NotebookCell(more.strip(), prose=True)] if more.strip() else []
            drafts += self._cells_of(_body(section))

        # Merge consecutive cells of prose under one heading, and consecutive cells of code.
        merged: list[NotebookCell] = []
        for cell in drafts:
            before = merged[-1] if merged else None
            if before is None or before.prose != cell.prose or (cell.prose and cell.text.startswith("## ")):
                merged.append(cell)
                continue
            between = "\n\n" if cell.prose or cell.text.startswith(("def ", "class ", "@")) else "\n"
            text, numbers = f"{before.text}{between}{cell.text}", (*before.statements, *cell.statements)
            merged[-1] = replace(before, text=text, statements=numbers)
        return merged

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

    def _cells_of(self, nodes: Sequence[ast.stmt]) -> Iterator[NotebookCell]:
        """Yield the cells of consecutive statements, with the comments between them."""
        end = None
        for node in nodes:
            statement = self._numbers[id(node)]
            word = self._words.get(statement.number)
            narrative = constant_prose(node, *word) if word is not None else None
            first = statement.first_line if end is None else min(end + 1, statement.first_line)
            above = statement.first_line  # the first of the comments above it
            while above > 1 and self._lines[above - 2].strip().startswith("#"):
                above -= 1
            first = max(first, above)
            if narrative is not None:
                about = "*Note for the presenter:* " if isinstance(narrative, Note) else ""
                yield NotebookCell(about + narrative.text, prose=True)
            elif end is None or statement.first_line > end:  # else it shares a line with the previous one
                blank = " " * statement.node.col_offset
                text = "\n".join(
                    line if number - 1 in self._verbatim else line.removeprefix(blank)
                    for number, line in enumerate(self._lines[first - 1 : statement.end_line], first)
                ).strip("\n")
                lines = (s for s in self._source.statements if first <= s.line <= statement.end_line)
                ran = (s for s in lines if s.function == statement.function)  # a function's body runs in its calls
                yield NotebookCell(text, statements=tuple(s.number for s in ran))
            end = statement.end_line


def cells_of(source: ParsedSource, main: str = MAIN) -> list[NotebookCell]:
    """Return a lecture as cells."""
    return _Layout(source, main).cells()


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
