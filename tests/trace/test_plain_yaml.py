"""Plain data ↔ YAML: PyYAML's pure and C loaders must read the data that was written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_tools.errors import TraceFileError
from trace_tools.trace import plain_yaml
from trace_tools.trace.plain_yaml import careful, flow, head, source_block

TRACE = Path("trace.yaml")
LOADERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]

# Characters and words that JSON, YAML 1.1, PyYAML or libyaml treat specially.
NASTY = [chr(c) for c in [*range(0x21), 0x7F, 0x80, 0x85, 0x9F, 0xA0, 0x2028, 0x2029, 0xD7FF, 0xE000, 0xFEFF, 0xFFFD]]
NASTY += [chr(c) for c in (0xFFFE, 0xFFFF, 0x10000, 0x1F600, 0x1FFFE, 0x10FFFF)]
NASTY += list("\"'\\/:#-?,[]{}&*!|>%@`~=<.e+0")
WORDS = [
    "yes",
    "null",
    "~",
    "on",
    "1e5",
    "1e-06",
    "0x1F",
    "017",
    "12:30:00",
    "1_000",
    ".nan",
    "-.inf",
    "NaN",
    "<<",
    "=",
]
WORDS += [
    "2025-01-31",
    "---",
    "...",
    "- {",
    "\\ud800",
    "C:\\udata",
    '": "',
    "# no comment",
    "!!str",
    "&a",
    "*a",
    "steps:\n",
]

texts = st.one_of(
    st.text(max_size=20),
    st.text(st.sampled_from(NASTY), max_size=12),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from([*WORDS, *NASTY]), max_size=6).map("".join),
    st.sampled_from(NASTY).map(lambda character: character * 3_000),
)
ODD_FLOATS = [-0.0, 1e-06, 1e16, 1e22, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 1.5e-7, 1e100]
ODD_INTS = [2**53 + 1, 2**64, -(2**64), 10**400, 0, -1]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(ODD_INTS), st.floats(), st.sampled_from(ODD_FLOATS), texts
)
keys = st.sampled_from(["id", "value", "line", "host_ns", "type"])
nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
events = st.lists(st.dictionaries(keys, nested, min_size=1, max_size=5), min_size=1, max_size=4)

quick = settings(
    deadline=None, derandomize=True, database=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow]
)


def read_by_each_loader(text: str) -> list[Any]:
    """Return the data that PyYAML's loaders and ours read. PyYAML gets bytes, as from a file."""
    return [*(yaml.load(text.encode(), loader) for loader in LOADERS), careful(text, TRACE)]


@pytest.mark.slow
@quick
@given(front=st.dictionaries(keys, nested, min_size=1, max_size=3), source=texts, steps=events)
def test_every_loader_reads_the_written_data(front: dict[str, Any], source: str, steps: list[dict[str, Any]]) -> None:
    lines = "".join(f"- {flow(step)}\n" for step in steps)
    text = head({"head": front}) + "sources:\n" + source_block("a.py", source) + "steps:\n" + lines
    expected = {"head": front, "sources": [{"path": "a.py", "text": source}], "steps": steps}
    for data in read_by_each_loader(text):
        assert repr(data) == repr(expected)  # `repr` distinguishes 1, 1.0, True and 0.0, -0.0; nan equals nan


SOURCE_PIECES = [
    "x = 1",
    " ",
    "  ",
    "\t",
    "\n",
    "\n",
    "\n\n",
    "# ",
    "'",
    '"',
    "|",
    "---\n",
    "...\n",
    "é",
    "\u2028",
    "\r\n",
    "\x0c",
]


@pytest.mark.slow
@settings(quick, max_examples=400)
@given(source=st.lists(st.sampled_from(SOURCE_PIECES), max_size=8).map("".join))
def test_sources_survive_a_round_trip(source: str) -> None:
    text = "sources:\n" + source_block("a.py", source) + source_block("b.py", source) + "steps:\n- {}\n"
    for data in read_by_each_loader(text):
        assert [block["text"] for block in data["sources"]] == [source, source]


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("x\n", "|"),
        ("x", "|-"),
        ("x\n\n", "|+"),
        ("  x\n", "|2"),
        ("\n\tx", "|2-"),
        ("x  \n\n  \ny\n", "|"),
        ("x = 'α → β'\n", "|"),
        ("", '""'),
        ("\n", '"\\n"'),
        ("x\r\ny\n", '"x\\r\\ny\\n"'),
        ("x\x0c\ny\x85", '"x\\f\\ny\\u0085"'),
        ("\ufeffx\n", '"\\ufeffx\\n"'),
        ("\u2028", '"\\u2028"'),
        ("\ud800", '"\\\\ud800"'),
    ],
)
def test_sources_are_literal_blocks_where_possible(source: str, header: str) -> None:
    assert source_block("a.py", source).split("\n")[1] == f"  text: {header}"


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        (1e-06, "1.0e-06"),
        (-1e16, "-1.0e+16"),
        (1.5e-07, "1.5e-07"),
        ([math.nan, math.inf, -math.inf], "[.nan, .inf, -.inf]"),
        (["1e-06", "NaN", 'a "1e-06" b'], '["1e-06", "NaN", "a \\"1e-06\\" b"]'),
        ("\x00\x1f\x7f\x80\u2028\ufeff\uffff", '"\\u0000\\u001f\\u007f\\u0080\\u2028\\ufeff\\uffff"'),
        ("é/\U0001f600", '"é/\U0001f600"'),
        ("\udcff", '"\\\\udcff"'),
        ({"a": None, "b": True}, '{"a": null, "b": true}'),
    ],
)
def test_spelling_of_values(plain: Any, line: str) -> None:
    assert flow(plain) == line


def test_very_long_strings_survive_a_round_trip() -> None:
    value = ['\\"e-' * 200_000, 1e-06]
    assert yaml.load(flow({"value": value}), LOADERS[1]) == {"value": value}


@pytest.mark.parametrize("loader", LOADERS)
def test_half_a_surrogate_pair_is_refused(monkeypatch: pytest.MonkeyPatch, loader: type[yaml.SafeLoader]) -> None:
    monkeypatch.setattr(plain_yaml, "_LOADER", loader)
    with pytest.raises(TraceFileError, match=r"^trace\.yaml: line 3: "):
        careful('title: x\nsteps:\n- {"a": "\\ud83d"}\n', TRACE)


def test_ordinary_lines_are_valid_json() -> None:
    assert json.loads(flow({"a": [1, 2.5, "\x7f\u2028é"]})) == {"a": [1, 2.5, "\x7f\u2028é"]}
