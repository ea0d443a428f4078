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
    (told,) = figures.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING, "title": {"text": "T"}})
    assert (told.kind, told.title, told.x_label, told.y_label) == ("plot", "T", "x", "y")
    assert told.series == [Series("y", [1, 2, 3], [4.0, 1.0, 9.0], "line")]


def test_colours_divide_points_and_data_may_be_named() -> None:
    encoding = {**ENCODING, "color": {"field": "c"}, "y": {**ENCODING["y"], "scale": {"type": "log"}, "title": "up"}}
    spec = {"datasets": {"d": ROWS}, "data": {"name": "d"}, "mark": {"type": "circle"}, "encoding": encoding}
    (told,) = figures.drawn(spec)
    assert told.series == [Series("a", [2, 3], [1.0, 9.0], "points"), Series("b", [1], [4.0], "points")]
    assert (told.y_label, told.y_scale, told.x_scale) == ("up", "log", "linear")


def test_what_is_laid_over_it_and_can_not_be_drawn_is_said() -> None:
    layer = [{"mark": "line"}, {"mark": "text"}, {"mark": {"type": "area"}, "encoding": {"y2": {"field": "z"}}}]
    (told,) = figures.drawn({"data": {"values": ROWS}, "encoding": ENCODING, "layer": layer})
    assert told.title == "Figure (drawn without: text, area)" and len(told.series or ()) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"mark": "arc"},
        {"encoding": {**ENCODING, "y": {"aggregate": "mean", "field": "y"}}},
        {"encoding": {"theta": {"field": "y"}}},
        {"transform": [{"filter": "datum.x > 1"}]},
    ],
)
def test_what_is_computed_in_it_is_a_table_of_the_data(changed: dict[str, Any]) -> None:
    (told,) = figures.drawn({"data": {"values": ROWS}, "mark": "bar", "encoding": ENCODING, **changed})
    assert (told.kind, told.columns) == ("table", ["x", "y", "c"])
    assert told.rows == [[2, 1.0, "a"], [1, 4.0, "b"], [3, 9.0, "a"]]


def test_charts_beside_one_another_are_several_and_numbers_of_numpy_are_numbers() -> None:
    one = {"mark": "bar", "encoding": ENCODING}
    rows = [{"x": numpy.float32(1), "y": numpy.int64(2)}]
    found = figures.drawn({"data": {"values": rows}, "hconcat": [one, {**one, "data": {"values": [[1], [2]]}}]})
    assert [told.kind for told in found] == ["plot", "table"]
    assert found[0].series == [Series("y", [1.0], [2], "bars")] and found[1].rows == [["[1]"], ["[2]"]]


def test_data_that_lie_elsewhere_are_named_and_what_is_no_specification_is_refused() -> None:
    (told,) = figures.drawn({"data": {"url": "data.csv"}, "mark": "bar", "encoding": ENCODING})
    assert told.rows == [["data.csv"]]
    with pytest.raises(TypeError, match="found a list; expected a Vega-Lite specification"):
        figures.drawn([1])  # type: ignore[arg-type]


def test_it_is_drawn_as_it_is_where_vl_convert_is_installed() -> None:
    pytest.importorskip("vl_convert", reason="draws Vega-Lite; not installed here")
    (told,) = figures.drawn({"data": {"values": ROWS}, "mark": "arc", "encoding": {"theta": {"field": "y"}}})
    assert told.kind == "plot" and told.svg is not None and told.svg.startswith("<svg")


def test_what_is_installed_may_refuse_a_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def vegalite_to_svg(self, spec: object) -> str:
            raise ValueError("no such mark")

    monkeypatch.setattr(importlib, "import_module", lambda name: Refusing())
    (told,) = figures.drawn({"data": {"values": ROWS}, "mark": "line", "encoding": ENCODING})
    assert told.svg is None and told.series


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


def test_nodes_that_would_cover_each_other_are_moved_apart() -> None:
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


def test_a_graph_in_words() -> None:
    assert words(make_graph(NODES, EDGES)) == "A graph of 3 nodes: a → <two> (f & g), <two> → c, c → c."
    assert words(make_graph([{"id": "a"}], [])) == "A graph of 1 node."
    assert fromstring(drawing(make_graph([], []))) is not None
