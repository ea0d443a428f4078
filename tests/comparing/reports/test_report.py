"""The diff's Markdown and HTML: what was planted leads, nothing that matters is lost, nothing gets out."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from tests.comparing.planted import differ, made
from tests.comparing.report_cases import LECTURE, between, deep, hostile, html_of, markdown_of, planted, recorded
from tests.pretend_gpu import pretend_gpu
from tests.rendering.recording import Recording
from trace_tools.comparing.difference import Difference, SettingChange
from trace_tools.comparing.reports.difference_report import charts_of, side_text
from trace_tools.comparing.reports.entries import ReportEntry
from trace_tools.comparing.reports.listing import ListedStatement, Listing, listing_of
from trace_tools.comparing.reports.markdown import LONGEST
from trace_tools.schema import Value


def beside_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


@cache
def page_of(make: Callable[[], Difference]) -> str:
    return html_of(make())


def statements(listing: Listing) -> list[ListedStatement]:
    return [at for section in listing.sections for call in section.calls for at in call.statements]


def observed(listing: Listing) -> list[ReportEntry]:
    return [entry for said in listing.said.values() for entry in said]


def tags(page: str) -> list[tuple[str, str | None]]:
    """Return every attribute of a page, as the standard library's parser reads it."""
    found: list[tuple[str, str | None]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.extend(attributes)  # type: ignore[method-assign]
    parser.feed(page)
    return found


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def test_markdown_leads_with_what_matters_in_order() -> None:
    text = markdown_of(planted())
    assert headings(text)[1:] == ["Claims", "Values", "Memory"]
    assert text.index("**Differences that matter: 1 claim") < text.index("#### Claims")
    claim = next(line for line in text.splitlines() if "claim flipped" in line)
    assert "lecture.py:13 first<br>`assert y.shape == (2, 3)`" in claim
    assert "@inspect" not in text  # code is shown as the pages show it


def test_markdown_of_the_same_trace_says_that_nothing_matters() -> None:
    text = markdown_of(between(recorded(), recorded()))
    assert "**No differences" in text
    assert headings(text) == ["A cpu → B cpu"]


def test_markdown_says_what_was_set_differently_and_which_functions_changed() -> None:
    edited = LECTURE.replace("torch.ones(3, 2)", "torch.zeros(3, 2)")
    difference = replace(
        between(recorded(), recorded(text=edited)), settings=(SettingChange("version", "torch", "2.12|", None),)
    )
    text = markdown_of(difference)
    assert "| version: torch | 2.12\\| | – |" in text
    assert "| edited | `make` | `make` |" in text


def test_markdown_fits_a_comment_whatever_differs() -> None:
    many = {f"x{n}": "y" * 110 for n in range(400)}
    lecture = "def main():\n" + "".join(f"    {name} = 1  # @inspect {name}\n" for name in many)
    sides = []
    for end in ("1", "2"):
        made = Recording(lecture)
        main = made.frame("main")
        for name, text in many.items():
            made.step(main, f"{name} =", values=[(name, Value("str", text + end))])
        sides.append(made.trace())
    text = markdown_of(between(*sides))
    assert len(text) <= LONGEST + 200
    assert "385 more, 25 of them here" in text
    assert text.count("<details>") == text.count("</details>")


def test_along_the_lecture_every_section_has_its_title_and_both_sides() -> None:
    laid = listing_of(planted())
    titles = [section.title for section in laid.sections]
    assert titles == [
        "Around the sections",
        "Tensors and their strides",
        "A loop",
    ]
    stride = next(o for o in observed(laid) if o.name == "y.stride()")
    assert (stride.a, stride.b, stride.verdict, stride.level) == ("'(1, 2)'", "'(3, 1)'", "changed", 2)
    same = next(o for o in observed(laid) if o.name == "total")
    assert (same.a, same.b, same.verdict, same.level) == ("7 FLOP", None, "same", 0)


def test_of_a_loop_the_executions_that_differ_are_shown_and_the_rest_counted() -> None:
    second = listing_of(planted()).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in second.rows] == [21]
    assert second.more == 39
    quiet = listing_of(between(recorded(), recorded())).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in quiet.rows] == [1, 40]  # first and last


def test_a_page_without_room_keeps_all_that_matters() -> None:
    difference = between(recorded(), recorded(z={n: -1 for n in range(30)}))
    laid = listing_of(difference, most=5)
    mattering = {row.number for row in difference.rows if row.matters}
    assert mattering <= laid.rows and len(mattering) == 30
    assert laid.left_out > 0


def test_calls_deeper_than_python_recurses_are_laid_out() -> None:
    difference = deep()
    laid = listing_of(difference)
    [changed] = [row.number for row in difference.rows if row.matters]
    assert changed in laid.rows
    assert f'id="r{changed}"' in html_of(difference)


def test_what_only_one_side_has_says_which() -> None:
    longer = LECTURE.replace("    assert y", "    extra = 1  # @inspect extra\n    assert y")
    both = statements(listing_of(between(recorded(), recorded(text=longer))))
    assert all(row.a and row.b for at in both for row in at.rows)  # nothing executed the new line
    shorter = recorded(z={})
    gone = replace(shorter, steps=shorter.steps[:-3])
    difference = between(shorter, gone)
    alone = [row for at in statements(listing_of(difference)) for row in at.rows if row.b is None]
    assert [row.step.execution for row in alone] == [38, 39, 40]
    assert html_of(difference).count('<span class="label only">only in A</span>') == 3


def test_an_edited_line_has_its_place_on_both_sides() -> None:
    swapped = listing_of(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    [edited] = [at for at in statements(swapped) if at.rows[0].edited]
    assert [(mark, number) for mark, number, _ in edited.code] == [("−", 14), ("+", 14)]


def test_edited_lines_stand_side_by_side() -> None:
    page = html_of(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    lines = re.findall(r'class="l (minus|plus)">.*?<code>(.*?)</code>', page)
    assert [(mark, re.sub("<[^>]+>", "", code)) for mark, code in lines] == [
        ("minus", "total = 7"),
        ("plus", "total = 8"),
    ]


def test_a_cpu_beside_a_gpu_has_ratios_figures_and_no_verdicts() -> None:
    difference = beside_gpu()
    page = page_of(beside_gpu)
    assert "Times of annotated steps, as ratios" in page
    assert not difference.matters
    titles = [chart.title for chart in charts_of(difference)]
    assert len(titles) == 3 and "rooflines" in titles[1]
    assert "Pretend GPU (made up for tests)" in side_text(difference.b)
    assert html_of(difference) == page  # the same bytes again


@pytest.mark.parametrize("make", [planted, hostile])
def test_a_page_allows_its_own_style_and_script_and_nothing_else(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        allowed = re.search(rf"{rule} ([^;]+)", policy[1].replace("&#39;", "'"))
        assert allowed is not None and allowed[1] == f"'sha256-{digest}'"
    attributes = tags(page)
    assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]
    links = [value or "" for name, value in attributes if name in ("href", "src", "action")]
    assert all(link.startswith("#") or link == "data:," for link in links)


def test_hostile_markdown_stays_text() -> None:
    text = markdown_of(hostile())
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", outside)


@pytest.mark.parametrize("make", [planted, beside_gpu])
def test_every_link_of_a_page_leads_somewhere(make: Callable[[], Difference]) -> None:
    page = page_of(make)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_a_difference_of_nothing_is_a_page_that_says_so() -> None:
    same: Difference = between(recorded(), recorded())
    page = html_of(same)
    assert "Nothing: no setting, claim, value, time, memory figure or step differs in a way that matters." in page


def test_a_report_says_when_a_slowdown_could_have_gone_unseen() -> None:
    noisy, calm = (differ(made(0, noise=noise), made(1, noise=noise)) for noise in (0.3, 0.01))
    for report in (markdown_of, html_of):
        assert re.search(r"time: 20% more or less can go unseen with 3 passes; about \d+ would find it", report(noisy))
        assert "can go unseen" not in report(calm)
