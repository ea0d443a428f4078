"""Describe a NumPy array in the file form of its `Value`; convert columns of pandas and polars to it.

describe_array(numpy.eye(2), StorageLabels(), Limits(), Budget(Limits()))
# ({"type": "ndarray", "tensor": {"dtype": "float64", "shape": [2, 2], "device": "cpu", "bytes": 32,
#   "strides": [2, 1], "offset": 0, …, "storage": "s1", "storage_bytes": 32, "elements": [1.0, …]}}, [])

    as_array(pandas.Series([1, 2]))           # array([1, 2]): the series' own memory, without a copy
    as_array(pandas.Series(["x", "y"]))       # None: not stored as a plain array; use `first` for its first elements

The conversions run code of those libraries, so the guard limits their time. This module imports no such library.
"""

from __future__ import annotations

import sys
import weakref
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from trace_tools.describing.elements import Budget, Conversion, Limits, sample
from trace_tools.describing.safe_repr import class_name, is_a
from trace_tools.describing.storage_labels import StorageLabels

Array = np.ndarray[Any, np.dtype[Any]]

_BASE = np.ndarray.__dict__["base"].__get__
_SCALARS = frozenset(id(kind) for kind in np.sctypeDict.values())
BLOCK = 2**18  # elements: temporaries of 6 MiB, which fit a cache


def describe_array(a: Array, labels: StorageLabels, limits: Limits, budget: Budget) -> tuple[dict[str, Any], list[Any]]:
    """Return the value of `a`, and its first elements if they are objects that need a description of their own."""
    kind = type(a)
    name = "ndarray" if kind is np.ndarray else class_name(kind)
    notes = ["without its mask"] if is_a(kind, np.ma.MaskedArray) else []
    a = np.ndarray.view(a, np.ndarray)  # without the subclass
    tensor: dict[str, Any] = {
        "dtype": a.dtype.name if a.dtype.isnative and a.dtype.kind != "V" else str(a.dtype),
        "shape": list(a.shape),
        "device": "cpu",
        "bytes": a.nbytes,
        "contiguous": bool(a.flags.c_contiguous),
    }
    if a.itemsize and not any(stride % a.itemsize for stride in a.strides):  # else a field of a record
        tensor["strides"] = [stride // a.itemsize for stride in a.strides]
    _locate(a, tensor, labels)
    members: list[Any] = []
    with np.errstate(all="ignore"):
        if a.dtype.kind in "OV":
            members = [a.flat[i] for i in range(min(a.size, limits.items))]
        elif a.size <= limits.elements:
            tensor["elements"] = _elements(a)
            budget.size -= a.size
        else:
            sample(a, a.strides, tensor, _elements, _conversion(a.dtype), budget, notes, chunk=BLOCK)
    value: dict[str, Any] = {"type": name, "tensor": tensor}
    if notes:
        value["note"] = "; ".join(notes)
    return value, members


def describe_scalar(scalar: np.generic) -> dict[str, Any]:
    """Return the value of a NumPy scalar: its text, and the equal Python number or string if one exists."""
    kind = type(scalar)
    value: dict[str, Any] = {"type": "bool_" if kind is np.bool_ else class_name(kind)}  # named bool in NumPy 2
    item = scalar.item()
    if type(item) in (bool, int, float):
        value["value"] = item
    value["text"] = str(scalar)
    return value


def is_plain(scalar: np.generic) -> bool:
    """Return whether a scalar is of NumPy's own classes and holds no other object."""
    return id(type(scalar)) in _SCALARS and not scalar.dtype.hasobject


def _locate(a: Array, tensor: dict[str, Any], labels: StorageLabels) -> None:
    """Add the storage label of the memory under `a`, and the offset of `a` in it."""
    owner: Array = a  # a subclass could fake these attributes
    base: Any = a.base
    while is_a(type(base), np.ndarray):
        owner, base = base, _BASE(base)
    memory = np.ndarray.view(owner, np.ndarray)
    start = _address(memory)
    torch = sys.modules.get("torch")
    if torch is not None and is_a(type(base), getattr(torch, "Tensor", None)):
        from trace_tools.describing.tensors import storage_location

        tensor["storage"], start, tensor["storage_bytes"] = storage_location(base, labels)
    elif memory.size:
        label = labels.find(id(owner))
        if label is None:
            watch = weakref.ref(owner)
            reach = [(size - 1) * stride for size, stride in zip(memory.shape, memory.strides, strict=True)]
            low, high = sum(min(0, step) for step in reach), sum(max(0, step) for step in reach)
            span = (start + low, start + high + memory.itemsize)
            label = labels.add(id(owner), dead=lambda: watch() is None, span=span)
        tensor["storage"], tensor["storage_bytes"] = label, memory.nbytes
    else:
        return
    if a.itemsize and (_address(a) - start) % a.itemsize == 0:
        tensor["offset"] = (_address(a) - start) // a.itemsize


def _address(a: Array) -> int:
    return int(a.__array_interface__["data"][0])


def _elements(a: Array) -> list[Any]:
    """Return the elements in row-major order, complex ones as [real, imaginary], non-numeric ones as text."""
    if a.dtype.kind == "c":
        return [[element.real, element.imag] for element in a.astype(np.complex128).ravel().tolist()]
    if a.dtype.kind == "f":
        return a.astype(np.float64).ravel().tolist()
    if a.dtype.kind in "biu":
        return a.ravel().tolist()
    return [str(element) for element in a.flat]


def _conversion(dtype: np.dtype[Any]) -> Conversion | None:
    if dtype.kind == "c":
        return Conversion(lambda block: np.abs(block.astype(np.complex128)), note="statistics of the magnitudes")
    if dtype.kind == "f":
        return Conversion(_float64)
    if dtype.kind in "iu":
        return Conversion(_float64, lambda block: block)
    return Conversion(_float64, lambda block: block.astype(np.uint8)) if dtype.kind == "b" else None


def _float64(block: Array) -> Array:
    return block.astype(np.float64)


_PRINTED = (date, time, timedelta, np.dtype)  # and pandas' own dtypes


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
