from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

import pytest

from tests.cases_in_one import each
from trace_tools.util import formats
from trace_tools.util.formats import byte_size, duration, is_decimal, number, percent, quantity, spread, visible


@each(
    ("value", "unit", "text"),
    [
        (6.3e24, "FLOP", "6.3e24 FLOP"),
        (4.377e22, "FLOP", "4.377e22 FLOP"),
        (989.5e12, "FLOP/s", "989.5 TFLOP/s"),
        (1979e12, "FLOP/s", "1.979 PFLOP/s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (2_415_919_104, "B", "2.25 GiB"),
        (8192, "B", "8 KiB"),
        (80e9, "B", "80 GB"),  # exact only with an SI prefix
        (123_456_789, "B", "117.7 MiB"),
        (64, "B", "64 B"),
        (0, "B", "0 B"),
        (143.9262, "days", "143.9 days"),
        (86_400, "s", "1 day"),
        (12_435_224, "s", "143.9 days"),
        (0.0112, "s", "11.2 ms"),
        (70_000_000_000, "parameters", "70,000,000,000 parameters"),
        (0.25, "FLOP/B", "0.25 FLOP/B"),
        (math.inf, "FLOP", "inf FLOP"),
        (10**400, "B", "1e400 B"),
        (-1536, "B", "-1.5 KiB"),
    ],
)
def test_quantities_have_units_and_sensible_digits(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@each(
    ("value", "text"),
    [
        (6.0, "6.0"),
        (1e-8, "1e-8"),
        (143.92617, "143.9"),
        (0.1 + 0.2, "0.3"),
        (49152, "49,152"),
        (1536, "1536"),
        (720_896.0, "720,896.0"),
        (-2_293_760.0, "-2,293,760.0"),
        (12_345.678, "12,346"),
        (1_234_567.8, "1,234,568"),
        (99_999.999_9, "100,000"),
        (9_999.7, "10,000"),
        (3_118.62, "3119"),
        (1.000_000_1, "1.0"),
        (0.000_123_456, "0.0001235"),
        (1e7, "1e7"),
        (True, "True"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (2**70, "1.181e21"),
        (-(10**20), "-1e20"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


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
    ("printed", "shown"),
    [
        ("10%\r20%\r\n30%\r40%\n", "20%\n40%\n"),
        ("abc\rx", "xbc"),
        ("abc\x1b[2K\rdef", "def"),
        ("abc\r\x1b[2Kdef", "def"),
        ("abc\rx\x1b[K", "x"),
        ("12\b\b3", "32"),
        ("\x1b[31mred\x1b[0m\r\n", "red\n"),
        ("no escape: \x1b", "no escape: \x1b"),
    ],
)
def test_progress_bars_show_what_a_terminal_shows(printed: str, shown: str) -> None:
    assert formats.on_terminal(printed) == shown


@each(
    ("kind", "text", "expected"),
    [
        ("Size", "torch.Size([2, 4])", "[2, 4]"),
        ("Size", "torch.Size([])", "[]"),
        ("device", "device(type='cuda', index=1)", "cuda:1"),
        ("device", "device(type='meta')", "meta"),
        ("_TensorMeta", "<class 'torch.Tensor'>", "torch.Tensor"),
        ("Size", "torch.Size([<script>])", "torch.Size([<script>])"),
        ("Mine", "torch.Size([2, 4])", "torch.Size([2, 4])"),
    ],
)
def test_reprs_of_torch_objects_are_simplified(kind: str, text: str, expected: str) -> None:
    assert formats.spoken(kind, text) == expected


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


@each(
    ("values", "texts"),
    [
        ([0.1257, -1.304, 0.0023], ["0.1257", "-1.3040", "0.0023"]),
        ([1234.5, 0.5], ["1234.5", "0.5"]),
        ([12_345.6, 2.0], ["12,345.6", "2.0"]),
        ([0.5, 12.25, math.nan], ["0.50", "12.25", "nan"]),
        ([5.0, 12.0], ["5", "12"]),
        ([0.0, 0.0], ["0", "0"]),
        ([1e-9, 1.0], None),  # one of them would be shown as 0
        ([1e-5], None),
        ([3e7, 1.0], None),
    ],
)
def test_numbers_of_a_column_have_the_same_decimals(values: list[float], texts: list[str] | None) -> None:
    assert formats.aligned(values) == texts


def test_a_text_is_cut_between_words() -> None:
    text = "the quick brown fox jumps over the lazy dog, which is 3.14159 long"
    for limit in range(8, len(text)):
        cut = formats.shorten(text, limit)
        assert len(cut) <= limit
        kept = cut.removesuffix("…")
        between_words = text.startswith(kept) and not re.match(r"[\w.]", text[len(kept) :])
        assert between_words or len(kept.split()[-1]) > limit // 3
    assert formats.shorten("a" * 40, 10) == "a" * 9 + "…"


@each(
    ("url", "short"),
    [
        ("https://arxiv.org/pdf/2005.14165v2.pdf", "arXiv:2005.14165"),
        ("https://www.example.org/a/b/index.html?c=d/e", "example.org/…/index.html"),
        ("https://example.org/paper.pdf", "example.org/paper.pdf"),
        ("https://example.org/", "example.org"),
        ("mailto:a@example.org", "mailto:a@example.org"),
    ],
)
def test_addresses_are_shortened(url: str, short: str) -> None:
    assert formats.short_address(url) == short
