"""Check this machine in a separate process: compute on it, read its settings, and print the results.

    python -m trace_tools.machines.checks quick|full [cpu|cuda|cuda:N] [the `PastMemory` of earlier runs as JSON]

Prints one `Check` per line, as JSON, as soon as it is known. No check changes a setting of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from statistics import median

import torch

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, devices, float32_precision, host
from trace_tools.machines.accelerators import FLOOR_NS, Accelerator
from trace_tools.machines.machine import versions
from trace_tools.machines.preflight import NVIDIA_SMI, UNKNOWN_PAST, Check, PastMemory, Verdict
from trace_tools.util import formats

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)
SCARCE_BYTES = 2**31  # less free memory may not hold a lecture's large tensors, if its needs are unknown
SHARED = 0.10  # share of a card's memory, used by others, that is reported
SETTINGS = {  # environment variables and their effects
    "CUDA_LAUNCH_BLOCKING": "each launch waits for its kernel, so launch times are wrong and kernels cannot overlap",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "the allocator caches no memory, so memory figures differ from a normal run",
    "PYTORCH_CUDA_ALLOC_CONF": "memory figures may differ from a normal run",
    "PYTORCH_HIP_ALLOC_CONF": "memory figures may differ from a normal run",
    "PYTORCH_ALLOC_CONF": "memory figures may differ from a normal run",
    "CUBLAS_WORKSPACE_CONFIG": "matrix products use a different workspace size than usual",
    "TORCH_CUBLAS_WORKSPACE_CACHE": "the memory that matrix products keep differs from a normal run",
    "TORCH_BLAS_PREFER_CUBLASLT": "a different library than usual computes matrix products, with a different workspace",
    "PYTORCH_TUNABLEOP_ENABLED": "matrix products are tuned when they are first called, so first calls take long",
    "CUBLAS_EMULATE_SINGLE_PRECISION": "float32 products may be computed in bfloat16, and exceed float32's peak",
    "CUDA_DEVICE_MAX_CONNECTIONS": "a different number of streams than usual can run at the same time",
    "CUDA_MODULE_LOADING": "all kernels may be loaded when a process starts, so the times of first calls change",
    "NVIDIA_TF32_OVERRIDE": "float32 products may have another precision than torch reports",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "float32 products use tf32, even where the lecture turned it off",
}
# Values without effect. Earlier versions of torch set CUDA_MODULE_LOADING=LAZY themselves; NVIDIA_TF32_OVERRIDE=0
# forbids tf32.
UNCHANGED, UNCHANGED_BY = ("", "0"), {"CUDA_MODULE_LOADING": ("", "LAZY", "DEFAULT"), "NVIDIA_TF32_OVERRIDE": ("",)}
LONG_S = 0.3  # seconds of device work that two clocks time
CLOCKS_AGREE = (0.95, 1.02)  # device time over host time, which includes the launches and the wait
ASLEEP_S = 0.02  # seconds of sleep of the host that two clocks time
SLOW_WAIT_S = 100e-6  # a slow wait for an idle device; 5 to 30 µs are usual
DRIFT_S = 4.0  # seconds of products in sequence
DRIFTED = 1.10  # late time over early time


def checks(asked: str | None, *, quick: bool, past: PastMemory = UNKNOWN_PAST) -> Iterator[Check]:
    """Yield the checks of the machine; if the device can't be used at all, the check that reports it is the last."""
    packages = ", ".join(f"{name} {version}" for name, version in versions())
    yield Check("versions", "ok", f"{packages}; {host.operating_system()}")
    yield Check("processor", "ok", f"{host.cpu_name()}, {host.usable_cores()} cores, {_bytes(host.ram_bytes())}")
    try:
        device = devices.chosen(asked)
    except UsageError as error:
        yield Check("device", "wrong", str(error))
        return
    gpu = accelerators.accelerator(device)
    on_card = [partial(_free_on_card, gpu, past), partial(_allocator, gpu)] if gpu is not None else []
    of_device = (_workspace, _two_clocks, _asleep, _idle_wait, _floor)
    slow = [partial(look, gpu) for look in of_device] if gpu is not None else [_drift]
    looks: list[Callable[[], Iterator[Check]]] = [
        partial(_card, gpu),
        *(partial(look, device) for look in (_kernels, _float8, _bit_equal)),
        *on_card,
        *([_precision, _other_programs] if device == "cuda" else []),
        *[_settings, _threads, _load],
        partial(_free, past),
        _clock,
        _nvidia_smi,
        *([] if quick else slow),
    ]
    for look in looks:
        try:
            yield from look()
        except RuntimeError as error:  # from the device: all later checks would fail in the same way
            advice = devices.ON_THE_CPU if gpu is not None else ""
            yield Check("device", "wrong", f"an operation failed: {formats.one_line(str(error), 200)}", advice)
            return


def _card(gpu: Accelerator | None) -> Iterator[Check]:
    if gpu is None:
        no_driver = " (no GPU driver found)" if not host.cards() else ""
        if not no_driver or shutil.which("nvidia-smi") is None:
            yield Check("device", "ok", f"cpu{no_driver}")
        else:
            advice = "if this machine has a GPU, find out why `nvidia-smi` does not list it"
            yield Check("device", "look", "cpu: nvidia-smi is installed but lists no GPU", advice)
        return
    card = gpu.properties()
    driver = card.driver or host.gpu_driver()
    parts = (
        card.name,
        _bytes(card.memory_bytes),
        f"{card.multiprocessors} processors" if card.multiprocessors is not None else None,
        f"compute capability {card.capability}" if card.capability else None,
        f"driver {driver}" if driver else None,
        f"card {gpu.index()} of {gpu.count()}" if gpu.count() > 1 else None,
    )
    yield Check("device", "ok", ", ".join(part for part in parts if part))


def _kernels(device: str) -> Iterator[Check]:
    """Check an 8×8 product in each dtype, with small whole numbers that every dtype represents exactly."""
    a = torch.arange(64).reshape(8, 8) % 7 - 3
    expected, failed, wrong = a @ a.T, [], []
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        try:
            x = a.to(device, dtype)
            if not torch.equal((x @ x.T).cpu(), expected.to(dtype)):
                wrong.append(name)
        except RuntimeError as error:
            failed.append(f"{name} ({formats.one_line(str(error), 100)})")
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
    if wrong:
        advice = "do not trust results of this device"
        yield Check("products", "wrong", f"an 8×8 product is wrong in {', '.join(wrong)}", advice)
    elif failed:
        verdict: Verdict = "wrong" if failed[0].startswith("float32") else "look"
        yield Check("products", verdict, f"an 8×8 product fails in {', '.join(failed)}", "see versions and device")
    else:
        yield Check("products", "ok", f"8×8, correct in {names}")


def _float8(device: str) -> Iterator[Check]:
    """Check a 16×16 product of float8 numbers, the smallest size that exists; few devices have float8 products."""
    a = torch.arange(256).reshape(16, 16) % 7 - 3
    scale = torch.ones((), device=device)
    try:
        x = a.to(device, torch.float8_e4m3fn)
        product = torch._scaled_mm(x, x.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:  # any error of a build without them
        yield Check("float8 products", "ok", f"none here: {formats.one_line(str(error), 100)}")
        return
    if torch.equal(product.cpu(), (a @ a.T).to(torch.bfloat16)):
        yield Check("float8 products", "ok", "16×16, correct in float8_e4m3fn")
    else:
        advice = "do not trust float8 results of this device"
        yield Check("float8 products", "wrong", "a 16×16 product is wrong in float8_e4m3fn", advice)


def _bit_equal(device: str) -> Iterator[Check]:
    """Check that the same product gives the same bits twice."""
    x = torch.randn(512, 512, generator=torch.Generator().manual_seed(0)).to(device)
    typed = {str(dtype).removeprefix("torch."): x.to(dtype) for dtype in (torch.float32, torch.bfloat16)}
    differ = [name for name, x in typed.items() if not torch.equal(x @ x, x @ x)]
    if differ:
        advice = "values will vary between passes; look for settings that choose kernels by timing them"
        yield Check("repeatable", "look", f"two runs of a 512×512 product differ in {', '.join(differ)}", advice)
    else:
        yield Check("repeatable", "ok", "two runs of a 512×512 product agree in every bit")


def _free_on_card(gpu: Accelerator, past: PastMemory) -> Iterator[Check]:
    free, total = devices.memory_info(gpu)
    free += gpu.reserved_bytes()
    before = past.device_bytes.get(gpu.properties().name)
    text = f"{_bytes(free)} of {_bytes(total)} are free" + _earlier_use(before)
    if free < (before or SCARCE_BYTES) or free < (1 - SHARED) * total:
        yield Check("GPU memory", "look", text, "large tensors may not fit; stop other programs that use this card")
    else:
        yield Check("GPU memory", "ok", text)


def _precision() -> Iterator[Check]:
    name = float32_precision.name()
    advice = "" if name == "highest" else "set by the environment or by a start-up file; the default is highest"
    yield Check("float32 products", "ok" if name == "highest" else "look", name, advice)


def _allocator(gpu: Accelerator) -> Iterator[Check]:
    """Check the allocator's count for a tensor of 4 MiB and another of 1,000 bytes (two blocks of 512)."""
    expected, counted, tensors = [4 << 20, 1024], [], []
    for size in (4 << 20, 1000):
        before = gpu.allocated_bytes()
        tensors.append(torch.empty(size, dtype=torch.uint8, device=gpu.type))
        counted.append(gpu.allocated_bytes() - before)
    sizes = " and ".join(f"{size:,}" for size in counted)
    if counted == expected:
        yield Check("allocator", "ok", f"counts {sizes} bytes for tensors of {4 << 20:,} and 1,000")
    else:
        advice = "claims about allocated bytes will fail: another allocator may be in use"
        yield Check("allocator", "look", f"counts {sizes} bytes for tensors of {4 << 20:,} and 1,000", advice)


def _other_programs() -> Iterator[Check]:
    memory_mib, own_excluded = host.gpu_processes()
    used, slowed = host.processes_in_words(memory_mib, own_excluded), host.gpu_slowed_by()
    if used is None and not host.cards():
        yield Check("others on the card", "ok", "unknown: nvidia-smi doesn't answer")
    elif used is None or (not own_excluded and len(memory_mib) == 1):  # the only process is this one, under another id
        yield Check("others on the card", "ok", "none")
    else:
        yield Check("others on the card", "look", used, "stop them, or choose another card with --device cuda:N")
    if slowed:
        yield Check("clocks", "look", f"held back: {', '.join(slowed)}", "times will be longer than usual")
    else:
        yield Check("clocks", "ok", "unknown" if slowed is None else "not held back")


def _nvidia_smi() -> Iterator[Check]:
    """Report whether nvidia-smi has hung in an earlier check: later traces don't wait for it again."""
    if host.hung():
        advice = "traces will lack the card's clocks, temperature and other users; try `nvidia-smi -pm 1`"
        yield Check(NVIDIA_SMI, "look", f"gave no answer in {host.TIMEOUT_S:g} s", advice)


def _settings() -> Iterator[Check]:
    changed = [name for name in SETTINGS if os.environ.get(name, "") not in UNCHANGED_BY.get(name, UNCHANGED)]
    for name in changed:
        value = formats.one_line(os.environ[name], 80)
        yield Check("environment", "look", f"{name}={value}: {SETTINGS[name]}", f"unset {name}")
    if not changed:
        yield Check("environment", "ok", "no variable is set that changes measurements")


def _threads() -> Iterator[Check]:
    threads, cores = torch.get_num_threads(), host.usable_cores()
    variables = [f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ]
    text = f"{threads} on {cores} cores" + (f" ({', '.join(variables)})" if variables else "")
    if threads > cores:
        yield Check(
            "threads", "look", text, f"more threads than cores slow each other down; set OMP_NUM_THREADS={cores}"
        )
    else:
        yield Check("threads", "ok", text)


def _load() -> Iterator[Check]:
    notes = host.cpu_notes()
    for note in notes:
        yield Check("load", "look", note, "times will vary; stop other programs, or use more --passes")
    if not notes:
        yield Check("load", "ok", f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown")


def _free(past: PastMemory) -> Iterator[Check]:
    free = host.available_bytes()
    text = ("unknown" if free is None else f"{_bytes(free)} are free") + _earlier_use(past.ram_bytes)
    if free is not None and free < (past.ram_bytes or SCARCE_BYTES):
        yield Check("memory", "look", text, "a process that runs out of memory is killed; stop other programs")
    else:
        yield Check("memory", "ok", text)


def _earlier_use(size: int | None) -> str:
    return "" if size is None else f"; an earlier run took {_bytes(size)}"


def _clock() -> Iterator[Check]:
    """Report the smallest difference between two readings, and the resolution that the clock declares."""
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [after - before for before, after in pairwise(readings) if after > before]
    smallest = min(steps, default=10**9)
    text = (
        f"smallest step {formats.duration(smallest)}, resolution {time.get_clock_info('perf_counter').resolution:g} s"
    )
    coarse = "" if smallest <= 1000 else "short steps can't be timed here; a virtual machine's clock source may be slow"
    yield Check("clock", "look" if coarse else "ok", text, coarse)


def _two_clocks(gpu: Accelerator) -> Iterator[Check]:
    """Compare the device's events with the host's clock while the device works."""
    x = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0)).to(gpu.type)
    y = torch.empty_like(x)
    calls = 1
    while True:
        device_s, host_s = _timed(gpu, lambda: torch.mm(x, x, out=y), calls)
        if host_s >= LONG_S or calls >= 2**20:
            break
        calls = min(4 * calls, max(calls + 1, round(calls * 1.2 * LONG_S / host_s)))
    ratio, (least, most) = device_s / host_s, CLOCKS_AGREE
    text = f"{formats.duration(device_s * 1e9)} between events, {formats.duration(host_s * 1e9)} by the host's clock"
    advice = "" if least <= ratio <= most else "device times are not reliable: the card may be shared or emulated"
    yield Check("event clock", "look" if advice else "ok", text, advice)


def _asleep(gpu: Accelerator) -> Iterator[Check]:
    """Time a sleep of the host with the tracer's events and with plain ones, which a batching driver sends late."""
    device_s, host_s = _timed(gpu, lambda: time.sleep(ASLEEP_S), 1)
    first, last = (gpu.module.Event(enable_timing=True) for _ in range(2))
    first.record()
    time.sleep(ASLEEP_S)
    last.record()
    last.synchronize()
    own_s = first.elapsed_time(last) / 1e3
    least_s, most_s = CLOCKS_AGREE[0] * ASLEEP_S, CLOCKS_AGREE[1] * host_s
    text = f"asleep: {formats.duration(device_s * 1e9)} between events, {formats.duration(host_s * 1e9)} by its clock"
    if own_s < least_s:
        text += f"; {formats.duration(own_s * 1e9)} between a lecture's own events: this driver batches launches"
    advice = "" if least_s <= device_s <= most_s else "device times exclude work on the host"
    yield Check("host work", "look" if advice else "ok", text, advice)


def _idle_wait(gpu: Accelerator) -> Iterator[Check]:
    """Report how long the host waits for an idle device."""
    wait_s = gpu.idle_wait_s()
    slow = (
        "this host reaches its device slowly, as under WSL2 or on a virtual GPU: launches and short steps take longer"
    )
    text = f"at most {formats.duration(wait_s * 1e9)} for an idle device"
    advice = slow if wait_s > SLOW_WAIT_S else ""
    yield Check("idle wait", "look" if advice else "ok", text, advice)


def _workspace(gpu: Accelerator) -> Iterator[Check]:
    """Measure the workspace of a product: torch 2.14 and earlier keep it allocated, later versions free it."""
    x = torch.ones(64, 64, device=gpu.type)
    gpu.reset_peaks()
    product = x @ x
    held, peak = gpu.allocated_bytes(), gpu.peak_bytes()
    if peak is None:
        return
    stays, freed = held - x.nbytes - product.nbytes, peak - held
    text = (
        f"each product allocates {_bytes(freed)} and frees it" if freed else f"products keep {_bytes(stays)} allocated"
    )
    yield Check("workspace", "ok", text if freed or stays else "products allocate none")


def _timed(gpu: Accelerator, run: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return the seconds that calls took by the device's clock and by the host's."""
    gpu.wait()
    started = time.perf_counter()
    mark = gpu.start()
    for _ in range(calls):
        run()
    return gpu.stop(mark), time.perf_counter() - started


def _floor(gpu: Accelerator) -> Iterator[Check]:
    """Report the time charged to an annotated step that launches no kernel: the tracer's two events in sequence."""
    samples = sorted(_timed(gpu, lambda: None, 0)[0] * 1e9 for _ in range(101))
    text = f"{formats.duration(median(samples))} for an empty step, at most {formats.duration(samples[-6])} in 19 of 20"
    advice = "" if median(samples) <= FLOOR_NS else "steps shorter than that can't be timed"
    yield Check("floor", "look" if advice else "ok", text, advice)


def _drift() -> Iterator[Check]:
    """Repeat the same product for some seconds: a processor that slows down does so within them."""
    x = torch.randn(384, 384, generator=torch.Generator().manual_seed(0))
    samples, ends = [], time.perf_counter() + DRIFT_S
    while (started := time.perf_counter()) < ends:
        x @ x
        samples.append(time.perf_counter() - started)
    tenth = max(1, len(samples) // 10)
    early, late = median(samples[:tenth]), median(samples[-tenth:])
    text = (
        f"a product took {formats.duration(early * 1e9)} at first, {formats.duration(late * 1e9)} after {DRIFT_S:g} s"
    )
    advice = (
        "" if max(early, late) < DRIFTED * min(early, late) else "the clock changes, or other programs use these cores"
    )
    yield Check("drift", "look" if advice else "ok", text, advice)


def _bytes(size: int | None) -> str:
    return "unknown memory" if size is None else formats.quantity(size, "B", 3)


if __name__ == "__main__":
    given = PastMemory(**json.loads(sys.argv[3])) if sys.argv[3:] else UNKNOWN_PAST
    for check in checks(sys.argv[2] or None, quick=sys.argv[1] == "quick", past=given):
        print(json.dumps(asdict(check)), flush=True)
