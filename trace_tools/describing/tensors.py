"""Describe torch's tensors, unnoticed by the lecture.

The description bypasses the lecture's function and dispatch modes, its subclasses' overrides, autograd, autocast and
its default dtype and device, and keeps no reference. A tensor with strided memory is described by its elements or a
corner and statistics of them; any other (sparse, nested, quantised, a wrapper, inside `torch.func`) by its repr.

    tensor(walk, torch.eye(2))
    # {"type": "tensor", "tensor": {"dtype": "float32", "shape": [2, 2], "device": "cpu", "bytes": 16,
    #   "strides": [2, 1], …, "storage": "s1", "storage_bytes": 16, "elements": [1.0, 0.0, 0.0, 1.0]}}
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef

from trace_tools.describing.elements import corner_shape, sample, statistics
from trace_tools.describing.guarded_repr import class_name, is_a, plain_repr
from trace_tools.describing.storage_labels import StorageLabels
from trace_tools.describing.torch_modes import Unprofiled
from trace_tools.describing.walk import Describe, Plain, Walk
from trace_tools.machines import accelerators

_LISTED = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}
_FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)  # a pair of numbers, which torch can't convert

_Tensor: Any = torch._C.TensorBase  # unbound, so that no subclass overrides it
_NoFunctions = torch._C.DisableTorchFunction  # hides calls from modes and subclasses
_NoDispatch = torch._C._DisableTorchDispatch  # hides operators from them
_DTYPES = {d: str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)}
_CPU = torch.device("cpu")


def tensor(walk: Walk, obj: torch.Tensor) -> Plain:
    """Describe a tensor."""
    kind = type(obj)
    own = kind is torch.Tensor or kind is torch.nn.Parameter
    name = "tensor" if kind is torch.Tensor else "parameter" if own else class_name(kind)
    notes: list[str] = []
    with _NoFunctions(), _NoDispatch(), Unprofiled():
        device: str = _Tensor.device.__get__(obj).type
        unusual = _unusual(obj, own=own)
        if unusual is None:
            value = {"type": name, "tensor": _strided(walk, obj, notes, own=own)}
            return value | {"note": walk.note("; ".join(notes))} if notes else value
        fields = _sizes(obj)

    def text() -> str:
        with _untracked(device):
            return plain_repr(obj)

    value = walk.by_repr(obj, text)
    if fields is not None:
        value |= {"type": name, "tensor": fields}
    if fields is None or "layout" not in fields:
        value["note"] = walk.note(f"{unusual}; {value['note']}" if "note" in value else unusual)
    return value


def _unusual(x: torch.Tensor, *, own: bool) -> str | None:
    """Return why the elements of `x` can't be read from strided memory, if that is so."""
    if _functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x):
        return "inside a transform of torch.func"
    if not own and _is_wrapper(x):
        return "a wrapper without elements of its own"
    if _Tensor.is_nested.__get__(x):
        return "nested"
    if _Tensor.is_quantized.__get__(x):
        return "quantised"
    layout = _Tensor.layout.__get__(x)
    return None if layout is torch.strided else str(layout).removeprefix("torch.")


def _is_wrapper(x: torch.Tensor) -> bool:
    """Return whether `x` only represents its elements, as a class with `__torch_dispatch__` may."""
    if type(x).__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl:
        return False
    if is_a(type(x), FakeTensor):  # a fake tensor warns on access to its memory
        return True
    try:
        return not _Tensor.data_ptr(x)
    except RuntimeError:
        return True


def _sizes(x: torch.Tensor) -> Plain | None:
    """Return the fields that are known for every tensor; None if its sizes are no numbers (reading a symbolic size as a
    number would fix it), or only its parts have any.
    """
    try:
        shape = _Tensor.shape.__get__(x)
    except RuntimeError:  # nested
        return None
    if not all(type(size) is int for size in shape):
        return None
    fields: Plain = {
        "dtype": _DTYPES[_Tensor.dtype.__get__(x)],
        "shape": list(shape),
        "device": str(_Tensor.device.__get__(x)),
    }
    if _Tensor.requires_grad.__get__(x):
        fields["requires_grad"] = True
    layout = _Tensor.layout.__get__(x)
    if layout is torch.strided:
        return fields | {"bytes": _Tensor.numel(x) * _Tensor.element_size(x)}
    return fields | {"layout": str(layout).removeprefix("torch.")}


def _strided(walk: Walk, obj: torch.Tensor, notes: list[str], *, own: bool) -> Plain:
    """Describe a tensor that has strided memory, with its elements."""
    x = obj
    if not own:
        with _untracked(_Tensor.device.__get__(obj).type):
            x = _Tensor.detach(obj)  # without the subclass
    storage = x.untyped_storage()
    device = x.device
    fields: Plain = {
        "dtype": _DTYPES[x.dtype],
        "shape": [*x.shape],
        "device": str(device),
        "bytes": x.nbytes,
        "strides": [*x.stride()],
        "offset": x.storage_offset(),
        "contiguous": x.is_contiguous(),
        "storage": _label(storage, device, walk.labels),
        "storage_bytes": storage.nbytes(),
    }
    if _Tensor.requires_grad.__get__(obj):
        fields["requires_grad"] = True
    small = x.numel() <= walk.limits.elements
    span = x.numel() if fields["contiguous"] else 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    if fields["bytes"] and (fields["offset"] + span) * x.itemsize > fields["storage_bytes"]:
        notes.append("its storage was freed or shrunk")  # reading it would read other memory
    elif device.type == "meta":
        notes.append("a meta tensor has no elements")
    elif small and device.type == "cpu" and x.dtype in _LISTED and not (x.is_conj() or x.is_neg()):
        walk.size -= x.numel()
        fields["elements"] = _listed(x)  # for most inspected tensors: reads memory
    else:
        try:
            with _untracked(device.type):
                _read(walk, x.detach(), fields, notes, small=small)
        except (RuntimeError, TypeError, ValueError) as error:  # out of memory is a RuntimeError
            notes.append(f"its elements could not be read: {str(error).partition(chr(10))[0]}")
    return fields


def _read(walk: Walk, x: torch.Tensor, fields: Plain, notes: list[str], *, small: bool) -> None:
    """Add the elements to the fields of a tensor; of a large one, a corner and statistics."""
    corner = x if small else x[tuple(map(slice, corner_shape(x.shape)))]
    walk.size -= corner.numel()
    is_number = x.dtype in _LISTED or ((x.dtype.is_floating_point or x.dtype.is_complex) and x.dtype is not _FLOAT4)
    if not is_number:
        notes.append("elements are the raw bytes")
        corner = corner.view(torch.uint8)
    elif x.dtype not in _LISTED:  # lists of 8-bit floats and 16-bit complex numbers are no numbers of Python
        corner = corner.to(torch.complex128 if x.dtype.is_complex else torch.float64)
    fields["elements" if small else "corner"] = _listed(corner)
    if small:
        return
    fields["corner_shape"] = [*corner.shape]
    if not is_number:
        notes.append("no statistics for elements of this type")
        return
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda dim: -strides[dim])
    x = x.permute(order)
    views, repeats, note = sample(walk, x, x.stride())
    if views:
        numbers = torch.empty(sum(view.numel() for view in views), dtype=torch.float64, device=_CPU)
        at = 0
        for view in views:
            piece = _real(view.cpu()).flatten()
            numbers[at : at + len(piece)] = piece
            at += len(piece)
        whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
        fields["statistics"] = statistics(numbers, repeats, torch, whole=whole)
        notes += ["statistics of the magnitudes"] if x.dtype.is_complex else []
    notes += [note] if note else []


def storage_location(x: torch.Tensor, labels: StorageLabels) -> tuple[str, int, int]:
    """Return the label, the first address and the bytes of the CPU memory under `x`."""
    with _NoFunctions(), _NoDispatch(), Unprofiled():
        storage: torch.UntypedStorage = _Tensor.untyped_storage(x)
        return _label(storage, _CPU, labels), storage.data_ptr(), storage.nbytes()


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
def _untracked(device: str) -> Iterator[None]:
    """Run the block without autograd, autocast and `torch.func`, and let it wait for the GPU even if waiting raises.

    Raises RuntimeError while a CUDA graph is being captured, because operators would become part of the graph.
    """
    gpu = accelerators.accelerator(device)
    if gpu is not None and gpu.is_capturing():
        raise RuntimeError("a CUDA graph is being captured")
    allowed = gpu.waiting_allowed() if gpu is not None else contextlib.nullcontext()
    # Inside vmap, grad and similar transforms, results even of ordinary tensors are wrapped.
    transforms = _functorch.peek_interpreter_stack() is not None
    suspended = temporarily_clear_interpreter_stack() if transforms else contextlib.nullcontext()
    with torch.no_grad(), torch._C._DisableAutocast(), suspended, allowed:
        yield


def _listed(x: torch.Tensor) -> list[Any]:
    """Return the elements in row-major order, complex ones as [real, imaginary]."""
    nested: Any = x.tolist() if x.dim() else [x.tolist()]
    for _ in range(x.dim() - 1):
        nested = chain.from_iterable(nested)
    if x.dtype.is_complex:
        return [[element.real, element.imag] for element in nested]
    return nested if type(nested) is list else list(nested)


def _real(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.complex128).abs() if x.dtype.is_complex else x


def module(walk: Walk, obj: torch.nn.Module) -> Plain:
    """Describe a module by its repr and its number of parameters, with shared ones counted once."""

    def total() -> int:
        with _NoFunctions():  # torch refuses to count lazy parameters
            return sum(_Tensor.numel(p) for p in obj.parameters())

    value = walk.other(obj)
    count, why = walk.attempt(total, "parameters()")
    if count is None:
        return {"note": walk.note(why)} | value
    return value | {"entries": [[{"type": "str", "value": "parameters"}, {"type": "int", "value": count}]]}


BASES: tuple[tuple[type, Describe], ...] = (
    (torch.Tensor, tensor),
    (torch.nn.Module, module),
    *((kind, Walk.plainly) for kind in (torch.Size, torch.dtype, torch.device)),
)
