"""Numbers and sentences that differed between runs: how pages show them without changing anything else."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.cases_in_one import each
from tests.pages.recording import of_section
from tests.pages.written import Page, html, markdown
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import run_facts
from trace_tools.presentation.markdown_text import to_markdown
from trace_tools.presentation.prose import to_html
from trace_tools.trace.model import Narrative, Process, Run, Scalar, Table, Text, Trace, Value, Varied

NUMBER = re.compile(r"\d[\d,.]*\d|\d")
RUN = Run("lecture.py", "2025", 0, 3, 100, complete=True, timed_runs=6)


def bare(html: str) -> str:
    """Remove the ranges of numbers from a text."""
    html = re.sub(r'<span role="tooltip".*?</span>', "", html)
    html = re.sub(r'<p><span class="ranges">.*?</span></p>\n| <span class="ranges">.*?</span>', "", html)
    return re.sub(r'<span class="varied".*?>(.*?)</span>', r"\1", html)


def one_step(*narrative: Narrative, code: str = "text(f'{x}')", **step: object) -> Trace:
    recording, f = of_section(code)
    recording.step(f, code, narrative=list(narrative), **step)
    return recording.trace(run=RUN)


def test_varied_numbers_have_accessible_range_tooltips() -> None:
    text = "Falls by a factor of **9.7**."
    shown = to_html(text, varied=[Varied(["9.7", "3.49", "4.22"], ["9.9", "8.0"], 23, 26)], prefix="range-7")
    tip = '<span role="tooltip" id="range-7-0">3.49 … 9.7 in 3 warm runs; first runs: 8.0 … 9.9</span>'
    assert f'<strong><span class="varied" tabindex="0" aria-describedby="range-7-0">9.7{tip}</span></strong>' in shown
    assert 'class="varied"' in to_html("It takes 9.7 GB.", varied=[Varied(["9.7", "3.5"], None, 9, 12)])
    expected = r"Falls by a factor of **9.7 \[3.49 … 9.7\]**."
    assert to_markdown(text, varied=[Varied(["9.7", "3.49"], None, 23, 26)]).strip() == expected


@each(
    "text",
    [
        "1. a list item of 2.5\n2. another",
        "3.5 % at the beginning, 4*2*3 and 5_6_7, $10 and 5$ and \\$3",
        "| a | 4.5 |\n|---|---:|\n| 5.5 | b |",
        "    7 in indented code\n\n```8\n9\n```",
        "`12.5 ms`, $x = 3.25$, $$y = 1$$ and [7.5](http://a.b/7.5), ![6](7.png)",
        "## Heading 6.5\n\n> quoted 3\n> 4\n\n- 5\n  - 6\n",
        "a &#52; entity, a\\\n8 break, <b>9</b> https://a.b/10",
        "11\n===\n\n[12]\n\n[12]: http://a.b/",
        "\n    an indented text of 14\n    and 15\n\tand 16 ~~17~~ *18*19",
    ],
)
def test_marking_numbers_does_not_change_the_text(text: str) -> None:
    varied = [Varied([m[0], "1"], ["2", "3"], m.start(), m.end()) for m in NUMBER.finditer(text)]
    page, written = to_html(text, varied=varied), to_markdown(text, varied=varied)
    assert bare(page) == to_html(text)
    assert not re.search("[\U000f0000-\U000ffffd]", page + written)
    for number in NUMBER.findall(text):  # each range is shown at its number or at the end
        assert re.search(rf">{re.escape(number)}<span role|[ >;]{re.escape(number)}: ", page), number


@each(
    ("samples", "cold", "expected"),
    [
        (["1,200", "900"], None, "900 … 1,200"),
        (["12%", "9%"], None, "9% … 12%"),
        (["fast", "slow", "fast"], None, "fast, slow"),
        (["4.2", "4.2"], ["9.7", "8.1"], "first runs: 8.1 … 9.7"),
        ([1.5, None], None, "1.5, –"),
    ],
)
def test_ranges_keep_the_format_of_the_runs(samples: list[Scalar], cold: list[Scalar] | None, expected: str) -> None:
    assert to_markdown("4", varied=[Varied(samples, cold, 0, 1)]).strip() == f"4 \\[{expected}\\]"


def test_table_cells_have_ranges() -> None:
    rows: list[list[Scalar]] = [["copy", 3.5], ["**add**", 4.25]]
    cells = [Varied([4.25, 5.5], [9.0], row=1, column=1), Varied(["a", "b"], row=0, column=0)]
    trace = one_step(Table(columns=["what", "ms"], rows=rows, varied=cells), code="table(rows)")
    tip = '<span role="tooltip" id="range-1-0">4.25 … 5.5 in 2 warm runs; first runs: 9</span>'
    assert f'aria-describedby="range-1-0">4.25{tip}</span></td>' in html(trace)
    assert "<td><strong>add</strong></td>" in html(trace)
    assert r"| **add** | 4.25 \[4.25 … 5.5\] |" in markdown(trace)


def test_texts_and_values_of_only_some_runs_are_labelled() -> None:
    trace = one_step(Text(text="It is *faster*.", others=[("It is **slower** <b>.", 1), ("Undecided.", 1)]))
    assert "This is the text of 4 of 6 runs." in Page(html(trace)).text("label")
    assert "*This is the text of 4 of 6 runs.*" in markdown(trace)
    some = one_step(Text(text="It is faster."), runs=4)
    assert "Said in 4 of 6 runs." in Page(html(some)).text("label") and "4 of 6 runs" in markdown(some)
    assert "3 of 6 runs" in html(one_step(Text(text="Fast.", others=[("Slow.", 1)]), runs=4))
    always = one_step(Text(text="It is."))
    assert "runs say" not in html(always) + markdown(always)
    value = Value("float", 2.5, varies=True, samples=[2.5, 3.5], cold_samples=[9.5, 9.75])
    page = Page(html(one_step(code="x = 1", values=[("x", value)], annotated=True)))
    assert "x = 2.5 … 3.5 · varies" in page.text("beside") and "first runs9.5, 9.75" in page.text("facts")


@each(("warm", "text"), [(None, "runs the lecture once"), (2, "runs the lecture twice")])
def test_the_machine_page_says_how_often_a_process_ran_the_lecture(warm: int | None, text: str) -> None:
    run = replace(RUN, processes=[Process("pass 1", "complete", cold_ns=1, warm_ns=warm)])
    assert dict(run_facts(make_document(replace(one_step(), run=run))))["passes"].endswith(text)
