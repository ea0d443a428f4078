"""A trace → its lecture as a Jupyter notebook, with what was observed beside each cell; or as percent cells.

    notebook(trace)      the text of an .ipynb file
    percent(trace)       "# %% [markdown]\\n# # A lecture\\n\\n# %%\\nimport torch\\n…", as jupytext has it

A cell's outputs are what its statements, and all that they called, printed and told, then the values that were
inspected, as they were last, and the claims.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from trace_tools.call_tree import Tree
from trace_tools.errors import UsageError
from trace_tools.exchange.cells import NotebookCell, cells_of
from trace_tools.rendering.charts.plot import figure
from trace_tools.rendering.document import Narration
from trace_tools.rendering.narration import as_markdown
from trace_tools.rendering.passages import flowing
from trace_tools.schema import Narrative, Step, Trace
from trace_tools.statements import parse_source
from trace_tools.summaries import summary


def needed(module: str) -> Any:
    """Import what reads and writes notebooks. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"{module} is not installed; pip install 'trace-tools[export]' brings it") from None


def notebook(trace: Trace) -> str:
    """Return the lecture as a notebook. Raises UsageError without nbformat, LectureError for what is no Python."""
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
    if not trace.sources:
        raise UsageError("the trace holds no source: nothing ran")
    source = parse_source(trace.sources[0].text, trace.sources[0].path)
    new, tree = nbformat.v4, Tree(trace)
    cells, ran = [], 0
    for number, cell in enumerate(cells_of(source)):
        if cell.prose:
            made = new.new_markdown_cell(cell.text)
        else:
            steps = [step for step in tree.by_id.values() if _is_in(step, cell, tree)]
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


def _is_in(step: Step, cell: NotebookCell, tree: Tree) -> bool:
    return step.statement in cell.statements and tree.frames[step.frame].source == 0


def _outputs(new: Any, tree: Tree, steps: list[Step]) -> Iterator[Any]:
    """Yield what steps, and the calls that they made, came to."""
    told: set[int] = set()
    last: dict[str, str] = {}
    for step in steps:
        for one in _with_calls(tree, step):
            if one.id not in told:
                told.add(one.id)
                yield from _said(new, one)
        last |= {name: f"{name} = {summary(value)}" for name, value in step.values or []}
        if step.claim is not None:
            last[f"assert {step.claim.source}"] = f"{'✓' if step.claim.held else '✗'} {step.claim.source}"
    if last:
        yield new.new_output("display_data", data={"text/plain": "\n".join(last.values())})


def _with_calls(tree: Tree, step: Step) -> Iterator[Step]:
    """Yield the steps of a step's calls, and itself: what it told comes after what these did."""
    for frame in tree.calls(step.id):
        for inner in tree.steps_of(frame.frame):
            yield from _with_calls(tree, inner)
    yield step


def _said(new: Any, step: Step) -> Iterator[Any]:
    if step.stdout:
        yield new.new_output("stream", name="stdout", text=step.stdout)
    for warning in step.warnings or []:
        yield new.new_output("stream", name="stderr", text=warning + "\n")
    for told in flowing([Narration(one, n, step.id) for n, one in enumerate(step.narrative or [])]):
        if isinstance(told, Narration):
            yield new.new_output("display_data", data=_shown(told.narrative, step.id))


def _shown(told: Narrative, number: int) -> dict[str, str]:
    drawn = figure(told, f"fig{number}") if told.kind == "plot" else None
    if drawn is not None:
        return {"image/svg+xml": drawn, "text/plain": told.title or "a figure"}
    if told.kind == "text":
        return {"text/markdown": told.text or ""}
    said = as_markdown(Narration(told, 0), lambda path: quote(path, safe=":/;,+=%"), lambda name, svg: "")
    return {"text/markdown": said}
