"""Small programs that must work on the emulated device, run with two devices and compared with the CPU's results.

    python -m tests.emulated_cuda --cards emulated,emulated python -m tests.emulated_cuda.battery [CASE …]

Print one line per case: `ok CASE`, or the reason of its failure. The last case checks which operators ran in step. The
exit code is 1 if any case failed. Each build runs the battery, so it must notice changes of torch's next release. The
lecture itself, which `make emulate` traces, tries many more operators.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CASES: dict[str, Callable[[], None]] = {}
LATE_US = 200_000  # delay of kernels that must not have run when the next lines of a case have


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def delayed(delay_us: int = LATE_US) -> Any:
    return sys.modules["emulated_cuda_torch_side"].delayed(delay_us)


def device() -> Any:
    return sys.modules["emulated_cuda_device"]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 7))


def same_on_both(program: Callable[[str], Any], atol: float = 1e-5) -> None:
    """Compare the tensors (possibly nested) that `program(device)` returns on the CPU and on the device.

    Random numbers must be drawn on the CPU.
    """
    torch.manual_seed(0)
    expected = program("cpu")
    torch.manual_seed(0)
    _compare(program("cuda"), expected, atol, "")


def _compare(actual: Any, expected: Any, atol: float, path: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert actual.device.type == "cuda", f"{path} is on {actual.device}"
        strides = actual.stride(), expected.stride()
        assert strides[0] == strides[1] or not expected.numel(), (path, *strides)
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), atol=atol, rtol=1e-5, equal_nan=True)
        return
    assert len(actual) == len(expected)
    for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
        _compare(a, b, atol, f"{path}[{index}]")


def refused(call: Callable[[], object], *words: str, error: type[BaseException] = RuntimeError) -> None:
    try:
        call()
    except error as raised:
        assert all(word in str(raised) for word in words), str(raised)
        return
    raise AssertionError(f"nothing was raised; expected {words}")


# Operators


@case
def operators() -> None:
    """Of each kind of kernel some: element by element, reductions, results of unknown size, views, random access."""

    def program(d: str) -> list[Any]:
        x, i, more = drawn(6, 5).to(d), torch.tensor([3, 0, 3]).to(d), drawn(3, 5).to(d)
        changed, larger, values, indices = (
            x.clone(),
            torch.empty(2, 2, device=d),
            torch.empty(0, device=d),
            i.new_empty(0),
        )
        changed[i] = 0
        changed[1:3, ::2] += 4
        changed.index_add_(0, i, more).scatter_add_(0, i[None], more[:1, :3]).fill_diagonal_(3)
        torch.mul(x, 3, out=larger.resize_(6, 5))
        torch.max(x, 1, out=(values, indices))
        return [
            *(changed, larger, values, indices),
            *(F.gelu(x), x.clamp(-1, 1) / 3, torch.where(x > 0, x, -x), x.bfloat16() + 1, torch.complex(x, x).conj()),
            *(
                x.to(torch.float8_e4m3fn).float(),
                x.sum(),
                x.var(),
                x.max(0),
                x.cumsum(0),
                x.logsumexp(1),
                x.quantile(0.3),
            ),
            *(x[i], x[x > 0], x[torch.tensor([1, 2])], x.gather(0, i[None].expand(1, 3)), x.nonzero(), x.tril()),
            *(x.t().contiguous(), x.view(2, -1), torch.cat([x, x], 1), x.split(2), x.repeat(2, 3), F.pad(x, (1, 2))),
            *(x.view(torch.int32), torch.einsum("ij,kj->ik", x, x), x.clone().t_().add_(1)),
        ]

    same_on_both(program)
    x = torch.zeros(4, 6, device="cuda")
    assert x.t().untyped_storage().data_ptr() == x.data_ptr() and x[1:].storage_offset() == 6


@case
def products_of_16_bit_numbers_are_rounded_once() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        a, b, c = (drawn(n, 512, 512).cuda().to(dtype) for n in (2, 2, 2))
        wide = torch.bmm(a.float(), b.float())
        assert torch.equal(torch.bmm(a, b), wide.to(dtype))
        torch.testing.assert_close(c.clone().baddbmm_(a, b), (c.float() + wide).to(dtype))


# Training


@case
def optimizers() -> None:
    for kind, mode in (
        (torch.optim.SGD, {}),
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True}),
    ):

        def program(d: str, kind: Any = kind, mode: Any = mode) -> list[torch.Tensor]:
            model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.LayerNorm(32), nn.Linear(32, 8, bias=False)).to(d)
            optimizer = kind(model.parameters(), lr=0.01, **(mode if d == "cuda" else {}))
            for _ in range(3):
                optimizer.zero_grad()
                model(drawn(5, 16).to(d)).square().mean().backward()
                optimizer.step()
            return [*model.parameters()]

        same_on_both(program, atol=1e-4)


@case
def recomputation() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda(), drawn(64, 8).cuda().requires_grad_()
    grads = []
    for again in (False, True):
        torch.manual_seed(1)
        y = checkpoint(model, x, use_reentrant=False) if again else model(x)
        grads += torch.autograd.grad(y.square().sum(), x)
    assert torch.equal(*grads), "the generator's state was not restored for the second forward pass"


@case
def mixed_precision() -> None:
    model, x = nn.Linear(16, 8).cuda(), drawn(5, 16).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        assert model(x).dtype == torch.bfloat16 and x.softmax(0).dtype == (x + x).dtype == torch.float32
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=2.0**8)
    for factor in (1, float("inf")):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**7


# Asynchrony


@case
def launches_return_before_their_work_is_done() -> None:
    x = torch.randn(64, 64, device="cuda")
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    with delayed():
        y = x @ x
    last.record()
    assert not last.query() and not torch.cuda.current_stream().query()
    refused(lambda: first.elapsed_time(last), "completed")
    last.synchronize()
    assert torch.equal(y.cpu(), (x.cpu() @ x.cpu()))
    assert LATE_US / 1e3 <= first.elapsed_time(last) < 10 * LATE_US / 1e3, first.elapsed_time(last)


@case
def streams_run_side_by_side_and_wait_for_events() -> None:
    main, other = torch.cuda.current_stream(), torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(other), delayed():
        assert torch.cuda.current_stream() == other
        x.add_(1)
    done = other.record_event()
    assert torch.cuda.current_stream() == main and main.query() and not other.query()
    early = x.clone()  # a missing wait reads what was there before
    main.wait_event(done)
    assert (early.sum().item(), (x * 2).sum().item()) == (0, 2000)
    with torch.cuda.stream(other):
        w = torch.ones(100, device="cuda", requires_grad=True)
        loss = (w * 3).sum()
    loss.backward()  # on the stream of the forward pass
    assert w.grad is not None and w.grad.sum().item() == 300


@case
def a_missing_record_stream_corrupts() -> None:
    seen = []
    for recorded in (False, True):
        torch.cuda.empty_cache()
        other = torch.cuda.Stream()
        x, out = torch.ones(1 << 20, device="cuda"), torch.zeros((), device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(other), delayed():
            out.copy_(x[0])
        if recorded:
            x.record_stream(other)
        del x
        y = torch.full((1 << 20,), 5.0, device="cuda")
        torch.cuda.synchronize()
        seen.append(out.item())
        del y
    assert seen == [5.0, 1.0], seen


@case
def copies_read_pinned_memory_late_and_other_memory_at_once() -> None:
    source = torch.arange(1000.0).pin_memory()
    assert source.is_pinned() and source[10:].is_pinned() and not torch.ones(3).is_pinned()
    target, pageable = torch.zeros(1000, device="cuda"), torch.arange(1000.0)
    torch.cuda.synchronize()
    with delayed():
        target.copy_(source, non_blocking=True)
    source.fill_(-1)
    assert target[5] == -1
    with delayed():
        target.copy_(pageable, non_blocking=True)
    pageable.fill_(-1)
    back = target.to("cpu", non_blocking=True)
    assert back.is_pinned() and not (back == torch.arange(1000.0)).all()
    torch.cuda.synchronize()
    assert (back == torch.arange(1000.0)).all()
    with delayed():
        moved = back.to("cuda", non_blocking=True)
    del back
    gc.collect()
    assert moved.sum().item() == 499_500


@case
def captured_graphs() -> None:
    x, weight = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        x @ weight
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = (x @ weight).relu()
        refused(lambda: y.sum().item(), "capturing")
        refused(lambda: torch.cuda.synchronize(), "capturing")
    assert not torch.cuda.is_current_stream_capturing()
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert y.sum().item() == 64 * value


# Other functions


@case
def generators() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.randn(5, device="cuda")

    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), torch.randn(5, device="cuda"))
    assert not torch.equal(draw(3).cpu(), (torch.manual_seed(3), torch.randn(5))[1])
    state = torch.cuda.get_rng_state()
    x = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(x, torch.rand(4, device="cuda"))
    before = torch.get_rng_state()
    ones = torch.ones(100_000, device="cuda")
    assert abs(F.dropout(ones, 0.3).mean().item() - 1) < 0.02 and abs(torch.randn_like(ones).mean().item()) < 0.02
    assert sorted(torch.randperm(10, device="cuda").tolist()) == list(range(10))
    assert torch.equal(before, torch.get_rng_state()), "the CPU's generator has moved"


@case
def memory() -> None:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    x, y = torch.ones(32, 32, device="cuda"), torch.ones(1, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4096 + 512
    del x, y
    assert torch.cuda.memory_allocated() == before
    torch.cuda.reset_peak_memory_stats()
    x = torch.ones(1 << 20, device="cuda")
    y = x + x
    del y
    assert torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated() == 4 << 20
    assert torch.cuda.memory_reserved() % (2 << 20) == 0
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total == torch.cuda.get_device_properties(0).total_memory
    refused(lambda: torch.empty(1 << 42, device="cuda"), "Tried to allocate", error=torch.OutOfMemoryError)
    assert (torch.empty(1000, device="cuda").view(torch.uint8) == 0xA7).all(), "fresh memory is not rubbish"


@case
def workspace() -> None:
    held = [torch.cuda.memory_allocated()]

    def multiply() -> None:
        a = torch.ones(8, 8, device="cuda")
        for _ in range(2):
            a = a @ a
            held.append(torch.cuda.memory_allocated())

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    assert held[1] - held[0] >= 8 << 20 and held[2] == held[1], held


@case
def two_devices() -> None:
    assert torch.cuda.device_count() == 2
    x = torch.ones(1000, device="cuda:1")
    assert torch.cuda.current_device() == 0 and torch.cuda.memory_allocated(1) >= 4096
    refused(lambda: x + torch.ones(1000, device="cuda:0"), "cuda:0", "cuda:1")
    refused(lambda: x + torch.ones(1000), "same device")
    refused(lambda: torch.zeros(1, device="cuda:2"), "invalid device ordinal")
    with torch.cuda.device(1):
        assert torch.zeros(1, device="cuda").device.index == 1
    with delayed():  # a copy between devices waits for the device that it reads
        y = x * 3
    moved = y.to("cuda:0")
    assert not torch.cuda.current_stream(0).query()
    assert y.device.index == 1 and moved.device.index == 0 and moved.sum().item() == 3000
    w = torch.ones(3, device="cuda:1", requires_grad=True)
    (w.to("cuda:0") * 2).sum().backward()
    assert w.grad is not None and w.grad.device.index == 1 and w.grad.tolist() == [2, 2, 2]


@case
def no_operator_runs_in_step() -> None:
    """Otherwise asynchrony is lost. Only the operators of the cases above are counted."""
    assert {name: steps for name, (_, _, steps) in device().counts().items() if steps} == {}


def main(names: list[str]) -> int:
    """Run the named cases, or all; return 1 if any failed."""
    failed = 0
    for name in names or CASES:
        try:
            CASES[name]()
            torch.cuda.synchronize()
            print(f"ok {name}", flush=True)
        except BaseException as error:
            failed += 1
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__ and error.__traceback__.tb_next else 0
            message = " ".join(str(error).split())[:400]
            print(f"{name}, line {line}: {type(error).__name__}: {message}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
