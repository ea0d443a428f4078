"""The oracle: threads of which the test knows whether they work."""

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
    with ThreadPoolExecutor(1, "early") as made:
        made.submit(product).result()
        yield made


def in_a_thread(f: Callable[[], Any]) -> None:
    thread = threading.Thread(target=f, name="late")
    thread.start()
    thread.join()


def in_a_pool_of_its_own() -> None:
    with ThreadPoolExecutor(1, "late") as made:
        made.submit(product).result()


@pytest.mark.parametrize("work", [lambda: in_a_thread(product), in_a_pool_of_its_own])
def test_a_count_names_the_thread_that_was_started_in_it(work: Callable[[], None]) -> None:
    counted = count(work)
    assert counted.flops is None and counted.why is not None and "'late" in counted.why


@LINUX
def test_a_count_names_the_thread_of_a_pool(pool: ThreadPoolExecutor) -> None:
    counted = count(lambda: pool.submit(product).result())
    assert counted.flops is None and counted.why is not None and "'early_0'" in counted.why


@LINUX
def test_a_count_names_the_thread_that_reads_a_queue() -> None:
    asked, answered = queue.Queue[int | None](), queue.Queue[torch.Tensor]()

    def serve() -> None:
        while asked.get() is not None:
            answered.put(product())

    thread = threading.Thread(target=serve, name="server")
    thread.start()
    counted = count(lambda: (asked.put(1), answered.get()))
    asked.put(None)
    thread.join()
    assert counted.flops is None and counted.why is not None and "'server'" in counted.why


@LINUX
def test_a_count_that_is_not_all_says_so(pool: ThreadPoolExecutor) -> None:
    counted = count(lambda: (product(), [pool.submit(product).result() for _ in range(20)]))
    assert counted.flops == 2 * 64**3
    assert counted.why is not None and "'early_0'" in counted.why


def test_threads_that_wait_are_not_blamed(pool: ThreadPoolExecutor) -> None:
    assert count(product).why is None
    nothing = count(lambda: sum(range(1000)))
    assert nothing.why is not None and "thread" not in nothing.why


def test_backward_runs_in_the_calling_thread() -> None:
    x = X.clone().requires_grad_()
    counted = count(lambda: (x @ x).sum().backward())
    assert counted.why is None and counted.flops is not None and counted.flops >= 3 * 2 * 64**3


def test_whoever_watches_new_threads_goes_on_watching() -> None:
    seen: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        seen.append(event)

    threading.setprofile(watch)
    try:
        with OtherThreads() as others:
            in_a_thread(product)
        assert threading.getprofile() is watch
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    assert seen and others.worked() == ["late"]
