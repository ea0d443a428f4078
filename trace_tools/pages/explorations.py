r"""Show a figure with inputs: a sentence and a table with the lecture's numbers; `explore.js` adds the inputs.

    sentence_html(it), tables(it.exploration)    what `narratives.html.j2` writes
    as_markdown(it)                              'It takes **143.9 days**.\n\n| … |'
    script({"said-3": it})      'page.explored = [{"said-3": …}, …];', the figures and their formulas in JavaScript

The script receives a figure as data. Only formulas, written by `trace.explorations`, are code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup, escape

from trace_tools.presentation.markdown_text import escape as escaped
from trace_tools.presentation.markdown_text import folded, inline_markdown, joined, table
from trace_tools.trace.explorations import Exploration, Input, Parts, Result, javascript, places
from trace_tools.trace.model import Explore
from trace_tools.util import formats

OWN = "custom"  # a row of a menu

Tables = list[tuple[str, str, list[tuple[str, str]]]]


def as_markdown(it: Explore) -> str:
    """Return its sentence, and its tables folded."""
    rows = [[escaped(label), escaped(value)] for _, _, lines in tables(it.exploration) for label, value in lines]
    title = f"**{inline_markdown(it.title)}**" if it.title else ""
    numbers = joined(folded("Given and results", [table(["", ""], rows)]))
    return joined([title, sentence(it.exploration, it.text, escaped, "**{}**"), numbers])


def sentence_html(it: Explore) -> Markup:
    """Return its sentence with the lecture's numbers as HTML."""
    return Markup(sentence(it.exploration, it.text, lambda text: str(escape(text)), "<b>{}</b>"))


def sentence(exploration: Exploration, says: str, plain: Callable[[str], str] = str, form: str = "{}") -> str:
    """Return the sentence with the lecture's numbers; `plain` escapes text, `form` wraps each inserted value."""
    decimal = _is_decimal(exploration)
    values: dict[str, str] = {menu.label: menu.rows[0][0] for menu in exploration.menus}
    columns = [column for menu in exploration.menus for column in menu.columns]
    numbers: list[Input | Result] = [*exploration.inputs, *columns, *exploration.results]
    values |= {one.name: shown(_brief(one), decimal) for one in numbers}
    truths = {one.name: one.value is True for one in exploration.results}

    def read(parts: Parts) -> Iterator[str]:
        for part in parts:
            if isinstance(part, str):
                yield plain(part)
            elif len(part) == 1:
                yield form.format(plain(values[part[0]]))
            else:
                yield from read(part[1] if truths[part[0]] else part[2])

    return "".join(read(places(says)))


def _brief(one: Input | Result) -> Input | Result:
    """Round a result to two digits: a sentence about an estimate promises no more. A small count stays as it is."""
    if not isinstance(one, Result) or isinstance(one.value, bool):
        return one
    is_small_whole = abs(one.value) < 1000 and float(one.value).is_integer()
    return one if is_small_whole else replace(one, value=float(f"{one.value:.2g}"))


def shown(one: Input | Result, decimal: bool) -> str:
    """Format a number with its unit, as `explore.js` does."""
    value, unit = one.value, one.unit
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not unit:
        return formats.number(float(value)).removesuffix(".0")
    return formats.percent(value) if unit == "%" else formats.quantity(float(value), unit, decimal=decimal)


def script(figures: Mapping[str, Explore]) -> str:
    """Return the script with the data of a page's figures, keyed by id; "" without figures."""
    if not figures:
        return ""
    data = json.dumps({identity: _data(it.exploration, it.text) for identity, it in figures.items()})
    return f"page.explored = [{data}, {javascript([it.exploration.formula for it in figures.values()])}];\n"


def _is_decimal(exploration: Exploration) -> bool:
    """Return whether bytes are written with SI prefixes, as the lecture's own numbers of bytes are."""
    numbers = [(one.unit, one.value) for one in exploration.inputs]
    for menu in exploration.menus:
        for _, row in menu.rows:
            numbers += [(column.unit, value) for column, value in zip(menu.columns, row, strict=True)]
    return formats.is_decimal([value for unit, value in numbers if unit in formats.BYTE_UNITS])


def tables(exploration: Exploration) -> Tables:
    """Return the figure's two tables: name, title, and rows of a label and a text."""
    decimal = _is_decimal(exploration)
    given = [(menu.label, menu.rows[0][0]) for menu in exploration.menus]
    own = (one for menu in exploration.menus if menu.own for one in menu.columns)
    given += [(one.label, shown(one, decimal)) for one in (*exploration.inputs, *own)]
    plain = [Result(one.name, one.label, one.value) if one.unit == one.label else one for one in exploration.results]
    found = [(one.label, shown(one, decimal)) for one in plain]
    return [("given", "Given", given), ("found", "Results", found)]


def _data(exploration: Exploration, says: str) -> dict[str, Any]:
    """Return the figure as data for the script."""
    decimal = _is_decimal(exploration)

    def about(one: Input | Result) -> dict[str, Any]:
        data = {"name": one.name, "label": one.label, "unit": one.unit or "", **_ladder(one.unit, decimal)}
        if isinstance(one, Input):
            data |= {"value": one.value, "low": one.low, "high": one.high, "whole": one.whole}
            data["log"] = one.scale == "log"
        return data

    menus = [
        {"label": menu.label, "columns": [*map(about, menu.columns)], "rows": menu.rows, "own": OWN if menu.own else ""}
        for menu in exploration.menus
    ]
    data = {name: getattr(exploration, name) for name in ("name", "parameters", "stack", "limit", "curve", "across")}
    inputs, results = [*map(about, exploration.inputs)], [*map(about, exploration.results)]
    return {**data, "says": places(says), "inputs": inputs, "menus": menus, "results": results}


def _ladder(unit: str | None, decimal: bool) -> dict[str, Any]:
    """Return how numbers of a unit are written: the prefixes of `formats.quantity`, largest first."""
    if unit in formats.BYTE_UNITS:
        prefixes = formats.SI if decimal else formats.IEC
        return {"ladder": [*((factor, f"{prefix}B") for factor, prefix in prefixes), (0, "B")]}
    if unit in ("s", "seconds"):
        return {"ladder": [*formats.TIMES, (0, "ns")], "times": 1e9}
    if unit in formats.SI_UNITS:
        written = formats.RATES.get(unit, unit)
        return {"ladder": [*((factor, prefix + written) for factor, prefix in formats.SI), (0, written)], "most": 1e21}
    return {}
