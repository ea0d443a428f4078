"""Verdicts on two values (same, rounding, varying, changed) and tolerances, checked with torch.testing."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing._comparison import _DTYPE_PRECISIONS

from tests.cases_in_one import each
from tests.diff.planted import CPU, at, differ, differ_at, made, tensor, with_steps
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.judge.values import LEAST_TOLERANCES, Context, Tolerances, judge
from trace_tools.diff.wording import word_of
from trace_tools.errors import UsageError
from trace_tools.trace.model import Peak, Statistics, Trace, Value

INF, NAN = math.inf, math.nan


def verdict(a: Value, b: Value, **options: Any) -> str:
    """Return the verdict, of noise its kind."""
    judgement = judge(a, b, Context(**options))
    return (judgement.detail or "").partition(":")[0] if judgement.verdict == "noise" else judgement.verdict


def vector(elements: list[Any], dtype: str) -> Value:
    return tensor(dtype=dtype, shape=[len(elements)], strides=[1], elements=elements)


def large(**changes: Any) -> Value:
    statistics = Statistics(**({"min": -4.0, "max": 4.0, "mean": 1e-4, "std": 1.0} | changes))
    shape: Any = {"shape": [1024, 1024], "strides": [1024, 1], "elements": None}
    return tensor(**shape, corner=[1.0], corner_shape=[1, 1], statistics=statistics)


def items(kind: str, *numbers: int | Value, labels: str = "") -> Value:
    values = [n if isinstance(n, Value) else Value("int", n) for n in numbers]
    return Value(kind, items=values, length=len(values), labels=[Value("str", x) for x in labels] or None)


def keyed(key: Value, value: Value) -> Value:
    return Value("dict", length=1, entries=[(key, value)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_tensor_elements_are_judged_like_torch_testing(dtype: str) -> None:
    rng = random.Random(dtype)
    for _ in range(100):
        size = 10.0 ** rng.uniform(-6, 3)
        relative_difference = 10.0 ** rng.uniform(-9, -1)
        x = torch.tensor([rng.choice([size, -size, 0.0, INF, NAN]) for _ in range(3)], dtype=torch.float64)
        x = torch.nan_to_num(x).clamp(-1000, 1000) if dtype == "int64" else x
        y = (x * (1 + relative_difference)).to(getattr(torch, dtype))
        x = x.to(getattr(torch, dtype))
        try:
            torch.testing.assert_close(y, x, equal_nan=True)
            expected = {"same", "rounding"}
        except AssertionError:
            expected = {"changed"}
        assert verdict(vector(x.tolist(), dtype), vector(y.tolist(), dtype)) in expected


ZERO, MINUS = Value("float", 0.0), Value("float", -0.0)
WITH_ADDRESS = [Value("int", text="address 1"), Value("int", text="address 2"), Value("int", 7)]
LONG = [Value("int", text=f"0x{n}… (9000 bits)", note="too long to write out") for n in (1, 2)]
WITHOUT_INDEX = replace(items("Series", 1, 1), note="without its index")  # as traces of old versions have it


@each(
    ("a", "b", "expected"),
    [
        *(
            (Value("float", a), Value("float", b), expected)
            for a, b, expected in (
                (1.0, 1.0 + 1e-9, "rounding"),
                (1.0, 1.001, "changed"),
                (0.1, NAN, "changed"),
                (NAN, NAN, "same"),
                (INF, INF, "same"),
                (INF, -INF, "changed"),
                (1e308, INF, "changed"),
                (10**400, 1.0, "changed"),
                (0.0, -0.0, "same"),
                (0.3333333432674408, 0.3333333134651184, "rounding"),  # neighbours in float32, as .item() returns them
                (0.3333333432674408, 0.33333333333, "rounding"),
                (0.3333, 0.3333005, "changed"),  # not float32 values, so the tolerance of float64 applies
            )
        ),
        *(
            (vector(a, dtype), vector(b, dtype), expected)
            for dtype, a, b, expected in (
                ("float32", [0.0, 1.0], [-0.0, 1.0], "same"),
                ("float32", [0.0, 1.0], [-0.0, 2.0], "changed"),
                ("float32", [0.0, 1.0], [-0.0, 1.0000001], "rounding"),
                ("float32", [0.0, NAN], [-0.0, NAN], "same"),
                ("complex64", [[0.0, 1.0]], [[-0.0, 1.0]], "same"),
                ("complex64", [[1.0, 2.0]], [[1.0, 2.0000001]], "rounding"),
                ("complex64", [[1.0, 2.0]], [[1.0, -2.0]], "changed"),
            )
        ),
        (Value("complex", text="0j"), Value("complex", text="(-0+0j)"), "same"),
        (Value("int", 2**70), Value("int", 2**70 + 1), "changed"),
        (Value("int", 1), Value("float", 1.0), "changed"),
        (Value("bool", True), Value("int", 1), "changed"),
        (Value("str", "a"), Value("str", "b"), "changed"),
        (items("list", ZERO), items("list", MINUS), "same"),
        (items("list", Value("float", 1.0), 3), items("list", Value("float", 1.0 + 1e-9), 3), "rounding"),
        (items("set", 1, 2), items("set", 2, 1), "same"),
        (items("Series", 1, 1, labels="ab"), items("Series", 1, 1, labels="ab"), "same"),
        (items("Series", 1, 1, labels="ab"), items("Series", 1, 1), "changed"),
        (WITHOUT_INDEX, items("Series", 1, 1, labels="ab"), "same"),
        (large(), large(mean=1e-4 + 1e-7), "rounding"),
        (large(), large(mean=0.1), "changed"),
        (large(), large(nan=1), "changed"),
        (large(), large(zero=5), "changed"),
        (WITH_ADDRESS[0], WITH_ADDRESS[1], "same"),  # labels of addresses never differ
        (WITH_ADDRESS[0], WITH_ADDRESS[2], "changed"),
        (keyed(WITH_ADDRESS[0], ZERO), keyed(WITH_ADDRESS[1], ZERO), "same"),
        (keyed(WITH_ADDRESS[0], ZERO), keyed(WITH_ADDRESS[2], ZERO), "changed"),
        (*LONG, "changed"),
    ],
)
def test_verdicts(a: Value, b: Value, expected: str) -> None:
    assert verdict(a, b) == expected


@each(
    ("a", "b", "detail"),
    [
        (tensor(), tensor(strides=[1, 2]), "strides (2, 1) → (1, 2)"),
        (tensor(), tensor(shape=[4], strides=[1]), "shape [2, 2] → [4]"),
        (tensor(), tensor(dtype="float64"), "dtype float32 → float64"),
        (tensor(), tensor(requires_grad=True), "requires_grad False → True"),
        (tensor(), tensor(offset=4), "storage offset 0 → 4"),
        (tensor(), tensor(device="meta"), "device cpu → meta"),
        (
            tensor(),
            tensor(elements=[1.0, 2.0, 3.0, 5.0]),
            "1 of 4 elements differs, by the most at [1, 1]: 4. → 5. (25%)",
        ),
        (
            keyed(Value("str", "step"), Value("int", 3)),
            keyed(Value("str", "step"), Value("int", 4)),
            "'step': 3 → 4 (33%)",
        ),
        (items("list", 1), items("list", 1, 1), "1 → 2 entries"),
        (*(Value("Config", entries=[(ZERO, ZERO)] * n) for n in (1, 2)), "different numbers of fields were recorded"),
        (items("Series", 1, 1, labels="ab"), items("Series", 1, 1, labels="ac"), "label of row 1: 'b' → 'c'"),
    ],
)
def test_detail_states_what_differs(a: Value, b: Value, detail: str) -> None:
    assert judge(a, b, Context()).detail == detail


def test_device_may_differ_between_kinds_of_machines() -> None:
    assert verdict(tensor(), tensor(device="cuda:0"), devices=("cpu", "cuda")) == "same"


def test_varying_values_are_never_called_changed() -> None:
    varying = replace(tensor(elements=[9.0, 8.0, 7.0, 6.0]), varies=True)
    difference = differ_at(6, {"values": [("y", tensor())]}, {"values": [("y", varying)]})
    assert not difference.matters
    assert [(f.verdict, word_of(f)) for _, f in difference.findings("values")] == [("noise", "varies")]


def test_a_wider_tolerance_makes_a_change_rounding() -> None:
    sides = ({"values": [("y", tensor(elements=[1.0, 2.0, 3.0, last]))]} for last in (4.0, 4.01))
    wide = differ_at(6, *sides, Choices(tolerances=Tolerances.parse(["float32=0.01"])))
    assert [word_of(f) for _, f in wide.findings("values")] == ["rounding"]
    assert ("float32", 0.01) in [(t.dtype, t.relative) for t in wide.tolerances]


def test_minimum_tolerances_are_those_of_torch_testing() -> None:
    table = {str(dtype).removeprefix("torch."): precision for dtype, precision in _DTYPE_PRECISIONS.items()}
    assert dict(LEAST_TOLERANCES) == table


@pytest.mark.parametrize("text", ["", "x", "int64=0.1", "-1", "nan", "float32=2"])
def test_invalid_tolerances_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--tolerance .*expected"):
        Tolerances.parse([text])


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("at 139961605721376", "at 94180756054336", False),  # mapped far apart: a library and the heap
        ("at 139961605721376", "at 140343908414432", True),
        ("at 139,961,605,721,376", "at 140,343,908,414,432", True),
        ("0x7f4b59ca8d20", "0x55d0c8a3b2a0", True),
        ("<T object at 0x7f4b59ca8d20>, 3", "<T object at 0x7f4b59ca9990>, 3", True),
        ("<T object at 0x7f4b59ca8d20>, 3", "<T object at 0x7f4b59ca8d20>, 4", False),
        ("<T object at 0x7f4b59ca8d20>", "<U object at 0x7f4b59ca8d20>", False),
        ("100000000000000 FLOP", "200000000000000 FLOP", False),
        ("140000000000000 FLOP", "141000000000000 FLOP", False),
        ("140737488355328 FLOP", "140737488355344 FLOP", False),
        ("6000000000000", "6000000000001", False),
        ("0xff", "0xfe", False),
    ],
)
def test_texts_that_differ_in_addresses_are_the_same(a: str, b: str, same: bool) -> None:
    values = ([("x", keyed(Value("str", text), items("list", Value("str", text))))] for text in (a, b))
    difference = differ_at(9, *({"stdout": text, "values": v} for text, v in zip((a, b), values, strict=True)))
    for aspect in ("values", "output"):
        assert [f.verdict for _, f in difference.findings(aspect)] == ([] if same else ["changed"]), aspect  # type: ignore[arg-type]


def test_peaks_that_each_trace_measured_are_no_difference() -> None:
    def trace(rate: float, shown: float) -> Trace:
        machine = replace(CPU, peaks=[Peak("float32", rate, "measured: best of 2", measured=True)])
        return with_steps(made(0, machine=machine), at(9, values=[("peak", Value("float", shown))]))

    for shown, expected in ((3e11, "noise"), (2.5e11, "changed")):
        difference = differ(trace(2e11, 2e11), trace(3e11, shown))
        assert [f.verdict for _, f in difference.findings("values")] == [expected]
