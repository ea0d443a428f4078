from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.cases_in_one import each
from trace_tools.presentation.prose import headings, readable_text, safe_url, to_html

RICH = """
    A *tensor* is a **window**; $C = 6ND$, `x|y`, ~~no~~, [ZeRO](https://arxiv.org/abs/1910.02054).
    Costs $3 and $4.

    # A *heading*

    1. one
       - nested `a`

         and more
    2. two

    > quoted
    >
    > - inside

    ```python
    x = "```"
    ```

    | a | b |
    |---|--:|
    | 1 | `c` |

    $$
    \\frac{a}{b} < 1
    $$
"""

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "![x](javascript:alert(1))",
    "![x](https://example.org/a.png)",
    '<https://a.b/"onmouseover=alert(1)>',
    "[x](https://a.b '\"><script>alert(1)</script>')",
    "$\\text{<script>alert(1)</script>}$",
    "$\\href{javascript:alert(1)}{x}$",
    "$$\\style{background:url(https://a.b)}{x}$$",
    "$\\class{k}{x}$",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    '``` "><script>\nx\n```',
    "    <script>alert(1)</script>",
    "| <b>a</b> |\n|---|\n| <script>alert(1)</script> |",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "</details></div><style>*{display:none}</style>",
    "a\u202egpj.exe\u2028<script>",
    "[ref]: javascript:alert(1)\n\n[ref]",
    "<svg onload=alert(1)>",
    "<!-- --><script>alert(1)</script>",
    "x" * 3000 + "<script>",
    "*" * 5000,
    "[" * 3000,
    "> " * 200 + "deep",
]

HARMLESS = set(
    re.findall(
        r"\w+",
        "a p em strong code pre ul ol li blockquote table thead tbody tr th td hr br s h2 h3 h4 h5 h6 img div "
        "math mrow mi mn mo mtext msup msub mfrac mtable mtr mtd mspace mstyle",
    )
)


class Tags(HTMLParser):
    """Collects the tags that a browser would find in a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@each("text", HOSTILE)
def test_hostile_prose_yields_no_active_html(text: str) -> None:
    for tag, attributes in Tags(to_html(text)).tags:
        assert tag in HARMLESS
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("href", "src"):
            assert (attributes.get(name) or "").split(":")[0] in ("", "https", "http")
        assert tag != "img"  # without a lecture's folder there are no images


def test_indentation_of_docstrings_is_ignored() -> None:
    assert "<pre" not in to_html("First.\n\n        Second.\n        Third.")


def test_headings_are_one_level_below_the_page_title() -> None:
    assert headings(RICH) == [(1, "A heading")]
    link = '<a class="permalink" href="#here" aria-label="Link to this heading">#</a>'
    assert f'<h2 id="here">A <em>heading</em>{link}</h2>' in to_html(RICH, ["here"])
    assert "<h2>A <em>heading</em></h2>" in to_html(RICH)


@each(
    "url",
    ["https://a.b/c?d=e#f", "http://a.b", "mailto:a@b.c", "page.html", "../x/y.png", "#place", "a/b:c"],
)
def test_safe_links_are_kept(url: str) -> None:
    assert safe_url(url) == url


@each(
    "url",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:x",
        " javascript:x",
        "java\tscript:x",
        "\x01javascript:x",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "\\\\evil",
        "https:evil",
        "a:b",
        "https://a b",
        "https://[bad",
        "https://a\u202eb",
    ],
)
def test_unsafe_links_are_refused(url: str) -> None:
    assert safe_url(url) is None


def test_a_table_of_millions_of_cells_stays_text() -> None:
    small = to_html("a | b\n--|--\n1 | 2")
    assert small.count("<td>") == 2
    huge = to_html(f"{'|' * 2000}\n{'|'.join('-' * 2000)}\n" + "x\n" * 2000)
    assert "<td" not in huge and len(huge) < 50_000


def test_link_titles_become_tooltips() -> None:
    page = to_html('[a](https://example.org "Say \\"it\\" <b>")')
    assert '<a href="https://example.org" rel="noreferrer" title="Say &quot;it&quot; &lt;b&gt;">a</a>' in page


def test_exponents_are_shortened_except_in_code() -> None:
    assert to_html("from **2.5e+03** to 1e-08, `1e-08`, a1e05.") == (
        "<p>from <strong>2.5e3</strong> to 1e-8, <code>1e-08</code>, a1e05.</p>\n"
    )


def test_readable_text_has_no_markup_and_plain_math() -> None:
    assert readable_text(r"**Tensors** of $n \times n$ and `x`") == "Tensors of n × n and x"


def test_lines_do_not_break_between_formula_and_punctuation() -> None:
    shown = to_html("With $a$, and $b$ more ($c$).")
    for letter, punctuation in (("a", ","), ("c", ").")):
        assert f"<mi>{letter}</mi></mrow></math>{punctuation}</span>" in shown
    assert shown.count('<span class="unbroken"><math>') == 2
