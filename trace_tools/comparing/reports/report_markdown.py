"""A difference → Markdown for a pull request: what matters in tables, the rest folded.

    difference_markdown(difference)     "### A cpu → B nvidia-h200\\n\\n**2 differences that matter: …"

One comment holds at most 65,536 characters on the code hosts in use, so tables are cut, saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trace_tools import formats
from trace_tools.comparing.difference import Difference
from trace_tools.comparing.matching.functions import FunctionMatch
from trace_tools.comparing.reports.entries import Entry, headline, repeated
from trace_tools.comparing.reports.report_text import change_text, code_of, how_judged, leading, notes, side_text
from trace_tools.comparing.wording import setting_sides
from trace_tools.rendering.markdown_text import code_span, escape, table

LONGEST = 60_000  # characters of the whole
ROWS = 15  # of a table that leads
FOLDED_ROWS = 25


def difference_markdown(difference: Difference) -> str:
    """Return the report; never longer than a comment may be."""
    a, b = difference.a, difference.b
    code = code_of(difference)
    parts = [
        f"### A {escape(a.label)} → B {escape(b.label)}",
        f"**{escape(headline(difference))}**",
        f"- A: {code_span(formats.one_line(a.name, 160))}, {escape(side_text(a))}\n"
        f"- B: {code_span(formats.one_line(b.name, 160))}, {escape(side_text(b))}",
        *(f"> {escape(note)}" for note in notes(difference)),
        *_settings(difference),
        *(part for _, title, lines in leading(difference) for part in _leading(title, lines, code)),
        *_functions(difference.functions),
        *_how(difference),
    ]
    return _within(parts)


def _settings(difference: Difference) -> Iterator[str]:
    """Yield what was set differently, and under each setting where the lecture repeats it."""
    if not difference.settings:
        return
    yield "#### Set or installed differently"
    rows = []
    for setting, places in zip(difference.settings, repeated(difference), strict=True):
        a, b = setting_sides(setting)
        also = f"<br>so: {escape(', '.join(places))}" if places else ""
        name = formats.one_line(setting.name, 60)
        rows.append([f"{escape(f'{setting.group}: {name}')}{also}", _side(a), _side(b)])
    yield table(["", "A", "B"], rows)


def _side(text: str | None) -> str:
    return "–" if text is None else escape(formats.one_line(text, 160))


def _leading(title: str, lines: Sequence[Entry], code: Callable[[int], str]) -> Iterator[str]:
    """Yield a table of what matters most, the rest folded."""
    yield f"#### {title}"
    yield _table(lines[:ROWS], code)
    rest = lines[ROWS:]
    if rest:
        cut = f", {FOLDED_ROWS} of them here" if len(rest) > FOLDED_ROWS else ""
        yield f"<details><summary>{len(rest):,} more{cut}</summary>"
        yield _table(rest[:FOLDED_ROWS], code)
        yield "</details>"


def _table(lines: Sequence[Entry], code: Callable[[int], str]) -> str:
    return table(["where", "what", "A", "B", "how it differs"], [_row(line, code) for line in lines])


def _row(line: Entry, code: Callable[[int], str]) -> list[str]:
    place = f"{escape(line.path)}:{line.line} {escape(line.function)}"
    what = "time" if line.aspect == "time" else "code" if line.verdict == "edited" else code_span(line.name)
    return [f"{place}<br>{code_span(code(line.row))}", what, _side(line.a), _side(line.b), escape(change_text(line))]


def _functions(functions: Sequence[FunctionMatch]) -> Iterator[str]:
    """Say which functions were edited, renamed, moved, or are only on one side."""
    changed = [match for match in functions if match.how != "same"]
    if changed:
        yield "#### Functions"
        rows = [
            [_name(match.a), _name(match.b), escape(match.how), formats.percent(match.similarity)]
            for match in changed[:FOLDED_ROWS]
        ]
        yield table(["A", "B", "", "alike"], rows)
        if len(changed) > FOLDED_ROWS:
            yield f"*{len(changed) - FOLDED_ROWS:,} more*"


def _name(function: str | None) -> str:
    return "–" if function is None else code_span(formats.one_line(function, 80))


def _how(difference: Difference) -> Iterator[str]:
    lines = list(how_judged(difference))
    if lines:
        yield "<details><summary>How it was judged</summary>"
        yield "\n".join(f"- {escape(line)}" for line in lines)
        yield "</details>"


def _within(parts: Sequence[str]) -> str:
    """Join the parts; those at the end that a comment has no room for are left out, saying so."""
    kept: list[str] = []
    used = 0
    for place, part in enumerate(parts):
        used += len(part) + 2
        if used > LONGEST:
            folds = sum(p.startswith("<details>") - (p == "</details>") for p in kept)
            kept += ["</details>"] * folds
            kept.append(f"*{len(parts) - place} more parts did not fit; the HTML report has all.*")
            break
        kept.append(part)
    return "\n\n".join(part.strip("\n") for part in kept if part) + "\n"
