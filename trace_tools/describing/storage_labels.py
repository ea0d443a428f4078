"""Label memory: objects with equal labels share it.

Labels are s1, s2 … in order of first use, so the same lecture gives the same labels. Memory is observed through weak
references, which keep no object alive; an address that is freed and used again gets a new label.

    labels.find(key) or labels.add(key, dead=reference.expired)  # "s1"
    labels.of_address(id(x)), labels.of_address(4096)            # "address 1", None
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

FIRST_PRUNING = 256  # entries
ADDRESS = "address"  # begins the label of an integer that is an address
MOST_ADDRESSES = 1_000  # numbered ones
LEAST_ADDRESS = 2**40  # Linux maps libraries, heap and stack above it
LEAST_HASH = LEAST_ADDRESS // 16  # a default hash is the object's address ÷ 16
REFRESH_S = 0.1  # how old the list of mapped memory may be


class _Memory(NamedTuple):
    label: str
    dead: Callable[[], bool]
    span: tuple[int, int] | None


class StorageLabels:
    """The labels given so far; as the table grows, entries of freed memory are dropped."""

    def __init__(self) -> None:
        self._memories: dict[int, _Memory] = {}
        self._addresses: dict[int, str] = {}
        self._mapped: list[tuple[int, int]] = []  # this process's memory: first address and end of each region
        self._read_at = -REFRESH_S
        self._numbers = itertools.count(1)
        self._prune_at = FIRST_PRUNING

    def __len__(self) -> int:
        return len(self._memories)

    def find(self, key: int) -> str | None:
        """Return the label of the live memory with this `key`: the address of the object that owns it."""
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
        """Return the label of an integer that is an address in this process, or an object's default hash; else None.

        Such integers differ between runs of the same lecture. Equal ones have equal labels. An address is a multiple of
        8 in memory that the system has mapped for this process, by Linux's /proc/self/maps: a count that is only as
        large as addresses are, such as 2⁴⁷ FLOPs, stays a number. Other systems have no such list, and no labels.
        """
        if not any(at % 8 == 0 and self._is_mapped(at) for at in (number, number << 4)):
            return None
        if number not in self._addresses and len(self._addresses) >= MOST_ADDRESSES:
            return ADDRESS
        return self._addresses.setdefault(number, f"{ADDRESS} {len(self._addresses) + 1}")

    def _is_mapped(self, address: int) -> bool:
        """Return whether the process has memory at an address; memory of the last 0.1 s may be missing."""
        if (now := perf_counter()) > self._read_at + REFRESH_S:
            self._read_at = now
            with contextlib.suppress(OSError), open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
                ranges = (line.split(" ", 1)[0].split("-") for line in maps)
                self._mapped = [(int(start, 16), int(end, 16)) for start, end in ranges]
        index = bisect.bisect_right(self._mapped, (address, math.inf)) - 1
        return index >= 0 and address < self._mapped[index][1]
