"""Import a trace that edtrace wrote as JSON, with its calls, values and narrative.

    imported(Path("var/traces/lecture_01.json"))      Trace(title="Lecture 01", machine=Machine("not recorded", …), …)

Two formats are read: edtrace 0.1 (values with types), and its predecessor, the `execute.py` of
Stanford's CS336 in 2025 (plain values, printed text). In both, a step is a line before or after it runs, with the whole
stack; calls and executions are reconstructed from these. The formats have no times, strides, devices, storages, or code
before `main`, so these are absent.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from trace_tools.edtrace import figures, words
from trace_tools.errors import LectureError, TraceFileError
from trace_tools.lecture.citations import Reference
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement, parse_source, qualified_name, title_of
from trace_tools.trace import shapes
from trace_tools.trace.model import (
    Claim,
    Event,
    Frame,
    Link,
    Machine,
    Narrative,
    Note,
    Observed,
    Run,
    SourceFile,
    Step,
    Tensor,
    Text,
    Trace,
    Value,
)
from trace_tools.trace.trace_file import validate
from trace_tools.trace.validation import DEEPEST_VALUE, LARGEST_COUNT
from trace_tools.util.files import why_not_inside

SLUG = "edtrace"
NOT_RECORDED = "not recorded"
_ARRAYS = {"numpy.ndarray": "ndarray", "torch.nn.parameter.Parameter": "parameter"}  # all other arrays are tensors
_SCALARS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float, str), "str": (str,)}
VERBATIM = {"fontFamily": "monospace", "whiteSpace": "pre"}
_TRIES = (ast.Try, ast.TryStar)  # statements without an effect of their own
_LOOPS = (ast.For, ast.AsyncFor, ast.While)

Json = Mapping[str, Any]


def imported(path: Path) -> Trace:
    """Return edtrace's JSON as a trace. Raises TraceFileError, with the position in the file, and LectureError."""
    try:
        content = path.read_bytes()
        content_json = _without_surrogates(json.loads(content))
    except OSError as error:
        raise TraceFileError(path, None, f"can't be read: {error.strerror or error}") from None
    except RecursionError:
        raise TraceFileError(path, None, "nested too deeply for a trace") from None
    except ValueError as error:
        raise TraceFileError(path, None, f"is not JSON: {error}; expected a trace that edtrace wrote") from None
    position = _Position(path)
    files, steps = position.member(content_json, "files", dict), position.member(content_json, "steps", list)
    sources = [_lecture_file(name, text, position.at(f"files[{name!r}]")) for name, text in files.items()]
    if not sources or not steps:
        raise TraceFileError(path, None, "contains no source or no step; expected a trace that edtrace wrote")
    values = (v for step in steps if isinstance(step, dict) for v in dict(step.get("env") or {}).values())
    # in the predecessor's format no value has a type
    typed = all(isinstance(v, dict) and {"type", "contents"} <= v.keys() for v in values if v is not None)
    reading = _Replay({name: number for number, name in enumerate(files)}, sources, typed=typed)
    for number, step in enumerate(steps):
        reading.add(step, position.at(f"steps[{number}]"))
    executions = [step.execution for step in reading.events if isinstance(step, Step)]
    if not executions:
        raise TraceFileError(path, None, "contains no step of its own source; expected a trace that edtrace wrote")
    lecture = reading.main_source()
    left_out = ["times, strides, storages and devices, which edtrace does not record", *reading.left_out]
    trace = Trace(
        title=title_of(sources[lecture].parsed, sources[lecture].path),
        run=Run(
            lecture=sources[lecture].path,
            started=datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds"),
            seed=0,
            passes=1,
            limit=max(executions),
            complete=True,
            dropped=left_out + [f"{s.path}:{line}: {why}" for s in sources for line, why in s.unread],
        ),
        machine=Machine(name=NOT_RECORDED, slug=SLUG, device=NOT_RECORDED),
        versions=[],
        sources=[SourceFile(source.path, source.parsed.text) for source in sources],
        steps=reading.events,
    )
    validate(trace, path)
    return trace


def _without_surrogates(part: Any) -> Any:
    """Escape lone surrogates, which cannot be encoded in a file."""
    if isinstance(part, str):
        return part if part.isascii() else part.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(part, list):
        return [_without_surrogates(one) for one in part]
    if isinstance(part, dict):
        return {_without_surrogates(name): _without_surrogates(one) for name, one in part.items()}
    return part


@dataclass(frozen=True, slots=True)
class _Position:
    """A position in the file, for error messages."""

    path: Path
    keys: str = ""  # "steps[3].env"

    def at(self, key: str) -> _Position:
        return replace(self, keys=f"{self.keys}.{key}".lstrip("."))

    def wrong(self, message: str) -> TraceFileError:
        return TraceFileError(self.path, self.keys or None, message)

    def member(self, parent: Any, name: str, kind: type, *, otherwise: Any = None) -> Any:
        """Return a member of an object. Raises TraceFileError if it is missing or has another type."""
        if not isinstance(parent, dict):
            raise self.wrong(f"expected a mapping, found a {type(parent).__name__}")
        content = parent.get(name, otherwise)
        if not isinstance(content, kind) or (kind is int and isinstance(content, bool)):
            shown = f"a {type(content).__name__}" if name in parent else "none"
            raise self.at(name).wrong(f"expected a {kind.__name__}, found {shown}")
        return content


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LectureFile:
    """A file of the lecture, with the statement of each line."""

    path: str  # as stored in the trace
    parsed: ParsedSource
    inspected: frozenset[int]  # statements whose values are recorded
    unread: tuple[tuple[int, str], ...]  # invalid directives by line, with the reason
    innermost: Mapping[int, Statement]  # the innermost statement on each line
    definitions: Mapping[tuple[int, str], Statement]  # by first line and name
    classes: frozenset[str]

    def generates(self, function: str) -> bool:
        """Return whether calls of a function can be suspended."""
        definition = self.parsed.function(function)
        inside = ast.walk(definition.node) if definition is not None else ()
        return any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in inside)

    def is_inside(self, number: int, outer: int) -> bool:
        """Return whether a statement is nested in another."""
        parent = self.parsed.statements[number].parent
        return parent is not None and (parent == outer or self.is_inside(parent, outer))


def _lecture_file(name: str, text: Any, position: _Position) -> _LectureFile:
    if not isinstance(text, str):
        raise position.wrong(f"expected a text, found a {type(text).__name__}")
    path = PurePosixPath(name).name if why_not_inside(name) else name
    unread: list[tuple[int, str]] = []
    parsed = parse_source(text, path)
    while True:
        wrong: list[LectureError] = []
        directives = parse_directives(parsed, wrong)
        if not wrong:
            break
        error = wrong[0]  # edtrace ignores invalid directives; so does this, with a warning
        if error.line is None or len(unread) > 1000:
            raise error
        lines = parsed.text.split("\n")
        before, mark, comment = lines[error.line - 1].rpartition("#")
        lines[error.line - 1] = before + mark + comment.replace("@", "")
        if lines == parsed.text.split("\n") or "@" not in comment:
            raise error
        unread.append((error.line, str(error).partition(": ")[2]))
        parsed = parse_source("\n".join(lines), path)
    innermost: dict[int, Statement] = {}
    definitions = {}
    for statement in parsed.statements:
        innermost |= dict.fromkeys(range(statement.first_line, statement.end_line + 1), statement)
        if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)):
            definitions[statement.first_line, statement.node.name] = statement
    return _LectureFile(
        path,
        parsed,
        frozenset(directive.statement for directive in directives if directive.name == "inspect"),
        tuple(unread),
        innermost,
        definitions,
        frozenset(qualified_name(s) for s in parsed.statements if isinstance(s.node, ast.ClassDef)),
    )


# --- the steps ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spot:
    """An element of a stack: a statement of a function."""

    source: int
    function: str  # qualified name
    statement: Statement
    begins: bool = False  # the line is the function's own `def`: the call has just begun


@dataclass(slots=True)
class _Call:
    """An active call: its frame, and the statements it has executed."""

    frame: Frame
    at: int | None = None  # index of its last step's event
    returned: bool = False  # a call in that step has returned
    last: dict[int, int] = field(default_factory=dict)  # by statement: index of the event of its last execution
    counts: Counter[int] = field(default_factory=Counter)


class _Replay:
    """Converts edtrace's steps to events, one after another."""

    def __init__(self, numbers: Mapping[str, int], sources: Sequence[_LectureFile], *, typed: bool) -> None:
        self.events: list[Event] = []
        self._numbers, self._sources, self._typed = numbers, sources, typed
        self._calls: list[_Call] = []  # outermost first
        self._suspended: dict[tuple[int, str], _Call] = {}
        self._steps = self._frames = self._elsewhere = 0
        self._early: list[Narrative] = []  # emitted before the first step

    @property
    def left_out(self) -> list[str]:
        """The files of steps that are not in the trace."""
        return [f"{self._elsewhere} steps outside the lecture's files"] if self._elsewhere else []

    def main_source(self) -> int:
        """Return the file in which the run started."""
        return next((event.source for event in self.events if isinstance(event, Frame)), 0)

    def add(self, step: Any, position: _Position) -> None:
        """Add one of edtrace's steps."""
        stack, env = position.member(step, "stack", list), position.member(step, "env", dict)
        listed = [
            one
            for number, rendering in enumerate(position.member(step, "renderings", list, otherwise=[]))
            for one in _narratives(rendering, position.at(f"renderings[{number}]"), self._defined_at)
        ]
        read = _typed if self._typed else _plain
        present = {name: value for name, value in env.items() if value is not None}
        values = [(str(name), read(value, position.at(f"env[{name!r}]"), 1)) for name, value in present.items()]
        elements = (self._spot(one, position.at(f"stack[{n}]")) for n, one in enumerate(stack))
        spots = [spot for spot in elements if spot is not None]
        if not spots:
            self._elsewhere += 1
            return
        own = self._spot(stack[-1], position) is not None  # and not in a generator expression inside it
        top = self._go_to(spots, own=own)
        printed, warned = (position.member(step, name, str, otherwise="") for name in ("stdout", "stderr"))
        if spots[-1].begins:
            caller = self._calls[-2] if len(self._calls) > 1 else None
            if caller is not None and caller.at is not None:
                self._observe(caller.at, [], listed, printed, warned)
            else:
                self._early += listed
            if values:
                frame = next(n for n in reversed(range(len(self.events))) if self.events[n] == top.frame)
                top.frame = replace(top.frame, arguments=_merged(top.frame.arguments, values))
                self.events[frame] = top.frame
        elif top.at is None:
            self._early += listed
        else:
            listed, self._early = [*self._early, *listed], []
            narratives: list[Narrative] = []
            for one in listed:  # consecutive lines of monospace text, which edtrace renders one by one, are merged
                before = narratives[-1] if narratives else None
                if before is not None and _is_fenced(one) and _is_fenced(before) and before.style == one.style:
                    lines = f"{inside(before.text or '')}\n{inside(one.text or '')}"
                    narratives[-1] = words.as_it_is(lines, dict(one.style or []))
                else:
                    narratives.append(one)
            self._observe(top.at, values, narratives, printed, warned)

    def _observe(self, at: int, values: list[Observed], narratives: list[Narrative], printed: str, warned: str) -> None:
        """Add observations to a step."""
        step = self.events[at]
        assert isinstance(step, Step)
        self.events[at] = replace(
            step,
            values=_merged(step.values, values),
            narrative=[*(step.narrative or []), *narratives] or None,
            stdout=(step.stdout or "") + printed or None,
            warnings=[*(step.warnings or []), *([warned.rstrip()] if warned.strip() else [])] or None,
        )

    def _spot(self, element: Any, position: _Position) -> _Spot | None:
        """Return the statement of a stack element; None for libraries, class bodies and expressions."""
        name, line = position.member(element, "function_name", str), position.member(element, "line_number", int)
        number = self._numbers.get(position.member(element, "path", str))
        if number is None or name.startswith("<"):
            return None
        source = self._sources[number]
        if (definition := source.definitions.get((line, name))) is not None:
            begun = qualified_name(definition)
            return None if begun in source.classes else _Spot(number, begun, definition, begins=True)
        statement = source.innermost.get(line)
        if statement is None:
            raise position.wrong(f"found line {line}; no statement of {source.path} is there")
        if statement.function in source.classes:
            return None
        return _Spot(number, statement.function, statement)

    def _defined_at(self, path: str, line: int) -> str | None:
        """Return the qualified name of the definition at a line."""
        number = self._numbers.get(path)
        definitions = self._sources[number].definitions if number is not None else {}
        return next((qualified_name(definition) for (at, _), definition in definitions.items() if at == line), None)

    def _go_to(self, spots: Sequence[_Spot], *, own: bool) -> _Call:
        """End and begin calls until the active ones match the stack; return the innermost call, at its step."""
        depth = self._common(spots)
        came_back = len(self._calls) > depth == len(spots)
        for call in self._calls[depth:]:
            if self._sources[call.frame.source].generates(call.frame.function):
                self._suspended[call.frame.source, call.frame.function] = call
        del self._calls[depth:]
        for level in range(depth, len(spots)):
            if level:
                self._be_at(self._calls[-1], spots[level - 1], calling=True)
            self._calls.append(self._begun(spots[level]))
        top = self._calls[-1]
        if not spots[-1].begins:
            self._be_at(top, spots[-1])
            top.returned = own and (came_back or top.returned)
        return top

    def _common(self, spots: Sequence[_Spot]) -> int:
        """Return how many active calls match the stack."""
        for level, (call, spot) in enumerate(zip(self._calls, spots, strict=False)):
            if (call.frame.source, call.frame.function) != (spot.source, spot.function):
                return level
            if level == len(spots) - 1:
                return level if spot.begins else level + 1
            if call.at is None or self._statement(call) != spot.statement.number:
                return level + 1
        return min(len(self._calls), len(spots))

    def _begun(self, spot: _Spot) -> _Call:
        resumed = None if spot.begins else self._suspended.pop((spot.source, spot.function), None)
        if resumed is not None:
            return resumed
        caller = self._calls[-1].at if self._calls else None
        step = self.events[caller] if caller is not None else None
        frame = Frame(self._frames, spot.function, step.id if isinstance(step, Step) else None, spot.source)
        self._frames += 1
        self.events.append(frame)
        return _Call(frame)

    def _statement(self, call: _Call) -> int | None:
        step = self.events[call.at] if call.at is not None else None
        return step.statement if isinstance(step, Step) else None

    def _be_at(self, call: _Call, spot: _Spot, *, calling: bool = False) -> None:
        """Continue the current execution of a statement, or begin a new one."""
        source, number, last = self._sources[spot.source], spot.statement.number, self._statement(call)
        outer = source.parsed.statements[spot.statement.parent].node if spot.statement.parent is not None else None
        # edtrace does not show the iterations of a `while True` whose whole body is this statement
        turns = isinstance(outer, ast.While) and isinstance(outer.test, ast.Constant) and len(outer.body) == 1
        again = calling and call.returned and turns
        if (last == number and not again) or (isinstance(spot.statement.node, _TRIES) and not calling):
            return
        back = last is not None and last != number and source.is_inside(last, number)
        if back and number in call.last and not isinstance(spot.statement.node, _LOOPS):
            call.at = call.last[number]  # out of a `with`, to a `case` or an `except`
            return
        call.counts[number] += 1
        node = spot.statement.node
        # inside these an assert could have failed although the run continued
        catching = (s for s in source.parsed.statements if isinstance(s.node, (*_TRIES, ast.With, ast.AsyncWith)))
        held = isinstance(node, ast.Assert) and not any(source.is_inside(number, one.number) for one in catching)
        step = Step(
            self._steps,
            call.frame.frame,
            number,
            spot.statement.line,
            call.counts[number],
            annotated=number in source.inspected,
            claim=Claim(ast.unparse(node.test), held=True) if held and isinstance(node, ast.Assert) else None,
        )
        self._steps += 1
        call.at = call.last[number] = len(self.events)
        call.returned = False
        self.events.append(step)


def _merged(values: list[Observed] | None, more: list[Observed]) -> list[Observed] | None:
    return list((dict(values or []) | dict(more)).items()) or None


# --- values ---------------------------------------------------------------------------------------


def _typed(value: Any, position: _Position, depth: int) -> Value:
    """Return a value from edtrace's form with a type."""
    kind, contents = position.member(value, "type", str), position.member(value, "contents", object)
    module, _, name = kind.rpartition(".")
    type_name = name if name not in {**_SCALARS, "error": (), "list": (), "none": (), "tensor": ()} else kind
    if value.get("shape") is not None:
        return _array(value, _ARRAYS.get(kind, "tensor"), position)
    if kind == "NoneType":
        return Value("none")
    if kind in _SCALARS:
        if type(contents) not in _SCALARS[kind]:
            raise position.at("contents").wrong(f"expected {kind}, found {type(contents).__name__}")
        return Value(kind, _float(contents, position) if kind == "float" else contents)
    if depth >= DEEPEST_VALUE:
        return Value(type_name, text=json.dumps(contents), note="nested too deep")
    if isinstance(contents, list):
        items = [_typed(one, position.at(f"contents[{n}]"), depth + 1) for n, one in enumerate(contents)]
        if kind == "torch.Size":
            return Value(type_name, text=f"torch.Size({[item.value for item in items]})")
        return Value(type_name, length=len(items), items=items)
    if isinstance(contents, dict):
        entries = [
            (Value("str", name), _typed(one, position.at(f"contents[{name!r}]"), depth + 1))
            for name, one in contents.items()
        ]
        is_dict = kind == "dict" or module == "collections"
        return Value(type_name, length=len(entries) if is_dict else None, entries=entries)
    number = contents if module == "numpy" and isinstance(contents, (int, float)) else None
    return Value(type_name, number, text=str(contents))


def _plain(value: Any, position: _Position, depth: int) -> Value:
    """Return a value from its contents alone: an array is a list, an object a dict or its text."""
    if value is None:
        return Value("none")
    if isinstance(value, (bool, int, float, str)):
        return Value(type(value).__name__, value)
    if depth >= DEEPEST_VALUE:
        return Value(type(value).__name__, text=json.dumps(value), note="nested too deep")
    if isinstance(value, list):
        items = [_plain(one, position, depth + 1) for one in value]
        return Value("list", length=len(items), items=items)
    entries = [(Value("str", name), _plain(one, position, depth + 1)) for name, one in value.items()]
    return Value("dict", length=len(entries), entries=entries)


def _float(contents: Any, position: _Position) -> float:
    try:
        return float(contents)
    except (ValueError, OverflowError):
        raise position.at("contents").wrong(f"expected a number, found {str(contents)[:40]!r}") from None


def _array(value: Json, kind: str, position: _Position) -> Value:
    """Return an array with its elements, or with the block at the origin if the contents are smaller than the shape."""
    shape, dtype = position.member(value, "shape", list), position.member(value, "dtype", str).removeprefix("torch.")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise position.at("shape").wrong("expected sizes")
    elements: list[Any] = []
    for one in _flat(value["contents"], len(shape)):
        if one is not None and not isinstance(one, (bool, int, float, str)):
            raise position.at("contents").wrong(f"expected numbers as deep as the shape, found a {type(one).__name__}")
        elements.append(_float(one, position) if "float" in dtype and isinstance(one, str) else one)
    device = "cpu" if kind == "ndarray" else NOT_RECORDED
    made = Tensor(dtype, shape, device)
    corner = _block(value["contents"], len(shape))
    if len(elements) == shapes.count(shape, LARGEST_COUNT):
        made = replace(made, elements=elements)
    elif any(size > full_size for size, full_size in zip(corner, shape, strict=True)):
        raise position.at("contents").wrong(f"found {len(elements)} elements; expected {shape} of them")
    elif len(elements) == shapes.count(corner, LARGEST_COUNT) > 0:
        made = replace(made, corner=elements, corner_shape=corner)
    return Value(kind, tensor=made)


def _flat(contents: Any, depth: int) -> Iterator[Any]:
    if not depth or not isinstance(contents, list):
        yield contents
        return
    for one in contents:
        yield from _flat(one, depth - 1)


def _block(contents: Any, depth: int) -> list[int]:
    """Return the shape of nested lists, judged by the first list at each level."""
    if not depth:
        return []
    if not isinstance(contents, list):
        return [0] * depth
    return [len(contents), *_block(contents[0] if contents else [], depth - 1)]


# --- narrative ------------------------------------------------------------------------------------


def _narratives(rendering: Any, position: _Position, defined_at: Any) -> list[Narrative]:
    """Return the narratives of one of edtrace's renderings."""
    kind, data = position.member(rendering, "type", str), rendering.get("data")
    style = position.member(rendering, "style", dict, otherwise={}) if rendering.get("style") is not None else {}
    if kind in ("markdown", "text"):
        if kind == "text" or VERBATIM.items() <= style.items():
            other_style = {name: value for name, value in style.items() if name not in VERBATIM}
            return [words.as_it_is(str(data), other_style)]
        return [Text(text=str(data), style=words.look(style), flows=True)]
    if kind == "note":
        return [Note(text=str(data))]
    if kind == "link" and isinstance(target := rendering.get("internal_link"), dict):
        path, line = position.member(target, "path", str), position.member(target, "line_number", int)
        title = f"{PurePosixPath(path).name}, line {line}"
        name = defined_at(path, line) or str(data)
        return [Link(label=str(data or name), target=name, title=title, style=words.look(style), flows=True)]
    if kind == "link":
        given = position.member(rendering, "external_link", dict)
        return [words.cited(Reference(**{one.name: given.get(one.name) for one in fields(Reference)}), style)]
    if kind in ("image", "video") and isinstance(data, str):
        if words.is_on_the_web(data) or data.startswith("data:image/") or why_not_inside(data) is None:
            return [words.pictured(kind, data, style)]
        # not in the lecture's folder: only its path is kept
        return [Text(text=f"({kind}: `{data}`)", flows=True)]
    if kind == "plot" and isinstance(data, dict):
        return figures.drawn(data)
    if kind == "graph" and isinstance(data, dict):
        return [words.graph_figure(data, style)]
    return [words.as_it_is(json.dumps({"type": kind, "data": data}, indent=2), {})]  # a rendering of a later edtrace


def _is_fenced(narrative: Narrative) -> TypeGuard[Text]:
    return isinstance(narrative, Text) and not narrative.flows and inside(narrative.text) is not None


def inside(text: str) -> str | None:
    """Return the content of a text that is a single fence, as `words.as_it_is` makes it; else None."""
    fence = re.fullmatch(r"(`{3,})\n(.*)\n\1", text, re.DOTALL)
    return fence[2] if fence is not None else None
