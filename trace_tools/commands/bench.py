"""Run `bench A.py B.py`: alternate two versions on this machine until their times can be distinguished.

Exit codes: 0 no difference that matters, or no such difference among the aspects of --fail-on; 1 a difference that
matters, or a lecture that raised or had failed claims; 2 bad usage or bad input; 3 times could not be judged; 130
Ctrl-C before any result.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from trace_tools.commands.diff import FAIL_ON, FORMAT, exit_code, read_aspects, write_report
from trace_tools.config import trace_options
from trace_tools.tracing.options import TraceOptions
from trace_tools.util.git import checked_out

BUDGET = "Stop after this time."


class _Finite(click.FloatRange):
    """A number in a range that refuses "nan" and "inf", because click accepts "nan" in any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value}: expected a finite number", param, ctx)
        return number


@click.command("bench", context_settings={"max_content_width": 100})
@click.argument("a", metavar="A.py")
@click.argument("b", metavar="B.py")
@trace_options("main", "only", "device", "keep_going", project=False)
@click.option(
    "--budget", "budget_s", type=_Finite(min=0), default=300, show_default=True, metavar="SECONDS", help=BUDGET
)
@click.option(
    "--find",
    type=_Finite(min=1, min_open=True),
    default=1.2,
    show_default=True,
    metavar="RATIO",
    help="Stop once a change of this size would be detected.",
)
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Keep both traces in DIR."
)
@click.option(
    "--format", "style", type=click.Choice(["terminal", "md", "html", "json"]), default="terminal", help=FORMAT
)
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help=FAIL_ON)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.pass_context
def bench(ctx: click.Context, /, a: str, b: str, options: TraceOptions, **given: Any) -> None:
    """Time two versions of a lecture against each other here.

    A and B are files, or REV:path as in `git show`. Each round runs both in new processes, so that other load slows
    both. At least six rounds are run; fewer give no reliable answer.

    \b
    Examples:
      trace-tools bench HEAD~1:talk.py talk.py --only matmul
      trace-tools bench slow.py fast.py --find 1.05 --budget 900
      trace-tools bench origin/main:talk.py talk.py --fail-on time --format md -o report.md
    """
    from trace_tools.analysis.outcome import problems
    from trace_tools.bench.rounds import BenchRequest, plain_rounds, run_rounds, summary

    fail_on = read_aspects(given["fail_on"], "--fail-on")
    with ExitStack() as stack:
        path_a, path_b = (stack.enter_context(checked_out(name)) for name in (a, b))
        request = BenchRequest(path_a, path_b, (a, b), options, given["budget_s"], given["find"], given["keep"])
        benched = run_rounds(request, lambda line: click.echo(line, err=True))
    difference = benched.judged.difference
    write_report(difference, given["style"], given["out"], before=summary(benched), bench=plain_rounds(benched))
    sides = (("A", difference.a), ("B", difference.b))
    lines = [f"{letter}: {line}" for letter, side in sides for line in problems(side.trace)] + [*benched.dropped]
    for line in lines:
        click.echo(line, err=True)
    ctx.exit(1 if lines else exit_code(difference, fail_on))
