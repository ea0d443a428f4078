"""Exchanged"""

from dataclasses import dataclass

import numpy as np
import torch
from edtrace import link, note, plot, text


@dataclass(frozen=True)
class Pair:
    a: int
    b: list[int]


def main():
    text("# Small")
    values()
    loops()


def values():
    text("Some "), link(title="T", url="https://example.org/x")
    x = torch.tensor([1.0, 2.0])  # @inspect x x.shape
    n = None  # @inspect n
    p = Pair(1, [2, 3])  # @inspect p p.a
    w = torch.tensor([[0.5, float("nan")], [float("inf"), -1.0]])  # @inspect w
    d = {"a": (1, 2.5, True), "b": float("inf")}  # @inspect d
    k = np.int64(3)  # @inspect k
    y = square(3) + square(4)  # @inspect y
    text("done")  # @clear x y @hide
    text("a table\nof two lines", verbatim=True)
    note("Slowly."), text("see "), link(square)
    plot({"data": {"values": [{"a": 1, "b": 2}, {"a": 2, "b": 3}]}, "mark": "line",
          "encoding": {"x": {"field": "a", "type": "quantitative"}, "y": {"field": "b", "type": "quantitative"}}})


def square(v):  # @inspect v
    return v * v


def loops():
    total = 0
    for i in range(3):  # @inspect i
        total += square(i)  # @inspect total
    with open("/dev/null") as f:
        total += 1
    try:
        raise ValueError("x")
    except ValueError:
        total = -1
    assert total == -1
    g = gen()
    a = next(g)  # @inspect a
    b = next(g)  # @inspect b
    s = sum(square(q) for q in range(2))  # @inspect s
    z = square(2)  # @inspect z @stepover


def gen():
    yield 1
    yield 2
