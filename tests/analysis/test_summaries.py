"""Values, claims and tables of elements as text."""

from __future__ import annotations

import math
from typing import Any

from tests.cases_in_one import each
from tests.pages.recording import matrix
from trace_tools.analysis.summaries import claim_summary, facts, frame_grid, grids, side_text, summary
from trace_tools.trace.model import Claim, Statistics, Tensor, Value


def tensor(shape: list[int], **fields: object) -> Value:
    return Value("tensor", tensor=Tensor("float32", shape, "cpu", **fields))  # type: ignore[arg-type]


def number(value: float) -> Value:
    return Value("int" if isinstance(value, int) else "float", value)


@each(
    ("value", "text"),
    [
        (Value("int", 7), "7"),
        (Value("float", 6.3e24, unit="FLOP"), "6.3e24 FLOP"),
        (Value("bool", True), "True"),
        (Value("none"), "None"),
        (Value("str", "a\nb"), "'a\\nb'"),
        (Value("str", "a\u202eb"), "'a\\u202eb'"),
        (Value("str", None, note="too long to show"), "<str> · too long to show"),
        (Value("complex", text="(1+2j)"), "(1+2j)"),
        (Value("error", text="NameError: x"), "NameError: x"),
        (Value("cycle"), "<cycle>"),
        (Value("float", math.nan), "nan"),
        (Value("list", items=[number(1), number(2.5)], length=2), "[1, 2.5]"),
        (Value("tuple", items=[number(1)], length=1), "(1,)"),
        (Value("tuple", items=[number(16), number(16_000)], length=2), "(16, 16_000)"),
        (
            Value("dict", entries=[(Value("str", "a"), number(1.8e-6)), (number(10_000), number(0.0181))], unit="s"),
            "{'a': 1.8 µs, 10_000: 18.1 ms}",
        ),
        (Value("list", items=[number(80e9), number(12_345)], length=2, unit="B"), "[80 GB, 12.06 KiB]"),
        (Value("list", items=[Value("tuple", items=[number(2**20)])], unit="B"), "[(1 MiB,)]"),
        (Value("list", items=[number(10**400), number(80e9)], length=2, unit="B"), "[1e400 B, 80 GB]"),
        (Value("list", items=[], length=0), "[]"),
        (Value("dict", entries=[(Value("str", "a"), number(1))], length=1), "{'a': 1}"),
        (
            Value(
                "Count",
                entries=[
                    (Value("str", "flops"), Value("none")),
                    (Value("str", "operators"), Value("dict", entries=[], length=0)),
                    (Value("str", "why"), Value("str", "nothing of torch ran")),
                ],
            ),
            "Count: nothing of torch ran",
        ),
        (Value("Config", text="Config(a=1)", entries=[(Value("str", "a"), number(1))]), "Config(a=1)"),
        (Value("float", 0.3, varies=True, samples=[0.31, 0.35]), "0.31 … 0.35 · varies"),
        (Value("float", 0.3, varies=True, samples=[0.31, 10**400]), "0.3 · varies"),
        (tensor([2, 2], bytes=16), "f32[2, 2]"),
        (tensor([16, 16], bytes=1024), "f32[16, 16] · 1 KiB"),
        (tensor([2, 3], strides=[1, 2], contiguous=False), "f32[2, 3] · strides (1, 2)"),
        (tensor([], elements=[3.0]), "3. f32[]"),
        (tensor([3], elements=[1.0, -0.5, math.inf]), "f32[3] = [1., -0.5, inf]"),
        (tensor([2], elements=[[1.0, -2.0], [1.0, 0.0]]), "f32[2] = [1.-2.j, 1.+0.j]"),
    ],
)
def test_values_are_summarised_in_one_line(value: Value, text: str) -> None:
    assert summary(value) == text


def test_long_values_are_cut_with_a_note() -> None:
    long_text = Value("str", "x" * 10_000, length=10_000)
    assert len(summary(long_text)) <= 96 and "(10,000 characters)" in summary(long_text)
    long_list = Value("list", items=[number(n) for n in range(50)], length=1_000)
    assert len(summary(long_list)) <= 96 and summary(long_list).endswith("…] (1,000 entries)")
    nested = Value("list", items=[long_list, long_list], length=2)
    assert len(summary(nested)) <= 96


def test_a_claim_shows_both_sides() -> None:
    """A claim that is not a comparison shows its parts by name."""
    sides = [("a", number(1)), ("b", number(2)), ("c", number(3))]
    assert claim_summary(Claim("a < b <= c", True, sides)) == "1 < 2 ≤ 3"
    assert claim_summary(Claim("check(a, b)", True, sides[:2])) == "a = 1, b = 2"
    assert claim_summary(Claim("a is not None", True, [("a", number(1)), ("None", Value("none"))])) == "1 is not None"
    assert claim_summary(Claim("not python at all", True, [])) == ""
    varying = Value("float", 9.5, varies=True, samples=[9.1, 10.1])
    assert claim_summary(Claim("a > 1", True, [("a", varying), ("1", number(1))])) == "9.1 … 10.1 > 1 · varies"


def test_grids_show_the_elements() -> None:
    value = matrix(2, 3).tensor
    assert value is not None
    assert grids(value) == [("", [["0.", "1.", "2."], ["3.", "4.", "5."]])]
    batched = Tensor("int64", [2, 1, 2], "cpu", elements=[1, 2, 3, 4])
    assert grids(batched) == [("[0, :, :]", [["1", "2"]]), ("[1, :, :]", [["3", "4"]])]
    corner = Tensor("float32", [9, 9], "cpu", corner=[1.0, 2.0, 3.0, 4.0], corner_shape=[2, 2])
    assert grids(corner)[0][1] == [["1.", "2.", "…"], ["3.", "4.", "…"], ["⋮", "⋮", "⋮"]]


def test_facts_are_exact() -> None:
    statistics = Statistics(-1.0, 2.0, 0.5, 0.25, nan=3)
    details = dict(facts(tensor([9, 9], statistics=statistics, storage="s1", storage_bytes=324, offset=2)))
    assert details["range"] == "-1.0 … 2.0" and details["among them"] == "3 nan"
    assert details["storage"] == "s1, 324 B" and details["offset"] == "2"


def test_failed_claims_show_all_digits_that_differ() -> None:
    sides = [("total", number(0.1 + 0.2)), ("0.3", number(0.3))]
    assert claim_summary(Claim("total == 0.3", False, sides)) == "0.30000000000000004 == 0.3"
    assert claim_summary(Claim("total != 0.3", True, sides)) == "0.30000000000000004 ≠ 0.3"
    three_sides = [("3", number(3)), ("ratio", number(3.000_02)), ("3.1", number(3.1))]
    assert claim_summary(Claim("3 <= ratio < 3.1", True, three_sides)) == "3 ≤ 3 < 3.1"
    for right, text in ((3.000_02, "3.0 < 3.00002"), (3.456_7, "3 < 3.46")):
        assert claim_summary(Claim("3.0 < ratio", True, [("3.0", number(3.0)), ("ratio", number(right))])) == text
    assert [side_text(value) for _, value in sides] == ["0.3 (exactly 0.30000000000000004)", "0.3"]
    assert side_text(number(12_345)) == "12,345" and side_text(Value("int", 1025, unit="B")).endswith("(exactly 1025)")


def frame(rows: int, columns: int, **fields: Any) -> Value:
    """Return a DataFrame with equal columns 0.00, 0.25, 0.50 …"""
    column = Value("Series", tensor=Tensor("float64", [rows], "cpu", elements=[n * 0.25 for n in range(rows)]))
    entries = [(Value("str", f"c{n}"), column) for n in range(columns)]
    return Value("DataFrame", length=columns, entries=entries, **fields)


def test_frames_show_shape_dtypes_and_first_rows() -> None:
    """Dates show a time of day only if one is not midnight. A series shows its labels."""
    assert summary(frame(7, 2)) == "DataFrame 7 × 2 · c0 f64, c1 f64"
    assert frame_grid(frame(2, 1)) == [["", "c0"], ["", "f64"], ["0", "0.00"], ["1", "0.25"]]
    large = frame_grid(frame(100, 40)) or []
    assert [row[0] for row in large] == ["", "", "0", "1", "2", "3", "4", "⋮"]
    assert {len(row) for row in large} == {1 + 8 + 1} and large[0][-1] == "…"
    assert len(summary(frame(9, 40))) <= 96 and summary(frame(9, 40)).endswith("f64, …")
    labelled = frame_grid(frame(2, 1, labels=[Value("str", "Ulm"), Value("str", "Bonn")])) or []
    assert [row[0] for row in labelled] == ["", "", "Ulm", "Bonn"]
    for times, expected in (
        (["2024-01-01T00:00:00.000000", "NaT"], ["2024-01-01", "NaT"]),
        (["2024-01-01T00:00:00.000000", "2024-01-01T09:30:00.000000"], ["2024-01-01 00:00:00", "2024-01-01 09:30:00"]),
        (["2024-01-01T09:30:00.250000"], ["2024-01-01 09:30:00.250000"]),
    ):
        column = Value("Series", tensor=Tensor("datetime64[us]", [len(times)], "cpu", elements=[*times]))
        dates = frame_grid(Value("DataFrame", length=1, entries=[(Value("str", "t"), column)])) or []
        assert [row[1] for row in dates[2:]] == expected
    text = Value("Series", length=3, note="dtype str", items=[Value("str", "x"), Value("none"), Value("str", "y")])
    mixed = Value("DataFrame", length=1, entries=[(Value("str", "t"), text)])
    assert frame_grid(mixed) == [["", "t"], ["", "str"], ["0", "x"], ["1", "–"], ["2", "y"]]
    assert summary(Value("DataFrame", length=0, entries=[])) == "DataFrame 0 columns"
    assert frame_grid(Value("OrderedDict", length=1, entries=[(Value("str", "a"), text)])) is None
    series = Value(
        "Series", tensor=Tensor("float64", [2], "cpu", elements=[1.5, 22.25]), labels=[Value("str", "a")] * 2
    )
    assert summary(series) == "f64[2] = {a: 1.50, a: 22.25}"


def test_objects_have_fields_and_containers_have_entries() -> None:
    fields = [(Value("str", f"a_long_name_{n}"), number(n)) for n in range(20)]
    config = Value("Config", entries=fields)
    assert summary(config).endswith("…) (20 fields)")
    assert [name for name, _ in facts(config)] == [key.value for key, _ in fields]
    assert summary(Value("Counter", entries=fields, length=20)).endswith("(20 entries)")


def test_numbers_of_a_grid_have_equal_decimals() -> None:
    similar = [0.1257, -1.304, 0.0023, float("nan"), 12.0, 0.0]
    [(_, rows)] = grids(Tensor("float64", [2, 3], "cpu", elements=similar))
    assert {len(cell.partition(".")[2]) for row in rows for cell in row if cell != "nan"} == {3}
    different = [1e-9, 100.0, 1.0, 250.0]  # the first column uses powers of ten, the second whole numbers
    [(_, table)] = grids(Tensor("float64", [2, 2], "cpu", elements=different))
    assert table == [["1.000e-9", "100."], ["1.000e0", "250."]]
    shown = [float(cell) for row in rows for cell in row if cell != "nan"]
    numbers = [n for n in similar if not math.isnan(n)]
    assert all(abs(a - b) <= 0.0005 for a, b in zip(shown, numbers, strict=True))
