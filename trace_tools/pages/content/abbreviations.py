"""Find the abbreviations that a lecture defines, for the search.

    abbreviations(["A mixture of experts (MoE) …", "HFU, hardware FLOPs utilization, counts …"])
    [("MoE", "mixture of experts"), ("HFU", "hardware FLOPs utilization")]

A search for one form also finds the other. Only definitions in the lecture's own text count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHORT = r"[A-Z][A-Za-z0-9]{0,7}[A-Z]s?"  # FLOPs, MoE, KV
_WORDS = r"(?<![\w/-])(?:[\w/-]{1,40} ){1,6}[\w/-]{1,40}"  # word boundaries, so that long texts take no time
_IN_BRACKETS = re.compile(rf"({_WORDS}) \(({_SHORT})\)")
_BESIDE = re.compile(rf"({_WORDS}), ({_SHORT})\b")
_BEFORE = re.compile(rf"\b({_SHORT})(?:, | \()(?=({_WORDS}))")
_SMALL = frozenset(["a", "an", "and", "for", "from", "in", "of", "on", "or", "the", "to", "with"])


def abbreviations(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return (abbreviation, long form) as the texts define them, each abbreviation once, in order."""
    long_forms: dict[str, str] = {}
    for text in texts:
        for pattern, spells in ((_IN_BRACKETS, _has_letters), (_BESIDE, _has_initials)):
            for match in pattern.finditer(text):
                words = match[1].split()
                fitting = (words[first:] for first in range(len(words) - 1, -1, -1))  # the shortest match
                if long := next((long for long in fitting if spells(match[2], long)), None):
                    long_forms.setdefault(match[2].removesuffix("s"), " ".join(long))
        for match in _BEFORE.finditer(text):
            words = match[2].split()
            fitting = (words[:last] for last in range(2, len(words) + 1))
            if long := next((long for long in fitting if _has_initials(match[1], long)), None):
                long_forms.setdefault(match[1].removesuffix("s"), " ".join(long))
    return list(long_forms.items())


def _has_letters(short: str, words: list[str]) -> bool:
    """Return whether the letters occur in the words in this order, the first one at the beginning (Schwartz &
    Hearst, 2003).
    """
    remaining = iter(" ".join(words).lower())
    first = words[0].lower()
    return (
        len(words) > 1
        and first not in _SMALL
        and first[0] == short[0].lower()
        and all(letter in remaining for letter in short.lower())
    )


def _has_initials(short: str, words: list[str]) -> bool:
    """Return whether the capitals are the initials of the words, ignoring small words."""
    parts = [part for word in words for part in re.split(r"[-/]", word) if part]
    initials = "".join(part[0].lower() for part in parts if part.lower() not in _SMALL)
    own = parts[0].lower() not in _SMALL and parts[-1].lower() not in _SMALL if parts else False
    return own and len(parts) > 1 and initials == re.sub(r"[^A-Z]", "", short).lower()
