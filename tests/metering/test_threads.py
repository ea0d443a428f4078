"""Counts name the other threads that worked meanwhile."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from trace_tools import count
from trace_tools.metering.threads import OtherThreads

X = torch.rand(64, 64)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long each thread ran")


def product() -> torch.Tensor:
    return X @ X


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, "early") as executor:
        executor.submit(product).result()
        yield executor


def in_a_thread(f: Callable[[], Any]) -> None:
    thread = threading.Thread(target=f, name="late")
    thread.start()
    thread.join()


def in_a_new_pool() -> None:
    with ThreadPoolExecutor(1, "late") as executor:
        executor.submit(product).result()


@pytest.mark.parametrize("work", [lambda: in_a_thread(product), in_a_new_pool])
def test_counts_name_threads_that_they_start(work: Callable[[], None]) -> None:
    counted = count(work)
    assert counted.flops is None and counted.why is not None and "'late" in counted.why


@LINUX
def test_counts_name_threads_of_a_pool(pool: ThreadPoolExecutor) -> None:
    counted = count(lambda: pool.submit(product).result())
    assert counted.flops is None and counted.why is not None and "'early_0'" in counted.why


@LINUX
def test_counts_name_threads_that_read_a_queue() -> None:
    requests, results = queue.Queue[int | None](), queue.Queue[torch.Tensor]()

    def serve() -> None:
        while requests.get() is not None:
            results.put(product())

    thread = threading.Thread(target=serve, name="server")
    thread.start()
    counted = count(lambda: (requests.put(1), results.get()))
    requests.put(None)
    thread.join()
    assert counted.flops is None and counted.why is not None and "'server'" in counted.why


@LINUX
def test_incomplete_counts_are_reported(pool: ThreadPoolExecutor) -> None:
    counted = count(lambda: (product(), [pool.submit(product).result() for _ in range(20)]))
    assert counted.flops == 2 * 64**3
    assert counted.why is not None and "'early_0'" in counted.why


def test_waiting_threads_are_not_named(pool: ThreadPoolExecutor) -> None:
    assert count(product).why is None
    nothing = count(lambda: sum(range(1000)))
    assert nothing.why is not None and "thread" not in nothing.why


def test_backward_runs_in_the_calling_thread() -> None:
    x = X.clone().requires_grad_()
    counted = count(lambda: (x @ x).sum().backward())
    assert counted.why is None and counted.flops is not None and counted.flops >= 3 * 2 * 64**3


def test_profile_functions_of_new_threads_stay_active() -> None:
    events: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        events.append(event)

    threading.setprofile(watch)
    try:
        with OtherThreads() as others:
            in_a_thread(product)
        assert threading.getprofile() is watch
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    assert events and others.worked() == ["late"]
