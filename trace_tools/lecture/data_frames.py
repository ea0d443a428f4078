"""Convert a DataFrame or Series of pandas or polars to rows and columns of plain Python, for `table` and `plot`.

    columns, rows, left_out = rows_of(pandas.DataFrame({"a": [1, 2]}))   # ["a"], [[1], [2]], 0
    x, series, label = series_of(pandas.Series([1, 4], name="y"), None)  # [0, 1], {"y": [1, 4]}, None

Neither library is imported; objects are recognised by their methods. The labels of a pandas index become the first
column of a table and the x values of a plot, unless they are 0, 1, 2, …
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

MOST_ROWS = 1_000  # most rows of a table; a page shows fewer
MISSING = frozenset({"NAType", "NaTType"})  # pandas' types for missing values


def is_frame(value: object) -> bool:
    """Return whether a value is a DataFrame."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy") and hasattr(value, "head")


def is_series(value: object) -> bool:
    """Return whether a value is a Series."""
    return hasattr(value, "to_list") and hasattr(value, "to_numpy") and hasattr(value, "head")


def rows_of(data: Any, columns: Sequence[str] = ()) -> tuple[list[str], list[list[Any]], int]:
    """Return the column names, the first rows, and the number of further rows.

    For a frame, `columns` selects columns; for a series, it names the column. Raises ValueError for an unknown name.
    """
    head = data.head(MOST_ROWS)
    if is_frame(data):
        rows = _columns(head)
        if unknown := [name for name in columns if name not in rows]:
            raise ValueError(f"found no column {unknown[0]!r}; expected one of {', '.join(rows)}")
        rows = {name: rows[name] for name in columns or rows}
    else:
        rows = {next(iter(columns), _name(data)): _plain(head)}
    label, labels = _labels(head)
    if labels is not None:
        rows = {label or "": labels} | rows
    return list(rows), [list(row) for row in zip(*rows.values(), strict=True)], len(data) - len(head)


def series_of(data: Any, x: str | None) -> tuple[list[Any], dict[str, list[Any]], str | None]:
    """Return the x values, the numbers of each numeric column by name, and a label for the x axis.

    `x` names the column with the x values; the default is the row labels. Raises ValueError if that column does not
    exist, or no column is numeric.
    """
    label, labels = _labels(data)
    if not is_frame(data):
        series = {_name(data): _plain(data)} if _is_numeric(data) else {}
    else:
        if x is not None:
            columns = _columns(data)
            if x not in columns:
                raise ValueError(f"found no column {x!r}; expected one of {', '.join(columns)}")
            label, labels = x, columns[x]
        series = {name: _plain(column) for name, column in _series(data) if _is_numeric(column) and name != x}
    if not series:
        raise ValueError(f"found a {type(data).__name__} without numeric columns; expected numbers")
    return list(range(len(data))) if labels is None else labels, series, label


def _series(frame: Any) -> list[tuple[str, Any]]:
    if hasattr(frame, "iloc"):  # pandas, where column names may repeat
        return [(str(name), frame.iloc[:, index]) for index, name in enumerate(frame.columns)]
    return [(str(series.name), series) for series in frame.get_columns()]


def _columns(frame: Any) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for name, series in _series(frame):
        unique, count = name, 1
        while unique in columns:
            count += 1
            unique = f"{name} ({count})"
        columns[unique] = _plain(series)
    return columns


def _plain(series: Any) -> list[Any]:
    items = [None if type(item).__name__ in MISSING else item for item in series.to_list()]
    moments = [item for item in items if isinstance(item, datetime)]
    # all are dates without a time
    if moments and all((moment.time(), moment.tzinfo) == (time(), None) for moment in moments):
        return [item.date() if isinstance(item, datetime) else item for item in items]
    return items


def _labels(data: Any) -> tuple[str | None, list[Any] | None]:
    """Return the name and labels of a pandas index; None for the labels 0, 1, 2, … and for polars."""
    index = getattr(data, "index", None)
    if index is None or (type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)):
        return None, None
    name = getattr(index, "name", None)
    return None if name is None else str(name), [
        label if type(label) is not bool and isinstance(label, (int, float)) else str(label)
        for label in index.to_list()
    ]


def _name(series: Any) -> str:
    return str(series.name) if getattr(series, "name", None) not in (None, "") else "value"


def _is_numeric(series: Any) -> bool:
    dtype = series.dtype
    return bool(dtype.is_numeric()) if hasattr(dtype, "is_numeric") else getattr(dtype, "kind", "O") in "iuf"
