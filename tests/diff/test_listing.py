"""Listing of both sides in the order of the lecture: it keeps every row that matters and counts the rest."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.report_cases import LECTURE, between, deep, html_of, planted, recorded
from trace_tools.diff.report.entries import ReportEntry
from trace_tools.diff.report.listing import ListedStatement, Listing, listing_of


def statements(listing: Listing) -> list[ListedStatement]:
    return [statement for section in listing.sections for call in section.calls for statement in call.statements]


def observed(listing: Listing) -> list[ReportEntry]:
    return [entry for row_entries in listing.entries.values() for entry in row_entries]


def test_listing_has_section_titles_and_both_sides() -> None:
    listing = listing_of(planted())
    titles = [section.title for section in listing.sections]
    assert titles == [
        "Outside the sections",
        "Tensors and their strides",
        "A loop",
    ]
    stride = next(o for o in observed(listing) if o.name == "y.stride()")
    assert (stride.a, stride.b, stride.verdict, stride.level) == ("'(1, 2)'", "'(3, 1)'", "changed", 2)
    total = next(o for o in observed(listing) if o.name == "total")
    assert (total.a, total.b, total.verdict, total.level) == ("7 FLOP", None, "same", 0)


def test_loops_show_differing_executions_and_count_the_rest() -> None:
    loop_body = listing_of(planted()).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in loop_body.rows] == [21]
    assert loop_body.more == 39
    unchanged = listing_of(between(recorded(), recorded())).sections[2].calls[0].statements[0]
    assert [row.step.execution for row in unchanged.rows] == [1, 40]  # first and last


def test_limited_listing_keeps_every_row_that_matters() -> None:
    difference = between(recorded(), recorded(z={n: -1 for n in range(30)}))
    listing = listing_of(difference, most=5)
    mattering = {row.number for row in difference.rows if row.matters}
    assert mattering <= listing.rows and len(mattering) == 30
    assert listing.left_out > 0


def test_listing_supports_calls_beyond_the_recursion_limit() -> None:
    difference = deep()
    listing = listing_of(difference)
    [changed] = [row.number for row in difference.rows if row.matters]
    assert changed in listing.rows
    assert f'id="r{changed}"' in html_of(difference)


def test_rows_of_only_one_side_are_labelled() -> None:
    longer = LECTURE.replace("    assert y", "    extra = 1  # @inspect extra\n    assert y")
    unexecuted = statements(listing_of(between(recorded(), recorded(text=longer))))
    assert all(row.a and row.b for statement in unexecuted for row in statement.rows)  # nothing ran the new line
    complete = recorded(z={})
    shortened = replace(complete, steps=complete.steps[:-3])
    difference = between(complete, shortened)
    only_in_a = [row for statement in statements(listing_of(difference)) for row in statement.rows if row.b is None]
    assert [row.step.execution for row in only_in_a] == [38, 39, 40]
    assert html_of(difference).count('<span class="label only">only in A</span>') == 3


def test_edited_line_has_line_numbers_of_both_sides() -> None:
    listing = listing_of(between(recorded(), recorded(text=LECTURE.replace("total = 7", "total = 8"), total=8)))
    [edited] = [statement for statement in statements(listing) if statement.rows[0].edited]
    assert [(mark, number) for mark, number, _ in edited.code] == [("−", 14), ("+", 14)]
