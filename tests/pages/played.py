"""A lecture to step through: aliases, calls, cleared names, hidden and animated lines."""

from __future__ import annotations

from typing import Any

from tests.pages.lectures import number
from tests.pages.recording import Recording
from trace_tools.trace.model import Tensor, Text, Value

STEPS = """\
from trace_tools import text


def main():
    f()


def f():
    x = zeros()  # @inspect x
    y = view(x)  # @inspect y
    y[0] = 9  # @inspect y
    total = g(1)  # @inspect total
    g(2)  # @clear total x
    secret()  # @hide
    shown = secret()  # @hide @inspect shown
    [text(word) for word in "ab"]  # @animate
    for word in "ab":
        text(word)


def g(n):  # @inspect n
    double = 2 * n  # @inspect double
    return double
"""


def vector(*elements: float, **fields: Any) -> Value:
    layout: dict[str, Any] = {"strides": [1], "storage": "A"} | fields
    return Value("tensor", tensor=Tensor("float32", [len(elements)], "cpu", elements=list(elements), **layout))


def played() -> Recording:
    recording = Recording(STEPS)
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "x = zeros", values=[("x", vector(0.0, 0.0, 0.0))])
    recording.step(f, "y = view", values=[("y", vector(0.0, 0.0, offset=1))])
    recording.step(f, "y[0] = 9", values=[("y", vector(9.0, 0.0, offset=1))])
    for code, n, fields in (("total = g", 1, {"values": [("total", number(2))]}), ("g(2)", 2, {})):
        g = recording.frame("g", recording.step(f, code, **fields), arguments=[("n", number(n))])
        recording.step(g, "double", values=[("double", number(2 * n))])
        recording.step(g, "return double")
    recording.step(f, "secret()")
    recording.step(f, "shown = secret", values=[("shown", number(7))])
    recording.step(f, "[text(word)", narrative=[Text(text=word) for word in "ab"])
    for word in "ab":
        recording.step(f, "for word")
        recording.step(f, "text(word)", narrative=[Text(text=word)])
    recording.step(f, "for word")
    return recording
