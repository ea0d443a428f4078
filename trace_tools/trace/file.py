r"""Write a trace as YAML in one atomic step, and read it back with every field checked.

    write(trace, Path("rendered/cpu/trace.yaml"))
    load(Path("rendered/cpu/trace.yaml"))   # the trace; of a truncated file, with what remains of it

The head is YAML for people. Each event after it is one line, the same in JSON and in YAML 1.1: floats carry a dot and a
signed exponent (PyYAML reads `1e-06` as a string), texts are in double quotes, and the few characters that YAML cannot
hold are escaped. So any YAML loader reads the file, and msgspec decodes 100,000 lines in a second. The lines are not to
be laid out in another way.

The records of `model` check themselves; here events are checked against earlier ones, because a step precedes the
frames of the calls made inside it, and a frame its steps. All texts but the source and output become visible when they
are read, so that whoever shows them need not look for control characters, or characters that reorder text.

The head records in `events` how many events `steps` lists, so that a file without its end is recognised wherever it was
cut. Such a trace is partial: its `run.complete` is False and its `run.ended` holds the reason.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from trace_tools.errors import TraceFileError
from trace_tools.trace.model import (
    CUT_SHORT,
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
from trace_tools.trace.records import Struct, to_plain
from trace_tools.util import formats
from trace_tools.util.files import replace_file
from trace_tools.util.interpreter import collector_paused


class Head(Struct, frozen=True, kw_only=True):
    """All of a trace file but its events."""

    schema: int
    events: Natural  # how many `steps` lists
    title: str
    run: Run
    machine: Machine
    versions: list[tuple[str, str]]
    sources: Annotated[list[SourceFile], msgspec.Meta(min_length=1, max_length=1)]
    steps: Annotated[list[Any], msgspec.Meta(max_length=0)] | None  # they are the lines that follow


# --- from a trace to text -------------------------------------------------------------------------

_STRING = r'"(?:[^"\\]++|\\.)*+"'  # one JSON string, possessive: a long one costs no backtracking
_SPELLED_OTHERWISE = re.compile(_STRING + r"|(?<![.0-9])(?P<whole>[0-9]+)e|NaN|Infinity")
_UNLIKE_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_UNLIKE_LITERAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def write(trace: Trace, path: Path) -> None:
    """Write the trace to `path` so that the path always holds either the old file or the whole new file.

    The folder must exist. Raises `TraceFileError` if the file could not be read back, `UsageError` if it can't be
    written (full, read-only, missing); the old file is then unchanged, and no other file remains.
    """
    content = dump(trace).encode()
    deque(_records(BytesIO(content), path), maxlen=0)
    replace_file(path, content, durable=True)


def dump(trace: Trace) -> str:
    """Return the text of the trace's file; the same trace gives the same text."""
    plain = {"schema": trace.schema, "events": len(trace.steps)} | to_plain(replace(trace, steps=[]))
    del plain["source"], plain["steps"]
    head = [*_block(plain, ""), "sources:\n", _source_block(trace.source.path, trace.source.text)]
    head.append("steps:\n" if trace.steps else "steps: []\n")
    return "".join(chain(head, (f"- {flow(to_plain(event))}\n" for event in trace.steps)))


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
    """Return a mapping in block style, with a line for each scalar, and for each item of a list."""
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
    """Return the item of `sources:`: its text as a literal block where YAML can hold it, else quoted."""
    if not text.strip("\n") or _UNLIKE_LITERAL.search(text):
        return f"- path: {flow(path)}\n  text: {flow(text)}\n"
    indentation = "2" if text[0] in " \t\n" else ""  # else it is taken from the first line
    body = text.removesuffix("\n")
    ending = "-" if body == text else "+" if body.endswith("\n") else ""
    lines = [f"    {line}" if line else "" for line in body.split("\n")]
    return "\n".join([f"- path: {flow(path)}", f"  text: |{indentation}{ending}", *lines, ""])


# --- from a file to a trace -----------------------------------------------------------------------

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Lines that the fast decoder would read with invisible characters, or not at all: escapes, UTF-8 of characters that
# `formats.visible` writes as escapes, and numbers that JSON lacks and Python's decoder reads under other names.
_UNUSUAL = re.compile(
    rb"\\[bfru]|\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf"
    rb"|\xef\xbf[\xb9-\xbf]|\.nan|\.inf"
)
_NOT_JSON = re.compile(_STRING + r"|\.(?:nan|inf)\b")
# By the first key of an event, which no other kind of event has.
_KINDS: dict[bytes, type[Event]] = {b'- {"id"': Step, b'- {"fra': Frame, b'- {"omi': Omitted}
_DECODERS = {start: msgspec.json.Decoder(kind) for start, kind in _KINDS.items()}


def load(path: Path) -> Trace:
    """Read and check a trace file; of a truncated file, return the remaining part.

    Raises `TraceFileError` with the position in the file if it is not a trace that this version reads.
    """
    return parse(_lines(path), path)


def load_head(path: Path) -> Head:
    """Read a trace file without its events, which is quick. Raises `TraceFileError` like `load`."""
    return _head(_front(_lines(path)), path)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as lines:
            yield from lines
    except OSError as error:
        raise TraceFileError(path, None, f"can't be read: {error.strerror or error}") from None


def parse(lines: Iterator[bytes], path: Path) -> Trace:
    """Return the trace in the lines of a file. Raises `TraceFileError` like `load`."""
    with collector_paused():
        head, *events = _records(lines, path)
    run = head.run
    if len(events) > head.events:
        raise TraceFileError(path, "events", f"found {head.events:,}; expected {len(events):,}, the number of lines")
    if len(events) < head.events:
        missing = f"{CUT_SHORT}: it holds {len(events):,} of {head.events:,} events"
        ended = missing if run.complete or missing in run.ended else f"{run.ended}; {missing}"
        run = replace(run, complete=False, ended=ended)
    return Trace(head.title, run, head.machine, head.versions, head.sources[0], events)


def _records(lines: Iterator[bytes], path: Path) -> Iterator[Any]:
    """Yield the checked head of a file, then its checked events; an unfinished last line is left out."""
    front = _front(lines)
    head = _head(front, path)
    yield head
    check, count = _Sequence(head.sources[0].text).check, 0
    for number, line in enumerate(lines, len(front) + 1):
        if not line.strip():
            continue
        try:
            event = _event(line)
            check(event)
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n") and count < head.events:  # it is the last, and unfinished
                return
            raise TraceFileError(path, f"line {number}", formats.one_line(str(error), 300)) from None
        count += 1
        yield event


def _front(lines: Iterator[bytes]) -> list[bytes]:
    """Return the lines of a file up to `steps:`, and take no others."""
    front: list[bytes] = []
    for line in lines:
        front.append(line)
        if line.rstrip(b"\r\n") == b"steps:":  # a source may contain this word, but is indented or quoted
            break
    return front


def _head(front: list[bytes], path: Path) -> Head:
    """Return the checked head of a file."""
    try:
        plain = yaml.load(b"".join(front).decode(), Loader=_LOADER)
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if schema != SCHEMA_VERSION:
            found = "no schema" if schema is None else f"the schema {schema!r:.40}"
            raise ValueError(f"found {found}; this version of the tools reads schema {SCHEMA_VERSION}")
        msgspec.convert(plain, Head)  # before its texts are read: in other YAML a list may contain itself
        return msgspec.convert(_visible(plain), Head)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        where, why = f"line {mark.line + 1}" if mark else None, f"not a trace: {reason}"
    except (ValueError, OverflowError) as error:  # also a date that does not exist, thousands of digits, not UTF-8
        where, why = None, str(error) if isinstance(error, msgspec.ValidationError) else f"not a trace: {error}"
    raise TraceFileError(path, where, formats.one_line(why, 300))


def _event(line: bytes) -> Event:
    """Return the event of a line. Raises ValueError."""
    start = line[:7]
    if start not in _KINDS:
        raise ValueError('expected a line that begins with `- {"id"`, `- {"frame"` or `- {"omitted"`')
    if not _UNUSUAL.search(line):
        return _DECODERS[start].decode(line[2:])
    spelled = _NOT_JSON.sub(lambda token: {".nan": "NaN", ".inf": "Infinity"}.get(token[0], token[0]), line.decode())
    return msgspec.convert(_visible(json.loads(spelled[2:])), _KINDS[start])


def _visible(plain: Any) -> Any:
    """Make the texts in plain data visible, except the source, which is parsed, and output, which a terminal shows."""
    if isinstance(plain, dict):
        raw = ("stdout", "sources")
        return {_visible(key): value if key in raw else _visible(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [*map(_visible, plain)]
    return formats.visible(plain) if isinstance(plain, str) else plain


class _Sequence:
    """Checks events, in order, against the source and the events before them."""

    def __init__(self, source: str) -> None:
        text = source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        self._lines = text.count("\n") + 1
        # An upper bound of its statements and cells: each needs two characters. Counting them takes a parser of the
        # Python version that ran.
        self._statements = len(text) // 2 + 2
        self._frames: set[int] = set()
        self._steps: set[int] = set()

    def check(self, event: Event) -> None:
        """Raise ValueError if the next event refers to one that does not exist."""
        if isinstance(event, Frame):
            if event.frame in self._frames:
                raise ValueError(f"found {event.frame}; expected a number that no earlier frame has - at `$.frame`")
            if event.of is not None and event.of not in self._steps:
                raise ValueError(f"found {event.of}; expected a step that comes before - at `$.of`")
            self._frames.add(event.frame)
            return
        if event.frame not in self._frames:
            raise ValueError(f"found {event.frame}; expected a frame that comes before - at `$.frame`")
        if event.line > self._lines:
            raise ValueError(f"found {event.line}; expected 1 to {self._lines} - at `$.line`")
        if event.statement >= self._statements:
            raise ValueError(f"found {event.statement}; expected 0 to {self._statements - 1} - at `$.statement`")
        if isinstance(event, Step):
            if event.id in self._steps:
                raise ValueError(f"found {event.id}; expected a number that no earlier step has - at `$.id`")
            self._steps.add(event.id)
