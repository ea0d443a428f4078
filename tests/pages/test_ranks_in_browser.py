"""The pages of a trace of several ranks, in a real browser. The expected values follow from arithmetic.

Rank r has the value 10 r + 3, and its statements take r + 1 ms. Only rank 1 adds one to the value, and only rank 0 runs
the second section. In the last section each rank calls a function with 10 r + 4.
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

pytestmark = pytest.mark.slow

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
PAGE_BYTES = 200_000  # the limit for a section's page


def value_of(rank: int) -> int:
    return 10 * rank + 3


def number(name: str, value: int) -> list[tuple[str, Value]]:
    return [(name, Value("int", value))]


def on_rank(rank: int, ranks: int) -> Trace:
    """Return the trace of one of `ranks` ranks."""
    recording, total = Recording(LECTURE), sum(map(value_of, range(ranks)))
    main = recording.frame("main")
    sums = recording.call(main, "sums()", "sums")
    times_ns = [1_000_000 * (rank + 1)] * 3
    recording.step(sums, "mine = ", values=number("mine", value_of(rank)), annotated=True, host_ns=times_ns)
    recording.step(sums, "total = ", values=number("total", total), annotated=True, host_ns=times_ns)
    recording.step(sums, "if rank", host_ns=times_ns)
    if rank == 1:
        recording.step(sums, "more = ", values=number("more", value_of(rank) + 1), annotated=True, host_ns=times_ns)
    sides = [*number("total", total), *number("mine", value_of(rank))]
    recording.step(sums, "assert", claim=Claim("total > mine", held=True, sides=sides))
    recording.step(sums, "text", narrative=[Text(text=f"This rank has {value_of(rank)}.")])
    recording.step(sums, "print", stdout=f"{value_of(rank)}\n")
    if rank == 0:
        recording.step(recording.call(main, "alone()", "alone"), "only = ", values=number("only", 7), annotated=True)
    ending = recording.call(main, "ending()", "ending")
    last = recording.step(
        ending, "last = ", values=number("last", value_of(rank) + 1), annotated=True, host_ns=times_ns
    )
    recording.step(recording.frame("given", last, arguments=number("x", value_of(rank) + 1)), "return x")
    return recording.trace()


def of_ranks(ranks: int) -> Trace:
    trace = joined({rank: on_rank(rank, ranks) for rank in range(ranks)})
    return replace(trace, run=replace(trace.run, ranks=ranks))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the trace of four ranks, whose values are 3, 13, 23 and 33, in sum 72."""
    out = tmp_path_factory.mktemp("ranks")
    render_site([SiteTrace(of_ranks(4), "cpu")], out)
    return out / "cpu"


def opened(browser: Any, page: Path, **options: Any) -> None:
    show(browser, page, **options)
    until(lambda: ask(browser, "document.getElementById('player').hidden === false"))


def beside(browser: Any, code: str) -> str:
    """Return the text next to the first line that starts with `code`."""
    script = "[...document.querySelectorAll('.row')].find(row => row.innerText.trim().startsWith(arguments[0]))"
    return str(ask(browser, f"{script}.querySelector('.beside')?.innerText ?? ''", code))


def variables(browser: Any) -> dict[str, str]:
    """Return the variables in the player's panel: name → text."""
    cells = "[...document.querySelectorAll('#panel .vars tr')].map(row => [...row.children].map(it => it.innerText))"
    return {name: text.split("\n")[0] for name, text in ask(browser, cells)}


def test_differing_values_are_shown_by_rank(browser: Any, pages: Path) -> None:
    opened(browser, pages / "00-sums.html")
    assert "by rank 1 ms to 4 ms" in beside(browser, "mine =") and "4 ms" in beside(browser, "total =")
    assert "total = 72" in beside(browser, "total =")
    assert "72 > 3 on rank 0" in beside(browser, "assert")
    assert "ran on rank 1 only" in beside(browser, "more =")
    press(browser, "l")
    assert variables(browser) == {"mine": "rank 0: 3; rank 1: 13; rank 2: 23; rank 3: 33"}
    opened(browser, pages / "01-alone.html")
    assert "ran on rank 0 only" in beside(browser, "only =")


def test_differing_arguments_have_a_row_for_each_rank(browser: Any, pages: Path) -> None:
    opened(browser, pages / "02-ending.html")
    rows = "[...document.querySelectorAll('.called .row .ranks tr')].map(row => row.innerText.split('\\t'))"
    assert ask(browser, rows) == [[f"rank {rank}", f"{value_of(rank) + 1}"] for rank in range(4)]
    until(lambda: ask(browser, "document.getElementById('machines').hidden === false"))
    browser.execute_script("document.querySelectorAll('#machines input')[2].click()")
    until(lambda: "≠ x 24" in ask(browser, "document.querySelector('.called .row .other')?.innerText ?? ''"))
    browser.execute_script("document.querySelectorAll('#machines input')[2].click()")
    press(browser, "ll")
    assert variables(browser)["x"] == "rank 0: 4; rank 1: 14; rank 2: 24; rank 3: 34"


@pytest.mark.slow
def test_only_eight_of_64_ranks_have_a_column(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(of_ranks(64), "cpu")], tmp_path)
    opened(browser, tmp_path / "cpu" / "00-sums.html", size=NARROW)
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    columns = ask(browser, "document.getElementById('machines').textContent")
    assert "8 of 64 ranks" in columns and "rank 7" in columns and "rank 8" not in columns
    assert all(page.stat().st_size <= PAGE_BYTES for page in (tmp_path / "cpu").rglob("*.html"))
