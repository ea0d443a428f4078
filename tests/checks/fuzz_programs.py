"""Random programs from the grammar of statements, with directives on their lines.

drawn(17)          # a lecture: functions, and a `main` that runs them; the same for the same seed

Programs end: loops have a few iterations, and after a number of calls functions return at once (`fuzz_world.spend`).
They are deterministic: what they print is the same in every process, including finalizers and positions of errors.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")
STEP = "    "
NAMES = ("x", "y", "z")
KINDS = ("def", "def", "gen", "async", "agen")
ERRORS = ("ValueError(1)", "KeyError('k')", "TypeError()", "Thrown('why')", "AssertionError(1, [2])")
CAUGHT = ("ValueError", "(TypeError, Thrown)", "Exception", "BaseException", "AssertionError")
VALUES = ("0", "1", "2", "-1", "1.5", "True", "None", "'ab'", "[1, 2]", "(3, 4)", "{'k': 1}", "{1, 2}", "10**20")
PATTERNS = ("0 | 1", "None", "'ab'", "[x, *_]", "[1, y]", "{'k': x, **z}", "int(x)", "str() as y", "Odd(value=x)")
DIRECTIVES = ("@inspect x", "@inspect x, y", "@inspect type(x)", "@inspect nothing", "@stepover", "@hide", "@clear x")


@dataclass(frozen=True)
class Scope:
    """The scope and the blocks around a position."""

    kind: str = "def"  # one of KINDS
    indent: str = ""
    depth: int = 3  # how many levels of blocks may follow
    loop: bool = False  # `break` and `continue` are allowed
    leaves: bool = True  # `return` is allowed
    functions: tuple[tuple[str, str], ...] = ()  # (name, kind) of functions in enclosing scopes

    @property
    def inner(self) -> Scope:
        return replace(self, indent=self.indent + STEP, depth=self.depth - 1)

    @property
    def awaits(self) -> bool:
        return self.kind in ("async", "agen")


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
        for _ in range(self.draw.randint(2, 4)):
            added, top = self.function(top)
            lines += added
        inside = replace(top, indent=STEP * 2, leaves=False)
        uses = [self.use(name, kind, inside) for name, kind in top.functions for _ in range(2)]
        bodies = [[f"{STEP * 2}z = say('got', {use}){self.comment()}"] for use in uses]
        lines += ["def main():", f"{STEP}begin(__file__)", f"{STEP}x, y, z = 1, [2], None"]
        for body in [*bodies, self.block(inside, 6)]:
            lines += [f"{STEP}try:", *body, f"{STEP}except BaseException as error:", f"{STEP * 2}told(error)"]
        return [*lines, f"{STEP}end()", "if __name__ == '__main__':", f"{STEP}main()"]

    def function(self, scope: Scope) -> tuple[list[str], Scope]:
        """Return the definition of a function, and the scope with its name."""
        self.numbers += 1
        at, name, kind = scope.indent, f"f{self.numbers}", self.draw.choice(KINDS)
        scope = replace(scope, functions=(*scope.functions, (name, kind)))
        inner = replace(scope, kind=kind, indent=at + STEP, depth=min(scope.depth, 3), loop=False, leaves=True)
        lines = [f"{at}@noted"] * self.chance(0.15)
        given = self.pick("x, y=1, *rest, z=None, **more", "x=2, y=3, z=4", "x, /, y='d', *, z=0")
        lines.append(f"{at}{'async ' * inner.awaits}def {name}({given}):{self.comment(0.2)}")
        if self.chance(0.3):
            lines += [f"{inner.indent}global g", f"{inner.indent}g = {self.value()}"]
        lines += [f"{inner.indent}if not spend(): return", *self.block(inner, 5)]
        if kind in ("gen", "agen"):
            lines.append(f"{inner.indent}{self.pick('yield x', 'z = yield y', 'yield')}{self.comment()}")
        if kind != "agen":
            lines.append(f"{inner.indent}return {self.expression(inner)}{self.comment()}")
        return lines, scope

    def class_(self, scope: Scope) -> list[str]:
        """Return a class, and make an object of it."""
        body = scope.indent + STEP
        method = replace(scope, kind="def", indent=body + STEP, depth=1, loop=False, leaves=True)
        return [
            f"{scope.indent}class C({self.pick('Manager', 'dict', 'Noisy')}):{self.comment(0.3)}",
            f"{body}kind = {self.value()}",
            f"{body}def __init__(self, x, y=2, z=3):{self.comment(0.3)}",
            f"{method.indent}super().__init__(*['made'] * (C.__base__ is not dict))",
            *self.block(method),
            f"{scope.indent}z = C({self.value()}){self.comment()}",
        ]

    # ------------------------------------------------------------------ statements

    def block(self, scope: Scope, most: int = 3) -> list[str]:
        lines: list[str] = []
        compounds = (self.if_, self.for_, self.while_, self.try_, self.try_, self.try_star, self.with_, self.match_)
        for _ in range(self.draw.randint(1, most)):
            if scope.depth <= 0 or self.chance(0.55):
                lines += self.simple(scope)
            elif self.chance(0.12):
                added, scope = self.function(scope)
                lines += added
            elif self.chance(0.06):
                lines += self.class_(scope)
            else:
                lines += self.draw.choice(compounds)(scope)
        return lines

    def else_(self, scope: Scope, share: float, word: str = "else") -> list[str]:
        return [f"{scope.indent}{word}:", *self.block(scope.inner)] if self.chance(share) else []

    def if_(self, scope: Scope) -> list[str]:
        at, test = scope.indent, self.expression(scope)
        if self.chance(0.15):
            return [f"{at}if {test}: {self.pick('pass', 'x = 1', f'say({test})')}{self.comment()}"]
        lines = [f"{at}if {test}:{self.comment()}", *self.block(scope.inner)]
        lines += [f"{at}elif {self.expression(scope)}:{self.comment()}", *self.block(scope.inner)] * self.chance(0.3)
        return lines + self.else_(scope, 0.5)

    def for_(self, scope: Scope) -> list[str]:
        waits = scope.awaits and self.chance(0.4)
        many = f"Counted({self.draw.randint(0, 3)})" if waits else self.iterable(scope)
        header = f"{scope.indent}{'async ' * waits}for {self.pick('x', 'y', 'i')} in {many}:{self.comment(0.25)}"
        return [header, *self.block(replace(scope.inner, loop=True)), *self.else_(scope, 0.3)]

    def iterable(self, scope: Scope) -> str:
        n = self.draw.randint(0, 3)
        sources = [f"{name}(1)" for name, kind in scope.functions if kind == "gen"]
        return self.pick(f"range({n})", f"Counted({n}, {self.error()})", f"(say(i) for i in range({n}))", *sources)

    def while_(self, scope: Scope) -> list[str]:
        self.numbers += 1
        at, counter = scope.indent, f"n{self.numbers}"
        test = f"({counter} := {counter} + 1) < {self.draw.randint(0, 3)}"
        test += f" and {self.expression(scope)}" * self.chance(0.3)
        lines = [f"{at}{counter} = 0", f"{at}while {test}:{self.comment(0.25)}"]
        return [*lines, *self.block(replace(scope.inner, loop=True)), *self.else_(scope, 0.3)]

    def try_(self, scope: Scope) -> list[str]:
        at, lines = scope.indent, [f"{scope.indent}try:", *self.block(scope.inner)]
        handlers = self.draw.choice((0, 1, 1, 2))
        for _ in range(handlers):
            lines += [f"{at}except {self.draw.choice(CAUGHT)} as error:{self.comment()}", f"{at}{STEP}told(error)"]
            lines += self.block(scope.inner)
        lines += self.else_(scope, 0.3 if handlers else 0)
        return lines + self.else_(scope, 0.35 if handlers else 1, "finally")

    def try_star(self, scope: Scope) -> list[str]:
        at, caught = scope.indent, replace(scope.inner, loop=False, leaves=False)
        raised = f"raise ExceptionGroup('several', [{self.error()}, {self.error()}]){self.comment()}"
        lines = [f"{at}try:", *self.block(scope.inner), f"{at}{STEP}{raised}"]
        return [*lines, f"{at}except* {self.pick('ValueError', 'Exception')} as error:", *self.block(caught)]

    def with_(self, scope: Scope) -> list[str]:
        waits = scope.awaits and self.chance(0.4)
        manager = f"Manager({self.draw.randint(0, 9)}{self.pick('', ', Exception', ', ValueError')}) as y"
        manager += ", contextlib.suppress(Thrown)" * (not waits and self.chance(0.4))
        return [f"{scope.indent}{'async ' * waits}with {manager}:{self.comment(0.25)}", *self.block(scope.inner)]

    def match_(self, scope: Scope) -> list[str]:
        at, lines = scope.indent, [f"{scope.indent}match {self.expression(scope)}:{self.comment(0.2)}"]
        for pattern in self.draw.sample(PATTERNS, self.draw.randint(1, 3)):
            guard = f" if {self.expression(scope)}" * self.chance(0.3)
            lines += [f"{at}{STEP}case {pattern}{guard}:{self.comment()}", *self.block(scope.inner.inner)]
        return lines

    def simple(self, scope: Scope) -> list[str]:
        at, name = scope.indent, self.draw.choice(NAMES)
        if self.chance(0.2):  # the program itself prints what was inspected
            return [f"{at}{name} = {self.expression(scope)}  # @inspect {name}", f"{at}say('is', {name})"]
        value, other = self.expression(scope), self.expression(scope, 1)
        if self.chance(0.1):
            lines = (f"{name} = say(", f"{STEP}{value},", f"{STEP}{other})")  # directives stand on any line
            return [f"{at}{line}{self.comment(0.3)}" for line in lines]
        choices = [
            f"{name} = {value}", f"x = y = {value}", f"x, *y = {value}, {other}, 3", f"{name} += {self.value()}",
            f"{name}: int = {value}", f"del {name}", f"say({value})", f"{name} = Noisy({other})", f"Noisy({value})",
            f"{name} = Odd({self.draw.randint(0, 9)})", f"{name}[0] = {value}", f"{name}.attribute = {value}",
            f"x = {value}; y = {other}", "import math", "exec('say(1)')", "pass", f"{name} = in_thread(say, {other})",
            "say(sys._getframe().f_lineno, sys.exc_info()[0])", f"assert {value} == {other}, say('said')",
            f"assert {value}", "assert say(1) < x <= say(3)", f"raise {self.error()}", "raise",
            f"raise {self.error()} from {self.error()}", "say(sorted(locals()), eval('x'))", "say(sorted(vars()))",
        ]  # fmt: skip
        if scope.leaves:
            choices += ["return"] if scope.kind == "agen" else [f"return {value}"] * 3
        if scope.loop:
            choices += ["break", "continue"]
        if scope.kind in ("gen", "agen"):
            choices += [f"{name} = yield {other}", f"yield {value}"] * 3
        if scope.kind == "gen":
            choices += [f"{name} = yield from {self.iterable(scope)}"] * 2
        if scope.awaits:
            waited = "asyncio.sleep(0, 'slept')"
            choices += [f"{name} = await {waited}", f"{name} = await asyncio.gather({waited}, {waited})"] * 3
            choices += [f"{name} = [i async for i in Counted(2)]"]
        return [f"{at}{self.draw.choice(choices)}{self.comment()}"]

    # ------------------------------------------------------------------ expressions

    def expression(self, scope: Scope, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.25):
            return self.pick(*NAMES, *NAMES, self.value(), self.value())
        a, b = self.expression(scope, depth - 1), self.expression(scope, depth - 1)
        name = self.draw.choice(NAMES)
        choices = [
            f"cut({a} + {b})", f"({a} < {b})", f"({a} == {b} != 3)", f"({a} and {b})", f"({a} or {b})", f"(not {a})",
            f"({a} if {b} else 1)", f"[{a}, *{b}]", f"{{'k': {a}, 'l': {b}}}", f"say({a})", f"max({a}, {b})", "g",
            f"[{name} for i in range(2)]", f"(lambda q: {a})({b})", f"{name}[0]", f"f'{{{name}!r:.30}}'",
            f"{name}.name", f"back(lambda q: {a}, [1, 2])", f"isinstance({a}, int)", f"Odd({self.pick(2, 3, 4)})",
            f"(x := {a})",
        ]  # fmt: skip
        if scope.functions:
            choices += [self.use(*self.draw.choice(scope.functions), scope, a)] * 6
        return self.draw.choice(choices)

    def use(self, function: str, kind: str, scope: Scope, argument: str = "1") -> str:
        """Return an expression that calls a function of this kind from this scope."""
        call = f"{function}({self.pick(argument, f'*[{argument}]', f'{argument}, y=2')})"
        if kind == "def":
            return self.pick(call, call, f"in_thread({function}, {argument})", f"back({function}, [1, 2])")
        if kind == "gen":
            return self.pick(f"drive({call}, {self.draw.randint(0, 3)})", f"[*{call}]", f"next({call}, None)")
        call = call if kind == "async" else f"taken({call})"
        return f"(await {call})" if scope.awaits else f"asyncio.run({call})"

    def value(self) -> str:
        return self.draw.choice(VALUES)

    def error(self) -> str:
        return self.draw.choice(ERRORS)

    def comment(self, share: float = 0.12) -> str:
        """Return sometimes one or two directives."""
        if not self.chance(share):
            return ""
        return f"  # {' '.join(self.draw.sample(DIRECTIVES, self.pick(1, 1, 2)))}"

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def pick(self, *choices: T) -> T:
        return self.draw.choice(choices)
