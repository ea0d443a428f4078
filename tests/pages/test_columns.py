from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from trace_tools.pages.columns import Column, ColumnCell, ColumnEntry, columns_block, differing_lines


def entry(text: str | None, *, differs: bool = False) -> ColumnEntry:
    return ColumnEntry("value", "x", "", text, "", differs)


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def column(lines: int, *, every: int = 10) -> Column:
    cells = {f"L{n}": ColumnCell((entry(f"{n * 7919 % 10007} {n}", differs=n % every == 0),)) for n in range(lines)}
    return Column("there", cells)


def test_a_block_holds_every_cell_and_the_same_twice() -> None:
    block = columns_block(
        [Column("there", {"L1": ColumnCell((entry(None),)), "L2": ColumnCell((entry("3", differs=True),))})]
    )
    assert block.complete and block == columns_block(block.columns)
    same, other = unpacked(block.text)["columns"][0]
    assert same == ["L1", [[0, "", "x", None, "", 0]]] and other == ["L2", [[0, "", "x", "3", "", 1]]]


def test_beyond_the_budget_only_what_differs_is_kept_and_that_is_said() -> None:
    whole = columns_block([column(2_000)], budget=10**6)
    block = columns_block([column(2_000)], budget=len(whole.text) // 2)
    assert whole.complete and not block.complete and len(block.text) <= len(whole.text) // 2
    assert [anchor for anchor, _ in unpacked(block.text)["columns"][0]] == [f"L{n}" for n in range(0, 2_000, 10)]
    assert block.columns[0].differing == 200


def test_a_budget_that_holds_nothing_is_kept_too() -> None:
    assert len(columns_block([column(2_000, every=1)], budget=500).text) <= 500
    assert columns_block([]).columns == ()


def test_lines_that_differ_are_told_in_words() -> None:
    twelve = ColumnCell((ColumnEntry("time", "", "2", "4 ms", "2× slower", True), entry("same")), line=12)
    assert list(differing_lines(Column("there", {"call-3-L12": twelve, "L13": ColumnCell((), line=13)}))) == [
        (12, "2: 4 ms (2× slower)")
    ]
