from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.cases_in_one import each
from tests.describing.value_form import describe, part, tensor
from trace_tools.describing.values import Describer
from trace_tools.describing.walk import ValueLimits

Value = dict[str, Any]


@pytest.fixture(autouse=True)
def no_warning_escapes() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


BOX = np.arange(24.0).reshape(2, 3, 4)


@each(
    "a",
    [
        BOX,
        BOX.T,
        BOX[::-1, :, ::-1],
        BOX[:, 1:, ::2],
        np.broadcast_to(BOX[:, :1], (2, 5, 4)),
        np.array(2.5),
        BOX[0, 0, 3:4].reshape(()),
        np.asfortranarray(BOX),
    ],
)
def test_array_fields_equal_numpys(a: np.ndarray[Any, Any]) -> None:
    value = describe(a)
    field = value["tensor"]
    assert value["type"] == "ndarray"
    assert (field["dtype"], field["device"], tuple(field["shape"])) == ("float64", "cpu", a.shape)
    assert [stride * 8 for stride in field["strides"]] == list(a.strides)
    assert field["bytes"] == a.nbytes
    assert field["contiguous"] == a.flags.c_contiguous
    assert field["elements"] == a.ravel().tolist()
    owner = a
    while owner.base is not None:
        owner = owner.base
    assert field["offset"] * 8 == a.ctypes.data - owner.ctypes.data
    assert field["storage_bytes"] == owner.nbytes


@each("name", ["f2", "f4", "f8", "g", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16"])
def test_elements_of_every_type(name: str) -> None:
    a = np.array([[0, 1], [2, 3]]).astype(name)
    field = tensor(a)
    assert field["dtype"] == a.dtype.name
    if a.dtype.kind == "c":
        assert field["elements"] == [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    else:
        expected = a.astype({"f": float, "b": bool}.get(a.dtype.kind, int)).ravel().tolist()
        assert field["elements"] == expected and {type(e) for e in field["elements"]} == {type(e) for e in expected}


def test_elements_that_are_not_numbers() -> None:
    assert tensor(np.array(["a", "bc"]))["elements"] == ["a", "bc"]
    assert tensor(np.array(["2020-01-02", "NaT"], "M8[D]"))["elements"] == ["2020-01-02", "NaT"]
    assert tensor(np.array([b"x"]))["elements"] == ["b'x'"]
    value = describe(np.array([1, "a", None, [2]], dtype=object))
    assert [item["type"] for item in value["items"]] == ["int", "str", "none", "list"]
    cyclic = np.array([None], dtype=object)
    cyclic[0] = cyclic
    assert describe(cyclic)["items"] == [{"type": "cycle"}]
    record = np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")])
    value = describe(record)
    assert value["tensor"]["dtype"] == "[('n', '<i4'), ('x', '<f8')]"
    assert value["items"] == [{"type": "void", "text": "(1, 2.5)"}]
    assert "strides" not in tensor(record["x"]) and tensor(record["x"])["elements"] == [2.5]
    assert "sesame" not in str(describe([np.array([["sesame"] * 300])], redact=lambda text: text.replace("sesame", "")))


@each("dtype", ["?", "u1", "i8", "f4"])
def test_large_arrays_have_a_corner_and_statistics(dtype: str) -> None:
    a = np.array([[0, 1] * 20] * 20).astype(dtype)
    field = tensor(a.T)
    assert (field["statistics"]["max"], field["statistics"]["zero"]) == (1, 400)
    assert type(field["statistics"]["max"]) is (float if dtype == "f4" else int)
    assert (field["corner_shape"], field["corner"]) == ([4, 8], a.T[:4, :8].ravel().tolist())


def test_notes_on_statistics_and_masks() -> None:
    assert describe(np.array(["a"] * 300))["note"] == "no statistics for elements of this type"
    value = describe(np.full(300, 3 + 4j))
    assert (value["note"], value["tensor"]["statistics"]["max"]) == ("statistics of the magnitudes", 5)
    masked = describe(np.ma.array([1, 2], mask=[False, True]))
    assert (masked["type"], masked["note"]) == ("MaskedArray", "without its mask")


def test_overrides_of_a_subclass_are_not_called() -> None:
    class Hostile(np.ndarray[Any, Any]):
        shape = property(lambda self: 1 / 0)  # type: ignore[assignment]
        tolist = ravel = astype = __array_finalize__ = lambda *args: None  # type: ignore[assignment]

    assert tensor(np.arange(3).view(Hostile))["elements"] == [0, 1, 2]


def test_shared_memory_has_equal_labels() -> None:
    describer = Describer()
    a, text = np.zeros(6), b"abcdefgh"
    arrays = [a, a[2:], a.reshape(2, 3).T, np.zeros(6), np.frombuffer(text, "u1"), np.frombuffer(text, "u1")[3:]]
    assert [tensor(b, describer)["storage"] for b in arrays] == ["s1", "s1", "s1", "s2", "s3", "s3"]
    assert "storage" not in tensor(np.zeros((0, 3)), describer)
    assert len({tensor(np.ones(8), describer)["storage"] for _ in range(30)}) == 30, "an address is used again"


@each(
    ("scalar", "expected"),
    [
        (np.float32(0.1), {"type": "float32", "value": float(np.float32(0.1)), "text": "0.1"}),
        (np.float64(2), {"type": "float64", "value": 2.0, "text": "2.0"}),
        (np.uint64(2**64 - 1), {"type": "uint64", "value": 2**64 - 1, "text": "18446744073709551615"}),
        (np.bool_(True), {"type": "bool_", "value": True, "text": "True"}),
        (np.complex64(1j), {"type": "complex64", "text": "1j"}),
        (np.datetime64("2020"), {"type": "datetime64", "text": "2020"}),
        (np.str_("a"), {"type": "str_", "text": "a"}),
        (np.rec.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")])[0], {"type": "record", "text": "(1, 2.5)"}),
    ],
)
def test_numpy_scalars(scalar: object, expected: Value) -> None:
    assert describe(scalar) == expected


def test_numpy_error_settings_do_not_change_descriptions() -> None:
    a = np.array([math.nan, math.inf, -math.inf, 1e308] * 100)
    expected = str(describe(a))
    with np.errstate(all="raise"):
        assert str(describe(a)) == expected
        assert set(np.geterr().values()) == {"raise"}


def test_the_size_limit_is_for_the_whole_value() -> None:
    value = describe([np.ones(256) * 0.1 for _ in range(100)], size=1000)
    assert value["length"] == 100 and len(value["items"]) == 4


def elements(value: Value) -> Any:
    """Return the elements of a described series, which has a tensor or items."""
    if "tensor" in value:
        return value["tensor"]["elements"]
    return [item.get("value", item.get("text")) for item in value["items"]]


def test_pandas_frames_are_described_by_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "whole": [1, 2, 3], "real": [0.5, 1.5, 2.5], "text": ["x", "y", "z"],
        "kind": pandas.Categorical(["a", "b", "a"]), "missing": pandas.array([1, None, 3], dtype="Int64"),
    })  # fmt: skip
    before = frame.copy(deep=True)
    value = describe(frame)
    pandas.testing.assert_frame_equal(frame, before)
    assert (value["type"], value["length"]) == ("DataFrame", 5) and "labels" not in value
    assert [name["value"] for name, _ in value["entries"]] == list(frame.columns)
    assert part(value, "real")["tensor"] == {
        "dtype": "float64", "shape": [3], "device": "cpu", "bytes": 24, "elements": [0.5, 1.5, 2.5],
    }  # fmt: skip
    assert elements(part(value, "text")) == ["x", "y", "z"]
    assert part(value, "kind")["note"] == "dtype category"
    assert elements(part(value, "missing")) == [1, "<NA>", 3]
    # objects, dates and dtypes
    mixed = pandas.DataFrame({"n": [1, 2], "t": pandas.to_datetime(["2024-01-01", "2024-01-02"]), "s": ["a", "b"]})
    assert elements(describe(mixed.astype(object)["s"])) == ["a", "b"]  # the dtype of text before pandas 3
    assert elements(describe(mixed.dtypes)) == [str(dtype) for dtype in mixed.dtypes]
    assert elements(describe(mixed.iloc[0])) == [1, str(mixed["t"][0]), "a"]


def test_custom_indices_become_row_labels() -> None:
    pandas = pytest.importorskip("pandas")
    pairs = pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    for index in (["x", "y"], pandas.date_range("2026-01-01", periods=2), pairs):
        series = pandas.Series([1, 2], index=index)
        for value in (describe(series), describe(pandas.Series(["v", "w"], index=index)), describe(series.to_frame())):
            labels = [item.get("value", item.get("text", item.get("items"))) for item in value["labels"]]
            assert labels == index if isinstance(index, list) else len(labels) == 2
            assert value.get("note") in (None, "dtype str")
    assert "labels" not in describe(pandas.Series([1, 2]))
    assert len(describe(pandas.Series(range(999), index=range(1, 1000)))["labels"]) == 100


def test_frames_of_unusual_shape() -> None:
    pandas = pytest.importorskip("pandas")
    assert describe(pandas.DataFrame()) == {"type": "DataFrame", "length": 0, "entries": []}
    same = describe(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    assert [elements(column) for _, column in same["entries"]] == [[1], [2]]
    wide = describe(pandas.DataFrame(np.zeros((2, 5_000))))
    assert wide["length"] == 5_000 and len(wide["entries"]) <= ValueLimits().items
    assert tensor(pandas.Series(np.arange(1000.0)))["statistics"]["max"] == 999


def test_polars_frames_are_described_by_columns() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"whole": [1, 2, 3], "missing": [1.0, None, 3.0], "text": ["x", "y", "z"]})
    value = describe(frame)
    assert (value["type"], value["length"]) == ("DataFrame", 3)
    assert part(value, "whole")["tensor"]["elements"] == [1, 2, 3]
    assert part(value, "missing")["note"] == "dtype Float64"
    assert [item.get("value") for item in part(value, "missing")["items"]] == frame["missing"].to_list()
    assert elements(part(value, "text")) == ["x", "y", "z"]
    assert describe(frame["whole"])["type"] == "Series"
    days = polars.date_range(polars.date(2024, 1, 1), polars.date(2024, 1, 2), eager=True)
    assert elements(describe(days)) == ["2024-01-01", "2024-01-02"]
