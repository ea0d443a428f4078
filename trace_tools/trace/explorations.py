"""Parse the sentence of an `explore`, and check that its parts fit together.

places("In {days}. {fits?It fits.|It does not.}")    ["In ", ("days",), ". ", ("fits", ["It fits."], […])]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_tools.trace.model import Exploration

MOST_ROWS = 200  # most rows of a menu
LONGEST_NAME, LONGEST_SENTENCE = 200, 5_000  # characters
DEEPEST = 20  # placeholders inside placeholders

Parts = list["str | tuple[str] | tuple[str, Parts, Parts]"]


def places(text: str) -> Parts:
    """Return the parts of a sentence of `explore`: texts, (name,), and (result, parts if true, parts if false).

    Raises ValueError for braces that are not closed or nested too deeply.
    """

    def read(at: int, ends: str, depth: int) -> tuple[Parts, int]:
        parts: Parts = []
        mark = re.compile(f"[{{{ends}]")
        while True:
            match = mark.search(text, at)
            after = match.start() if match else len(text)
            if after > at:
                parts.append(text[at:after])
            if match is None or match[0] != "{":
                if match is None and ends:
                    raise ValueError("a { has no }")
                return parts, after
            name = re.compile(r"[^{}?|]*").match(text, after + 1)
            assert name is not None
            at = name.end()
            if depth == DEEPEST or at == len(text) or text[at] not in "}?":
                raise ValueError("a { has no }" if depth < DEEPEST else f"placeholders nested {DEEPEST} levels deep")
            if text[at] == "}":
                parts.append((name[0],))
            else:
                then, at = read(at + 1, "|", depth + 1)
                otherwise, at = read(at + 1, "}", depth + 1)
                parts.append((name[0], then, otherwise))
            at += 1

    return read(0, "", 0)[0]


def why_unexplorable(narrative: Exploration, says: str) -> str | None:
    """Return the first inconsistency in an exploration; None if all parts fit together."""
    results = {one.name: one.value for one in narrative.results}
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
