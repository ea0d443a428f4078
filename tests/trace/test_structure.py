"""Plain data ↔ records, compared with `dataclasses.asdict` and records defined here."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.traces import big_trace, example_trace
from trace_tools.errors import TraceFileError
from trace_tools.trace.model import Frame, Measured, Meters, Narrative, Natural, Omitted, Peak, Step, Value, Varied
from trace_tools.trace.structure import from_plain, to_plain
from trace_tools.util.structs import Struct


class Leaf(Struct, frozen=True):
    name: str


class Tree(Struct, frozen=True):
    size: Natural
    share: float
    left: Tree | None = None
    pairs: list[tuple[str, Leaf]] | None = None
    sure: bool = False
    any: bool | int | float | str | None = None


def test_round_trip_omits_default_values() -> None:
    tree = Tree(1, 0.5, Tree(2, 3.0, sure=True), [("b", Leaf("c"))], any=0)
    left = {"size": 2, "share": 3.0, "sure": True}
    plain = {"size": 1, "share": 0.5, "left": left, "pairs": [["b", {"name": "c"}]], "any": 0}
    assert json.loads(json.dumps(to_plain(tree))) == plain and from_plain(Tree, plain, "tree") == tree
    assert to_plain(Tree(0, 0.0, pairs=[], any=False)) == {"size": 0, "share": 0.0, "pairs": [], "any": False}


@pytest.mark.parametrize("event", example_trace().steps[:20])
def test_records_work_with_dataclasses(event: Any) -> None:
    full = json.loads(json.dumps(asdict(event)))  # with default values
    if full.get("narrative"):  # `asdict` does not name the kinds of a union
        full["narrative"] = to_plain(event)["narrative"]
    assert list(full) == [field.name for field in fields(event)] and dataclasses.is_dataclass(event)
    assert repr(from_plain(type(event), full, "event")) == repr(event) == repr(replace(event))
    assert replace(event, frame=7).frame == 7
    with pytest.raises(AttributeError):
        event.frame = 7


def test_schema_errors_name_the_location() -> None:
    for plain, message in [
        ([], "expected a mapping, found a list of 0"),
        (None, "expected a mapping, found null"),
        ({"size": 1}, "the key 'share' is missing"),
        ({"size": True, "share": 1}, "size: expected int, found bool True"),
        ({"size": 1.0, "share": 1}, "size: expected int, found float 1.0"),
        ({"size": -1, "share": 1}, "size: expected int >= 0, found int -1"),
        ({"size": 1, "share": "1"}, "share: expected float, found str '1'"),
        ({"size": 1, "share": True}, "share: expected float, found bool True"),
        ({"size": 1, "share": 10**400}, "share: expected a smaller number, found int 1" + "0" * 59 + "…"),
        ({"size": 1, "share": 1, "sure": 0}, "sure: expected bool, found int 0"),
        ({"size": 1, "share": 1, "left": {"size": 1}}, "left: the key 'share' is missing"),
        ({"size": 1, "share": 1, "pairs": [["a", {"name": 1}]]}, "pairs[0][1].name: expected str, found int 1"),
        ({"size": 1, "share": 1, "pairs": [["a"]]}, "pairs[0]: expected a list of length 2, found a list of 1"),
        ({"size": 1, "share": 1, "any": []}, "any: expected bool or int or float or str or null, found a list of 0"),
        ({"size": "\n" * 99, "share": 1}, "size: expected int, found str '" + "\\n" * 29 + "\\…"),
        ({"sise": 1}, "unknown key 'sise'; expected 'size', 'share', 'left', 'pairs', 'sure', 'any'"),
        ({"size": 1, "share": 1, "pairs": [["a", {"names": 1}]]}, "pairs[0][1]: unknown key 'names'; expected 'name'"),
        ({"` - at `$.x": 1}, "unknown key '` - at `$.x'; expected 'size', 'share', 'left', 'pairs', 'sure', 'any'"),
        ({1: 1}, "expected str, found mapping"),
    ]:
        for path in (Path("a/b.yaml"), "a word"):
            with pytest.raises(TraceFileError) as caught:
                from_plain(Tree, plain, path)
            assert str(caught.value) == f"{path}: {message}"


def test_the_example_trace_uses_almost_every_field() -> None:
    """Tests that use the example trace then cover almost all fields."""
    plain_text = repr(to_plain(example_trace()))
    for cls in (Step, Frame, Omitted, Value, Meters, Measured, *get_args(Narrative), Varied, Peak):
        missing = {f.name for f in fields(cls) if f"'{f.name}'" not in plain_text}
        ranks = {"collectives"}  # only with several ranks
        pandas = {"labels"}  # only from pandas: tests/describing/test_arrays.py
        assert missing <= {"source", "svg", "narrow", "note", "start", "end", *ranks, *pandas}


def test_a_big_trace_is_reproducible() -> None:
    assert big_trace(200) == big_trace(200)
