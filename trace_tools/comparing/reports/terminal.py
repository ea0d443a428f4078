"""A Difference → a report that fits a screen, what matters first.

print_report(difference, Console())
print_report(difference, Console(), everything=True)  # nothing folded
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from trace_tools import formats
from trace_tools.comparing.difference import Aspect, Difference, Side
from trace_tools.comparing.reports.entries import (
    Entry,
    blocks,
    code_changes,
    entries,
    headline,
    quiet_counts,
    settings_texts,
    time_sentence,
)
from trace_tools.comparing.reports.report_text import LEADS

SHOWN = 4  # entries of an aspect, where not everything is shown
NOTES = 3

TITLES: dict[Aspect, str] = {
    "claims": "Claims",
    "values": "Values",
    "memory": "Memory",
    "flops": "FLOPs and bytes",
    "time": "Time, by time lost or gained",
    "steps": "Steps",
    "output": "Output",
}
STYLES = {
    "claim flipped": "bold red",
    "changed": "yellow",
    "slower": "red",
    "faster": "green",
    "only in A": "magenta",
    "only in B": "cyan",
    "edited": "yellow",
}


def print_report(difference: Difference, console: Console, *, everything: bool = False) -> None:
    """Write the report to a console, as wide as it is."""
    shown = None if everything else SHOWN
    for letter, side in (("A", difference.a), ("B", difference.b)):
        _line(console, Text.assemble((f"{letter}  ", "bold"), _side(side)))
    style = "bold red" if difference.matters else "bold yellow" if difference.time_not_judged else "bold green"
    _whole(console, Text(headline(difference), style=style))
    _before(difference, console, everything=everything)
    for aspect, lead, found in blocks(difference, everything=everything):
        _listing(console, LEADS if lead else TITLES[aspect], found, shown)
    if not difference.same_machine and not everything and "time" not in difference.ignored:
        ratios = [e for e in entries(difference, "time", everything=True) if e.verdict == "ratio"]
        _listing(console, TITLES["time"], ratios, SHOWN)
    _after(difference, console)


def _whole(console: Console, text: Text) -> None:
    """Write on as many lines as it takes: a difference is never cut."""
    console.print(text, overflow="fold", highlight=False)


def _line(console: Console, text: Text) -> None:
    console.print(text, no_wrap=True, overflow="ellipsis", crop=True, highlight=False)


def _side(side: Side) -> str:
    run, machine = side.trace.run, side.trace.machine
    torch = dict(side.trace.versions).get("torch")
    parts = [
        side.name,
        machine.name,
        formats.plural(run.passes, "pass") if run.passes == 1 else f"{run.passes} passes",
        *([f"torch {torch}"] if torch else []),
        run.started,
        *([] if run.complete else ["PARTIAL"]),
    ]
    return " · ".join(formats.one_line(part, 100) for part in parts)


def _before(difference: Difference, console: Console, *, everything: bool) -> None:
    """Write what differed before anything ran: it may explain all the rest."""
    _listed(console, "Settings", settings_texts(difference), None if everything else 6)
    _listed(console, "Code", code_changes(difference), None if everything else 6)
    for note in difference.notes[: None if everything else NOTES]:
        _whole(console, Text.assemble(("Note  ", "bold"), (formats.one_line(note, 300), "yellow")))
    if len(difference.notes) > NOTES and not everything:
        _line(console, Text(f"      and {len(difference.notes) - NOTES} more notes", style="dim"))


def _listed(console: Console, title: str, phrases: Sequence[str], most: int | None) -> None:
    if not phrases:
        return
    more = [f"and {len(phrases) - most} more"] if most is not None and len(phrases) > most else []
    text = "; ".join([*phrases[:most], *more])
    console.print(Text.assemble((f"{title}  ", "bold"), text), highlight=False)


def _listing(console: Console, title: str, found: Sequence[Entry], most: int | None) -> None:
    if not found:
        return
    _line(console, Text(title, style="bold underline"))
    for entry in found[:most]:
        where, change = _entry(entry)
        _line(console, where)
        _whole(console, change)
    if most is not None and len(found) > most:
        _line(console, Text(f"  … and {len(found) - most:,} more (--all)", style="dim"))


def _entry(entry: Entry) -> tuple[Text, Text]:
    """Write where an entry is, and what it was and is."""
    style = STYLES.get(entry.verdict, "")
    where = Text.assemble("  ", (f"{entry.path}:{entry.line}", "bold"), f" {entry.function}  ", (entry.code, "dim"))
    times = f" (× {entry.executions:,})" if entry.executions > 1 else ""
    change = " → ".join(side if side is not None else "–" for side in (entry.a, entry.b)) if entry.a or entry.b else ""
    detail = "" if entry.detail is None or entry.detail == change else entry.detail
    if detail.startswith(change):
        change = ""
    follows = f"explains {entry.follows:,} more" if entry.follows else ""
    after = f"may follow from line {entry.after_line}" if entry.after_line is not None else ""
    is_time = entry.aspect == "time"
    said = entry.name if is_time and entry.verdict in ("faster", "slower", "ratio") else entry.verdict
    name = "" if is_time else f"{entry.name} "
    ratio = entry.name if is_time and said != entry.name else ""
    rest = "; ".join(part for part in (change, ratio, detail, follows, after) if part)
    return where, Text.assemble("    ", name, (said + times, style), f"  {rest}" if rest else "")


def _after(difference: Difference, console: Console) -> None:
    sentence = time_sentence(difference)
    for text in [*([sentence] if sentence else []), *quiet_counts(difference)]:
        console.print(Text(text, style="dim"), highlight=False)
    if difference.tolerances:
        said = ", ".join(f"{t.dtype} {t.relative:g} relative, {t.absolute:g} absolute" for t in difference.tolerances)
        console.print(Text(f"tolerances (floor: torch.testing): {said}", style="dim"), highlight=False)
    if difference.ignored:
        said = ", ".join(formats.one_line(what, 60) for what in difference.ignored)
        console.print(Text(f"left out: {said}", style="dim"), highlight=False)
