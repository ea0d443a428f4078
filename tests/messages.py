"""Checks the facts of a message, its names and numbers in order, independently of its wording.

assert says(str(error), "--only x", "lecture.py", "1", "2")
"""

from __future__ import annotations


def says(message: object, *facts: str) -> bool:
    """Return whether a message is one line that contains all these facts in this order."""
    text, position = str(message).strip(), 0
    for fact in facts:
        position = text.find(fact, position)
        if position < 0:
            return False
        position += len(fact)
    return "\n" not in text
