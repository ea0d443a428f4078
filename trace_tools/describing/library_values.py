"""Describe objects of torch, NumPy, pandas and polars for `values`; import each of these only when it is needed.

tensor(walk, torch.ones(2))  # {"type": "tensor", "tensor": {"dtype": "float32", …}}
"""

from __future__ import annotations

from typing import Any

from trace_tools.describing.safe_repr import class_name, without_addresses
from trace_tools.describing.walk import Plain, Walk


def tensor(walk: Walk, obj: Any) -> Plain:
    """Describe a tensor, and the tensors that a sparse tensor, a nested tensor or a wrapper consists of."""
    from trace_tools.describing.tensors import describe_tensor, inner_tensors, is_wrapper

    value, parts = describe_tensor(obj, walk.labels, walk.limits, walk.budget)
    if is_wrapper(obj):
        inner, why = walk.attempt(lambda: inner_tensors(obj), "__tensor_flatten__", type(obj))
        parts = inner or []
        value["note"] = "; ".join(filter(None, (value["note"], why)))
    if "note" in value:
        value["note"] = walk.note(value["note"])
    if parts and parts[0][0] is None:
        return walk.nested(obj, value, "items", (part for _, part in parts), walk.value)
    return walk.nested(obj, value, "entries", parts, walk.entry) if parts else value


def array(walk: Walk, obj: Any) -> Plain:
    """Describe a NumPy array."""
    from trace_tools.describing.arrays import describe_array

    value, members = describe_array(obj, walk.labels, walk.limits, walk.budget)
    fields = value["tensor"]
    for name in {"elements", "corner"} & fields.keys():
        fields[name] = [walk.text(e) if type(e) is str else e for e in fields[name]]
    return walk.nested(obj, value, "items", members, walk.value) if members else value


def numpy_scalar(walk: Walk, obj: Any) -> Plain:
    """Describe a NumPy scalar by its text and its value."""
    from trace_tools.describing.arrays import describe_scalar, is_plain

    if not is_plain(obj):  # of a subclass, or a record that may hold any object
        return walk.by_repr(obj, lambda: without_addresses(str(obj)))
    value = describe_scalar(obj)
    return value | {"text": walk.text(value["text"])}


def frame(walk: Walk, obj: Any) -> Plain:
    """Describe a DataFrame by its columns, each like an array."""
    from trace_tools.lecture.data_frames import columns_of

    limit = walk.limits.items
    contents, why = walk.attempt(lambda: (columns_of(obj, limit), int(obj.shape[1])), "its columns", type(obj))
    if contents is None:
        return {"type": class_name(type(obj)), "note": walk.note(why)}
    pairs, length = contents
    value: Plain = {"type": class_name(type(obj)), "length": length}
    value = walk.nested(obj, value, "entries", pairs, lambda pair: [walk.value(pair[0]), _column(walk, pair[1])])
    return _with_row_labels(walk, obj, value)


def series(walk: Walk, obj: Any) -> Plain:
    """Describe a series like an array."""
    return _with_row_labels(walk, obj, _column(walk, obj))


def _with_row_labels(walk: Walk, obj: Any, value: Plain) -> Plain:
    """Add the labels of the first rows of a pandas object."""
    from trace_tools.lecture.data_frames import labels_of

    row_labels, why = walk.attempt(lambda: labels_of(obj, walk.limits.items), "its index", type(obj))
    if row_labels:
        return walk.nested(obj, value, "labels", row_labels, walk.value)
    notes = filter(None, (value.get("note"), f"without its index: {why}"))
    return value | {"note": walk.note("; ".join(notes))} if why else value


def _column(walk: Walk, obj: Any) -> Plain:
    """Describe a series by its memory, or by its first elements if it is not a plain array."""
    from trace_tools.describing.arrays import as_array, first, is_lasting

    memory, _ = walk.attempt(lambda: as_array(obj), "to_numpy", type(obj))
    if memory is not None:
        value = array(walk, memory)
        if not is_lasting(obj):
            value["tensor"] = _without_positions(value["tensor"])
        return value | {"type": class_name(type(obj))}
    limit = walk.limits.items
    described, why = walk.attempt(lambda: (first(obj, limit), len(obj), str(obj.dtype)), "its elements", type(obj))
    if described is None:
        return {"type": class_name(type(obj)), "note": walk.note(why)}
    members, length, dtype = described
    return walk.members(obj, length, members) | {"note": walk.note(f"dtype {dtype}")}


def neural_module(walk: Walk, obj: Any) -> Plain:
    """Describe a module of `torch.nn` by its repr and its number of parameters."""
    from trace_tools.describing.tensors import parameter_count

    count, why = walk.attempt(lambda: parameter_count(obj), "parameters()", type(obj))
    value = walk.other(obj)
    if count is not None:
        value["entries"] = [[{"type": "str", "value": "parameters"}, {"type": "int", "value": count}]]
    else:
        value.setdefault("note", walk.note(why))
    return value


def _without_positions(fields: Plain) -> Plain:
    """Return a tensor's description without the positions of its elements, because its library does not report them."""
    positions = {"storage", "storage_bytes", "strides", "offset", "contiguous"}
    return {name: value for name, value in fields.items() if name not in positions}
