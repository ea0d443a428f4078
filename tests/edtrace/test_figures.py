from __future__ import annotations

from typing import Any

import numpy
import pytest

from trace_tools.edtrace import figures
from trace_tools.edtrace.figures import make_graph, words
from trace_tools.trace.model import Series

ROWS = [{"x": 2, "y": 1.0, "c": "a"}, {"x": 1, "y": 4.0, "c": "b"}, {"x": 3, "y": 9.0, "c": "a"}]
ENCODING = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}


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


# --- graphs ---------------------------------------------------------------------------------------

NODES = [{"id": "a", "x": 0, "y": 0}, {"id": 2, "label": "<two>", "x": 10, "y": 0, "classes": "hot"}, {"id": "c"}]
EDGES = [{"source": "a", "target": 2, "label": "f & g"}, {"source": 2, "target": "c"}, {"source": "c", "target": "c"}]


def test_graphs_are_described() -> None:
    described = "A graph of 4 nodes: a → <two> (f & g), <two> → c, c → c, alone."
    assert words(make_graph([*NODES, {"id": "alone"}], EDGES, layout="circle")) == described
    assert words(make_graph([{"id": "a"}], [])) == "A graph of 1 node: a."
    assert words(make_graph([], [])) == "A graph of 0 nodes."
