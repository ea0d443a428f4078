"""Frames, series and JAX arrays as they are described; what their own libraries say of them is the oracle."""

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tests.describing.value_form import describe, part, tensor
from trace_tools.describing.arrays import of_jax
from trace_tools.describing.elements import Limits
from trace_tools.describing.values import Describer


def elements(value: dict[str, Any]) -> Any:
    """Return the elements of a described series, however it is held."""
    if "tensor" in value:
        return value["tensor"]["elements"]
    return [item.get("value", item.get("text")) for item in value["items"]]


def test_a_pandas_frame_is_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "whole": [1, 2, 3], "real": [0.5, 1.5, 2.5], "text": ["x", "y", "z"],
        "kind": pandas.Categorical(["a", "b", "a"]), "missing": pandas.array([1, None, 3], dtype="Int64"),
    })  # fmt: skip
    value = describe(frame)
    assert value["type"] == "DataFrame"
    assert value["length"] == frame.shape[1]
    assert [name["value"] for name, _ in value["entries"]] == list(frame.columns)
    for name in ("whole", "real"):
        column = part(value, name)
        assert column["tensor"]["dtype"] == str(frame[name].dtype)
        assert column["tensor"]["bytes"] == frame[name].to_numpy().nbytes
        assert elements(column) == frame[name].tolist()
    assert elements(part(value, "text")) == ["x", "y", "z"]
    assert part(value, "kind")["note"] == "dtype category"
    assert elements(part(value, "missing")) == [1, "<NA>", 3]


def test_a_series_of_objects_has_its_elements() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2], "t": pandas.to_datetime(["2024-01-01", "2024-01-02"]), "s": ["a", "b"]})
    assert elements(describe(frame.astype(object)["s"])) == ["a", "b"]  # text, in pandas before 3
    assert elements(describe(frame.dtypes)) == [str(dtype) for dtype in frame.dtypes]
    assert elements(describe(frame.iloc[0])) == [1, str(frame["t"][0]), "a"]


def test_memory_that_a_frame_shares_is_seen() -> None:
    pandas = pytest.importorskip("pandas")
    describer = Describer()
    block = np.zeros((4, 2))
    frame = pandas.DataFrame(block, columns=["a", "b"], copy=False)
    a = part(describe(frame, describer), "a")["tensor"]
    assert np.shares_memory(block, frame["a"].to_numpy())
    assert a["storage"] == tensor(block, describer)["storage"] == tensor(frame["a"], describer)["storage"]
    assert a["strides"] == [stride // 8 for stride in frame["a"].to_numpy().strides]
    assert tensor(frame["a"].copy(), describer)["storage"] != a["storage"]


def test_an_index_of_its_own_is_the_labels_of_rows() -> None:
    pandas = pytest.importorskip("pandas")
    indices = [
        ["x", "y"],
        pandas.date_range("2026-01-01", periods=2),
        pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)]),
    ]
    for index in indices:
        series = pandas.Series([1, 2], index=index)
        for value in (describe(series), describe(pandas.Series(["v", "w"], index=index)), describe(series.to_frame())):
            told = [item.get("value", item.get("text", item.get("items"))) for item in value["labels"]]
            assert len(told) == len(index)
            if isinstance(index, list):
                assert told == index and "note" not in describe(series)
    assert describe(pandas.Series(["v", "w"], index=["x", "y"]))["note"] == "dtype str"
    assert "labels" not in describe(pandas.Series([1, 2])) and "labels" not in describe(pandas.DataFrame({"a": [1]}))
    assert [len(describe(pandas.Series(range(999), index=range(1, 1000)))[key]) for key in ("labels",)] == [100]


def test_frames_of_odd_forms() -> None:
    pandas = pytest.importorskip("pandas")
    assert describe(pandas.DataFrame()) == {"type": "DataFrame", "length": 0, "entries": []}
    same = describe(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    assert [elements(column) for _, column in same["entries"]] == [[1], [2]]
    wide = describe(pandas.DataFrame(np.zeros((2, 5_000))))
    assert wide["length"] == 5_000
    assert len(wide["entries"]) <= Limits().items
    large = tensor(pandas.Series(np.arange(100_000.0)))
    assert large["statistics"]["max"] == 99_999.0


def test_a_frame_is_not_changed_by_being_described() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    before = frame.copy(deep=True)
    describe(frame)
    pandas.testing.assert_frame_equal(frame, before)


def test_a_polars_frame_is_its_columns() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"whole": [1, 2, 3], "missing": [1.0, None, 3.0], "text": ["x", "y", "z"]})
    value = describe(frame)
    assert (value["type"], value["length"]) == ("DataFrame", 3)
    assert part(value, "whole")["tensor"] == {
        "dtype": "int64", "shape": [3], "device": "cpu", "bytes": 24, "elements": [1, 2, 3],
    }  # fmt: skip
    assert part(value, "missing")["note"] == "dtype Float64"
    assert [item.get("value") for item in part(value, "missing")["items"]] == frame["missing"].to_list()
    assert elements(part(value, "text")) == ["x", "y", "z"]
    assert describe(frame["whole"])["type"] == "Series"
    days = polars.date_range(polars.date(2024, 1, 1), polars.date(2024, 1, 2), eager=True)
    assert elements(describe(days)) == ["2024-01-01", "2024-01-02"]


JAX = """
import jax
from tests.describing.value_form import describe, tensor

array = jax.numpy.arange(6.0).reshape(2, 3)
place = "cpu" if array.device.platform == "cpu" else f"{array.device.platform}:0"
elements = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
assert tensor(array) == {"dtype": "float32", "shape": [2, 3], "bytes": 24, "elements": elements, "device": place}
half = tensor(array.astype(jax.numpy.bfloat16))
assert (half["dtype"], half["bytes"], half["elements"][-1]) == ("bfloat16", 12, 5.0)
assert array._npy_value is None, "a copy on the host that the lecture did not ask for"
assert tensor(jax.numpy.ones(10_000, dtype=jax.numpy.bfloat16))["statistics"]["mean"] == 1.0

gone = jax.numpy.ones(3)
gone.delete()
assert "deleted" in describe(gone)["note"]
seen = []
jax.jit(lambda x: seen.append(describe(x)) or x)(jax.numpy.ones(3))
assert "float32[3]" in seen[0]["text"], "what is only traced has no elements"
print("done")
"""


@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
def test_a_jax_array_is_described_like_a_tensor() -> None:
    """In a process of its own: with JAX's threads in this one, no test after it could fork safely."""
    ran = subprocess.run([sys.executable, "-c", JAX], capture_output=True, text=True, timeout=100)
    assert ran.stdout == "done\n", ran.stderr


def test_a_large_jax_array_on_another_device_is_not_copied() -> None:
    """JAX on a CPU has no other device: an object that answers like one that lies there."""

    class Device:
        platform, id = "gpu", 1

    class Away:
        dtype, shape, nbytes = np.dtype("float32"), (2**14, 2**14), 2**30

        def devices(self) -> set[Device]:
            return {Device()}

    assert of_jax(Away()) == (None, {"dtype": "float32", "shape": [2**14, 2**14], "device": "gpu:1", "bytes": 2**30})
