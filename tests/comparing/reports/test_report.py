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
from tests.comparing.report_cases import LECTURE, between, deep, hostile, planted, recorded
from tests.pretend_gpu import pretend_gpu
from tests.rendering.recording import Recording
from trace_tools.comparing.difference import Difference, Setting
from trace_tools.comparing.reports.along import Along, Execution, Observed, along
from trace_tools.comparing.reports.report_html import difference_html, figures_of
from trace_tools.comparing.reports.report_markdown import LONGEST, difference_markdown
from trace_tools.comparing.reports.report_text import side_text
from trace_tools.schema import Value


def beside_gpu() -> Difference:
    cpu = recorded()
    return between(cpu, pretend_gpu(cpu))


@cache
def page_of(make: Callable[[], Difference]) -> str:
    return difference_html(make())


def executions(laid: Along) -> list[Execution]:
    passages = (passage for section in laid.sections for passage in section.passages)
    return [execution for passage in passages for place in passage.places for execution in place.executions]


def observed(laid: Along) -> list[Observed]:
    return [o for execution in executions(laid) for o in execution.observed]


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
    text = difference_markdown(planted())
    assert headings(text)[1:] == ["Claims", "Values", "Memory"]
    assert text.index("**Differences that matter: 1 claim") < text.index("#### Claims")
    claim = next(line for line in text.splitlines() if "claim flipped" in line)
    assert "lecture.py:13 first<br>`assert y.shape == (2, 3)`" in claim
    assert "@inspect" not in text  # code is shown as the pages show it


def test_markdown_of_the_same_trace_says_that_nothing_matters() -> None:
    text = difference_markdown(between(recorded(), recorded()))
    assert "**No differences" in text
    assert headings(text) == ["A cpu → B cpu"]


def test_markdown_says_what_was_set_differently_and_which_functions_changed() -> None:
    edited = LECTURE.replace("torch.ones(3, 2)", "torch.zeros(3, 2)")
    difference = replace(
        between(recorded(), recorded(text=edited)), settings=(Setting("version", "torch", "2.12|", None),)
    )
    text = difference_markdown(difference)
    assert "| version: torch | 2.12\\| | – |" in text
    assert "| `make` | `make` | edited |" in text


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
    text = difference_markdown(between(*sides))
    assert len(text) <= LONGEST + 200
    assert "385 more, 25 of them here" in text
    assert text.count("<details>") == text.count("</details>")


def test_along_the_lecture_every_section_has_its_title_and_both_sides() -> None:
    laid = along(planted())
    assert [section.title for section in laid.sections] == ["Around the sections", "first", "second"]
    stride = next(o for o in observed(laid) if o.name == "y.stride()")
    assert (stride.a, stride.b, stride.verdict, stride.level) == ("'(1, 2)'", "'(3, 1)'", "changed", 2)
    same = next(o for o in observed(laid) if o.name == "total")
    assert (same.a, same.b, same.verdict, same.level) == ("7 FLOP", None, "same", 0)


def test_of_a_loop_the_executions_that_differ_are_shown_and_the_rest_counted() -> None:
    second = along(planted()).sections[2].passages[0].places[0]
    assert [execution.number for execution in second.executions] == [21]
    assert second.more == 39
    quiet = along(between(recorded(), recorded())).sections[2].passages[0].places[0]
    assert [execution.number for execution in quiet.executions] == [1, 40]  # first and last


def test_a_page_without_room_keeps_all_that_matters() -> None:
    difference = between(recorded(), recorded(z={n: -1 for n in range(30)}))
    laid = along(difference, most=5)
    mattering = {row.number for row in difference.rows if row.matters}
    assert mattering <= laid.rows and len(mattering) == 30
    assert laid.left_out > 0


def test_calls_deeper_than_python_recurses_are_laid_out() -> None:
    difference = deep()
    laid = along(difference)
    [changed] = [row.number for row in difference.rows if row.matters]
    assert changed in laid.rows
    assert f'id="r{changed}"' in difference_html(difference)


def test_what_only_one_side_has_says_which() -> None:
    longer = LECTURE.replace("    assert y", "    extra = 1  # @inspect extra\n    assert y")
    laid = along(between(recorded(), recorded(text=longer)))
    assert all(execution.only == "" for execution in executions(laid))  # nothing executed the new line
    shorter = recorded(z={})
    gone = replace(shorter, steps=shorter.steps[:-3])
    alone = [execution for execution in executions(along(between(shorter, gone))) if execution.only]
    assert [(execution.only, execution.number) for execution in alone] == [("A", 38), ("A", 39), ("A", 40)]


def test_an_edited_line_has_its_place_on_both_sides() -> None:
    swapped = along(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    place = next(p for s in swapped.sections for q in s.passages for p in q.places if p.edited)
    assert place.a_line == place.b_line == 14


def test_edited_lines_stand_side_by_side() -> None:
    page = difference_html(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
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
    titles = [title for title, _ in figures_of(difference)]
    assert len(titles) == 3 and "rooflines" in titles[1]
    assert "Pretend GPU (made up for tests)" in side_text(difference.b)
    assert difference_html(difference) == page  # the same bytes again


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
    text = difference_markdown(hostile())
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
    page = difference_html(same)
    assert "Nothing: no setting, claim, value, time, memory figure or step differs in a way that matters." in page


def test_a_report_says_when_a_slowdown_could_have_gone_unseen() -> None:
    noisy, calm = (differ(made(0, noise=noise), made(1, noise=noise)) for noise in (0.3, 0.01))
    for report in (difference_markdown, difference_html):
        assert re.search(r"time: 20% more or less can go unseen with 3 passes; about \d+ would find it", report(noisy))
        assert "can go unseen" not in report(calm)
