"""Show edtrace's figures: Vega-Lite specifications, and graphs of nodes and edges.

A specification becomes a drawing, else a plot of its numbers, else a table:

    drawn({"data": {"values": [{"x": 1, "y": 2}]}, "mark": "line", "encoding": {"x": {"field": "x"}, "y": …}})
    # [Plot(series=[Series("y", [1], [2])], …)]; with vl-convert installed also its svg

Without vl-convert, lines, points and bars of plain fields are drawn. If other layers are omitted, the caption says so.

    spec = make_graph([{"id": "a", "x": 0, "y": 0}, {"id": "b", "x": 100, "y": 0}], [{"source": "a", "target": "b"}])
    drawing(spec)       '<svg …>': an ellipse per node, an arrow per edge
    words(spec)         "A graph of 2 nodes: a → b."

Of a Cytoscape stylesheet, the colours of nodes, edges and classes are used. The layouts "preset", "circle" and "grid"
are supported; others become rows by distance from the nodes without incoming edges.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any

from trace_tools.trace.model import Narrative, Plot, Scalar, Series, Table

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
    svg = _converted(spec)
    if svg is None and beside:
        shared = {name: spec[name] for name in ("data", "datasets", "config") if name in spec}
        return [one for part in beside if isinstance(part, dict) for one in drawn({**shared, **part})]
    parts, left_out = _parts(spec)
    title, labels = _title(spec.get("title")), _labels(spec)
    if svg is not None or (parts and len(parts) <= MOST_SERIES):
        if svg is None and left_out:
            title = f"{title or 'Figure'} (drawn without: {', '.join(left_out)})"
        return [Plot(title=title, series=parts, svg=svg, **labels)]
    rows = next((rows for view in _views(spec, {}) if (rows := _rows(view))), [])  # or of its first data set
    if columns := list(dict.fromkeys(name for row in rows for name in row)):
        return [Table(title=title, columns=columns, rows=[[_scalar(row.get(c)) for c in columns] for row in rows])]
    where = (spec.get("data") or {}).get("url") if isinstance(spec.get("data"), dict) else None
    return [Table(title=title or "A figure", columns=["data"], rows=[[str(where or "none in it")]])]


def _converted(spec: Spec) -> str | None:
    """Return vl-convert's drawing, if it is installed and accepts the specification; else None."""
    try:
        converter = importlib.import_module("vl_convert")
    except ImportError:
        return None
    clear = {"background": "transparent", **spec}  # the page has its own background, also a dark one
    with suppress(Exception):  # it raises for specifications that it does not support
        return str(converter.vegalite_to_svg(clear))
    return None


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

Positions = dict[str, tuple[float, float]]

INK, LINE, GROUND = "#000000", "#7a828e", "none"
SIZE = 13.0  # size of the text, in pixels
LETTER = 0.58 * SIZE  # approximate width of a letter
APART = 1.8  # distance between rows, in node heights
LISTED = 20  # most edges listed in words


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


def drawing(spec: Spec) -> str:
    """Return a graph as SVG."""
    nodes = {str(node["data"]["id"]): node for node in spec.get("nodes") or []}
    edges = [edge for edge in spec.get("edges") or [] if {_end(edge, "source"), _end(edge, "target")} <= nodes.keys()]
    wide = {name: max(len(_label(node)) * LETTER / 2 + 9, 15.0) for name, node in nodes.items()}
    tall = SIZE / 2 + 8
    positions = _spread(_positions(spec, nodes, edges), wide, tall)
    left = min((x - wide[name] for name, (x, _) in positions.items()), default=0) - 8
    top = min((y for _, y in positions.values()), default=0) - tall - 8
    right = max((x + wide[name] for name, (x, _) in positions.items()), default=0) + 8
    bottom = max((y for _, y in positions.values()), default=0) + tall + 8
    out = []
    for edge in edges:
        out += _edge(spec, edge, positions, wide, tall)
    for name, node in nodes.items():
        x, y = positions[name]
        style = _style(spec, "node", node)
        fill, ink = style.get("background-color", GROUND), style.get("color", INK)
        stroke = style.get("border-color", fill if fill != GROUND else LINE)
        shape = f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{wide[name]:.1f}" ry="{tall:.1f}" fill="{escape(fill)}"'
        filled = ' fill-opacity="0.3"' if fill != GROUND else ""
        out.append(f'{shape}{filled} stroke="{escape(stroke)}" stroke-width="1.4"/>')
        out.append(_text(x, y + 0.35 * SIZE, _label(node), ink))
    size = f'width="{right - left:.0f}" height="{bottom - top:.0f}"'
    box = f'viewBox="{left:.1f} {top:.1f} {right - left:.1f} {bottom - top:.1f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>{"".join(out)}</svg>'


def words(spec: Spec) -> str:
    """Describe a graph in words, for readers who cannot see it."""
    nodes = {str(node["data"]["id"]): _label(node) for node in spec.get("nodes") or []}
    edges = [
        f"{nodes.get(_end(edge, 'source'), '?')} → {nodes.get(_end(edge, 'target'), '?')}"
        + (f" ({edge['data']['label']})" if edge["data"].get("label") else "")
        for edge in spec.get("edges") or []
    ]
    more = f" and {len(edges) - LISTED} more" if len(edges) > LISTED else ""
    listed = f": {', '.join(edges[:LISTED])}{more}" if edges else ""
    return f"A graph of {len(nodes)} node{'' if len(nodes) == 1 else 's'}{listed}."


def _edge(spec: Spec, edge: Spec, positions: Positions, wide: Mapping[str, float], tall: float) -> list[str]:
    """Return an arrow between the borders of two nodes, with its label at the middle; a loop if they are the same."""
    source, target = _end(edge, "source"), _end(edge, "target")
    style = _style(spec, "edge", edge)
    colour = escape(style.get("line-color", LINE))
    label = str(edge["data"].get("label") or "")
    ink = style.get("color", INK)
    (x0, y0), (x1, y1) = positions[source], positions[target]
    if source == target:
        top = y0 - tall
        loop = (
            f"M{x0 - 7:.1f} {top:.1f}C{x0 - 26:.1f} {top - 30:.1f} {x0 + 26:.1f} {top - 30:.1f} {x0 + 7:.1f} {top:.1f}"
        )
        drawn = [f'<path d="{loop}" fill="none" stroke="{colour}" stroke-width="1.4"/>']
        return [*drawn, _text(x0, top - 26, label, ink)] if label else drawn
    angle = math.atan2(y1 - y0, x1 - x0)
    across, down = math.cos(angle), math.sin(angle)

    def rim(name: str) -> float:
        return 1 / math.hypot(across / wide[name], down / tall)

    x0, y0 = x0 + rim(source) * across, y0 + rim(source) * down
    x1, y1 = x1 - (rim(target) + 2) * across, y1 - (rim(target) + 2) * down
    wings = [(x1 - 9 * math.cos(angle + turn), y1 - 9 * math.sin(angle + turn)) for turn in (-0.4, 0.4)]
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((x1, y1), *wings))
    line = f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1 - 5 * across:.1f}" y2="{y1 - 5 * down:.1f}"'
    drawn = [f'{line} stroke="{colour}" stroke-width="1.4"/><polygon points="{head}" fill="{colour}"/>']
    beside = (x0 + x1) / 2 - 10 * down, (y0 + y1) / 2 + 10 * across * (-1 if abs(across) > 0.5 else 1)
    return [*drawn, _text(*beside, label, ink)] if label else drawn


def _positions(spec: Spec, nodes: Mapping[str, Spec], edges: Sequence[Spec]) -> Positions:
    """Return the position of each node, in the units of the specification."""
    layout = str((spec.get("layout") or {}).get("name", "preset"))
    names = list(nodes)
    given = {name: node["position"] for name, node in nodes.items() if "position" in node}
    if layout == "preset" and len(given) == len(nodes):
        return {name: (float(position["x"]), float(position["y"])) for name, position in given.items()}
    if layout in ("circle", "concentric", "cose"):
        turn = 2 * math.pi / max(len(names), 1)
        radius = max(70.0, 22.0 * len(names))
        return {n: (radius * math.sin(turn * at), -radius * math.cos(turn * at)) for at, n in enumerate(names)}
    if layout == "grid":
        columns = math.ceil(math.sqrt(len(names)))
        return {name: (110.0 * (at % columns), 80.0 * (at // columns)) for at, name in enumerate(names)}
    led_to = {_end(edge, "target") for edge in edges}
    waiting = [name for name in names if name not in led_to] or list(names[:1])
    depths = dict.fromkeys(waiting, 0)
    for name in waiting:
        for edge in edges:
            target = _end(edge, "target")
            if _end(edge, "source") == name and target not in depths:
                depths[target] = depths[name] + 1
                waiting.append(target)
    rows = {name: depths.get(name, 0) for name in names}
    positions: Positions = {}
    for depth in range(max(rows.values(), default=0) + 1):
        row = [name for name in names if rows[name] == depth]
        positions |= {name: (110.0 * (at - (len(row) - 1) / 2), 80.0 * depth) for at, name in enumerate(row)}
    return positions


def _spread(positions: Positions, wide: Mapping[str, float], tall: float) -> Positions:
    """Scale positions up until no two nodes overlap."""
    scale = 1.0
    names = list(positions)
    for at, name in enumerate(names):
        for other in names[:at]:
            across, down = (abs(a - b) for a, b in zip(positions[name], positions[other], strict=True))
            fits = [
                needed / distance
                for needed, distance in ((wide[name] + wide[other] + 12, across), (APART * 2 * tall, down))
                if distance
            ]
            scale = max(scale, min(fits, default=1.0))
    return {name: (x * min(scale, 4.0), y * min(scale, 4.0)) for name, (x, y) in positions.items()}


def _style(spec: Spec, kind: str, element: Spec) -> dict[str, str]:
    """Return the colours that a stylesheet gives an element; later rules win."""
    classes = element.get("classes") or ()
    own = classes.split() if isinstance(classes, str) else list(map(str, classes))
    fitting = {kind, *(f".{name}" for name in own), *(f"{kind}.{name}" for name in own)}
    fitting |= {f"#{element['data'].get('id')}", f"{kind}#{element['data'].get('id')}"}
    colours: dict[str, str] = {}
    for rule in spec.get("stylesheet") or []:
        if fitting & {part.strip() for part in str(rule.get("selector", "")).split(",")}:
            style = rule.get("style") or rule.get("css") or {}
            colours |= {name: str(value) for name, value in style.items() if "color" in name}
    return colours


def _text(x: float, y: float, text: str, ink: str) -> str:
    attributes = f'x="{x:.1f}" y="{y:.1f}" font-size="{SIZE:g}" text-anchor="middle"'
    return f'<text {attributes} fill="{escape(ink)}">{escape(text)}</text>'


def _label(node: Spec) -> str:
    return str(node["data"].get("label", node["data"].get("id", "")))


def _end(edge: Spec, end: str) -> str:
    return str(edge["data"].get(end))
