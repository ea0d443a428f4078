from __future__ import annotations

import base64
import json
import zlib
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_tools.presentation.payload import deltas, packed, table


@given(st.lists(st.integers()))
def test_numbers_are_the_sums_of_their_differences(numbers: list[int]) -> None:
    assert list(accumulate(deltas(numbers))) == numbers


@pytest.mark.slow
@given(st.lists(st.text(max_size=3)))
def test_a_table_stores_each_text_once_and_restores_the_column(texts: list[str]) -> None:
    column = table(texts)
    assert [column["of"][index] for index in accumulate(column["at"])] == texts
    assert len(set(column["of"])) == len(column["of"])


def test_a_block_is_reproducible_deflated_json_in_base64() -> None:
    columns = {"line": [1, 2], "text": ["ü", "</script>"]}
    text = packed(columns)
    assert json.loads(zlib.decompress(base64.b64decode(text))) == columns and text == packed(columns)
