"""Measure a machine's peaks, by the best matmul per dtype, and the best copy, read or change of memory.

`measured_peaks` takes a device and returns `Peak`s marked as measured. Sizes grow until one call would take too long,
because no fixed size suits all devices. One CPU that computed 2048³ in bfloat16 in 18 ms took 63 s in float16. The
right matrix is tried both untransposed and transposed, as in a linear layer. Without bfloat16 instructions, a CPU was
six times as fast with one as with the other. On a CPU, float32 products are also computed as a 1 × 1 convolution,
because another library computes it (oneDNN instead of MKL), which was twice as fast on one AMD processor.

A GPU loads each kernel at its first call, which can take longer than all of its measured calls, and an idle GPU runs at
a low clock. So its sizes grow however long that takes; only then does it warm up, and only then is it timed.

    >>> measured_peaks("cpu")[0]
    Peak(name='float32', per_second=203000000000.0, source='measured: best of 12 matmuls, 1024³ each', measured=True)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import torch

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, devices, float32_precision, host
from trace_tools.machines.accelerators import Accelerator
from trace_tools.machines.peaks import has_tf32
from trace_tools.trace.model import Peak

CPU_DTYPES = ("float32", "float64", "bfloat16", "float16")
GPU_DTYPES = ("float32", "tf32", "bfloat16", "float16")
FLOAT32_PRECISION = {"float32": "highest", "tf32": "high"}  # for torch.set_float32_matmul_precision
LARGEST_SIDE, LARGEST_SIDE_ON_GPU = 4096, 8192
COPIED_BYTES, COPIED_BYTES_ON_GPU = 256 << 20, 2048 << 20  # far more than a last-level cache
FILLING_SIDE = 4096  # side of a square product that keeps all of a GPU busy
ROUNDS = 3
MATMUL_BUDGET_S = 0.2  # per dtype: all of a CPU's peaks stay under 1.5 s a round on two cores
COPY_BUDGET_S = 0.15
GPU_WARM_UP_S, GPU_BUDGET_S = 0.3, 0.5  # per dtype, and for memory
LONGEST_CALL_S = 0.06
PROBE_S = 0.005  # time at each size while sizes grow, so that one preempted call does not stop the growth


def measured_peaks(device: str, only: str | None = None) -> list[Peak]:
    """Measure the best matmul per dtype (FLOP/s) and the best copy or read (bytes/s) of a device: "cpu", "cuda".

    A CPU's are the best of ROUNDS, because other programs disturb single ones. Takes about 4 s on a CPU, 5 s on a GPU;
    `only` one of them, a fifth. Uses its own random generator, and restores torch's settings. Raises UsageError if a
    GPU fails permanently during the measurement.
    """
    gpu = accelerators.accelerator(device)
    names = (
        CPU_DTYPES
        if gpu is None
        else [name for name in GPU_DTYPES if name != "tf32" or has_tf32(gpu.properties().capability)]
    )
    ways = {name: partial(_matmul_peak, device, gpu, name) for name in names} | {
        "memory": partial(_copy_peak, device, gpu)
    }
    peaks: dict[str, Peak] = {}
    for measure in [way for name, way in ways.items() if only in (None, name)] * (ROUNDS if gpu is None else 1):
        peak = measure()
        before = peaks.get(peak.name)
        if before is None or (peak.per_second or 0) > (before.per_second or 0):
            peaks[peak.name] = peak
        if peak.per_second is None and gpu is not None:  # a failed operation may have disabled the device
            try:
                torch.ones(8, device=device).sum().item()
            except RuntimeError as error:
                why = f"{devices.first_sentence(error)}; {devices.ON_THE_CPU}"
                raise UsageError(f"the GPU failed while its peaks were measured: {why}") from error
    if gpu is not None:
        gpu.empty_cache()  # because the lecture reads the allocator's figures
    return [*peaks.values()]


def _matmul_peak(device: str, gpu: Accelerator | None, name: str) -> Peak:
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    before = float32_precision.read()
    try:
        if name in FLOAT32_PRECISION:
            torch.set_float32_matmul_precision(FLOAT32_PRECISION[name])
        rate, size, calls, way = _best_matmul(device, gpu, dtype)
    except RuntimeError as error:  # not implemented for this dtype here, or out of memory
        return _not_measured(name, error)
    finally:
        if name in FLOAT32_PRECISION:
            float32_precision.write(before)
    return Peak(name, rate, f"measured: best of {calls} {way}, {size}³ each", measured=True)


def _best_matmul(device: str, gpu: Accelerator | None, dtype: torch.dtype) -> tuple[float, int, int, str]:
    """Return the best FLOP/s (an n×n matmul is 2n³), its n, the number of calls timed at it, and their description."""
    deadline = perf_counter() + MATMUL_BUDGET_S
    largest, size, best, before = LARGEST_SIDE if gpu is None else LARGEST_SIDE_ON_GPU, 128, (0.0, 0, 0, ""), None
    while largest > 256 and 7 * 4 * largest**2 > _free_bytes(gpu) // 4:
        largest //= 2  # until seven float32 matrices (drawn, converted, product) fit with room to spare
    while True:
        # Random numbers: on zeros a GPU draws less power and runs faster than it can.
        generator = torch.Generator(device=device).manual_seed(0)
        a, b = torch.randn(2, size, size, generator=generator, dtype=torch.float32, device=device).to(dtype)
        ways = [("matmuls", partial(torch.mm, a, right, out=torch.empty_like(a))) for right in (b, b.t())]
        if gpu is None and dtype is torch.float32:
            image = a.view(1, -1, 32, size).permute(0, 3, 1, 2)  # of n pixels, each with n channels
            convolve = partial(torch.nn.functional.conv2d, image, b.view(size, size, 1, 1))
            ways.append(("matmuls as convolutions", convolve))
        timed = [(*_best_seconds(gpu, run, PROBE_S / len(ways)), name, run) for name, run in ways]
        seconds, calls, name, matmul = min(timed, key=lambda timing: timing[0])
        # The cost of the next size is estimated from this growth, not from n³: on a busy CPU small matmuls take as long
        # as large ones, since their threads wait for each other.
        growth = 1.0 if before is None else max(seconds / before, 1.0)
        late = gpu is None and perf_counter() > deadline
        if size >= largest or growth * seconds > LONGEST_CALL_S or late:
            break
        best, before = max(best, (2 * size**3 / seconds, size, calls, name)), seconds
        size *= 2
    if gpu is not None and size >= FILLING_SIDE:
        _best_seconds(gpu, matmul, GPU_WARM_UP_S)
        again = [(*_best_seconds(gpu, run, GPU_BUDGET_S / len(ways)), name) for name, run in ways]
        seconds, calls, name = min(again)
    else:
        remaining_s = MATMUL_BUDGET_S if gpu is not None else deadline - perf_counter()
        if remaining_s > 0:
            once_more, more = _best_seconds(gpu, matmul, remaining_s)
            seconds, calls = min(seconds, once_more), calls + more
    return max(best, (2 * size**3 / seconds, size, calls, name))


def _copy_peak(device: str, gpu: Accelerator | None) -> Peak:
    copied = min(COPIED_BYTES if gpu is None else COPIED_BYTES_ON_GPU, _free_bytes(gpu) // 8)
    try:
        generator = torch.Generator(device=device).manual_seed(0)
        mebibyte = torch.rand(1 << 18, generator=generator, dtype=torch.float32, device=device)
        source = mebibyte.repeat(max(copied >> 20, 1))
        target = source.clone()  # touches its pages before the clock runs
        # Each touches twice the bytes of one tensor: a copy reads one and writes the other, a dot product reads both,
        # an in-place change reads and writes one. On one core the in-place change is fastest: its writes overlap its
        # reads.
        ways = {
            "copies of {}, bytes read and written": lambda: target.copy_(source),
            "dot products of two tensors of {}, bytes read": lambda: torch.dot(target, source),
            "changes of {} in place, bytes read and written": target.neg_,
        }
        if gpu is not None:
            _best_seconds(gpu, ways["copies of {}, bytes read and written"], GPU_WARM_UP_S)
        each_s = (COPY_BUDGET_S if gpu is None else GPU_BUDGET_S) / len(ways)
        seconds, calls, name = min((*_best_seconds(gpu, run, each_s), name) for name, run in ways.items())
    except RuntimeError as error:  # out of memory
        return _not_measured("memory", error)
    size = source.numel() * source.element_size()
    how = f"measured: best of {calls} {name.format(f'{size >> 20} MiB')}"
    return Peak("memory", 2 * size / seconds, how, measured=True)


def _best_seconds(gpu: Accelerator | None, run: Callable[[], object], budget_s: float) -> tuple[float, int]:
    """Run once, then time `run` for `budget_s`, at least twice; return the shortest time and the number of timed
    calls.
    """
    _seconds(gpu, run)  # the first call at a size chooses or loads a kernel
    deadline = perf_counter() + budget_s
    samples = [_seconds(gpu, run), _seconds(gpu, run)]
    while perf_counter() < deadline:
        samples.append(_seconds(gpu, run))
    return min(samples), len(samples)


def _seconds(gpu: Accelerator | None, run: Callable[[], object]) -> float:
    if gpu is not None:
        mark = gpu.start()
        run()
        return gpu.stop(mark)
    start = perf_counter()
    run()
    return perf_counter() - start


def _free_bytes(gpu: Accelerator | None) -> int:
    return gpu.memory_info()[0] if gpu is not None else host.ram_bytes() or 1 << 30


def _not_measured(name: str, error: RuntimeError) -> Peak:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Peak(name, None, f"not measured: {reason}", measured=True)
