"""Rows and columns of a DataFrame or Series of pandas or polars, as plain Python, for `table` and `plot`.

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


def is_data(value: object) -> bool:
    """Return whether a value is a DataFrame or a Series."""
    return hasattr(value, "to_numpy") and hasattr(value, "head")


def columns_of(data: Any, most: int | None = None) -> list[tuple[Any, Any]]:
    """Return the names and series of the first columns of a DataFrame; of a Series, its name and itself."""
    if hasattr(data, "get_columns"):  # polars
        return [(series.name, series) for series in data.get_columns()[:most]]
    if hasattr(data, "columns"):  # by position, because two columns of pandas may have one name
        return [(name, data.iloc[:, index]) for index, name in enumerate(data.columns[:most])]
    return [(data.name or "value", data)]


def labels_of(data: Any, most: int | None = None) -> list[Any] | None:
    """Return the first row labels of a pandas object; None if they are 0, 1, 2, …, and for polars."""
    index: Any = getattr(data, "index", None)
    is_plain = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
    return None if index is None or is_plain else list(index[:most].tolist())


def rows_of(data: Any, columns: Sequence[str] = ()) -> tuple[list[str], list[list[Any]], int]:
    """Return the column names, the first rows, and the number of further rows.

    Of a frame, `columns` selects columns. Raises ValueError for an unknown name.
    """
    head = data.head(MOST_ROWS)
    named = {name: _plain(series) for name, series in _named(head).items()}
    named = {name: named[_known(name, named)] for name in columns or named}
    label, labels = _labels(head)
    if labels is not None:
        named = {label or "": labels} | named
    return list(named), [list(row) for row in zip(*named.values(), strict=True)], len(data) - len(head)


def series_of(data: Any, x: str | None) -> tuple[list[Any], dict[str, list[Any]], str | None]:
    """Return the x values, the numbers of each numeric column by name, and a label for the x axis.

    `x` names the column with the x values; the default is the row labels. Raises ValueError if that column does not
    exist, or no column is numeric.
    """
    named, (label, labels) = _named(data), _labels(data)
    if x is not None:
        label, labels = x, _plain(named[_known(x, named)])
    series = {name: _plain(one) for name, one in named.items() if name != x and _is_numeric(one)}
    if not series:
        raise ValueError(f"found a {type(data).__name__} without numeric columns; expected numbers")
    return list(range(len(data))) if labels is None else labels, series, label


def _named(data: Any) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, series in columns_of(data):
        named[f"{name} ({len(named) + 1})" if str(name) in named else str(name)] = series
    return named


def _known(name: str, named: dict[str, Any]) -> str:
    if name not in named:
        raise ValueError(f"found no column {name!r}; expected one of {', '.join(named)}")
    return name


def _plain(series: Any) -> list[Any]:
    # pandas' own types for missing values
    items = [None if type(item).__name__ in ("NAType", "NaTType") else item for item in series.to_list()]
    moments = [item for item in items if isinstance(item, datetime)]
    if moments and all((moment.time(), moment.tzinfo) == (time(), None) for moment in moments):  # dates
        return [item.date() if isinstance(item, datetime) else item for item in items]
    return items


def _labels(data: Any) -> tuple[str | None, list[Any] | None]:
    """Return the name and the labels of the rows, as numbers and texts."""
    labels = labels_of(data)
    if labels is None:
        return None, None
    name = data.index.name
    return None if name is None else str(name), [one if type(one) in (int, float) else str(one) for one in labels]


def _is_numeric(series: Any) -> bool:
    dtype = series.dtype
    return bool(dtype.is_numeric()) if hasattr(dtype, "is_numeric") else getattr(dtype, "kind", "O") in "iuf"
