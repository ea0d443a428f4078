"""A trace that edtrace wrote, as JSON → ours, with all that it holds: calls, values, what was said.

    imported(Path("var/traces/lecture_01.json"))      Trace(title="Lecture 01", machine=Machine("not recorded", …), …)

Read are the JSON of edtrace 0.1 (values with their types) and of its forerunner, the `execute.py` of Stanford's CS336
of 2025 (plain values, printed text). In both a step is a line that is about to run or has just run, with the whole
stack: calls and executions of statements are found again from these. Times, strides, devices, storages and what the
module did before `main` are not in them, and so are absent.
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
from typing import Any

from trace_tools import borrowed, shapes, vega
from trace_tools.citations import Reference
from trace_tools.directives import parse_directives
from trace_tools.errors import LectureError, TraceFileError
from trace_tools.file_format.validation import DEEPEST_VALUE, LARGEST_COUNT, validate
from trace_tools.files import why_not_inside
from trace_tools.schema import (
    Claim,
    Event,
    Frame,
    Machine,
    Narrative,
    Run,
    SourceFile,
    Step,
    Tensor,
    Trace,
    Value,
)
from trace_tools.statements import FUNCTIONS, ParsedSource, Statement, parse_source, qualified_name, title_of

SLUG = "edtrace"
NOT_RECORDED = "not recorded"
_ARRAYS = {"numpy.ndarray": "ndarray", "torch.nn.parameter.Parameter": "parameter"}  # all others are tensors
_SCALARS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float, str), "str": (str,)}
VERBATIM = {"fontFamily": "monospace", "whiteSpace": "pre"}
_TRIES = (ast.Try, ast.TryStar)  # they do nothing themselves
_LOOPS = (ast.For, ast.AsyncFor, ast.While)

Json = Mapping[str, Any]


def imported(path: Path) -> Trace:
    """Return what edtrace wrote as a trace. Raises TraceFileError, with the place, and LectureError."""
    try:
        content = path.read_bytes()
        found = _without_surrogates(json.loads(content))
    except OSError as error:
        raise TraceFileError(path, None, f"can't be read: {error.strerror or error}") from None
    except RecursionError:
        raise TraceFileError(path, None, "nested too deeply for a trace") from None
    except ValueError as error:
        raise TraceFileError(path, None, f"is no JSON: {error}; expected a trace that edtrace wrote") from None
    place = _Where(path)
    files, steps = place.member(found, "files", dict), place.member(found, "steps", list)
    sources = [_source(name, text, place.at(f"files[{name!r}]")) for name, text in files.items()]
    if not sources or not steps:
        raise TraceFileError(path, None, "holds no source or no step; expected a trace that edtrace wrote")
    reading = _Replay({name: number for number, name in enumerate(files)}, sources, typed=_is_typed(steps))
    for number, step in enumerate(steps):
        reading.add(step, place.at(f"steps[{number}]"))
    executions = [step.execution for step in reading.events if isinstance(step, Step)]
    if not executions:
        raise TraceFileError(path, None, "holds no step of a file of its own; expected a trace that edtrace wrote")
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


def _without_surrogates(found: Any) -> Any:
    """Write what no file of ours can hold, halves of letters, as their numbers."""
    if isinstance(found, str):
        return found if found.isascii() else found.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(found, list):
        return [_without_surrogates(one) for one in found]
    if isinstance(found, dict):
        return {_without_surrogates(name): _without_surrogates(one) for name, one in found.items()}
    return found


@dataclass(frozen=True, slots=True)
class _Where:
    """Where in the file something stands, for what is said of it when it is wrong."""

    path: Path
    where: str = ""

    def at(self, part: str) -> _Where:
        return replace(self, where=f"{self.where}.{part}".lstrip("."))

    def wrong(self, message: str) -> TraceFileError:
        return TraceFileError(self.path, self.where or None, message)

    def member(self, found: Any, name: str, kind: type, *, otherwise: Any = None) -> Any:
        """Return what `found` has under a name. Raises TraceFileError where it has not, or it is of another kind."""
        if not isinstance(found, dict):
            raise self.wrong(f"expected a mapping, found a {type(found).__name__}")
        known = found.get(name, otherwise)
        if not isinstance(known, kind) or (kind is int and isinstance(known, bool)):
            said = f"a {type(known).__name__}" if name in found else "none"
            raise self.at(name).wrong(f"expected a {kind.__name__}, found {said}")
        return known


# --- the source -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LectureFile:
    """A file of the lecture: what stands at each of its lines."""

    path: str  # as a trace may have it
    parsed: ParsedSource
    inspected: frozenset[int]  # statements whose values are recorded
    unread: tuple[tuple[int, str], ...]  # annotations that were none, by line, and why
    innermost: Mapping[int, Statement]  # by line
    definitions: Mapping[tuple[int, str], Statement]  # by first line and name
    classes: frozenset[str]

    def generates(self, function: str) -> bool:
        """Whether calls of a function can be suspended."""
        definition = self.parsed.function(function)
        inside = ast.walk(definition.node) if definition is not None else ()
        return any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in inside)

    def is_inside(self, number: int, outer: int) -> bool:
        """Whether a statement is nested in another."""
        parent = self.parsed.statements[number].parent
        return parent is not None and (parent == outer or self.is_inside(parent, outer))


def _source(name: str, text: Any, place: _Where) -> _LectureFile:
    if not isinstance(text, str):
        raise place.wrong(f"expected a text, found a {type(text).__name__}")
    path = PurePosixPath(name).name if why_not_inside(name) else name
    unread: list[tuple[int, str]] = []
    parsed = parse_source(text, path)
    while True:
        try:
            directives = parse_directives(parsed)
            break
        except LectureError as error:  # edtrace goes on without what it can't read: so does this, and says so
            if error.line is None or len(unread) > 1000:
                raise
            lines = parsed.text.split("\n")
            before, mark, comment = lines[error.line - 1].rpartition("#")
            lines[error.line - 1] = before + mark + comment.replace("@", "")
            if lines == parsed.text.split("\n") or "@" not in comment:
                raise
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
    """An element of a stack: which statement of which function."""

    source: int
    function: str  # qualified
    statement: Statement
    begins: bool = False  # it stands at the function's own `def`: the call has just begun


@dataclass(slots=True)
class _Call:
    """A call that is going on: its frame, and what it has executed."""

    frame: Frame
    at: int | None = None  # which event is its last step
    returned: bool = False  # whether a call in that step has come back
    last: dict[int, int] = field(default_factory=dict)  # by statement: which event is its last execution
    counts: Counter[int] = field(default_factory=Counter)


class _Replay:
    """Makes events of edtrace's steps, one after another."""

    def __init__(self, numbers: Mapping[str, int], sources: Sequence[_LectureFile], *, typed: bool) -> None:
        self.events: list[Event] = []
        self._numbers, self._sources, self._typed = numbers, sources, typed
        self._calls: list[_Call] = []  # from the outermost
        self._suspended: dict[tuple[int, str], _Call] = {}
        self._steps = self._frames = self._elsewhere = 0
        self._early: list[Narrative] = []  # said before there was a step

    @property
    def left_out(self) -> list[str]:
        """What steps held that are in no file of the trace."""
        return [f"{self._elsewhere} steps outside the lecture's files"] if self._elsewhere else []

    def main_source(self) -> int:
        """Return the file in which the run began."""
        return next((event.source for event in self.events if isinstance(event, Frame)), 0)

    def add(self, step: Any, place: _Where) -> None:
        """Add one of edtrace's steps."""
        stack, env = place.member(step, "stack", list), place.member(step, "env", dict)
        said = [
            one
            for number, it in enumerate(place.member(step, "renderings", list, otherwise=[]))
            for one in _narratives(it, place.at(f"renderings[{number}]"), self._defined_at)
        ]
        read = _typed if self._typed else _plain
        values = [
            (str(name), read(value, place.at(f"env[{name!r}]"), 1)) for name, value in env.items() if value is not None
        ]
        spots = [spot for n, one in enumerate(stack) if (spot := self._spot(one, place.at(f"stack[{n}]"))) is not None]
        if not spots:
            self._elsewhere += 1
            return
        own = self._spot(stack[-1], place) is not None  # and no generator expression inside it
        top = self._go_to(spots, own=own)
        printed, warned = (place.member(step, name, str, otherwise="") for name in ("stdout", "stderr"))
        if spots[-1].begins:
            caller = self._calls[-2] if len(self._calls) > 1 else None
            if caller is not None and caller.at is not None:
                self._observe(caller.at, [], said, printed, warned)
            else:
                self._early += said
            if values:
                frame = next(n for n in reversed(range(len(self.events))) if self.events[n] == top.frame)
                top.frame = replace(top.frame, arguments=_merged(top.frame.arguments, values))
                self.events[frame] = top.frame
        elif top.at is None:
            self._early += said
        else:
            said, self._early = [*self._early, *said], []
            self._observe(top.at, values, _joined(said), printed, warned)

    def _observe(
        self, at: int, values: list[tuple[str, Value]], said: list[Narrative], printed: str, warned: str
    ) -> None:
        """Add to what was observed of a step."""
        step = self.events[at]
        assert isinstance(step, Step)
        self.events[at] = replace(
            step,
            values=_merged(step.values, values),
            narrative=[*(step.narrative or []), *said] or None,
            stdout=(step.stdout or "") + printed or None,
            warnings=[*(step.warnings or []), *([warned.rstrip()] if warned.strip() else [])] or None,
        )

    def _spot(self, element: Any, place: _Where) -> _Spot | None:
        """Return where an element of a stack is; None for libraries', bodies of classes and expressions."""
        name, line = place.member(element, "function_name", str), place.member(element, "line_number", int)
        number = self._numbers.get(place.member(element, "path", str))
        if number is None or name.startswith("<"):
            return None
        source = self._sources[number]
        if (definition := source.definitions.get((line, name))) is not None:
            begun = qualified_name(definition)
            return None if begun in source.classes else _Spot(number, begun, definition, begins=True)
        statement = source.innermost.get(line)
        if statement is None:
            raise place.wrong(f"found line {line}; no statement of {source.path} is there")
        if statement.function in source.classes:
            return None
        return _Spot(number, statement.function, statement)

    def _defined_at(self, path: str, line: int) -> str | None:
        """Return the qualified name of what is defined at a line."""
        number = self._numbers.get(path)
        found = self._sources[number].definitions if number is not None else {}
        return next((qualified_name(definition) for (at, _), definition in found.items() if at == line), None)

    def _go_to(self, spots: Sequence[_Spot], *, own: bool) -> _Call:
        """End and begin calls until those that go on are these; return the innermost, at its step."""
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
        """Return how many of the calls that go on are those of a stack."""
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
        """Go on with the execution of a statement that is under way, or begin one."""
        source, number, last = self._sources[spot.source], spot.statement.number, self._statement(call)
        again = calling and call.returned and _turns(source, spot.statement)
        if (last == number and not again) or (isinstance(spot.statement.node, _TRIES) and not calling):
            return
        back = last is not None and last != number and source.is_inside(last, number)
        if back and number in call.last and not isinstance(spot.statement.node, _LOOPS):
            call.at = call.last[number]  # out of a `with`, to a `case` or an `except`
            return
        call.counts[number] += 1
        node = spot.statement.node
        held = isinstance(node, ast.Assert) and not _may_be_caught(source, number)
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


def _turns(source: _LectureFile, statement: Statement) -> bool:
    """Whether a statement is all that a `while True` holds, whose turns edtrace doesn't show."""
    outer = source.parsed.statements[statement.parent].node if statement.parent is not None else None
    return isinstance(outer, ast.While) and isinstance(outer.test, ast.Constant) and len(outer.body) == 1


def _may_be_caught(source: _LectureFile, number: int) -> bool:
    """Whether an assert could have failed though the run went on."""
    found = (s for s in source.parsed.statements if isinstance(s.node, (*_TRIES, ast.With, ast.AsyncWith)))
    return any(source.is_inside(number, one.number) for one in found)


def _merged(known: list[tuple[str, Value]] | None, more: list[tuple[str, Value]]) -> list[tuple[str, Value]] | None:
    return list((dict(known or []) | dict(more)).items()) or None


# --- values ---------------------------------------------------------------------------------------


def _is_typed(steps: Sequence[Any]) -> bool:
    """Whether all values say of which type they are: the forerunner's never do."""
    values = (v for step in steps if isinstance(step, dict) for v in dict(step.get("env") or {}).values())
    return all(isinstance(v, dict) and {"type", "contents"} <= v.keys() for v in values if v is not None)


def _typed(it: Any, place: _Where, depth: int) -> Value:
    """Return a value of which edtrace says the type."""
    kind, contents = place.member(it, "type", str), place.member(it, "contents", object)
    module, _, name = kind.rpartition(".")
    known = name if name not in {**_SCALARS, "error": (), "list": (), "none": (), "tensor": ()} else kind
    if it.get("shape") is not None:
        return _array(it, _ARRAYS.get(kind, "tensor"), place)
    if kind == "NoneType":
        return Value("none")
    if kind in _SCALARS:
        if type(contents) not in _SCALARS[kind]:
            raise place.at("contents").wrong(f"expected {kind}, found {type(contents).__name__}")
        return Value(kind, _float(contents, place) if kind == "float" else contents)
    if depth >= DEEPEST_VALUE:
        return Value(known, text=json.dumps(contents), note="nested too deep")
    if isinstance(contents, list):
        items = [_typed(one, place.at(f"contents[{n}]"), depth + 1) for n, one in enumerate(contents)]
        if kind == "torch.Size":
            return Value(known, text=f"torch.Size({[item.value for item in items]})")
        return Value(known, length=len(items), items=items)
    if isinstance(contents, dict):
        entries = [
            (Value("str", name), _typed(one, place.at(f"contents[{name!r}]"), depth + 1))
            for name, one in contents.items()
        ]
        is_dict = kind == "dict" or module == "collections"
        return Value(known, length=len(entries) if is_dict else None, entries=entries)
    number = contents if module == "numpy" and isinstance(contents, (int, float)) else None
    return Value(known, number, text=str(contents))


def _plain(it: Any, place: _Where, depth: int) -> Value:
    """Return a value of which only the contents are known: an array is a list, an object a dict or its text."""
    if it is None:
        return Value("none")
    if isinstance(it, (bool, int, float, str)):
        return Value(type(it).__name__, it)
    if depth >= DEEPEST_VALUE:
        return Value(type(it).__name__, text=json.dumps(it), note="nested too deep")
    if isinstance(it, list):
        items = [_plain(one, place, depth + 1) for one in it]
        return Value("list", length=len(items), items=items)
    entries = [(Value("str", name), _plain(one, place, depth + 1)) for name, one in it.items()]
    return Value("dict", length=len(entries), entries=entries)


def _float(contents: Any, place: _Where) -> float:
    try:
        return float(contents)
    except (ValueError, OverflowError):
        raise place.at("contents").wrong(f"expected a number, found {str(contents)[:40]!r}") from None


def _array(it: Json, kind: str, place: _Where) -> Value:
    """Return an array with its elements; with the block at the origin, where the contents are less than the shape."""
    shape, dtype = place.member(it, "shape", list), place.member(it, "dtype", str).removeprefix("torch.")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise place.at("shape").wrong("expected sizes")
    elements = [_element(one, dtype, place) for one in _flat(it["contents"], len(shape))]
    device = "cpu" if kind == "ndarray" else NOT_RECORDED
    made = Tensor(dtype, shape, device)
    corner = _block(it["contents"], len(shape))
    if len(elements) == shapes.count(shape, LARGEST_COUNT):
        made = replace(made, elements=elements)
    elif any(size > whole for size, whole in zip(corner, shape, strict=True)):
        raise place.at("contents").wrong(f"found {len(elements)} elements; expected those of shape {shape}")
    elif len(elements) == shapes.count(corner, LARGEST_COUNT) > 0:
        made = replace(made, corner=elements, corner_shape=corner)
    return Value(kind, tensor=made)


def _element(one: Any, dtype: str, place: _Where) -> Any:
    if "float" in dtype and isinstance(one, str):
        return _float(one, place)
    if one is not None and not isinstance(one, (bool, int, float, str)):
        raise place.at("contents").wrong(f"expected numbers as deep as the shape, found a {type(one).__name__}")
    return one


def _flat(contents: Any, depth: int) -> Iterator[Any]:
    if not depth or not isinstance(contents, list):
        yield contents
        return
    for one in contents:
        yield from _flat(one, depth - 1)


def _block(contents: Any, depth: int) -> list[int]:
    """Return the shape of nested lists, by their first ones."""
    if not depth:
        return []
    if not isinstance(contents, list):
        return [0] * depth
    return [len(contents), *_block(contents[0] if contents else [], depth - 1)]


# --- what was said --------------------------------------------------------------------------------


def _narratives(it: Any, place: _Where, defined_at: Any) -> list[Narrative]:
    """Return what one of edtrace's renderings says."""
    kind, told = place.member(it, "type", str), it.get("data")
    style = place.member(it, "style", dict, otherwise={}) if it.get("style") is not None else {}
    if kind in ("markdown", "text"):
        if kind == "text" or VERBATIM.items() <= style.items():
            left = {name: value for name, value in style.items() if name not in VERBATIM}
            return [borrowed.as_it_is(str(told), left)]
        return [Narrative("text", text=str(told), style=borrowed.look(style), flows=True)]
    if kind == "note":
        return [Narrative("note", text=str(told))]
    if kind == "link":
        return [_link(it, style, place, defined_at)]
    if kind in ("image", "video") and isinstance(told, str):
        if borrowed.is_on_the_web(told) or told.startswith("data:image/") or why_not_inside(told) is None:
            return [borrowed.pictured(kind, told, style)]
        return [Narrative("text", text=f"({kind}: `{told}`)", flows=True)]  # not beside the lecture: its path is kept
    if kind == "plot" and isinstance(told, dict):
        return vega.drawn(told)
    if kind == "graph" and isinstance(told, dict):
        return [borrowed.graph_figure(told, style)]
    return [borrowed.as_it_is(json.dumps({"type": kind, "data": told}, indent=2), {})]  # a word of a later edtrace


def _link(it: Json, style: Json, place: _Where, defined_at: Any) -> Narrative:
    label = it.get("data")
    if isinstance(target := it.get("internal_link"), dict):
        path, line = place.member(target, "path", str), place.member(target, "line_number", int)
        where = f"{PurePosixPath(path).name}, line {line}"
        name = defined_at(path, line) or str(label)
        return Narrative(
            "link", label=str(label or name), target=name, title=where, style=borrowed.look(style), flows=True
        )
    given = place.member(it, "external_link", dict)
    known = {one.name: given.get(one.name) for one in fields(Reference)}
    return borrowed.cited(Reference(**known), style)


def _joined(said: Sequence[Narrative]) -> list[Narrative]:
    """Make one text of lines in the letters of code that follow one another: edtrace says each by itself."""
    found: list[Narrative] = []
    for one in said:
        before = found[-1] if found else None
        if before is not None and _is_fenced(one) and _is_fenced(before) and before.style == one.style:
            lines = f"{inside(before.text or '')}\n{inside(one.text or '')}"
            found[-1] = borrowed.as_it_is(lines, dict(one.style or []))
        else:
            found.append(one)
    return found


def _is_fenced(it: Narrative) -> bool:
    return it.kind == "text" and not it.flows and inside(it.text or "") is not None


def inside(text: str) -> str | None:
    """Return what a text that is nothing but a fence, as `borrowed.as_it_is` makes it, has inside; None for others."""
    found = re.fullmatch(r"(`{3,})\n(.*)\n\1", text, re.DOTALL)
    return found[2] if found is not None else None
