"""Small programs that must work on the emulated device, run with two devices and compared with the CPU's results.

    python -m tests.emulated_cuda --cards emulated,emulated python -m tests.emulated_cuda.battery [CASE …]

Print one line per case: `ok CASE`, or the reason of its failure. The last case checks which operators ran in step. The
exit code is 1 if any case failed. Each build runs the battery, so it must notice changes of torch's next release.
"""

from __future__ import annotations

import copy
import gc
import io
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def side() -> Any:
    return sys.modules["emulated_cuda_torch_side"]


def device() -> Any:
    return sys.modules["emulated_cuda_device"]


def drawn(*shape: int, **options: Any) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 7), **options)


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
        assert actual.stride() == expected.stride() or not expected.numel(), (
            path,
            actual.stride(),
            expected.stride(),
        )
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), atol=atol, rtol=1e-5, equal_nan=True)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, atol, f"{path}[{index}]")
    else:
        assert actual == expected, (path, actual, expected)


def applied(x: torch.Tensor, *functions: Callable[[torch.Tensor], Any]) -> list[Any]:
    return [function(x) for function in functions]


def refused(call: Callable[[], object], *words: str, error: type[BaseException] = RuntimeError) -> None:
    try:
        call()
    except error as raised:
        assert all(word in str(raised) for word in words), str(raised)
        return
    raise AssertionError(f"nothing was raised; expected {words}")


def perceptron(where: str) -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8)).to(where)


# Operators


@case
def pointwise() -> None:
    same_on_both(
        lambda d: applied(
            drawn(7, 5).to(d),
            torch.exp,
            torch.sigmoid,
            F.gelu,
            F.silu,
            torch.erf,
            lambda x: x.clamp(-1, 1),
            lambda x: x / 3,
            lambda x: torch.where(x > 0, x, -x),
            lambda x: torch.lerp(x, x * 2, 0.3),
            lambda x: x.addcmul(x, x),
            lambda x: x.half().float(),
            lambda x: x.bfloat16() + 1,
            lambda x: x.to(torch.float8_e4m3fn).float(),
            lambda x: torch.complex(x, x).conj().mul(2),
        )
    )


@case
def reductions() -> None:
    same_on_both(
        lambda d: applied(
            drawn(7, 5).to(d),
            torch.sum,
            torch.var,
            torch.norm,
            lambda x: x.max(0),
            lambda x: x.argmax(1),
            lambda x: x.cumsum(0),
            lambda x: x.logsumexp(1),
            lambda x: x.median(),
            lambda x: x.quantile(0.3),
            lambda x: x.isfinite().all(),
            lambda x: torch.linalg.vector_norm(x, dim=1),
            lambda x: x.count_nonzero(),
        )
    )


def _changed(x: torch.Tensor, change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    y = x.clone()
    change(y)
    return y


@case
def indexing() -> None:
    def program(d: str) -> list[Any]:
        x, i = drawn(6, 5).to(d), torch.tensor([3, 0, 3]).to(d)
        more = drawn(3, 5).to(d)
        read = applied(
            x,
            lambda x: x[i],
            lambda x: x[x > 0],
            lambda x: x[torch.tensor([1, 2])],
            lambda x: x.gather(0, i[None].expand(1, 3)),
            lambda x: x.nonzero(),
            lambda x: torch.take(x, i),
            lambda x: x.masked_fill(x > 0, 1.0),
            lambda x: x[..., None, 1:3],
            lambda x: x.roll(2),
            lambda x: x.tril(),
        )

        def set_rows(y: torch.Tensor) -> None:
            y[i] = 0

        def set_slice(y: torch.Tensor) -> None:
            y[1:3, ::2] += 4

        changes = (
            set_rows,
            set_slice,
            lambda y: y.index_add_(0, i, more),
            lambda y: y.scatter_add_(0, i[None], more[:1, :3]),
            lambda y: y.index_put_((i, i), more[:, 0], accumulate=True),
            lambda y: y.fill_diagonal_(3),
        )
        return [*read, *(_changed(x, change) for change in changes)]

    same_on_both(program)


@case
def shapes_and_views() -> None:
    same_on_both(
        lambda d: applied(
            drawn(4, 6).to(d),
            lambda x: x.t().contiguous(),
            lambda x: x.view(2, -1),
            lambda x: x.unfold(1, 2, 2),
            lambda x: torch.cat([x, x], 1),
            lambda x: list(x.split(2)),
            lambda x: x.repeat(2, 3),
            lambda x: x.expand(2, 4, 6),
            lambda x: x.as_strided((2, 2), (1, 2)),
            lambda x: F.pad(x, (1, 2)),
            lambda x: torch.einsum("ij,kj->ik", x, x),
            lambda x: x.view(torch.int32),
            lambda x: torch.view_as_complex(x.reshape(4, 3, 2)),
            lambda x: torch.fft.rfft(x),
            lambda x: x.clone().t_().add_(1),
        ),
        atol=1e-4,
    )
    x = torch.zeros(4, 6, device="cuda")
    assert x.t().untyped_storage().data_ptr() == x.data_ptr() and x[1:].storage_offset() == 6


@case
def products_of_16_bit_numbers_are_rounded_once() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        a, b, c = (drawn(n, 512, 512).cuda().to(dtype) for n in (2, 2, 2))
        wide = torch.bmm(a.float(), b.float())
        assert torch.equal(torch.bmm(a, b), wide.to(dtype))
        assert torch.equal(
            torch.mm(a[0], b[0].t(), out=torch.empty_like(c[0])), (a[0].float() @ b[0].float().t()).to(dtype)
        )
        inside = c.clone().baddbmm_(a, b)
        torch.testing.assert_close(inside, (c.float() + wide).to(dtype))
        assert torch.dot(a[0, 0], b[0, 0]).dtype == dtype


@case
def outputs_that_are_resized() -> None:
    def program(d: str) -> list[torch.Tensor]:
        x, out = drawn(4, 4).to(d), torch.empty(0, device=d)
        torch.add(x, x, out=out)
        larger = torch.empty(2, 2, device=d).resize_(4, 4)
        torch.mul(x, 3, out=larger)
        values, indices = torch.empty(0, device=d), torch.empty(0, device=d, dtype=torch.int64)
        torch.max(x, 1, out=(values, indices))
        return [out, larger, values, indices]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_on_both(program)


# Training


@case
def gradients() -> None:
    torch.manual_seed(0)
    original = perceptron("cpu")

    def program(d: str) -> list[Any]:
        model = copy.deepcopy(original).to(d)
        x = drawn(5, 16).to(d).requires_grad_()
        y = model(x).square().mean()
        first = torch.autograd.grad(y, [x, *model.parameters()], create_graph=True)
        return [y, first, torch.autograd.grad(sum(g.square().sum() for g in first), list(model.parameters())[:2])]

    same_on_both(program)


@case
def optimizers() -> None:
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        for mode in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
            if kind is torch.optim.SGD and "fused" in mode:
                continue  # it has no meta kernel, and runs in step

            def program(d: str, kind: Any = kind, mode: Any = mode) -> list[torch.Tensor]:
                torch.manual_seed(2)
                model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.GELU(), nn.Linear(32, 8, bias=False)).to(d)
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
    for seed in (1, 2):
        grads = []
        for again in (False, True):
            torch.manual_seed(seed)
            x.grad = None
            y = checkpoint(model, x, use_reentrant=False) if again else model(x)
            y.square().sum().backward()
            assert x.grad is not None
            grads.append(x.grad.clone())
        assert torch.equal(*grads), "the generator's state was not restored for the second forward pass"


@case
def mixed_precision() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        x = torch.randn(4, 4, device="cuda")
        assert (x @ x).dtype == torch.bfloat16 and x.softmax(0).dtype == (x + x).dtype == torch.float32
    torch.manual_seed(0)
    model, x = perceptron("cuda"), drawn(5, 16).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**8)
    with torch.autocast("cuda", torch.float16):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    before = scaler.get_scale()
    scaler.scale(model(x).mean() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == before / 2


# Asynchrony


@case
def launches_return_before_their_work_is_done() -> None:
    x = torch.randn(64, 64, device="cuda")
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with side().held() as release:
        first.record()
        y = x @ x
        z = y.relu_()
        last.record()
        assert not last.query() and not torch.cuda.current_stream().query()
        refused(lambda: first.elapsed_time(last), "completed")
        refused(lambda: z.sum().item(), "held")
        assert release(1) == 1 and not last.query()
        assert release(9) >= 1
        last.synchronize()
    with side().delayed(2000):
        first.record()
        for _ in range(20):
            y = y + 1
        last.record()
    last.synchronize()
    assert 40 < first.elapsed_time(last) < 2000, first.elapsed_time(last)


@case
def kernels_run_one_by_one_when_a_test_says_so() -> None:
    x = torch.zeros(3, device="cuda")
    host = torch.zeros(3, pin_memory=True)
    with side().delayed(20_000):
        x.sub_(0)  # still running when the later kernels are held
    with side().held() as release:
        x.add_(1)
        host.copy_(x, non_blocking=True)
        x.add_(1)
        release(2)
        assert host.tolist() == [1, 1, 1]
        release(1)
        assert release(1) == 0
    torch.cuda.synchronize()
    assert x.tolist() == [2, 2, 2]


@case
def streams_run_side_by_side_and_wait_for_events() -> None:
    main, other = torch.cuda.current_stream(), torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with side().held() as release:
        with torch.cuda.stream(other):
            assert torch.cuda.current_stream() == other
            x.add_(1)
            done = other.record_event()
        assert torch.cuda.current_stream() == main and main.query() and not other.query()
        main.wait_event(done)
        y = x * 2
        release(1, stream=other.stream_id)
        release(1)
    assert y.sum().item() == 2000
    with torch.cuda.stream(other):
        w = torch.ones(100, device="cuda", requires_grad=True)
        loss = (w * 3).sum()
    loss.backward()  # on the stream of the forward pass
    assert w.grad is not None and w.grad.sum().item() == 300


@case
def a_missing_wait_reads_what_was_there_before() -> None:
    other, x = torch.cuda.Stream(), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with side().held() as release:
        with torch.cuda.stream(other):
            x.add_(1)
        y = x.clone()
        release(1)
        release(1, stream=other.stream_id)
    assert y.sum().item() == 0 and x.sum().item() == 1000


@case
def a_missing_record_stream_corrupts() -> None:
    seen = []
    for recorded in (False, True):
        torch.cuda.empty_cache()
        other = torch.cuda.Stream()
        x, out = torch.ones(1 << 20, device="cuda"), torch.zeros((), device="cuda")
        torch.cuda.synchronize()
        with side().held() as release:
            with torch.cuda.stream(other):
                out.copy_(x[0])
            if recorded:
                x.record_stream(other)
            del x
            y = torch.full((1 << 20,), 5.0, device="cuda")
            while release(1):
                pass
            release(1, stream=other.stream_id)
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
    with side().held():
        target.copy_(source, non_blocking=True)
        source.fill_(-1)
    assert target[5] == -1
    with side().held():
        target.copy_(pageable, non_blocking=True)
        pageable.fill_(-1)
        back = target.to("cpu", non_blocking=True)
        assert back.is_pinned() and not (back == torch.arange(1000.0)).all()
    torch.cuda.synchronize()
    assert (back == torch.arange(1000.0)).all()
    source = torch.arange(10.0).pin_memory()
    moved = source.to("cuda", non_blocking=True)
    del source
    gc.collect()
    assert moved.sum().item() == 45


# Other functions


@case
def generators() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.randn(5, device="cuda")

    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), torch.randn(5, device="cuda"))
    on_gpu, on_cpu = draw(3).cpu(), (torch.manual_seed(3), torch.randn(5))[1]
    assert not torch.equal(on_gpu, on_cpu)
    state = torch.cuda.get_rng_state()
    assert state.numel() == 16
    x = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(x, torch.rand(4, device="cuda"))
    refused(lambda: torch.randn(3, device="cuda", generator=torch.Generator()), "Expected a 'cuda'")
    before = torch.get_rng_state()
    ones = torch.ones(100_000, device="cuda")
    assert abs(F.dropout(ones, 0.3).mean().item() - 1) < 0.02 and abs(torch.randn_like(ones).mean().item()) < 0.02
    assert sorted(torch.randperm(10, device="cuda").tolist()) == list(range(10))
    torch.multinomial(ones[:5], 3)
    assert torch.equal(before, torch.get_rng_state()), "the CPU's generator has moved"
    with torch.random.fork_rng(devices=[0]):
        torch.randn(3, device="cuda")


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
    device().fail_allocation(1, 0)
    refused(lambda: torch.empty(5, device="cuda"), "out of memory", error=torch.OutOfMemoryError)
    device().fail_allocation(0, 0)
    assert (torch.empty(1000, device="cuda").view(torch.uint8) == 0xA7).all(), "fresh memory is not rubbish"
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


@case
def snapshot() -> None:
    """Blocks fill each segment, blocks in use are the tensors, and free neighbours become one block."""
    torch.cuda.empty_cache()
    mib = 1 << 20

    def reserve(mebibytes: int) -> torch.Tensor:
        return torch.empty(mebibytes * mib, dtype=torch.uint8, device="cuda")

    elsewhere = []  # fills the free space that earlier cases left in their segments
    while True:
        segment = reserve(40)
        start = segment.data_ptr()
        if any((s["address"], s["total_size"]) == (start, 40 * mib) for s in torch.cuda.memory_snapshot()):
            break
        elsewhere.append(segment)
    del segment  # leaves a free segment
    pieces: list[torch.Tensor] = []
    while len(pieces) < 4:
        piece = reserve(10)
        (pieces if start <= piece.data_ptr() < start + 40 * mib else elsewhere).append(piece)
    del piece

    def states() -> list[tuple[int, str]]:
        [segment] = [s for s in torch.cuda.memory_snapshot() if s["address"] == start]
        assert segment["total_size"] == sum(block["size"] for block in segment["blocks"]) == 40 * mib
        return [(block["size"] // mib, block["state"]) for block in segment["blocks"]]

    used, free = "active_allocated", "inactive"
    assert states() == [(10, used)] * 4
    del pieces[1]
    assert states() == [(10, used), (10, free), (10, used), (10, used)]
    del pieces[0]
    assert states() == [(20, free), (10, used), (10, used)]
    del pieces[0]
    assert states() == [(30, free), (10, used)]
    in_use = sum(block["size"] for s in torch.cuda.memory_snapshot() for block in s["blocks"] if block["state"] == used)
    assert in_use == torch.cuda.memory_allocated()
    pieces.clear()
    assert states() == [(40, free)]
    torch.cuda.empty_cache()
    assert all(segment["address"] != start for segment in torch.cuda.memory_snapshot())


@case
def workspace() -> None:
    added: list[int] = []

    def multiply() -> None:
        a = torch.ones(8, 8, device="cuda")
        for _ in range(2):
            before = torch.cuda.memory_allocated()
            b = a @ a
            added.append(torch.cuda.memory_allocated() - before)
        del b

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    assert added[0] >= 8 << 20 and added[1] <= 512, added


@case
def errors() -> None:
    a = torch.ones(3, 4, device="cuda")
    refused(lambda: a @ a, "mat1 and mat2 shapes cannot be multiplied")
    refused(lambda: a + torch.ones(5, device="cuda"), "must match the size")
    refused(lambda: a + torch.ones(3, 4), "same device")
    refused(lambda: a @ torch.ones(4, 3), "same device")
    refused(lambda: a.numpy(), "numpy", error=TypeError)


@case
def waits_are_told_in_debug_mode() -> None:
    x = torch.ones(3, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        y = x * 2 + x.sum()
        for wait in (lambda: y.sum().item(), lambda: y.nonzero(), lambda: y.cpu(), lambda: y[y > 0]):
            refused(wait, "synchronizing")
        y.to("cpu", non_blocking=True)
    finally:
        torch.cuda.set_sync_debug_mode(0)


@case
def saving_and_counting() -> None:
    buffer, x = io.BytesIO(), torch.randn(5, device="cuda")
    torch.save({"x": x, "part": x[1:]}, buffer)
    for where in ("cuda", "cpu"):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=where)
        assert loaded["x"].device.type == where and torch.equal(loaded["x"].cpu(), x.cpu())
        assert loaded["part"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    assert torch.equal(copy.deepcopy(x), x)
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        drawn(8, 16).cuda() @ drawn(16, 8).cuda()
    assert counter.get_total_flops() == 2 * 8 * 8 * 16


@case
def two_devices() -> None:
    assert torch.cuda.device_count() == 2
    x = torch.ones(1000, device="cuda:1")
    assert x.device.index == 1 and torch.cuda.current_device() == 0
    assert (x + 1).device.index == 1 and torch.cuda.memory_allocated(1) >= 4096
    refused(lambda: x + torch.ones(1000, device="cuda:0"), "cuda:0", "cuda:1")
    refused(lambda: torch.zeros(1, device="cuda:2"), "invalid device ordinal")
    with torch.cuda.device(1):
        assert torch.zeros(1, device="cuda").device.index == 1
    with side().held() as release:  # a copy between devices waits for the device that it reads
        y = x * 3
        moved = y.to("cuda:0")
        assert not torch.cuda.current_stream(0).query()
        release(9, device=1)
        release(9)
    assert moved.device.index == 0 and moved.sum().item() == 3000
    w = torch.ones(3, device="cuda:1", requires_grad=True)
    (w.to("cuda:0") * 2).sum().backward()
    assert w.grad is not None and w.grad.device.index == 1 and w.grad.tolist() == [2, 2, 2]


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
    refused(lambda: torch.cuda.CUDAGraph().replay(), "capture")


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
