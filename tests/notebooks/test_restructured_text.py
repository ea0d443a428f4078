"""reStructuredText is converted to Markdown; the tests compare the HTML that a Markdown parser makes of it."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from tests.cases_in_one import each
from trace_tools.notebooks.restructured_text import Converter


def html(*texts: str) -> str:
    converter = Converter(texts)
    markdown = "\n\n".join(converter.markdown(text) for text in texts)
    return re.sub(r"\n\s*", "", MarkdownIt().enable("table").render(markdown))


@each(
    ("text", "expected"),
    [
        ("A\n=\n\nB\n-\n\nC\n~\n\nD\n-", "<h1>A</h1><h2>B</h2><h3>C</h3><h2>D</h2>"),
        ("=====\nTitle\n=====\n\nSub\n=====", "<h1>Title</h1><h2>Sub</h2>"),
        ("``a_b`` *c* **d** :func:`~m.f` :class:`T <m.T>`",
         "<p><code>a_b</code> <em>c</em> <strong>d</strong> <code>f</code> <code>T</code></p>"),
        ("`one\ntwo <https://e.org/a>`__ and `L`_ and w_.\n\n.. _L: https://e.org/l\n.. _w: https://e.org/w",
         '<p><a href="https://e.org/a">one two</a> and <a href="https://e.org/l">L</a> and <a href="https://e.org/w">w</a>.</p>'),
        ("`a`__ `b`__\n\n.. __: https://e.org/1\n__ https://e.org/2",
         '<p><a href="https://e.org/1">a</a> <a href="https://e.org/2">b</a></p>'),
        ("- a\n  b\n\n  - c\n\n- d", "<ul><li><p>ab</p><ul><li>c</li></ul></li><li><p>d</p></li></ul>"),
        ("#. a\n#. b", "<ol><li>a</li><li>b</li></ol>"),
        (".. note:: One *two*.\n\n   - three",
         "<blockquote><p><strong>Note</strong></p><p>One <em>two</em>.</p><ul><li>three</li></ul></blockquote>"),
        ("Run::\n\n    a  =  1\n\n      b\n\nend", "<p>Run:</p><pre><code>a  =  1b</code></pre><p>end</p>"),
        (".. code-block:: python\n   :linenos:\n\n   x = 1", '<pre><code class="language-python">x = 1</code></pre>'),
        (".. image:: /a b.png\n   :alt: An image", '<p><img src="/a%20b.png" alt="An image" /></p>'),
        ("T\n   meaning", "<ul><li><p><strong>T</strong></p><p>meaning</p></li></ul>"),
        ("=== ===\nA   B\n=== ===\n1   2\n=== ===",
         "<table><thead><tr><th>A</th><th>B</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"),
        ("+---+---+\n| A | B |\n+===+===+\n| 1 | 2 |\n|   | 3 |\n+---+---+",
         "<table><thead><tr><th>A</th><th>B</th></tr></thead><tbody><tr><td>1</td><td>2 3</td></tr></tbody></table>"),
        (".. grid:: 2\n\n    .. card:: :octicon:`x;1em;` Learn\n       :class: c\n\n       * one",
         "<p><strong>Learn</strong></p><ul><li>one</li></ul>"),
        (">>> 1 + 1\n2\n\nend", '<pre><code class="language-python">&gt;&gt;&gt; 1 + 12</code></pre><p>end</p>'),
        ("__init__ a_b_ x_1 |s|\n\n.. |s| replace:: sub\n\n.. a comment\n   of two lines",
         "<p>__init__ a_b_ x_1 sub</p>"),
        ("a *is\nover* lines\\ s\n\n   quoted",
         "<p>a <em>isover</em> liness</p><blockquote><p>quoted</p></blockquote>"),
        (":Author: A\n:Date: B", "<ul><li><strong>Author</strong>: A</li><li><strong>Date</strong>: B</li></ul>"),
        (":Author: A\n:Empty:\nText", "<ul><li><strong>Author</strong>: A</li></ul><p>Text</p>"),
        (".. unknown:: A title\n\n   kept *text*", "<p><strong>A title</strong></p><p>kept <em>text</em></p>"),
        ("See [1]_.\n\n.. [1] A note", "<p>See [1].</p><p>[1] A note</p>"),
    ],
)  # fmt: skip
def test_converted_markdown_renders_as_expected(text: str, expected: str) -> None:
    assert html(text).replace("\n", "") == expected


def test_formulas_use_the_syntax_of_pages() -> None:
    text = "Costs $5, :math:`a_b \\le c`.\n\n.. math:: x &= 1 \\\\\n   y &= 2\n\n.. math::\n\n   z\n\n   w"
    assert Converter([text]).markdown(text) == (
        "Costs \\$5, $a_b \\le c$.\n\n"
        "$$\n\\begin{aligned}\nx &= 1 \\\\\ny &= 2\n\\end{aligned}\n$$\n\n$$\nz\n$$\n\n$$\nw\n$$"
    )


def test_blocks_of_a_file_share_headings_and_links() -> None:
    assert html("A\n=\n\nB\n-\n\n`later`_", "C\n-\n\n.. _later: https://e.org") == (
        '<h1>A</h1><h2>B</h2><p><a href="https://e.org">later</a></p><h2>C</h2>'
    )
