"""Write a Trace as YAML in one atomic step, and read it back with every field checked.

    write(trace, Path("rendered/cpu/trace.yaml"))
    loaded = load(Path("rendered/cpu/trace.yaml"))
    loaded.trace, loaded.notes  # the Trace, ("the trace file was cut short: it holds 828 of 840 events",)

PyYAML reads the head. msgspec decodes each line of `steps:`, which is JSON, into the event it describes. PyYAML reads
lines that are not JSON (`.nan`, `.inf`, or edited by hand), and whole files with another layout.

The head records in `events` how many events `steps` lists, so that a file without its end is recognised wherever it was
cut. Such a trace is partial: its `run.complete` is False and its `run.ended` holds the reason. Traces of older versions
have no `events`; in these, only a cut inside a line is recognised. Traces of older schemas keep loading: for each old
schema, an upgrade turns its plain data into that of the next schema.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

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
from trace_tools.trace.plain_yaml import TOO_DEEP, careful, flow, head, source_block
from trace_tools.trace.structure import Mismatch, converted, from_plain, to_plain, unlike
from trace_tools.trace.validation import References, check_head
from trace_tools.util.files import replace_file
from trace_tools.util.interpreter import collector_paused
from trace_tools.util.structs import Struct

LARGEST_BYTES = 2**30  # largest file; the tracer's size cap is far smaller
EVENTS = "events"  # the key in a file's head for the number of events that follow
CUT_SHORT = "the trace file was cut short"

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
# schema n → function that turns its plain data into those of n + 1
UPGRADES: Mapping[int, Upgrade] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Loaded:
    """A trace, and the parts missing from its file, as sentences for the terminal; `trace.run` records the same."""

    trace: Trace
    notes: tuple[str, ...] = ()


def dump(trace: Trace) -> str:
    """Return the text of the trace's file; the same trace gives the same text."""
    return "".join(_pieces(trace))


def _pieces(trace: Trace) -> Iterator[str]:
    plain = {"schema": trace.schema, EVENTS: len(trace.steps)} | to_plain(replace(trace, sources=[], steps=[]))
    del plain["sources"], plain["steps"]
    yield head(plain)
    yield "sources:\n" if trace.sources else "sources: []\n"
    for source in trace.sources:
        yield source_block(source.path, source.text)
    yield "steps:\n" if trace.steps else "steps: []\n"
    for event in trace.steps:
        yield f"- {flow(to_plain(event))}\n"


def write(trace: Trace, path: Path) -> None:
    """Write the trace to `path` so that the path always holds either the old file or the whole new file.

    The folder must exist. Raises `UsageError` if it can't be written (full, read-only, missing); the old file is then
    unchanged, and no other file remains.
    """
    replace_file(path, _pieces(trace), durable=True)


def load(path: Path, *, upgrades: Mapping[int, Upgrade] = UPGRADES) -> Loaded:
    """Read and check a trace file (`.gz`: a compressed file); of a truncated file, return the remaining part.

    Raises `TraceFileError` with the position in the file if it is not a trace that this version reads.
    """
    contents, is_whole = _read(path)
    with collector_paused(), _hinting_at_a_cut(contents, path):
        contents, unfinished = _finished(contents, path)
        try:
            trace, promised = _by_lines(contents, path, upgrades)
        except _OtherLayout:
            trace, promised = _checked_trace(_current(careful(_text(contents, path), path), path, upgrades), path)
    return _loaded(trace, _missing(len(trace.steps), promised, unfinished, path, is_whole=is_whole))


def load_head(path: Path) -> Trace:
    """Read a trace file without its steps, which is quick. Raises `TraceFileError` like `load`."""
    contents, is_whole = _read(path)
    with _hinting_at_a_cut(contents, path):
        contents, unfinished = _finished(contents, path)
        steps = contents.find(b"\nsteps:")  # sources may hold any text, but are indented or quoted
        front = contents[:steps] + b"\nsteps: []\n" if steps >= 0 else contents
        trace, promised = _checked_trace(_current(careful(_text(front, path), path), path, UPGRADES), path)
    head = contents.count(b"\n- {", steps) if steps >= 0 else len(trace.steps)
    if promised is not None and head != promised:  # truncated or laid out by hand; only the steps show which
        return replace(load(path).trace, steps=[])
    return _loaded(trace, _missing(head, promised, unfinished, path, is_whole=is_whole)).trace


def validate(trace: Trace, path: Path) -> None:
    """Check a trace that was made in memory as `load` checks a file. Raises `TraceFileError` with `path`."""
    _checked_trace({"schema": trace.schema, **to_plain(trace)}, path)


# --- from the file's contents to a trace ----------------------------------------------------------

_STEPS = b"\nsteps:\n"
_DECODERS: dict[bytes, Callable[[bytes], Any]] = {  # by how the line of an event starts
    line[:7]: msgspec.json.Decoder(kind).decode
    for line, kind in ((b'- {"id": ', Step), (b'- {"frame": ', Frame), (b'- {"omitted": ', Omitted))
}
_KEYS: dict[str, type[Event]] = {"id": Step, "function": Frame, "omitted": Omitted}  # that no other kind of event has


class Head(Struct, frozen=True, kw_only=True):
    """A trace file as far as msgspec can check it at once; the class of each step is checked later."""

    schema: int
    events: Natural | None = None  # how many `steps` lists
    title: str
    run: Run
    machine: Machine
    versions: list[tuple[str, str]]
    sources: list[SourceFile]
    steps: list[Any] | None  # None: the lines that follow


class _OtherLayout(Exception):
    """Raised if `steps:` does not have one event on each line, so that only PyYAML can read the file."""


def _by_lines(contents: bytes, path: Path, upgrades: Mapping[int, Upgrade]) -> tuple[Trace, int | None]:
    """Return the trace in a file laid out as `write` does, and the number of events that its head promises."""
    front, mark, body = contents.partition(_STEPS)
    try:
        plain = careful(_text(front + mark, path), path) if mark else None
    except TraceFileError:
        raise _OtherLayout from None  # a quoted text may reach from the head into the steps
    if not isinstance(plain, dict) or plain.get("steps", ()) is not None:
        raise _OtherLayout
    first = front.count(b"\n") + 3
    lines = ((n, line) for n, line in enumerate(BytesIO(body), first) if line != b"\n" and line[:1] != b"#")
    if plain.get("schema") == SCHEMA_VERSION:
        return _checked_trace(plain, path, lines)
    plain["steps"] = [_plain_of(line, path) for _, line in lines]
    return _checked_trace(_current(plain, path, upgrades), path)


def _checked_trace(
    plain: dict[str, Any], path: Path, lines: Iterable[tuple[int, bytes]] | None = None
) -> tuple[Trace, int | None]:
    """Return the trace in plain data, whose steps may be given as lines, and the number of events that it promises."""
    head = from_plain(Head, plain, path)
    check_head(head.run, head.machine, head.sources, path)
    check = References(head.sources).check
    events: Iterable[tuple[int | None, object]] = lines or ((None, event) for event in head.steps or ())
    steps: list[Event] = []
    for line, item in events:
        try:
            event = _event(item, path)
            check(event)
        except Mismatch as mismatch:
            mismatch.parts.append(f".steps[{len(steps)}]")
            raise mismatch.at(path, line) from None
        except RecursionError:
            raise TraceFileError(path, f"line {line}" if line else None, TOO_DEEP) from None
        steps.append(event)
    return Trace(head.title, head.run, head.machine, head.versions, head.sources, steps), head.events


def _event(item: object, path: Path) -> Event:
    """Return the event of a line, or of plain data. Raises `Mismatch`, or `_OtherLayout` for another kind of line."""
    if isinstance(item, bytes):
        decode = _DECODERS.get(item[:7])
        try:
            if decode is not None:
                event: Event = decode(item[2:])
                return event
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # errors in it, if any, are reported below
        item = _plain_of(item, path)
    if not isinstance(item, dict):
        raise Mismatch(unlike("expected a mapping", item))
    for key, kind in _KEYS.items():
        if key in item:
            return converted(kind, item)
    raise Mismatch(f"expected one of the keys {', '.join(map(repr, _KEYS))}")


def _plain_of(line: bytes, path: Path) -> Any:
    """Return the plain data of one line of `steps:`. Raises `_OtherLayout` if it is not a single list item."""
    if not line.startswith(b"- {"):
        raise _OtherLayout
    try:
        return msgspec.json.decode(line[2:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        items = careful(line.decode(), path)
    except (TraceFileError, UnicodeDecodeError):
        raise _OtherLayout from None
    if not isinstance(items, list) or len(items) != 1:
        raise _OtherLayout
    return items[0]


def _finished(contents: bytes, path: Path) -> tuple[bytes, str | None]:
    """Return contents with Unix newlines and without an unfinished event, and the evidence that their end is missing.

    An unfinished line has no newline, and can't be read.
    """
    contents = contents.replace(b"\r\n", b"\n").removesuffix(b"\r")
    if contents.endswith((_STEPS, b"\nsteps:")):
        return contents.removesuffix(b"\n") + b"\n", "no step follows `steps:`"
    kept, _, last = contents.rpartition(b"\n")
    if not last or not b"- {".startswith(last[:3]) or _STEPS not in kept + b"\n":
        return contents, None
    try:
        _plain_of(last, path)
    except _OtherLayout:
        number = contents.count(b"\n") + 1
        return kept + b"\n", f"line {number} is unfinished and was left out"
    return contents + b"\n", None


def _text(contents: bytes, path: Path) -> str:
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # cut short inside a character
            return contents[: error.start].decode()
        line = contents.count(b"\n", 0, error.start) + 1
        raise TraceFileError(path, f"line {line}", "not a trace: found bytes that are not UTF-8") from None


@contextmanager
def _hinting_at_a_cut(contents: bytes, path: Path) -> Iterator[None]:
    """Name the likely cause if a file begins like a trace, can't be read, and ends before its steps."""
    try:
        yield
    except TraceFileError as error:
        if not contents.startswith(b"schema: ") or b"\nsteps:" in contents:
            raise
        raise TraceFileError(
            path, error.where, f"{error.message}; the file has no `steps:`, so it may have been cut short"
        ) from None


def _missing(number: int, promised: int | None, unfinished: str | None, path: Path, *, is_whole: bool) -> str | None:
    """Describe the part missing from a truncated file; None for a whole file.

    Raises `TraceFileError` if the file holds more events than its head promises.
    """
    listed = number + (1 if unfinished and number else 0)
    if promised is not None and listed > promised:
        raise TraceFileError(path, EVENTS, f"found {promised:,}; expected {listed:,}, the number of events in `steps`")
    if promised is not None and number < promised:
        return f"{CUT_SHORT}: it holds {number:,} of {promised:,} events"
    if unfinished:
        return f"{CUT_SHORT}: {unfinished}"
    return None if is_whole else f"{CUT_SHORT}: its compressed data ends early"


def _loaded(trace: Trace, missing: str | None) -> Loaded:
    """Return the loaded trace, marked as partial if some of it is missing."""
    if missing is None:
        return Loaded(trace)
    run = trace.run
    ended = missing if run.complete or missing in run.ended else f"{run.ended}; {missing}"
    return Loaded(replace(trace, run=replace(run, complete=False, ended=ended)), (missing,))


def _read(path: Path) -> tuple[bytes, bool]:
    """Return the contents of a file, and whether its compressed data was complete."""
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
        contents, is_whole = path.read_bytes(), True
    except OSError as error:
        raise TraceFileError(path, None, f"can't be read: {error.strerror or error}") from None
    if path.suffix == ".gz":
        unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            contents = unpacker.decompress(contents, LARGEST_BYTES + 1)
        except zlib.error as error:
            raise TraceFileError(path, None, f"can't be unpacked: {error}") from None
        if len(contents) > LARGEST_BYTES:
            raise TraceFileError(path, None, f"unpacks to more than {LARGEST_BYTES >> 30} GiB, more than any trace")
        if unpacker.unused_data.strip(b"\0"):
            raise TraceFileError(path, None, "can't be unpacked: more data follows the compressed trace")
        is_whole = unpacker.eof
    if not contents or contents.isspace():
        raise TraceFileError(path, None, "is empty; expected a trace")
    return contents, is_whole


def _current(plain: Any, path: Path, upgrades: Mapping[int, Upgrade]) -> dict[str, Any]:
    """Return the plain data of a trace of any known schema, upgraded to the current schema."""
    if not isinstance(plain, dict):
        raise TraceFileError(path, None, f"not a trace: {unlike('expected a mapping', plain)}")
    version = plain.get("schema")
    if type(version) is not int or version < 0:
        raise TraceFileError(path, "schema", unlike("expected the number of a trace's schema", version))
    if version > SCHEMA_VERSION:
        message = f"made by a newer version: schema {version}; this version reads up to {SCHEMA_VERSION}"
        raise TraceFileError(path, "schema", message)
    for older in range(version, SCHEMA_VERSION):
        if older not in upgrades:
            raise TraceFileError(
                path, "schema", f"found {older}; this version reads {SCHEMA_VERSION} and can't upgrade from it"
            )
        plain = upgrades[older](plain) | {"schema": older + 1}
    return dict(plain)
