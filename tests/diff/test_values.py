"""Verdicts on two values (same, rounding, varying, changed) and tolerances, checked with torch.testing."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.diff.planted import CPU, at, differ, made, tensor, with_steps
from trace_tools.diff.judge.between import Choices
from trace_tools.diff.judge.values import LEAST_TOLERANCES, Context, Tolerances, judge
from trace_tools.diff.wording import word_of
from trace_tools.errors import UsageError
from trace_tools.trace.model import Peak, Statistics, Trace, Value


def test_varying_values_are_never_called_changed() -> None:
    varying = replace(tensor(elements=[9.0, 8.0, 7.0, 6.0]), varies=True)
    difference = differ(made(0), with_steps(made(0), at(6, values=[("y", varying)])))
    assert not difference.matters
    assert [(f.verdict, word_of(f)) for _, f in difference.findings("values")] == [("noise", "varies")]


torch = pytest.importorskip("torch")


def verdict(a: Value, b: Value, **options: Any) -> str:
    """Return the verdict, of noise its kind."""
    judgement = judge(a, b, Context(**options))
    return (judgement.detail or "").partition(":")[0] if judgement.verdict == "noise" else judgement.verdict


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_tensor_elements_are_judged_like_torch_testing(dtype: str) -> None:
    rng = random.Random(dtype)
    for _ in range(150):
        size = 10.0 ** rng.uniform(-6, 3)
        relative_difference = 10.0 ** rng.uniform(-9, -1)
        x = torch.tensor([rng.choice([size, -size, 0.0, math.inf, math.nan]) for _ in range(3)], dtype=torch.float64)
        x = torch.nan_to_num(x).clamp(-1000, 1000) if dtype == "int64" else x
        y = (x * (1 + relative_difference)).to(getattr(torch, dtype))
        x = x.to(getattr(torch, dtype))
        try:
            torch.testing.assert_close(y, x, equal_nan=True)
            expected = {"same", "rounding"}
        except AssertionError:
            expected = {"changed"}
        pair = [tensor(dtype=dtype, shape=[3], strides=[1], elements=t.tolist()) for t in (x, y)]
        assert verdict(*pair) in expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1.0, 1.0 + 1e-9, "rounding"),
        (1.0, 1.001, "changed"),
        (0.1, math.nan, "changed"),
        (math.nan, math.nan, "same"),
        (math.inf, math.inf, "same"),
        (math.inf, -math.inf, "changed"),
        (1e308, math.inf, "changed"),
        (0.0, -0.0, "same"),
        (0.3333333432674408, 0.3333333134651184, "rounding"),  # neighbours in float32, as returned by .item()
        (0.3333333432674408, 0.33333333333, "rounding"),
        (0.3333, 0.3333005, "changed"),  # not float32 values, so the tolerance of float64 applies
    ],
)
def test_floats(a: float, b: float, expected: str) -> None:
    assert verdict(Value("float", a), Value("float", b)) == expected


def test_zeros_of_both_signs_are_equal() -> None:
    zero, minus = Value("float", 0.0), Value("float", -0.0)
    assert verdict(Value("list", items=[zero], length=1), Value("list", items=[minus], length=1)) == "same"
    assert verdict(Value("list", items=[minus], length=1), Value("list", items=[minus], length=1)) == "same"
    assert verdict(Value("complex", text="0j"), Value("complex", text="(-0+0j)")) == "same"
    for dtype, x, y, expected in (
        ("float32", [0.0, 1.0], [-0.0, 1.0], "same"),
        ("float32", [0.0, 1.0], [-0.0, 2.0], "changed"),
        ("float32", [0.0, 1.0], [-0.0, 1.0000001], "rounding"),
        ("float32", [0.0, math.nan], [-0.0, math.nan], "same"),
        ("complex64", [[0.0, 1.0]], [[-0.0, 1.0]], "same"),
        ("int64", [0, 1], [0, 1], "same"),
    ):
        sides = (tensor(dtype=dtype, shape=[len(e)], strides=[1], elements=e) for e in (x, y))
        assert verdict(*sides) == expected, (dtype, x, y)


def test_other_values_are_compared_exactly() -> None:
    assert verdict(Value("int", 2**70), Value("int", 2**70 + 1)) == "changed"
    assert verdict(Value("int", 1), Value("float", 1.0)) == "changed"
    assert verdict(Value("bool", True), Value("int", 1)) == "changed"
    assert verdict(Value("str", "a"), Value("str", "b")) == "changed"
    assert verdict(Value("error", text="NameError: x"), Value("error", text="NameError: x")) == "same"
    assert verdict(Value("float", 10**400), Value("float", 1.0)) == "changed"


def test_containers_have_the_verdict_of_their_worst_part() -> None:
    def pair(x: float, y: int) -> Value:
        entries = [(Value("str", "loss"), Value("float", x)), (Value("str", "step"), Value("int", y))]
        return Value("dict", length=2, entries=entries)

    assert verdict(pair(1.0, 3), pair(1.0 + 1e-9, 3)) == "rounding"
    assert judge(pair(1.0, 3), pair(1.0, 4), Context()).detail == "'step': 3 → 4 (33%)"
    shorter = Value("list", length=1, items=[Value("int", 1)])
    assert judge(shorter, Value("list", length=2, items=shorter.items), Context()).detail == "1 → 2 entries"
    a, b = (Value("set", length=2, items=[Value("int", n) for n in order]) for order in ((1, 2), (2, 1)))
    assert verdict(a, b) == "same"


def test_a_large_tensor_is_judged_by_its_corner_and_statistics() -> None:
    def large(**changes: Any) -> Value:
        statistics = Statistics(**({"min": -4.0, "max": 4.0, "mean": 1e-4, "std": 1.0} | changes))
        shape: Any = {"shape": [1024, 1024], "strides": [1024, 1], "elements": None}
        return tensor(**shape, corner=[1.0], corner_shape=[1, 1], statistics=statistics)

    assert verdict(large(), large(mean=1e-4 + 1e-7)) == "rounding"
    assert verdict(large(), large(mean=0.1)) == "changed"
    assert verdict(large(), large(nan=1)) == "changed"
    assert verdict(large(), large(zero=5)) == "changed"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"strides": [1, 2]}, "strides (2, 1) → (1, 2)"),
        ({"shape": [4], "strides": [1]}, "shape [2, 2] → [4]"),
        ({"dtype": "float64"}, "dtype float32 → float64"),
        ({"requires_grad": True}, "requires_grad False → True"),
        ({"offset": 4}, "storage offset 0 → 4"),
        ({"device": "meta"}, "device cpu → meta"),
        ({"elements": [1.0, 2.0, 3.0, 5.0]}, "1 of 4 elements differs, by the most at [1, 1]: 4. → 5. (25%)"),
    ],
)
def test_detail_states_what_differs(change: dict[str, Any], detail: str) -> None:
    assert judge(tensor(), tensor(**change), Context()).detail == detail


def test_device_may_differ_between_kinds_of_machines() -> None:
    assert verdict(tensor(), tensor(device="cuda:0"), devices=("cpu", "cuda")) == "same"


def test_complex_elements() -> None:
    a = tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, 2.0]])
    assert verdict(a, tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, 2.0000001]])) == "rounding"
    assert verdict(a, tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, -2.0]])) == "changed"


def test_series_are_compared_with_their_row_labels() -> None:
    def series(*labels: str, **fields: Any) -> Value:
        return Value(
            "Series", length=2, items=[Value("int", 1)] * 2, labels=[*(Value("str", x) for x in labels)], **fields
        )

    assert verdict(series("a", "b"), series("a", "b")) == "same"
    assert judge(series("a", "b"), series("a", "c"), Context()).detail == "label of row 1: 'b' → 'c'"
    assert verdict(series("a", "b"), replace(series(), labels=None)) == "changed"
    older = replace(series(), labels=None, note="without its index")
    assert verdict(older, series("a", "b")) == "same"


# --- tolerances -----------------------------------------------------------------------------------


def test_a_wider_tolerance_makes_a_change_rounding() -> None:
    b = with_steps(made(0), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 4.01]))]))
    assert differ(made(0), b).matters
    wide = differ(made(0), b, Choices(tolerances=Tolerances.parse(["float32=0.01"])))
    assert [word_of(f) for _, f in wide.findings("values")] == ["rounding"]
    assert ("float32", 0.01) in [(t.dtype, t.relative) for t in wide.tolerances]


def test_minimum_tolerances_are_those_of_torch_testing() -> None:
    from torch.testing._comparison import _DTYPE_PRECISIONS

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
    def trace(text: str) -> Trace:
        values = [
            ("x", Value("dict", length=1, entries=[(Value("str", text), Value("list", items=[Value("str", text)]))]))
        ]
        return with_steps(made(0), at(9, stdout=text, values=values))

    found = [f.verdict for _, f in differ(trace(a), trace(b)).findings("values")]
    printed = [f.verdict for _, f in differ(trace(a), trace(b)).findings("output")]
    assert (found, printed) == (([], []) if same else (["changed"], ["changed"]))


def test_labels_of_addresses_never_differ() -> None:
    first, second, other = Value("int", text="address 1"), Value("int", text="address 2"), Value("int", 7)
    context = Context()
    assert judge(first, second, context).verdict == "same" and judge(first, other, context).verdict == "changed"
    keyed = [Value("dict", length=1, entries=[(key, Value("int", 1))]) for key in (first, second, other)]
    assert [judge(keyed[0], value, context).verdict for value in keyed] == ["same", "same", "changed"]
    long = [Value("int", text=f"0x{n}… (9000 bits)", note="too long to write out") for n in (1, 2)]
    assert judge(*long, context).verdict == "changed"


def test_peaks_that_each_trace_measured_are_no_difference() -> None:
    def trace(rate: float, shown: float) -> Trace:
        machine = replace(CPU, peaks=[Peak("float32", rate, "measured: best of 2", measured=True)])
        return with_steps(made(0, machine=machine), at(9, values=[("peak", Value("float", shown))]))

    verdicts = [
        [f.verdict for _, f in differ(trace(2e11, one), trace(3e11, other)).findings("values")]
        for one, other in ((2e11, 3e11), (2e11, 2.5e11))
    ]
    assert verdicts == [["noise"], ["changed"]]
