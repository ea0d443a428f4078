"""The switch between ranks, in a real browser: what a page says as each of them had it follows from arithmetic.

Rank r has 10 r + 3 and takes r + 1 ms; only rank 1 adds one to it, and only rank 0 comes to the second section. In the
last one each calls a function with 10 r + 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rendering.browsing import NARROW, ask, press, show, until
from tests.rendering.recording import Recording
from trace_tools.publishing.site import SiteTrace, render_site
from trace_tools.ranks import joined
from trace_tools.schema import Claim, Narrative, Trace, Value

LECTURE = '''\
def main():
    sums()
    alone()
    ending()


def sums():
    """What all have together"""
    mine = 10 * rank + 3  # @inspect mine
    total = added(mine)  # @inspect total
    if rank == 1:
        more = mine + 1  # @inspect more
    assert total > mine
    text(f"This rank has {mine}.")
    print(mine)


def alone():
    only = 7  # @inspect only


def ending():
    last = given(10 * rank + 4)  # @inspect last


def given(x):  # @inspect x
    return x
'''
PAGE_BYTES = 200_000  # that a section's page may have
ESCAPE = "\ue00c"


def mine(rank: int) -> int:
    return 10 * rank + 3


def number(name: str, value: int) -> list[tuple[str, Value]]:
    return [(name, Value("int", value))]


def on_rank(rank: int, ranks: int) -> Trace:
    """Return what one rank of so many did."""
    made, total = Recording(LECTURE), sum(map(mine, range(ranks)))
    main = made.frame("main")
    sums = made.call(main, "sums()", "sums")
    took = [1_000_000 * (rank + 1)] * 3
    made.step(sums, "mine = ", values=number("mine", mine(rank)), annotated=True, host_ns=took)
    made.step(sums, "total = ", values=number("total", total), annotated=True, host_ns=took)
    made.step(sums, "if rank", host_ns=took)
    if rank == 1:
        made.step(sums, "more = ", values=number("more", mine(rank) + 1), annotated=True, host_ns=took)
    sides = [*number("total", total), *number("mine", mine(rank))]
    made.step(sums, "assert", claim=Claim("total > mine", held=True, sides=sides))
    made.step(sums, "text", narrative=[Narrative("text", text=f"This rank has {mine(rank)}.")])
    made.step(sums, "print", stdout=f"{mine(rank)}\n")
    if rank == 0:
        made.step(made.call(main, "alone()", "alone"), "only = ", values=number("only", 7), annotated=True)
    ending = made.call(main, "ending()", "ending")
    last = made.step(ending, "last = ", values=number("last", mine(rank) + 1), annotated=True, host_ns=took)
    made.step(made.frame("given", last, arguments=number("x", mine(rank) + 1)), "return x")
    return made.trace()


def of_ranks(ranks: int) -> Trace:
    made = joined({rank: on_rank(rank, ranks) for rank in range(ranks)})
    return replace(made, run=replace(made.run, ranks=ranks))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks, which have 3, 13, 23 and 33: 72 together."""
    out = tmp_path_factory.mktemp("ranks")
    render_site([SiteTrace(of_ranks(4), "cpu")], out)
    return out / "cpu"


def opened(browser: Any, page: Path, **how: Any) -> None:
    show(browser, page, **how)
    until(lambda: ask(browser, "document.getElementById('player').hidden === false"))


def switched(browser: Any, act: Callable[[], object], page: Path) -> None:
    """Do what leads to another page, and wait for its player."""
    act()
    until(lambda: ask(browser, "location.href.split('#')[0]") == page.as_uri())
    until(lambda: ask(browser, "document.getElementById('player')?.hidden === false"))


def click(browser: Any, name: str) -> None:
    browser.execute_script(
        "[...document.querySelectorAll('.as-rank a')].find(a => a.lastChild.textContent === arguments[0]).click()", name
    )


def beside(browser: Any, code: str) -> str:
    """Return what stands beside a line."""
    script = "[...document.querySelectorAll('.row')].find(row => row.innerText.trim().startsWith(arguments[0]))"
    return str(ask(browser, f"{script}.querySelector('.beside')?.innerText ?? ''", code))


def variables(browser: Any) -> dict[str, str]:
    """Return what the player's panel shows."""
    cells = "[...document.querySelectorAll('#panel .vars tr')].map(row => [...row.children].map(it => it.innerText))"
    return {name: text.split("\n")[0] for name, text in ask(browser, cells)}


@pytest.mark.parametrize("rank", range(4))
def test_the_whole_page_is_as_a_rank_had_it(browser: Any, pages: Path, rank: int) -> None:
    opened(browser, pages / "00-sums.html")
    assert "by rank 1 ms to 4 ms" in beside(browser, "mine =") and "4 ms" in beside(browser, "total =")
    switched(browser, lambda: click(browser, f"{rank}"), pages / f"rank{rank}" / "00-sums.html")
    assert f"mine = {mine(rank)}" in beside(browser, "mine =") and "by rank" not in beside(browser, "mine =")
    assert f"{rank + 1} ms" in beside(browser, "mine =")
    assert "total = 72" in beside(browser, "total =")
    assert f"72 > {mine(rank)}" in beside(browser, "assert")
    text = ask(browser, "document.getElementById('text').innerText")
    assert f"This rank has {mine(rank)}." in text and f"as rank {rank} of 4 had it" in text
    assert ask(browser, "document.querySelector('.under pre').innerText") == f"{mine(rank)}"
    assert beside(browser, "more =") == ("more = 14\n2 ms ± 0%" if rank == 1 else "")
    assert ask(browser, "document.querySelector('.as-rank [aria-current]').innerText").endswith(f"{rank}")
    assert f"rank {rank}" in ask(browser, "document.title")


def test_a_claim_says_whose_sides_it_shows(browser: Any, pages: Path) -> None:
    opened(browser, pages / "00-sums.html")
    assert "72 > 3 on rank 0" in beside(browser, "assert")


def test_stepping_goes_on_at_the_same_step_of_another_rank(browser: Any, pages: Path) -> None:
    """The fifth step is the claim on every rank, though only one of them made the fourth."""
    opened(browser, pages / "00-sums.html")
    press(browser, "l")
    assert variables(browser) == {"mine": "rank 0: 3; rank 1: 13; rank 2: 23; rank 3: 33"}
    press(browser, "llll")
    assert "step 5 / 7" in ask(browser, "document.getElementById('step-now').innerText")
    switched(browser, lambda: press(browser, "r"), pages / "rank0" / "00-sums.html")
    for rank in (1, 2):
        switched(browser, lambda: press(browser, "r"), pages / f"rank{rank}" / "00-sums.html")
        until(lambda: ask(browser, "location.hash") == "#step-5")
        assert "step 5 / 7" in ask(browser, "document.getElementById('step-now').innerText")
        assert ask(browser, "document.querySelector('.row.current').innerText").startswith("assert")
        known = {"mine": f"{mine(rank)}", "total": "72"} | ({"more": "14"} if rank == 1 else {})
        assert variables(browser) == known
    press(browser, "h")  # the step before it is not the fourth, which rank 2 did not make
    assert "step 3 / 7" in ask(browser, "document.getElementById('step-now').innerText")
    switched(browser, lambda: press(browser, "R"), pages / "rank1" / "00-sums.html")
    press(browser, "l")
    assert variables(browser) == {"mine": "13", "total": "72", "more": "14"}
    press(browser, ESCAPE)


def test_the_lecture_hall_goes_on_at_the_same_line(browser: Any, pages: Path) -> None:
    opened(browser, pages / "rank2" / "00-sums.html")
    press(browser, "llp")
    spot = "document.querySelector('.hall .spot')?.innerText ?? ''"
    until(lambda: "total = 72" in ask(browser, spot))
    until(lambda: ask(browser, "location.hash").endswith("-2"))
    assert ask(browser, "document.querySelector('.as-rank').checkVisibility()")
    assert not ask(browser, "document.getElementById('search-open').checkVisibility()")
    press(browser, "h")
    until(lambda: "mine = 23" in ask(browser, spot))
    until(lambda: ask(browser, "location.hash").endswith("-1"))
    switched(browser, lambda: press(browser, "r"), pages / "rank3" / "00-sums.html")
    until(lambda: "mine = 33" in ask(browser, spot))


def test_the_choice_stays_from_section_to_section(browser: Any, pages: Path) -> None:
    """And what a rank did not come to is passed over, with the reason in the switch."""
    opened(browser, pages / "rank1" / "00-sums.html")
    following = "document.querySelector('.turn [rel=next]').click()"
    switched(browser, lambda: browser.execute_script(following), pages / "rank1" / "02-ending.html")
    assert "last = 14" in beside(browser, "last =")
    opened(browser, pages / "01-alone.html")
    assert ask(browser, "[...document.querySelectorAll('.as-rank a')].map(a => a.lastChild.textContent)") == [
        "all",
        "0",
    ]
    told = ask(browser, "[...document.querySelectorAll('.as-rank .none')].map(one => one.textContent)")
    assert told == [f"rank {rank} did not run this section" for rank in (1, 2, 3)]
    assert "ran on rank 0 only" in beside(browser, "only =")


def test_an_argument_that_differs_has_a_row_for_each_rank(browser: Any, pages: Path) -> None:
    opened(browser, pages / "02-ending.html")
    rows = "[...document.querySelectorAll('.called .row .ranks tr')].map(row => row.innerText.split('\\t'))"
    assert ask(browser, rows) == [[f"rank {rank}", f"{mine(rank) + 1}"] for rank in range(4)]
    until(lambda: ask(browser, "document.getElementById('machines').hidden === false"))
    browser.execute_script("document.querySelectorAll('#machines input')[2].click()")
    until(lambda: "≠ x 24" in ask(browser, "document.querySelector('.called .row .other')?.innerText ?? ''"))
    browser.execute_script("document.querySelectorAll('#machines input')[2].click()")
    press(browser, "ll")
    assert variables(browser)["x"] == "rank 0: 4; rank 1: 14; rank 2: 24; rank 3: 34"
    opened(browser, pages / "rank2" / "02-ending.html")
    assert "x = 24" in beside(browser, "def given")


def test_reading_goes_on_at_the_same_line(browser: Any, pages: Path) -> None:
    opened(browser, pages / "00-sums.html", size=(900, 200))
    script = "[...document.querySelectorAll('.row')].find(row => row.innerText.trim().startsWith('assert'))"
    browser.execute_script(f"document.documentElement.style.scrollBehavior = 'auto'; {script}.scrollIntoView()")
    line = "#" + ask(browser, f"{script}.id")
    switched(browser, lambda: click(browser, "3"), pages / "rank3" / "00-sums.html")
    assert ask(browser, "location.hash") in (line, f"#L{int(line[2:]) - 1}")  # the line above is half in sight
    assert "72 > 33" in beside(browser, "assert")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_asks_for_nothing_else_and_fits_a_small_screen(browser: Any, pages: Path, scheme: str) -> None:
    page = pages / "rank1" / "00-sums.html"
    opened(browser, page, size=NARROW, scheme=scheme)
    press(browser, "ll")
    assert ask(browser, "document.querySelector('.as-rank').checkVisibility()")
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    there = {path.as_uri() for path in (page, page.with_suffix(".js"), page.with_name("section.js"))}
    assert {url for url in asked if not url.startswith("data:")} == there
    assert browser.get_log("browser") == []


def test_of_64_ranks_eight_are_offered_and_the_page_says_so(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(of_ranks(64), "cpu")], tmp_path)
    opened(browser, tmp_path / "cpu" / "00-sums.html", size=NARROW)
    names = ask(browser, "[...document.querySelectorAll('.as-rank > *')].map(one => one.lastChild.textContent)")
    assert names == ["rank", "all", *map(str, range(8)), "of 64"]
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    assert "Of 64 ranks, 8 have a column" in ask(browser, "document.getElementById('machines').innerText")
    show(browser, tmp_path / "cpu" / "index.html", size=NARROW)
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    assert not (tmp_path / "cpu" / "rank8").exists()
    assert all(page.stat().st_size <= PAGE_BYTES for page in (tmp_path / "cpu").rglob("*.html"))
