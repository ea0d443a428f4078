r"""Export a trace's lecture as a Jupyter notebook with observations as outputs, or as a script in percent cells.

    notebook(trace)      the text of an .ipynb file
    percent(trace)       "# %% [markdown]\n# # A lecture\n\n# %%\nimport torch\n…", in jupytext's format

The outputs of a cell are the output and narrative of its statements and of the calls in them, then the last inspected
values, and the claims.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from trace_tools.analysis.summaries import summary
from trace_tools.errors import UsageError, not_installed
from trace_tools.notebooks.cells import cells_of
from trace_tools.pages.content.passages import flowing
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_markdown
from trace_tools.presentation.charts.plot import figure
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Plot, Step, Text, Trace
from trace_tools.trace.tree import Tree


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
            if one.id not in emitted:
                emitted.add(one.id)
                yield from _printed(new, one)
        last |= {name: f"{name} = {summary(value)}" for name, value in step.values or []}
        if step.claim is not None:
            last[f"assert {step.claim.source}"] = f"{'✓' if step.claim.held else '✗'} {step.claim.source}"
    if last:
        yield new.new_output("display_data", data={"text/plain": "\n".join(last.values())})


def _printed(new: Any, step: Step) -> Iterator[Any]:
    """Yield the outputs of one step: printed text, warnings and narrative."""
    if step.stdout:
        yield new.new_output("stream", name="stdout", text=step.stdout)
    for warning in step.warnings or []:
        yield new.new_output("stream", name="stderr", text=warning + "\n")
    for narration in flowing([Narration(one, n, step.id) for n, one in enumerate(step.narrative or [])]):
        if isinstance(narration, Narration):
            narrative = narration.narrative
            drawn = figure(narrative, f"fig{step.id}") if isinstance(narrative, Plot) else None
            if isinstance(narrative, Plot) and drawn is not None:
                data = {"image/svg+xml": drawn, "text/plain": narrative.title or "a figure"}
            elif isinstance(narrative, Text):
                data = {"text/markdown": narrative.text}
            else:
                quoted = partial(quote, safe=":/;,+=%")
                data = {"text/markdown": as_markdown(Narration(narrative, 0), quoted, lambda name, svg: "")}
            yield new.new_output("display_data", data=data)
