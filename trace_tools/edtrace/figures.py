"""Show edtrace's figures: Vega-Lite specifications as plots or tables, and graphs of nodes and edges in words.

    drawn({"data": {"values": [{"x": 1, "y": 2}]}, "mark": "line", "encoding": {"x": {"field": "x"}, "y": …}})
    # [Plot(series=[Series("y", [1], [2])], …)]

Lines, points and bars of plain fields are drawn; if other layers are left out, the caption says so. Everything else
becomes a table of its data.

    words(make_graph([{"id": "a"}, {"id": "b"}], [{"source": "a", "target": "b"}]))     "A graph of 2 nodes: a → b."
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_tools.trace.model import Narrative, Plot, Scalar, Series, Table
from trace_tools.util.formats import plural

Spec = Mapping[str, Any]

STYLES = {
    "line": "line", "trail": "line", "area": "line", "point": "points", "circle": "points", "square": "points",
    "tick": "points", "bar": "bars",
}  # fmt: skip
COMPUTED = ("aggregate", "bin", "timeUnit", "condition", "impute", "stack")  # of an encoding: a computed field
SIDE_BY_SIDE = ("hconcat", "vconcat", "concat")
MOST_SERIES = 12


def drawn(spec: Spec) -> list[Narrative]:
    """Return the narratives for a specification, in order. Raises TypeError if it is not one."""
    if not isinstance(spec, Mapping):
        raise TypeError(f"plot: found a {type(spec).__name__}; expected a Vega-Lite specification as a dict")
    spec = json.loads(json.dumps(spec, default=_plain))  # converts NumPy's numbers and tuples
    beside = next((spec[name] for name in SIDE_BY_SIDE if isinstance(spec.get(name), list)), None)
    if beside:
        shared = {name: spec[name] for name in ("data", "datasets", "config") if name in spec}
        return [one for part in beside if isinstance(part, dict) for one in drawn({**shared, **part})]
    parts, left_out = _parts(spec)
    title, labels = _title(spec.get("title")), _labels(spec)
    if parts and len(parts) <= MOST_SERIES:
        if left_out:
            title = f"{title or 'Figure'} (drawn without: {', '.join(left_out)})"
        return [Plot(title=title, series=parts, **labels)]
    rows = next((rows for view in _views(spec, {}) if (rows := _rows(view))), [])  # or of its first data set
    if columns := list(dict.fromkeys(name for row in rows for name in row)):
        return [Table(title=title, columns=columns, rows=[[_scalar(row.get(c)) for c in columns] for row in rows])]
    where = (spec.get("data") or {}).get("url") if isinstance(spec.get("data"), dict) else None
    return [Table(title=title or "A figure", columns=["data"], rows=[[str(where or "none in it")]])]


def _parts(spec: Spec) -> tuple[list[Series], list[str]]:
    """Return the series that can be drawn, and the marks that cannot."""
    parts: list[Series] = []
    left_out: list[str] = []
    for view in _views(spec, {}):
        mark = view.get("mark")
        kind = str(mark.get("type") if isinstance(mark, dict) else mark)
        encoding = view.get("encoding") or {}
        x, y = encoding.get("x") or {}, encoding.get("y") or {}
        rows = _rows(view)
        as_it_is = kind in STYLES and _is_field(x) and _is_field(y) and not view.get("transform")
        has_both = any(x.get("field") in row and y.get("field") in row for row in rows)
        if not as_it_is or "y2" in encoding or "x2" in encoding or not has_both:
            if kind != "None":
                left_out.append(kind)
            continue
        colour = next((encoding[name] for name in ("color", "stroke", "detail") if name in encoding), None)
        by = colour.get("field") if isinstance(colour, dict) else None
        groups: dict[str, list[tuple[Scalar, Scalar]]] = {}
        for row in rows:
            name = str(row.get(by)) if by else str(y.get("title") or y["field"])
            groups.setdefault(name, []).append((_scalar(row.get(x["field"])), _scalar(row.get(y["field"]))))
        for name, points in groups.items():
            numbers = all(isinstance(at, (int, float)) and not isinstance(at, bool) for at, _ in points)
            if STYLES[kind] == "line" and "order" not in encoding and numbers:
                points.sort(key=lambda point: point[0])  # type: ignore[arg-type, return-value]
            parts.append(Series(name, [at for at, _ in points], [height for _, height in points], STYLES[kind]))
    return parts, list(dict.fromkeys(left_out))


def _views(spec: Spec, outer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a specification's layers, each with the properties that it inherits."""
    view = {**outer, **{name: value for name, value in spec.items() if name != "layer"}}
    view["encoding"] = {**(outer.get("encoding") or {}), **(spec.get("encoding") or {})}
    layers = spec.get("layer")
    if not isinstance(layers, list):
        yield view
        return
    for layer in layers:
        if isinstance(layer, dict):
            yield from _views(layer, view)


def _rows(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data of a view, inline or from the named data sets."""
    data = view.get("data")
    if not isinstance(data, dict):
        return []
    values = data.get("values") if "values" in data else (view.get("datasets") or {}).get(data.get("name"))
    rows = values if isinstance(values, list) else []
    return [row if isinstance(row, dict) else {"data": row} for row in rows]


def _labels(spec: Spec) -> dict[str, Any]:
    options: dict[str, Any] = {"x_scale": "linear", "y_scale": "linear"}
    for view in _views(spec, {}):
        for name in "xy":
            channel = view["encoding"].get(name)
            if not isinstance(channel, dict):
                continue
            axis, scale = channel.get("axis"), channel.get("scale")
            title = channel.get("title") or (axis.get("title") if isinstance(axis, dict) else None)
            options.setdefault(f"{name}_label", _title(title) or _title(channel.get("field")))
            if isinstance(scale, dict) and scale.get("type") == "log":
                options[f"{name}_scale"] = "log"
    return options


def _title(title: Any) -> str | None:
    text = title.get("text") if isinstance(title, dict) else title
    return " ".join(map(str, text)) if isinstance(text, list) else str(text) if text else None


def _is_field(channel: Any) -> bool:
    """Return whether a channel shows a field without computing."""
    return isinstance(channel, dict) and isinstance(channel.get("field"), str) and not any(map(channel.get, COMPUTED))


def _scalar(value: Any) -> Scalar:
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value)


def _plain(value: Any) -> Any:
    """Convert an object for JSON: arrays to lists, NumPy's numbers to numbers, charts by `to_dict`."""
    for name in ("tolist", "to_dict", "isoformat"):
        if callable(made := getattr(value, name, None)):
            return made()
    if isinstance(value, Sequence):
        return list(value)
    return str(value)


# --- graphs ---------------------------------------------------------------------------------------


def make_graph(
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    layout: str | Mapping[str, Any] = "preset",
    stylesheet: Sequence[Mapping[str, Any]] | None = None,
    width: int = 500,
    height: int = 200,
) -> dict[str, Any]:
    """Return the specification of a graph, in Cytoscape.js's format."""

    def element(item: Mapping[str, Any]) -> dict[str, Any]:
        data = {name: str(value) if name in ("id", "source", "target") else value for name, value in item.items()}
        made: dict[str, Any] = {}
        if "x" in data and "y" in data and "source" not in data:
            made["position"] = {"x": data.pop("x"), "y": data.pop("y")}
        if "classes" in data:
            made["classes"] = data.pop("classes")
        if "source" not in data:
            data.setdefault("label", data.get("id", ""))
        return {**made, "data": data}

    return {
        "nodes": [element(node) for node in nodes],
        "edges": [element(edge) for edge in edges],
        "layout": {"name": layout} if isinstance(layout, str) else dict(layout),
        "stylesheet": list(stylesheet or []),
        "width": width,
        "height": height,
    }


def words(spec: Spec) -> str:
    """Describe a graph: "A graph of 3 nodes: a → b (label), c"."""
    nodes = {_of(node, "id"): str(node["data"].get("label", _of(node, "id"))) for node in spec.get("nodes") or []}
    parts, linked = [], set[str]()
    for edge in spec.get("edges") or []:
        ends, label = [_of(edge, "source"), _of(edge, "target")], edge["data"].get("label")
        linked.update(ends)
        parts.append(" → ".join(nodes.get(end, "?") for end in ends) + (f" ({label})" if label else ""))
    parts += [shown for name, shown in nodes.items() if name not in linked]
    return f"A graph of {plural(len(nodes), 'node')}{': ' if parts else ''}{', '.join(parts)}."


def _of(element: Spec, name: str) -> str:
    return str(element["data"].get(name))
