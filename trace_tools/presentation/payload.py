"""Pack columns of numbers and texts into one block of text for a page's script.

    packed({"line": deltas([10, 11, 12]), "name": table(["x", "x", "y"])})     "eNqrVsrJzEtV…"

The block is deflated JSON in base64. The script unpacks it in a few hundredths of a second (`page.js`: unpack, sums,
table). Equal columns give equal bytes.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def packed(columns: Mapping[str, Any] | Sequence[str]) -> str:
    """Deflate columns as JSON without whitespace and escapes."""
    text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def table(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return a column of repeated texts: the distinct texts, and for each row the index of its text."""
    indices: dict[str, int] = {}
    rows = [indices.setdefault(text, len(indices)) for text in texts]
    return {"of": list(indices), "at": deltas(rows)}


def deltas(numbers: Sequence[int]) -> list[int]:
    """Return the first number and the differences between neighbours, which deflate far better."""
    return [number - previous for previous, number in zip([0, *numbers], numbers, strict=False)]
