"""Live bytes equal the sizes of living tensors; peaks equal those of torch's memory profiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from trace_tools.metering.meters import Meter


def test_a_tensor_counts_while_it_lives() -> None:
    with Meter() as meter:
        x = torch.empty(1000)
        assert meter.storages.live_bytes == 4000
        y = x * 2
        assert meter.storages.live_bytes == 8000
        del x
        assert meter.storages.live_bytes == 4000
        del y
        assert meter.storages.live_bytes == 0
        assert meter.take_peak() == 8000
        assert meter.take_peak() == 0


def test_views_share_and_keep_their_storage() -> None:
    with Meter() as meter:
        x = torch.empty(1000)
        views = [x[10:], x.view(10, 100).T, x.detach(), x.expand(3, 1000)]
        assert meter.storages.live_bytes == 4000
        del x
        assert meter.storages.live_bytes == 4000
        views.clear()
        assert meter.storages.live_bytes == 0


def test_in_place_operators_allocate_nothing_and_resizing_what_it_needs() -> None:
    with Meter() as meter:
        x = torch.ones(1000)
        x.mul_(2).add_(1)
        torch.add(x, x, out=x)
        assert meter.take_peak() == 4000
        x.resize_(2000)
        assert meter.storages.live_bytes == 8000


def test_storages_that_are_resized_directly() -> None:
    """As in FSDP; no operator shows it."""
    with Meter() as meter, Meter() as inner:
        sharded, other = torch.zeros(1000), torch.zeros(10)
        for size in (0, 4000, 12_000, 0):
            sharded.untyped_storage().resize_(size)
            assert meter.storages.live_bytes == inner.storages.live_bytes == size + other.nbytes
        assert meter.take_peak() == 12_040
        sharded.set_(torch.zeros(5).untyped_storage())
        assert meter.storages.live_bytes == 20 + other.nbytes
        other.untyped_storage().resize_(0)
        other.resize_(100)
        assert meter.storages.live_bytes == 20 + 400
    assert "resize_" not in vars(torch.UntypedStorage)


def test_earlier_tensors_literals_and_parameters() -> None:
    x = torch.ones(1000)
    with Meter() as meter:
        literal = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        linear = nn.Linear(10, 5)
        assert meter.storages.live_bytes == literal.nbytes + 4 * 55
        del literal, linear
        assert meter.storages.live_bytes == 0
        x.sum()
        assert meter.storages.live_bytes == 4000
        del x
        assert meter.storages.live_bytes == 0


def test_borrowed_memory_is_not_tensor_memory(tmp_path: Path) -> None:
    tokens = np.memmap(tmp_path / "tokens", dtype=np.int64, mode="w+", shape=(10_000,))
    with Meter() as meter:
        torch.from_numpy(tokens)[5:9].sum()
        torch.from_numpy(np.ones(1000)).sum()
        assert meter.take_peak() == 8  # one sum at a time
        copied = torch.from_numpy(np.ones(1000)).clone()
        assert meter.storages.live_bytes == copied.nbytes


def test_a_meter_counts_one_device_type() -> None:
    with Meter(device="cuda") as meter:
        x = torch.ones(1000)
        assert (x + 1).sum() == 2000
        assert meter.storages.live_bytes == meter.take_peak() == 0
    with Meter() as meter:
        on_meta = torch.empty(10**12, device="meta") + 1
        assert meter.storages.live_bytes == 0
        assert on_meta.is_meta


def test_autograd_keeps_tensors_for_the_backward_pass() -> None:
    x, w = torch.rand(32, 64), nn.Parameter(torch.rand(64, 64))
    saved_bytes = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: saved_bytes.append(t.nbytes) or t, lambda t: t)
    with Meter() as meter, hooks:
        y = torch.exp(x @ w).sum()
        assert sum(saved_bytes) == x.nbytes + 32 * 64 * 4  # for w's gradient, and exp's own result
        assert meter.storages.live_bytes == x.nbytes + w.nbytes + 32 * 64 * 4 + 4
        y.backward()
        assert meter.storages.live_bytes == x.nbytes + 2 * w.nbytes + 4, "one gradient more, and no saved tensors"


def profiled(f: Callable[[], object]) -> int:
    """Return the peak of the bytes that torch's CPU allocator allocated during `f`."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        f()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


@pytest.mark.parametrize(
    ("optimizer", "layer"), [(None, nn.ReLU), (torch.optim.SGD, nn.GELU), (torch.optim.AdamW, nn.ReLU)]
)
def test_training_peak_equals_the_profilers(
    optimizer: type[torch.optim.Optimizer] | None, layer: type[nn.Module]
) -> None:
    def train() -> None:
        layers = [m for _ in range(6) for m in (nn.Linear(64, 64, bias=False), layer())]
        model, x = nn.Sequential(*layers), torch.rand(32, 64)
        update = optimizer(model.parameters(), lr=0.1) if optimizer else None
        for _ in range(2):
            model(x).sum().backward()
            if update:
                update.step()
                update.zero_grad()

    train()  # torch allocates some memory only once
    with Meter() as meter:
        train()
    inside_operators = 16  # a number passed to an operator is briefly a tensor
    assert 0 <= profiled(train) - meter.take_peak() <= inside_operators
