import argparse
import collections
import csv
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import pathlib
import string
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases_in_one import each
from tests.describing.value_form import assert_form
from trace_tools.describing.values import Describer
from trace_tools.describing.walk import ValueLimits


def describe(obj: object, redact: Callable[[str], str] | None = None, **limits: Any) -> dict[str, Any]:
    describer = Describer(limits=ValueLimits(**limits), redact=redact or str)
    value = describer.describe(obj)
    assert_form(value)
    return value


def plain(value: dict[str, Any]) -> Any:
    """Rebuild plain data from its description."""
    kind = value["type"]
    if kind == "none":
        return None
    if kind in ("list", "tuple", "set", "frozenset"):
        return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(plain, value["items"]))
    if kind == "dict":
        return {plain(key): plain(item) for key, item in value["entries"]}
    return complex(value["text"]) if kind == "complex" else value["value"]


# ---------------------------------------------------------------- scalars


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


@each(
    "obj",
    [
        3,
        True,
        False,
        0,
        -(2**63),
        2**63,
        2**64 + 1,
        -(10**600),
        1.5,
        -0.0,
        math.inf,
        -math.inf,
        5e-324,
        "x",
        "",
        "é\n\0",
    ],
)
def test_scalars_keep_value_and_type(obj: Any) -> None:
    value = describe(obj)
    assert value == {"type": type(obj).__name__, "value": obj}
    assert type(value["value"]) is type(obj)
    assert str(value["value"]) == str(obj)  # distinguishes -0.0 from 0.0


def test_nan_and_none() -> None:
    assert math.isnan(describe(math.nan)["value"])
    assert describe(None) == {"type": "none"}


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_with_too_many_digits(sign: int) -> None:
    value = describe(sign * 10**5000)
    assert "value" not in value
    assert value["text"] == f"{'-' if sign < 0 else ''}{hex(10**5000)[:19]}… (16610 bits)"


@each(
    ("obj", "kind", "text"),
    [
        (1 + 2j, "complex", "(1+2j)"),
        (complex(math.nan, -0.0), "complex", "(nan-0j)"),
        (b"ab\0", "bytes", r"b'ab\x00'"),
        (bytearray(b"x"), "bytearray", "bytearray(b'x')"),
        (fractions.Fraction(1, 3), "Fraction", "Fraction(1, 3)"),
        (decimal.Decimal("1.10"), "Decimal", "Decimal('1.10')"),
        (datetime.date(2024, 1, 2), "date", "datetime.date(2024, 1, 2)"),
        (pathlib.PurePosixPath("/x"), "PurePosixPath", "PurePosixPath('/x')"),
        (Color.RED, "Color", "<Color.RED: 1>"),
        (Level.LOW, "Level", "<Level.LOW: 1>"),
        (range(3), "range", "range(0, 3)"),
        (slice(1, None), "slice", "slice(1, None, None)"),
        (int, "type", "<class 'int'>"),
        (len, "builtin_function_or_method", "<built-in function len>"),
        (plain, "function", "<function plain>"),
        (math, "module", "<module 'math'>"),
        ([].append, "builtin_function_or_method", "<built-in method append of list object>"),
        (object(), "object", "<object object>"),
        (functools.partial(int, base=2), "partial", "functools.partial(<class 'int'>, base=2)"),
        (ValueError("x"), "ValueError", "ValueError('x')"),
        (zlib.error("x"), "zlib.error", "error('x')"),  # `re.error` has another name since Python 3.13
        (..., "ellipsis", "Ellipsis"),
    ],
)
def test_objects_shown_as_text(obj: object, kind: str, text: str) -> None:
    assert describe(obj) == {"type": kind, "text": text}


def test_a_generator_is_not_consumed() -> None:
    numbers = (n for n in range(3))
    assert describe(numbers)["text"].startswith("<generator object test_a_generator")
    assert list(numbers) == [0, 1, 2]


def test_a_bound_method_is_shown_without_its_object() -> None:
    class Loud:
        def method(self) -> None: ...

        def __repr__(self) -> str:
            raise AssertionError

    assert describe(Loud().method)["text"].endswith("Loud.method>")


def test_long_text_is_cut() -> None:
    assert describe("x" * 50, text=10) == {"type": "str", "value": "x" * 10, "length": 50}
    assert describe(b"x" * 50, text=10) == {"type": "bytes", "text": "b'xxxxxxxx", "length": 50}
    big = type("Big", (), {"__repr__": lambda self: "y" * 10**6})()
    assert describe(big, text=10) == {"type": "Big", "text": "y" * 10, "length": 10**6}


def test_surrogates_are_escaped() -> None:
    assert describe("é\ud800")["value"] == "é\\ud800"


def test_all_text_is_redacted_before_it_is_cut() -> None:
    def redact(text: str) -> str:
        return text.replace("sesame", "*")

    class Talks:
        def __repr__(self) -> str:
            return "sesame"

    class Raises:
        def __repr__(self) -> str:
            raise ValueError("sesame")

    objs = [
        "sesame",
        Talks(),
        {"sesame": ["sesame"]},
        Raises(),
        pathlib.PurePosixPath("sesame"),
        b"sesame",
        "1234sesame",
    ]
    for obj in objs:
        assert "sesame" not in str(describe(obj, redact=redact))
        assert "ses" not in str(describe("12345678sesame" * 100, redact=redact, text=11))
    assert Describer(redact=redact).error(KeyError("sesame")) == {"type": "error", "text": "KeyError: '*'"}


def test_failed_expressions_are_described_as_errors() -> None:
    try:
        undefined  # type: ignore[name-defined]  # noqa: B018
    except NameError as error:
        value = Describer().error(error)
    assert_form(value)
    assert value == {"type": "error", "text": "NameError: name 'undefined' is not defined"}


# ---------------------------------------------------------------- containers

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.complex_numbers()
)
data = st.recursive(
    scalars.filter(lambda x: x == x),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
        | st.sets(st.integers() | st.text(max_size=3), max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(data)
def test_plain_data_is_recorded_faithfully(obj: Any) -> None:
    value = describe(obj, depth=50)
    assert repr(plain(value)) == repr(obj) or plain(value) == obj


def test_containers_have_their_length() -> None:
    assert describe([1, "a"]) == {
        "type": "list",
        "length": 2,
        "items": [{"type": "int", "value": 1}, {"type": "str", "value": "a"}],
    }
    assert describe({}) == {"type": "dict", "length": 0, "entries": []}
    assert describe(collections.deque([1], maxlen=3))["type"] == "deque"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Config:
    width: int
    cache: list[int] = dataclasses.field(default_factory=list, repr=False)
    unset: int = dataclasses.field(init=False)
    shared: dataclasses.InitVar[int] = 0


def names(value: dict[str, Any]) -> list[Any]:
    return [key["value"] for key, _ in value["entries"]]


def test_named_fields_become_entries() -> None:
    assert describe(Point(1, 2))["entries"][1] == [{"type": "str", "value": "y"}, {"type": "int", "value": 2}]
    value = describe(Config(3))
    assert (value["type"], names(value)) == ("Config", ["width", "unset"])
    assert value["entries"][1][1]["type"] == "error"
    assert describe(time.gmtime(0))["entries"][0] == [
        {"type": "str", "value": "tm_year"},
        {"type": "int", "value": 1970},
    ]


class Account:
    def __init__(self, owner: str) -> None:
        self.owner, self.entries = owner, [1]
        self.own = self


class Shown(Account):
    def __repr__(self) -> str:
        return f"<account of {self.owner}>"


def test_objects_without_a_repr_show_their_fields() -> None:
    ada = Account("Ada")
    value = describe(ada)
    assert (value["type"], names(value)) == ("Account", list(vars(ada)))
    assert value["entries"][2][1] == {"type": "cycle"}
    assert describe(Shown("Ada"))["text"] == repr(Shown("Ada"))
    ada.__dict__.clear()
    assert describe(ada)["text"] == f"<{__name__}.Account object>"
    assert "entries" not in describe(argparse.Namespace(a=1)) and "entries" not in describe(string.Formatter())
    assert "entries" not in describe(csv.DictReader([]))  # Python's own classes do not show their fields


def test_subclasses_of_dict() -> None:
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert names(describe(ordered)) == ["b", "a"]
    assert names(describe(collections.Counter("abb"))) == ["a", "b"]
    assert describe(collections.defaultdict(list, a=1))["type"] == "defaultdict"


def test_cycles_are_marked() -> None:
    numbers: list[Any] = [1]
    numbers.append(numbers)
    assert describe(numbers)["items"][1] == {"type": "cycle"}
    named: dict[str, Any] = {}
    named["self"] = [named]
    assert describe(named)["entries"][0][1]["items"] == [{"type": "cycle"}]
    config = Config(1)
    config.width = config  # type: ignore[assignment]
    assert describe(config)["entries"][0][1] == {"type": "cycle"}
    shared = [1]
    assert describe([shared, shared])["items"][1]["type"] == "list"  # the same object twice is not a cycle


def test_depth_items_and_size_are_bounded() -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    value = describe(deep, depth=3)
    assert value["items"][0]["items"][0]["items"] == [{"type": "list", "length": 1, "note": "nested too deep"}]
    assert describe([{1, "a"}], depth=1)["items"] == [{"type": "set", "length": 2, "note": "nested too deep"}]
    value = describe(list(range(1000)), items=5)
    assert (value["length"], len(value["items"])) == (1000, 5)
    monster: Any = ["y" * 100] * 100
    for _ in range(5):
        monster = [monster] * 100
    assert len(str(describe(monster, size=500))) < 50_000


def test_huge_containers_are_not_copied() -> None:
    huge = [list(range(10**6)), dict.fromkeys(range(10**6)), set(range(10**6)), collections.deque(range(10**6))]
    describer = Describer()
    tracemalloc.start()
    started = time.perf_counter()
    for obj in huge:
        assert describer.describe(obj)["length"] == 10**6
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6  # a copy of pointers alone takes 8 MB
    assert time.perf_counter() - started < 2


def test_sets_are_sorted_up_to_a_limit() -> None:
    def items(obj: object) -> list[Any]:
        return [plain(item) for item in describe(obj)["items"]]

    assert items({10, 9, 1, 2}) == [1, 2, 9, 10]
    assert items(frozenset({"b", "a"})) == ["a", "b"]
    assert items({2.5, -1.0, math.inf}) == [-1.0, 2.5, math.inf]
    assert str(items({math.nan, 1.0})) == "[1.0, nan]"
    assert items({"a", 1, None, (1, 2)}) == items({(1, 2), None, 1, "a"})
    value = describe(set(range(50)), sorted_members=10)
    assert value["note"] == "some of them"
    mixed = {str(n) if n % 2 else n for n in range(50)}
    assert describe(mixed, items=10)["note"] == "some of them"


def test_a_set_is_described_alike_in_every_process() -> None:
    code = "from trace_tools.describing.values import Describer\n"
    code += "print(Describer().describe({'a', 'b', 1, ('c', None), 2.5}))"

    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout

    assert run("1") == run("2") != ""
