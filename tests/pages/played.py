"""A training loop of any number of steps, for tests of size and speed."""

from __future__ import annotations

import random

from tests.pages.recording import Recording
from trace_tools.trace.model import Tensor, Trace, Value

LECTURE = """\
def main():
    train()


def train():
    w = start()  # @inspect w
    for step in range(steps):
        x = batch(step)
        loss = model(x)  # @inspect loss
        w = update(w, loss)  # @inspect w
        rate = schedule(step)  # @inspect rate


def model(x):
    hidden = x @ w
    return hidden.sum()
"""


def training(steps: int) -> Trace:
    """Return a trace of at least `steps` steps; it is the same for each call."""
    numbers = random.Random(0)
    recording = Recording(LECTURE)
    train = recording.call(recording.frame("main"), "train()", "train")
    recording.step(train, "w = start", values=[("w", _weights(numbers))], annotated=True, host_ns=[1000])
    while recording.steps < steps:
        for code in ("for step", "x = batch"):
            recording.step(train, code, host_ns=_times(numbers))
        loss = [("loss", Value("float", numbers.gauss(2, 1), unit="nat"))]
        model = recording.frame(
            "model", recording.step(train, "loss", values=loss, annotated=True, host_ns=_times(numbers))
        )
        recording.step(model, "hidden", host_ns=_times(numbers))
        recording.step(model, "return hidden", host_ns=_times(numbers))
        recording.step(train, "w = update", values=[("w", _weights(numbers))], annotated=True, host_ns=_times(numbers))
        recording.step(train, "rate", values=[("rate", Value("float", 0.1))], annotated=True, host_ns=_times(numbers))
    return recording.trace()


def _times(numbers: random.Random) -> list[int]:
    return [numbers.randrange(1_000, 1_000_000) for _ in range(3)]


def _weights(numbers: random.Random) -> Value:
    elements = [numbers.gauss(0, 1) for _ in range(6)]
    return Value("tensor", tensor=Tensor("float32", [2, 3], "cpu", 24, [3, 1], storage="A", elements=[*elements]))
