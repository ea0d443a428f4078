"""Plain data → the YAML of a trace: a head in block style for people, then one JSON object a line.

Every line written here reads the same as JSON and as YAML 1.1: floats carry a dot and a signed
exponent, strings are double-quoted, and the few characters YAML cannot hold are escaped.
(PyYAML's reader and scanner are the reference for what that means: it reads `1e-06` as a string.)

    flow({"id": 14, "host_ns": [1100], "share": 1e-06})  # '{"id": 14, "host_ns": [1100], "share": 1.0e-06}'
    head({"title": "Accounting", "run": {"seed": 0}})    # 'title: "Accounting"\\nrun:\\n  seed: 0\\n'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

STRING = r'"(?:[^"\\]++|\\.)*+"'  # one JSON string, possessive: a long one costs no backtracking

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_SPELLED_OTHERWISE = re.compile(STRING + r"|(?<![.0-9])(?P<whole>[0-9]+)e|NaN|Infinity")
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
