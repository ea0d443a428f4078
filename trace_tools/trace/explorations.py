"""Check that the parts of an `explore` fit together, and parse its sentence.

places("In {days}. {fits?It fits.|It does not.}")    ["In ", ("days",), ". ", ("fits", ["It fits."], […])]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_tools.trace import arithmetic
from trace_tools.trace.model import SCALES, Exploration

MOST_ROWS = 200  # most rows of a menu
LARGEST_NUMBER = 1e300  # largest number that a figure can show
LONGEST_NAME, LONGEST_SENTENCE = 200, 5_000  # characters

_NAME = r"[^{}?|]*"
_PLACE = re.compile(rf"\{{({_NAME})(?:\?((?:[^{{}}|]|\{{{_NAME}\}})*+)\|((?:[^{{}}]|\{{{_NAME}\}})*+))?\}}")

Parts = list["str | tuple[str] | tuple[str, Parts, Parts]"]


def places(text: str) -> Parts:
    """Return the parts of a sentence of `explore`: texts, (name,), and (result, parts if true, parts if false).

    Raises ValueError for braces that are not closed, or a choice inside a choice.
    """
    parts: Parts = []
    at = 0
    for place in (*_PLACE.finditer(text), None):
        before = text[at : place.start() if place else None]
        if "{" in before:
            raise ValueError("a { has no }, or begins a choice inside another")
        if before:
            parts.append(before)
        if place is not None:
            name, then, otherwise = place.groups()
            parts.append((name,) if then is None else (name, places(then), places(otherwise)))
            at = place.end()
    return parts


def why_unexplorable(exploration: Exploration, says: str) -> str | None:
    """Return the first mistake in an exploration; None if a page can show it, with its formula as a script."""
    return _why_uncallable(exploration) or _why_unshown(exploration, says)


def _why_uncallable(exploration: Exploration) -> str | None:
    for menu in exploration.menus:
        if not 1 <= len(menu.rows) <= MOST_ROWS:
            return f"{menu.label} has {len(menu.rows)} rows; expected 1 to {MOST_ROWS}"
        for row, numbers in menu.rows:
            if len(numbers) != len(menu.columns) or not all(abs(number) <= LARGEST_NUMBER for number in numbers):
                return f"{row} has {numbers}; expected {len(menu.columns)} finite numbers"
    columns = [column for menu in exploration.menus for column in menu.columns]
    inputs = [*exploration.inputs, *columns]
    try:
        taken, returned = arithmetic.shape_of(exploration.formula)
    except arithmetic.NotArithmetic as error:
        return f"found no formula: {error}"
    names = [one.name for one in inputs]
    if sorted(names) != sorted(exploration.parameters) or taken != len(names):
        listed = ", ".join(exploration.parameters)
        return f"found numbers for {', '.join(names)}; expected one for each parameter, {listed}"
    if exploration.results and returned != len(exploration.results):
        return f"found {len(exploration.results)} results; expected {returned}, as the formula returns"
    for one in inputs:
        limits = -LARGEST_NUMBER <= one.low < one.high <= LARGEST_NUMBER  # nan is not
        if not limits or not one.low <= one.value <= one.high:
            return f"{one.name} is {one.value:g}; expected a number from {one.low:g} to {one.high:g}"
        if one.scale not in SCALES or (one.scale == "log" and one.low <= 0):
            return f"{one.name} has the scale {one.scale} from {one.low:g}; expected more than 0 for a logarithm"
    shown = [exploration.name, *names, *(one.label for one in inputs), *(one.label for one in exploration.results)]
    shown += [label for menu in exploration.menus for label in (menu.label, *(row for row, _ in menu.rows))]
    if long := next((name for name in shown if len(name) > LONGEST_NAME), None):
        return f"a name has {len(long):,} characters; expected at most {LONGEST_NAME}"
    return None


def _why_unshown(narrative: Exploration, says: str) -> str | None:
    results = {one.name: one.value for one in narrative.results}
    if not results or not all(abs(value) <= LARGEST_NUMBER for value in results.values()):
        return f"found the results {results}; expected finite numbers"
    inputs, menus = {one.name for one in narrative.inputs}, {menu.label for menu in narrative.menus}
    names = {*results, *narrative.parameters, *menus}

    def unknown(parts: Parts) -> Iterator[str]:
        for name, *branches in (part for part in parts if not isinstance(part, str)):
            if name not in names:
                yield f"the sentence uses {name}; expected one of {', '.join(sorted(names))}"
            elif branches and not isinstance(results.get(name), bool):
                yield f"the sentence has a choice by {name}; expected a result that is true or false"
            for branch in branches:
                yield from unknown(branch)

    if len(says) > LONGEST_SENTENCE:
        return f"the sentence has {len(says):,} characters; expected at most {LONGEST_SENTENCE:,}"
    try:
        if wrong := next(unknown(places(says)), None):
            return wrong
    except ValueError as error:
        return f"the sentence: {error}"
    numbers = [name for name, value in results.items() if not isinstance(value, bool)]
    for name in narrative.stack or ():
        if name not in numbers:
            return f"the stack has {name}; expected results that are numbers: {', '.join(numbers)}"
    if narrative.limit is not None and (
        narrative.limit not in {*numbers, *narrative.parameters} or not narrative.stack
    ):
        return f"the limit is {narrative.limit}; expected a number, and a stack to compare it with"
    if narrative.curve is not None and (
        narrative.curve[0] not in inputs or narrative.curve[1] not in numbers or narrative.stack
    ):
        return f"the curve is {', '.join(narrative.curve)}; expected an input and a result, without a stack"
    if narrative.across is not None and narrative.across not in menus:
        return f"across is {narrative.across}; expected a menu"
    return None
