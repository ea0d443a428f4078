"""Convert plain data to the YAML of a trace and back: a head in block style for people, then one JSON object a line.

Every line written here reads the same as JSON and as YAML 1.1: floats carry a dot and a signed exponent, strings are
double-quoted, and the few characters YAML cannot hold are escaped. (PyYAML's reader and scanner are the reference for
what that means: it reads `1e-06` as a string.)

    flow({"id": 14, "host_ns": [1100], "share": 1e-06})  # '{"id": 14, "host_ns": [1100], "share": 1.0e-06}'
    head({"title": "Accounting", "run": {"seed": 0}})    # 'title: "Accounting"\\nrun:\\n  seed: 0\\n'
    careful("a: [1]", Path("trace.yaml"))                # {"a": [1]}

`careful` reads any YAML as PyYAML's safe loader does. It refuses aliases (a few lines can expand to gigabytes), tags,
duplicate keys and endless nesting: a trace has none of these, and they can harm a reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from trace_tools.errors import TraceFileError
from trace_tools.util import formats

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
    if not text.strip("\n") or _UNLIKE_LITERAL.search(text):
        return f"- path: {flow(path)}\n  text: {flow(text)}\n"
    indentation = "2" if text[0] in " \t\n" else ""  # else it is taken from the first line
    body = text.removesuffix("\n")
    ending = "-" if body == text else "+" if body.endswith("\n") else ""
    lines = [f"    {line}" if line else "" for line in body.split("\n")]
    return "\n".join([f"- path: {flow(path)}", f"  text: |{indentation}{ending}", *lines, ""])


# --- text → plain data ----------------------------------------------------------------------------

DEEPEST = 200  # collections inside collections
TOO_DEEP = "nested too deeply for a trace"
_LIBYAMLS_TOO_DEEP = "exceeded maximum nesting depth"  # since PyYAML 6.0.4, of more than 1,000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SURROGATE = re.compile("[\ud800-\udfff]")
# An int that Python refuses to print: more than 4,300 decimal digits, however they are spelled.
_LONG_NUMBER = re.compile(r"[-+]?(?:[0-9_]{4301}|0[xb][0-9a-fA-F_]{3500}|[0-9_]*:[0-9_:]{3500})")


def careful(text: str, path: Path) -> Any:
    """Read any YAML with PyYAML's safe loader, having refused aliases, tags, repeated keys and depth."""
    try:
        _refuse_unsupported(text, path)
        return yaml.load(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        reason = error.problem or error.context
        problem = TOO_DEEP if reason == _LIBYAMLS_TOO_DEEP else f"not YAML: {reason}"
        raise TraceFileError(path, _line(error.problem_mark), formats.one_line(problem, 300)) from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or "it can't be read"
        raise TraceFileError(path, None, f"not YAML: {reason}") from None
    except (ValueError, OverflowError) as error:  # a date that does not exist, a number of thousands of digits
        raise TraceFileError(path, None, formats.one_line(f"not YAML: {error}", 300)) from None


def _line(mark: Any) -> str | None:
    return f"line {mark.line + 1}" if mark else None


def _refuse_unsupported(text: str, path: Path) -> None:
    keys: list[set[str] | None] = []  # of each open collection: a mapping's keys, None for a sequence
    key_next: list[bool] = []
    for event in yaml.parse(text, Loader=_LOADER):
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = f"found an alias, *{event.anchor}; a trace has none"
        elif getattr(event, "anchor", None):
            problem = f"found an anchor, &{event.anchor}; a trace has none"  # type: ignore[attr-defined]
        elif getattr(event, "tag", None):
            problem = f"found a tag, {event.tag}; a trace has none"  # type: ignore[attr-defined]
        elif isinstance(event, yaml.ScalarEvent) and _SURROGATE.search(event.value):
            problem = "found half of a surrogate pair; expected text"
        elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _LONG_NUMBER.match(event.value):
            problem = "found a number with thousands of digits"
        if isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            key_next.pop()
        elif isinstance(event, yaml.NodeEvent):
            fields = keys[-1] if keys else None
            if fields is not None and key_next[-1]:
                if not isinstance(event, yaml.ScalarEvent):
                    problem = problem or "found a collection as a key; expected a field's name"
                elif event.value in fields:
                    problem = problem or f"found the key {event.value[:40]!r} twice"
                else:
                    fields.add(event.value)
            if key_next:
                key_next[-1] = not key_next[-1]
            if isinstance(event, yaml.CollectionStartEvent):
                keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
                key_next.append(True)
        if len(keys) > DEEPEST:
            problem = TOO_DEEP
        if problem:
            raise TraceFileError(path, _line(event.start_mark), formats.one_line(problem, 300))
