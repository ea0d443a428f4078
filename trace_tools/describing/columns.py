"""Convert pandas and polars frames and series, and JAX arrays, to NumPy arrays and lists for description.

    columns(pandas.DataFrame({"a": [1, 2]}))  # [("a", <Series>)]
    as_array(pandas.Series([1, 2]))           # array([1, 2]): the series' own memory, without a copy
    as_array(pandas.Series(["x", "y"]))       # None: not stored as a plain array; use `first` for its first elements

All of these calls run code of those libraries, so the guard limits their time. This module imports no such library.
"""

from __future__ import annotations

import sys
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from trace_tools.describing.arrays import Array

_PRINTED = (date, time, timedelta, np.dtype)  # and pandas' own dtypes
MOST_COPIED = 1 << 26  # bytes, from a device to the host


def columns(frame: Any, most: int) -> list[tuple[Any, Any]]:
    """Return the names and the series of the first `most` columns of a pandas or polars DataFrame."""
    if hasattr(frame, "get_columns"):  # polars
        return [(series.name, series) for series in frame.get_columns()[:most]]
    # two may have the same name
    return [(frame.columns[i], frame.iloc[:, i]) for i in range(min(most, frame.shape[1]))]


def as_array(series: Any) -> Array | None:
    """Return the memory of a series as an array; None for missing values, text, bits, objects."""
    if hasattr(series, "iloc"):
        plain = isinstance(series.dtype, np.dtype) and not series.dtype.hasobject
        return series.to_numpy(copy=False) if plain else None
    try:
        return series.to_numpy(allow_copy=False)  # type: ignore[no-any-return]
    except RuntimeError:
        return None


def is_lasting(series: Any) -> bool:
    """Return whether the result of `as_array` identifies its memory's owner: polars makes a new owner for each call."""
    return hasattr(series, "iloc")


def first(series: Any, most: int) -> list[Any]:
    """Return the first `most` elements as Python objects, dates and dtypes as the text that a frame prints."""
    elements = series.head(most).to_list()
    return [str(e) if isinstance(e, _PRINTED) or hasattr(e, "construct_array_type") else e for e in elements]


def labels(rows: Any, most: int) -> list[Any] | None:
    """Return the first `most` row labels of a pandas object; None if they are 0, 1, 2, …, and for polars."""
    index = getattr(rows, "index", None)
    counted = index is None or (type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1))
    return None if index is None or counted else list(index[:most].tolist())


def of_jax(array: Any) -> tuple[Array | None, dict[str, Any]]:
    """Return the elements of a JAX array on the host, and its own fields of `Tensor`.

    Waits until the array is computed. Elements of types that NumPy lacks (bfloat16, float8) become float32. The
    elements are None for more than MOST_COPIED bytes on another device. Raises RuntimeError if the array was deleted or
    donated.
    """
    devices = sorted(f"{d.platform}:{d.id}" for d in array.devices())
    device = "cpu" if devices == ["cpu:0"] else ", ".join(devices)
    fields = {"dtype": array.dtype.name, "shape": list(array.shape), "device": device, "bytes": array.nbytes}
    if not device.startswith("cpu") and array.nbytes > MOST_COPIED:
        return None, fields
    if not device.startswith("cpu"):  # a separate array, because JAX would keep the copy that NumPy reads from this one
        jax = sys.modules["jax"]
        array = jax.device_put(array, jax.devices("cpu")[0])
    elements = np.asarray(array)
    return elements.astype(np.float32) if elements.dtype.kind == "V" else elements, fields
