"""Detect writes to storages from the observed tensors.

Two views of one storage show the same memory. If an observation differs from an earlier one at the same position, even
of another view, something has written there.

    contents = StorageContents()
    contents.note(x), contents.note(view_of_x_after_a_write)     (False, True)
"""

from __future__ import annotations

from trace_tools.trace import shapes
from trace_tools.trace.model import Element, Value


class StorageContents:
    """Remembers the last observed element at each position of each storage."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[int, Element]] = {}

    def note(self, value: Value) -> bool:
        """Record a tensor's elements; return whether any differs from an earlier observation."""
        tensor = value.tensor
        if tensor is None or tensor.storage is None or not tensor.elements:
            return False
        positions = shapes.places(tensor, len(tensor.elements))
        if len(positions) != len(tensor.elements):
            return False
        held = self._held.setdefault((tensor.storage, tensor.dtype), {})
        changed = any(  # two nan do not indicate a write
            position in held and held[position] != element and (element == element or held[position] == held[position])
            for position, element in zip(positions, tensor.elements, strict=True)
        )
        held.update(zip(positions, tensor.elements, strict=True))
        return changed
