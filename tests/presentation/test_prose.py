"""Prose, formulas and code as HTML and as Markdown: what they may contain, and that nothing of the text is lost."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from xml.etree.ElementTree import fromstring

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.cases_in_one import each
from trace_tools.presentation.formulas import mathml, readable
from trace_tools.presentation.markdown_text import code_span, escape, fenced, inline_markdown, table, to_markdown
from trace_tools.presentation.page_shell import highlighted
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
    "[x](javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
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
    "</details></div><style>*{display:none}</style>",
    "a\u202egpj.exe\u2028<script>",
    "[ref]: javascript:alert(1)\n\n[ref]",
    "x" * 3000 + "<script>",
    "*" * 5000,
    "[" * 3000,
    "> " * 200 + "deep",
]
HARMLESS = "a p em strong code pre ul ol li blockquote table thead tbody tr th td hr br s h2 h3 h4 h5 h6 div "
HARMLESS += "math mrow mi mn mo mtext msup msub mfrac mtable mtr mtd mspace mstyle"


@each("text", HOSTILE)
def test_hostile_prose_yields_no_active_html_and_no_html_in_markdown(text: str) -> None:
    tags: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))  # type: ignore[method-assign]
    parser.feed(to_html(text))
    for tag, attributes in tags:
        assert tag in HARMLESS.split()  # without a lecture's folder there are no images
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert (attributes.get("href") or "").split(":")[0] in ("", "https", "http")
    permissive = MarkdownIt("commonmark", {"html": True}).enable("table").use(dollarmath_plugin)
    tokens = [part for token in permissive.parse(to_markdown(text)) for part in (token, *(token.children or []))]
    assert not [token for token in tokens if token.type.startswith("html")]
    links = [str(t.attrs.get("href", t.attrs.get("src", ""))) for t in tokens if t.type in ("link_open", "image")]
    assert all(link.startswith(("https:", "http:")) for link in links)


@each("url", ["https://a.b/c?d=e#f", "http://a.b", "mailto:a@b.c", "page.html", "../x/y.png", "#place", "a/b:c"])
def test_safe_links_are_kept(url: str) -> None:
    assert safe_url(url) == url


@each(
    "url",
    [
        "javascript:alert(1)", "JAVASCRIPT:x", " javascript:x", "java\tscript:x", "\x01javascript:x", "vbscript:x",
        "data:text/html,x", "file:///etc/passwd", "//evil.example", "\\\\evil", "https:evil", "a:b", "https://a b",
        "https://[bad", "https://a\u202eb",
    ],
)  # fmt: skip
def test_unsafe_links_are_refused(url: str) -> None:
    assert safe_url(url) is None


def test_headings_are_one_level_below_the_page_title() -> None:
    assert headings(RICH) == [(1, "A heading")]
    link = '<a class="permalink" href="#here" aria-label="Link to this heading">#</a>'
    assert f'<h2 id="here">A <em>heading</em>{link}</h2>' in to_html(RICH, ["here"])
    assert "<h2>A <em>heading</em></h2>" in to_html(RICH)
    assert "\n## A *heading*\n" in to_markdown(RICH)
    assert to_html(to_markdown(RICH)) == to_html(RICH)


def test_how_prose_is_written() -> None:
    assert "<pre" not in to_html("First.\n\n        Second.\n        Third.")  # an indented docstring
    page = to_html('[a](https://example.org "Say \\"it\\" <b>")')
    assert '<a href="https://example.org" rel="noreferrer" title="Say &quot;it&quot; &lt;b&gt;">a</a>' in page
    assert to_html("from **2.5e+03** to 1e-08, `1e-08`, a1e05.") == (
        "<p>from <strong>2.5e3</strong> to 1e-8, <code>1e-08</code>, a1e05.</p>\n"
    )
    assert readable_text(r"**Tensors** of $n \times n$ and `x`") == "Tensors of n × n and x"
    unbroken = to_html("With $a$, and $b$ more ($c$).")  # no line breaks between a formula and punctuation
    for letter, punctuation in (("a", ","), ("c", ").")):
        assert f"<mi>{letter}</mi></mrow></math>{punctuation}</span>" in unbroken
    assert unbroken.count('<span class="unbroken"><math>') == 2


def test_a_table_of_millions_of_cells_stays_text() -> None:
    assert to_html("a | b\n--|--\n1 | 2").count("<td>") == 2
    huge = to_html(f"{'|' * 2000}\n{'|'.join('-' * 2000)}\n" + "x\n" * 2000)
    assert "<td" not in huge and len(huge) < 50_000


# --- Markdown ---


def parts(text: str, kind: str) -> list[Token]:
    tokens = MarkdownIt().enable("table").parse(text)
    return [part for token in tokens for part in (token, *(token.children or [])) if part.type == kind]


def test_text_cannot_close_its_fence_or_code_span() -> None:
    for text in ("```", "````\nx", "`", "`a", "a ``b`` c", "~~~", "", "`` ` ``"):
        [token] = parts(fenced(text), "fence")
        assert token.content.rstrip("\n") == text.rstrip("\n")
        if text.strip() and "\n" not in text:
            assert [code.content for code in parts(f"a {code_span(text)}", "code_inline")] == [text]


def test_escaped_text_and_cells_are_shown_literally() -> None:
    for text in ("*a* _b_ `c` [d](e) <f> $g$ | ~~h~~ \\ &amp; &lt;", "a\\*b", "![x](y)"):
        [inline] = parts(f"x {escape(text)}", "inline")
        assert [c.type for c in inline.children or [] if c.type not in ("text", "text_special")] == []
        assert "".join(c.content for c in inline.children or []) == f"x {text}"
    cells = ["a | b", r"a \| b", "two\nlines", escape("|<b>|"), code_span("x | y")]
    assert len(parts(table(cells, [cells, cells]), "td_open")) == 2 * len(cells)
    assert table(["one"], []) == ""


@each("text", ["# no heading", "- no list\n- at all", "> no quote", "```", "a | b"])
def test_inline_markdown_keeps_block_markup_as_text(text: str) -> None:
    assert inline_markdown("the *size* of `x`") == "the *size* of `x`"
    inline = inline_markdown(text)
    for block in (f"- {inline}", f"### {inline}", table(["a"], [[inline]])):
        kinds = ("heading_open", "list_item_open", "blockquote_open", "fence", "td_open")
        assert sum(len(parts(block, kind)) for kind in kinds) == 1, block


# --- formulas ---

ENVIRONMENTS = ("aligned", "align*", "alignedat", "split", "gathered", "gather")


@each("environment", ENVIRONMENTS)
def test_lines_of_a_derivation_are_rows(environment: str) -> None:
    separator = "" if environment.startswith("gather") else "&"
    tex = rf"\begin{{{environment}}} C {separator}= 6ND \\ {separator}= 6 \cdot 70 \end{{{environment}}}"
    assert mathml(tex).count("<mtr") == 2
    assert "".join(fromstring(mathml(tex)).itertext()).replace(" ", "") == "C=6ND=6·70"


@each(
    ("tex", "expected"),
    [
        (r"\frac{a}{b}", "<mfrac>"),
        (r"a < b & c", "<mo>&lt;</mo>"),
        (r"\begin{aligned}[t] a &= b \end{aligned}", "<mtr"),
        (r"\text{head\_width}", "<mtext>head_width</mtext>"),
        (r"d_\text{in\_features}", "in_features"),
        (r"\mathrm{head\_dim}", "_"),
        (r"50\,\text{\% of } \$2", "<mtext>%"),
    ],
)
def test_formulas_are_mathml_without_backslashes(tex: str, expected: str) -> None:
    assert expected in mathml(tex) and "\\" not in mathml(tex)
    assert 'display="block"' in mathml(tex, display=True) and "<code" not in to_html(f"$${tex}$$")


@each("tex", [r"\unknown{x}", r"\href{x}{y}", r"\frac{a", "{" * 2_000])
def test_unsupported_formulas_are_shown_as_tex_with_a_remark(tex: str) -> None:
    shown = mathml(tex)
    assert shown.startswith('<code class="tex" title="') and fromstring(shown).text == tex


@each(
    ("tex", "text"),
    [
        ("6ND", "6ND"),
        (r"6 \times N \cdot D", "6 × N · D"),
        (r"\frac{\text{FLOP}}{\text{byte}}", "frac FLOP byte"),
        (r"2^{k-1} \le \sqrt{\mu}", "2^k-1 ≤ √μ"),
        (r"\text{head\_width}", "head_width"),
    ],
)
def test_formulas_have_a_plain_text_form(tex: str, text: str) -> None:
    assert readable(tex) == text


# --- code ---


@each(
    "source",
    [
        "",
        'x = """\ndef f(): pass\n"""\n@f\ndef g():\n    return x\n',
        "x = 1; y = 2\nz = 3; w = '''\n'''; v = 4\n",
        "def f(:\n    x = 'a\n'''\n",  # not Python
        "import a\n\n\n@a.b(\n    1,\n)\nclass C:\n    '''doc'''\n    @a\n    def f(self): ...\n",
        "x = 1\ny = '''a\rb\nz = 2\n'''\nw = 3\n",
        "x = '<script>&'  # </pre>\n",
    ],
)
def test_highlighting_keeps_the_text_of_each_line(source: str) -> None:
    lines = source.split("\n")
    shown = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in highlighted(tuple(lines))]
    assert shown == [line.replace("\r", "␍") for line in lines]


def test_strings_of_several_lines_are_highlighted() -> None:
    assert highlighted(('x = """', "def f(): pass", '"""'))[1] == '<span class="s">def f(): pass</span>'
