"""The trace file: a Trace → YAML in one atomic step, and back with everything checked.

    write(trace, Path("rendered/cpu/trace.yaml"))
    loaded = load(Path("rendered/cpu/trace.yaml"))
    loaded.trace, loaded.notes  # the Trace, ("line 812 is unfinished and was left out: …",)

Traces of older schemas keep loading: an upgrade for each turns its plain data into the next one's.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trace_tools.errors import TraceFileError
from trace_tools.file_format.plain_yaml import TOO_DEEP, flow, head, parse, source_block
from trace_tools.file_format.structure import from_plain, to_plain, unlike
from trace_tools.file_format.validation import validate
from trace_tools.files import replace as replace_file
from trace_tools.garbage import collector_paused
from trace_tools.schema import SCHEMA_VERSION, Trace

LARGEST_BYTES = 2**30  # of a file: the tracer's size cap lies far below

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
UPGRADES: Mapping[int, Upgrade] = MappingProxyType({})  # schema n → how its plain data become those of n + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """A trace, and what the file no longer had of it, as sentences for its reader."""

    trace: Trace
    notes: tuple[str, ...] = ()


def dump(trace: Trace) -> str:
    """Return the text of the trace's file; the same trace gives the same text."""
    return "".join(_pieces(trace))


def _pieces(trace: Trace) -> Iterator[str]:
    plain = {"schema": trace.schema} | to_plain(replace(trace, sources=[], steps=[]))
    del plain["sources"], plain["steps"]
    yield head(plain)
    yield "sources:\n" if trace.sources else "sources: []\n"
    for source in trace.sources:
        yield source_block(source.path, source.text)
    yield "steps:\n" if trace.steps else "steps: []\n"
    for event in trace.steps:
        yield f"- {flow(to_plain(event))}\n"


def write(trace: Trace, path: Path) -> None:
    """Write the trace to `path` so that at every moment there is the old file or the whole new one.

    The folder must exist. Raises `UsageError` when it can't be written (full, read-only, missing);
    what was there before is then untouched, and nothing else is left behind.
    """
    replace_file(path, _pieces(trace), durable=True)


def load(path: Path, *, upgrades: Mapping[int, Upgrade] = UPGRADES) -> Loaded:
    """Read a trace file (`.gz`: a compressed one), checking everything; an unfinished last line is left out and noted.

    Raises `TraceFileError` with the place in the file when it is not a trace this version reads.
    """
    text = _read(path)
    with collector_paused():
        try:
            plain, notes = parse(text, path)
            trace = from_plain(Trace, _current(plain, path, upgrades), path)
            validate(trace, path)
        except RecursionError:
            raise TraceFileError(path, None, TOO_DEEP) from None
    return Loaded(trace, tuple(notes))


def load_head(path: Path) -> Trace:
    """Read a trace file without its steps, which is quick. Raises `TraceFileError` like `load`."""
    text = _read(path)
    steps = text.find("\nsteps:")  # sources, which may hold anything, are indented or quoted
    head = text[:steps] + "\nsteps: []\n" if steps >= 0 else text
    plain, _ = parse(head, path)
    return from_plain(Trace, _current(plain, path, UPGRADES), path)


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            near = sorted(path.glob("trace.yaml")) or sorted(path.glob("*/trace.yaml"))
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TraceFileError(path, None, f"is a folder; expected a trace file{hint}")
        if path.suffix == ".py" and path.is_file():
            raise TraceFileError(path, None, "is Python; expected the trace.yaml that `trace` made of it")
        if path.exists() and not path.is_file():  # a pipe waits for a writer, and a device may never end
            raise TraceFileError(path, None, "is no regular file; expected a trace file")
        if path.stat().st_size > LARGEST_BYTES:
            raise TraceFileError(path, None, f"is larger than {LARGEST_BYTES >> 30} GiB; no trace is")
        contents = path.read_bytes()
        if path.suffix == ".gz":
            contents = _unpacked(contents, path)
    except OSError as error:
        raise TraceFileError(path, None, f"can't be read: {error.strerror or error}") from None
    if not contents.strip():
        raise TraceFileError(path, None, "is empty; expected a trace")
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # cut short inside a character, so inside a line
            return contents[: error.start].decode()
        line = contents.count(b"\n", 0, error.start) + 1
        raise TraceFileError(path, f"line {line}", "not a trace: found bytes that are not UTF-8") from None


def _unpacked(contents: bytes, path: Path) -> bytes:
    """Return what was compressed, as a store keeps traces; never more than a trace may have."""
    try:
        with gzip.open(io.BytesIO(contents)) as file:
            unpacked = file.read(LARGEST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceFileError(path, None, f"can't be unpacked: {error}") from None
    if len(unpacked) > LARGEST_BYTES:
        raise TraceFileError(path, None, f"unpacks to more than {LARGEST_BYTES >> 30} GiB; no trace is as large")
    return unpacked


def _current(plain: Any, path: Path, upgrades: Mapping[int, Upgrade]) -> dict[str, Any]:
    """Return the plain data of a trace of any known schema as those of today's."""
    if not isinstance(plain, dict):
        raise TraceFileError(path, None, f"not a trace: {unlike('a mapping', plain)}")
    version = plain.get("schema")
    if type(version) is not int or version < 0:
        raise TraceFileError(path, "schema", unlike("the number of a trace's schema", version))
    if version > SCHEMA_VERSION:
        message = f"made by a newer version; schema {version}, this reads up to {SCHEMA_VERSION}"
        raise TraceFileError(path, "schema", message)
    for older in range(version, SCHEMA_VERSION):
        if older not in upgrades:
            raise TraceFileError(
                path, "schema", f"found {older}; this reads {SCHEMA_VERSION} and cannot upgrade from it"
            )
        plain = upgrades[older](plain) | {"schema": older + 1}
    return dict(plain)
