"""The command `bench`, for the command line to add: `main.add_command(bench_command)`.

Exit codes: 0 no difference that matters, or none of those named by --fail-on; 1 one, or a lecture that raised or whose
claims failed; 2 bad usage or bad input; 3 times could not be judged; 130 Ctrl-C before there was anything to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_tools.errors import UsageError

if TYPE_CHECKING:
    from trace_tools.benching.rounds import Benched
    from trace_tools.comparing.difference import Aspect

WIDTH = 120  # of a terminal report that goes to a file


@click.command("bench", context_settings={"max_content_width": 100})
@click.argument("a", metavar="A.py")
@click.argument("b", metavar="B.py")
@click.option("--only", metavar="SECTION", help="Run only this one of the functions that main calls.")
@click.option("--budget", "budget_s", type=click.FloatRange(min=0), default=300, show_default=True, metavar="SECONDS")
@click.option(
    "--find",
    type=click.FloatRange(min=1, min_open=True),
    default=1.2,
    show_default=True,
    metavar="RATIO",
    help="Go on until this would be found, or the budget is used up.",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: cuda where there is one.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Keep both traces.")
@click.option("--format", "style", type=click.Choice(["terminal", "md", "html", "json"]), default="terminal")
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help="Exit with 1 for these only; 'none' for nothing.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.pass_context
def bench_command(ctx: click.Context, /, a: str, b: str, **options: Any) -> None:
    """Say what differs between the lectures A and B, run in turn on this machine, and whether it matters.

    A and B are files, or REV:path as `git show` takes it. Each round runs a fresh process of both, so that load hits
    both; there are at least six: fewer say nothing for certain.
    """
    from trace_tools.benching.lectures import checked_out
    from trace_tools.benching.rounds import Asked, bench
    from trace_tools.comparing.commands import exit_code

    fail_on = _aspects(options["fail_on"])
    wanted = ("only", "budget_s", "find", "device", "seed", "keep")
    with ExitStack() as stack:
        path_a, path_b = (stack.enter_context(checked_out(name)) for name in (a, b))
        asked = Asked(path_a, path_b, (a, b), **{name: options[name] for name in wanted})
        benched = bench(asked, lambda line: click.echo(line, err=True))
    report = _report(benched, options["style"])
    if options["out"] is None:
        click.echo(report, nl=False)
    else:
        _write(options["out"], report)
    wrong = list(_wrong(benched))
    for line in wrong:
        click.echo(line, err=True)
    ctx.exit(1 if wrong else exit_code(benched.judged.difference, fail_on))


def _wrong(benched: Benched) -> Iterator[str]:
    """Yield what went wrong on either side: an exception, a claim that failed, a round that was lost."""
    from trace_tools.summary import problems

    difference = benched.judged.difference
    for letter, side in (("A", difference.a), ("B", difference.b)):
        yield from (f"{letter}: {line}" for line in problems(side.trace))
    yield from benched.dropped


def _aspects(texts: Iterable[str]) -> frozenset[Aspect] | None:
    """Read the aspects that --fail-on names; None when it was not given."""
    from trace_tools.comparing.difference import ASPECTS

    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in ASPECTS and words != ["none"]]
    if unknown:
        raise UsageError(f"--fail-on {unknown[0][:40]}: expected some of {', '.join(ASPECTS)}, or none")
    return frozenset(aspect for aspect in ASPECTS if aspect in words) if words else None


# --- reports --------------------------------------------------------------------------------------


def summary(benched: Benched) -> list[str]:
    """Return what is said before the difference: how it was measured, what could be found, and the slow functions."""
    from trace_tools.rendering import formats

    judged = benched.judged
    text = f"{formats.plural(benched.rounds, 'round')} of A and B in turn, {benched.seconds:.0f} s: {benched.ended}"
    if judged.would_find is None or judged.noise is None:
        return [f"{text}; TIME NOT JUDGED: {judged.difference.time_not_judged}", *benched.dropped]
    text += f"; noise {formats.percent(judged.noise)}; would have found {formats.ratio(judged.would_find)}× in half of "
    text += "what takes 5% of the run or more"
    lines = [text]
    for f in judged.functions:
        low, high = f.interval
        change = f"× {formats.ratio(f.ratio)} ({formats.ratio(low)} to {formats.ratio(high)})"
        times = f"{formats.duration(f.a_ns)} → {formats.duration(f.b_ns)}"
        missed = "" if f.verdict in ("slower", "faster") else f"; would have found {formats.ratio(f.would_find)}×"
        lines.append(f"{formats.one_line(f.function, 60)}: {times}, {change}, {f.verdict}{missed}")
    return [*lines, *benched.dropped]


def _report(benched: Benched, style: str) -> str:
    difference = benched.judged.difference
    if style == "json":
        from trace_tools.comparing.report_json import plain_difference

        plain = {**plain_difference(difference), "bench": _plain(benched)}
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    if style == "terminal":
        from rich.console import Console

        from trace_tools.comparing.terminal import print_report

        text = StringIO()
        print_report(difference, Console(file=text, width=WIDTH, highlight=False))
        return "".join(f"{line}\n" for line in summary(benched)) + text.getvalue()
    noted = replace(difference, notes=(*summary(benched), *difference.notes))
    if style == "md":
        from trace_tools.comparing.report_markdown import difference_markdown

        return difference_markdown(noted)
    from trace_tools.comparing.report_html import difference_html

    return difference_html(noted)


def _plain(benched: Benched) -> dict[str, Any]:
    """Return what a script may want besides the difference; ratios are B / A."""
    judged = benched.judged
    return {
        "rounds": benched.rounds,
        "seconds": round(benched.seconds, 3),
        "ended": benched.ended,
        "dropped": list(benched.dropped),
        "noise": judged.noise,
        "would_find": judged.would_find,
        "functions": [
            {
                "function": f.function,
                "a_ns": f.a_ns,
                "b_ns": f.b_ns,
                "ratio": f.ratio,
                "interval": list(f.interval),
                "verdict": f.verdict,
                "would_find": f.would_find,
            }
            for f in judged.functions
        ],
    }


def _write(out: Path, report: str) -> None:
    try:
        out.write_text(report, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: can't be written: {error.strerror or error}") from None
