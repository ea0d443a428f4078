"""Describe a torch tensor in the file form of its `Value`, unnoticed by the lecture.

The description bypasses the lecture's function and dispatch modes, its subclasses' overrides, autograd, autocast and
its default dtype and device, and keeps no reference. Few elements of a CPU tensor are read in place, with no operator;
more elements are read through temporaries of one block at a time, on the tensor's own device.

    describe_tensor(torch.eye(2), StorageLabels(), Limits(), Budget(Limits()))
    # ({"type": "tensor", "tensor": {"dtype": "float32", "shape": [2, 2], "device": "cpu", "bytes": 16,
    #   "strides": [2, 1], …, "storage": "s1", "storage_bytes": 16, "elements": [1.0, 0.0, 0.0, 1.0]}}, [])
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import _pop_mode as _pop_function_mode
from torch.overrides import _push_mode as _push_function_mode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _pop_mode, _push_mode

from trace_tools.describing.elements import Budget, Conversion, Limits, sample
from trace_tools.describing.safe_repr import class_attribute, class_name, is_a
from trace_tools.describing.storage_labels import StorageLabels
from trace_tools.machines import accelerators
from trace_tools.util import formats

Parts = list[tuple[str | None, Any]]  # the component tensors: (name, tensor), or members without names

BLOCK = 2**18  # elements: temporaries of 6 MiB, which fit a CPU's cache
TEMPORARY_BYTES = 24  # for each element of a block: three float64
GPU_BLOCK = 2**20  # temporaries of 24 MiB
LEAST_GPU_BLOCK = 2**16, 2**12  # elements at least; blocks at most, because each takes about 50 launches
GPU_STATISTICS = 16  # times as many elements as a CPU reads in the same time

_LISTED = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    *(torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128),
}
_FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)
_FLOAT4_VALUES = [sign * x for sign in (1, -1) for x in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)]  # E2M1 of OCP's MX

_Tensor: Any = torch._C.TensorBase  # unbound, so that no subclass overrides it
_NoFunctions = torch._C.DisableTorchFunction  # hides calls from modes and subclasses
_NoDispatch = torch._C._DisableTorchDispatch  # hides operators from them
_DISPATCHES_NOTHING = torch._C._disabled_torch_dispatch_impl
_DTYPES = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
_CPU = torch.device("cpu")
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def describe_tensor(
    x: torch.Tensor, labels: StorageLabels, limits: Limits, budget: Budget
) -> tuple[dict[str, Any], Parts]:
    """Return the value of `x` without its parts, and the parts: those of a sparse or nested tensor, or of a wrapper."""
    kind = type(x)
    description = _Description(labels, limits, budget)
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        tensor = description.ordinary(x) if _is_ordinary(x, kind) else description.unusual(x, kind)
    name = "tensor" if kind is torch.Tensor else "parameter" if kind is torch.nn.Parameter else class_name(kind)
    value: dict[str, Any] = {"type": name, "tensor": tensor}
    if not tensor:  # its sizes are not numbers
        value = {"type": "NestedTensor" if kind is torch.Tensor else class_name(kind)}
    if description.notes:
        value["note"] = "; ".join(description.notes)
    return value, description.parts


def storage_location(x: torch.Tensor, labels: StorageLabels) -> tuple[str, int, int]:
    """Return the label, the first address and the bytes of the CPU memory under `x`."""
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        storage: torch.UntypedStorage = _Tensor.untyped_storage(x)
        return _label(storage, _CPU, labels), storage.data_ptr(), storage.nbytes()


def parameter_count(module: torch.nn.Module) -> int:
    """Return the number of elements in the module's parameters, with shared ones counted once."""
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        return sum(_Tensor.numel(p) for p in torch.nn.Module.parameters(module))


@contextlib.contextmanager
def modes_suspended() -> Iterator[None]:
    """Run the block, which is code of the lecture such as a `__repr__`, with no torch mode active and no gradients."""
    with _without_modes(), torch.no_grad():
        yield


@contextlib.contextmanager
def unseen_by_modes() -> Iterator[None]:
    """Run the block, which evaluates an expression of the lecture, with its operators hidden from modes and profilers.

    Fake tensors stay fake, and a default device that the lecture has set stays set, because these change the result.
    """
    with _without_modes(keep=(DeviceContext, FakeTensorMode)), _Unprofiled():
        yield


@contextlib.contextmanager
def _without_modes(keep: tuple[type, ...] = ()) -> Iterator[None]:
    """Run the block with no torch mode active, except those of the classes in `keep`."""
    function_modes: list[Any] = []
    dispatch_modes: list[Any] = []
    try:
        for _ in range(torch._C._len_torch_function_stack()):
            function_modes.append(_pop_function_mode())  # type: ignore[no-untyped-call]
        for _ in range(torch._C._len_torch_dispatch_stack()):
            dispatch_modes.append(_pop_mode())
        kept = [mode for mode in function_modes if isinstance(mode, keep)]
        kept_dispatch = [mode for mode in dispatch_modes if isinstance(mode, keep)]
        _push(kept, kept_dispatch)
        try:
            yield
        finally:
            for _ in kept:
                _pop_function_mode()  # type: ignore[no-untyped-call]
            for _ in kept_dispatch:
                _pop_mode()
    finally:
        _push(function_modes, dispatch_modes)


def _push(function_modes: list[Any], dispatch_modes: list[Any]) -> None:
    """Activate modes again that were removed in this order."""
    for mode in reversed(dispatch_modes):
        _push_mode(mode)
    for mode in reversed(function_modes):
        _push_function_mode(mode)  # type: ignore[no-untyped-call]


def inner_tensors(x: torch.Tensor) -> Parts:
    """Return the tensors that a wrapper subclass names in torch's protocol, `__tensor_flatten__`: code of the
    lecture.
    """
    if not hasattr(type(x), "__tensor_flatten__"):
        return []
    names, _ = x.__tensor_flatten__()  # type: ignore[attr-defined]
    return [(str(name), getattr(x, name)) for name in names]


def is_wrapper(x: torch.Tensor) -> bool:
    """Return whether `x` only represents its elements, as a class with `__torch_dispatch__` may."""
    if class_attribute(type(x), "__torch_dispatch__") is _DISPATCHES_NOTHING:
        return False
    if is_a(type(x), FakeTensor):  # a fake tensor warns on access to its memory
        return True
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        try:
            return not _Tensor.data_ptr(x)
        except RuntimeError:
            return True


def _is_ordinary(x: torch.Tensor, kind: type) -> bool:
    """Return whether `x` is strided, of torch's own classes, and has memory that can be read directly."""
    return (
        (kind is torch.Tensor or kind is torch.nn.Parameter)
        and x.layout is torch.strided
        and not (x.is_nested or _functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x))
    )


class _Unprofiled:
    """Hides operators inside its block from profilers."""

    def __enter__(self) -> None:
        try:
            torch._C._autograd._enable_record_function(False)
        except BaseException:  # Ctrl-C just after it: no __exit__ will follow
            torch._C._autograd._enable_record_function(True)
            raise

    def __exit__(self, *raised: object) -> None:
        torch._C._autograd._enable_record_function(True)


class _Description:
    """The description of one tensor, made with torch's function and dispatch modes off."""

    __slots__ = ("budget", "labels", "limits", "notes", "parts")

    def __init__(self, labels: StorageLabels, limits: Limits, budget: Budget) -> None:
        self.labels = labels
        self.limits = limits
        self.budget = budget
        self.notes: list[str] = []
        self.parts: Parts = []

    def ordinary(self, x: torch.Tensor) -> dict[str, Any]:
        """Describe a strided tensor that has memory, with its elements."""
        storage = x.untyped_storage()
        tensor = self._sizes(x) | {
            "strides": list(x.stride()),
            "offset": x.storage_offset(),
            "contiguous": x.is_contiguous(),
            "storage": _label(storage, x.device, self.labels),
            "storage_bytes": storage.nbytes(),
        }
        if x.requires_grad:
            tensor["requires_grad"] = True
        self._read(x, tensor)
        return tensor

    def unusual(self, x: torch.Tensor, kind: type) -> dict[str, Any]:
        if _functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x):
            return self._transformed(x)
        if is_wrapper(x):
            return self._wrapper(x)
        with _untracked(x):
            requires_grad: bool = _Tensor.requires_grad.__get__(x)
            x = _Tensor.detach(x)  # also removes the subclass
            if x.is_nested:
                self.parts += [(None, part) for part in x.unbind()[: self.limits.items]]
                self.notes.append(f"nested: {x.size(0)} tensors of {_DTYPES[x.dtype]} on {x.device}")
                return {}
            tensor = self.ordinary(x) if x.layout is torch.strided else self._unstrided(x)
            return tensor | {"requires_grad": True} if requires_grad else tensor

    def _wrapper(self, x: torch.Tensor) -> dict[str, Any]:
        shape = _Tensor.shape.__get__(x)
        if all(type(size) is int for size in shape):
            self.notes.append("a wrapper without elements of its own")
            return self._sizes(x)
        # Reading a symbolic size as a number would fix it, so only its name is shown.
        sizes = ", ".join(map(str, shape))
        self.notes.append(
            f"a wrapper without elements of its own: {_DTYPES[_Tensor.dtype.__get__(x)]} of shape [{sizes}]"
        )
        return {}

    def _transformed(self, x: torch.Tensor) -> dict[str, Any]:
        """Describe a tensor inside `torch.func` as the lecture sees it, with its elements if it has any."""
        inner, batched = x, False
        while _functorch.is_functorch_wrapped_tensor(inner) and not torch._is_functional_tensor(inner):
            batched = batched or _functorch.is_batchedtensor(inner)
            inner = _functorch.get_unwrapped(inner)
        if batched:
            self.notes.append("inside vmap: one sample of a batch, whose elements can't be read")
        elif torch._is_functional_tensor(inner):
            self.notes.append("inside functionalize: its elements can't be read")
        else:
            self.notes.append("inside a transform of torch.func")
        readable = not batched and _is_ordinary(inner, type(inner))
        tensor = self.ordinary(inner) if readable else self._sizes(x)
        return tensor | {"requires_grad": True} if x.requires_grad else tensor

    def _unstrided(self, x: torch.Tensor) -> dict[str, Any]:
        """Describe a sparse tensor by its stored parts, and any sparse or MKL-DNN tensor by its elements if few."""
        tensor = self._sizes(x)
        tensor["layout"] = str(x.layout).removeprefix("torch.")
        named = [(name.removeprefix("_"), getattr(x, name)()) for name in _PARTS.get(x.layout, ())]
        if named:
            self.parts += named
            tensor["storage_bytes"] = sum(part.numel() * part.element_size() for _, part in named)
            self.notes.append(f"stored entries: {x._nnz()}")
        if x.layout is torch.sparse_coo and not x.is_coalesced():
            self.notes.append("not coalesced: an element may be stored in several terms")
        if x.numel() <= self.limits.elements and not _being_captured(x):
            try:
                self._read(x.to_dense(), tensor)
            except RuntimeError as error:
                self.notes.append(f"its elements could not be read: {str(error).partition(chr(10))[0]}")
        return tensor

    def _read(self, x: torch.Tensor, tensor: dict[str, Any]) -> None:
        """Add the elements, or a corner and statistics; or note why they can't be read.

        `tensor` already has the fields of a strided tensor, unless `x` is a temporary.
        """
        is_small, readable = x.numel() <= self.limits.elements, not _beyond_storage(x, tensor)
        if is_small and readable and x.dtype in _LISTED and x.device.type == "cpu" and not (x.is_conj() or x.is_neg()):
            tensor["elements"] = _listed(x)  # for most inspected tensors: no operator runs
            self.budget.size -= x.numel()
        elif x.device.type == "meta":
            self.notes.append("a meta tensor has no elements")
        elif not readable:
            self.notes.append("its storage was freed or shrunk")
        elif _being_captured(x):
            self.notes.append("a CUDA graph is being captured: its elements are not computed yet")
        else:
            try:
                with _untracked(x):
                    x, elements = x.detach(), partial(_elements, notes=self.notes)
                    if is_small:
                        tensor["elements"] = elements(x)
                        self.budget.size -= x.numel()
                    else:
                        with _block(x, self.notes) as (chunk, times):
                            kind = _conversion(x.dtype)
                            sample(
                                x, x.stride(), tensor, elements, kind, self.budget, self.notes, chunk=chunk, times=times
                            )
            except (RuntimeError, TypeError, ValueError) as error:  # out of memory is a RuntimeError
                self.notes.append(f"its elements could not be read: {str(error).partition(chr(10))[0]}")

    def _sizes(self, x: torch.Tensor) -> dict[str, Any]:
        """Return the fields that are known for every tensor whose sizes are numbers."""
        return {
            "dtype": _DTYPES[_Tensor.dtype.__get__(x)],
            "shape": list(_Tensor.shape.__get__(x)),
            "device": str(_Tensor.device.__get__(x)),
            "bytes": _Tensor.numel(x) * _Tensor.element_size(x),
        }


def _label(storage: torch.UntypedStorage, device: torch.device, labels: StorageLabels) -> str:
    key: int = storage._cdata
    label = labels.find(key)
    if label is None:
        span = None
        if device.type == "cpu" and not storage.resizable() and storage.nbytes():
            # Memory from outside torch (an array, a file) may be under several storages.
            span = (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        label = labels.add(key, dead=reference.expired, span=span)
    return label


@contextlib.contextmanager
def _untracked(x: torch.Tensor) -> Iterator[None]:
    """Run the block without autograd, autocast and `torch.func`, and let it wait for the GPU even if waiting raises."""
    gpu = accelerators.accelerator(x.device.type)
    allowed = gpu.waiting_allowed() if gpu is not None else contextlib.nullcontext()
    # Inside vmap, grad and similar transforms, results even of ordinary tensors are wrapped.
    transforms = _functorch.peek_interpreter_stack() is not None
    suspended = temporarily_clear_interpreter_stack() if transforms else contextlib.nullcontext()
    with torch.no_grad(), torch._C._DisableAutocast(), suspended, allowed:
        yield


@contextlib.contextmanager
def _block(x: torch.Tensor, notes: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the number of elements to read at once, and the total to read as a multiple of a CPU tensor's.

    On a GPU the temporaries come from the allocator whose peak the lecture may read next. They stay below the previous
    peak if it leaves room for small blocks; otherwise a note gives the increase.
    """
    gpu = accelerators.accelerator(x.device.type)
    if gpu is None:
        yield BLOCK, 1
        return
    before = gpu.peak_bytes(x.device.index)
    room = GPU_BLOCK if before is None else (before - gpu.allocated_bytes(x.device.index)) // TEMPORARY_BYTES
    least, blocks = LEAST_GPU_BLOCK
    yield max(least, x.numel() // blocks, min(room, GPU_BLOCK)), GPU_STATISTICS
    after = gpu.peak_bytes(x.device.index)
    if before is not None and after is not None and after > before:
        notes.append(f"reading it raised the allocator's peak by {formats.quantity(after - before, 'B', 3)}")


def _being_captured(x: torch.Tensor) -> bool:
    """Return whether an operator on `x` would become part of a CUDA graph instead of running."""
    gpu = accelerators.accelerator(x.device.type)
    try:
        return gpu is not None and gpu.is_capturing()
    except RuntimeError:  # the device has failed, and reading the tensor will report it
        return False


def _beyond_storage(x: torch.Tensor, tensor: dict[str, Any]) -> bool:
    """Return whether the storage ends before the last element, so that reading it would read other memory."""
    storage_bytes = tensor.get("storage_bytes")
    if "strides" not in tensor or storage_bytes is None or not tensor["bytes"]:
        return False
    last: int = tensor["offset"]
    for size, stride in zip(tensor["shape"], tensor["strides"], strict=True):
        last += (size - 1) * stride
    return bool((last + 1) * x.element_size() > storage_bytes)


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
    """Return the elements of a small tensor of any type."""
    if x.is_quantized:
        if x.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            notes.append(f"dequantised, scale {x.q_scale():.9g}, zero point {x.q_zero_point()}")
        else:
            notes.append(f"dequantised, a scale for each index of dimension {x.q_per_channel_axis()}")
        return _listed(x.dequantize())
    if x.dtype in _LISTED:
        return _listed(x)
    if x.dtype.is_complex:
        return _listed(x.to(torch.complex64))
    if x.dtype is _FLOAT4:
        notes.append("an element is a pair of 4-bit floats, [low, high]")
        return [[_FLOAT4_VALUES[byte & 15], _FLOAT4_VALUES[byte >> 4]] for byte in _listed(x.view(torch.uint8))]
    if x.dtype.is_floating_point:
        return _listed(x.to(torch.float64))
    notes.append("elements are the raw bytes")
    return _listed(x.view(torch.uint8))


def _conversion(dtype: torch.dtype) -> Conversion | None:
    """Return the conversion of blocks of this type to numbers; None for bits without a meaning in torch."""
    if dtype is torch.bool:
        return Conversion(_float64, lambda block: block.to(torch.uint8))
    if dtype is torch.uint64:  # has no comparison: use signed numbers in the same order
        return Conversion(_float64, lambda block: block.view(torch.int64) ^ -(2**63), 2**63)
    if dtype in (torch.uint16, torch.uint32):
        return Conversion(_float64, lambda block: block.to(torch.int64))
    if dtype in (torch.quint8, torch.qint8, torch.qint32):
        return Conversion(lambda block: block.dequantize().to(torch.float64))
    if dtype.is_complex:
        return Conversion(lambda block: block.to(torch.complex128).abs(), note="statistics of the magnitudes")
    if dtype.is_floating_point and dtype is not _FLOAT4:
        return Conversion(_float64)
    return Conversion(_float64, lambda block: block) if dtype in _LISTED else None


def _float64(block: torch.Tensor) -> torch.Tensor:
    return block.to(torch.float64)
