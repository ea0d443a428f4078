"""`make bench ARGS=many`: how a store, its queries, the diff and the comparison grow to 1,000 traces.

The traces are pretended (`tests.checks.pretend_machines`): the committed ones as 100 machines of ten kinds would have
run them on ten days, with three versions of the lecture, which statements were put into. From the sixth day on the
machines of one kind are 1.5 times slower: their histories have to show it. They are in a temporary folder and are gone
afterwards.

    python -m tests.checks.bench many        writes tests/checks/many.md
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from tests.checks.pretend_machines import KINDS, ROOT, pretend, write_machines
from tests.checks.scale import run
from trace_tools.file_format.trace_file import load, write
from trace_tools.schema import Omitted, SourceFile, Step, Trace
from trace_tools.statements import parse_source
from trace_tools.storing.store import FILE, INDEX, Store

REPORT = Path(__file__).with_suffix(".md")
MACHINES, DAYS = 100, 10
SLOWED, SLOWER, SINCE = "H100", 1.5, 5  # which kind, by how much, from which day on
VERSIONS = {0: "a000001", 4: "b000002", 7: "c000003"}  # the lecture's commit, from that day on
SIZES = (10, 100, 300, 1_000)
REBUILT = 100  # traces, at most, whose index is made again
STATEMENT = "crossing = (document[starts] != document[starts + sequence])"
SITES = (1, 2, 10)
ADDERS = 3  # processes that add at once
COMPARED = (2, 10, 30, 100)


def edited(trace: Trace, count: int) -> Trace:
    """Return the trace as if the lecture imported `count` modules more, below its first statement."""
    first, *rest = trace.sources
    text, line, number = _longer(first.text, first.path, count)
    in_lecture = {event.frame for event in trace.steps if not isinstance(event, Step | Omitted) and not event.source}
    steps = [
        replace(
            event,
            line=event.line + count * (event.line > line),
            statement=event.statement + count * (event.statement > number),
        )
        if isinstance(event, Step | Omitted) and event.frame in in_lecture
        else event
        for event in trace.steps
    ]
    return replace(trace, sources=[SourceFile(first.path, text), *rest], steps=steps)


@cache
def _longer(text: str, path: str, count: int) -> tuple[str, int, int]:
    """Return a source with more imports, and the line and the number of the statement before them."""
    at = next(one for one in parse_source(text, path).statements if one.line > 1)
    lines = text.split("\n")
    lines[at.end_line : at.end_line] = [f"import abc as added_{n}" for n in range(count)]
    return "\n".join(lines), at.end_line, at.number


@cache
def _real() -> list[Trace]:
    return [load(path).trace for path in sorted((ROOT / "rendered").glob("*/trace.yaml"))]


def ran(at: int) -> Trace:
    """Return one of the runs, which follow one another in time: those of all machines on the first day, and so on."""
    day, number = divmod(at, MACHINES)
    since = max(first for first in VERSIONS if first <= day)
    slower = SLOWER if KINDS[number % len(KINDS)] == SLOWED and day >= SINCE else 1.0
    started = f"2026-10-{day + 1:02}T{number // 60:02}:{number % 60:02}:00+00:00"
    real = _real()[number % len(_real())]
    made = pretend(real, number, slower=slower, started=started, commit=VERSIONS[since])
    return edited(made, 3 * list(VERSIONS).index(since))


def _add(folder: Path, runs: Sequence[int]) -> list[float]:
    """Add some runs to the store in a folder; return how long each took (s)."""
    took = []
    with tempfile.TemporaryDirectory(prefix="many-") as scratch, Store.create(folder / "store") as store:
        for at in runs:
            write(ran(at), Path(scratch) / "trace.yaml")
            before = time.monotonic()
            store.add(Path(scratch) / "trace.yaml")
            took.append(time.monotonic() - before)
    return took


def many() -> Iterator[str]:
    """A store of 1,000 traces, what is asked of it, and comparisons of many machines; written to many.md."""
    started = time.monotonic()
    rows: list[tuple[str, ...]] = []
    compared: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="many-") as scratch:
        folder, before = Path(scratch), 0
        Store.create(folder / "store").index.close()
        for size in SIZES:
            parts = [range(first, size, ADDERS) for first in range(before, before + ADDERS)]
            with ProcessPoolExecutor(ADDERS, get_context("spawn")) as pool:
                added = [seconds for some in pool.map(partial(_add, folder), parts) for seconds in some]
            before = size
            rows.append(_at_size(folder, size, added))
            yield "   ".join(rows[-1])
        with Store(folder / "store") as store:
            places = [one.path for one in store.runs()]
        found = _history(folder)
        yield found
        for n in COMPARED:
            traces = [f"store/{place}" for place in places[:n]]
            seconds, mib, why = run(["compare", *traces, "--format", "csv"], folder)
            compared.append((f"{n}", f"{seconds:.1f}", f"{mib:,.0f}", why))
            yield f"compare {n}: {seconds:.1f} s, {mib:,.0f} MiB {why}"
        seconds, mib, why = run(["diff", f"store/{places[0]}", f"store/{places[-1]}", "--format", "json"], folder)
        diff = f"{seconds:.1f} s and {mib:,.0f} MiB"
        yield f"diff: {diff} {why}"
    sites = list(_sites())
    yield from ("   ".join(row) for row in sites)
    REPORT.write_text(report(rows, compared, sites, diff, found, time.monotonic() - started), encoding="utf-8")


def _sites() -> Iterator[tuple[str, ...]]:
    """Yield what the pages of some machines take: rendered, then compared with the reports of each pair."""
    for count in SITES:
        with tempfile.TemporaryDirectory(prefix="many-") as scratch:
            folder = Path(scratch)
            write_machines(folder / "rendered", count)
            traces = [f"rendered/{path.name}/trace.yaml" for path in sorted((folder / "rendered").iterdir())]
            row = [str(count)]
            for words in (["render", *traces], ["compare", *traces, "-o", "rendered/diff"]):
                if words[0] == "render" or count > 1:
                    seconds, mib, why = run(words, folder)
                    assert not why, why
                    row += [f"{seconds:.0f}", f"{mib:,.0f}"]
                else:
                    row += ["–", "–"]
            size = sum(path.stat().st_size for path in (folder / "rendered").rglob("*") if path.is_file())
            yield (*row, f"{size / 1e6:.0f}")


def _at_size(folder: Path, size: int, added: list[float]) -> tuple[str, ...]:
    """Return what a store of some size takes: its files, its index, adding one, and its queries through a process."""
    store = folder / "store"
    bytes_kept = sum(path.stat().st_size for path in store.rglob(FILE))
    kind = ["--machine", SLOWED]
    asked = []
    for words in (["list", "store", *kind], ["history", "store", STATEMENT, *kind]):
        taken = [run(["store", *words], folder) for _ in range(3)]
        assert not any(why for *_, why in taken), taken
        asked.append(min(seconds for seconds, *_ in taken))
    again = f"{run(['store', 'index', 'store'], folder)[0]:.0f}" if size <= REBUILT else "–"
    index = (store / INDEX).stat().st_size
    return (
        f"{size:,}",
        f"{bytes_kept / 1e6:.1f}",
        f"{index / 1e6:.1f}",
        f"{statistics.median(added):.2f}",
        again,
        *(f"{seconds:.2f}" for seconds in asked),
    )


def _history(folder: Path) -> str:
    """Say of how many series the history of all annotated statements says that they changed, in how long."""
    from trace_tools.storing.history import histories

    with Store(folder / "store") as store:
        before = time.monotonic()
        found = histories(store)
        took = time.monotonic() - before
    planted = spurious = slowed = others = 0
    for history in found:
        for slug, series in history.series.items():
            if SLOWED.lower() in slug.split("-"):
                slowed += 1
                planted += [change.at for change in series.changes] == [SINCE]
            else:
                others += 1
                spurious += bool(series.changes)
    return (
        f"All {len(found)} annotated statements in {took:.1f} s: of {slowed:,} series that became {SLOWER} times "
        f"slower {planted:,} have one change, on the day of it; of {others:,} that did not {spurious:,} have one."
    )


def report(
    rows: Sequence[tuple[str, ...]],
    compared: Sequence[tuple[str, ...]],
    sites: Sequence[tuple[str, ...]],
    diff: str,
    found: str,
    took_s: float,
) -> str:
    """Return the report in Markdown."""
    lines = [
        "# How a store of traces, its queries and a comparison grow",
        "",
        f"Python {platform.python_version()}, ruptures {importlib.metadata.version('ruptures')},",
        f"{os.cpu_count()} cores shared with other work; made by `make bench ARGS=many` in {took_s / 60:.0f} minutes.",
        "The traces are pretended: real ones of the lecture, as they might have run elsewhere",
        "(`tests/checks/pretend_machines.py`). No time in them was measured; what is measured here is what the tools",
        "take.",
        "",
        "## A store",
        "",
        f"{MACHINES} machines of {len(KINDS)} kinds, {DAYS} days, {len(VERSIONS)} versions of the lecture. Seconds of",
        "`list` and `history` are those of the whole command, started for one kind of machine (a tenth of the runs):",
        f"the best of three. {ADDERS} processes add at once. The index is made again from the files where it is lost.",
        "",
        "| traces | files, MB | index, MB | add one, s | index again, s | list, s | history of a statement, s |",
        "|---:|---:|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        found,
        "",
        "## A site",
        "",
        "Pages of the whole lecture, in as many processes as there are cores. Memory is the largest process's; all of",
        "them share what the first one read.",
        "",
        "| machines | render, s | render, MiB | compare -o, s | compare -o, MiB | all files, MB |",
        "|---:|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in sites),
        "",
        "## A comparison, and a diff",
        "",
        "Traces of one day, from the store, `--format csv`.",
        "",
        "| machines | compare, s | compare, MiB |",
        "|---:|---:|---:|",
        *(f"| {' | '.join(row[:3])} |" + (f" {row[3]}" if row[3] else "") for row in compared),
        "",
        f"A diff is of two traces, however many there are: {diff}, reading them included.",
        "",
    ]
    return "\n".join(lines)
