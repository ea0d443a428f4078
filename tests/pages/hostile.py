"""A trace with attacks in all its texts: they try to end a code fence, a tag or a line.

The script in `PWNED` sets `window.pwned`. A page where that is set has executed the script.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from tests.pages.recording import Recording, matrix
from trace_tools.trace.explorations import Exploration, Input, Menu, Result
from trace_tools.trace.file import dump, parse
from trace_tools.trace.model import (
    Claim,
    Collective,
    Explore,
    Image,
    Link,
    Machine,
    Meters,
    Narrative,
    Note,
    Peak,
    Plot,
    Raised,
    Run,
    Series,
    Table,
    Text,
    Trace,
    Value,
    Video,
)

PWNED = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
FENCE = "```\n</code></pre></details></div></svg></style>" + PWNED + "\n~~~\n`"
ATTRIBUTE = '"\' autofocus onfocus=\'window.pwned=1" onmouseover="window.pwned=1" x="'
INVISIBLE = "a\u202egnp.exe\u2066\u0000\x1b[31m\u2028\ufeff"
LONG = "</script>" + "x" * 100_000
TRICKY = [FENCE, ATTRIBUTE, "javascript:window.pwned=1", "{{ 7 * 7 }} {% raw %} {# x #}]]>", INVISIBLE, LONG]

LECTURE = '''\
"""<script>window.pwned=1</script>"""


def main():
    evil()


def evil():
    """<img src=x onerror=window.pwned=1> [x](javascript:window.pwned=1) ``` | $x$

    <script>window.pwned=1</script>
    """
    a = "</code><script>window.pwned=1</script>"  # </pre><script>window.pwned=1</script>
    b = """
```
<script>window.pwned=1</script>
"""
    c = "\u202egnp"
    assert a == b
'''


def hostile_trace() -> Trace:
    """Return a trace with every trick in every field that holds text."""
    recording = Recording(LECTURE)
    evil = recording.call(recording.frame("main"), "evil()", "evil")
    values = [(trick[:2000], Value("str", trick, length=len(trick))) for trick in TRICKY]
    values += [(f"o{n}", Value(trick[:2000], text=trick, note=trick[:500])) for n, trick in enumerate(TRICKY)]
    values.append(("error", Value("error", text=FENCE)))
    values.append(("list", Value("list", length=10, items=[Value("str", trick) for trick in TRICKY])))
    values += [("unit", Value("float", 1.0, unit=PWNED)), ("tensor", matrix(2, 2, storage=PWNED))]
    collectives = [Collective(trick[:2000], 2, 1, 64) for trick in TRICKY]
    meters = Meters(flops=3, operators=[(PWNED, 1)], uncounted=[PWNED], collectives=collectives, why=FENCE)
    narratives = [narrative for trick in TRICKY for narrative in _narratives(trick)]
    recording.step(evil, "a = ", values=values, annotated=True, host_ns=[10**7], meters=meters, narrative=narratives)
    recording.step(evil, "b = ", stdout=FENCE + INVISIBLE + LONG, warnings=TRICKY)
    recording.step(evil, "c = ", raised=Raised(PWNED, FENCE))
    sides = [(PWNED, Value("str", FENCE)), ("b", Value("str", LONG))]
    recording.step(evil, "assert", claim=Claim(FENCE, False, sides, message=FENCE, failed_runs=[PWNED]))
    machine = Machine(PWNED, "cpu", "cpu", driver=FENCE, os=ATTRIBUTE, peaks=[Peak(PWNED, 1.0, FENCE)])
    run = Run("lecture.py", PWNED, 0, 1, 100, complete=False, ended=FENCE, only=PWNED, commit=PWNED, dropped=[FENCE])
    trace = recording.trace(title=PWNED, machine=machine, run=run, versions=[("torch", PWNED), (FENCE, FENCE)])
    return parse(BytesIO(dump(trace).encode()), Path("hostile.yaml"))


def _narratives(trick: str) -> list[Narrative]:
    short = trick[:190]
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1"><text>{trick}</text></svg>'
    numbers = (1.0, 0.5, 2.0, "linear", False, short)
    exploration = Exploration(
        name=short,
        formula="def f0(v0, v1):\n    return (v0 * v1, v0 > v1)",
        parameters=[short, f"{short}2"],
        inputs=[Input(short, short, *numbers)],
        menus=[Menu(short, [Input(f"{short}2", short, *numbers)], [(short, [1.0]), (short, [2.0])], own=True)],
        results=[Result(short, short, 1.0, short), Result("is", short, value=True)],
        curve=(short, short),
        across=short,
    )
    return [
        Text(text=trick),
        Note(text=trick),
        Link(url=trick, title=trick, authors=trick, date=trick, text=trick),
        Image(url=f"https://{trick}", title=trick, width=10),
        Video(url=f"https://{trick}", title=trick, width=10),
        Table(title=trick, columns=[trick], rows=[[trick], [None]]),
        Explore(text=trick.replace("{", "")[:1000], title=trick, exploration=exploration),
        Plot(title=trick, x_label=short, series=[Series(short, [short], [1.0], "bars")]),
        Plot(title=trick, x_label=short, series=[], svg=svg),
    ]
