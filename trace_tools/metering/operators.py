"""Read operators from torch's dispatcher: their names, their tensors, and the bytes that they must move.

    base_name(torch.ops.aten.add_.Tensor)  # "add"
    Traffic(torch.ops.aten.add_.Tensor).moved((x, y), {}, [x])  # (bytes of x and y, bytes of x)

An operator reads every input once and writes every output once, as a kernel must if all data comes from memory. An
input that is passed twice counts once, with the distinct bytes that its elements occupy (an expanded dimension occupies
one element). An output counts if it is new memory. The exceptions:

- Views, `empty` and changes of metadata move 0 bytes; `ones_like(x)` and `x.new_ones()` do not read x.
- An in-place operator reads and writes its target, unless it only overwrites it (`zero_`, `copy_`, `out=`).
- Gathering (`embedding`, indexing) reads the rows it takes, not the whole table, and scattering writes the rows it
  changes; a row taken twice counts twice, up to the size of the table. `tril` reads the part that it keeps.
- An `equal` that returns False may have ended at the first element: 0 bytes.
- Tensors without memory (meta, fake) and sparse tensors count as 0 bytes.

An operator that skips parts of its input in other ways (a convolution or pooling with a stride beyond its window,
cropping, shrinking an image) counts all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]


class EagerMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that is never compiled; torch's own wrapper against that would load the compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def base_name(operator: Any) -> str | None:
    """Return the operator's name in the tables: "add" for aten.add_.Tensor, aten._foreach_add.List and prims.add.

    None for other namespaces.
    """
    schema = getattr(operator, "_schema", None)
    namespace, _, name = schema.name.partition("::") if schema else ("", "", "")
    if namespace not in ("aten", "prims"):
        return None
    name = name.removeprefix("_foreach_")
    return str(name if name.endswith("__") else name.removesuffix("_"))


def is_view(operator: Any) -> bool:
    """Return whether the operator, by its schema, only makes new views of its arguments or changes their shape."""
    if torch.Tag.inplace_view in getattr(operator, "tags", ()):
        return True
    returns = operator._schema.returns if hasattr(operator, "_schema") else []
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an argument or result: itself, or those in a list or tuple of any depth."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def memory_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an argument or result that have memory of their own, unlike sparse tensors."""
    return [tensor for tensor in tensors_in(value) if torch._C._has_storage(tensor)]


def floating(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's elements are floating-point or complex numbers."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


_NOTHING = {
    *("_unsafe_view", "_has_same_storage_numel", "is_same_size", "is_pinned", "record_stream", "set"),
    "embedding_renorm",  # only the table shows which rows are too long and are changed
}
_FILLS = {"zero", "fill", "copy", "normal", "uniform", "random", "bernoulli", "exponential", "geometric", "log_normal"}
# Of their first argument (`bucketize`: the second), these read a part; so does an operator named `…_copy`.
_GATHERS = {
    *("index", "_unsafe_index", "index_select", "gather", "take", "embedding", "_embedding_bag"),
    *("_embedding_bag_forward_only", "nll_loss_forward", "masked_select", "tril", "triu", "searchsorted", "bucketize"),
    "constant_pad_nd",  # crops, in the backward pass of padding
}
_ADDS = {"index_add", "scatter_add", "scatter_reduce", "index_reduce"}  # in place, these write a part, and read it
_PUTS = {"index_put", "_index_put_impl", "put"}  # these read it if their last argument says so
_SCATTERS = {*_ADDS, *_PUTS, "index_copy", "index_fill", "scatter"}
_ADDING = {"addmm", "addmv", "addr", "baddbmm", "addbmm"}  # these do not read their first argument if `beta` is 0
_UNREAD = {  # only their shape counts
    *(("nll_loss_backward", "self"), ("max_pool2d_with_indices_backward", "self"), ("resize_as", "the_template")),
}


class Traffic:
    """One operator's use of the memory of its arguments, read from its schema once."""

    __slots__ = ("_by_index", "_by_name", "_name", "_nothing", "_part")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self._name = base_name(operator) or ""
        self._nothing = schema is not None and (self._name in _NOTHING or "empty" in self._name or is_view(operator))
        arguments = [] if schema is None else schema.arguments
        self._by_index = [self._use(argument) for argument in arguments]
        self._by_name = {a.name: use for a, use in zip(arguments, self._by_index, strict=True)}
        scatters = self._name in _SCATTERS and self._by_index[0][1]  # in place
        in_part = scatters or self._name in _GATHERS or self._name.endswith("_copy")
        self._part = int(self._name == "bucketize") if in_part else None  # the index of that argument

    def _use(self, argument: Any) -> tuple[bool, bool]:
        """Return whether the operator reads an argument, and whether it writes it."""
        name: str = argument.name
        if argument.alias_info is not None and argument.alias_info.is_write:
            if name == "grads":  # of fused optimizers, which declare them as written
                return True, False
            return not (argument.is_out or (name == "self" and self._name in _FILLS)), True
        makes = name == "self" and (self._name.endswith("_like") or self._name.startswith("new_"))
        return not (makes or (self._name, name) in _UNREAD), False

    def moved(self, args: Arguments, kwargs: Keywords, results: list[torch.Tensor]) -> tuple[int, int]:
        """Return the bytes that one call read and wrote; call it after the operator has returned `results`."""
        if self._nothing or (results and all(tensor.is_meta for tensor in results)):
            return 0, 0
        read = written = 0
        storages: set[int] = set()
        read_memory: set[tuple[int, int, int]] = set()
        used = [(i, self._by_index[i] if i < len(self._by_index) else (True, False), a) for i, a in enumerate(args)]
        used += [(-1, self._by_name.get(name, (True, False)), value) for name, value in kwargs.items()]
        for index, (reads, writes), value in used:
            for tensor in memory_of(value):
                storage = tensor.untyped_storage()._cdata
                storages.add(storage)
                size = touched_bytes(tensor)
                if index == self._part:
                    part = min(size, self._elements(args, results, in_place=writes) * tensor.element_size())
                    adds = self._name in _ADDS or (self._name in _PUTS and args[-1] is True)
                    written += part if writes else 0
                    read += part if adds or not writes else 0
                    continue
                written += size if writes else 0
                memory = (storage, int(tensor.storage_offset()), size)
                unread = index == 0 and self._name in _ADDING and kwargs.get("beta") == 0
                if reads and not unread and memory not in read_memory:
                    read_memory.add(memory)
                    read += size
        new = [tensor for tensor in results if tensor.untyped_storage()._cdata not in storages]
        if results and not new and not written:
            return 0, 0  # a view, whatever its schema declares: its results use only the arguments' memory
        return read, written + sum(map(touched_bytes, new))

    def _elements(self, args: Arguments, results: list[torch.Tensor], *, in_place: bool) -> int:
        """Return the number of elements that the operator reads of a table, or writes to it."""
        name, target = self._name, args[0]
        if name in ("tril", "triu"):
            rows, columns = target.shape[-2:]
            diagonal = args[1] if len(args) > 1 else 0
            below = sum(min(max(row + 1 + diagonal - (name == "triu"), 0), columns) for row in range(rows))
            kept = below if name == "tril" else rows * columns - below
            # in place, the other part is set to 0
            return int(target.numel() // max(1, rows * columns) * (rows * columns - kept if in_place else kept))
        if name in ("nll_loss_forward", "put"):  # the targets; the indices
            return int(args[1].numel())
        if name not in _SCATTERS:
            return sum(tensor.numel() for tensor in results)
        if name in ("index_put", "_index_put_impl"):
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                return int(args[2].numel())  # only the mask knows the number of true elements: at least these
            kept = prod(size for i, size in enumerate(target.shape) if i >= len(args[1]) or args[1][i] is None)
            shape = torch.broadcast_shapes(*(index.shape for index in indices))  # type: ignore[no-untyped-call]
            return int(prod(shape) * kept)
        if name.startswith("scatter"):
            return int(args[2].numel())
        return int(args[2].numel() * target.numel() // max(1, target.shape[args[1]] if target.dim() else 1))


def touched_bytes(tensor: torch.Tensor) -> int:
    """Return the distinct bytes that a strided tensor's elements occupy; 0 on the meta device."""
    if tensor.is_meta:
        return 0
    if tensor.is_nested or tensor.is_contiguous():
        return tensor.nbytes
    cells = prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return min(cells * tensor.element_size(), tensor.untyped_storage().nbytes())  # windows may overlap
