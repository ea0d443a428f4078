"""Formulas: which become MathML, which stay TeX, and their plain text for the search."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from tests.cases_in_one import each
from trace_tools.presentation.formulas import mathml, readable
from trace_tools.presentation.prose import to_html

MATHML = "{http://www.w3.org/1998/Math/MathML}"


def words(tex: str) -> str:
    """Return the text of a formula, which a parser reads from its MathML."""
    return "".join(fromstring(mathml(tex)).itertext())


def tags(tex: str) -> list[str]:
    return [part.tag.removeprefix(MATHML) for part in fromstring(mathml(tex)).iter()]


def test_formulas_are_mathml() -> None:
    assert "mfrac" in tags(r"\frac{a}{b}") and 'display="block"' in mathml("a", display=True)
    assert mathml(r"a < b & c").count("<mo>&lt;</mo>") == 1


@each("environment", ["aligned", "align*", "alignedat", "split", "gathered", "gather"])
def test_lines_of_a_derivation_are_rows(environment: str) -> None:
    separator = "" if environment.startswith("gather") else "&"
    tex = rf"\begin{{{environment}}} C {separator}= 6ND \\ {separator}= 6 \cdot 70 \end{{{environment}}}"
    assert tags(tex).count("mtr") == 2, mathml(tex)
    assert words(tex).replace(" ", "") == "C=6ND=6⋅70".replace("⋅", "·")


def test_alignments_accept_a_vertical_position() -> None:
    assert "mtr" in tags(r"\begin{aligned}[t] a &= b \end{aligned}")


@each(
    ("tex", "text"),
    [
        (r"\text{head\_width}", "head_width"),
        (r"d_\text{in\_features}", "din_features"),
        (r"\mathrm{head\_dim}", "head_dim"),
        (r"a\_b", "a_b"),
        (r"50\,\text{\% of } \$2", "50% of $2"),
    ],
)
def test_escaped_characters_are_shown_without_backslash(tex: str, text: str) -> None:
    assert words(tex).replace("\xa0", " ") == text


@each(
    "tex",
    [r"\unknown{x}", r"\href{x}{y}", "x" * 10_000, r"\def\a{x}\a", r"\newcommand{\a}{xx}\a", r"\frac{a", "{" * 2_000],
)
def test_unsupported_formulas_are_shown_as_tex_with_a_remark(tex: str) -> None:
    shown = mathml(tex)
    assert shown.startswith('<code class="tex" title="This formula could not be set; this is its TeX.">')
    assert fromstring(shown).text == tex


def test_macro_expansion_is_limited() -> None:
    doubled = "".join(rf"\newcommand{{\x{chr(98 + n)}}}{{\x{chr(97 + n)}\x{chr(97 + n)}}}" for n in range(24))
    assert mathml(rf"\newcommand{{\xa}}{{x}}{doubled}\xy").startswith("<code")


def test_formulas_in_prose() -> None:
    assert "<mtr>" in to_html("$$\n\\begin{aligned} a &= b \\\\ &= c \\end{aligned}\n$$")
    assert "<mtext>head_width</mtext>" in to_html("As $\\text{head\\_width}$ says.")


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
