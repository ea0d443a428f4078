"""Synthetic traces for tests and benchmarks; their numbers are invented.

example_trace()                          every kind of event, value and narrative once
example_trace(title="Other")             with fields of the trace replaced
big_trace(100_000)                       each step has a time, every third a scalar, every tenth 16 elements
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from trace_tools.trace import model as m
from trace_tools.trace.explorations import Exploration, Input, Menu, Result
from trace_tools.trace.model import Frame, Meters, Step, Text, Trace, Value

LECTURE = '''\
"""A lecture for tests."""

import torch

from trace_tools import image, link, note, plot, table, text


def main():
    matmul()
    kinds_of_values()
    loss_curve()


def matmul():
    text("A product of two matrices costs $2BDK$ FLOPs.")
    B, D, K = 2, 3, 4
    x = torch.ones(B, D)  # @inspect x
    w = torch.arange(12.0).reshape(D, K)  # @inspect w w.T
    y = product(x, w)  # @inspect y
    flops = 2 * B * D * K  # @inspect flops [FLOP]
    assert flops == 48
    assert torch.equal(y[0], y[1])


def product(a, b):  # @inspect a b
    return a @ b


def kinds_of_values():
    odd = [float("nan"), -0.0, 2**70, 1j, None, "α–β", {"k": (1, True)}]  # @inspect odd odd[9]
    ring = []
    ring.append(ring)  # @inspect ring
    big = torch.randn(1024, 1024)  # @inspect big
    total = 0
    for i in range(1000):  # @inspect i
        total += i
    print("total", total)


def loss_curve():
    note("Speak slowly here.")
    link("https://arxiv.org/abs/1412.6980", title="Adam", authors="Kingma and Ba", date="2014")
    image("images/loss.png", "a loss curve", width=400)
    table([["sgd", 0.1], ["adam", 1e-3]], ["optimiser", "rate"], title="Rates")
    plot({"train": [2.0, 1.0, 0.5]}, title="Loss", x_label="step", y_label="loss", y_scale="log")
    batches = draw()
    next(batches), next(batches)


def draw():
    yield 2.0
'''


def example_trace(**changes: Any) -> Trace:
    """Return a small trace with every kind of event, value and narrative; `changes` replace their fields."""
    trace = Trace(
        title="A lecture for tests",
        run=_run(),
        machine=_machine(),
        versions=[("python", "3.11.7"), ("torch", "2.13.0")],
        source=m.SourceFile("lecture.py", LECTURE),
        steps=[*_opening(), *_matmul_steps(), *_kinds_steps(), *_curve_steps()],
    )
    return replace(trace, **changes)


def _run() -> m.Run:
    ended = "StopIteration at line 47"
    return m.Run(
        lecture="lecture.py",
        started="2025-01-31T12:00:00Z",
        seed=0,
        passes=3,
        limit=100,
        complete=False,
        ended=ended,
        timed_runs=6,
        commit="0123456789abcdef",
        keep_going=True,
        processes=[
            m.Process("pass 1", ended, cold_ns=9_000_000, warm_ns=4_000_000, restored=["random state"]),
            m.Process("pass 2", ended, cold_ns=9_100_000, warm_ns=4_100_000, notes=["fans at 40%"]),
            m.Process("pass 3", ended, cold_ns=8_900_000, why_no_warm="it ran out of memory"),
        ],
        dropped=["samples of 3 values: over the size cap"],
    )


def _machine() -> m.Machine:
    return m.Machine(
        name="NVIDIA H200",
        slug="nvidia-h200",
        device="cuda",
        memory_bytes=150_754_820_096,
        multiprocessors=132,
        compute_capability="9.0",
        driver="570.00",
        cuda="12.8",
        tf32="highest",
        cpu="A processor",
        cores=16,
        threads=16,
        ram_bytes=2**37,
        os="Linux 6.1",
        peaks=[
            m.Peak("bfloat16", 9.895e14, "A datasheet (dense)"),
            m.Peak("memory", 4.8e12, "A datasheet"),
            m.Peak("float8", None, "not in the table"),
            m.Peak("float32", 5.0e13, "measured: a matmul of side 8192", measured=True),
        ],
    )


def _tensor(shape: list[int], elements: list[Any] | None = None, **more: Any) -> Value:
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    settings: dict[str, Any] = {"bytes": 4 * math.prod(shape), "strides": strides, "offset": 0, "contiguous": True}
    settings |= {"storage": "A", "storage_bytes": 4 * math.prod(shape), "elements": elements} | more
    return Value("tensor", tensor=m.Tensor("float32", shape, "cuda:0", **settings))


def _inspected(**values: Value) -> dict[str, Any]:
    return {"annotated": True, "values": [*values.items()]}


def _opening() -> list[m.Event]:
    return [
        Frame(0, "<module>"),
        Step(0, 0, 1, 3, host_ns=[800_000_000, 790_000_000], cold_ns=[900_000_000]),
        Step(1, 0, 2, 5, host_ns=[4000, 4100, 3900]),
        Frame(1, "main"),
        Step(2, 1, 4, 9, host_ns=[900_000, 910_000, 905_000], allocated_bytes=2048),
    ]


def _matmul_steps() -> list[m.Event]:
    w = [float(n) for n in range(12)]
    transposed = [w[4 * row + column] for column in range(4) for row in range(3)]
    x, y = _tensor([2, 3], [1.0] * 6), _tensor([2, 4], [12.0, 15.0, 18.0, 21.0] * 2, storage="C")
    aliases = [
        ("w", _tensor([3, 4], w, storage="B", requires_grad=True)),
        ("w.T", _tensor([4, 3], transposed, storage="B", strides=[1, 4], contiguous=False)),
    ]
    meters = Meters(48, 72, 32, 104, 136, operators=[("aten.mm", 1)], work=[("aten.mm", "float32", 48, 104)])
    held = [("flops", Value("int", 48)), ("48", Value("int", 48))]
    failed = m.Claim("torch.equal(y[0], y[1])", False, message="rows differ", failed_runs=["pass 2, warm"])
    return [
        Frame(2, "matmul", of=2),
        Step(3, 2, 8, 15, narrative=[Text(text="A product of two matrices costs $2BDK$ FLOPs.")]),
        Step(4, 2, 9, 16, host_ns=[300, 310, 290]),
        Step(5, 2, 10, 17, host_ns=[9000, 9100, 8900], **_inspected(x=x)),
        Step(6, 2, 11, 18, host_ns=[9000, 9500, 9900], annotated=True, values=aliases),
        Step(
            7,
            2,
            12,
            19,
            host_ns=[21_000, 20_000, 22_000],
            cold_ns=[90_000, 91_000, 89_000],
            device_ns=[7_000, 7_100, 6_900],
            launch_ns=[4_000, 4_100, 3_900],
            queued_ns=[60_000, 61_000, 59_000],
            allocated_bytes=1536,
            meters=meters,
            **_inspected(y=y),
        ),
        Frame(3, "product", of=7, arguments=[("a", x), ("b", _tensor([3, 4], w, storage="B"))]),
        Step(8, 3, 17, 26, host_ns=[15_000, 14_000, 16_000], meters=meters),
        Step(9, 2, 13, 20, host_ns=[200, 210, 190], **_inspected(flops=Value("int", 48, unit="FLOP"))),
        Step(10, 2, 14, 21, claim=m.Claim("flops == 48", True, held)),
        Step(11, 2, 15, 22, claim=failed),
    ]


def _kinds_steps() -> list[m.Event]:
    odd = [
        *(Value("float", math.nan), Value("float", -0.0), Value("int", 2**70), Value("complex", text="1j")),
        *(Value("none"), Value("str", "α–β")),
        Value("dict", length=1, entries=[(Value("str", "k"), Value("tuple", length=2, items=[Value("int", 1)]))]),
    ]
    values = [
        ("odd", Value("list", items=odd, length=7)),
        ("odd[9]", Value("error", text="IndexError: list index out of range")),
    ]
    statistics = m.Statistics(-4.9, 5.1, 3e-07, 1.0, nan=0, inf=0, zero=1, histogram=[20, 500_000, 548_036, 19])
    corner = {"corner": [0.5, -1.25, 1e-05, math.inf], "corner_shape": [2, 2], "statistics": statistics}
    ring = Value("list", length=1, items=[Value("cycle")])
    varying = Value("int", 0, varies=True, samples=[0, 1, 0], cold_samples=[1, 1, 0])
    return [
        Step(12, 1, 5, 10, host_ns=[400_000, 410_000, 405_000]),
        Frame(4, "kinds_of_values", of=12),
        Step(13, 4, 19, 30, host_ns=[700], annotated=True, values=values),
        Step(14, 4, 20, 31, host_ns=[60]),
        Step(15, 4, 21, 32, host_ns=[90], **_inspected(ring=ring)),
        Step(16, 4, 22, 33, compiled=True, graph=True, **_inspected(big=_tensor([1024, 1024], storage="D", **corner))),
        Step(17, 4, 23, 34, host_ns=[50]),
        Step(18, 4, 24, 35, host_ns=[150], **_inspected(i=varying)),
        Step(19, 4, 25, 36, host_ns=[40]),
        m.Omitted(998, 4, 25, 36, host_ns=41_000),
        Step(20, 4, 25, 36, execution=1000, host_ns=[41]),
        Step(
            id=21,
            frame=4,
            statement=26,
            line=37,
            host_ns=[9_000],
            stdout="total 499500\n",
            warnings=["UserWarning: take care"],
            left_out=[m.LeftOut("warnings", 3)],
        ),
    ]


def _explored() -> m.Narrative:
    cards = [Input("bandwidth", "bandwidth", 3.35e12, 1e9, 1e15, "log")]
    exploration = Exploration(
        name="seconds",
        formula="def f0(v0, v1):\n    return (v0 / v1, v0 > 1000000000.0)",
        parameters=["bytes", "bandwidth"],
        inputs=[Input("bytes", "bytes", 2e9, 1.0, 1e15, "log", unit="B")],
        menus=[Menu("GPU", cards, [("H100", [3.35e12])], own=True)],
        results=[Result("seconds", "seconds", 2e9 / 3.35e12, "s"), Result("large", "large", value=True)],
        curve=("bytes", "seconds"),
        across="GPU",
    )
    return m.Explore(text="{seconds}: {large?much|little}.", title="How long", exploration=exploration)


def _curve_steps() -> list[m.Event]:
    adam = {"title": "Adam", "authors": "Kingma and Ba", "date": "2014", "text": "An optimiser."}
    choice = m.Choice(0.9, 1.1, [1.2, 1.3], "above", sentences=None)
    rates = m.Table(
        title="Rates",
        columns=["optimiser", "rate"],
        rows=[["sgd", 0.1], ["adam", 1e-3]],
        varied=[m.Varied([1e-3, 2e-3, 1e-3], row=1, column=1)],
        others=[("another table", 2)],
    )
    axes = {"x_label": "step", "y_label": "loss", "x_scale": "linear", "y_scale": "log"}
    loss = m.Plot(title="Loss", series=[m.Series("train", [0, 1, 2], [2.0, 1.0, 0.5])], **axes)
    measured = m.Measured([1e-06, 1.1e-06, 1e-06], 2_000, 4_000, 4_000, "float32", [("aten.mm", 1)])
    uncounted = Meters(uncounted=["aten.odd"], meta_flops=0, dtype="float32", why="fused", device_operators=1)
    return [
        Step(22, 1, 6, 11, host_ns=[52_000]),
        Frame(5, "loss_curve", of=22),
        Step(
            23,
            5,
            28,
            41,
            narrative=[m.Note(text="Speak slowly here."), Text(text="Faster.", choice=choice), _explored()],
        ),
        Step(24, 5, 29, 42, narrative=[m.Link(url="https://arxiv.org/abs/1412.6980", **adam)]),
        Step(25, 5, 30, 43, narrative=[m.Image(url="images/loss.png", title="a loss curve", width=400)]),
        Step(26, 5, 31, 44, narrative=[rates]),
        Step(27, 5, 32, 45, narrative=[loss]),
        Step(28, 5, 33, 46, host_ns=[100], meters=uncounted, measured=[measured], harness=True, runs=4),
        Step(29, 5, 34, 47, raised=m.Raised("StopIteration", "", origin_line=47)),
        Frame(6, "draw", of=29, thread="Thread-1"),
        Step(30, 6, 36, 51, suspended=True),
    ]


def big_trace(steps: int) -> Trace:
    """Return a trace with this number of steps in one frame, for benchmarks; it is the same each time."""
    numbers = random.Random(0)
    events: list[m.Event] = [Frame(0, "<module>")]
    for step in range(steps):
        values = []
        if step % 3 == 0:
            values.append(("loss", Value("float", numbers.gauss(0, 1), unit="nat")))
        if step % 10 == 0:
            values.append(("w", _tensor([4, 4], [numbers.gauss(0, 1) for _ in range(16)])))
        times = [numbers.randrange(1_000, 1_000_000) for _ in range(3)]
        events.append(Step(step, 0, step % 50, step % 50 + 1, step // 50 + 1, times, values=values or None))
    source = "".join(f"x{line} = {line}\n" for line in range(50))
    return example_trace(title="A big trace", source=m.SourceFile("lecture.py", source), steps=events)
