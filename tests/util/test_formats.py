from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases_in_one import each
from trace_tools.util import formats
from trace_tools.util.formats import byte_size, duration, is_decimal, number, percent, quantity, spread, visible


@each(
    ("function", "arguments", "text"),
    [
        (quantity, [6.3e24, "FLOP"], "6.3e24 FLOP"),
        (quantity, [989.5e12, "FLOP/s"], "989.5 TFLOP/s"),
        (quantity, [3.35e12, "B/s"], "3.35 TB/s"),
        (quantity, [2_415_919_104, "B"], "2.25 GiB"),
        (quantity, [80e9, "B"], "80 GB"),  # exact only with an SI prefix
        (quantity, [64, "B"], "64 B"),
        (quantity, [0, "B"], "0 B"),
        (quantity, [143.9262, "days"], "143.9 days"),
        (quantity, [86_400, "s"], "1 day"),
        (quantity, [0.0112, "s"], "11.2 ms"),
        (quantity, [70_000_000_000, "parameters"], "70,000,000,000 parameters"),
        (quantity, [0.25, "FLOP/B"], "0.25 FLOP/B"),
        (quantity, [math.inf, "FLOP"], "inf FLOP"),
        (quantity, [10**400, "B"], "1e400 B"),
        (quantity, [-1536, "B"], "-1.5 KiB"),
        (number, [6.0], "6.0"),
        (number, [1e-8], "1e-8"),
        (number, [143.92617], "143.9"),
        (number, [49152], "49,152"),
        (number, [1536], "1536"),
        (number, [-2_293_760.0], "-2,293,760.0"),
        (number, [12_345.678], "12,346"),
        (number, [99_999.999_9], "100,000"),
        (number, [9_999.7], "10,000"),
        (number, [3_118.62], "3119"),
        (number, [1.000_000_1], "1.0"),
        (number, [0.000_123_456], "0.0001235"),
        (number, [1e7], "1e7"),
        (number, [True], "True"),
        (number, [math.nan], "nan"),
        (number, [-math.inf], "-inf"),
        (number, [2**70], "1.181e21"),
        (number, [-(10**20)], "-1e20"),
        (formats.on_terminal, ["10%\r20%\r\n30%\r40%\n"], "20%\n40%\n"),
        (formats.on_terminal, ["abc\rx"], "xbc"),
        (formats.on_terminal, ["abc\x1b[2K\rdef"], "def"),
        (formats.on_terminal, ["abc\rx\x1b[K"], "x"),
        (formats.on_terminal, ["12\b\b3"], "32"),
        (formats.on_terminal, ["\x1b[31mred\x1b[0m\r\n"], "red\n"),
        (formats.on_terminal, ["no escape: \x1b"], r"no escape: \u001b"),
        (formats.shown_repr, ["Size", "torch.Size([2, 4])"], "[2, 4]"),
        (formats.shown_repr, ["Size", "torch.Size([])"], "[]"),
        (formats.shown_repr, ["device", "device(type='cuda', index=1)"], "cuda:1"),
        (formats.shown_repr, ["device", "device(type='meta')"], "meta"),
        (formats.shown_repr, ["_TensorMeta", "<class 'torch.Tensor'>"], "torch.Tensor"),
        (formats.shown_repr, ["Size", "torch.Size([<script>])"], "torch.Size([<script>])"),
        (formats.shown_repr, ["Mine", "torch.Size([2, 4])"], "torch.Size([2, 4])"),
        (formats.aligned, [[0.1257, -1.304, 0.0023]], ["0.1257", "-1.3040", "0.0023"]),
        (formats.aligned, [[1234.5, 0.5]], ["1234.5", "0.5"]),
        (formats.aligned, [[12_345.6, 2.0]], ["12,345.6", "2.0"]),
        (formats.aligned, [[0.5, 12.25, math.nan]], ["0.50", "12.25", "nan"]),
        (formats.aligned, [[5.0, 12.0]], ["5", "12"]),
        (formats.aligned, [[0.0, 0.0]], ["0", "0"]),
        (formats.aligned, [[1e-9, 1.0]], None),  # one of them would be shown as 0
        (formats.aligned, [[1e-5]], None),
        (formats.aligned, [[3e7, 1.0]], None),
        (formats.short_address, ["https://arxiv.org/pdf/2005.14165v2.pdf"], "arXiv:2005.14165"),
        (formats.short_address, ["https://www.example.org/a/b/index.html?c=d/e"], "example.org/…/index.html"),
        (formats.short_address, ["https://example.org/paper.pdf"], "example.org/paper.pdf"),
        (formats.short_address, ["https://example.org/"], "example.org"),
        (formats.short_address, ["mailto:a@example.org"], "mailto:a@example.org"),
    ],
)
def test_what_each_function_makes_of_a_value(function: Callable[..., Any], arguments: list[Any], text: Any) -> None:
    assert function(*arguments) == text


def test_byte_units_are_decimal_only_if_exact() -> None:
    for counts, decimal in (([80e9, 12_345], True), ([2**30, 12_345], False), ([80e9, 2**30], False), ([], False)):
        assert is_decimal(counts) is decimal
    assert [byte_size(12_345, decimal=decimal) for decimal in (True, False)] == ["12.35 kB", "12.06 KiB"]


def test_an_axis_has_the_unit_of_its_label() -> None:
    labels = ["B/s", "bytes / s", "FLOP/s", "s", "bytes", "bytes per parameter", "step", ""]
    assert [*map(formats.unit_of, labels)] == ["B/s", "bytes/s", "FLOP/s", "s", "bytes", None, None, None]
    assert quantity(2e10, "bytes/s") == "20 GB/s"


SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
DURATIONS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 86400e9}


@each(("shown", "units", "largest", "error"), [(byte_size, SIZES, 12, 6e-4), (duration, DURATIONS, 17, 6e-3)])
def test_printed_sizes_and_durations_are_accurate(
    shown: Callable[[int], str], units: dict[str, float], largest: int, error: float
) -> None:
    draw = random.Random(0)
    for _ in range(2_000):
        number = int(10 ** draw.uniform(0, largest))
        digits, unit = shown(number).split()
        assert float(digits) * units[unit] == pytest.approx(number, rel=error)
        assert float(digits) < 1024 or unit == "days"


def test_spread_is_the_median_and_half_the_range() -> None:
    assert spread([11_200_000, 11_290_000, 11_200_000]) == "11.2 ms ± 0.4%"
    assert spread([5]) == "5 ns"
    assert spread([0, 0]) == "0 ns"
    assert [percent(share) for share in (0, 0.0001, 0.004, 0.123, 2.3)] == ["0%", "< 0.1%", "0.4%", "12%", "230%"]


def test_control_and_bidirectional_characters_are_escaped() -> None:
    assert visible("a\u202eb\x00c\u2066\ufeff\x1b[31m") == "a\\u202eb\\u0000c\\u2066\\ufeff\\u001b[31m"
    assert visible("é 漢字 👩‍💻\n\tλ") == "é 漢字 👩‍💻\n\tλ"


@each(
    ("least", "most", "digits"),
    [(1.0, 2.0, 3), (0.0203, 0.0279, 3), (1.0001, 1.0002, 6), (1.01, 1.02, 5), (0.0, 0.0, 4), (-2.0, 2.0, 3)],
)
def test_digits_distinguish_the_ends_of_a_range(least: float, most: float, digits: int) -> None:
    assert formats.digits_apart(least, most) == digits
    assert least == most or formats.number(least, digits) != formats.number(most, digits)


def test_names_become_readable_titles() -> None:
    names = ("train_step", "compute_MFU", "flashAttention", "lecture_03", "_inner", "f", "_")
    assert [formats.readable(name) for name in names] == [
        "Train step", "Compute MFU", "Flash Attention", "Lecture 03", "Inner", "F", "_",
    ]  # fmt: skip


def test_a_text_is_cut_between_words() -> None:
    text = "the quick brown fox jumps over the lazy dog, which is 3.14159 long"
    for limit in range(8, len(text)):
        cut = formats.shorten(text, limit)
        assert len(cut) <= limit
        kept = cut.removesuffix("…")
        between_words = text.startswith(kept) and not re.match(r"[\w.]", text[len(kept) :])
        assert between_words or len(kept.split()[-1]) > limit // 3
    assert formats.shorten("a" * 40, 10) == "a" * 9 + "…"
