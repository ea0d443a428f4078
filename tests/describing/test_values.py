"""How objects of Python are described."""

import argparse
import collections
import dataclasses
import decimal
import enum
import math
import pathlib
import string
import subprocess
import sys
import time
import tracemalloc
import zlib
from typing import Any, NamedTuple

import numpy as np

from tests.cases_in_one import each
from tests.describing.value_form import assert_form, describe, part
from trace_tools.describing.values import Describer


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


def function() -> None: ...


def redact(text: str) -> str:
    return text.replace("sesame", "*")


class Talks:
    def __repr__(self) -> str:
        return "sesame"

    def method(self) -> None: ...


class Raises:
    def __repr__(self) -> str:
        raise ValueError("sesame")


@each("obj", [3, True, False, 0, -(2**63), 2**63, -(10**600), 1.5, -0.0, -math.inf, 5e-324, "x", "", "é\n\0"])
def test_scalars_keep_value_and_type(obj: Any) -> None:
    value = describe(obj)
    assert value == {"type": type(obj).__name__, "value": obj}
    assert type(value["value"]) is type(obj)
    assert str(value["value"]) == str(obj)  # distinguishes -0.0 from 0.0


def test_unusual_scalars() -> None:
    assert math.isnan(describe(math.nan)["value"])
    assert describe(None) == {"type": "none"}
    assert describe("é\ud800")["value"] == "é\\ud800"
    for number, sign in ((10**5000, ""), (-(10**5000), "-")):
        value = describe(number)
        assert "value" not in value and value["text"] == f"{sign}{hex(10**5000)[:19]}… (16610 bits)"


@each(
    ("obj", "kind", "text"),
    [
        (1 + 2j, "complex", "(1+2j)"),
        (complex(math.nan, -0.0), "complex", "(nan-0j)"),
        (b"ab\0", "bytes", r"b'ab\x00'"),
        (bytearray(b"x"), "bytearray", "bytearray(b'x')"),
        (decimal.Decimal("1.10"), "Decimal", "Decimal('1.10')"),
        (pathlib.PurePosixPath("/x"), "PurePosixPath", "PurePosixPath('/x')"),
        (Color.RED, "Color", "<Color.RED: 1>"),
        (Level.LOW, "Level", "<Level.LOW: 1>"),
        (range(3), "range", "range(0, 3)"),
        (int, "type", "<class 'int'>"),
        (len, "builtin_function_or_method", "<built-in function len>"),
        (function, "function", "<function function>"),
        (math, "module", "<module 'math'>"),
        (Talks().method, "method", "<bound method Talks.method>"),  # its object may be pages long
        ([].append, "builtin_function_or_method", "<built-in method append of list object>"),
        (ValueError("x"), "ValueError", "ValueError('x')"),
        (zlib.error("x"), "zlib.error", "error('x')"),  # `re.error` has another name since Python 3.13
        (argparse.Namespace(a=1), "Namespace", "Namespace(a=1)"),
        # Python's own classes do not show their fields
        (string.Formatter(), "Formatter", "<string.Formatter object>"),
    ],
)
def test_objects_shown_as_text(obj: object, kind: str, text: str) -> None:
    assert describe(obj) == {"type": kind, "text": text}


def test_a_generator_is_not_consumed() -> None:
    numbers = (n for n in range(3))
    assert describe(numbers)["text"].startswith("<generator object test_a_generator")
    assert list(numbers) == [0, 1, 2]


def test_long_text_is_cut() -> None:
    assert describe("x" * 50, text=10) == {"type": "str", "value": "x" * 10, "length": 50}
    assert describe(b"x" * 50, text=10) == {"type": "bytes", "text": "b'xxxxxxxx", "length": 50}
    big = type("Big", (), {"__repr__": lambda self: "y" * 10**6})()
    assert describe(big, text=10) == {"type": "Big", "text": "y" * 10, "length": 10**6}


@each(
    "obj",
    [
        *("sesame", Talks(), Raises(), pathlib.PurePosixPath("sesame"), b"sesame", "1234sesame", np.str_("sesame")),
        *({"sesame": ["sesame"]}, np.array(["sesame"])),
    ],
)
def test_all_text_is_redacted(obj: object) -> None:
    assert "sesame" not in str(describe(obj, redact=redact))
    assert "ses" not in str(describe("12345678sesame" * 100, redact=redact, text=11)), "text is cut afterwards"


def test_failed_expressions_are_described_as_errors() -> None:
    value = Describer(redact=redact).error(KeyError("sesame"))
    assert_form(value)
    assert value == {"type": "error", "text": "KeyError: '*'"}


# ---------------------------------------------------------------- containers


def plain(value: dict[str, Any]) -> Any:
    """Rebuild plain data from its description."""
    kind = value["type"]
    if kind in ("list", "tuple", "set", "frozenset"):
        return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(plain, value["items"]))
    if kind == "dict":
        return {plain(key): plain(item) for key, item in value["entries"]}
    return complex(value["text"]) if kind == "complex" else value.get("value")


def test_plain_data_is_recorded_faithfully() -> None:
    data = [1, "a", (None, 2.5, ()), {"k": {2: [1j]}, (1, 2): {}}, {3, -1}, frozenset(), [[[[True]]]]]
    assert repr(plain(describe(data))) == repr(data)
    assert describe([1]) == {"type": "list", "length": 1, "items": [{"type": "int", "value": 1}]}
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


class Account:
    def __init__(self, owner: str) -> None:
        self.owner, self.entries = owner, [1]
        self.own = self


class Shown(Account):
    def __repr__(self) -> str:
        return f"<account of {self.owner}>"


def names(obj: object) -> list[Any]:
    return [key["value"] for key, _ in describe(obj)["entries"]]


def test_named_fields_become_entries() -> None:
    assert describe(Point(1, 2))["entries"][1] == [{"type": "str", "value": "y"}, {"type": "int", "value": 2}]
    value = describe(Config(3))
    assert (value["type"], names(Config(3))) == ("Config", ["width", "unset"])
    assert part(value, "unset")["type"] == "error"
    assert part(describe(time.gmtime(0)), "tm_year")["value"] == 1970
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert (names(ordered), names(collections.Counter("abb"))) == (["b", "a"], ["a", "b"])


def test_objects_without_a_repr_show_their_fields() -> None:
    ada = Account("Ada")
    assert (describe(ada)["type"], names(ada)) == ("Account", list(vars(ada)))
    assert describe(Shown("Ada"))["text"] == repr(Shown("Ada"))
    ada.__dict__.clear()
    assert describe(ada)["text"] == f"<{__name__}.Account object>"


def test_cycles_are_marked() -> None:
    numbers: list[Any] = [1]
    numbers.append(numbers)
    assert describe(numbers)["items"][1] == {"type": "cycle"}
    named: dict[str, Any] = {}
    named["self"] = [named]
    assert describe(named)["entries"][0][1]["items"] == [{"type": "cycle"}]
    config = Config(1)
    config.width = config  # type: ignore[assignment]
    assert part(describe(config), "width") == part(describe(Account("Ada")), "own") == {"type": "cycle"}
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
    huge = [list(range(200_000)), dict.fromkeys(range(200_000)), set(range(200_000)), collections.deque(range(200_000))]
    describer = Describer()
    tracemalloc.start()
    for obj in huge:
        assert describer.describe(obj)["length"] == 200_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6  # a copy of pointers alone takes 1.6 MB


def test_sets_are_sorted_up_to_a_limit() -> None:
    def items(obj: object) -> list[Any]:
        return [plain(item) for item in describe(obj)["items"]]

    assert items({10, 9, 1, 2}) == [1, 2, 9, 10]
    assert items(frozenset({"b", "a"})) == ["a", "b"]
    assert items({2.5, -1.0, math.inf}) == [-1.0, 2.5, math.inf]
    assert str(items({math.nan, 1.0})) == "[1.0, nan]"
    value = describe(set(range(50)), sorted_members=10)
    assert value["note"] == "some of them"
    mixed = {str(n) if n % 2 else n for n in range(50)}
    assert describe(mixed, items=10)["note"] == "some of them"


def test_a_set_is_described_alike_in_every_process() -> None:
    code = "from trace_tools.describing.values import Describer\n"
    code += "print(Describer().describe({'a', 'b', 1, ('c', None), 2.5}))"
    one, two = (
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, text=True) for seed in "12"
    )
    assert one == two != ""
