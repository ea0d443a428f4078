"""Export a trace as the JSON that edtrace writes and its viewer opens.

    exported(trace).content      {"files": {"lecture.py": …}, "hidden_line_numbers": …, "steps": [{"stack": …}]}

As in edtrace, a step is listed before its line runs and, if the line made a call, once more after it; calls begin at
their `def`. Code that runs before `main` is not in its traces. The format has no times, meters, claims and strides.
Drawn figures become images, others Vega-Lite. The format repeats the whole stack at each step, so a deep recursion
would take space quadratic in its depth: of a deep stack only the outermost calls and the innermost are kept.
"""

from __future__ import annotations

import ast
import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_tools.analysis.summaries import summary
from trace_tools.edtrace.import_json import VERBATIM, inside
from trace_tools.lecture.citations import Reference
from trace_tools.pages.document import Narration
from trace_tools.pages.narration import as_markdown
from trace_tools.source.directives import Directive, parse_directives
from trace_tools.source.statements import ParsedSource, parse_source
from trace_tools.trace.model import (
    MODULE,
    Frame,
    Image,
    Link,
    Narrative,
    Note,
    Plot,
    SourceFile,
    Step,
    Text,
    Trace,
    Value,
)
from trace_tools.trace.tree import Tree

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v5.json"
_ARRAYS = {"tensor": "torch.Tensor", "parameter": "torch.nn.parameter.Parameter", "ndarray": "numpy.ndarray"}
_MARKS = {"line": "line", "points": "point", "bars": "bar", "stacked": "bar", "steps": "line"}

DEEPEST = 20  # outer calls in the stack of a step
MOST_ELEMENTS = 200_000  # most elements of all stacks together, about 150 bytes each

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """A trace in edtrace's format, and a sentence about calls that were left out, or None."""

    content: Json
    left_out: str | None


def exported(trace: Trace) -> Exported:
    """Return a trace in edtrace's format. Raises LectureError if a stored source is not valid Python."""
    sources = [_ShownFile(source) for source in trace.sources]
    steps = _Steps(Tree(trace), sources)
    content = {
        "files": {source.path: source.text for source in trace.sources},
        "hidden_line_numbers": {source.path: file.hidden for source, file in zip(trace.sources, sources, strict=True)},
        "steps": list(steps.written()),
    }
    return Exported(content, steps.left_out)


def _rendering(kind: str, content: Any, style: Json | None, *, animated: bool = False) -> Json:
    links = {"external_link": None, "internal_link": None}
    return {"type": kind, "data": content, "style": style, **links, "animate": animated}


class _ShownFile:
    """The parts of a source that edtrace needs."""

    def __init__(self, source: SourceFile) -> None:
        self.path = source.path
        self.lines = source.text.split("\n")
        self.parsed: ParsedSource = parse_source(source.text, source.path)
        self.directives: dict[int, list[Directive]] = {}
        for directive in parse_directives(self.parsed):
            self.directives.setdefault(directive.statement, []).append(directive)
        hidden = [self.parsed.statements[n] for n, directives in self.directives.items() if _has(directives, "hide")]
        self.hidden = sorted({line for s in hidden for line in range(s.first_line, s.end_line + 1)})

    def code(self, line: int) -> str:
        return self.lines[line - 1].strip() if line <= len(self.lines) else ""


def _has(directives: Sequence[Directive], name: str) -> bool:
    return any(directive.name == name for directive in directives)


class _Steps:
    """Writes the steps of one trace in edtrace's order."""

    def __init__(self, tree: Tree, sources: Sequence[_ShownFile]) -> None:
        self._tree, self._sources = tree, sources
        self._outer = DEEPEST
        self.left_out: str | None = None

    def written(self) -> Iterator[Json]:
        waiting: list[Step] = []  # steps whose calls are not finished
        events = list(self._with_callers())
        # Choose how many outer calls the stacks keep.
        depths = [len(callers) for _, callers in events]
        while self._outer > 1 and 2 * sum(min(depth, self._outer) + 1 for depth in depths) > MOST_ELEMENTS:
            self._outer -= 1  # a step with calls is listed before and after them
        if cut := sum(depth > self._outer for depth in depths):
            self.left_out = (
                f"{cut:,} steps are in more than {self._outer} calls: "
                f"their stacks show the {self._outer} outermost calls and their own line"
            )
        reported = self.left_out is None
        inner = {callers[-1].id for _, callers in events if callers}
        for event, callers in events:
            if not reported and len(callers) > self._outer:
                reported = True
                note = _rendering("markdown", f"{self.left_out}.", {})
                yield self._step(self._stack(callers[-1], callers[:-1]), renderings=[note])
            ids = {step.id for step in callers}
            while waiting and waiting[-1].id not in ids:
                yield self._done(waiting.pop(), [*waiting])
            if isinstance(event, Frame):
                definition = self._sources[event.source].parsed.function(event.function)
                if definition is not None:
                    above = [self._element(self._tree.frames[one.frame], one.line) for one in callers[: self._outer]]
                    stack = [*above, self._element(event, definition.first_line)]
                    yield self._step(stack, {name: value_of(value) for name, value in event.arguments or []})
            elif event.id in inner:
                yield self._step(self._stack(event, callers))
                waiting.append(event)
            else:
                yield self._done(event, callers)
        while waiting:
            yield self._done(waiting.pop(), [*waiting])

    def _with_callers(self) -> Iterator[tuple[Frame | Step, list[Step]]]:
        """Yield the events of `main` and its calls, each with the steps that led to it, outermost first.

        A generator is resumed by the current call of its first caller.
        """
        latest: dict[int, Step] = {}  # by frame
        for event in self._tree.trace.steps:
            if not isinstance(event, (Frame, Step)):
                continue
            frame = event if isinstance(event, Frame) else self._tree.frames[event.frame]
            if isinstance(event, Step):
                latest[event.frame] = event
            callers: list[Step] = []
            while frame.of is not None:
                callers.append(latest[self._tree.by_id[frame.of].frame])
                frame = self._tree.frames[callers[-1].frame]
            if frame.function != MODULE:
                yield event, callers[::-1]

    def _done(self, step: Step, callers: Sequence[Step]) -> Json:
        source = self._sources[self._tree.frames[step.frame].source]
        directives = source.directives.get(step.statement, [])
        env: Json = {name: value_of(value) for name, value in step.values or []}
        env |= {name: None for directive in directives if directive.name == "clear" for name in directive.names}
        animated = _has(directives, "animate")
        renderings = [one for part in step.narrative or [] for one in self._renderings(part, animated=animated)]
        return self._step(self._stack(step, callers), env, renderings)

    def _step(
        self, stack: list[Json], env: Mapping[str, Any] | None = None, renderings: list[Json] | None = None
    ) -> Json:
        return {"stack": stack, "env": dict(env or {}), "renderings": renderings or []}

    def _stack(self, step: Step, callers: Sequence[Step]) -> list[Json]:
        shown = (*callers[: self._outer], step)
        return [self._element(self._tree.frames[one.frame], one.line) for one in shown]

    def _element(self, frame: Frame, line: int) -> Json:
        source = self._sources[frame.source]
        name = frame.function.rpartition(".")[2]
        return {"path": source.path, "line_number": line, "function_name": name, "code": source.code(line)}

    def _renderings(self, narrative: Narrative, *, animated: bool) -> Iterator[Json]:
        # in edtrace's form
        style: Json | None = dict(narrative.style or []) if not isinstance(narrative, Note | Plot) else None
        if isinstance(narrative, Image) and narrative.width is not None and style is not None:
            style["width"] = narrative.width
        kind, data, links = self._shown(narrative)
        lines = inside(data) if kind == "markdown" and not narrative.flows and isinstance(data, str) else None
        for line in [data] if lines is None else lines.split("\n"):
            look = style if lines is None else {**VERBATIM, **(style or {})}
            yield _rendering(kind, line, look, animated=animated) | links

    def _shown(self, narrative: Narrative) -> tuple[str, Any, Json]:
        """Return the rendering of a narrative: its type, its data, and its link."""
        if isinstance(narrative, Text):
            return "markdown", narrative.text, {}
        if isinstance(narrative, Link) and narrative.target is not None:
            for source in self._sources:
                classes = (s for s in source.parsed.statements if isinstance(s.node, ast.ClassDef))
                outer = {s.node.name: s for s in classes if s.function == MODULE}  # type: ignore[attr-defined]
                if definition := source.parsed.function(narrative.target) or outer.get(narrative.target):
                    where = {"path": source.path, "line_number": definition.first_line}
                    return "link", narrative.label, {"internal_link": where}
            return "markdown", narrative.label or narrative.target, {}
        if isinstance(narrative, Link):
            label = narrative.label or narrative.title or narrative.url or "?"
            # people and their organization, as `citations.people` writes them
            groups = re.fullmatch(r"(.*) \((.*)\)", narrative.authors or "", re.DOTALL)
            people, organization = groups.groups() if groups is not None else (narrative.authors, None)
            reference = Reference(
                narrative.title,
                people.split(", ") if people else None,
                organization,
                narrative.date,
                narrative.url,
                narrative.text,
                narrative.notes,
            )
            cited = {name: getattr(reference, name) for name in Reference.__dataclass_fields__}
            return "link", f"[{label}]", {"external_link": cited}
        if isinstance(narrative, Image | Note):
            return narrative.kind, narrative.text if isinstance(narrative, Note) else narrative.url, {}
        if isinstance(narrative, Plot) and narrative.svg is not None:
            drawn = base64.b64encode(narrative.svg.encode("utf-8")).decode("ascii")
            return "image", f"data:image/svg+xml;base64,{drawn}", {}
        if isinstance(narrative, Plot) and narrative.series:
            return "plot", _specification(narrative), {}
        return "markdown", as_markdown(Narration(narrative, 0), lambda address: address, lambda name, svg: ""), {}


def _specification(narrative: Plot) -> Json:
    """Return a figure's numbers as a Vega-Lite specification."""
    rows = [
        {"series": one.name, "x": _finite(x), "y": _finite(y)}
        for one in narrative.series
        for x, y in zip(one.x, one.y, strict=True)
    ]
    numbers = all(isinstance(row["x"], (int, float)) for row in rows)
    kinds = [_MARKS[one.style] for one in narrative.series]
    encoding: Json = {
        "x": {"field": "x", "type": "quantitative" if numbers else "nominal", "title": narrative.x_label},
        "y": {"field": "y", "type": "quantitative", "title": narrative.y_label},
        "color": {"field": "series", "type": "nominal", "title": None},
    }
    for axis, scale in (("x", narrative.x_scale), ("y", narrative.y_scale)):
        if scale == "log":
            encoding[axis]["scale"] = {"type": "log"}
    drawn: Json = {"$schema": VEGA_LITE, "data": {"values": rows}, "mark": kinds[0], "encoding": encoding}
    return drawn | ({"title": narrative.title} if narrative.title else {})


def _finite(number: Any) -> Any:
    return None if isinstance(number, float) and not math.isfinite(number) else number


# --- values ---------------------------------------------------------------------------------------


def value_of(value: Value) -> Json:
    """Return a value in edtrace's format: its type and contents, and for arrays the dtype and shape."""
    if value.tensor is not None:
        kind = _ARRAYS.get(value.type, value.type)
        dtype = value.tensor.dtype if kind == "numpy.ndarray" else f"torch.{value.tensor.dtype}"
        if value.tensor.elements is not None:
            contents = _nested(iter(value.tensor.elements), value.tensor.shape)
        elif value.tensor.corner is not None and value.tensor.corner_shape is not None:
            contents = _nested(iter(value.tensor.corner), value.tensor.corner_shape)
        else:
            contents = [] if value.tensor.shape else None
        return _typed(kind, contents, dtype, list(value.tensor.shape))
    if value.type == "none":
        return _typed("NoneType", "None")
    if isinstance(value.value, float) and not math.isfinite(value.value):
        return _typed(value.type, str(value.value))
    if value.value is not None:
        scalar = value.type in ("bool", "int", "float", "str")
        return _typed(value.type if scalar else f"numpy.{value.type}", value.value)
    if value.items is not None:
        return _typed(value.type, [value_of(item) for item in value.items])
    if value.entries is not None:
        keys = (str(k.value) if k.value is not None else k.text or summary(k) for k, _ in value.entries)
        return _typed(value.type, {key: value_of(one) for key, (_, one) in zip(keys, value.entries, strict=True)})
    if value.type == "Size" and value.text is not None:
        sizes = [int(size) for size in value.text[12:-2].split(",") if size.strip().isdigit()]
        return _typed("torch.Size", [_typed("int", size) for size in sizes])
    return _typed(value.type, value.text if value.text is not None else summary(value))


def _typed(kind: str, contents: Any, dtype: str | None = None, shape: list[int] | None = None) -> Json:
    return {"type": kind, "contents": contents, "dtype": dtype, "shape": shape}


def _nested(elements: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        element = next(elements)
        if isinstance(element, list):  # a complex number
            return str(complex(*element))
        return str(element) if isinstance(element, float) and not math.isfinite(element) else element
    return [_nested(elements, shape[1:]) for _ in range(shape[0])]
