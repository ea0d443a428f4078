"""A figure that answers back: as the lecture has it, a sentence and a table; in a browser `exploring.js` adds the rest.

    as_html(narration)          Markup('<figure class="explore" id="said-3">…</figure>')
    as_markdown(narration)      'It takes **143.9 days**.\\n\\n| … |'
    script({"said-3": it})      'const explored = [{"said-3": …}, …];', what they are, and their formulas in JavaScript

What the script needs to know of a figure is data; of a formula only what `arithmetic.javascript` writes is code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

from trace_tools import arithmetic, formats
from trace_tools.explorations import Places, places
from trace_tools.rendering import prose
from trace_tools.rendering.document import Narration
from trace_tools.rendering.markdown_text import escape as escaped
from trace_tools.rendering.markdown_text import inline_markdown, joined, table
from trace_tools.schema import Exploration, Input, Result

OWN = "my own"  # a row of a menu

Text = Callable[[str], str]


def as_html(said: Narration) -> Markup:
    """Return the figure with the lecture's numbers."""
    it, told = said.narrative, said.narrative.exploration
    if told is None:
        return Markup("")
    caption = Markup("<figcaption>{}</figcaption>").format(Markup(prose.inline_html(it.title))) if it.title else ""
    row = Markup('<tr><th scope="row">{}</th><td class="right">{}</td></tr>')
    group = Markup('<tbody class="{}"><tr><th scope="colgroup" colspan="2">{}</th></tr>{}</tbody>')
    rows = [
        group.format(name, title, Markup("").join(row.format(*cells) for cells in found))
        for name, title, found in (("given", "Given", _given(told)), ("found", "Results", _found(told)))
    ]
    parts = Markup('<figure class="explore" id="said-{}">{}<p class="answer">{}</p>{}</figure>\n')
    box = Markup('<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>{}</table></div>')
    answer = Markup(sentence(told, it.text or "", lambda text: str(escape(formats.visible(text))), "<b>{}</b>"))
    return parts.format(said.number, caption, answer, box.format(Markup("").join(rows)))


def as_markdown(said: Narration) -> str:
    """Return its sentence and its table."""
    it, told = said.narrative, said.narrative.exploration
    if told is None:
        return ""
    rows = [[escaped(label), escaped(value)] for label, value in (*_given(told), *_found(told))]
    title = f"**{inline_markdown(it.title)}**" if it.title else ""
    return joined([title, sentence(told, it.text or "", escaped, "**{}**"), table(["given, and results", ""], rows)])


def sentence(told: Exploration, says: str, plain: Text = str, place: str = "{}") -> str:
    """Return what it says of the lecture's numbers; `plain` escapes text, `place` marks what stands in a place."""
    decimal = _is_decimal(told)
    values: dict[str, str] = {menu.label: menu.rows[0][0] for menu in told.menus}
    values |= {one.name: shown(one, decimal) for one in _inputs(told)}
    values |= {one.name: shown(one, decimal) for one in told.results}
    truths = {one.name: one.value is True for one in told.results}

    def read(parts: Places) -> Iterator[str]:
        for part in parts:
            if isinstance(part, str):
                yield plain(part)
            elif len(part) == 1:
                yield place.format(plain(values[part[0]]))
            else:
                yield from read(part[1] if truths[part[0]] else part[2])

    return "".join(read(places(says)))


def shown(one: Input | Result, decimal: bool) -> str:
    """Write a number with its unit, as `exploring.js` does."""
    value, unit = one.value, one.unit
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not unit:
        return formats.number(float(value)).removesuffix(".0")
    return formats.percent(value) if unit == "%" else formats.quantity(float(value), unit, decimal=decimal)


def script(figures: Mapping[str, Narration]) -> str:
    """Return what brings a page's figures, by their ids, to life; "" where there are none."""
    told = {place: (it.narrative.exploration, it.narrative.text or "") for place, it in figures.items()}
    known = {place: (one, says) for place, (one, says) in told.items() if one is not None}
    if not known:
        return ""
    data = json.dumps({place: _visible(_data(one, says)) for place, (one, says) in known.items()})
    return f"const explored = [{data}, {arithmetic.javascript([one.formula for one, _ in known.values()])}];\n"


def _inputs(told: Exploration) -> list[Input]:
    return [*told.inputs, *(column for menu in told.menus for column in menu.columns)]


def _is_decimal(told: Exploration) -> bool:
    """Whether bytes are written with SI's prefixes: as the lecture's numbers of bytes were declared."""
    given = [one.value for one in told.inputs if one.unit in formats.BYTE_UNITS]
    for menu in told.menus:
        for number, column in enumerate(menu.columns):
            given += [row[number] for _, row in menu.rows if column.unit in formats.BYTE_UNITS]
    return formats.is_decimal(given)


def _given(told: Exploration) -> list[tuple[str, str]]:
    decimal = _is_decimal(told)
    rows = [(menu.label, menu.rows[0][0]) for menu in told.menus]
    rows += [(one.label, shown(one, decimal)) for one in told.inputs]
    rows += [(one.label, shown(one, decimal)) for menu in told.menus if menu.own for one in menu.columns]
    return [(formats.one_line(label, 200), formats.one_line(value, 200)) for label, value in rows]


def _found(told: Exploration) -> list[tuple[str, str]]:
    decimal = _is_decimal(told)
    return [(formats.one_line(one.label, 200), formats.one_line(shown(one, decimal), 200)) for one in told.results]


def _data(told: Exploration, says: str) -> dict[str, Any]:
    """Return what the script needs to know."""
    decimal = _is_decimal(told)

    def about(one: Input | Result) -> dict[str, Any]:
        known: dict[str, Any] = {
            "name": one.name,
            "label": one.label,
            "unit": one.unit or "",
            **_ladder(one.unit, decimal),
        }
        if isinstance(one, Input):
            known |= {
                "value": one.value,
                "low": one.low,
                "high": one.high,
                "log": one.scale == "log",
                "whole": one.whole,
            }
        return known

    menus = [
        {"label": menu.label, "columns": [*map(about, menu.columns)], "rows": menu.rows, "own": OWN if menu.own else ""}
        for menu in told.menus
    ]
    return {
        "name": told.name,
        "says": places(says),
        "parameters": told.parameters,
        "inputs": [*map(about, told.inputs)],
        "menus": menus,
        "results": [*map(about, told.results)],
        "stack": told.stack,
        "limit": told.limit,
        "curve": told.curve,
        "across": told.across,
    }


def _visible(data: Any) -> Any:
    """Return plain data in which no text reorders or hides what is beside it, names as well: they agree as before."""
    if isinstance(data, dict):
        return {key: _visible(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [*map(_visible, data)]
    return formats.visible(data) if isinstance(data, str) else data


def _ladder(unit: str | None, decimal: bool) -> dict[str, Any]:
    """Return how numbers of a unit are written: the prefixes, from the largest on, that `formats.quantity` takes."""
    if unit in formats.BYTE_UNITS:
        prefixes = formats.SI if decimal else formats.IEC
        return {"ladder": [*((factor, f"{prefix}B") for factor, prefix in prefixes), (0, "B")]}
    if unit in ("s", "seconds"):
        return {"ladder": [*formats.TIMES, (0, "ns")], "times": 1e9}
    if unit in formats.SI_UNITS:
        written = formats.RATES.get(unit, unit)
        return {"ladder": [*((factor, prefix + written) for factor, prefix in formats.SI), (0, written)], "most": 1e21}
    return {}
