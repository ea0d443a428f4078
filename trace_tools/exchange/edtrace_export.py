"""A trace → the JSON that edtrace writes and its viewer opens.

    json.dumps(exported(trace))      '{"files": {"lecture.py": …}, "hidden_line_numbers": …, "steps": [{"stack": …}]}'

edtrace shows a step when its line is about to run and, if a call was made in it, once more when it has run; calls begin
at their `def`. So it is here. What the module does before `main` is not in its traces, and what its format has no place
for (times, meters, claims, strides) is left out. Figures that are drawn are images, all others Vega-Lite.
"""

from __future__ import annotations

import ast
import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_tools.call_tree import Tree
from trace_tools.citations import Reference
from trace_tools.directives import Directive, parse_directives
from trace_tools.exchange.edtrace_import import VERBATIM, inside
from trace_tools.rendering.document import Narration
from trace_tools.rendering.narration import as_markdown
from trace_tools.schema import Frame, Narrative, SourceFile, Step, Tensor, Trace, Value
from trace_tools.statements import MODULE, ParsedSource, parse_source
from trace_tools.summaries import summary

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v5.json"
_ARRAYS = {"tensor": "torch.Tensor", "parameter": "torch.nn.parameter.Parameter", "ndarray": "numpy.ndarray"}
_MARKS = {"line": "line", "points": "point", "bars": "bar", "stacked": "bar", "steps": "line"}

Json = dict[str, Any]


def exported(trace: Trace) -> Json:
    """Return a trace as edtrace has it. Raises LectureError when a stored source is no Python."""
    sources = [_ShownFile(source) for source in trace.sources]
    return {
        "files": {source.path: source.text for source in trace.sources},
        "hidden_line_numbers": {
            source.path: known.hidden for source, known in zip(trace.sources, sources, strict=True)
        },
        "steps": list(_Steps(Tree(trace), sources).written()),
    }


class _ShownFile:
    """A source, as far as edtrace asks for it."""

    def __init__(self, source: SourceFile) -> None:
        self.path = source.path
        self.lines = source.text.split("\n")
        self.parsed: ParsedSource = parse_source(source.text, source.path)
        self.directives: dict[int, list[Directive]] = {}
        for directive in parse_directives(self.parsed):
            self.directives.setdefault(directive.statement, []).append(directive)
        hidden = [self.parsed.statements[n] for n, said in self.directives.items() if _has(said, "hide")]
        self.hidden = sorted({line for s in hidden for line in range(s.first_line, s.end_line + 1)})

    def code(self, line: int) -> str:
        return self.lines[line - 1].strip() if line <= len(self.lines) else ""


def _has(said: Sequence[Directive], name: str) -> bool:
    return any(directive.name == name for directive in said)


class _Steps:
    """Writes the steps of one trace in edtrace's order."""

    def __init__(self, tree: Tree, sources: Sequence[_ShownFile]) -> None:
        self._tree, self._sources = tree, sources

    def written(self) -> Iterator[Json]:
        waiting: list[Step] = []  # in which something was called
        events = list(self._with_callers())
        inner = {callers[-1].id for _, callers in events if callers}
        for event, callers in events:
            ids = {step.id for step in callers}
            while waiting and waiting[-1].id not in ids:
                yield self._done(waiting.pop(), [*waiting])
            if isinstance(event, Frame):
                yield from self._begun(event, callers)
            elif event.id in inner:
                yield self._step(self._stack(event, callers))
                waiting.append(event)
            else:
                yield self._done(event, callers)
        while waiting:
            yield self._done(waiting.pop(), [*waiting])

    def _with_callers(self) -> Iterator[tuple[Frame | Step, list[Step]]]:
        """Yield what `main` and all below it did, with the steps in which that happened, from the outermost.

        A generator is resumed by what its first caller's call does at that moment.
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

    def _begun(self, frame: Frame, callers: Sequence[Step]) -> Iterator[Json]:
        definition = self._sources[frame.source].parsed.function(frame.function)
        if definition is not None:
            above = self._stack(callers[-1], callers[:-1]) if callers else []
            stack = [*above, self._element(frame, definition.first_line)]
            yield self._step(stack, {name: value_of(value) for name, value in frame.arguments or []})

    def _done(self, step: Step, callers: Sequence[Step]) -> Json:
        source = self._sources[self._tree.frames[step.frame].source]
        said = source.directives.get(step.statement, [])
        env: Json = {name: value_of(value) for name, value in step.values or []}
        env |= {name: None for directive in said if directive.name == "clear" for name in directive.names}
        animated = _has(said, "animate")
        renderings = [it for told in step.narrative or [] for it in self._renderings(told, animated=animated)]
        return self._step(self._stack(step, callers), env, renderings)

    def _step(
        self, stack: list[Json], env: Mapping[str, Any] | None = None, renderings: list[Json] | None = None
    ) -> Json:
        return {"stack": stack, "env": dict(env or {}), "renderings": renderings or []}

    def _stack(self, step: Step, callers: Sequence[Step]) -> list[Json]:
        return [self._element(self._tree.frames[one.frame], one.line) for one in (*callers, step)]

    def _element(self, frame: Frame, line: int) -> Json:
        source = self._sources[frame.source]
        name = frame.function.rpartition(".")[2]
        return {"path": source.path, "line_number": line, "function_name": name, "code": source.code(line)}

    def _renderings(self, told: Narrative, *, animated: bool) -> Iterator[Json]:
        style: Json | None = dict(told.style or []) if told.kind not in ("note", "plot") else None  # as they have it
        if told.width is not None and style is not None:
            style["width"] = told.width
        kind, data, links = self._shown(told)
        lines = inside(data) if kind == "markdown" and not told.flows and isinstance(data, str) else None
        for line in [data] if lines is None else lines.split("\n"):
            look = style if lines is None else {**VERBATIM, **(style or {})}
            yield {
                "type": kind,
                "data": line,
                "style": look,
                "external_link": None,
                "internal_link": None,
                **links,
                "animate": animated,
            }

    def _shown(self, told: Narrative) -> tuple[str, Any, Json]:
        """Return what stands for a narrative: which type of rendering, its data, and where it leads."""
        if told.kind == "text":
            return "markdown", told.text or "", {}
        if told.kind == "link" and told.target is not None:
            for source in self._sources:
                if (definition := source.parsed.function(told.target)) is not None or (
                    definition := _class(source.parsed, told.target)
                ) is not None:
                    where = {"path": source.path, "line_number": definition.first_line}
                    return "link", told.label, {"internal_link": where}
            return "markdown", told.label or told.target, {}
        if told.kind == "link":
            label = told.label or told.title or told.url or "?"
            return "link", f"[{label}]", {"external_link": _reference(told)}
        if told.kind in ("image", "video", "note"):
            return told.kind, told.text if told.kind == "note" else told.url, {}
        if told.kind == "plot" and told.svg is not None:
            drawn = base64.b64encode(told.svg.encode("utf-8")).decode("ascii")
            return "image", f"data:image/svg+xml;base64,{drawn}", {}
        if told.kind == "plot" and told.series:
            return "plot", _specification(told), {}
        return "markdown", as_markdown(Narration(told, 0), lambda address: address, lambda name, svg: ""), {}


def _class(parsed: ParsedSource, name: str) -> Any:
    found = (s for s in parsed.statements if isinstance(s.node, ast.ClassDef) and s.function == MODULE)
    return next((s for s in found if isinstance(s.node, ast.ClassDef) and s.node.name == name), None)


def _reference(told: Narrative) -> Json:
    found = re.fullmatch(r"(.*) \((.*)\)", told.authors or "", re.DOTALL)  # as `citations.people` joins them
    people, organization = found.groups() if found is not None else (told.authors, None)
    authors = people.split(", ") if people else None
    made = Reference(told.title, authors, organization, told.date, told.url, told.text, told.notes)
    return {name: getattr(made, name) for name in Reference.__dataclass_fields__}


def _specification(told: Narrative) -> Json:
    """Return a figure's numbers as Vega-Lite draws them."""
    rows = [
        {"series": one.name, "x": _finite(x), "y": _finite(y)}
        for one in told.series or []
        for x, y in zip(one.x, one.y, strict=True)
    ]
    numbers = all(isinstance(row["x"], (int, float)) for row in rows)
    kinds = [_MARKS[one.style] for one in told.series or []]
    encoding: Json = {
        "x": {"field": "x", "type": "quantitative" if numbers else "nominal", "title": told.x_label},
        "y": {"field": "y", "type": "quantitative", "title": told.y_label},
        "color": {"field": "series", "type": "nominal", "title": None},
    }
    for axis, scale in (("x", told.x_scale), ("y", told.y_scale)):
        if scale == "log":
            encoding[axis]["scale"] = {"type": "log"}
    drawn: Json = {"$schema": VEGA_LITE, "data": {"values": rows}, "mark": kinds[0], "encoding": encoding}
    return drawn | ({"title": told.title} if told.title else {})


def _finite(number: Any) -> Any:
    return None if isinstance(number, float) and not math.isfinite(number) else number


# --- values ---------------------------------------------------------------------------------------


def value_of(value: Value) -> Json:
    """Return a value as edtrace has it: its type, its contents, of an array also its dtype and shape."""
    if value.tensor is not None:
        return _array(value.tensor, _ARRAYS.get(value.type, value.type))
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
        return _typed(value.type, {_key(key): value_of(one) for key, one in value.entries})
    if value.type == "Size" and value.text is not None:
        sizes = [int(size) for size in value.text[12:-2].split(",") if size.strip().isdigit()]
        return _typed("torch.Size", [_typed("int", size) for size in sizes])
    return _typed(value.type, value.text if value.text is not None else summary(value))


def _typed(kind: str, contents: Any, dtype: str | None = None, shape: list[int] | None = None) -> Json:
    return {"type": kind, "contents": contents, "dtype": dtype, "shape": shape}


def _key(key: Value) -> str:
    return str(key.value) if key.value is not None else key.text or summary(key)


def _array(tensor: Tensor, kind: str) -> Json:
    """Return an array; of one whose elements are not all there the block at the origin, which may be empty."""
    dtype = tensor.dtype if kind == "numpy.ndarray" else f"torch.{tensor.dtype}"
    if tensor.elements is not None:
        contents = _nested(iter(tensor.elements), tensor.shape)
    elif tensor.corner is not None and tensor.corner_shape is not None:
        contents = _nested(iter(tensor.corner), tensor.corner_shape)
    else:
        contents = [] if tensor.shape else None
    return _typed(kind, contents, dtype, list(tensor.shape))


def _nested(elements: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return _number(next(elements))
    return [_nested(elements, shape[1:]) for _ in range(shape[0])]


def _number(element: Any) -> Any:
    if isinstance(element, list):  # a complex one
        return str(complex(*element))
    return str(element) if isinstance(element, float) and not math.isfinite(element) else element
