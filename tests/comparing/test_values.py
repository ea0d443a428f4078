from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tests.comparing.planted import tensor
from trace_tools.comparing.judging.tolerance import FLOOR, Tolerances
from trace_tools.comparing.judging.values import Context, judge
from trace_tools.errors import UsageError
from trace_tools.schema import Statistics, Value

torch = pytest.importorskip("torch")


def verdict(a: Value, b: Value, **options: Any) -> str:
    return judge(a, b, Context(**options)).verdict


def test_the_floor_is_that_of_torch_testing() -> None:
    from torch.testing._comparison import _DTYPE_PRECISIONS

    table = {str(dtype).removeprefix("torch."): precision for dtype, precision in _DTYPE_PRECISIONS.items()}
    assert dict(FLOOR) == table


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_elements_are_judged_as_torch_testing_judges_them(dtype: str) -> None:
    rng = random.Random(dtype)
    for _ in range(150):
        size = 10.0 ** rng.uniform(-6, 3)
        apart = 10.0 ** rng.uniform(-9, -1)
        x = torch.tensor([rng.choice([size, -size, 0.0, math.inf, math.nan]) for _ in range(3)], dtype=torch.float64)
        x = torch.nan_to_num(x).clamp(-1000, 1000) if dtype == "int64" else x
        y = (x * (1 + apart)).to(getattr(torch, dtype))
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
        (0.3333333432674408, 0.3333333134651184, "rounding"),  # neighbours in float32, as .item() gives them
        (0.3333333432674408, 0.33333333333, "rounding"),
        (0.3333, 0.3333005, "changed"),  # no float32: float64's tolerance
    ],
)
def test_floats(a: float, b: float, expected: str) -> None:
    assert verdict(Value("float", a), Value("float", b)) == expected


def test_other_values_are_compared_exactly() -> None:
    assert verdict(Value("int", 2**70), Value("int", 2**70 + 1)) == "changed"
    assert verdict(Value("int", 1), Value("float", 1.0)) == "changed"
    assert verdict(Value("bool", True), Value("int", 1)) == "changed"
    assert verdict(Value("str", "a"), Value("str", "b")) == "changed"
    assert verdict(Value("error", text="NameError: x"), Value("error", text="NameError: x")) == "same"
    assert verdict(Value("float", 10**400), Value("float", 1.0)) == "changed"


def test_containers_are_judged_by_their_gravest_part() -> None:
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
        ({"elements": [1.0, 2.0, 3.0, 5.0]}, "1 of 4 elements differs, the most at [1, 1]: 4. → 5. (25%)"),
    ],
)
def test_what_exactly_differs_is_said(change: dict[str, Any], detail: str) -> None:
    assert judge(tensor(), tensor(**change), Context()).detail == detail


def test_another_device_is_no_change_on_another_kind_of_machine() -> None:
    assert verdict(tensor(), tensor(device="cuda:0"), devices=("cpu", "cuda")) == "same"


def test_complex_elements() -> None:
    a = tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, 2.0]])
    assert verdict(a, tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, 2.0000001]])) == "rounding"
    assert verdict(a, tensor(dtype="complex64", shape=[1], strides=[1], elements=[[1.0, -2.0]])) == "changed"


@pytest.mark.parametrize("text", ["", "x", "int64=0.1", "-1", "nan", "float32=2"])
def test_a_tolerance_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--tolerance .*expected"):
        Tolerances.parse([text])
