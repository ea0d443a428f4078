"""Plain arithmetic gives the same results in JavaScript; other functions are refused. A sentence has placeholders."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.javascript import evaluated
from trace_tools.trace.explorations import NotArithmetic, formula_of, javascript, places, shape_of

DAY = 60 * 60 * 24
LARGE = 10**18
KEPT = 0.1


def half(x: float) -> float:
    return x / 2


def larger(x: float, y: float) -> float:
    """Helper with two returns"""
    if x > y:
        return half(x)
    return -y


def everything(a: float, b: float, c: float) -> dict[str, float | bool]:
    """All that is allowed; a variable may have the name of a function, such as `values`"""
    product: float = 6 * a * b - KEPT
    if 1 < a <= c and not (c == 5 or b > 1e40):
        values = product / b
        kind = larger(values, c)
    elif a < 0 or b < 0:
        values = abs(product) + DAY / 7
        kind = min(a, b, c)
    else:
        values = +c * LARGE
        kind = half(1)
    ends = math.ceil(values) if abs(values) < 1e300 else 0
    return {
        "scaled": values,
        "kind": max(kind, -c),
        "ends": ends / 3,
        "root": math.sqrt(abs(c)) * (2**10),
        "floor": -math.floor(c / 3) * 0.5,
        "is": a < b < c or c != c,
        "chosen": (a if a > b else b) + float(ends),
    }


def values(draw: random.Random, count: int) -> list[float]:
    kinds = [
        lambda: draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30),
        lambda: float(draw.randint(-5, 5)),
        lambda: draw.choice([0.0, -0.0, 0.5, -0.5, 1e308, -1e308, 5e-324, 2.0**53, 2.0**53 + 2]),
    ]
    return [draw.choice(kinds)() for _ in range(count)]


def in_python(function: Callable[..., dict[str, Any]], arguments: list[float]) -> list[Any] | None:
    """Return the results of the function in Python, or None if it raises."""
    try:
        return list(function(*arguments).values())
    except (ArithmeticError, ValueError):
        return None


def in_javascript(function: Callable[..., Any], calls: list[list[float]]) -> list[Any]:
    """Return the results of each call in JavaScript."""
    return list(evaluated(f"given.map((it) => {javascript([formula_of(function).text])}[0](...it))", calls))


def equal(actual: Any, expected: Any) -> bool:
    if isinstance(actual, str):  # Infinity, NaN
        return not isinstance(expected, bool) and str(float(actual.replace("Infinity", "inf"))) == str(float(expected))
    return (isinstance(actual, bool), actual) == (isinstance(expected, bool), expected)


def test_javascript_equals_python_on_random_numbers() -> None:
    draw = random.Random(0)
    calls = [values(draw, 3) for _ in range(3_000)]
    raised = 0
    for numbers, actual in zip(calls, in_javascript(everything, calls), strict=True):
        expected = in_python(everything, numbers)
        if expected is None:  # a division by zero, say; pages show no result if one of them is not finite
            raised += 1
        else:
            assert all(map(equal, actual, expected)), (numbers, actual, expected)
    assert raised < 1_000
    formula = formula_of(everything)
    assert formula.parameters == ("a", "b", "c") and formula.results[:2] == ("scaled", "kind")
    assert shape_of(formula.text) == (3, 7)


PLAIN = "expected a plain function of the lecture"
DICT = "expected a dict with the same results from each return"


@each(
    ("body", "message"),
    [
        ("return {'a': x % 2}", "line 3: x % 2: expected + - * / **"),
        ("return {'a': x // 0.1}", "x // 0.1: expected + - * / **"),
        ("return {'a': x * 1e999}", "expected + - * / **"),
        ("for _ in range(3):\n        x = x + 1\n    return {'a': x}", "for _ in range(3):: expected an assignment"),
        ("return {'a': round(x)}", "round(x): expected min, max, abs, floor, ceil, sqrt, float"),
        ("return {'a': math.log(x)}", "math.log(x): expected min"),
        ("if x > 1:\n        return {'a': x}\n    return {'b': x}", DICT),
        ("return x", DICT),
        ("return x, 2 * x", DICT),
        ("return {'a': 'x'}", "'x': expected + - * / **"),
        ("return f(x)", f"{PLAIN} that does not call itself"),
        ("return {'a': random.random() * x}", "random.random(): expected + - * / **"),
        ("return {'a': x in (1, 2)}", "x in (1, 2): expected + - * / **"),
        ("return {'a': x}\ndef f(x=1):\n    return {'a': x}", "expected plain parameters without defaults"),
        ("return {'a': x}\nf = len", f"<built-in function len>: {PLAIN}"),
        ("return {'a': x}\nf = lambda x: {'a': x}", "<lambda>: its source can't be found; expected a def"),
        ("return {'a': x}\nexec('def f(x): return {}')", "f: its source can't be found; expected a def"),
    ],
)
def test_other_functions_are_refused_in_one_line(body: str, message: str, tmp_path: Path) -> None:
    text, names = f"import math, random\ndef f(x):\n    {body}\n", dict[str, Any]()
    (tmp_path / "lecture.py").write_text(text)
    exec(compile(text, str(tmp_path / "lecture.py"), "exec"), names)
    with pytest.raises(NotArithmetic, match=re.escape(message)) as refused:
        formula_of(names["f"])
    assert "\n" not in str(refused.value)


@each(
    "text",
    [
        "",
        "alert(1)",
        "def f0(v0):\n    return (alert(v0),)",
        "def f0(v0):\n    return ('</script>',)",
        "def f0(v0):\n    return (v0.constructor,)",
        "def f0(v0):\n    return (v0['a'],)",
        "def f0(v0):\n    return ((lambda: v0)(),)",
        "def f0(v0):\n    \x00return v0",
        "class A: pass",
        "def f0(v0):\n    return (v0, *v0)",
        "def f0(v0):\n    return {**v0}",
        "def f0(v0):\n    return (1e999,)",
        "async def f0(v0):\n    return (v0,)",
        "def f0(v0):\n    v0: int\n    return (v0,)",
    ],
)
def test_invalid_formula_texts_are_refused(text: str) -> None:
    with pytest.raises(NotArithmetic):
        javascript([text])


def test_special_names_of_javascript_are_ordinary_names() -> None:
    text = "def constructor(__proto__):\n    return (__proto__ + 1.5,)"
    assert evaluated(f"{javascript([text])}[0](2)", None) == [3.5]


def test_a_sentence_is_split_into_parts() -> None:
    assert places("") == []
    assert places("In {days}.") == ["In ", ("days",), "."]
    assert places("{fits?In {days}|Too | large}!") == [("fits", ["In ", ("days",)], ["Too | large"]), "!"]
    assert places("a | b } c? ") == ["a | b } c? "]


@each("text", ["{", "{a", "{a?", "{a?b", "{a?b|", "{a?b}", "{a|b}", "{a{b}}", "{a?{b|c}", "{a?b|{c?d|e}}"])
def test_malformed_placeholders_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"a \{ has no \}"):
        places(text)
