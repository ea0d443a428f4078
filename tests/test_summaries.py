from __future__ import annotations

import math

import pytest

from tests.rendering.recording import matrix
from trace_tools.schema import Claim, Statistics, Tensor, Value
from trace_tools.summaries import claim_summary, facts, grids, side_text, summary


def tensor(shape: list[int], **more: object) -> Value:
    return Value("tensor", tensor=Tensor("float32", shape, "cpu", **more))  # type: ignore[arg-type]


def number(value: float) -> Value:
    return Value("int" if isinstance(value, int) else "float", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value("int", 7), "7"),
        (Value("float", 6.3e24, unit="FLOP"), "6.3e24 FLOP"),
        (Value("bool", True), "True"),
        (Value("none"), "None"),
        (Value("str", "a\nb"), "'a\\nb'"),
        (Value("str", "a\u202eb"), "'a\\u202eb'"),
        (Value("str", None, note="too long to show"), "<str> · too long to show"),
        (Value("complex", text="(1+2j)"), "(1+2j)"),
        (Value("error", text="NameError: x"), "NameError: x"),
        (Value("cycle"), "<cycle>"),
        (Value("float", math.nan), "nan"),
        (Value("list", items=[number(1), number(2.5)], length=2), "[1, 2.5]"),
        (Value("tuple", items=[number(1)], length=1), "(1,)"),
        (Value("tuple", items=[number(16), number(16_000)], length=2), "(16, 16_000)"),
        (
            Value(
                "dict",
                entries=[(Value("str", "view"), number(1.8e-6)), (Value("int", 10_000), number(0.0181))],
                unit="s",
            ),
            "{'view': 1.8 µs, 10_000: 18.1 ms}",
        ),
        (Value("list", items=[number(80e9), number(12_345)], length=2, unit="B"), "[80 GB, 12.35 kB]"),
        (Value("list", items=[Value("tuple", items=[number(2**20)])], unit="B"), "[(1 MiB,)]"),
        (Value("list", items=[number(10**400), number(80e9)], length=2, unit="B"), "[1e400 B, 80 GB]"),
        (Value("list", items=[], length=0), "[]"),
        (Value("dict", entries=[(Value("str", "a"), number(1))], length=1), "{'a': 1}"),
        (
            Value(
                "Count",
                entries=[
                    (Value("str", "flops"), Value("none")),
                    (Value("str", "operators"), Value("dict", entries=[], length=0)),
                    (Value("str", "why"), Value("str", "nothing of torch ran")),
                ],
            ),
            "Count: nothing of torch ran",
        ),
        (Value("Config", text="Config(a=1)", entries=[(Value("str", "a"), number(1))]), "Config(a=1)"),
        (Value("float", 0.3, varies=True, samples=[0.31, 0.35]), "0.31 … 0.35 · varies"),
        (Value("float", 0.3, varies=True, samples=[0.31, 10**400]), "0.3 · varies"),
        (Value("float", 0.3, device_random=True), "0.3 · device-random"),
        (tensor([2, 2], bytes=16), "f32[2, 2]"),
        (tensor([16, 16], bytes=1024), "f32[16, 16] · 1 KiB"),
        (tensor([2, 3], strides=[1, 2], contiguous=False), "f32[2, 3] · strides (1, 2)"),
        (tensor([], elements=[3.0]), "3. f32[]"),
        (tensor([3], elements=[1.0, -0.5, math.inf]), "f32[3] = [1., -0.5, inf]"),
        (tensor([1], elements=[[1.0, -2.0]]), "f32[1] = [1.-2.j]"),
    ],
)
def test_a_value_is_one_line(value: Value, text: str) -> None:
    assert summary(value) == text


def test_long_values_are_cut_and_say_so() -> None:
    long = Value("str", "x" * 10_000, length=10_000)
    assert len(summary(long)) <= 96 and "(10,000 characters)" in summary(long)
    many = Value("list", items=[number(n) for n in range(50)], length=1_000)
    assert len(summary(many)) <= 96 and summary(many).endswith("…] (1,000 entries)")
    nested = Value("list", items=[many, many], length=2)
    assert len(summary(nested)) <= 96


def test_a_claim_shows_both_sides() -> None:
    sides = [("a", number(1)), ("b", number(2)), ("c", number(3))]
    assert claim_summary(Claim("a < b <= c", True, sides)) == "1 < 2 ≤ 3"
    assert claim_summary(Claim("check(a, b)", True, sides[:2])) == "a = 1, b = 2"
    assert claim_summary(Claim("a is not None", True, [("a", number(1)), ("None", Value("none"))])) == "1 is not None"
    assert claim_summary(Claim("not python at all", True, [])) == ""
    varying = Value("float", 9.5, varies=True, samples=[9.1, 10.1])
    assert claim_summary(Claim("a > 1", True, [("a", varying), ("1", number(1))])) == "9.1 … 10.1 > 1 · varies"


def test_grids_are_the_elements() -> None:
    value = matrix(2, 3).tensor
    assert value is not None
    assert grids(value) == [("", [["0.", "1.", "2."], ["3.", "4.", "5."]])]
    batched = Tensor("int64", [2, 1, 2], "cpu", elements=[1, 2, 3, 4])
    assert grids(batched) == [("[0, :, :]", [["1", "2"]]), ("[1, :, :]", [["3", "4"]])]
    corner = Tensor("float32", [9, 9], "cpu", corner=[1.0, 2.0, 3.0, 4.0], corner_shape=[2, 2])
    assert grids(corner)[0][1] == [["1.", "2.", "…"], ["3.", "4.", "…"], ["⋮", "⋮", "⋮"]]
    assert grids(Tensor("float32", [2, 2], "cpu", elements=[1.0])) == []  # what does not fit is not guessed


def test_facts_are_exact() -> None:
    known = dict(facts(Value("int", 123_456_789, unit="B")))
    assert known["exactly"] == "123456789 B"
    stats = Statistics(-1.0, 2.0, 0.5, 0.25, nan=3)
    known = dict(facts(tensor([9, 9], statistics=stats, storage="s1", storage_bytes=324, offset=2)))
    assert known["range"] == "-1.0 … 2.0" and known["among them"] == "3 nan"
    assert known["storage"] == "s1, 324 B" and known["offset"] == "2"


def test_a_claim_that_failed_shows_both_sides_to_where_they_differ() -> None:
    sides = [("total", number(0.1 + 0.2)), ("0.3", number(0.3))]
    assert claim_summary(Claim("total == 0.3", False, sides)) == "0.30000000000000004 == 0.3"
    assert claim_summary(Claim("total != 0.3", True, sides)) == "0.30000000000000004 ≠ 0.3"
    near = [("3", number(3)), ("ratio", number(3.000_02)), ("3.1", number(3.1))]
    assert claim_summary(Claim("3 <= ratio < 3.1", True, near)) == "3 ≤ 3.0 < 3.1"
    near = [("3.0", number(3.0)), ("ratio", number(3.000_02))]
    assert claim_summary(Claim("3.0 < ratio", True, near)) == "3.0 < 3.00002"
    assert [side_text(value) for _, value in sides] == ["0.3 (exactly 0.30000000000000004)", "0.3"]
    assert side_text(number(12_345)) == "12,345" and side_text(Value("int", 1025, unit="B")).endswith("(exactly 1025)")
