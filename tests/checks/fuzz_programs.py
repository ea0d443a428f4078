"""Random programs from a grammar of statements, with directives on their lines.

drawn(17)          # a lecture: functions, and a `main` that runs them; the same for the same seed

Programs end: loops have a few iterations, and after a number of calls functions return at once (`fuzz_world.spend`).
They are deterministic: what they print is the same in every process, including finalizers and positions of errors.
"""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import dataclass, replace

STEP = "    "
KINDS = ("def", "def", "gen", "async", "agen")
DIRECTIVES = ("@inspect x", "@inspect x, y", "@inspect type(x)", "@inspect nothing", "@stepover", "@hide", "@clear x")

# What a symbol `<…>` may become. `<e>` is an expression, `<c>` sometimes a comment with directives, `<use>` a call of
# one of the program's functions, and a line `<block>` a block of statements. NAME and COUNTER are the same throughout.
GRAMMAR = {
    "name": ("x", "y", "z"),
    "n": ("0", "1", "2", "3"),
    "value": (
        "0", "1", "2", "-1", "1.5", "True", "None", "'ab'", "[1, 2]", "(3, 4)", "{'k': 1}", "{1, 2}", "10**20",
    ),
    "atom": ("<name>", "<name>", "<name>", "<value>"),
    "error": ("ValueError(1)", "KeyError('k')", "TypeError()", "Thrown('why')", "AssertionError(1, [2])"),
    "class": ("ValueError", "(TypeError, Thrown)", "Exception", "BaseException", "AssertionError"),
    "pattern": ("0 | 1", "None", "'ab'", "[x, *_]", "[1, y]", "{'k': x, **z}", "int(x)", "str() as y", "Odd(value=x)"),
    "manager": ("Manager(<n>)", "Manager(<n>, Exception)", "Manager(<n>, ValueError)"),
    "iterable": ("range(<n>)", "Counted(<n>)", "Counted(<n>, <error>)", "(say(i) for i in range(<n>))"),
    "parameters": ("x, y=1, *rest, z=None, **more", "x=2, y=3, z=4", "x, /, y='d', *, z=0"),
    "expression": (
        "cut(<e> + <e>)", "(<e> < <e>)", "(<e> == <e> != 3)", "(<e> and <e>)", "(<e> or <e>)", "(not <e>)",
        "(<e> if <e> else 1)", "[<e>, *<e>]", "{'k': <e>, 'l': <e>}", "say(<e>)", "max(<e>, <e>)", "g",
        "[<name> for i in range(2)]", "(lambda q: <e>)(<e>)", "<name>[0]", "f'{<name>!r:.30}'", "<name>.name",
        "back(lambda q: <e>, [1, 2])", "isinstance(<e>, int)", "Odd(<n>)", "(x := <e>)", *["<use>"] * 6,
    ),
    "statement": (
        "NAME = <e><c>", "x = y = <e><c>", "x, *y = <e>, <e>, 3<c>", "NAME += <value><c>", "NAME: int = <e><c>",
        "del NAME<c>", "say(<e>)<c>", "NAME = Noisy(<e>)<c>", "Noisy(<e>)<c>", "NAME = Odd(<n>)<c>", "NAME[0] = <e><c>",
        "NAME.attribute = <e><c>", "x = <e>; y = <e><c>", "import math<c>", "exec('say(1)')<c>", "pass<c>",
        "NAME = in_thread(say, <e>)<c>", "say(sys._getframe().f_lineno, sys.exc_info()[0])<c>",
        "assert <e> == <e>, say('said')<c>", "assert <e><c>", "assert say(1) < x <= say(3)<c>", "raise <error><c>",
        "raise <error> from <error><c>", "raise<c>", "say(sorted(locals()), eval('x'))<c>", "say(sorted(vars()))<c>",
        "NAME = say(<c>\n    <e>,<c>\n    <e>)<c>",  # directives stand on any line
        *["NAME = <e>  # @inspect NAME\nsay('is', NAME)"] * 6,  # the program itself prints what was inspected
    ),
    "leaves": ("return <e><c>",) * 3,
    "leaves agen": ("return<c>",),
    "loop": ("break<c>", "continue<c>"),
    "gen": ("NAME = yield <e><c>", "yield <e><c>", "NAME = yield from <iterable><c>") * 2,
    "agen": ("NAME = yield <e><c>", "yield <e><c>") * 3,
    "async": (
        "NAME = await asyncio.sleep(0, 'slept')<c>", "NAME = await asyncio.gather(asyncio.sleep(0, x))",
        "NAME = [i async for i in Counted(2)]<c>",
        "async for NAME in Counted(<n>):<c>\n<loop>\nelse:\n<block>",
        "async with <manager> as y:<c>\n<block>",
    ),
    "compound": (
        "if <e>:<c>\n<block>",
        "if <e>: x = 1<c>",
        "if <e>:<c>\n<block>\nelif <e>:<c>\n<block>\nelse:\n<block>",
        "for NAME in <iterable>:<c>\n<loop>",
        "for i in <iterable>:<c>\n<loop>\nelse:\n<block>",
        "COUNTER = 0\nwhile (COUNTER := COUNTER + 1) < <n>:<c>\n<loop>\nelse:\n<block>",
        "COUNTER = 0\nwhile (COUNTER := COUNTER + 1) < <n> and <e>:<c>\n<loop>",
        "try:\n<block>\nfinally:\n<block>",
        "try:\n<block>\nexcept <class> as error:<c>\n    told(error)\n<block>",
        "try:\n<block>\nexcept <class> as error:<c>\n    told(error)\nexcept <class>:\n<block>\nelse:\n<block>\n"
        "finally:\n<block>",
        "try:\n<block>\n    raise ExceptionGroup('s', [<error>, <error>])<c>\n"
        "except* ValueError as error:<c>\n<handler>",
        "with <manager> as y:<c>\n<block>",
        "with <manager> as y, contextlib.suppress(Thrown):<c>\n<block>",
        "match <e>:<c>\n    case <pattern>:<c>\n    <block>\n    case <pattern> if <e>:<c>\n    <block>",
        "class C(<base>):<c>\n    kind = <value>\n    def __init__(self, x, y=2, z=3):<c>\n    <method>\n"
        "        super().__init__(*['made'] * (C.__base__ is not dict))\nz = C(<value>)<c>",
    ),
    "base": ("Manager", "dict", "Noisy"),
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """The scope and the blocks around a position."""

    kind: str = "def"  # one of KINDS
    indent: str = ""
    depth: int = 3  # how many levels of blocks may follow
    loop: bool = False  # `break` and `continue` are allowed
    leaves: bool = True  # `return` is allowed
    functions: tuple[tuple[str, str], ...] = ()  # (name, kind) of functions in enclosing scopes


BLOCKS = {
    "<block>": {},
    "<loop>": {"loop": True},
    "<handler>": {"loop": False, "leaves": False},  # of `except*`
    "<method>": {"kind": "def", "depth": 1, "loop": False, "leaves": True},
}


def compiles(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "drawn.py", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def drawn(seed: int) -> str:
    """Draw the lecture of this seed."""
    for attempt in range(100):
        text = "".join(f"{line}\n" for line in Writer(random.Random(f"{seed}.{attempt}")).lecture())
        if compiles(text):
            return text
    raise AssertionError(f"seed {seed}: a hundred programs that don't compile")


@dataclass
class Writer:
    """Draws one lecture."""

    draw: random.Random
    numbers: int = 0

    def lecture(self) -> list[str]:
        """Return a few functions, and the `main` that uses them."""
        top = Scope()
        lines = ["import asyncio, contextlib, sys", "from tests.checks.fuzz_world import *", "g = [0]"]
        for _ in range(self.draw.randint(3, 5)):
            added, top = self.function(top)
            lines += added
        inside = replace(top, indent=STEP * 2, leaves=False)
        bodies = [[f"{STEP * 2}z = say('got', {self.use(inside)}){self.comment()}"] for _ in range(8)]
        lines += ["def main():", f"{STEP}begin(__file__)", f"{STEP}x, y, z = 1, [2], None"]
        for body in [*bodies, self.block(inside, 6)]:
            lines += [f"{STEP}try:", *body, f"{STEP}except BaseException as error:", f"{STEP * 2}told(error)"]
        return [*lines, f"{STEP}end()", "if __name__ == '__main__':", f"{STEP}main()"]

    def function(self, scope: Scope) -> tuple[list[str], Scope]:
        """Return the definition of a function, and the scope with its name."""
        self.numbers += 1
        at, name, kind = scope.indent, f"f{self.numbers}", self.draw.choice(KINDS)
        scope = replace(scope, functions=(*scope.functions, (name, kind)))
        inner = replace(scope, kind=kind, indent=at + STEP, loop=False, leaves=True)
        lines = [f"{at}@noted"] * self.chance(0.15)
        lines.append(self.filled(f"{at}{'async ' * (kind in ('async', 'agen'))}def {name}(<parameters>):<c>", scope))
        if self.chance(0.3):
            lines += [f"{inner.indent}global g", self.filled(f"{inner.indent}g = <value>", scope)]
        lines += [f"{inner.indent}if not spend(): return", *self.block(inner, 5)]
        ends = {"gen": "z = yield x<c>\nreturn <e>", "agen": "yield x<c>"}.get(kind, "return <e><c>")
        return lines + [f"{inner.indent}{self.filled(end, inner)}" for end in ends.split("\n")], scope

    def block(self, scope: Scope, most: int = 3) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw.randint(1, most)):
            if scope.depth > 0 and self.chance(0.05):
                added, scope = self.function(scope)
                lines += added
            else:
                lines += self.statement(scope)
        return lines

    def statement(self, scope: Scope) -> list[str]:
        """Return the lines of a statement, with the blocks in it."""
        if scope.depth > 0 and self.chance(0.5):
            choices = GRAMMAR["compound"]
        else:
            choices = GRAMMAR["statement"] + GRAMMAR.get(scope.kind, ()) * (scope.kind in ("gen", "agen"))
            choices += GRAMMAR["loop"] * scope.loop
            choices += GRAMMAR["leaves agen" if scope.kind == "agen" else "leaves"] * scope.leaves
        if scope.kind in ("async", "agen"):
            choices += tuple(one for one in GRAMMAR["async"] if scope.depth > 0 or "\n" not in one)
        self.numbers += 1
        text = self.draw.choice(choices).replace("COUNTER", f"n{self.numbers}")
        text = text.replace("NAME", self.draw.choice(GRAMMAR["name"]))
        lines: list[str] = []
        for line in text.split("\n"):
            if (symbol := line.strip()) in BLOCKS:
                inside = scope.indent + line.removesuffix(symbol) + STEP
                lines += self.block(replace(scope, **{"depth": scope.depth - 1, **BLOCKS[symbol], "indent": inside}))
            else:
                lines.append(scope.indent + self.filled(line, scope))
        return lines

    # ------------------------------------------------------------------ inside a line

    def filled(self, text: str, scope: Scope, depth: int = 2) -> str:
        """Return a text in which each symbol has become one of the texts that the grammar has for it."""

        def one(match: re.Match[str]) -> str:
            symbol = match[1]
            if symbol == "c":
                return self.comment()
            if symbol == "use":
                return self.use(scope, depth)
            if symbol == "e":
                symbol = "atom" if depth <= 0 or self.chance(0.25) else "expression"
            return self.filled(self.draw.choice(GRAMMAR[symbol]), scope, depth - 1)

        return re.sub(r"<(\w+)>", one, text)

    def use(self, scope: Scope, depth: int = 1) -> str:
        """Return an expression that calls one of the functions, in a way that its kind and this scope allow."""
        if not scope.functions:
            return "1"
        function, kind = self.draw.choice(scope.functions)
        call = self.draw.choice((f"{function}(<e>)", f"{function}(*[<e>])", f"{function}(<e>, y=2)"))
        waits = "await {}" if scope.kind in ("async", "agen") else "asyncio.run({})"
        ways = {
            "def": (call, call, f"in_thread({function}, <e>)", f"back({function}, [1, 2])"),
            "gen": (f"drive({call}, <n>)", f"[*{call}]", f"next({call}, None)"),
            "async": (f"({waits.format(call)})",),
            "agen": (f"({waits.format(f'taken({call})')})",),
        }
        return self.filled(self.draw.choice(ways[kind]), scope, depth - 1)

    def comment(self) -> str:
        """Return sometimes one or two directives."""
        if not self.chance(0.15):
            return ""
        return f"  # {' '.join(self.draw.sample(DIRECTIVES, self.draw.choice((1, 1, 2))))}"

    def chance(self, share: float) -> bool:
        return self.draw.random() < share
