"""Narrative calls with random arguments: correct, unusual and wrong ones.

drawn(17)                              # "link('https://a.b', authors=[None])"
through_every_reader(calls, folder)    # "" if each call raised as in plain Python or is on the pages
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.checks.command_line import TOOLS, python
from trace_tools.lecture.vocabulary import VOCABULARY

CALLS = 60  # in a lecture

TEXTS = (
    "'plain'", "''", "' '", "'a\\nb\\n\\nc'", "'$x^2$'", "'$$\\\\frac{1}{'", "'\\\\begin{aligned} x'",
    "'$\\\\unknown{x}$ and $5'",
    "'<script>alert(1)</script>'", "'<b>&amp;</b><!--'", "'# head\\n- a\\n  - b\\n1. c'", "'```python\\nx'",
    "'| a | b |\\n|---|---|\\n| 1 |'",
    "'[link](javascript:alert(1)) ![i](../../etc/passwd)'", "'\\ud800'", "'\\x00\\x07\\x1b[31m'",
    "'\\u202eright to left\\u2028\\ufeff'",
    "'é' * 300", "'[' * 200", "'>' * 200", "'*_' * 300", "'x' * 100_000", "'1.5 and 1e400 and 3,000'",
    "'{{ jinja }} {% x %}'",
    "'yes'", "'null: - ? &a *a !!'", "'\"quoted\\\\'", "'\U0001f600'", "'a\\r\\nb\\rc\\x85d'", "'ftp://x y'",
    "'https://a.b/c?d=e&f#g'",
    "'../up.png'", "'/etc/passwd'", "'a.png'", "'there.png'", "'a' * 300 + '.png'", "'https://[bad'", "'50%'", "'0%'",
    "'1e3%'", "'٣'",
)  # fmt: skip
NUMBERS = (
    "0", "1", "-1", "1.5", "10**30", "10**5000", "float('nan')", "float('inf')", "-float('inf')", "1e-320", "True",
    "2**63", "1j",
    "torch.tensor(2.5)", "torch.tensor(3)", "torch.tensor(1, dtype=torch.bfloat16)", "torch.tensor([1.0, 2.0])",
    "numpy.float32(1.5)",
    "numpy.array(2)", "numpy.int8(3)", "fractions.Fraction(1, 3)", "decimal.Decimal('1.10')",
    "torch.tensor(1.0, requires_grad=True)",
    "torch.empty(3, device='meta')", "torch.tensor(1.0, device='meta')", "numpy.datetime64('2020-01-01')",
)  # fmt: skip
ODD = (
    "None", "b'bytes'", "object", "Bad()", "BadText()", "len", "...", "[]", "()", "{}", "{1: [2]}", "[[[]]]", "set()",
    "(i for i in range(3))",
    "range(4)", "[1, 2, 3]", "['a', None, 1.5]", "[[1, 2], [3, 4]]", "[[1], [2, 3]]", "{'a': [1, 2]}", "{'a': 1}",
    "{'a': 'bc'}", "{None: [1]}",
    "{'a': ([1, 2], [3, 4])}", "{'a': ([1], [3, 4])}", "{'': []}", "{'a': torch.arange(3)}",
    "{'a': numpy.arange(3.0)}", "{'a': {1: 2}}",
    "datetime.date(2020, 1, 2)", "pathlib.Path('there.png')", "pathlib.Path('..')", "iter([1])", "map(str, [1])",
    "[Bad()]", "[[Bad()]]",
    "nested(50)", "[[1, 2]] * 100_000", "{'many': range(100_000)}", "Texts('text')", "[float('nan')] * 3",
    "{'a': [float('inf'), 1]}",
    "{'\\ud800': [1]}", "cyclic", "[cyclic]", "{'a': cyclic}", "torch.ones(2, 2)", "numpy.array(['a'])",
    "collections.OrderedDict(a=[1, 2])",
    "NotImplemented", "Endless()", "type", "Figure([1, 2])", "Figure([])", "[['a', 1], ['b', None]]", "['n', 'c']",
    "['n']", "'nc'",
)  # fmt: skip
CHOICES = ("'linear'", "'log'", "'line'", "'points'", "'bars'", "'steps'", "'bar'")
KEYWORDS = {
    "text": (),
    "note": (),
    "link": ("title", "authors", "date", "description"),
    "image": ("alt", "width"),
    "table": ("title", "columns"),
    "plot": ("title", "x", "x_label", "y_label", "x_scale", "y_scale", "style"),
    "decide": ("above", "below", "undecided", "than"),
    "explore": ("says", "inputs", "menus", "title", "names", "units", "stack", "limit", "curve", "across"),
    "ask": ("answer", "unit", "within", "choices", "hint", "why", "slips"),
}
RIGHT = {  # for each call and keyword, its usual values
    "text": TEXTS, "note": TEXTS, "link": TEXTS, "image": ("'there.png'", "pathlib.Path('there.png')"),
    "table": ("[[1, 'a'], [2, None]]", "[]", "[[1.5, float('nan')]]", "[['<b>', '|']]"), "plot": ("{'a': [1, 2]}",
    "{'a': [1, 3], 'b': [2, 2]}",
    "{'a': ([1, 2], [3, 4])}", "Figure([1, 2])", "{}"), "decide": ("1.5", "[1.0, 2.0, 3.0]", "0.5"),
    "ask": TEXTS, "answer": ("1.5", "3", "'a'"), "within": ("0", "0.5", "10**400"), "choices": ("['a', 'b']", "None"),
    "slips": ("{1: 'x'}", "{'b': 'x'}", "None", "{'\\ud800': 'x'}"),
    "explore": ("fine", "fine", "power", "raising", "lambda x: x"), "says": ("'{a}'", "'{a?yes|no} {x} {GPU}'", "'{'"),
    "inputs": ("{'x': (1, 0, 2)}", "{'x': (1.5, 0.1, 1e6)}", "{}", "{'x': 1}"),
    "menus": ("{'GPU': {'A': {'y': 1e9}, 'B': {'y': 2.0, 'z': 1}}}", "{}", "{'GPU': {}}"), "names": ("{'x': 'X'}",),
    "units": ("{'a': 'B', 'y': 'FLOP/s'}",), "stack": ("['a']", "('a', 'b')"), "limit": ("'x'", "'a'"),
    "curve": ("('x', 'a')",), "across": ("'GPU'",),
    "columns": ("['n', 'c']",),
    "authors": ("'A. Author'", "['A', 'B']"), "date": ("'2020'", "2020", "datetime.date(2020, 1, 2)"), "width": ("50",
    "'50%'"),
    "x": ("[1, 2]",), "x_scale": CHOICES, "y_scale": CHOICES, "style": CHOICES, "than": ("1.0", "(0.9, 1.1)"),
}  # fmt: skip

HEAD = '''"""Calls drawn at random."""
import collections, datetime, decimal, fractions, pathlib
import numpy, torch
from trace_tools import ask, decide, explore, image, link, note, plot, table, text

class Bad:
    def __str__(self): raise RuntimeError("no text")
    __repr__ = __str__
class BadText(str):
    def __str__(self): return 5
class Texts(str): pass
class Endless:
    def __iter__(self): raise KeyError("no items")
    def __len__(self): return 2
class Figure:
    def __init__(self, ys): self.ys = ys
    def get_axes(self): return [self]
    def get_lines(self): return [self]
    def get_label(self): return "<label> \\ud800"
    def get_ydata(self): return self.ys
    get_xdata = get_ydata
    def savefig(self, out, **more): 
        out.write("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script><g id='a&amp;'/></svg>")
def fine(x, y):
    return {"a": x * y, "b": x / (y + 1.0), "c": x > y}
def power(x):
    return {"a": x ** 2}
def raising(x):
    return {"a": 1.0 / (x - x)}
def nested(depth):
    return [nested(depth - 1)] if depth else []
cyclic = []
cyclic.append(cyclic)

def attempt(number, call):
    try:
        call()
    except Exception as error:
        try:
            said = str(error)[:200]
        except Exception as other:
            said = f"no text: {other!r}"
        print(number, "raised", type(error).__name__, ascii(said))
    else:
        print(number, "told")

def main():
    section()

def section():
'''


def drawn(seed: int) -> str:
    """Return the source of a random narrative call."""
    draw = random.Random(f"call {seed}")
    word = draw.choice(sorted(VOCABULARY))
    arguments = [argument(draw, RIGHT[word])]
    for name in KEYWORDS[word]:
        if draw.random() < (
            0.9 if name in ("columns", "above", "below", "undecided", "answer", "says", "inputs") else 0.35
        ):
            arguments.append(f"{name}={argument(draw, RIGHT.get(name, TEXTS))}")
    return f"{word}({', '.join(arguments)})"


def argument(draw: random.Random, right: tuple[str, ...]) -> str:
    return draw.choice(right if draw.random() < 0.6 else draw.choice((TEXTS, NUMBERS, ODD)))


def lecture(calls: list[str]) -> str:
    """Return a lecture that makes these calls and prints for each whether it raised."""
    return HEAD + "".join(f"    attempt({number}, lambda: {call})\n" for number, call in enumerate(calls)) + END


END = '\nif __name__ == "__main__":\n    main()\n'


def through_every_reader(calls: list[str], folder: Path) -> str:
    """Run the calls plainly, then trace, validate, render and diff; return the first error."""
    here, out = folder / "here", folder / "out"
    here.mkdir()
    (here / "there.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    path = here / "calls.py"
    path.write_text(lecture(calls), encoding="utf-8", errors="surrogatepass")
    plain = python([str(path)], here)
    traced = python([*TOOLS, "trace", str(path), "--passes", "1", "-o", str(out)], here)
    if traced.returncode != 0 or "Traceback" in traced.stderr:
        return f"trace: ended with {traced.returncode}: {traced.stderr[-1500:]}"
    if remaining := [path.name for path in out.glob(".[ru]*-*")]:
        return f"left: {remaining}"
    trace = next(out.glob("*/trace.yaml"))
    if difference := otherwise(plain.stdout.splitlines(), trace):
        return difference
    diffs = [
        ["diff", str(trace), str(trace), "--only", "values,claims", "--format", f]
        for f in ("terminal", "html", "md", "json")
    ]
    for words in (["validate", str(trace)], ["render", str(trace), "-o", str(folder / "again")], *diffs):
        ended = python([*TOOLS, *words], here)
        if ended.returncode != 0:
            return f"{words[0]}: ended with {ended.returncode}: {ended.stderr[-1500:]}"
    return ""


_OBJECT = re.compile(r"<\w+\.([\w.]+) object at 0x[0-9a-f]+>")


def otherwise(plain: list[str], trace: Path) -> str:
    """Return the printed lines of calls that raised differently than in the plain run."""
    from trace_tools.trace.model import Step
    from trace_tools.trace.trace_file import load

    steps = [step for step in load(trace).trace.steps if isinstance(step, Step)]
    printed = [line for step in steps for line in (step.stdout or "").splitlines()]
    # In a trace, the lecture's module has another name, and objects have other addresses.
    plain_lines, traced_lines = ({_OBJECT.sub(r"<\1>", line) for line in lines} for lines in (plain, printed))
    differ = sorted(plain_lines ^ traced_lines)
    return f"said: {differ[:6]}" if differ or len(plain) != len(printed) else ""
