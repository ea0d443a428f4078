"""How much of one value is written down, and what is left of that while it is being described."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the description of one value; what exceeds them is cut, and says so."""

    elements: int = 256  # of a tensor: all when there are so many at most, else a corner and statistics
    items: int = 100  # of a container, from its start
    depth: int = 6  # containers inside containers
    text: int = 2_000  # characters of one string or repr
    size: int = 5_000  # of the whole value: 1 for each node and element, 1 for every 16 characters
    sorted_members: int = 10_000  # of a set of numbers or strings; a larger one is not sorted
    repr_seconds: float = 0.2  # for all calls of `repr` together, on the main thread
    statistics: int = 2**26  # elements in memory that are all counted; above it, every k-th index; 16 × on a GPU


class Budget:
    """What is left of the limits for one value; only ever lowered."""

    __slots__ = ("repr_seconds", "size", "statistics")

    def __init__(self, limits: Limits) -> None:
        self.size = limits.size
        self.repr_seconds = limits.repr_seconds
        self.statistics = limits.statistics
