from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest

from trace_tools.edtrace.graphs import drawing, make_graph, words
from trace_tools.presentation.charts import svg

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
