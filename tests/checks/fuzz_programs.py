"""Random programs from the whole grammar of statements, with directives on their lines.

program = Program.drawn(seed)
program.text                     # definitions, and a function `program_17()` that runs them
lecture([program, another])      # a lecture: its `main` runs the programs in turn and prints how each ended

Programs end: loops have a few iterations, and after a number of calls functions return at once (`fuzz_world.spend`).
Programs are deterministic: their output (`say`) is the same in every process, including finalizers and tracebacks.
A `Scope` determines which expressions and statements are allowed at a position.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

STEP = "    "
NAMES = ("x", "y", "z")
ERRORS = ("ValueError", "KeyError", "TypeError", "Thrown", "ZeroDivisionError", "AssertionError", "LookupError")
CAUGHT = (
    "ValueError", "KeyError", "(TypeError, Thrown)", "Exception", "LookupError", "AssertionError", "BaseException",
    "(NameError, AttributeError)", "ArithmeticError", "RuntimeError",
)  # fmt: skip
VALUES = (
    "0", "1", "2", "3", "-1", "1.5", "True", "None", "'ab'", "''", "b'c'", "[1, 2]", "(3, 4)", "{'k': 1}", "{1, 2}",
    "1j", "...", "[]", "'a\\n\"'", "10**20", "frozenset()", "range(2)",
)  # fmt: skip
OBSERVED = (
    "x",
    "y",
    "z",
    "type(x)",
    "x, y",
    "x z",
    "type(y).__name__",
    "x [FLOP]",
    "y [ms], x",
    "nothing_of_this_name",
)
LOCALS = ("def", "gen", "async", "agen")  # kinds of functions
HAS_TYPE_PARAMETERS = sys.version_info >= (3, 12)


@dataclass(frozen=True)
class Scope:
    """The scope and the blocks around a position."""

    kind: str = "def"  # one of LOCALS, "module" or "class"
    indent: str = ""
    depth: int = 3  # how many levels of blocks may follow
    loop: bool = False  # `break` and `continue` are allowed
    returns: bool = True  # `return` is allowed
    comprehension: bool = False
    functions: tuple[tuple[str, str], ...] = ()  # (name, kind) of functions in enclosing scopes
    classes: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()  # generators with `@contextlib.contextmanager`

    @property
    def inner(self) -> Scope:
        return replace(self, indent=self.indent + STEP, depth=self.depth - 1)

    @property
    def awaits(self) -> bool:
        return self.kind in ("async", "agen")

    @property
    def yields(self) -> bool:
        return self.kind in ("gen", "agen") and not self.comprehension


@dataclass
class Program:
    """One program: its lines at the top of a module, and the name of the function that runs it."""

    seed: int
    lines: list[str]

    @property
    def entry(self) -> str:
        return f"program_{self.seed}"

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @classmethod
    def drawn(cls, seed: int, *, torch: bool = False) -> Program:
        """Draw the program of this seed; with `torch`, programs may use tensors."""
        for attempt in range(100):
            lines = Writer(random.Random(f"{seed}.{attempt}"), seed, torch=torch).program()
            program = cls(seed, lines)
            if compiles(program.text):
                return program
        raise AssertionError(f"seed {seed}: a hundred programs that don't compile")


def compiles(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "drawn.py", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def lecture(programs: Sequence[Program], *, last: str = "pass") -> str:
    """Return a lecture that runs these programs in turn; the last statement of its `main` is `last`."""
    uses_torch = any("torch." in line for program in programs for line in program.lines)
    lines = [
        *('"""Programs drawn at random."""', "from __future__ import annotations"),
        *(["import torch"] if uses_torch else []),
        "import asyncio, collections, contextlib, dataclasses, enum, functools, sys, traceback, warnings",
        "from fuzz_world import *",
        "from trace_tools import note, table, text",
        "begin(__file__)",
    ]
    for program in programs:
        lines += program.lines
    lines.append("def main():")
    lines.append(f"{STEP}begin(__file__)")
    for program in programs:
        lines += [
            f"{STEP}start({program.entry!r})",
            f"{STEP}try:",
            f"{STEP}{STEP}say('returned', {program.entry}())",
            f"{STEP}except BaseException as error:",
            f"{STEP}{STEP}told(error)",
            f"{STEP}collect()",
        ]
    lines += [f"{STEP}end()", f"{STEP}{last}", 'if __name__ == "__main__":', f"{STEP}main()", ""]
    return "\n".join(lines)


@dataclass
class Writer:
    """Draws one program."""

    draw: random.Random
    seed: int
    torch: bool = False
    numbers: int = 0
    globals: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------ the whole

    def program(self) -> list[str]:
        """Return a few functions and classes, statements at module level, and the function that runs them."""
        top = Scope(kind="module", depth=2, returns=False)
        prefix = f"p{self.seed}"
        self.globals = [f"{prefix}_g"]
        lines = [f"{prefix}_g = {self.draw.choice(VALUES)}", "x, y, z = 1, [2], None"]
        for number in range(self.draw.randint(1, 4)):
            if self.chance(0.3):
                name = f"{prefix}_C{number}"
                defined = self.class_(top.inner, name)
                lines += ["try:", *defined, "except Exception as error:", f"{STEP}told(error)"]
                top = replace(top, classes=(*top.classes, name))
            elif self.chance(0.2):
                name = f"{prefix}_m{number}"
                lines += self.manager(top, name)
                top = replace(top, managers=(*top.managers, name))
            else:
                name, kind = f"{prefix}_f{number}", self.draw.choice(LOCALS)
                lines += self.function(top, name, kind)
                top = replace(top, functions=(*top.functions, (name, kind)))
        if self.chance(0.2):
            lines += ["try:", *self.block(top.inner), "except Exception as error:", f"{STEP}told(error)"]
        inside = replace(top, kind="def", indent=STEP, depth=3, returns=True)
        body = [line for name, kind in top.functions for line in self.kept(inside, self.use(name, kind, inside))]
        body += self.block(inside, most=6)
        return [*lines, f"def program_{self.seed}():", f"{STEP}x, y = 1, [2]", *body]

    def kept(self, scope: Scope, use: str) -> list[str]:
        """Return lines that print what a call returns or raises."""
        at = scope.indent
        return [
            f"{at}try:",
            f"{at}{STEP}z = say('got', {use}){self.comment()}",
            f"{at}except {self.draw.choice(('Exception', 'BaseException'))} as error:",
            f"{at}{STEP}told(error)",
        ]

    # ------------------------------------------------------------------ functions and classes

    def function(
        self, scope: Scope, name: str, kind: str, parameters: str = "", *, decorated: bool = True
    ) -> list[str]:
        at = scope.indent
        given = parameters or self.draw.choice(
            ("x, y=1, *rest, z=None, **more", "x=2, y=3, z=4", "x, /, y='d', *, z=Noisy('default')", "*x, y=[], **z")
            + ("*q, z=5, **r",) * (3 if scope.kind in LOCALS else 0)
        )
        head = (
            f"{'async ' if kind in ('async', 'agen') else ''}def {name}{self.type_parameters()}({given}){self.arrow()}:"
        )
        inner = replace(scope, kind=kind, indent=at + STEP, depth=min(scope.depth, 3), loop=False, returns=True)
        inner = replace(inner, comprehension=False, functions=(*scope.functions, (name, kind)))
        lines = self.decorators(scope, kind) if decorated and self.chance(0.25) else []
        one_line = self.chance(0.04) and kind == "def"
        if one_line:
            return [*lines, f"{at}{head} return spend() and {self.expression(inner, 1)}{self.comment()}"]
        lines.append(f"{at}{head}{self.comment(0.2, header=True)}")
        if self.chance(0.2):
            lines.append(f'{inner.indent}"""What {name} is."""')
        if scope.kind in LOCALS and "x" not in given and self.chance(0.7):
            lines.append(f"{inner.indent}nonlocal x, y")
        if self.globals and self.chance(0.3):
            lines += [f"{inner.indent}global {self.globals[0]}", f"{inner.indent}{self.globals[0]} = {self.value()}"]
        lines.append(f"{inner.indent}if not spend(): return")
        lines += self.block(inner, most=5)
        if kind in ("gen", "agen") and self.chance(0.9):
            lines.append(f"{inner.indent}{self.draw.choice(('yield x', 'z = yield y', 'yield'))}{self.comment()}")
        if kind == "agen":
            lines.append(f"{inner.indent}if x is Odd: yield")  # makes the function a generator in any case
        elif kind == "gen":
            lines.append(f"{inner.indent}yield from ()")
        if self.chance(0.5) and kind != "agen":
            lines.append(f"{inner.indent}return {self.expression(inner, 2)}{self.comment()}")
        return lines

    def manager(self, scope: Scope, name: str) -> list[str]:
        """Return a context manager made of a generator; exceptions inside the `with` are raised at its `yield`."""
        inner = Scope(kind="gen", indent=STEP, depth=2, functions=scope.functions, classes=scope.classes)
        body = replace(inner, indent=STEP * 2, depth=1, returns=False)
        caught = self.draw.choice(("except ValueError:", "except Exception as error:", "finally:", "finally:"))
        return [
            "@contextlib.contextmanager",
            f"def {name}(x=1, y=2, z=3):{self.comment(0.2, header=True)}",
            f"{STEP}if not spend(): raise Thrown('spent')",
            *self.block(replace(inner, kind="def", returns=False), most=1),
            f"{STEP}try:",
            f"{STEP}{STEP}yield x{self.comment()}",
            f"{STEP}{caught}",
            *self.block(replace(body, kind="def"), most=2),
        ]

    def type_parameters(self) -> str:
        return self.draw.choice(("[T]", "[T: int, *U]")) if HAS_TYPE_PARAMETERS and self.chance(0.1) else ""

    def arrow(self) -> str:
        return " -> 'anything'" if self.chance(0.1) else ""

    def decorators(self, scope: Scope, kind: str) -> list[str]:
        choices = ["noted('d')", "(lambda function: function)", "noted(say('tag'))"]
        if kind == "def":
            choices += ["wrapped", "functools.lru_cache(maxsize=None)", "functools.wraps(say)"]
        chosen = self.draw.sample(choices, self.draw.randint(1, 2))
        return [f"{scope.indent}@{decorator}{self.comment(0.1, header=True)}" for decorator in chosen]

    def class_(self, scope: Scope, name: str) -> list[str]:
        at = scope.indent
        body = replace(scope, kind="class", indent=at + STEP, depth=min(scope.depth, 2), loop=False, returns=False)
        bases = self.draw.choice(
            ("", "", "(Manager)", "(Exception)", "(dict)", "(Noisy)", "(metaclass=Meta)", "(list, metaclass=Meta)",
             "(enum.Enum)", *(f"({other})" for other in scope.classes))
        )  # fmt: skip
        if bases == "(enum.Enum)":
            return [f"{at}class {name}(enum.Enum):", f"{at}{STEP}A = 1", f"{at}{STEP}B = {self.draw.choice('12')}",
                    *self.function(body, "shown", "def", "self", decorated=False)]  # fmt: skip
        if "Meta" in bases:
            lines = [f"{at}class Meta(type):",
                     f"{at}{STEP}def __new__(cls, name, bases, namespace, **more):",
                     f"{at}{STEP * 2}say('makes', name, [key for key in namespace if '@' in key])",
                     f"{at}{STEP * 2}return super().__new__(cls, name, bases, namespace)",
                     f"{at}{STEP}def __call__(cls, *args):",
                     f"{at}{STEP * 2}return super().__call__(*args)"]  # fmt: skip
        elif self.chance(0.15) and not bases:
            fields = [f"{body.indent}{n}: int = {i}" for i, n in enumerate(("x", "y"))]
            how = self.draw.choice(("", "(frozen=True)", "(slots=True)", "(order=True)"))
            lines = [f"{at}@dataclasses.dataclass{how}",
                     f"{at}class {name}:{self.draw.choice(('', '  # @hide'))}", *fields]  # fmt: skip
            return [*lines, *self.method(body)]
        else:
            lines = []
        lines.append(f"{at}class {name}{bases}:{self.draw.choice(('', '', '  # @stepover', '  # @inspect x'))}")
        if self.chance(0.2) and not bases:
            lines.append(f"{body.indent}__slots__ = ('x', 'y')")
        elif self.chance(0.4):
            lines.append(f"{body.indent}kind = {self.expression(body, 1)}")
        if self.chance(0.2):
            lines += [f"{body.indent}for i in range(2):", f"{body.indent}{STEP}say('in class', i)"]
        if self.chance(0.5):
            lines += [
                f"{body.indent}def __init__(self, *args):{self.comment(0.2, header=True, names=('self', 'args'))}"
            ]
            lines += [f"{body.indent}{STEP}super().__init__()" for _ in range(self.chance(0.7))]
            lines += [f"{body.indent}{STEP}self.x = say('made', len(args))"]
        for _ in range(self.draw.randint(1, 3)):
            lines += self.method(body)
        return lines

    def method(self, body: Scope) -> list[str]:
        name = self.draw.choice(("run", "go", "__call__", "__repr__", "__len__", "__del__"))
        if name in ("run", "go", "__call__"):
            kind = self.draw.choice(("def", "def", "gen"))
            decorator = self.draw.choice(("", "", "@staticmethod", "@classmethod", "@property"))
            if name == "__call__" or not decorator:
                return self.function(body, name, kind, "self, x=1, y=2, z=3", decorated=False)
            lines = [f"{body.indent}{decorator}{self.comment(0.1, header=True, names=('x',))}"]
            given = {
                "@staticmethod": "x=1, y=2, z=3",
                "@classmethod": "cls, x=1, y=2, z=3",
                "@property": "self, x=1, y=2, z=0",
            }
            return [*lines, *self.function(body, name, kind, given[decorator], decorated=False)]
        at = body.indent
        answers = {"__repr__": f"'one of {self.seed}'", "__len__": "2", "__del__": "say('class died')"}
        return [f"{at}def {name}(self):{self.comment(0.1, header=True, names=('self',))}",
                f"{at}{STEP}return {answers[name]}"]  # fmt: skip

    # ------------------------------------------------------------------ statements

    def block(self, scope: Scope, most: int = 3) -> list[str]:
        lines: list[str] = []
        here = scope
        for _ in range(self.draw.randint(1, most)):
            if scope.depth > 0 and self.chance(0.45):
                if scope.kind in LOCALS and self.chance(0.12):
                    self.numbers += 1
                    name, kind = f"inner{self.numbers}", self.draw.choice(LOCALS)
                    lines += self.function(here, name, kind)
                    here = replace(here, functions=(*here.functions, (name, kind)))
                elif scope.kind in LOCALS and self.chance(0.05):
                    self.numbers += 1
                    lines += self.class_(here, f"Inner{self.numbers}")
                    here = replace(here, classes=(*here.classes, f"Inner{self.numbers}"))
                else:
                    lines += self.compound(here)
            else:
                lines += self.simple(here)
        return lines

    def compound(self, scope: Scope) -> list[str]:
        choices: list[tuple[int, Callable[[Scope], list[str]]]] = [
            (4, self.if_), (4, self.for_), (3, self.while_), (6, self.try_), (2, self.try_star), (4, self.with_),
            (3, self.match_),
        ]  # fmt: skip
        return self.draw.choices([c for _, c in choices], [w for w, _ in choices])[0](scope)

    def if_(self, scope: Scope) -> list[str]:
        at = scope.indent
        if self.chance(0.15):
            return [f"{at}if {self.test(scope)}: {self.one_line(scope)}{self.comment()}"]
        lines = [f"{at}if {self.test(scope)}:{self.comment(0.2)}", *self.block(scope.inner)]
        if self.chance(0.3):
            lines += [f"{at}elif {self.test(scope)}:{self.comment(0.2)}", *self.block(scope.inner)]
        if self.chance(0.5):
            lines += [f"{at}else:", *self.block(scope.inner)]
        return lines

    def one_line(self, scope: Scope) -> str:
        choices = ["pass", "x = 1", f"say({self.expression(scope, 1)})", f"raise {self.error()}"]
        if scope.returns and scope.kind != "module":
            choices.append("return" if scope.kind == "agen" else f"return {self.expression(scope, 1)}")
        if scope.loop:
            choices += ["break", "continue"]
        return self.draw.choice(choices)

    def for_(self, scope: Scope) -> list[str]:
        at, turns = scope.indent, self.draw.randint(0, 3)
        inner = replace(scope.inner, loop=True)
        target = self.draw.choice(("x", "y", "i", "(x, *y)", "z"))
        many = f"[(i, i) for i in range({turns})]" if target.startswith("(") else self.iterable(scope, turns)
        asynchronous = scope.awaits and self.chance(0.4)
        if asynchronous:
            target = "y"
            sources = [name for name, kind in scope.functions if kind == "agen"]
            many = f"{self.draw.choice(sources)}(1)" if sources and self.chance(0.5) else f"Counted({turns})"
        head = f"{at}{'async ' if asynchronous else ''}for {target} in {many}:"
        lines = [f"{head}{self.comment(0.25)}", *self.block(inner)]
        if self.chance(0.3):
            lines += [f"{at}else:", *self.block(scope.inner)]
        return lines

    def iterable(self, scope: Scope, turns: int) -> str:
        sources = [f"{name}(1)" for name, kind in scope.functions if kind == "gen"]
        return self.draw.choice(
            (f"range({turns})", f"Counted({turns})", f"Counted({turns}, {self.error()})", "'ab'", "[1, 'b', None]",
             f"(say(i) for i in range({turns}))", f"list(range({turns}))[::-1]", *sources)
        )  # fmt: skip

    def while_(self, scope: Scope) -> list[str]:
        self.numbers += 1
        at, counter, turns = scope.indent, f"n{self.numbers}", self.draw.randint(0, 3)
        inner = replace(scope.inner, loop=True)
        test = f"({counter} := {counter} + 1) < {turns}"
        test = self.draw.choice((test, f"{test} and ({self.test(scope)})", f"not {counter} > {turns}", test))
        lines = [f"{at}{counter} = 0"]
        if test.startswith("not"):
            lines += [f"{at}while {test}:{self.comment(0.25)}", f"{inner.indent}{counter} += 1", *self.block(inner)]
        else:
            lines += [f"{at}while {test}:{self.comment(0.25)}", *self.block(inner)]
        if self.chance(0.3):
            lines += [f"{at}else:", *self.block(scope.inner)]
        return lines

    def try_(self, scope: Scope) -> list[str]:
        at = scope.indent
        lines = [f"{at}try:", *self.block(scope.inner)]
        handlers = self.draw.choice((0, 1, 1, 1, 2))
        for number in range(handlers):
            bound = self.chance(0.6)
            lines.append(f"{at}except {self.draw.choice(CAUGHT)}{' as error' if bound else ''}:{self.comment(0.15)}")
            lines += [f"{scope.inner.indent}told(error)"] if bound else []
            lines += self.block(scope.inner)
            if number == 0 and self.chance(0.1):
                lines += [f"{at}except:", *self.block(scope.inner)]
                handlers = 1
                break
        if handlers and self.chance(0.3):
            lines += [f"{at}else:", *self.block(scope.inner)]
        if not handlers or self.chance(0.35):
            lines += [f"{at}finally:", *self.block(scope.inner)]
        return lines

    def try_star(self, scope: Scope) -> list[str]:
        at = scope.indent
        caught = replace(scope.inner, loop=False, returns=False)
        raised = f"raise ExceptionGroup('several', [{self.error()}, {self.error()}])"
        lines = [f"{at}try:", *self.block(scope.inner), f"{scope.inner.indent}{raised}{self.comment()}"]
        for kind in self.draw.sample(("ValueError", "KeyError", "Thrown", "Exception"), self.draw.randint(1, 2)):
            lines += [f"{at}except* {kind} as error:", f"{caught.indent}told(error)", *self.block(caught)]
        if self.chance(0.3):
            lines += [f"{at}finally:", *self.block(scope.inner)]
        return lines

    def with_(self, scope: Scope) -> list[str]:
        at = scope.indent
        swallowed = self.draw.choice(("", ", Exception", ", ValueError, KeyError", ", BaseException"))
        items = [f"Manager({self.draw.randint(0, 9)}{swallowed}){self.draw.choice(('', ' as y', ' as (x)'))}"]
        if self.chance(0.3):
            items.append(self.draw.choice(
                ("contextlib.suppress(Thrown)", "contextlib.nullcontext(Noisy('with')) as z",
                 f"{self.expression(scope, 1)}",
                 "contextlib.ExitStack() as stack", "contextlib.suppress(AssertionError)")
            ))  # fmt: skip
        if scope.managers and self.chance(0.4):
            items.append(f"{self.draw.choice(scope.managers)}({self.value()}) as y")
        asynchronous = scope.awaits and self.chance(0.4)
        items = items[:1] if asynchronous else items
        if len(items) > 1 and self.chance(0.3):
            head = [f"{at}with (", *(f"{at}{STEP}{item}," for item in items), f"{at}):{self.comment(0.2)}"]
        else:
            head = [f"{at}{'async ' if asynchronous else ''}with {', '.join(items)}:{self.comment(0.25)}"]
        return [*head, *self.block(scope.inner)]

    def match_(self, scope: Scope) -> list[str]:
        at, inner = scope.indent, scope.inner.inner
        lines = [f"{at}match {self.expression(scope, 1)}:{self.comment(0.2)}"]
        patterns = [
            "0 | 1", "None", "'ab'", "[x, *_]", "[1, y]", "(3, *z)", "{'k': x, **z}", "int(x)", "str() as y",
            "Odd(value=x)",
            "int(real=y) | float(real=y)", "-1", "[[*_], x]", "Thrown(args=(x, *_))", "bytes()", "True", "1.5 | 1j",
        ]  # fmt: skip
        for pattern in self.draw.sample(patterns, self.draw.randint(1, 3)):
            guard = f" if {self.test(scope)}" if self.chance(0.3) else ""
            lines += [f"{at}{STEP}case {pattern}{guard}:{self.comment(0.15)}", *self.block(inner)]
        if self.chance(0.4):
            lines += [f"{at}{STEP}case {self.draw.choice(('_', 'x'))}:", *self.block(inner)]
        return lines

    def simple(self, scope: Scope) -> list[str]:
        at = scope.indent
        kind = self.draw.random()
        if kind < 0.2:
            return self.shown(scope)
        if kind < 0.28 and scope.kind in LOCALS:
            return [f"{at}{self.leaving(scope)}{self.comment()}"]
        if kind < 0.4:
            return self.assertion(scope)
        if kind < 0.5:
            return self.long(scope)
        text = self.draw.choice(self.plain_statements(scope))
        return [f"{at}{text}{self.comment()}"]

    def plain_statements(self, scope: Scope) -> list[str]:
        value, other, name = self.expression(scope, 2), self.expression(scope, 1), self.draw.choice(NAMES)
        choices = [
            f"{name} = {value}", f"{name} = {value}", f"x = y = {value}", f"x, *y = {value}, {other}, 3",
            f"(x, y), z = ({value}, {other}), 1", f"{name} += {self.value()}", f"{name} -= 1", f"{name} //= {other}",
            f"{name}: int = {value}", "z: 'list[int]'" if scope.kind in LOCALS else "pass", f"del {name}", "del x, y",
            f"say({value})", f"say({value}, {other})", f"{value}", f"{name} = Noisy({self.draw.randint(0, 99)})",
            f"{name} = Odd({self.draw.randint(0, 9)})", f"{name} = [Noisy('in list'), {other}]", "collect()",
            f"{name}[0] = {value}", f"del {name}[0]", f"{name}.attribute = {value}", f"{name} = {name}",
            f"x = {value}; y = {other}", "import math", "from math import pi as z", f"warnings.warn('w {self.seed}')",
            "text(f'x is {x!r:.20}')", "note('note')",
            f"table([[1, 'a'], [{self.draw.randint(0, 9)}, None]], ['n', 'c'])",
            f"print({other} is None, 1, sep='-')", "print('to stderr', file=sys.stderr)", "exec('say(1)')",
            "y = eval('x')", "pass", "...", "'only text'", f"{name} = in_thread(say, {other})",
            f"{name} = observed(Noisy('referenced'))", "x = sys._getframe().f_lineno",
            "say(sys._getframe().f_code.co_name)",
            "say(sys.exc_info()[0])", "say(sys._getframe(1).f_code.co_name)",
            "say(traceback.format_exc())", "say(main.__code__.co_firstlineno)", f"{name} = (lambda q={other}: q)()",
            f"setattr(say, 'last', {self.value()})",
        ]  # fmt: skip
        if self.globals:
            choices += [f"globals()[{self.globals[0]!r}] = {other}", f"say({self.globals[0]})"]
        if scope.kind in LOCALS:
            choices += [
                "say(sorted(locals()))",
                "say(sorted(vars()), dir())",
                "say((lambda **all: sorted(all))(**locals()))",
                "say(eval('sorted(locals())'))",
                "exec('say(sorted(locals()))')",
            ]
        if scope.yields:
            choices += [f"{name} = yield {other}", f"yield {value}", f"yield {other}"] * 3
            if scope.kind == "gen":
                choices += [f"{name} = yield from {self.iterable(scope, 2)}"] * 2
        if scope.awaits:
            choices += ["await asyncio.sleep(0)", f"{name} = await {self.awaitable(scope)}",
                        f"{name} = await asyncio.gather({self.awaitable(scope)}, {self.awaitable(scope)})",
                        f"{name} = [i async for i in Counted(2)]",
                        f"{name} = await asyncio.create_task({self.awaitable(scope)})",
                        f"{name} = await asyncio.wait_for({self.awaitable(scope)}, 60)",
                        f"{name} = await cancelled({self.awaitable(scope)})"] * 2  # fmt: skip
        if self.torch:
            choices += [
                f"{name} = torch.arange(6.0).reshape(2, 3)", f"{name} = torch.ones(2, 3, requires_grad=True)",
                f"{name} = (torch.ones(2, 3) @ torch.full((3, 2), {self.draw.randint(0, 5)}.0)).sum()",
                f"{name} = torch.relu({name})", f"{name}.sum().backward()", f"say({name}.grad)", f"{name}.mul_(2)",
                f"{name} = {name}.T", f"{name} = torch.nn.functional.linear(torch.ones(1, 3), torch.ones(2, 3))",
                f"{name} = torch.stack([torch.ones(2), torch.zeros(2)])", f"{name} = {name}[0]",
                f"{name} = float(torch.arange(4).float().mean())", f"with torch.no_grad(): {name} = {name} * 2",
                f"{name} = torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2), use_reentrant=False)",
                f"{name} = torch.rand(3)", f"{name} = torch.autograd.grad({name}.sum(), {name}, allow_unused=True)",
                f"{name}.register_hook(lambda g: say(g))", f"{name} = torch.vmap(lambda v: v + 1)(torch.ones(2))",
            ] * 2  # fmt: skip
        return choices

    def shown(self, scope: Scope) -> list[str]:
        """Return `x = …  # @inspect x`, and a statement in which the program itself prints x."""
        name = self.draw.choice(NAMES)
        return [f"{scope.indent}{name} = {self.expression(scope, 2)}  # @inspect {name}",
                f"{scope.indent}say('is', {name})"]  # fmt: skip

    def leaving(self, scope: Scope) -> str:
        choices = [f"raise {self.error()}", f"raise {self.error()} from {self.error()}", "raise",
                   f"raise {self.error()} from None", "raise Final('f')"]  # fmt: skip
        if scope.returns:
            choices += ["return"] if scope.kind == "agen" else ["return", *[f"return {self.expression(scope, 2)}"] * 4]
        if scope.loop:
            choices += ["break", "continue"] * 3
        return self.draw.choice(choices)

    def assertion(self, scope: Scope) -> list[str]:
        at = scope.indent
        test = self.draw.choice(
            (f"{self.expression(scope, 1)} == {self.expression(scope, 1)}", f"{self.test(scope)}",
             f"not {self.expression(scope, 1)}", f"say(1) < {self.expression(scope, 1)} <= say(3)",
             "isinstance(x, int)",
             f"{self.expression(scope, 1)} or {self.expression(scope, 1)} != 2", "x is None or y",
             "any(i for i in [0, 1])",
             f"({self.test(scope)}) is not False")
        )  # fmt: skip
        message = self.draw.choice(("", "", ", 'message'", f", say('said', {self.expression(scope, 1)})", ", x"))
        return [f"{at}assert {test}{message}{self.comment()}"]

    def long(self, scope: Scope) -> list[str]:
        """Return a statement of several lines with a directive on one of them."""
        at, name = scope.indent, self.draw.choice(NAMES)
        comments = ["", "", ""]
        comments[self.draw.randrange(3)] = self.comment(0.6)
        parts = (self.expression(scope, 2), self.expression(scope, 1))
        forms = (
            (f"{name} = say(", f"{parts[0]},", f"{parts[1]})"),
            ("say(", f"{parts[0]},", f"{parts[1]})"),
            (f"{name} = [", f"{parts[0]},", f"{parts[1]}]"),
        )
        first, middle, last = self.draw.choice(forms)
        return [f"{at}{first}{comments[0]}", f"{at}{STEP}{middle}{comments[1]}", f"{at}{STEP}{last}{comments[2]}"]

    # ------------------------------------------------------------------ expressions

    def expression(self, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.chance(0.25):
            return self.draw.choice((*NAMES, *NAMES, self.value(), self.value()))
        a, b = self.expression(scope, depth - 1), self.expression(scope, depth - 1)
        inside = replace(scope, comprehension=True)
        element = self.expression(inside, depth - 1)
        name = self.draw.choice(NAMES)
        choices = [
            f"cut({a} + {b})", f"cut({a} * 3)", f"({a} - {b})", f"({a} // {b})", f"({a} % 7)",
            f"(-{a})" if a[0] != "-" else a,
            f"({a} < {b})", f"({a} == {b} != 3)", f"({a} and {b})", f"({a} or {b})", f"(not {a})",
            f"({a} if {b} else 1)",
            f"[{a}, {b}]", f"({a}, {b})", f"{{'k': {a}, 'l': {b}}}", f"[*{a}, {b}]", f"{{**{a}, 'm': {b}}}",
            f"say({a})",
            f"cut([{element} for i in range(2)])", f"{{i: {element} for i in 'ab'}}", "len({i for i in (1, 2) if i})",
            "[(i, j) for i in range(2) for j in range(i)]", f"list({element} for i in (1, 2))", f"(lambda q: {a})({b})",
            f"f'{{{name}!r:.30}} {{{name}=!s:>9.20}}'", f"{name}[0]", f"{name}[1:]", f"{name}.name", f"{name}.value",
            f"back(lambda q: {a}, [1, 2])", f"isinstance({a}, int)", f"type({a}).__name__", f"max({a}, {b})",
            f"sorted({a})", f"next(iter({a}), {b})", f"functools.reduce(lambda p, q: cut(p), [{a}, {b}])",
            f"sum([1, 2], {a})", "collections.Counter('ab')", f"Odd({self.draw.randint(0, 9)})", "Noisy('made')",
            "('a' 'b')",
        ]  # fmt: skip
        if scope.kind != "class" and not scope.comprehension:
            choices += [f"(x := {a})", f"(y := {a})"]
        if scope.functions:
            function, kind = self.draw.choice(scope.functions)
            choices += [self.use(function, kind, scope, a)] * 7
        if scope.classes:
            chosen = self.draw.choice(scope.classes)
            choices += [f"{chosen}()", f"{chosen}({a})", f"{chosen}().run()", f"{chosen}().go(x={a})",
                        f"{chosen}()({a})",
                        f"{chosen}().run", f"drive({chosen}().run(), 1)", f"in_thread({chosen}.run, {a})"]  # fmt: skip
        if scope.yields:
            choices += [f"(yield {a})"] * 2
        if scope.awaits and not scope.comprehension:
            choices += [f"(await {self.awaitable(scope)})"]
        if self.torch:
            choices += ["torch.ones(2)", f"torch.tensor([1.0, 2.0]) * {name}", f"torch.ones(2, 2) @ {name}"]
        return self.draw.choice(choices)

    def use(self, function: str, kind: str, scope: Scope, argument: str = "1") -> str:
        """Return an expression that calls a function of this kind from this scope."""
        how = self.draw.randint(0, 3)
        given = self.draw.choice((argument, f"*[{argument}]", f"{argument}, y=2", f"{argument}, **{{'z': 1}}"))
        call = f"{function}({given})"
        if kind == "def":
            return self.draw.choice(
                (call, call, call, f"in_thread({function}, {argument})", f"back({function}, [1, 2])")
            )
        if kind == "gen":
            return self.draw.choice(
                (f"drive({call}, {how})", f"cut(list({call}))", f"[*{call}]", f"next({call}, None)", call)
            )
        if kind == "async":
            if scope.awaits and not scope.comprehension:
                return f"(await {call})"
            return f"asyncio.run({call})"
        if scope.awaits and not scope.comprehension:
            return self.draw.choice((f"(await adrive({call}, {how}))", f"[i async for i in {call}]"))
        return f"asyncio.run(adrive({call}, {how}))"

    def awaitable(self, scope: Scope) -> str:
        coroutines = [name for name, kind in scope.functions if kind == "async"]
        if coroutines and self.chance(0.7):
            return f"{self.draw.choice(coroutines)}({self.value()})"
        return "asyncio.sleep(0, 'slept')"

    def test(self, scope: Scope) -> str:
        return self.draw.choice(
            (f"{self.expression(scope, 1)}", f"{self.expression(scope, 1)} == {self.value()}", "x", "not y",
             "isinstance(x, int)",
             f"say({self.draw.choice((0, 1))})", f"{self.expression(scope, 1)} is None", "True", "x == 1 or y == 2")
        )  # fmt: skip

    def value(self) -> str:
        return self.draw.choice(VALUES)

    def error(self) -> str:
        kind = self.draw.choice(ERRORS)
        return self.draw.choice((f"{kind}({self.draw.randint(0, 9)})", f"{kind}('why')", f"{kind}(1, [2])"))

    # ------------------------------------------------------------------ directives

    def comment(self, share: float = 0.12, *, header: bool = False, names: Sequence[str] = OBSERVED) -> str:
        """Return sometimes one or two directives; on a `def` line, they inspect arguments."""
        if not self.chance(share):
            return ""
        if self.chance(0.2):
            return self.draw.choice(
                ("  # @hide", "  # @animate", "  # @clear x", "  # @hide @stepover", "  # ordinary")
            )
        if self.chance(0.25):
            return "  # @stepover"
        names = ("x",) if header and names is OBSERVED else names
        return f"  # @inspect {self.draw.choice(names)}{self.draw.choice(('', '', ' @stepover', ' @hide'))}"

    def chance(self, share: float) -> bool:
        return self.draw.random() < share
