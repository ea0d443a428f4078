"""What a message says, whatever its words: its names and numbers, in their order.

assert says(str(error), "--ranks 3", "lecture.py", "1", "2")
"""

from __future__ import annotations


def says(message: object, *facts: str) -> bool:
    """Whether a message is one line that has all these facts, one after the other."""
    text, at = str(message).strip(), 0
    for fact in facts:
        at = text.find(fact, at)
        if at < 0:
            return False
        at += len(fact)
    return "\n" not in text
