"""Operator, arguments and result → bytes read and bytes written: the least traffic that does the work.

What a kernel must move when nothing is in a cache and nothing is read twice. An input counts once per
operator, with the distinct bytes its elements occupy (an expanded dimension occupies one element), even
if it is passed twice; an output counts when it is new memory. Views, `empty` and changes of metadata
move 0 bytes. An in-place operator reads and writes its target, unless it only overwrites it (`zero_`,
`copy_`, `out=`). Gathering (`embedding`, indexing) reads the rows it takes, not the whole table, and
scattering writes the rows it changes; a row taken twice counts twice, up to the size of the table. Meta
tensors have no bytes.

    traffic = Traffic(torch.ops.aten.add_.Tensor)
    traffic.moved(traffic.uses((x, y), {}), [x], (x, y))  # (bytes of x and y, bytes of x)
"""

from __future__ import annotations

from enum import Enum, auto
from math import prod
from typing import Any

import torch

from trace_tools.metering.flop_weights import Arguments, Keywords
from trace_tools.metering.operators import base_name, is_view, memory_of


class Use(Enum):
    """What an operator does with the memory of one argument."""

    READ = auto()
    OVERWRITE = auto()
    UPDATE = auto()  # reads and writes
    SHAPE = auto()  # looks at metadata only
    GATHER = auto()  # reads as many elements as the result has
    SCATTER = auto()  # writes as many elements as are handed in


_NOTHING = frozenset(
    {
        *("_unsafe_view", "_has_same_storage_numel", "is_same_size", "is_pinned", "record_stream", "set"),
        *("from_file", "_efficientzerotensor"),
    }
)
_FILLS = frozenset(
    {
        "zero",
        "fill",
        "copy",
        "normal",
        "uniform",
        "random",
        "bernoulli",
        "exponential",
        "geometric",
        "log_normal",
        "cauchy",
    }
)
_GATHERS = frozenset({"index", "_unsafe_index", "index_select", "gather", "take", "embedding", "_embedding_bag"})
_SCATTERS = frozenset(
    {"index_put", "_index_put_impl", "index_copy", "index_fill", "index_add", "scatter", "scatter_add", "put"}
)
_SPECIAL = {  # (operator, argument) → its use, where the schema does not tell
    ("nll_loss_forward", "self"): Use.GATHER,
    ("nll_loss_backward", "self"): Use.SHAPE,
    ("max_pool2d_with_indices_backward", "self"): Use.SHAPE,
    ("resize_as", "the_template"): Use.SHAPE,
}


Uses = list[tuple[Use, torch.Tensor]]


class Traffic:
    """How one operator uses the memory of its arguments, read off its schema once."""

    __slots__ = ("_by_name", "_by_place", "_name", "_nothing")

    def __init__(self, operator: Any) -> None:
        schema = getattr(operator, "_schema", None)
        self._name = base_name(operator) or ""
        self._nothing = schema is not None and (self._name in _NOTHING or "empty" in self._name or is_view(operator))
        arguments = [] if schema is None else schema.arguments
        self._by_place = [self._use(argument) for argument in arguments]
        self._by_name = {a.name: use for a, use in zip(arguments, self._by_place, strict=True)}

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
        if name in ("self", "weight") and self._name in _GATHERS:
            return Use.GATHER
        if name == "self" and (self._name.endswith("_like") or self._name.startswith("new_")):
            return Use.SHAPE
        return Use.READ

    def uses(self, args: Arguments, kwargs: Keywords) -> Uses:
        """Return the tensors among the arguments, each with what happens to its memory."""
        known = self._by_place
        found = [
            (known[place] if place < len(known) else Use.READ, tensor)
            for place, value in enumerate(args)
            for tensor in memory_of(value)
        ]
        if kwargs:
            get = self._by_name.get
            found += [(get(name, Use.READ), tensor) for name, value in kwargs.items() for tensor in memory_of(value)]
        return found

    def moved(self, uses: Uses, results: list[torch.Tensor], args: Arguments) -> tuple[int, int]:
        """Return the bytes one call read and wrote; to be asked after it returned `results`."""
        if self._nothing:
            return 0, 0
        read = written = 0
        storages: set[int] = set()
        seen: set[tuple[int, int, int]] = set()
        for use, tensor in uses:
            storage = tensor.untyped_storage()._cdata
            storages.add(storage)
            size = touched_bytes(tensor)
            if use is Use.READ or use is Use.UPDATE:
                memory = (storage, int(tensor.storage_offset()), size)
                if memory not in seen:
                    seen.add(memory)
                    read += size
            if use is Use.OVERWRITE or use is Use.UPDATE:
                written += size
            elif use is Use.GATHER:
                read += min(size, _gathered(self._name, args, results) * tensor.element_size())
            elif use is Use.SCATTER:
                rows = min(size, _scattered(self._name, args) * tensor.element_size())
                written += rows
                read += rows if _adds(self._name, args) else 0
        new = [tensor for tensor in results if tensor.untyped_storage()._cdata not in storages]
        if results and not new and not written:
            return 0, 0  # all it returned is memory it was given: a view, whatever its schema says
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
    """Return how many elements were taken out of the table."""
    if name == "nll_loss_forward":
        return int(args[1].numel())
    if name == "_embedding_bag":
        return int(args[1].numel() * args[0].shape[-1])
    return sum(tensor.numel() for tensor in results)


def _scattered(name: str, args: Arguments) -> int:
    """Return how many elements of the target were written."""
    target = args[0]
    if name in ("index_put", "_index_put_impl"):
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            return int(args[2].numel())  # how many are true is the mask's secret: at least these
        kept = prod(target.shape[i] for i in range(target.dim()) if i >= len(args[1]) or args[1][i] is None)
        shape = torch.broadcast_shapes(*(index.shape for index in indices))  # type: ignore[no-untyped-call]
        return int(prod(shape) * kept)
    if name == "put":
        return int(args[1].numel())
    if name in ("scatter", "scatter_add"):
        return int(args[2].numel())
    rows = args[2].numel()
    return int(rows * target.numel() // max(1, target.shape[args[1]] if target.dim() else 1))


def _adds(name: str, args: Arguments) -> bool:
    return name in ("index_add", "scatter_add") or (
        name.endswith(("index_put", "put_impl", "put")) and args[-1] is True
    )
