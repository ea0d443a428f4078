r"""Write a report as Markdown for a pull request or a file: differences that matter in tables, the rest folded.

    markdown(report)                  "### A cpu → B nvidia-h200\n\n**2 differences that matter: …"
    markdown(report, comment=True)    within the length limit of a comment, with smaller headings
    figure_files(report.parts)        {"figures/roofs.svg": …}: the files that the report shows

A comment on current code hosts is limited to 65,536 characters, so a longer report is cut, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_tools.diff.report.report import Chart, Content, Grid, Part, Phrase, Report
from trace_tools.presentation.charts import svg
from trace_tools.presentation.markdown_text import code_span, escape, inline_markdown, table

LONGEST = 60_000  # characters of a comment


def markdown(report: Report, *, comment: bool = False) -> str:
    """Return the report; as a comment, within the length limit and with smaller headings."""
    level = 3 if comment else 1
    title = (inline_markdown(report.lecture) if report.lecture else "") + escape(report.title)
    blocks = [f"{'#' * level} {title}", *_blocks(report.parts, "#" * (level + 1))]
    blocks = [block for block in blocks if block]
    used = 0
    for count, block in enumerate(blocks if comment else ()):
        used += len(block) + 2
        if used > LONGEST:  # parts at the end that do not fit are left out, with a note
            kept = blocks[:count]
            folds = sum(block.startswith("<details>") - (block == "</details>") for block in kept)
            left = f"*{len(blocks) - count} more parts did not fit; see the HTML report.*"
            blocks = [*kept, *["</details>"] * folds, left]
            break
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def figure_files(parts: Sequence[Content]) -> dict[str, bytes]:
    """Return a report's figures by file name."""
    files: dict[str, bytes] = {}
    for part in parts:
        if isinstance(part, Chart):
            files[f"figures/{part.name}.svg"] = svg.standalone(part.svg).encode("utf-8")
        elif isinstance(part, Part):
            files |= figure_files(part.parts)
    return files


def _blocks(parts: Sequence[Content], marks: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Part) and part.folded:
            yield f"<details><summary>{escape(part.title)}</summary>"
            yield from _blocks(part.parts, marks)
            yield "</details>"
        elif isinstance(part, Part):
            yield f"{marks} {escape(part.title)}"
            yield from _blocks(part.parts, marks)
        elif isinstance(part, Chart):
            yield f"![{escape(part.title)}](figures/{part.name}.svg)"
        elif isinstance(part, Phrase):
            text = _phrase(part)
            yield f"> {text}" if part.style == "note" else f"**{text}**" if part.style.startswith("headline") else text
        elif isinstance(part, Grid) and part.kind == "list":
            yield "\n".join(f"- {_phrase(phrase)}" for [phrase] in part.rows)
        elif isinstance(part, Grid) and part.kind == "sides":
            yield "\n".join(f"- {s.text}: {code_span(s.code)}, {escape(s.soft)}" for [s] in part.rows)
        elif isinstance(part, Grid):
            yield _table(part, part.rows)
            if part.folded:
                yield f"<details><summary>{part.summary}</summary>"
                yield _table(part, part.folded)
                yield "</details>"
            yield f"*{part.rest}*" if part.rest else ""


def _table(grid: Grid, rows: Sequence[Sequence[Phrase]]) -> str:
    written = [[_phrase(cell) for cell in row] for row in rows]
    if grid.kind == "leads":
        differs = ["; ".join(text for text in (row[-1].text, row[-1].soft) if text) for row in rows]
        written = [[*row[:-1], escape(how)] for row, how in zip(written, differs, strict=True)]
    return table([escape(column) for column in grid.columns], written)


def _phrase(phrase: Phrase) -> str:
    """Write a phrase; its soft part follows the text or code."""
    text, code, soft = escape(phrase.text), code_span(phrase.code) if phrase.code else "", escape(phrase.soft)
    if phrase.link:
        return f"[{text}]({phrase.link})" + (f": {soft}" if soft else "")
    if phrase.style == "missing":
        return text
    if phrase.style == "best":
        text = f"● **{text}**"
    elif phrase.style == "worst":
        text = f"○ {text}"
    elif phrase.style == "strong" and text:
        text = f"**{text}**"
    if phrase.ratio:
        return f"{text} ({phrase.ratio})"
    if text:
        return " ".join(part for part in (text, soft) if part) + (f"<br>{code}" if code else "")
    return " ".join(part for part in (f"**{code}**" if phrase.style == "strong" else code, soft) if part)
