"""Label memory: objects with equal labels share it.

Labels are s1, s2 … in order of first use, so the same lecture gives the same labels. Memory is observed through weak
references, which keep no object alive; an address that is freed and used again gets a new label.

    labels.find(key) or labels.add(key, dead=reference.expired)  # "s1"
    labels.of_address(x.data_ptr()), labels.of_address(4096)     # "address 1", None
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

FIRST_PRUNING = 256  # entries
ADDRESS = "address"  # begins the label of an integer that is an address
ADDRESSES = range(2**46, 2**48)  # where Linux maps libraries, heap and stack of a 64-bit process
LEAST_HASH = ADDRESSES.start >> 4  # of an object without a hash of its own: its address ÷ 16


class _Memory(NamedTuple):
    label: str
    dead: Callable[[], bool]
    span: tuple[int, int] | None


class StorageLabels:
    """The labels given so far; as the table grows, entries of freed memory are dropped."""

    def __init__(self) -> None:
        self._memories: dict[int, _Memory] = {}
        self._addresses: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._prune_at = FIRST_PRUNING

    def find(self, key: int) -> str | None:
        """Return the label of the live memory with this `key`, the address of the object that owns it."""
        memory = self._memories.get(key)
        return None if memory is None or memory.dead() else memory.label

    def add(self, key: int, *, dead: Callable[[], bool], span: tuple[int, int] | None = None) -> str:
        """Label the memory owned by `key` until `dead()`.

        `span` (first address, end) is for owners that may share their memory with other owners, such as an array and
        the tensor made from it: overlapping live spans get the same label.
        """
        if len(self._memories) >= self._prune_at:
            for other, memory in list(self._memories.items()):  # a copy, as below: another thread may add entries
                if memory.dead():
                    self._memories.pop(other, None)
            self._prune_at = max(FIRST_PRUNING, 2 * len(self._memories))
        for memory in list(self._memories.values()) if span else ():
            if span and memory.span and span[0] < memory.span[1] and memory.span[0] < span[1] and not memory.dead():
                label = memory.label
                break
        else:
            label = f"s{next(self._numbers)}"
        self._memories[key] = _Memory(label, dead, span)
        return label

    def of_address(self, number: int) -> str | None:
        """Return the label of an integer, if it is an address in this process. Equal addresses have equal labels.

        Addresses differ between runs of the same lecture. A count may be as large (10¹⁴ FLOPs), so only a number that
        Linux lists as this process's memory is one.
        """
        if not (places := [at for at in (number, number << 4) if at in ADDRESSES]):
            return None
        try:
            with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
                regions = (line.split(" ", 1)[0].split("-") for line in maps)
                if not any(int(start, 16) <= at < int(end, 16) for start, end in regions for at in places):
                    return None
        except OSError:  # another system
            return None
        return self._addresses.setdefault(number, f"{ADDRESS} {len(self._addresses) + 1}")
