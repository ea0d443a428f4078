"""Find the longest common subsequence of two sequences of keys, in near-linear time if keys are rare.

    list(common("abcd", "axcd"))  # [(0, 0), (2, 2), (3, 3)]

The algorithm follows Hunt and Szymanski, "A fast algorithm for computing longest common subsequences" (CACM, 1977): it
orders the pairs of equal keys so that a longest increasing chain is a longest common subsequence.

`difflib` matched slightly fewer statements in 23 pairs of versions of a lecture (10 of 121,000), and took 57 s instead
of 0.4 s for 30,000 keys if nine in ten were equal; a trace file may contain such a source.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

OFTEN = 32  # most occurrences of a key; beyond, only those near the same rank are tried, and the result may be shorter


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the positions (in a, in b) of a longest common subsequence, increasing in both."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    before = [(place, place) for place in range(start)]
    after = [(len(a) - end + n, len(b) - end + n) for n in range(end)]
    between = _chain(a[start : len(a) - end], b[start : len(b) - end])
    return [*before, *((i + start, j + start) for i, j in between), *after]


def _chain(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    ends: list[int] = []  # positions in b of the ends of the best chain of each length
    links: list[_Link] = []
    for i, j in _candidates(a, b):
        length = bisect_left(ends, j)
        link = (i, j, links[length - 1] if length else None)
        if length == len(ends):
            ends.append(j)
            links.append(link)
        else:
            ends[length], links[length] = j, link
    return list(_unlinked(links[-1] if links else None))[::-1]


_Link = tuple[int, int, "_Link | None"]


def _unlinked(link: _Link | None) -> Iterator[tuple[int, int]]:
    while link is not None:
        yield link[0], link[1]
        link = link[2]


def _candidates(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield pairs of equal keys by position in a, then by decreasing position in b."""
    places: dict[Hashable, list[int]] = {}
    for j, key in enumerate(b):
        places.setdefault(key, []).append(j)
    seen: dict[Hashable, int] = {}
    for i, key in enumerate(a):
        found = places.get(key, [])
        if len(found) > OFTEN:
            rank = seen.get(key, 0)
            seen[key] = rank + 1
            found = found[max(0, rank - OFTEN // 2) : rank + OFTEN // 2]
        for j in reversed(found):
            yield i, j
