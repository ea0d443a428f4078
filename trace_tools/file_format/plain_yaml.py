"""Plain data ↔ the YAML of a trace: a head in block style for people, then one JSON object a line.

Every line written here reads the same as JSON and as YAML 1.1: floats carry a dot and a signed
exponent, strings are double-quoted, and the few characters YAML cannot hold are escaped.
(PyYAML's reader and scanner are the reference for what that means: it reads `1e-06` as a string.)

    flow({"id": 14, "host_ns": [1100], "share": 1e-06})  # '{"id": 14, "host_ns": [1100], "share": 1.0e-06}'
    head({"title": "Accounting", "run": {"seed": 0}})    # 'title: "Accounting"\\nrun:\\n  seed: 0\\n'
    parse(text, Path("trace.yaml"))                      # ({"schema": 1, …, "steps": [{"frame": 0, …}, …]}, [])

What is read is the same that any stock YAML loader gives, much sooner. The head goes through PyYAML's safe
loader; a step line in the form written here costs one JSON parse; one in another form (edited by hand) is read
as YAML by itself; and when the file is laid out otherwise all of it goes through PyYAML. What could be a trick is
refused on every way: aliases (a few lines can stand for gigabytes), tags, keys given twice, nesting without end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from trace_tools import formats
from trace_tools.errors import TraceFileError

_STRING = r'"(?:[^"\\]++|\\.)*+"'  # one JSON string, possessive: a long one costs no backtracking

# --- plain data → text ----------------------------------------------------------------------------

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_SPELLED_OTHERWISE = re.compile(_STRING + r"|(?<![.0-9])(?P<whole>[0-9]+)e|NaN|Infinity")
_UNLIKE_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_UNLIKE_LITERAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def flow(plain: Any) -> str:
    """Return `plain` on one line.

    A lone surrogate, which no UTF-8 file can hold, is written as the six characters of its escape
    (`\\ud800` as text), so that different strings stay different.
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


def head(plain: Mapping[str, Any], indent: int = 0) -> str:
    """Return a mapping in block style: a line for each scalar, a line for each item of a list."""
    return "".join(f"{line}\n" for line in _block(plain, " " * indent))


def _block(plain: Mapping[str, Any], pad: str) -> Iterator[str]:
    for key, value in plain.items():
        if isinstance(value, Mapping) and value:
            yield f"{pad}{key}:"
            yield from _block(value, pad + "  ")
        elif isinstance(value, list) and value:
            yield f"{pad}{key}:"
            for item in value:
                yield f"{pad}- {flow(item)}"
        else:
            yield f"{pad}{key}: {flow(value)}"


def source_block(path: str, text: str) -> str:
    """Return one item of `sources:`: its text as a literal block where YAML can hold it, else quoted."""
    return f"- path: {flow(path)}\n  text: {_literal(text)}\n"


def _literal(text: str) -> str:
    if not text.strip("\n") or _UNLIKE_LITERAL.search(text):
        return flow(text)
    indentation = "2" if text[0] in " \t\n" else ""  # else it is taken from the first line
    body = text.removesuffix("\n")
    ending = "-" if body == text else "+" if body.endswith("\n") else ""
    lines = [f"    {line}" if line else "" for line in body.split("\n")]
    return "\n".join([f"|{indentation}{ending}", *lines])


# --- text → plain data ----------------------------------------------------------------------------

DEEPEST = 200  # collections inside collections
TOO_DEEP = "nested too deeply for a trace"
_LIBYAMLS_TOO_DEEP = "exceeded maximum nesting depth"  # since PyYAML 6.0.4, of more than 1,000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STEPS = "\nsteps:\n"
_SURROGATE = re.compile("[\ud800-\udfff]")
# An int that Python refuses to print: more than 4,300 decimal digits, however they are spelled.
_LONG_NUMBER = re.compile(r"[-+]?(?:[0-9_]{4301}|0[xb][0-9a-fA-F_]{3500}|[0-9_]*:[0-9_:]{3500})")
_NOT_FINITE = re.compile(_STRING + r"|\.nan|\.inf|NaN|Infinity")
# In a JSON line: what JSON reads otherwise than YAML, or YAML not at all.
_UNLIKE_JSON = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\\\\u[dD]")
_yaml_float = re.compile(r"-?[0-9]+\.[0-9]+(?:[eE][-+][0-9]+)?").fullmatch


class _OtherForm(ValueError):
    """A line that is not in the form written here."""


def parse(text: str, path: Path) -> tuple[Any, list[str]]:
    """Return the data in `text`, and what had to be left out of it, as sentences.

    Raises `TraceFileError` with `path` and the line where `text` is not YAML or is a trick.
    """
    text, notes = _finished(text.replace("\r\n", "\n"), path)
    plain = _fast(text, path)
    return careful(text, path) if plain is None else plain, notes


def _finished(text: str, path: Path) -> tuple[str, list[str]]:
    """Drop a step line that was cut short: one without a newline at its end that can't be read."""
    if text.endswith((_STEPS, "\nsteps:")):
        return text.removesuffix("\n") + "\n", ["no step follows `steps:`: the file was cut short"]
    kept, _, last = text.rpartition("\n")
    if not last or not "- {".startswith(last[:3]) or _STEPS not in kept + "\n":
        return text, []
    try:
        _step(last, path, as_is=False)
    except (_OtherForm, TraceFileError):
        return kept + "\n", [f"line {text.count(chr(10)) + 1} is unfinished and was left out: the file was cut short"]
    return text + "\n", []


def _fast(text: str, path: Path) -> Any:
    """Return the data in `text`, or None when it is not laid out as here."""
    front, mark, body = text.partition(_STEPS)
    if not mark:
        return None
    try:
        plain = careful(front + _STEPS, path)
        if not isinstance(plain, dict) or "steps" not in plain or plain["steps"] is not None:
            return None
        return plain | {"steps": _step_lines(body, path)}
    except (_OtherForm, TraceFileError):
        return None  # the careful way says what is wrong, with its line


def _step_lines(body: str, path: Path) -> list[Any]:
    as_is = not any(mark in body for mark in ("\x7f", "\t", "\r", "\\ud", "\\uD"))
    steps = []
    for line in body.split("\n"):
        if as_is and line.isascii() and line.startswith("- {"):  # nearly every line, read in as few calls as can be
            try:
                plain, end = _scan(line, 2)
                if end == len(line):
                    steps.append(plain)
                    continue
            except (ValueError, StopIteration):
                pass  # `.nan`, or a line edited by hand
        if line and (line[0] != "#" or _UNLIKE_JSON.search(line)):  # a comment, unless U+2028 ends it, is no step
            steps.append(_step(line, path, as_is=as_is))
    return steps


def _step(line: str, path: Path, *, as_is: bool) -> Any:
    """Read one line of `steps:`; `as_is` promises that an ASCII line has nothing JSON reads otherwise."""
    if not line.startswith("- {"):
        raise _OtherForm
    if (as_is and line.isascii()) or not _UNLIKE_JSON.search(line):
        try:
            return _json(line)
        except ValueError:
            pass  # `.nan`, or a line edited by hand
    items = careful(line, path)
    if not isinstance(items, list) or len(items) != 1:  # U+2028 ends a line, too
        raise _OtherForm
    return items[0]


def _json(line: str) -> Any:
    """Return the object after the dash; raise `ValueError` when it is not one that YAML reads the same."""
    try:
        plain, end = _FINITE.raw_decode(line, 2)
    except ValueError:
        line = _NOT_FINITE.sub(_json_constant, line)
        plain, end = _ALL.raw_decode(line, 2)
    if end != len(line):
        raise _OtherForm
    return plain


def _json_constant(token: re.Match[str]) -> str:
    spelled = {".nan": "NaN", ".inf": "Infinity", "NaN": None, "Infinity": None}.get(token[0], token[0])
    if spelled is None:
        raise _OtherForm  # a string, to YAML
    return spelled


def _float(token: str) -> float:
    if not _yaml_float(token):
        raise _OtherForm  # a string, to YAML
    return float(token)


def _no_constant(token: str) -> float:
    raise _OtherForm


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _OtherForm  # a key given twice
    return mapping


_FINITE: Any = json.JSONDecoder(object_pairs_hook=_mapping, parse_float=_float, parse_constant=_no_constant)
_scan = _FINITE.scan_once
_ALL = json.JSONDecoder(object_pairs_hook=_mapping, parse_float=_float)


def careful(text: str, path: Path) -> Any:
    """Read any YAML with PyYAML's safe loader, having refused aliases, tags, repeated keys and depth."""
    try:
        _refuse_tricks(text, path)
        return yaml.load(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        what = error.problem or error.context
        problem = TOO_DEEP if what == _LIBYAMLS_TOO_DEEP else f"not YAML: {what}"
        raise TraceFileError(path, _line(error.problem_mark), formats.one_line(problem, 300)) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or "it can not be read"
        raise TraceFileError(path, None, f"not YAML: {reason}") from None
    except (ValueError, OverflowError) as error:  # a date that does not exist, a number of thousands of digits
        raise TraceFileError(path, None, formats.one_line(f"not YAML: {error}", 300)) from None


def _line(mark: Any) -> str | None:
    return f"line {mark.line + 1}" if mark else None


def _refuse_tricks(text: str, path: Path) -> None:
    keys: list[set[str] | None] = []  # of each open collection: a mapping's keys, None for a sequence
    key_next: list[bool] = []
    for event in yaml.parse(text, Loader=_LOADER):
        problem = _trick(event)
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            key_next.pop()
        elif isinstance(event, yaml.NodeEvent):
            seen = keys[-1] if keys else None
            if seen is not None and key_next[-1]:
                problem = problem or _key_problem(event, seen)
            if key_next:
                key_next[-1] = not key_next[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
                key_next.append(True)
        if len(keys) > DEEPEST:
            problem = TOO_DEEP
        if problem:
            raise TraceFileError(path, _line(event.start_mark), formats.one_line(problem, 300))


def _trick(event: yaml.Event) -> str | None:
    if isinstance(event, yaml.AliasEvent):
        return f"found an alias, *{event.anchor}; a trace has none"
    if getattr(event, "anchor", None):
        return f"found an anchor, &{event.anchor}; a trace has none"  # type: ignore[attr-defined]
    if getattr(event, "tag", None):
        return f"found a tag, {event.tag}; a trace has none"  # type: ignore[attr-defined]
    if isinstance(event, yaml.ScalarEvent) and _SURROGATE.search(event.value):
        return "found half of a surrogate pair; expected text"
    if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _LONG_NUMBER.match(event.value):
        return "found a number of thousands of digits"
    return None


def _key_problem(event: yaml.NodeEvent, seen: set[str]) -> str | None:
    """Say what is wrong with a mapping's key, and remember it."""
    if not isinstance(event, yaml.ScalarEvent):
        return "found a collection as a key; expected a field's name"
    if event.value in seen:
        return f"found the key {event.value[:40]!r} twice"
    seen.add(event.value)
    return None
