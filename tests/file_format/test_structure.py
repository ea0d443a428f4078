"""Plain data ↔ dataclasses: `dataclasses.asdict` and small classes of its own are the oracle."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from tests.traces import big_trace, example_trace
from trace_tools.errors import TraceFileError
from trace_tools.file_format.structure import from_plain, to_plain
from trace_tools.schema import Frame, Measured, Meters, Narrative, Omitted, Peak, Step, Trace, Value, Varied


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str


@dataclass(frozen=True, slots=True)
class Tree:
    size: int
    share: float
    left: Tree | None = None
    leaves: list[Leaf] = field(default_factory=list)
    pairs: list[tuple[str, Leaf]] | None = None
    sure: bool = False
    any: bool | int | float | str | None = None


def read(cls: type[Any], plain: Any) -> Any:
    return from_plain(cls, plain, "tree")


def error(cls: type[Any], plain: Any) -> str:
    with pytest.raises(TraceFileError) as caught:
        read(cls, plain)
    return str(caught.value)


def test_there_and_back() -> None:
    tree = Tree(1, 0.5, Tree(2, 3, sure=True), [Leaf("a")], [("b", Leaf("c"))], any=0)
    plain = {
        "size": 1,
        "share": 0.5,
        "left": {"size": 2, "share": 3, "sure": True},
        "leaves": [{"name": "a"}],
        "pairs": [["b", {"name": "c"}]],
        "any": 0,
    }
    assert to_plain(tree) == plain and read(Tree, plain) == tree


def test_only_defaults_are_left_out() -> None:
    assert to_plain(Tree(0, 0.0)) == {"size": 0, "share": 0.0}
    assert to_plain(Tree(0, 0.0, leaves=[], pairs=[], any=False)) == {
        "size": 0,
        "share": 0.0,
        "pairs": [],
        "any": False,
    }
    assert to_plain(Step(0, 0, 0, 1, execution=1, host_ns=[])) == {
        "id": 0,
        "frame": 0,
        "statement": 0,
        "line": 1,
        "host_ns": [],
    }


def test_a_missing_default_is_filled_in_and_not_shared() -> None:
    first, second = read(Tree, {"size": 1, "share": 1}), read(Tree, {"size": 1, "share": 1})
    assert first == Tree(1, 1) and first.leaves is not second.leaves


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ([], "tree: expected a mapping, found a list of 0"),
        (None, "tree: expected a mapping, found null"),
        ({"size": 1}, "tree: the key 'share' is missing"),
        ({"share": 1}, "tree: the key 'size' is missing"),
        ({"size": True, "share": 1}, "tree: size: expected int, found bool True"),
        ({"size": 1.0, "share": 1}, "tree: size: expected int, found float 1.0"),
        ({"size": 1, "share": "1"}, "tree: share: expected float, found str '1'"),
        ({"size": 1, "share": True}, "tree: share: expected float, found bool True"),
        ({"size": 1, "share": None}, "tree: share: expected float, found null"),
        ({"size": 1, "share": 1, "sure": 0}, "tree: sure: expected bool, found int 0"),
        ({"size": 1, "share": 1, "left": 3}, "tree: left: expected a mapping, found int 3"),
        ({"size": 1, "share": 1, "left": {"size": 1}}, "tree: left: the key 'share' is missing"),
        ({"size": 1, "share": 1, "leaves": {}}, "tree: leaves: expected a list, found mapping"),
        ({"size": 1, "share": 1, "leaves": [{"name": "a"}, {"name": 1}]},
         "tree: leaves[1].name: expected str, found int 1"),
        ({"size": 1, "share": 1, "pairs": [["a", {"name": None}]]}, "tree: pairs[0][1].name: expected str, found null"),
        ({"size": 1, "share": 1, "pairs": [["a"]]}, "tree: pairs[0]: expected a list of 2, found a list of 1"),
        ({"size": 1, "share": 1, "any": []}, "tree: any: expected bool or int or float or str, found a list of 0"),
        ({"size": "\n" * 99, "share": 1}, "tree: size: expected int, found str '" + "\\n" * 29 + "\\…"),
        ({"sise": 1}, "tree: unknown key 'sise'; expected 'size', 'share', 'left', 'leaves', 'pairs', 'sure', 'any'"),
        ({1: 1}, "tree: unknown key 1; expected 'size', 'share', 'left', 'leaves', 'pairs', 'sure', 'any'"),
    ],
)  # fmt: skip
def test_what_is_not_the_schema_is_refused_with_its_place(plain: Any, message: str) -> None:
    assert error(Tree, plain) == message


def without_defaults(instance: Any) -> Any:
    """Return plain data by `asdict` alone, with tuples as lists and all fields there."""
    if isinstance(instance, dict):
        return {key: without_defaults(value) for key, value in instance.items()}
    return [without_defaults(item) for item in instance] if isinstance(instance, (list, tuple)) else instance


def test_it_agrees_with_asdict() -> None:
    trace = example_trace()
    full = without_defaults(asdict(trace))
    assert repr(from_plain(Trace, full, "trace")) == repr(trace)  # nothing left out
    lean = to_plain(trace)
    assert repr(without_defaults(asdict(from_plain(Trace, lean, "trace")))) == repr(full)


def test_events_are_told_apart_by_a_field_of_their_own() -> None:
    steps = [Frame(0, "f"), Step(0, 0, 0, 1), Omitted(3, 0, 0, 1, 5)]
    assert from_plain(Trace, to_plain(example_trace(steps=steps)), "trace").steps == steps


def test_the_example_uses_every_field_but_few() -> None:
    """So that what is tested with it is tested with everything a trace can hold."""
    shown = repr(to_plain(example_trace()))
    for cls in (Step, Frame, Omitted, Value, Meters, Measured, Narrative, Varied, Peak):
        missing = {f.name for f in fields(cls) if f"'{f.name}'" not in shown}
        borrowed = {"flows", "style", "label", "target", "notes"}  # of other tools' words: tests/test_borrowed.py
        ranks = {"on", "ranks", "collectives"}  # of several: tests/test_ranks.py
        assert missing <= {"source", "svg", "note", "start", "end", *borrowed, *ranks}


def test_a_path_or_a_word_names_the_file() -> None:
    with pytest.raises(TraceFileError, match=r"^a/b\.yaml: name: expected str, found int 1$"):
        from_plain(Leaf, {"name": 1}, Path("a/b.yaml"))


def test_a_big_trace_is_the_same_every_time() -> None:
    assert big_trace(200) == big_trace(200)
