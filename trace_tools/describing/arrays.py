"""Describe NumPy's arrays and scalars.

array(walk, numpy.eye(2))
# {"type": "ndarray", "tensor": {"dtype": "float64", "shape": [2, 2], "device": "cpu", "bytes": 32,
#   "strides": [2, 1], "offset": 0, …, "storage": "s1", "storage_bytes": 32, "elements": [1.0, …]}}
"""

from __future__ import annotations

import sys
import weakref
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from trace_tools.describing.elements import corner_shape, sample, statistics
from trace_tools.describing.guarded_repr import class_name, is_a, without_addresses
from trace_tools.describing.storage_labels import StorageLabels
from trace_tools.describing.walk import Describe, Plain, Walk
from trace_tools.lecture.data_frames import columns_of, labels_of

Array = np.ndarray[Any, np.dtype[Any]]

_PRINTED = (date, time, timedelta, np.dtype)  # and pandas' own dtypes
_POSITIONS = frozenset({"storage", "storage_bytes", "strides", "offset", "contiguous"})  # of no interest in a table
_BASE = np.ndarray.__dict__["base"].__get__  # a subclass could fake this attribute


def array(walk: Walk, obj: Array) -> Plain:
    """Describe an array by its memory, and by its elements or a corner and statistics of them."""
    kind = type(obj)
    a = np.ndarray.view(obj, np.ndarray)  # without the subclass
    tensor: Plain = {
        "dtype": a.dtype.name if a.dtype.isnative and a.dtype.kind != "V" else str(a.dtype),
        "shape": list(a.shape),
        "device": "cpu",
        "bytes": a.nbytes,
        "contiguous": bool(a.flags.c_contiguous),
    }
    if a.itemsize and not any(stride % a.itemsize for stride in a.strides):  # else a field of a record
        tensor["strides"] = [stride // a.itemsize for stride in a.strides]
    _locate(a, tensor, walk.labels)
    value: Plain = {"type": "ndarray" if kind is np.ndarray else class_name(kind), "tensor": tensor}
    notes = ["without its mask"] if is_a(kind, np.ma.MaskedArray) else []
    with np.errstate(all="ignore"):
        if a.dtype.kind in "OV":  # objects, which need a description of their own
            value = walk.nested(obj, value, "items", a.flat, walk.value)
        elif a.size <= walk.limits.elements:
            tensor["elements"] = _elements(walk, a)
        else:
            tensor["corner_shape"] = corner_shape(a.shape)
            tensor["corner"] = _elements(walk, a[tuple(map(slice, tensor["corner_shape"]))])
            if a.dtype.kind not in "biufc":
                notes.append("no statistics for elements of this type")
            else:
                a = a.transpose(sorted(range(a.ndim), key=lambda dim: -abs(a.strides[dim])))
                views, repeats, note = sample(walk, a, a.strides)
                if views:
                    pieces = [np.abs(view.astype(np.complex128)) if a.dtype.kind == "c" else view for view in views]
                    numbers = np.concatenate([piece.ravel() for piece in pieces], dtype=np.float64)
                    tensor["statistics"] = statistics(numbers, repeats, np, whole=a.dtype.kind in "biu")
                    notes += ["statistics of the magnitudes"] if a.dtype.kind == "c" else []
                notes += [note] if note else []
    return value | {"note": "; ".join(notes)} if notes else value


def scalar(walk: Walk, obj: np.generic) -> Plain:
    """Describe a NumPy scalar by its text, and by the equal Python number if one exists."""
    kind = type(obj)
    if kind.__module__ != "numpy" or obj.dtype.hasobject:  # of a subclass, or a record that may hold any object
        return walk.by_repr(obj, lambda: without_addresses(str(obj)))
    value: Plain = {"type": "bool_" if kind is np.bool_ else class_name(kind)}  # named bool in NumPy 2
    item = obj.item()
    if type(item) in (bool, int, float):
        value["value"] = item
    return value | {"text": walk.text(str(obj))}


def _locate(a: Array, tensor: Plain, labels: StorageLabels) -> None:
    """Add the storage label of the memory under `a`, and the offset of `a` in it."""
    owner, base = a, _BASE(a)
    while is_a(type(base), np.ndarray):
        owner, base = base, _BASE(base)
    memory = np.ndarray.view(owner, np.ndarray)
    start = _address(memory)
    torch = sys.modules.get("torch")
    if torch is not None and is_a(type(base), getattr(torch, "Tensor", None)):  # the array is `base.numpy()`
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


def _elements(walk: Walk, a: Array) -> list[Any]:
    """Return the elements in row-major order, complex ones as [real, imaginary], non-numeric ones as text."""
    walk.size -= a.size
    if a.dtype.kind == "c":
        return [[element.real, element.imag] for element in a.astype(np.complex128).ravel().tolist()]
    if a.dtype.kind == "f":
        return a.astype(np.float64).ravel().tolist()
    return a.ravel().tolist() if a.dtype.kind in "biu" else [walk.text(str(element)) for element in a.flat]


def frame(walk: Walk, obj: Any) -> Plain:
    """Describe a DataFrame by its first columns and the labels of its first rows."""
    limit = walk.limits.items
    columns, why = walk.attempt(lambda: (columns_of(obj, limit), int(obj.shape[1])), "its columns")
    if columns is None:
        return {"type": class_name(type(obj)), "note": walk.note(why)}
    value: Plain = {"type": class_name(type(obj)), "length": columns[1]}
    value = walk.nested(obj, value, "entries", columns[0], lambda pair: [walk.value(pair[0]), _column(walk, pair[1])])
    return _with_row_labels(walk, obj, value)


def series(walk: Walk, obj: Any) -> Plain:
    """Describe a series like an array, with the labels of its first rows."""
    return _with_row_labels(walk, obj, _column(walk, obj))


def _with_row_labels(walk: Walk, obj: Any, value: Plain) -> Plain:
    """Add the labels of the first rows of a pandas object, unless they are 0, 1, 2, …"""
    labels, why = walk.attempt(lambda: labels_of(obj, walk.limits.items), "its index")
    if labels:
        return walk.nested(obj, value, "labels", labels, walk.value)
    notes = filter(None, (value.get("note"), f"without its index: {why}"))
    return value | {"note": walk.note("; ".join(notes))} if why else value


def _column(walk: Walk, obj: Any) -> Plain:
    """Describe a series as an array, or by its first elements if it has text, missing values, bits or objects."""

    def read() -> Any:
        if not hasattr(obj, "iloc"):  # polars
            try:
                return obj.to_numpy(allow_copy=False)
            except RuntimeError:
                pass
        elif isinstance(obj.dtype, np.dtype) and not obj.dtype.hasobject:
            return obj.to_numpy(copy=False)
        elements = obj.head(walk.limits.items).to_list()
        # dates and dtypes as the text that a frame prints
        printed = [str(e) if isinstance(e, _PRINTED) or hasattr(e, "construct_array_type") else e for e in elements]
        return printed, len(obj), str(obj.dtype)

    column, why = walk.attempt(read, "its elements")
    if column is None:
        return {"type": class_name(type(obj)), "note": walk.note(why)}
    if type(column) is tuple:
        elements, length, dtype = column
        return walk.members(obj, length, elements) | {"note": walk.note(f"dtype {dtype}")}
    value = array(walk, column)
    value["tensor"] = {name: field for name, field in value["tensor"].items() if name not in _POSITIONS}
    return value | {"type": class_name(type(obj))}


BASES: tuple[tuple[type, Describe], ...] = ((np.ndarray, array), (np.generic, scalar))
