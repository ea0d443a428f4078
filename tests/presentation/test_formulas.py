"""Formulas: what becomes MathML, what stays TeX and says so, and how they read in the search."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from tests.cases_in_one import each
from trace_tools.presentation.formulas import mathml, readable
from trace_tools.presentation.prose import to_html

MATHML = "{http://www.w3.org/1998/Math/MathML}"


def words(tex: str) -> str:
    """The text of a formula that was set: a parser's reading of the MathML."""
    return "".join(fromstring(mathml(tex)).itertext())


def tags(tex: str) -> list[str]:
    return [part.tag.removeprefix(MATHML) for part in fromstring(mathml(tex)).iter()]


def test_formulas_are_mathml() -> None:
    assert "mfrac" in tags(r"\frac{a}{b}") and 'display="block"' in mathml("a", display=True)
    assert mathml(r"a < b & c").count("<mo>&lt;</mo>") == 1


@each("environment", ["aligned", "align*", "alignedat", "split", "gathered", "gather"])
def test_lines_of_a_derivation_are_rows(environment: str) -> None:
    and_ = "" if environment.startswith("gather") else "&"
    tex = rf"\begin{{{environment}}} C {and_}= 6ND \\ {and_}= 6 \cdot 70 \end{{{environment}}}"
    assert tags(tex).count("mtr") == 2, mathml(tex)
    assert words(tex).replace(" ", "") == "C=6ND=6⋅70".replace("⋅", "·")


def test_an_alignment_may_say_where_it_hangs() -> None:
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
def test_escaped_letters_are_themselves(tex: str, text: str) -> None:
    assert words(tex).replace("\xa0", " ") == text


@each(
    "tex",
    [r"\unknown{x}", r"\href{x}{y}", "x" * 10_000, r"\def\a{x}\a", r"\newcommand{\a}{xx}\a", r"\frac{a", "{" * 2_000],
)
def test_what_can_not_be_set_is_its_tex_and_says_so(tex: str) -> None:
    shown = mathml(tex)
    assert shown.startswith('<code class="tex" title="This formula could not be set; this is its TeX.">')
    assert fromstring(shown).text == tex


def test_macros_can_not_grow_a_formula_without_end() -> None:
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
def test_a_formula_reads_as_text(tex: str, text: str) -> None:
    assert readable(tex) == text
