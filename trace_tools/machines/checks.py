"""The process that looks at this machine: computes on it, reads its settings, and prints what it found.

    python -m trace_tools.machines.checks quick|full [cpu|cuda|cuda:N] [what the lecture took: `Taken` as JSON]

One `Check` per line, as JSON, as soon as it is known. Nothing here changes what the machine is set to.
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

from trace_tools import accelerators, formats
from trace_tools.accelerators import Accelerator
from trace_tools.errors import UsageError
from trace_tools.invariants import FLOOR_NS
from trace_tools.machines import devices, float32_precision, host
from trace_tools.machines.examination import NOTHING_KNOWN, Check, Taken, Verdict
from trace_tools.machines.machine import versions

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)
SCARCE_BYTES = 2**31  # of free memory, where nothing is known of the lecture: its large tensors may not fit
SHARED = 0.10  # of a card's memory in use elsewhere
SETTINGS = {  # of the environment: what they change
    "CUDA_LAUNCH_BLOCKING": "every launch waits for its kernel: no time is that of a launch, and nothing overlaps",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "the allocator keeps nothing, and its figures are not those of a lecture",
    "PYTORCH_CUDA_ALLOC_CONF": "the allocator's figures may be others than by default",
    "PYTORCH_HIP_ALLOC_CONF": "the allocator's figures may be others than by default",
    "PYTORCH_ALLOC_CONF": "the allocator's figures may be others than by default",
    "CUBLAS_WORKSPACE_CONFIG": "the workspace of products has another size than by default",
    "NVIDIA_TF32_OVERRIDE": "the precision of float32 products is not what torch says it is",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "float32 products use tf32, whatever the lecture believes",
}
LONG_S = 0.3  # of work for a device, timed by two clocks
CLOCKS_AGREE = (0.95, 1.02)  # of the device's time over the host's, which has the launches and the wait besides
DRIFT_S = 4.0  # of products, one after the other
DRIFTED = 1.10  # late over early


def checks(asked: str | None, *, quick: bool, taken: Taken = NOTHING_KNOWN) -> Iterator[Check]:
    """Look at the machine; where the device can't be used at all, that is the last check."""
    found = ", ".join(f"{name} {version}" for name, version in versions())
    yield Check("versions", "ok", f"{found}; {host.operating_system()}")
    yield Check("processor", "ok", f"{host.cpu_name()}, {host.usable_cores()} cores, {_bytes(host.ram_bytes())}")
    try:
        device = devices.chosen(asked)
    except UsageError as error:
        yield Check("device", "wrong", str(error))
        return
    gpu = accelerators.accelerator(device)
    on_card = [partial(_free_on_card, gpu, taken), partial(_allocator, gpu)] if gpu is not None else []
    slow = [partial(look, gpu) for look in (_two_clocks, _floor)] if gpu is not None else [_drift]
    looks: list[Callable[[], Iterator[Check]]] = [
        partial(_card, gpu),
        *(partial(look, device) for look in (_kernels, _float8, _bit_equal)),
        *on_card,
        *([_precision, _others] if device == "cuda" else []),
        *[_settings, _threads, _load],
        partial(_free, taken),
        _clock,
        *([] if quick else slow),
    ]
    for look in looks:
        try:
            yield from look()
        except RuntimeError as error:  # of the device: whatever comes after it would fail the same way
            advice = devices.ON_THE_CPU if gpu is not None else ""
            yield Check("device", "wrong", f"an operation failed: {formats.one_line(str(error), 200)}", advice)
            return


def _card(gpu: Accelerator | None) -> Iterator[Check]:
    if gpu is None:
        hidden = " (no GPU's driver answers)" if not host.cards() else ""
        if not hidden or shutil.which("nvidia-smi") is None:
            yield Check("device", "ok", f"cpu{hidden}")
        else:
            advice = "if there is a GPU, see why `nvidia-smi` does not list it"
            yield Check("device", "look", "cpu: nvidia-smi is installed and names no GPU", advice)
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
    """An 8×8 product in each dtype, of small whole numbers, which all of them have exactly."""
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
        advice = "nothing that this device computes can be believed"
        yield Check("products", "wrong", f"an 8×8 product is not what it should be in {', '.join(wrong)}", advice)
    elif failed:
        verdict: Verdict = "wrong" if failed[0].startswith("float32") else "look"
        yield Check("products", verdict, f"an 8×8 product fails in {', '.join(failed)}", "see versions and device")
    else:
        yield Check("products", "ok", f"8×8, right in {names}")


def _float8(device: str) -> Iterator[Check]:
    """A 16×16 product of float8 numbers, the smallest there is; few devices have one."""
    a = torch.arange(256).reshape(16, 16) % 7 - 3
    one = torch.ones((), device=device)
    try:
        x = a.to(device, torch.float8_e4m3fn)
        product = torch._scaled_mm(x, x.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:  # whatever a build that has none raises
        yield Check("float8 products", "ok", f"none here: {formats.one_line(str(error), 100)}")
        return
    if torch.equal(product.cpu(), (a @ a.T).to(torch.bfloat16)):
        yield Check("float8 products", "ok", "16×16, right in float8_e4m3fn")
    else:
        advice = "what this device computes in float8 can't be believed"
        yield Check("float8 products", "wrong", "a 16×16 product is not what it should be in float8_e4m3fn", advice)


def _bit_equal(device: str) -> Iterator[Check]:
    """The same product twice."""
    x = torch.randn(512, 512, generator=torch.Generator().manual_seed(0)).to(device)
    differ = [str(d).removeprefix("torch.") for d in (torch.float32, torch.bfloat16) if not _same_twice(x.to(d))]
    if differ:
        advice = "values will vary between passes; look for settings that choose kernels by timing them"
        yield Check("repeatable", "look", f"the same 512×512 product twice differs in {', '.join(differ)}", advice)
    else:
        yield Check("repeatable", "ok", "the same 512×512 product twice is the same, bit by bit")


def _same_twice(x: torch.Tensor) -> bool:
    return torch.equal(x @ x, x @ x)


def _free_on_card(gpu: Accelerator, taken: Taken) -> Iterator[Check]:
    free, total = gpu.memory_info()
    free += gpu.reserved_bytes()
    before = taken.device_bytes.get(gpu.properties().name)
    found = f"{_bytes(free)} of {_bytes(total)} are free" + _taken(before)
    if free < (before or SCARCE_BYTES) or free < (1 - SHARED) * total:
        yield Check("GPU memory", "look", found, "sizes follow what is free; end what else uses the card")
    else:
        yield Check("GPU memory", "ok", found)


def _precision() -> Iterator[Check]:
    name = float32_precision.name()
    advice = "" if name == "highest" else "set by the environment or by a start-up file; the default is highest"
    yield Check("float32 products", "ok" if name == "highest" else "look", name, advice)


def _allocator(gpu: Accelerator) -> Iterator[Check]:
    """A tensor of 4 MiB, and one of 1,000 bytes, which takes two blocks of 512."""
    wanted, found, held = [4 << 20, 1024], [], []
    for size in (4 << 20, 1000):
        before = gpu.allocated_bytes()
        held.append(torch.empty(size, dtype=torch.uint8, device=gpu.type))
        found.append(gpu.allocated_bytes() - before)
    said = " and ".join(f"{size:,}" for size in found)
    if found == wanted:
        yield Check("allocator", "ok", f"counts {said} bytes for tensors of {4 << 20:,} and 1,000")
    else:
        advice = "claims about allocated bytes will fail: is another allocator chosen?"
        yield Check("allocator", "look", f"counts {said} bytes for tensors of {4 << 20:,} and 1,000", advice)


def _others() -> Iterator[Check]:
    held, own = host.gpu_processes()
    used, slowed = host.processes_in_words(held, own), host.gpu_slowed_by()
    if used is None and not host.cards():
        yield Check("others on the card", "ok", "unknown: nvidia-smi doesn't answer")
    elif used is None or (not own and len(held) == 1):  # that one is this process, by another number
        yield Check("others on the card", "ok", "none")
    else:
        yield Check("others on the card", "look", used, "end them, or choose another card with --device cuda:N")
    if slowed:
        yield Check("clocks", "look", f"held back: {', '.join(slowed)}", "times are those of a slower card")
    else:
        yield Check("clocks", "ok", "unknown" if slowed is None else "nothing holds them back")


def _settings() -> Iterator[Check]:
    found = [name for name in SETTINGS if os.environ.get(name, "") not in ("", "0")]
    for name in found:
        value = formats.one_line(os.environ[name], 80)
        yield Check("environment", "look", f"{name}={value}: {SETTINGS[name]}", f"unset {name}")
    if not found:
        yield Check("environment", "ok", "nothing in it changes what is measured")


def _threads() -> Iterator[Check]:
    threads, cores = torch.get_num_threads(), host.usable_cores()
    said = [f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ]
    found = f"{threads} on {cores} cores" + (f" ({', '.join(said)})" if said else "")
    if threads > cores:
        yield Check("threads", "look", found, f"they wait for each other: OMP_NUM_THREADS={cores}")
    else:
        yield Check("threads", "ok", found)


def _load() -> Iterator[Check]:
    notes = host.cpu_notes()
    for note in notes:
        yield Check("load", "look", note, "times will vary: end what else runs here, or take more passes")
    if not notes:
        yield Check("load", "ok", f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown")


def _free(taken: Taken) -> Iterator[Check]:
    free = host.available_bytes()
    found = ("unknown" if free is None else f"{_bytes(free)} are free") + _taken(taken.ram_bytes)
    if free is not None and free < (taken.ram_bytes or SCARCE_BYTES):
        yield Check("memory", "look", found, "a process without memory is killed: end what else runs")
    else:
        yield Check("memory", "ok", found)


def _taken(before: int | None) -> str:
    return "" if before is None else f"; an earlier run took {_bytes(before)}"


def _clock() -> Iterator[Check]:
    """The smallest difference between two readings, and what the clock says of itself."""
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [after - before for before, after in pairwise(readings) if after > before]
    smallest = min(steps, default=10**9)
    found = (
        f"smallest step {formats.duration(smallest)}, resolution {time.get_clock_info('perf_counter').resolution:g} s"
    )
    coarse = "" if smallest <= 1000 else "short steps can't be timed here; a virtual machine's clock source may be slow"
    yield Check("clock", "look" if coarse else "ok", found, coarse)


def _two_clocks(gpu: Accelerator) -> Iterator[Check]:
    """Work for a while, timed by the device's events and by the host."""
    x = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0)).to(gpu.type)
    y = torch.empty_like(x)
    calls = 1
    while True:
        device_s, host_s = _timed(gpu, lambda: torch.mm(x, x, out=y), calls)
        if host_s >= LONG_S or calls >= 2**20:
            break
        calls = min(4 * calls, max(calls + 1, round(calls * 1.2 * LONG_S / host_s)))
    ratio, (least, most) = device_s / host_s, CLOCKS_AGREE
    found = f"{formats.duration(device_s * 1e9)} between events, {formats.duration(host_s * 1e9)} by the host"
    advice = "" if least <= ratio <= most else "device times can't be believed: is the card shared, or emulated?"
    yield Check("event clock", "look" if advice else "ok", found, advice)


def _timed(gpu: Accelerator, run: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return the seconds that calls took by the device's clock and by the host's."""
    gpu.wait()
    started = time.perf_counter()
    mark = gpu.start()
    for _ in range(calls):
        run()
    return gpu.stop(mark), time.perf_counter() - started


def _floor(gpu: Accelerator) -> Iterator[Check]:
    """What an annotated step is charged that launches nothing: the tracer's two events, one after the other."""
    samples = sorted(_timed(gpu, lambda: None, 0)[0] * 1e9 for _ in range(101))
    found = (
        f"{formats.duration(median(samples))} for an empty step, at most {formats.duration(samples[-6])} in 19 of 20"
    )
    advice = "" if median(samples) <= FLOOR_NS else "shorter steps than that can't be told from nothing"
    yield Check("floor", "look" if advice else "ok", found, advice)


def _drift() -> Iterator[Check]:
    """The same product for some seconds: a processor that slows down does so in the first ones."""
    x = torch.randn(384, 384, generator=torch.Generator().manual_seed(0))
    samples, ends = [], time.perf_counter() + DRIFT_S
    while (started := time.perf_counter()) < ends:
        x @ x
        samples.append(time.perf_counter() - started)
    tenth = max(1, len(samples) // 10)
    early, late = median(samples[:tenth]), median(samples[-tenth:])
    found = f"a product took {formats.duration(early * 1e9)}, after {DRIFT_S:g} s {formats.duration(late * 1e9)}"
    advice = "" if max(early, late) < DRIFTED * min(early, late) else "the clock changes, or others use these cores"
    yield Check("drift", "look" if advice else "ok", found, advice)


def _bytes(size: int | None) -> str:
    return "unknown memory" if size is None else formats.quantity(size, "B", 3)


if __name__ == "__main__":
    given = Taken(**json.loads(sys.argv[3])) if sys.argv[3:] else NOTHING_KNOWN
    for check in checks(sys.argv[2] or None, quick=sys.argv[1] == "quick", taken=given):
        print(json.dumps(asdict(check)), flush=True)
