"""FLOPs of a function equal those of the same function in operators of one FLOP per element and exponentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from trace_tools.metering import convention
from trace_tools.metering.meters import Meter

X = torch.rand(4, 1024) + 0.5
PARTS: dict[str, Callable[[], Any]] = {
    "TRANSCENDENTAL": lambda: X.exp(),
    "POWER": lambda: (X * X.log()).exp(),
    "TANH": lambda: ((e := (2 * X).exp()) - 1) / (e + 1),
    "SIGMOID": lambda: (1 + (-X).exp()).reciprocal(),
    "GELU": lambda: 0.5 * X * (1 + torch.erf(X * 0.7071)),
    "SOFTMAX": lambda: (e := (X - X.amax(1, keepdim=True)).exp()) / e.sum(1, keepdim=True),
    "NORM": lambda: (d := X - X.mean(1, keepdim=True)) * torch.rsqrt(d.square().mean(1, keepdim=True)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_function_costs_the_sum_of_its_parts(name: str) -> None:
    with Meter() as meter:
        PARTS[name]()
    assert meter.flops // X.numel() == getattr(convention, name)
    assert set(PARTS) == {name for name in vars(convention) if name.isupper()}
