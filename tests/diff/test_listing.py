"""Both sides along the lecture: nothing that matters is lost, the rest is counted."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.report_cases import LECTURE, between, deep, html_of, planted, recorded
from trace_tools.diff.report.entries import ReportEntry
from trace_tools.diff.report.listing import ListedStatement, Listing, listing_of


def statements(listing: Listing) -> list[ListedStatement]:
    return [at for section in listing.sections for call in section.calls for at in call.statements]


def observed(listing: Listing) -> list[ReportEntry]:
    return [entry for of_row in listing.entries.values() for entry in of_row]


def test_sections_have_titles_and_both_sides() -> None:
    laid = listing_of(planted())
    titles = [section.title for section in laid.sections]
    assert titles == [
        "Outside the sections",
        "Tensors and their strides",
        "A loop",
    ]
    stride = next(o for o in observed(laid) if o.name == "y.stride()")
    assert (stride.a, stride.b, stride.verdict, stride.level) == ("'(1, 2)'", "'(3, 1)'", "changed", 2)
    same = next(o for o in observed(laid) if o.name == "total")
    assert (same.a, same.b, same.verdict, same.level) == ("7 FLOP", None, "same", 0)


def test_loops_show_differing_executions_and_count_the_rest() -> None:
    second = listing_of(planted()).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in second.rows] == [21]
    assert second.more == 39
    quiet = listing_of(between(recorded(), recorded())).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in quiet.rows] == [1, 40]  # first and last


def test_a_small_page_keeps_important_differences() -> None:
    difference = between(recorded(), recorded(z={n: -1 for n in range(30)}))
    laid = listing_of(difference, most=5)
    mattering = {row.number for row in difference.rows if row.matters}
    assert mattering <= laid.rows and len(mattering) == 30
    assert laid.left_out > 0


def test_very_deep_calls_are_listed() -> None:
    difference = deep()
    laid = listing_of(difference)
    [changed] = [row.number for row in difference.rows if row.matters]
    assert changed in laid.rows
    assert f'id="r{changed}"' in html_of(difference)


def test_steps_of_one_side_are_marked() -> None:
    longer = LECTURE.replace("    assert y", "    extra = 1  # @inspect extra\n    assert y")
    both = statements(listing_of(between(recorded(), recorded(text=longer))))
    assert all(row.a and row.b for at in both for row in at.rows)  # nothing executed the new line
    shorter = recorded(z={})
    gone = replace(shorter, steps=shorter.steps[:-3])
    difference = between(shorter, gone)
    alone = [row for at in statements(listing_of(difference)) for row in at.rows if row.b is None]
    assert [row.step.execution for row in alone] == [38, 39, 40]
    assert html_of(difference).count('<span class="label only">only in A</span>') == 3


def test_edited_lines_have_numbers_of_both_sides() -> None:
    swapped = listing_of(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    [edited] = [at for at in statements(swapped) if at.rows[0].edited]
    assert [(mark, number) for mark, number, _ in edited.code] == [("−", 14), ("+", 14)]
