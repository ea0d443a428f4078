"""What a strided tensor holds: all elements when they are few, else a corner and statistics.

Small CPU tensors are read in place, with no operator; others through temporaries of a block at a
time, on the tensor's own device. Called with torch's function and dispatch modes off.

    read_elements(torch.eye(2), tensor, limits, budget, notes)  # tensor["elements"] = [1.0, 0.0, 0.0, 1.0]
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from trace_tools.describing.element_statistics import Reading, corner_shape, summarize
from trace_tools.describing.limits import Budget, Limits

BLOCK = {"cpu": 2**18, "cuda": 2**20}  # elements: temporaries of 6 MiB (fits a cache) and 24 MiB
GPU_STATISTICS = 16  # a GPU reads so many times more elements in the time a CPU takes

_LISTED = frozenset(
    {
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
        *(torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128),
    }
)
_FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)
_FLOAT4_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]  # by the low three bits: E2M1 of the OCP MX specification


def few_elements(x: torch.Tensor, tensor: dict[str, Any], limits: Limits) -> bool:
    """Add the elements if they are few, in CPU memory and of a common type; tell whether they were."""
    if (
        x.numel() > limits.elements
        or x.dtype not in _LISTED
        or x.device.type != "cpu"
        or x.is_conj()
        or x.is_neg()
        or _beyond_storage(x, tensor)
    ):
        return False
    tensor["elements"] = _listed(x)
    return True


def read_elements(x: torch.Tensor, tensor: dict[str, Any], limits: Limits, budget: Budget, notes: list[str]) -> None:
    """Add the elements, or a corner and statistics; or note why they can't be read.

    `tensor` already has the fields of a strided tensor, unless `x` is a temporary.
    """
    why = _unreadable(x, tensor)
    if why:
        notes.append(why)
        return
    try:
        with untracked(x):
            if x.numel() <= limits.elements:
                tensor["elements"] = _elements(x.detach(), notes)
                budget.size -= x.numel()
            else:
                _sample(x.detach(), tensor, budget, notes)
    except (RuntimeError, TypeError, ValueError) as error:  # out of memory is a RuntimeError
        notes.append(f"its elements could not be read: {str(error).partition(chr(10))[0]}")


@contextlib.contextmanager
def untracked(x: torch.Tensor) -> Iterator[None]:
    """Run the block without autograd, autocast and `torch.func`, and let it wait for the GPU even where that raises."""
    sync_mode = torch.cuda.get_sync_debug_mode() if x.device.type == "cuda" else 0
    with torch.no_grad(), torch._C._DisableAutocast(), _no_transforms():
        try:
            if sync_mode:
                torch.cuda.set_sync_debug_mode(0)
            yield
        finally:
            if sync_mode:
                torch.cuda.set_sync_debug_mode(sync_mode)


def _no_transforms() -> contextlib.AbstractContextManager[Any]:
    """Suspend vmap, grad and their kin: inside them, results even of ordinary tensors are wrapped."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return contextlib.nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def being_captured(x: torch.Tensor) -> bool:
    """Tell whether an operator on `x` would become part of a CUDA graph instead of running."""
    return x.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _unreadable(x: torch.Tensor, tensor: dict[str, Any]) -> str | None:
    """Return why the memory of a strided tensor must not be read."""
    if x.device.type == "meta":
        return "a meta tensor has no elements"
    if _beyond_storage(x, tensor):
        return "its storage was freed or shrunk"
    if being_captured(x):
        return "a CUDA graph is being captured: its elements are not computed yet"
    return None


def _beyond_storage(x: torch.Tensor, tensor: dict[str, Any]) -> bool:
    """Tell whether the storage ends before the last element: reading it would read other memory."""
    storage_bytes = tensor.get("storage_bytes")
    if "strides" not in tensor or storage_bytes is None or not tensor["bytes"]:
        return False
    last: int = tensor["offset"]
    for size, stride in zip(tensor["shape"], tensor["strides"], strict=True):
        last += (size - 1) * stride
    return bool((last + 1) * x.element_size() > storage_bytes)


def _sample(x: torch.Tensor, tensor: dict[str, Any], budget: Budget, notes: list[str]) -> None:
    """Add a corner and, where the type has numbers, statistics."""
    shape = corner_shape(x.shape)
    tensor["corner"] = _elements(x[tuple(slice(size) for size in shape)], notes)
    tensor["corner_shape"] = shape
    budget.size -= len(tensor["corner"])
    reading = _reading(x.dtype)
    if reading is None:
        notes.append("no statistics of such elements")
        return
    if budget.statistics <= 0:
        notes.append("no statistics: the value is too large")
        return
    if x.is_complex():
        notes.append("statistics of the magnitudes")
    gpu = x.device.type == "cuda"
    times = GPU_STATISTICS if gpu else 1
    chunk = BLOCK["cuda" if gpu else "cpu"]
    found = summarize(x, x.stride(), reading, chunk=chunk, limit=budget.statistics * times)
    tensor["statistics"] = found.fields
    budget.statistics -= found.read // times
    notes += found.notes


def _listed(x: torch.Tensor) -> list[Any]:
    """Return the elements in row-major order, complex ones as [real, imaginary]."""
    nested: Any = x.tolist()
    if not x.dim():
        nested = [nested]
    for _ in range(x.dim() - 1):
        nested = chain.from_iterable(nested)
    if x.dtype.is_complex:
        return [[element.real, element.imag] for element in nested]
    return nested if type(nested) is list else list(nested)


def _elements(x: torch.Tensor, notes: list[str]) -> list[Any]:
    """Return the elements of a few, whatever their type."""
    if x.is_quantized:
        notes.append(f"dequantised, {_scale(x)}")
        return _listed(x.dequantize())
    if x.dtype in _LISTED:
        return _listed(x)
    if x.dtype.is_complex:
        return _listed(x.to(torch.complex64))
    if x.dtype is _FLOAT4:
        notes.append("an element is a pair of 4-bit floats, [low, high]")
        return [[_float4(byte & 15), _float4(byte >> 4)] for byte in _listed(x.view(torch.uint8))]
    if x.dtype.is_floating_point:
        return _listed(x.to(torch.float64))
    notes.append("elements are the raw bytes")
    return _listed(x.view(torch.uint8))


def _float4(bits: int) -> float:
    value = _FLOAT4_VALUES[bits & 7]
    return -value if bits & 8 else value


def _scale(x: torch.Tensor) -> str:
    if x.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"scale {x.q_scale():.9g}, zero point {x.q_zero_point()}"
    return f"a scale for each index of dimension {x.q_per_channel_axis()}"


def _reading(dtype: torch.dtype) -> Reading | None:
    """Return how blocks of this type become numbers; None for bits that torch gives no meaning."""
    if dtype is torch.bool:
        return Reading(_float64, lambda block: block.to(torch.uint8))
    if dtype is torch.uint64:  # has no comparison: as signed numbers in the same order
        return Reading(_float64, lambda block: block.view(torch.int64) ^ -(2**63), 2**63)
    if dtype in (torch.uint16, torch.uint32):
        return Reading(_float64, lambda block: block.to(torch.int64))
    if dtype in (torch.quint8, torch.qint8, torch.qint32):
        return Reading(lambda block: block.dequantize().to(torch.float64))
    if dtype.is_complex:
        return Reading(lambda block: block.to(torch.complex128).abs())
    if dtype.is_floating_point and dtype is not _FLOAT4:
        return Reading(_float64)
    return Reading(_float64, lambda block: block) if dtype in _LISTED else None


def _float64(block: torch.Tensor) -> torch.Tensor:
    return block.to(torch.float64)
