"""Operators and their arguments, as torch's dispatcher shows them: names, views, the tensors inside.

base_name(torch.ops.aten.add_.Tensor)  # "add"
"""

from __future__ import annotations

from typing import Any

import torch


def base_name(operator: Any) -> str | None:
    """Return the name the tables use: "add" for aten.add_.Tensor and aten._foreach_add.List; None outside aten."""
    schema = getattr(operator, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return None
    name: str = schema.name.removeprefix("aten::").removeprefix("_foreach_")
    return name if name.endswith("__") else name.removesuffix("_")


def is_view(operator: Any) -> bool:
    """Return whether the operator, by its schema, only makes new views of what it is given or changes its shape."""
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
    """Return the strided tensors an argument or result is made of: of a sparse one, its indices and values."""
    if isinstance(value, torch.Tensor):
        return [value] if torch._C._has_storage(value) else list(components(value))
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in memory_of(item)]
    return []


def floating(tensor: torch.Tensor) -> bool:
    """Return whether its elements are floating-point or complex numbers."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def components(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the strided tensors that a sparse tensor is made of; none for an opaque layout."""
    if tensor.layout is torch.sparse_coo:
        return (tensor._indices(), tensor._values())
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    return ()


def elements(tensor: torch.Tensor) -> int:
    """Return how many elements are stored: all of a strided tensor's, a sparse one's specified ones."""
    parts = () if tensor.layout is torch.strided else components(tensor)
    return parts[-1].numel() if parts else tensor.numel()
