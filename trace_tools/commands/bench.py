"""`bench A.py B.py`: two versions, run here in turn until they can be told apart.

Exit codes: 0 no difference that matters, or none of those named by --fail-on; 1 one, or a lecture that raised or whose
claims failed; 2 bad usage or bad input; 3 times could not be judged; 130 Ctrl-C before there was anything to judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_tools.commands.diff import exit_code, read_aspects, write_report
from trace_tools.git import checked_out
from trace_tools.machines.devices import FORMS, checked
from trace_tools.project import seed

if TYPE_CHECKING:
    from trace_tools.benching.rounds import BenchResult


class _Finite(click.FloatRange):
    """A number in a range, "nan" and "inf" being none: of these the former would be in any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number; expected one", param, ctx)
        return number


@click.command("bench", context_settings={"max_content_width": 100})
@click.argument("a", metavar="A.py")
@click.argument("b", metavar="B.py")
@click.option("--only", metavar="SECTION", help="Run only this one of the functions that main calls.")
@click.option("--budget", "budget_s", type=_Finite(min=0), default=300, show_default=True, metavar="SECONDS")
@click.option(
    "--find",
    type=_Finite(min=1, min_open=True),
    default=1.2,
    show_default=True,
    metavar="RATIO",
    help="Go on until this would be found, or the budget is used up.",
)
@click.option("--device", type=checked, metavar="DEVICE", help=f"{FORMS}; default: cuda where there is one.")
@click.option("--seed", type=seed, default=0, show_default=True, metavar="N")
@click.option("--keep-going", is_flag=True, help="Record what failed, and go on.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Keep both traces.")
@click.option("--format", "style", type=click.Choice(["terminal", "md", "html", "json"]), default="terminal")
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help="Exit with 1 for these only; 'none' for nothing.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.pass_context
def bench(ctx: click.Context, /, a: str, b: str, **options: Any) -> None:
    """Say what differs between the lectures A and B, run in turn on this machine, and whether it matters.

    A and B are files, or REV:path as `git show` takes it. Each round runs a fresh process of both, so that load hits
    both; there are at least six: fewer say nothing for certain.
    """
    from trace_tools.benching.report import plain_rounds, summary
    from trace_tools.benching.rounds import BenchRequest, run_rounds

    fail_on = read_aspects(options["fail_on"], "--fail-on")
    wanted = ("only", "budget_s", "find", "device", "seed", "keep_going", "keep")
    with ExitStack() as stack:
        path_a, path_b = (stack.enter_context(checked_out(name)) for name in (a, b))
        asked = BenchRequest(path_a, path_b, (a, b), **{name: options[name] for name in wanted})
        benched = run_rounds(asked, lambda line: click.echo(line, err=True))
    difference = benched.judged.difference
    write_report(difference, options["style"], options["out"], before=summary(benched), bench=plain_rounds(benched))
    wrong = list(_wrong(benched))
    for line in wrong:
        click.echo(line, err=True)
    ctx.exit(1 if wrong else exit_code(difference, fail_on))


def _wrong(benched: BenchResult) -> Iterator[str]:
    """Yield what went wrong on either side: an exception, a claim that failed, a round that was lost."""
    from trace_tools.outcome import problems

    difference = benched.judged.difference
    for letter, side in (("A", difference.a), ("B", difference.b)):
        yield from (f"{letter}: {line}" for line in problems(side.trace))
    yield from benched.dropped
