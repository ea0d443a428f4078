"""Plain arithmetic gives bit-identical results in JavaScript; other functions are refused in one line."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.javascript import evaluated
from trace_tools.trace.arithmetic import LONGEST, NotArithmetic, formula_of, javascript, shape_of

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
    """All that is allowed"""
    product: float = 6 * a * b - KEPT
    if 1 < a <= c and not (c == 5 or b > 1e40):
        scaled = product / b
        kind = larger(scaled, c)
    elif a < 0 or b < 0:
        scaled = abs(product) + DAY / 7
        kind = min(a, b, c)
    else:
        scaled = +c * LARGE
        kind = half(1)
    ends = math.ceil(scaled) if abs(scaled) < 1e300 else 0
    return {
        "scaled": scaled,
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
    """Return the results of each call in JavaScript, None for a call that throws."""
    code = javascript([formula_of(function).text])
    return list(
        evaluated(f"given.map((it) => {{ try {{ return {code}[0](...it); }} catch {{ return null; }} }})", calls)
    )


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
        raised += expected is None
        assert (actual is None) == (expected is None), numbers
        assert expected is None or all(map(equal, actual, expected)), (numbers, actual, expected)
    assert 10 < raised < 1_000


def test_formulas_use_generated_names() -> None:
    formula = formula_of(everything)
    assert formula.parameters == ("a", "b", "c") and formula.results[:2] == ("scaled", "kind")
    names = {node.id for node in ast.walk(ast.parse(formula.text)) if isinstance(node, ast.Name)}
    assert all(re.fullmatch(r"[fv]\d+|math|min|max|abs|float", name) for name in names)
    assert shape_of(formula.text) == (3, 7)


def test_scripts_contain_only_generated_and_allowed_names() -> None:
    words = set(
        re.findall(
            r"[A-Za-z_$][\w$.]*",
            re.sub(
                r"\d[\d.]*e[+-]?\d+",
                "1",
                javascript([formula_of(everything).text]).rpartition("};\n")[0].partition("Math.sqrt(x));\n")[2],
            ),
        )
    )
    allowed = r"[fv]\d+|const|let|return|if|else|over|least|most|floor|ceil|root|Math\.abs|true|false"
    assert [word for word in words if not re.fullmatch(allowed, word)] == []


def power(x):  # type: ignore[no-untyped-def]
    return {"a": x**2}


def floored(x):  # type: ignore[no-untyped-def]
    return {"a": x // 2}


def remainder(x):  # type: ignore[no-untyped-def]
    return {"a": x % 2}


def whole(x):  # type: ignore[no-untyped-def]
    n = math.ceil(x)
    return {"a": n * n}


def large(x):  # type: ignore[no-untyped-def]
    return {"a": x * 9007199254740993}


def infinite(x):  # type: ignore[no-untyped-def]
    return {"a": x * 1e999}


def loop(x):  # type: ignore[no-untyped-def]
    for _ in range(3):
        x = x + 1
    return {"a": x}


def truth(x):  # type: ignore[no-untyped-def]
    return {"a": 1.0 if x else 2.0}


def sum_of_truths(x):  # type: ignore[no-untyped-def]
    return {"a": (x > 1) + 1}


def rounded(x):  # type: ignore[no-untyped-def]
    return {"a": round(x)}


def logarithm(x):  # type: ignore[no-untyped-def]
    return {"a": math.log(x)}


def unassigned(x):  # type: ignore[no-untyped-def]
    if x > 1:
        y = 2.0
    return {"a": y}


def endless(x):  # type: ignore[no-untyped-def]
    if x > 1:
        return {"a": x}


def others(x):  # type: ignore[no-untyped-def]
    if x > 1:
        return {"a": x}
    return {"b": x}


def text_in_it(x):  # type: ignore[no-untyped-def]
    return {"a": "x"}


def itself(x):  # type: ignore[no-untyped-def]
    return itself(x)


def foreign(x):  # type: ignore[no-untyped-def]
    return {"a": random.random() * x}


def defaulted(x=1):  # type: ignore[no-untyped-def]
    return {"a": x}


def number_alone(x):  # type: ignore[no-untyped-def]
    return x


def tupled(x):  # type: ignore[no-untyped-def]
    return x, 2 * x


def mixed(x):  # type: ignore[no-untyped-def]
    return {"a": x > 1 if x < 2 else 3.0}


def membership(x):  # type: ignore[no-untyped-def]
    return {"a": x in (1, 2)}


def called_wrongly(x):  # type: ignore[no-untyped-def]
    return {"a": half(x, x)}


@each(
    ("function", "message"),
    [
        (power, "x ** 2: its last digit may differ in JavaScript: write a product"),
        (floored, "x // 2: write math.floor(a / b)"),
        (remainder, "x % 2: its result for negative numbers differs"),
        (whole, "n * n: JavaScript's integers have a limit"),
        (large, "9007199254740993: it does not fit in 64 bits"),
        (infinite, "it does not fit in 64 bits"),
        (loop, "for _ in range(3):: expected an assignment to a name, an if, or a return"),
        (truth, "x: expected a comparison"),
        (sum_of_truths, "x > 1: expected a number, found true or false"),
        (rounded, r"round(x): expected min, max, abs, float, math.floor, math.ceil, math.sqrt"),
        (logarithm, r"math.log(x): expected min"),
        (unassigned, "y: it is not assigned on every path to this line"),
        (endless, "endless: not every path through it ends with a return"),
        (others, "others: each return needs the same results"),
        (text_in_it, "'x': it has no exact counterpart"),
        (itself, "itself calls itself"),
        (foreign, "random: expected a number, or a function of plain arithmetic"),
        (defaulted, "defaulted: expected plain parameters without defaults"),
        (number_alone, "number_alone: expected a dict of results"),
        (tupled, "(x, 2 * x): it has no exact counterpart"),
        (mixed, "it is a number on one path and true or false on another"),
        (membership, "(1, 2): it has no exact counterpart"),
        (called_wrongly, "half(x, x): found 2 arguments; expected 1"),
        (len, "found a builtin_function_or_method; expected a function of the lecture"),
        (lambda x: {"a": x}, "<lambda>"),
    ],
)
def test_functions_without_exact_counterpart_are_refused_in_one_line(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(NotArithmetic, match=re.escape(message)) as refused:
        formula_of(function)
    assert "\n" not in str(refused.value)
    if function in (power, whole):
        line = function.__code__.co_firstlineno + (1 if function is power else 2)
        assert str(refused.value).startswith(f"line {line}: ")


@each(
    "text",
    [
        "",
        "alert(1)",
        "def f0(v0):\n    return (alert(v0),)",
        "def f0(v0):\n    return ('</script>',)",
        "def f0(v0):\n    return (v0.constructor,)",
        "def f0(v0):\n    return (v0['a'],)",
        "def f0(v0):\n    return (f0(v0),)",
        "def f0(v0):\n    return ((lambda: v0)(),)",
        "def f0(v0):\n    return (9**9**9**9,)",
        "def f0(v0):\n    return (" + "-" * 5_000 + "v0,)",
        "def f0(v0):\n    return (" + "(" * 90 + "v0" + ")" * 90 + " + v0" * 4_000 + ",)",
        "def f0(v0):\n    return (" + "v0 + " * 6_000 + "v0,)",
        "def f0(v0):\n" + "".join(f"{' ' * n}if v0 > 1:\n" for n in range(4, 90)) + " " * 90 + "return (v0,)",
        "def f0(v0):\n    \x00return v0",
        "class A: pass",
        "x" * (LONGEST + 1),
        "def f0(v0):\n    return (v0, *v0)",
        "def f0(v0):\n    return {**v0}",
        "def f0(v0):\n    return (math.floor(v0, v0),)",
        "def f0(v0):\n    return (1e999,)",
        "async def f0(v0):\n    return (v0,)",
        "def f0(v0):\n    v0: int\n    return (v0,)",
    ],
)
def test_invalid_formula_texts_are_refused(text: str) -> None:
    with pytest.raises(NotArithmetic):
        javascript([text])


def test_scripts_of_many_argument_kinds_stay_short() -> None:
    """A function is translated once per combination of argument kinds; these functions are called with many of them."""
    parts = ["def f0(v0, v1, v2):\n    return v0"]
    for n in range(1, 30):
        calls = " + ".join(
            f"float(f{n - 1}({', '.join(kinds)}))" for kinds in (("v0", "1", "v2"), ("1", "v1", "v0"), ("1", "1", "v2"))
        )
        parts.append(f"def f{n}(v0, v1, v2):\n    return float({calls})")
    parts.append("def f99(v0, v1, v2):\n    return (f29(v0, v1, v2),)")
    code = javascript(["\n".join(parts)])
    assert len(code) < 100_000


def test_special_names_of_javascript_are_ordinary_names() -> None:
    text = "def constructor(__proto__):\n    return (__proto__ + 1.5,)"
    assert evaluated(f"{javascript([text])}[0](2)", None) == [3.5]
