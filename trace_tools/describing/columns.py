"""pandas and polars frames and series, and JAX arrays, as what is described in their place: NumPy arrays and lists.

    columns(pandas.DataFrame({"a": [1, 2]}))  # [("a", <Series>)]
    as_array(pandas.Series([1, 2]))           # array([1, 2]): the series' own memory, nothing is copied
    as_array(pandas.Series(["x", "y"]))       # None: it is held otherwise, and `first` has its first elements

All of it is code of those libraries: the gate limits its time. None of the three is imported here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from trace_tools.describing.arrays import Array

MOST_COPIED = 1 << 26  # bytes, from a device to the host


def columns(frame: Any, most: int) -> list[tuple[Any, Any]]:
    """Return the names and the series of the first `most` columns of a pandas or polars DataFrame."""
    if hasattr(frame, "get_columns"):  # polars
        return [(series.name, series) for series in frame.get_columns()[:most]]
    return [(frame.columns[i], frame.iloc[:, i]) for i in range(min(most, frame.shape[1]))]  # two may have one name


def as_array(series: Any) -> Array | None:
    """Return the memory of a series as an array, None where it is no plain one: with missing values, text, bits."""
    if hasattr(series, "iloc"):
        return series.to_numpy(copy=False) if isinstance(series.dtype, np.dtype) else None
    try:
        return series.to_numpy(allow_copy=False)  # type: ignore[no-any-return]
    except RuntimeError:
        return None


def is_lasting(series: Any) -> bool:
    """Tell whether what `as_array` returns knows whose memory it is: polars makes an owner anew for each call."""
    return hasattr(series, "iloc")


def first(series: Any, most: int) -> list[Any]:
    """Return the first `most` elements as Python has them."""
    return list(series.head(most).to_list())


def index_note(series: Any) -> str | None:
    """Return a note where a pandas object has another index than 0, 1, 2, …"""
    index = getattr(series, "index", None)
    counted = index is None or (type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1))
    return None if counted else "without its index"


def of_jax(array: Any) -> tuple[Array | None, dict[str, Any]]:
    """Return the elements of a JAX array on the host, and the fields of `schema.Tensor` that are its own.

    It waits until the array is computed. Elements of a type that NumPy has not (bfloat16, float8) come as float32; None
    for more than MOST_COPIED bytes on another device. Raises RuntimeError where the array was deleted or donated.
    """
    devices = sorted(f"{one.platform}:{one.id}" for one in array.devices())
    place = "cpu" if devices == ["cpu:0"] else ", ".join(devices)
    own = {"dtype": array.dtype.name, "shape": list(array.shape), "device": place, "bytes": array.nbytes}
    if not place.startswith("cpu") and array.nbytes > MOST_COPIED:
        return None, own
    if not place.startswith("cpu"):  # as an array of its own: what NumPy reads of this one, it would keep
        jax = sys.modules["jax"]
        array = jax.device_put(array, jax.devices("cpu")[0])
    elements = np.asarray(array)
    return elements.astype(np.float32) if elements.dtype.kind == "V" else elements, own
