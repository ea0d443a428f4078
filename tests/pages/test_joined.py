from __future__ import annotations

from tests.cases_in_one import each
from trace_tools.pages.joined import PagePart, ids, with_inner_links, with_prefixes

PAGES = {"02-x.html": PagePart("02-x", "2"), "index.html": PagePart("index", "index")}


@each(
    ("html", "expected"),
    [
        ('<h2 id="main">a <b>b</b></h2>', '<h2 id="3--main">a <b>b</b></h2>'),
        ('<a class="permalink" href="#main">#</a>', '<a class="permalink" href="#3--main">#</a>'),
        ('<a href="02-x.html#main">', '<a href="02-x.html#main">'),  # `with_inner_links` changes links to other pages
        (
            '<svg aria-labelledby="t d"><title id="t">T</title>',
            '<svg aria-labelledby="3--t 3--d"><title id="3--t">T</title>',
        ),
        (
            '<g clip-path="url(#c)"><use href="#m" x="1"/></g>',
            '<g clip-path="url(#3--c)"><use href="#3--m" x="1"/></g>',
        ),
        (
            '<input type="text" id="f" disabled><label for="f">',
            '<input type="text" id="3--f" disabled><label for="3--f">',
        ),
        ('text id="main" href="#main" &lt;a id="x">', 'text id="main" href="#main" &lt;a id="x">'),
        # the value of an attribute may look like an attribute
        ("""<div data-answer='{"right":"what for=","unit":"#"}' id="a">""",) * 2,
        ('<img alt=" id=&quot;x&quot; " src="data:,url">',) * 2,
    ],
)
def test_ids_and_references_get_the_prefix_of_their_part(html: str, expected: str) -> None:
    assert with_prefixes(html, "3") == expected.replace('id="a"', 'id="3--a"')


def test_only_ids_of_tags_are_found() -> None:
    assert [*ids('<p id="a">id="b"<i title=\' id="c"\' id="d&amp;"></i><br>')] == ["a", "d&"]


@each(
    ("href", "target"),
    [
        ("02-x.html", "#02-x"),
        ("./02-x.html", "#02-x"),
        ("02-x.html#L5", "#2--L5"),
        ("02-x.html#gone", "#02-x"),  # to the section if the anchor does not exist
        ("index.html#claims-02-x", "#index--claims-02-x"),
        ("#2--L5", "#2--L5"),
        ("#nowhere", None),
        ("03-y.html", None),
        ("../other/02-x.html", None),
        ("trace.yaml", None),
        ("https://example.org/02-x.html?a=1&amp;b=2#L5", "https://example.org/02-x.html?a=1&amp;b=2#L5"),
        ("//example.org/x", "//example.org/x"),
        ("mailto:a@example.org", "mailto:a@example.org"),
    ],
)
def test_links_are_internal_or_external_or_removed(href: str, target: str | None) -> None:
    anchors = {"02-x", "2--L5", "index", "index--claims-02-x"}
    expected = f'<p><a rel="next" href="{target}">x</a>' if target else '<p><a rel="next">x</a>'
    assert with_inner_links(f'<p><a rel="next" href="{href}">x</a>', PAGES, anchors) == expected


def test_only_links_are_changed() -> None:
    html = '<use href="#gone"/> <link rel="icon" href="icon.svg"> if (a <b && href="#x") {}'
    assert with_inner_links(html, PAGES, set()) == html
