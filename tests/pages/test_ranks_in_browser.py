"""A trace of several ranks in a real browser: what each of them had beside a line follows from arithmetic.

Rank r has 10 r + 3 and takes r + 1 ms; only rank 1 adds one to it, and only rank 0 comes to the second section. In the
last one each calls a function with 10 r + 4.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, press, show, until
from tests.pages.recording import Recording
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Text, Trace, Value
from trace_tools.trace.ranks import joined

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
    made.step(sums, "text", narrative=[Text(text=f"This rank has {mine(rank)}.")])
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


def beside(browser: Any, code: str) -> str:
    """Return what stands beside a line."""
    script = "[...document.querySelectorAll('.row')].find(row => row.innerText.trim().startsWith(arguments[0]))"
    return str(ask(browser, f"{script}.querySelector('.beside')?.innerText ?? ''", code))


def variables(browser: Any) -> dict[str, str]:
    """Return what the player's panel shows."""
    cells = "[...document.querySelectorAll('#panel .vars tr')].map(row => [...row.children].map(it => it.innerText))"
    return {name: text.split("\n")[0] for name, text in ask(browser, cells)}


def test_what_differs_has_each_rank_beside_its_line(browser: Any, pages: Path) -> None:
    opened(browser, pages / "00-sums.html")
    assert "by rank 1 ms to 4 ms" in beside(browser, "mine =") and "4 ms" in beside(browser, "total =")
    assert "total = 72" in beside(browser, "total =")
    assert "72 > 3 on rank 0" in beside(browser, "assert")
    assert "ran on rank 1 only" in beside(browser, "more =")
    press(browser, "l")
    assert variables(browser) == {"mine": "rank 0: 3; rank 1: 13; rank 2: 23; rank 3: 33"}
    opened(browser, pages / "01-alone.html")
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


@pytest.mark.slow
def test_of_64_ranks_eight_have_a_column_and_the_page_says_so(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(of_ranks(64), "cpu")], tmp_path)
    opened(browser, tmp_path / "cpu" / "00-sums.html", size=NARROW)
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    columns = ask(browser, "document.getElementById('machines').textContent")
    assert "8 of 64 ranks" in columns and "rank 7" in columns and "rank 8" not in columns
    assert all(page.stat().st_size <= PAGE_BYTES for page in (tmp_path / "cpu").rglob("*.html"))
