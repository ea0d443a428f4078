"""Simulate the verdict on times: the share of false calls, and power against effect, noise and passes.

python -m tests.checks.power > tests/checks/power.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from trace_tools.comparing.judging.statistics import moderated

STEPS, PLANTED, RUNS = 800, 16, 12  # as many statements as are judged of the lecture; some slowed; repetitions
NOISES = (0.01, 0.03, 0.05, 0.10, 0.16)
PASSES = (3, 5, 10, 20)
EFFECTS = (1.1, 1.15, 1.2, 1.3, 1.5, 2.0)

HEAD = """\
# How well a change in time is found

`python -m tests.checks.power > tests/checks/power.md` made this page: {runs} pairs of traces for each cell, of
{steps} statements of which {planted} were slowed, judged as `diff` judges them (moderated t on the logarithms,
Benjamini–Hochberg at 5%, an effect of at least 10%). Noise is the standard deviation of a duration's logarithm between
processes: 0.03 is about 3%. In the even tables all statements are equally noisy; in the uneven ones a statement's
noise is drawn anew (its variance from a scaled inverse chi-squared distribution with 4 degrees of freedom), which is
nearer to what a busy machine does. What `diff` says of its own power ("12 passes would find 20%") follows from the
same formulas, with the noise of the two traces it has.

## On the real lecture

Traces made on two cores of a shared AMD EPYC where nothing else was started, 17 sections, 4,200 timed steps; the last
column is what the report says:

| traces | passes | statements judged | timed steps in them | called different | noise | passes to find 20% |
|---|---:|---:|---:|---:|---:|---:|
| the lecture twice | 3 | 657 | 1,324 | 0 (0%) | 7.6% | 12 |
| 1.6 times as long, planted in one function | 3 | 652 | 1,329 | 3 (0.2%) | 7.1% | 10 |
| 1.15 times as long, planted there | 12 | 648 | 1,316 | 2 (0.2%) | 11% | 21 |
| two threads against one | 3 | 606 | 1,137 | 162 (14%) | 6.4% | 5 |

What was planted are more forward passes in a training loop, in the second trace; in both cases the statement that
calls it is found, and besides it only what it is a part of. Both were found so soon because their operators differ,
too, which gives them half of the false discoveries that are allowed. With three passes the smaller one is not found,
and the report says how many would find it. Times of a machine that others were using are not judged, and the report
says why: at a load average of twice the cores, of one section traced several times, up to a quarter (12 of 49) would
be called although nothing has changed.
"""


def main() -> None:
    """Print the tables."""
    print(HEAD.format(runs=RUNS, steps=STEPS, planted=PLANTED))
    for title, uneven in (("even", False), ("uneven", True)):
        print(
            f"## False calls, {title} noise\n\nThe share of statements called although nothing changed, in percent.\n"
        )
        print("\n".join(_table([1.0], uneven=uneven)), end="\n\n")
        print(f"## Power, {title} noise\n\nThe share of slowed statements that is found, in percent.\n")
        print("\n".join(_table(EFFECTS, uneven=uneven)), end="\n\n")


def _table(effects: tuple[float, ...] | list[float], *, uneven: bool) -> Iterator[str]:
    heads = [f"{(effect - 1):.0%} slower" if effect > 1 else "called" for effect in effects]
    yield f"| passes | noise | {' | '.join(heads)} |"
    yield "|" + "---:|" * (2 + len(heads))
    for passes in PASSES:
        for noise in NOISES:
            shares = [_share(noise, passes, effect, uneven=uneven) for effect in effects]
            digits = 2 if effects == [1.0] else 0
            yield f"| {passes} | {noise:.0%} | " + " | ".join(f"{100 * s:.{digits}f}" for s in shares) + " |"


def _share(noise: float, passes: int, effect: float, *, uneven: bool) -> float:
    """Return the share called of the slowed steps; of all steps where none is slowed."""
    rng = np.random.default_rng(round(1000 * noise) + 7 * passes)
    called = []
    for _ in range(RUNS):
        spread = noise * (np.sqrt(4 / rng.chisquare(4, STEPS)) if uneven else np.ones(STEPS))
        shift = np.where(np.arange(STEPS) < PLANTED, math.log(effect), 0.0)
        a = rng.normal(9, spread[:, None], (STEPS, passes))
        b = rng.normal((9 + shift)[:, None], spread[:, None], (STEPS, passes))
        judged = moderated([(list(x), list(y)) for x, y in zip(a, b, strict=True)]).called
        called.append(judged[:PLANTED].mean() if effect > 1 else judged.mean())
    return float(np.mean(called))


if __name__ == "__main__":
    main()
