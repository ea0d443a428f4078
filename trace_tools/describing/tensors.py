"""torch tensor → the file form of its `Value`, without the lecture noticing.

Nothing here goes through the lecture's function and dispatch modes, its subclasses' overrides,
autograd, autocast or its default dtype and device, and no reference is kept.

    describe_tensor(torch.eye(2), StorageLabels(), Limits(), Budget(Limits()))
    # ({"type": "tensor", "tensor": {"dtype": "float32", "shape": [2, 2], "device": "cpu", "bytes": 16,
    #   "strides": [2, 1], …, "storage": "s1", "storage_bytes": 16, "elements": [1.0, 0.0, 0.0, 1.0]}}, [])
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef

from trace_tools.describing.limits import Budget, Limits
from trace_tools.describing.safe_repr import class_name
from trace_tools.describing.storage_labels import StorageLabels
from trace_tools.describing.tensor_elements import being_captured, few_elements, read_elements, untracked

Parts = list[tuple[str | None, Any]]  # the tensors that one is made of: (name, tensor), or members without names

_Tensor: Any = torch._C.TensorBase  # unbound, so that no subclass answers instead
_NoFunctions = torch._C.DisableTorchFunction  # neither modes nor subclasses see a call
_NoDispatch = torch._C._DisableTorchDispatch  # nor an operator
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
    """Return the value of `x` but for its parts, and the parts: of a sparse or nested tensor, or of a wrapper."""
    kind = type(x)
    description = _Description(labels, limits, budget)
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        tensor = description.ordinary(x) if _is_ordinary(x, kind) else description.unusual(x, kind)
    value: dict[str, Any] = {"type": _type_name(kind), "tensor": tensor}
    if not tensor:  # its sizes are not numbers
        value = {"type": "NestedTensor" if kind is torch.Tensor else class_name(kind)}
    if description.notes:
        value["note"] = "; ".join(description.notes)
    return value, description.parts


def storage_place(x: torch.Tensor, labels: StorageLabels) -> tuple[str, int, int]:
    """Return the label, the first address and the bytes of the CPU memory under `x`."""
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        storage: torch.UntypedStorage = _Tensor.untyped_storage(x)
        return _label(storage, _CPU, labels), storage.data_ptr(), storage.nbytes()


def parameter_count(module: torch.nn.Module) -> int:
    """Return how many numbers the module's parameters hold, shared ones counted once."""
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        return sum(_Tensor.numel(p) for p in torch.nn.Module.parameters(module))


@contextlib.contextmanager
def modes_suspended() -> Iterator[None]:
    """Run the block, which is code of the lecture such as a `__repr__`, with no torch mode on and no gradients."""
    from torch.overrides import _pop_mode as pop_function_mode
    from torch.overrides import _push_mode as push_function_mode
    from torch.utils._python_dispatch import _pop_mode, _push_mode

    function_modes: list[Any] = []
    dispatch_modes: list[Any] = []
    try:
        for _ in range(torch._C._len_torch_function_stack()):
            function_modes.append(pop_function_mode())  # type: ignore[no-untyped-call]
        for _ in range(torch._C._len_torch_dispatch_stack()):
            dispatch_modes.append(_pop_mode())
        with torch.no_grad():
            yield
    finally:
        for mode in reversed(dispatch_modes):
            _push_mode(mode)
        for mode in reversed(function_modes):
            push_function_mode(mode)  # type: ignore[no-untyped-call]


def inner_tensors(x: torch.Tensor) -> Parts:
    """Return the tensors a wrapper subclass names in torch's protocol, `__tensor_flatten__`: code of the lecture."""
    if not hasattr(type(x), "__tensor_flatten__"):
        return []
    names, _ = x.__tensor_flatten__()  # type: ignore[attr-defined]
    return [(str(name), getattr(x, name)) for name in names]


def is_wrapper(x: torch.Tensor) -> bool:
    """Tell whether `x` only stands for its elements, as a class with `__torch_dispatch__` may."""
    if type(x).__torch_dispatch__ is _DISPATCHES_NOTHING:
        return False
    if issubclass(type(x), FakeTensor):  # warns when asked for its memory
        return True
    with _NoFunctions(), _NoDispatch(), _Unprofiled():
        try:
            return not _Tensor.data_ptr(x)
        except RuntimeError:
            return True


def _is_ordinary(x: torch.Tensor, kind: type) -> bool:
    """Tell whether `x` is strided, of torch's own classes, and its memory can be read as it is."""
    return (
        (kind is torch.Tensor or kind is torch.nn.Parameter)
        and x.layout is torch.strided
        and not (x.is_nested or _functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x))
    )


class _Unprofiled:
    """While inside it, no profiler is told of operators."""

    def __enter__(self) -> None:
        try:
            torch._C._autograd._enable_record_function(False)
        except BaseException:  # Ctrl-C, just after: there will be no __exit__
            torch._C._autograd._enable_record_function(True)
            raise

    def __exit__(self, *raised: object) -> None:
        torch._C._autograd._enable_record_function(True)


class _Description:
    """One tensor being described, with torch's function and dispatch modes off."""

    __slots__ = ("budget", "labels", "limits", "notes", "parts")

    def __init__(self, labels: StorageLabels, limits: Limits, budget: Budget) -> None:
        self.labels = labels
        self.limits = limits
        self.budget = budget
        self.notes: list[str] = []
        self.parts: Parts = []

    def ordinary(self, x: torch.Tensor) -> dict[str, Any]:
        tensor = self._metadata(x)
        if few_elements(x, tensor, self.limits):  # most tensors a lecture inspects: no operator runs
            self.budget.size -= len(tensor["elements"])
        else:
            read_elements(x, tensor, self.limits, self.budget, self.notes)
        return tensor

    def unusual(self, x: torch.Tensor, kind: type) -> dict[str, Any]:
        if _functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x):
            return self._transformed(x)
        if is_wrapper(x):
            return self._wrapper(x)
        with untracked(x):
            requires_grad: bool = _Tensor.requires_grad.__get__(x)
            x = _Tensor.detach(x)  # leaves the subclass behind too
            if x.is_nested:
                return self._nested(x)
            tensor = self.ordinary(x) if x.layout is torch.strided else self._unstrided(x)
            return tensor | {"requires_grad": True} if requires_grad else tensor

    def _wrapper(self, x: torch.Tensor) -> dict[str, Any]:
        shape = _Tensor.shape.__get__(x)
        if all(type(size) is int for size in shape):
            self.notes.append("its class stands for the elements")
            return self._sizes(x)
        # Asking a symbolic size for its number would fix it: only its name can be told.
        sizes = ", ".join(map(str, shape))
        self.notes.append(f"its class stands for the elements: {_DTYPES[_Tensor.dtype.__get__(x)]} of shape [{sizes}]")
        return {}

    def _transformed(self, x: torch.Tensor) -> dict[str, Any]:
        """Describe a tensor inside `torch.func` as the lecture sees it, with elements where there are any."""
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

    def _nested(self, x: torch.Tensor) -> dict[str, Any]:
        self.parts += [(None, part) for part in x.unbind()[: self.limits.items]]
        self.notes.append(f"nested: {x.size(0)} tensors of {_DTYPES[x.dtype]} on {x.device}")
        return {}

    def _unstrided(self, x: torch.Tensor) -> dict[str, Any]:
        """Describe a sparse tensor by its stored parts, and this or an MKL-DNN one by its elements when few."""
        tensor = self._sizes(x)
        tensor["layout"] = str(x.layout).removeprefix("torch.")
        named = [(name.removeprefix("_"), getattr(x, name)()) for name in _PARTS.get(x.layout, ())]
        if named:
            self.parts += named
            tensor["storage_bytes"] = sum(part.numel() * part.element_size() for _, part in named)
            self.notes.append(f"stored entries: {x._nnz()}")
        if x.layout is torch.sparse_coo and not x.is_coalesced():
            self.notes.append("not coalesced: an element may be stored in several terms")
        if x.numel() <= self.limits.elements and not being_captured(x):
            try:
                read_elements(x.to_dense(), tensor, self.limits, self.budget, self.notes)
            except RuntimeError as error:
                self.notes.append(f"its elements could not be read: {str(error).partition(chr(10))[0]}")
        return tensor

    def _sizes(self, x: torch.Tensor) -> dict[str, Any]:
        """Return what is known of every tensor whose sizes are numbers."""
        return {
            "dtype": _DTYPES[_Tensor.dtype.__get__(x)],
            "shape": list(_Tensor.shape.__get__(x)),
            "device": str(_Tensor.device.__get__(x)),
            "bytes": _Tensor.numel(x) * _Tensor.element_size(x),
        }

    def _metadata(self, x: torch.Tensor) -> dict[str, Any]:
        """Return all that is known of a strided tensor without reading its elements."""
        storage = x.untyped_storage()
        tensor = {
            "dtype": _DTYPES[x.dtype],
            "shape": list(x.shape),
            "device": str(x.device),
            "bytes": x.numel() * x.element_size(),
            "strides": list(x.stride()),
            "offset": x.storage_offset(),
            "contiguous": x.is_contiguous(),
            "storage": _label(storage, x.device, self.labels),
            "storage_bytes": storage.nbytes(),
        }
        if x.requires_grad:
            tensor["requires_grad"] = True
        return tensor


def _type_name(kind: type) -> str:
    if kind is torch.Tensor:
        return "tensor"
    return "parameter" if kind is torch.nn.Parameter else class_name(kind)


def _label(storage: torch.UntypedStorage, device: torch.device, labels: StorageLabels) -> str:
    key: int = storage._cdata
    label = labels.find(key)
    if label is None:
        span = None
        if device.type == "cpu" and not storage.resizable() and storage.nbytes():
            # Memory that came from elsewhere (an array, a file) may lie under several storages.
            span = (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        label = labels.add(key, dead=reference.expired, span=span)
    return label
