"""Tensors as they were seen → which storages were written to in between.

Two views of one storage show the same memory. When an observation disagrees with what another view showed
of the same place earlier, something wrote there, whichever name it wrote through.

    contents = StorageContents()
    contents.note(x), contents.note(view_of_x_after_a_write)     (False, True)
"""

from __future__ import annotations

from trace_tools import shapes
from trace_tools.schema import Element, Value


class StorageContents:
    """Remembers the last element seen at each place of each storage."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], dict[int, Element]] = {}

    def note(self, value: Value) -> bool:
        """Remember a tensor's elements; return whether one of them was seen to be something else before."""
        tensor = value.tensor
        if tensor is None or tensor.storage is None or not tensor.elements:
            return False
        where = shapes.places(tensor, len(tensor.elements))
        if len(where) != len(tensor.elements):
            return False
        held = self._held.setdefault((tensor.storage, tensor.dtype), {})
        changed = any(
            place in held and not _alike(held[place], element)
            for place, element in zip(where, tensor.elements, strict=True)
        )
        held.update(zip(where, tensor.elements, strict=True))
        return changed


def _alike(one: Element, other: Element) -> bool:
    return one == other or (one != one and other != other)  # two nan are no sign of a write
