"""Counts of operations between ranks, in a simulated group of 8; payloads are calculated by hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.cases_in_one import each
from trace_tools import count
from trace_tools.trace.model import Collective

fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
functional = pytest.importorskip("torch.distributed._functional_collectives")
N, BYTES = 8, 1024


@pytest.fixture(autouse=True, scope="module")
def ranks() -> Iterator[None]:
    dist.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=N)
    yield
    dist.destroy_process_group()


def x(bytes: int = BYTES) -> torch.Tensor:
    return torch.ones(bytes // 4)


def parts() -> list[torch.Tensor]:
    return [x() for _ in range(N)]


def everyone() -> Any:
    return dist.group.WORLD


def waited(tensor: torch.Tensor) -> Any:
    """Wait for the result of a functional operation; otherwise torch warns at the end."""
    return functional.wait_tensor(tensor)


# The payload: the parts of all ranks together where parts are passed, otherwise the tensor.
@each(
    ("call", "operation", "payload"),
    [
        (lambda: dist.all_reduce(x()), "all_reduce", BYTES),
        (lambda: dist.all_gather(parts(), x()), "all_gather", N * BYTES),
        (lambda: dist.all_gather_into_tensor(x(N * BYTES), x()), "all_gather", N * BYTES),
        (lambda: dist.reduce_scatter(x(), parts()), "reduce_scatter", N * BYTES),
        (lambda: dist.reduce_scatter_tensor(x(), x(N * BYTES)), "reduce_scatter", N * BYTES),
        (lambda: dist.broadcast(x(), 0), "broadcast", BYTES),
        (lambda: dist.reduce(x(), 0), "reduce", BYTES),
        (lambda: dist.gather(x(), parts(), 0), "gather", N * BYTES),
        (lambda: dist.scatter(x(), parts(), 0), "scatter", N * BYTES),
        (lambda: dist.all_to_all_single(x(), x()), "all_to_all", BYTES),
        (lambda: dist.all_to_all(parts(), parts()), "all_to_all", N * BYTES),
        (lambda: dist.send(x(), 1), "send", BYTES),
        (lambda: dist.recv(x(), 1), "recv", BYTES),
        (lambda: dist.barrier(), "barrier", 0),
        (lambda: waited(functional.all_reduce(x(), "sum", everyone())), "all_reduce", BYTES),
        (lambda: waited(functional.all_gather_tensor(x(), 0, everyone())), "all_gather", N * BYTES),
        (
            lambda: waited(functional.reduce_scatter_tensor(x(N * BYTES), "sum", 0, everyone())),
            "reduce_scatter",
            N * BYTES,
        ),
    ],
)
def test_counts_of_collective_operations(call: Any, operation: str, payload: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # names that torch 2.13 has changed
        counted = count(call)
    assert counted.collectives == (Collective(operation, N, 1, payload),)
    assert not [name for name in counted.uncounted if "c10d" in name]


def test_groups_of_different_sizes_are_counted_separately() -> None:
    pair = dist.new_group([0, 1])

    def both() -> None:
        dist.all_reduce(x())
        dist.all_reduce(x(), group=pair)
        dist.all_reduce(x(), group=pair)

    assert [(c.ranks, c.calls, c.bytes) for c in count(both).collectives] == [(2, 2, 2 * BYTES), (8, 1, BYTES)]


def test_collectives_of_sharded_parameters() -> None:
    """FSDP gathers each layer in the forward and backward pass and scatters its gradient; 2 layers of 256 KiB."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (N,))
    layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256, bias=False) for _ in range(2)))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(layers, mesh=mesh)
    collectives = {c.operation: c for c in count(lambda: layers(torch.ones(2, 256)).sum().backward()).collectives}
    assert collectives["all_gather"] == Collective("all_gather", N, 4, 4 * 256 * 1024)
    assert collectives["reduce_scatter"] == Collective("reduce_scatter", N, 2, 2 * 256 * 1024)
