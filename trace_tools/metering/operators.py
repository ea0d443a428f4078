"""Read operators from torch's dispatcher: their names, their tensors, and the bytes that they must move.

base_name(torch.ops.aten.add_.Tensor)  # "add"
traffic = Traffic(torch.ops.aten.add_.Tensor)
traffic.moved(traffic.uses((x, y), {}), [x], (x, y))  # (bytes of x and y, bytes of x)

Bytes read and written are the least traffic that does the work: the bytes that a kernel must move if all data comes
from memory and is read once. An input counts once per operator, even if it is passed twice, with the distinct bytes
that its elements occupy (an expanded dimension occupies one element); an output counts if it is new memory. Views,
`empty` and changes of metadata move 0 bytes. An in-place operator reads and writes its target, unless it only
overwrites it (`zero_`, `copy_`, `out=`). Gathering (`embedding`, indexing) reads the rows it takes, not the whole
table, and scattering writes the rows it changes; a row taken twice counts twice, up to the size of the table. Shrinking
an image, cropping, pooling with gaps and searching also gather; a triangle counts as the part that is kept. With a
sparse tensor, only the elements that meet its specified elements count. An `equal` that returns False may have ended at
the first element, so it counts as 0 bytes. Meta tensors have no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]


def base_name(operator: Any) -> str | None:
    """Return the operator's name in the tables: "add" for aten.add_.Tensor and aten._foreach_add.List; None outside
    aten.
    """
    schema = getattr(operator, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return None
    name: str = schema.name.removeprefix("aten::").removeprefix("_foreach_")
    return name if name.endswith("__") else name.removesuffix("_")


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
    """Return the strided tensors that an argument or result consists of (indices and values if it is sparse)."""
    if isinstance(value, torch.Tensor):
        return [value] if torch._C._has_storage(value) else list(components(value))
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in memory_of(item)]
    return []


def floating(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's elements are floating-point or complex numbers."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def components(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the strided tensors that a sparse tensor consists of; empty for an opaque layout."""
    if tensor.layout is torch.strided:
        return ()
    with _disable_current_modes():
        if tensor.layout is torch.sparse_coo:
            return (tensor._indices(), tensor._values())
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    return ()


def elements(tensor: torch.Tensor) -> int:
    """Return the number of stored elements: all of a strided tensor, the specified elements of a sparse tensor."""
    parts = () if tensor.layout is torch.strided else components(tensor)
    return parts[-1].numel() if parts else tensor.numel()


def stored_along(matrix: torch.Tensor, dim: int) -> list[int]:
    """Return the number of elements that a sparse matrix stores in each of its rows (`dim` 0) or columns (1).

    A block stores all its elements; an element that an uncoalesced matrix stores twice counts once.
    """
    with _disable_current_modes():  # another meter may be on, and this is not the program's work
        if matrix.layout is torch.sparse_coo:
            return torch.bincount(matrix.coalesce().indices()[dim], minlength=matrix.shape[dim]).tolist()
        pointers, indices, values = components(matrix)
        block = values.shape[1:] if matrix.layout in (torch.sparse_bsr, torch.sparse_bsc) else (1, 1)
        if (dim == 0) == (matrix.layout in (torch.sparse_csr, torch.sparse_bsr)):
            blocks = pointers.diff()
        else:
            blocks = torch.bincount(indices, minlength=matrix.shape[dim] // block[dim])
        return (blocks.repeat_interleave(block[dim]) * block[1 - dim]).tolist()


class Use(Enum):
    """An operator's use of the memory of one argument."""

    READ = auto()
    OVERWRITE = auto()
    UPDATE = auto()  # reads and writes
    SHAPE = auto()  # reads metadata only
    GATHER = auto()  # reads as many elements as the result has
    SCATTER = auto()  # writes as many elements as it receives


_NOTHING = {
    *("_unsafe_view", "_has_same_storage_numel", "is_same_size", "is_pinned", "record_stream", "set"),
    *("from_file", "_efficientzerotensor"),
    "embedding_renorm",  # only the table shows which rows are too long and are changed
}
_FILLS = {
    *("zero", "fill", "copy", "normal", "uniform", "random", "bernoulli", "exponential", "geometric", "log_normal"),
    "cauchy",
}
_TAPS = {  # input elements per result element, if fewer than all
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), 1),
    **dict.fromkeys(("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"), 1),
    **{"upsample_linear1d": 2, "upsample_bilinear2d": 4, "upsample_trilinear3d": 8, "upsample_bicubic2d": 16},
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d", "constant_pad_nd"), 1),  # at least 1
}
_BAGS = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1, "_embedding_bag_per_sample_weights_backward": 2}
_POOLS = {"max_pool2d_with_indices", "avg_pool2d", "max_pool3d_with_indices", "avg_pool3d"}
_GATHERS = {
    *("index", "_unsafe_index", "index_select", "gather", "take", "embedding", "trace"),
    *(*_TAPS, *_POOLS, *_BAGS),
}
_PUTS = {"index_put", "_index_put_impl", "put"}
_ADDS = {"index_add", "scatter_add", "scatter_reduce", "index_reduce"}
_SCATTERS = {*_PUTS, *_ADDS, "index_copy", "index_fill", "scatter"}
_TRIANGLES = {"tril", "triu"}
_ADDING = {"addmm", "addmv", "addr", "baddbmm", "addbmm"}
_PRODUCTS = {"mm": 0, "_sparse_mm": 0, "addmm": 1, "_sparse_addmm": 1}  # index of the first factor
_SPECIAL = {  # (operator, argument) → its use, if the schema does not show it
    ("nll_loss_forward", "self"): Use.GATHER,
    ("masked_select", "self"): Use.GATHER,
    ("searchsorted", "sorted_sequence"): Use.GATHER,
    ("bucketize", "boundaries"): Use.GATHER,
    ("convolution", "input"): Use.GATHER,
    ("nll_loss_backward", "self"): Use.SHAPE,
    ("max_pool2d_with_indices_backward", "self"): Use.SHAPE,
    ("resize_as", "the_template"): Use.SHAPE,
}


Uses = list[tuple[Use, torch.Tensor]]


class EagerMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode for use under a meter, with the compiler off.

    Its `__torch_dispatch__` is then never compiled, so torch need not wrap it; the wrapper would load the compiler.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Traffic:
    """One operator's use of the memory of its arguments, read from its schema once."""

    __slots__ = ("_by_index", "_by_name", "_name", "_nothing")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self._name = base_name(operator) or ""
        self._nothing = schema is not None and (self._name in _NOTHING or "empty" in self._name or is_view(operator))
        arguments = [] if schema is None else schema.arguments
        self._by_index = [self._use(argument) for argument in arguments]
        self._by_name = {a.name: use for a, use in zip(arguments, self._by_index, strict=True)}

    def _use(self, argument: Any) -> Use:
        name: str = argument.name
        if (self._name, name) in _SPECIAL:
            return _SPECIAL[self._name, name]
        if argument.alias_info is not None and argument.alias_info.is_write:
            if argument.is_out or (name == "self" and self._name in _FILLS):
                return Use.OVERWRITE
            if name == "grads":  # of fused optimizers, which declare them as written
                return Use.READ
            return Use.SCATTER if self._name in _SCATTERS else Use.UPDATE
        gathers = self._name in _GATHERS or self._name.endswith("_copy")
        if name in ("self", "weight", "input") and gathers:
            return Use.GATHER
        if name == "self" and (self._name.endswith("_like") or self._name.startswith("new_")):
            return Use.SHAPE
        return Use.READ

    def uses(self, args: Arguments, kwargs: Keywords) -> Uses:
        """Return the tensors among the arguments, each with the operator's use of its memory."""
        uses_by_index = self._by_index
        if kwargs.get("beta") == 0 and self._name in _ADDING:  # the addend of the product is not read
            unread = Use.OVERWRITE if uses_by_index[0] is Use.UPDATE else Use.SHAPE
            uses_by_index = [unread, *uses_by_index[1:]]
        used = [
            (uses_by_index[index] if index < len(uses_by_index) else Use.READ, tensor)
            for index, value in enumerate(args)
            for tensor in memory_of(value)
        ]
        if kwargs:
            get = self._by_name.get
            used += [(get(name, Use.READ), tensor) for name, value in kwargs.items() for tensor in memory_of(value)]
        return used

    def moved(self, uses: Uses, results: list[torch.Tensor], args: Arguments) -> tuple[int, int]:
        """Return the bytes that one call read and wrote; call it after the operator has returned `results`.

        A copy to the meta device reads 0 bytes.
        """
        if self._nothing or (results and all(tensor.is_meta for tensor in results)):
            return 0, 0
        read = written = 0
        storages: set[int] = set()
        read_memory: set[tuple[int, int, int]] = set()
        met_bytes = _met_by_sparse(self._name, args)
        for use, tensor in uses:
            storage = tensor.untyped_storage()._cdata
            storages.add(storage)
            size = touched_bytes(tensor)
            if met_bytes is not None and (use is Use.UPDATE or (use is Use.READ and self._name not in ("add", "sub"))):
                size = min(size, met_bytes.get(id(tensor), size))
            if self._name in _TRIANGLES:  # the other part is set to zero, unread
                kept_bytes = size * _cells_kept(self._name, args) // max(1, prod(tensor.shape[-2:]))
                read += kept_bytes if use is Use.READ else 0
                written += size - kept_bytes if use is Use.UPDATE else 0
            elif use is Use.READ or use is Use.UPDATE:
                memory = (storage, int(tensor.storage_offset()), size)
                if memory not in read_memory:
                    read_memory.add(memory)
                    read += size
            if self._name in _TRIANGLES:
                continue
            if use is Use.OVERWRITE or use is Use.UPDATE:
                written += size
            elif use is Use.GATHER:
                read += min(size, _gathered(self._name, args, results) * tensor.element_size())
            elif use is Use.SCATTER:
                rows = min(size, _scattered(self._name, args) * tensor.element_size())
                written += rows
                adds = self._name in _ADDS or (self._name in _PUTS and args[-1] is True)
                read += rows if adds else 0
        new = [tensor for tensor in results if tensor.untyped_storage()._cdata not in storages]
        if results and not new and not written:
            return 0, 0  # a view, whatever its schema declares: its results use only the arguments' memory
        return read, written + sum(map(touched_bytes, new))


def touched_bytes(tensor: torch.Tensor) -> int:
    """Return the distinct bytes that a strided tensor's elements occupy; 0 on the meta device."""
    if tensor.is_meta:
        return 0
    if tensor.is_nested or tensor.is_contiguous():
        return tensor.nbytes
    cells = prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return min(cells * tensor.element_size(), tensor.untyped_storage().nbytes())  # windows may overlap


def _gathered(name: str, args: Arguments, results: list[torch.Tensor]) -> int:
    """Return the number of elements read from the table."""
    if name == "nll_loss_forward":
        return int(args[1].numel())
    if name in _BAGS:  # the argument with the indices
        return int(args[_BAGS[name]].numel() * args[0].shape[-1])
    if name == "trace":
        return int(min(args[0].shape))
    if name in _POOLS:
        window = int(args[1] if isinstance(args[1], int) else prod(args[1]))
        return results[0].numel() * window
    if name in _TAPS:
        return results[0].numel() * _TAPS[name]
    if name == "convolution":
        weight, transposed = args[1], args[6]
        windows = prod((*args[0].shape[:2], *results[0].shape[2:], *weight.shape[2:]))
        return int(args[0].numel()) if transposed else windows
    return sum(tensor.numel() for tensor in results)


def _scattered(name: str, args: Arguments) -> int:
    """Return the number of elements written to the target."""
    target = args[0]
    if name in ("index_put", "_index_put_impl"):
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            return int(args[2].numel())  # the number of true elements is known only from the mask: at least these
        kept = prod(target.shape[i] for i in range(target.dim()) if i >= len(args[1]) or args[1][i] is None)
        shape = torch.broadcast_shapes(*(index.shape for index in indices))  # type: ignore[no-untyped-call]
        return int(prod(shape) * kept)
    if name == "put":
        return int(args[1].numel())
    if name in ("scatter", "scatter_add", "scatter_reduce"):
        return int(args[2].numel())
    rows = args[2].numel()
    return int(rows * target.numel() // max(1, target.shape[args[1]] if target.dim() else 1))


def _cells_kept(name: str, args: Arguments) -> int:
    """Return the number of matrix elements that `tril` or `triu` keeps."""
    rows, columns = args[0].shape[-2:]
    diagonal = args[1] if len(args) > 1 else 0
    kept_below = sum(min(max(row + 1 + diagonal - (name == "triu"), 0), columns) for row in range(rows))
    return int(kept_below if name == "tril" else rows * columns - kept_below)


def _met_by_sparse(name: str, args: Arguments) -> dict[int, int] | None:
    """Return, by id of each strided tensor, the bytes that sparse arguments meet; None without sparse arguments.

    In a product each specified element meets a row, or a column, of the other factor; else an element.
    """
    tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
    specified = [elements(tensor) for tensor in tensors if tensor.layout is not torch.strided and components(tensor)]
    if not specified:
        return None
    met_bytes = {id(t): min(specified) * t.element_size() for t in tensors if t.layout is torch.strided}
    if name in _PRODUCTS:
        first, second = args[_PRODUCTS[name] : _PRODUCTS[name] + 2]
        for factor, length in ((first, first.shape[0]), (second, second.shape[-1])):
            if id(factor) in met_bytes:
                met_bytes[id(factor)] *= int(length)
        for added in args[: _PRODUCTS[name]]:
            met_bytes.pop(id(added), None)
    return met_bytes
