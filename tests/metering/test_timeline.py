"""Bytes alive over time equal sizes by hand and the peak of `count`."""

from __future__ import annotations

import torch

from trace_tools import count
from trace_tools.metering.meters import bytes_alive

KIB = 1024


def test_each_phase_shows_initial_bytes_and_each_operator() -> None:
    x = torch.zeros(256)  # 1 KiB
    kept: list[torch.Tensor] = []

    def allocate() -> None:
        kept.append(x + 1)
        kept.append(x + 2)

    first, second = bytes_alive([x], allocate, kept.clear)
    assert first == [1 * KIB, 2 * KIB, 3 * KIB, 3 * KIB]
    assert second == [3 * KIB, 1 * KIB]


def test_freed_bytes_show_after_the_next_operator() -> None:
    x = torch.zeros(256)

    def chain() -> None:
        y = x + 1
        y = y * 2  # the sum is alive until the product exists
        y.sum()

    alive = bytes_alive([x], chain)[0]
    assert alive == [KIB, 2 * KIB, 3 * KIB, 2 * KIB + 4, KIB]


def test_the_peak_equals_that_of_count_and_views_add_nothing() -> None:
    x, w = torch.randn(64, 32), torch.randn(32, 32, requires_grad=True)

    def run() -> None:
        torch.autograd.grad((x @ w).relu().square().sum(), w)

    assert max(bytes_alive([x, w, x.t()], run)[0]) == count(run).peak_bytes
    assert set(bytes_alive([x, x.t()], lambda: x.t()[1:], lambda: None)[0]) == {x.nbytes}


def test_backward_passes_are_included() -> None:
    w = torch.zeros(256, requires_grad=True)
    losses: list[torch.Tensor] = []
    forward, backward = bytes_alive([w], lambda: losses.append((w * w).sum()), lambda: losses.pop().backward())
    assert forward[-1] == KIB + 4
    assert backward[-1] == 2 * KIB  # w and its gradient
