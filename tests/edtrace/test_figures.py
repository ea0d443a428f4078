from __future__ import annotations

import importlib
from typing import Any
from xml.etree.ElementTree import fromstring

import numpy
import pytest

from trace_tools.edtrace import figures
from trace_tools.edtrace.figures import drawing, make_graph, words
from trace_tools.presentation.charts import svg
from trace_tools.trace.model import Series

ROWS = [{"x": 2, "y": 1.0, "c": "a"}, {"x": 1, "y": 4.0, "c": "b"}, {"x": 3, "y": 9.0, "c": "a"}]
ENCODING = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}


@pytest.fixture(autouse=True)
def _without_vl_convert(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "installed" not in request.node.name:
        monkeypatch.setattr(figures, "_converted", lambda spec: None)


def test_a_line_is_drawn_from_left_to_right() -> None:
    (figure,) = figures.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING, "title": {"text": "T"}})
    assert (figure.kind, figure.title, figure.x_label, figure.y_label) == ("plot", "T", "x", "y")
    assert figure.series == [Series("y", [1, 2, 3], [4.0, 1.0, 9.0], "line")]


def test_color_splits_series_and_named_data_are_resolved() -> None:
    encoding = {**ENCODING, "color": {"field": "c"}, "y": {**ENCODING["y"], "scale": {"type": "log"}, "title": "up"}}
    spec = {"datasets": {"d": ROWS}, "data": {"name": "d"}, "mark": {"type": "circle"}, "encoding": encoding}
    (figure,) = figures.drawn(spec)
    assert figure.series == [Series("a", [2, 3], [1.0, 9.0], "points"), Series("b", [1], [4.0], "points")]
    assert (figure.y_label, figure.y_scale, figure.x_scale) == ("up", "log", "linear")


def test_unsupported_layers_are_named_in_the_title() -> None:
    layer = [{"mark": "line"}, {"mark": "text"}, {"mark": {"type": "area"}, "encoding": {"y2": {"field": "z"}}}]
    (figure,) = figures.drawn({"data": {"values": ROWS}, "encoding": ENCODING, "layer": layer})
    assert figure.title == "Figure (drawn without: text, area)" and len(figure.series or ()) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"mark": "arc"},
        {"encoding": {**ENCODING, "y": {"aggregate": "mean", "field": "y"}}},
        {"encoding": {"theta": {"field": "y"}}},
        {"transform": [{"filter": "datum.x > 1"}]},
    ],
)
def test_unsupported_specifications_become_a_table_of_the_data(changed: dict[str, Any]) -> None:
    (figure,) = figures.drawn({"data": {"values": ROWS}, "mark": "bar", "encoding": ENCODING, **changed})
    assert (figure.kind, figure.columns) == ("table", ["x", "y", "c"])
    assert figure.rows == [[2, 1.0, "a"], [1, 4.0, "b"], [3, 9.0, "a"]]


def test_concatenated_charts_and_numpy_numbers() -> None:
    chart = {"mark": "bar", "encoding": ENCODING}
    rows = [{"x": numpy.float32(1), "y": numpy.int64(2)}]
    charts = figures.drawn({"data": {"values": rows}, "hconcat": [chart, {**chart, "data": {"values": [[1], [2]]}}]})
    assert [figure.kind for figure in charts] == ["plot", "table"]
    assert charts[0].series == [Series("y", [1.0], [2], "bars")] and charts[1].rows == [["[1]"], ["[2]"]]


def test_data_urls_are_shown_and_invalid_specifications_refused() -> None:
    (figure,) = figures.drawn({"data": {"url": "data.csv"}, "mark": "bar", "encoding": ENCODING})
    assert figure.rows == [["data.csv"]]
    with pytest.raises(TypeError, match="found a list; expected a Vega-Lite specification"):
        figures.drawn([1])  # type: ignore[arg-type]


def test_specification_is_rendered_if_vl_convert_is_installed() -> None:
    pytest.importorskip("vl_convert", reason="draws Vega-Lite; not installed here")
    (figure,) = figures.drawn({"data": {"values": ROWS}, "mark": "arc", "encoding": {"theta": {"field": "y"}}})
    assert figure.kind == "plot" and figure.svg is not None and figure.svg.startswith("<svg")


def test_installed_vl_convert_may_refuse_a_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def vegalite_to_svg(self, spec: object) -> str:
            raise ValueError("no such mark")

    monkeypatch.setattr(importlib, "import_module", lambda name: Refusing())
    (figure,) = figures.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING})
    assert figure.svg is None and figure.series


# --- graphs ---------------------------------------------------------------------------------------

NODES = [{"id": "a", "x": 0, "y": 0}, {"id": 2, "label": "<two>", "x": 10, "y": 0, "classes": "hot"}, {"id": "c"}]
EDGES = [{"source": "a", "target": 2, "label": "f & g"}, {"source": 2, "target": "c"}, {"source": "c", "target": "c"}]


def texts(drawn: str) -> list[str | None]:
    return [element.text for element in fromstring(drawn).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("layout", ["preset", "circle", "grid", "breadthfirst", {"name": "cose"}])
def test_each_node_and_edge_is_drawn_in_every_layout(layout: str | dict[str, str]) -> None:
    drawn = drawing(make_graph(NODES, EDGES, layout=layout))
    root = fromstring(drawn)
    ellipses = [e for e in root.iter() if e.tag.endswith("ellipse")]
    assert len(ellipses) == 3 and drawn.count("<polygon") == 2 and drawn.count("<path") == 1
    assert sorted(filter(None, texts(drawn))) == ["<two>", "a", "c", "f & g"]
    assert svg.clean(drawn, "fig1", "A title", "words") is not None


def test_overlapping_nodes_are_moved_apart() -> None:
    graph = make_graph(NODES[:2], EDGES[:1])
    (_, a), (_, b) = ((e.get("rx"), float(e.get("cx") or 0)) for e in fromstring(drawing(graph)).iter() if e.get("rx"))
    assert b - a > 10


def test_a_stylesheet_colours_nodes_edges_and_classes() -> None:
    sheet = [
        {"selector": "edge", "style": {"line-color": "#1a8f58"}},
        {"selector": "node, .hot", "style": {"background-color": "orange", "shape": "star"}},
    ]
    drawn = drawing(make_graph(NODES, EDGES, stylesheet=sheet))
    assert 'stroke="#1a8f58"' in drawn and drawn.count('fill="orange"') == 3 and "star" not in drawn


def test_graph_description() -> None:
    assert words(make_graph(NODES, EDGES)) == "A graph of 3 nodes: a → <two> (f & g), <two> → c, c → c."
    assert words(make_graph([{"id": "a"}], [])) == "A graph of 1 node."
    assert fromstring(drawing(make_graph([], []))) is not None
