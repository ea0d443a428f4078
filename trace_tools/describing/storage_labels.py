"""Labels for memory: objects with equal labels share it.

Labels are s1, s2 … in order of first sight, so the same lecture gives the same labels. Memory is
watched through weak references: nothing is kept alive, and an address that is freed and used again
gets a new label.

    labels.find(key) or labels.add(key, dead=reference.expired)  # "s1"
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

FIRST_PRUNING = 256  # entries


class _Memory(NamedTuple):
    label: str
    dead: Callable[[], bool]
    span: tuple[int, int] | None


class StorageLabels:
    """The labels given so far; entries of freed memory are dropped as the table grows."""

    def __init__(self) -> None:
        self._seen: dict[int, _Memory] = {}
        self._numbers = itertools.count(1)
        self._prune_at = FIRST_PRUNING

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, key: int) -> str | None:
        """Return the label of the living memory known as `key`: the address of the object that owns it."""
        memory = self._seen.get(key)
        return None if memory is None or memory.dead() else memory.label

    def add(self, key: int, *, dead: Callable[[], bool], span: tuple[int, int] | None = None) -> str:
        """Label the memory owned by `key` until `dead()`.

        `span` (first address, end) is for owners that may share their memory with other owners, such
        as an array and the tensor made from it: overlapping ones that are alive get one label.
        """
        if len(self._seen) >= self._prune_at:
            self._prune()
        label = self._overlapping(span) if span else None
        label = label or f"s{next(self._numbers)}"
        self._seen[key] = _Memory(label, dead, span)
        return label

    def _overlapping(self, span: tuple[int, int]) -> str | None:
        first, end = span
        for memory in list(self._seen.values()):  # a copy: another thread may add
            other = memory.span
            if other and first < other[1] and other[0] < end and not memory.dead():
                return memory.label
        return None

    def _prune(self) -> None:
        for key, memory in list(self._seen.items()):
            if memory.dead():
                self._seen.pop(key, None)
        self._prune_at = max(FIRST_PRUNING, 2 * len(self._seen))
