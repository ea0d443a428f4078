r"""Write a trace as YAML in one atomic step, and read it back with every field checked.

    write(trace, Path("rendered/cpu/trace.yaml"))
    loaded = load(Path("rendered/cpu/trace.yaml"))
    loaded.trace, loaded.notes  # the Trace, ("the trace file was cut short: it holds 828 of 840 events",)

The head is YAML for people. Each event after it is one line, the same in JSON and in YAML 1.1: floats carry a dot and a
signed exponent (PyYAML reads `1e-06` as a string), texts are in double quotes, and the few characters that YAML cannot
hold are escaped. So any YAML loader reads the file, and msgspec decodes 100,000 lines in a second. The lines are not to
be laid out in another way.

The head records in `events` how many events `steps` lists, so that a file without its end is recognised wherever it was
cut. Such a trace is partial: its `run.complete` is False and its `run.ended` holds the reason. Traces of older versions
have no `events`; in these, only a cut inside a line is recognised.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trace_tools.errors import TraceFileError
from trace_tools.trace.model import (
    SCHEMA_VERSION,
    Event,
    Frame,
    Machine,
    Natural,
    Omitted,
    Run,
    SourceFile,
    Step,
    Trace,
)
from trace_tools.trace.validation import Mismatch, References, check_head, converted
from trace_tools.util import formats
from trace_tools.util.files import replace_file
from trace_tools.util.interpreter import collector_paused
from trace_tools.util.structs import Struct, to_plain

LARGEST_BYTES = 2**30  # largest file; the tracer's size cap is far smaller
DEEPEST_HEAD = 50  # collections inside collections
TOO_DEEP = "nested too deeply for a trace"
CUT_SHORT = "the trace file was cut short"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A trace, and the parts missing from its file, as sentences for the terminal; `trace.run` records the same."""

    trace: Trace
    notes: tuple[str, ...] = ()


class Head(Struct, frozen=True, kw_only=True):
    """All of a trace file but its events."""

    schema: int
    events: Natural | None = None  # how many `steps` lists
    title: str
    run: Run
    machine: Machine
    versions: list[tuple[str, str]]
    sources: list[SourceFile]
    steps: list[Any] | None  # empty, or None: the lines that follow


# --- from a trace to text -------------------------------------------------------------------------

_STRING = r'"(?:[^"\\]++|\\.)*+"'  # one JSON string, possessive: a long one costs no backtracking
_SPELLED_OTHERWISE = re.compile(_STRING + r"|(?<![.0-9])(?P<whole>[0-9]+)e|NaN|Infinity")
_UNLIKE_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_UNLIKE_LITERAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def write(trace: Trace, path: Path) -> None:
    """Write the trace to `path` so that the path always holds either the old file or the whole new file.

    The folder must exist. Raises `UsageError` if it can't be written (full, read-only, missing); the old file is then
    unchanged, and no other file remains.
    """
    replace_file(path, _pieces(trace), durable=True)


def dump(trace: Trace) -> str:
    """Return the text of the trace's file; the same trace gives the same text."""
    return "".join(_pieces(trace))


def _pieces(trace: Trace) -> Iterator[str]:
    plain = {"schema": trace.schema, "events": len(trace.steps)} | to_plain(replace(trace, sources=[], steps=[]))
    del plain["sources"], plain["steps"]
    yield from _block(plain, "")
    yield "sources:\n" if trace.sources else "sources: []\n"
    for source in trace.sources:
        yield _source_block(source.path, source.text)
    yield "steps:\n" if trace.steps else "steps: []\n"
    for event in trace.steps:
        yield f"- {flow(to_plain(event))}\n"


def flow(plain: Any) -> str:
    r"""Return plain data on one line: {"id": 14, "share": 1e-06} is '{"id": 14, "share": 1.0e-06}'.

    A lone surrogate, which no UTF-8 file can hold, is written as the six characters of its escape (`\ud800` as text),
    so that different strings stay different.
    """
    line = _encode(plain)
    if "e-" in line or "e+" in line or "NaN" in line or "Infinity" in line:
        line = _SPELLED_OTHERWISE.sub(_respell, line)
    if "\x7f" in line or not line.isascii():
        line = _UNLIKE_YAML.sub(_escape, line)
    return line


def _respell(token: re.Match[str]) -> str:
    if token["whole"]:
        return f"{token['whole']}.0e"
    return {"NaN": ".nan", "Infinity": ".inf"}.get(token[0], token[0])


def _escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def _block(plain: Mapping[str, Any], pad: str) -> Iterator[str]:
    """Return a mapping in block style: a line for each scalar, a line for each item of a list."""
    for key, value in plain.items():
        if isinstance(value, Mapping) and value:
            yield f"{pad}{key}:\n"
            yield from _block(value, pad + "  ")
        elif isinstance(value, list) and value:
            yield f"{pad}{key}:\n"
            for item in value:
                yield f"{pad}- {flow(item)}\n"
        else:
            yield f"{pad}{key}: {flow(value)}\n"


def _source_block(path: str, text: str) -> str:
    """Return one item of `sources:`: its text as a literal block where YAML can hold it, else quoted."""
    if not text.strip("\n") or _UNLIKE_LITERAL.search(text):
        return f"- path: {flow(path)}\n  text: {flow(text)}\n"
    indentation = "2" if text[0] in " \t\n" else ""  # else it is taken from the first line
    body = text.removesuffix("\n")
    ending = "-" if body == text else "+" if body.endswith("\n") else ""
    lines = [f"    {line}" if line else "" for line in body.split("\n")]
    return "\n".join([f"- path: {flow(path)}", f"  text: |{indentation}{ending}", *lines, ""])


# --- from a file to a trace -----------------------------------------------------------------------

_STEPS = b"\nsteps:\n"  # a source may contain these words, but is indented or quoted
_NOT_JSON = re.compile(_STRING + r"|\.(?:nan|inf)\b")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# By the first key of an event, which no other kind of event has.
_DECODERS: dict[bytes, tuple[type[Event], Callable[[bytes], Any]]] = {
    b"- " + start: (kind, msgspec.json.Decoder(kind).decode)
    for start, kind in ((b'{"id"', Step), (b'{"fra', Frame), (b'{"omi', Omitted))
}


def load(path: Path) -> Loaded:
    """Read and check a trace file (`.gz`: a compressed file); of a truncated file, return the remaining part.

    Raises `TraceFileError` with the position in the file if it is not a trace that this version reads.
    """
    front, body = _read(path)
    head = _head(front, path)
    check = References(head.sources).check
    steps: list[Event] = []
    unfinished = None
    lines = body.split(b"\n")
    first = front.count(b"\n") + 1
    with collector_paused():
        for number, line in enumerate(lines, first):
            if not line:
                continue
            try:
                event = _event(line)
                check(event)
            except Mismatch as mismatch:
                if number == first + len(lines) - 1:  # without a newline
                    unfinished = f"line {number} is unfinished and was left out"
                    break
                raise mismatch.at(path, f"line {number}") from None
            except RecursionError:
                raise TraceFileError(path, f"line {number}", TOO_DEEP) from None
            steps.append(event)
    if not steps and head.steps is None:
        unfinished = unfinished or "no step follows `steps:`"
    missing = _missing(len(steps), head, unfinished, path)
    return Loaded(_trace(head, steps, missing), (missing,) if missing else ())


def load_head(path: Path) -> Trace:
    """Read a trace file without its steps, which is quick. Raises `TraceFileError` like `load`."""
    front, body = _read(path)
    head = _head(front, path)
    number = body.count(b"\n- ") + body.startswith(b"- ")
    if number != head.events or not body.endswith(b"\n"):  # only the steps show what is missing
        return replace(load(path).trace, steps=[])
    return _trace(head, [], None)


def validate(trace: Trace, path: Path) -> None:
    """Check a trace that was made in memory as `load` checks a file. Raises `TraceFileError` with `path`."""
    position = ""
    try:
        head = converted(Head, {"schema": trace.schema, **to_plain(replace(trace, steps=[]))})
        check_head(head.run, head.machine, head.sources)
        check = References(head.sources).check
        for number, event in enumerate(trace.steps):
            position = f"steps[{number}]"
            check(converted(type(event), to_plain(event)))
    except Mismatch as mismatch:
        raise mismatch.at(path, position) from None


def _read(path: Path) -> tuple[bytes, bytes]:
    """Return the head of a file, up to the line `steps:`, and the lines after it."""
    try:
        if path.is_dir():
            near = sorted(path.glob("trace.yaml")) or sorted(path.glob("*/trace.yaml"))
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TraceFileError(path, None, f"is a folder; expected a trace file{hint}")
        if path.suffix == ".py" and path.is_file():
            raise TraceFileError(path, None, "is a Python file; expected the trace.yaml that `trace-tools trace` wrote")
        if path.exists() and not path.is_file():  # a pipe waits for a writer, and a device may never end
            raise TraceFileError(path, None, "is not a regular file; expected a trace file")
        if path.stat().st_size > LARGEST_BYTES:
            raise TraceFileError(path, None, f"is larger than {LARGEST_BYTES >> 30} GiB, more than any trace")
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            contents = file.read(LARGEST_BYTES + 1)
    except (OSError, EOFError) as error:  # EOFError: its compressed data ends early
        raise TraceFileError(path, None, f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    if len(contents) > LARGEST_BYTES:
        raise TraceFileError(path, None, f"unpacks to more than {LARGEST_BYTES >> 30} GiB, more than any trace")
    if not contents.strip():
        raise TraceFileError(path, None, "is empty; expected a trace")
    contents = contents.replace(b"\r\n", b"\n")
    if contents.endswith(b"\nsteps:"):
        contents += b"\n"
    front, steps, body = contents.partition(_STEPS)
    return front + steps, body


def _head(front: bytes, path: Path) -> Head:
    """Return the checked head of a file."""
    if front.startswith(b"schema: ") and b"\nsteps:" not in front:
        raise TraceFileError(path, None, "the file has no `steps:`, so it may have been cut short")
    try:
        plain = _yaml(front.decode(), path)
        if not isinstance(plain, dict) or "schema" not in plain:
            raise TraceFileError(path, None, "not a trace: expected a mapping that begins with `schema`")
        if plain["schema"] != SCHEMA_VERSION:
            message = f"found {plain['schema']!r:.40}; this version of the tools reads {SCHEMA_VERSION}"
            raise TraceFileError(path, "schema", message)
        head = converted(Head, plain)
        check_head(head.run, head.machine, head.sources)
    except UnicodeDecodeError as error:
        line = front.count(b"\n", 0, error.start) + 1
        raise TraceFileError(path, f"line {line}", "not a trace: found bytes that are not UTF-8") from None
    except Mismatch as mismatch:
        raise mismatch.at(path) from None
    if head.steps:
        raise TraceFileError(path, "steps", "expected one line of JSON for each event, as the tracer writes it")
    return head


def _yaml(text: str, path: Path) -> Any:
    """Read YAML without aliases, of which a few lines can expand to gigabytes, and without endless nesting."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST_HEAD or isinstance(event, yaml.AliasEvent):
                problem = TOO_DEEP if depth > DEEPEST_HEAD else "found an alias; a trace has none"
                raise TraceFileError(path, f"line {getattr(event.start_mark, 'line', 0) + 1}", problem)
        return yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date that does not exist, thousands of digits
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        where = f"line {mark.line + 1}" if mark else None
        raise TraceFileError(path, where, formats.one_line(f"not YAML: {reason}", 300)) from None


def _event(line: bytes) -> Event:
    """Return the event of a line. Raises `Mismatch`."""
    kind, decode = _DECODERS.get(line[:7], (None, None))
    if kind is None or decode is None:
        raise Mismatch('expected a line that begins with `- {"id"`, `- {"frame"` or `- {"omitted"`')
    try:
        event: Event = decode(line[2:])
        return event
    except msgspec.ValidationError as error:
        raise Mismatch.of(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if b".nan" not in line and b".inf" not in line:
            raise Mismatch(str(error)) from None
    try:  # JSON has no such numbers; Python's decoder reads them under other names
        spelled = _NOT_JSON.sub(
            lambda token: {".nan": "NaN", ".inf": "Infinity"}.get(token[0], token[0]), line.decode()
        )
        return converted(kind, json.loads(spelled[2:]))
    except ValueError as error:
        raise Mismatch(str(error)) from None


def _missing(number: int, head: Head, unfinished: str | None, path: Path) -> str | None:
    """Describe the part missing from a truncated file; None for a whole file.

    Raises `TraceFileError` if the file holds more events than its head promises.
    """
    if head.events is not None and number > head.events:
        raise TraceFileError(path, "events", f"found {head.events:,}; expected {number:,}, the number of lines")
    if head.events is not None and number < head.events:
        return f"{CUT_SHORT}: it holds {number:,} of {head.events:,} events"
    return f"{CUT_SHORT}: {unfinished}" if unfinished else None


def _trace(head: Head, steps: list[Event], missing: str | None) -> Trace:
    """Return the loaded trace, marked as partial if some of it is missing."""
    run = head.run
    if missing is not None:
        ended = missing if run.complete or missing in run.ended else f"{run.ended}; {missing}"
        run = replace(run, complete=False, ended=ended)
    return Trace(head.title, run, head.machine, head.versions, head.sources, steps)
