"""Syntax tree → the same program with probes in it.

The lecture runs as ordinary Python; before each statement stands one call that closes the step
before it and opens the next. Nothing else is intercepted, so library code runs untouched.

    def f(x):                      def f(x):
        y = g(x)  # @inspect y         if _@is_compiling(): <the body as written>
        return y                       else:
                                           _@frame = _@open(0)
                                           try:
                                               _@frame.begin(1)
                                               y = g(x)
                                               _@frame.end()
                                               if _@frame.recorded:
                                                   try: _@frame.value("y", None, y)
                                                   except BaseException: _@frame.value_failed("y", None)
                                               _@frame.step(2)
                                               return y
                                           except BaseException: _@frame.raised(); raise
                                           finally: _@frame.close()

Two whole bodies behind one test, because dynamo then sees exactly the plain function. The generated
names can't be written in Python, and start with an underscore so that star-imports leave them alone.
No probe keeps a value: temporaries are cleared before the next statement runs.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trace_tools.directives import Directive, Inspected
from trace_tools.statements import (
    FUNCTIONS,
    MAIN,
    MODULE,
    ParsedSource,
    bare_call,
    parse_source,
    qualified_name,
    sections,
)
from trace_tools.tracing.syntax import (
    FRAME,
    assign,
    at,
    catches_assertions,
    changed,
    ended,
    fill_places,
    frame_call,
    is_irrefutable,
    listed,
    load,
    own_nodes,
    place_of_failure,
    preamble_length,
    probe,
    suspends,
)
from trace_tools.vocabularies import narrative_calls

OPEN = "_@open"
IS_COMPILING = "_@is_compiling"
UNSET = "_@unset"
SKIPPED = "_@skipped"
SHOWN = "_@shown"
SCOPE = "_@scope"
MODULE_FRAME = -1

LEAVING = (ast.Raise, ast.Continue, ast.Break)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
SILENT = (ast.Pass, ast.Break, ast.Continue)  # behind a probe there is no instruction left that is theirs
SELF_PROBED = (ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A tree with probes, and what the recorder must know of its statements."""

    tree: ast.Module
    functions: dict[int, str]  # number of each `def` (MODULE_FRAME for the module) → qualified name
    suspending: frozenset[int]  # statements that yield or await
    covered: frozenset[int]  # statements and functions under @stepover
    claims: dict[int, tuple[str, tuple[str, ...]]]  # assert → its test, and its sides, as written
    catching: frozenset[int]  # statements whose AssertionError is caught around them in the same function
    annotated: frozenset[int]  # functions in which something is inspected, asserted or said


def is_generated(name: object) -> bool:
    """Whether a name is the instrumenter's: none that can be written in Python begins like this."""
    return isinstance(name, str) and name.startswith("_@")


def instrument(
    source: ParsedSource,
    directives: Sequence[Directive] = (),
    skipped: frozenset[str] = frozenset(),
    *,
    keep_going: bool = False,
    first: int = 0,
    imported: bool = False,
) -> Instrumented:
    """Return `source` with probes; in `main`, the functions named in `skipped` do nothing and return None.

    `keep_going`: what a section raises does not leave `main`, where a statement of its body calls the section, and
    does nothing else. `first` is the number of the first statement. Of a source that the lecture imports, only the
    functions have probes.
    """
    private = parse_source(source.text, source.path)  # the visitors change the tree in place
    return _Instrumenter(private, directives, skipped, keep_going=keep_going, first=first, imported=imported).run()


@dataclass
class _Notes:
    """The directives of one statement, by where their values are read."""

    header: list[Inspected] = field(default_factory=list)
    after: list[Inspected] = field(default_factory=list)
    before: list[Inspected] = field(default_factory=list)
    covered: bool = False

    def add(self, directive: Directive, *, leaves: bool) -> None:
        if directive.name == "inspect":
            place = "before" if leaves else directive.place
            getattr(self, place).extend(directive.inspected)
        elif directive.name == "stepover":
            self.covered = True


class _Instrumenter:
    def __init__(
        self,
        source: ParsedSource,
        directives: Sequence[Directive],
        skipped: frozenset[str],
        *,
        keep_going: bool,
        first: int,
        imported: bool,
    ) -> None:
        self.source = source
        self.skipped = skipped
        self.first = first
        self.imported = imported
        main, named = source.function(MAIN), set(sections(source)) if keep_going else set()
        body: list[ast.stmt] = main.node.body if main is not None else []  # type: ignore[attr-defined]
        self.survived = frozenset(node for node in body if bare_call(node) in named)
        self.number_of = {s.node: s.number for s in source.statements}
        self.notes = {s.number: _Notes() for s in source.statements}
        for directive in directives:
            node = source.statements[directive.statement].node
            self.notes[directive.statement].add(directive, leaves=isinstance(node, LEAVING))
        self.functions = {} if imported else {MODULE_FRAME: MODULE}  # these and all below by the numbers that are told
        self.claims: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.names = itertools.count()
        self.catching = frozenset(
            self.told(node)
            for statement in source.statements
            if catches_assertions(statement.node)
            for child in statement.node.body  # type: ignore[attr-defined]
            for node in own_nodes(child)
            if isinstance(node, ast.stmt)
        )

    def run(self) -> Instrumented:
        body = self.source.tree.body
        start = len(body) if self.imported else preamble_length(body)
        if self.imported:
            body = [_Functions(self).visit(node) for node in body]
        # What `vars()` returns here is the module's own dictionary: only a list can be shown without generated names.
        framed = [_Names(frozenset({"dir"})).visit(node) for node in self._framed(MODULE_FRAME, body[start:])]
        tree = ast.Module([*body[:start], *framed], type_ignores=[])
        return Instrumented(
            tree=fill_places(tree),
            functions=self.functions,
            suspending=frozenset(self.first + s.number for s in self.source.statements if suspends(s.node)),
            covered=frozenset(self.first + number for number, notes in self.notes.items() if notes.covered),
            claims=self.claims,
            catching=self.catching,
            annotated=self._annotated(),
        )

    def _annotated(self) -> frozenset[int]:
        found = set()
        said = narrative_calls(self.source)
        for statement in self.source.statements:
            notes, node = self.notes[statement.number], statement.node
            if isinstance(node, FUNCTIONS):
                found |= {qualified_name(statement)} if notes.header else set()
            elif notes.header or notes.after or isinstance(node, ast.Assert) or statement.number in said:
                found.add(statement.function)
        return frozenset(number for number, name in self.functions.items() if name in found)

    # ------------------------------------------------------------------ frames

    def _framed(self, number: int, body: list[ast.stmt], arguments: Sequence[Inspected] = ()) -> list[ast.stmt]:
        """body → open a frame; try: probed body; except: say so, raise; finally: close the frame."""
        if not body:
            return []
        inner = [*at(body[0], ended(arguments, "argument")), *self._block(body)]
        told = ast.ExceptHandler(load("BaseException"), None, [probe("raised"), ast.Raise()])
        opened = assign(FRAME, ast.Call(load(OPEN), [ast.Constant(number)], []))
        return at(body[0], [opened, ast.Try(inner, [told], [], [probe("close")])])

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        """def: body → def: docstring; global …; if compiling: body as written; else: framed body."""
        number = self.number_of[node]
        self.functions[self.told(node)] = qualified_name(self.source.statements[number])
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        body = node.body[start:]
        if not body:
            return node
        declared = [n for child in body for n in own_nodes(child) if isinstance(n, (ast.Global, ast.Nonlocal))]
        plain = [_Undeclared().visit(copy.deepcopy(child)) for child in body]
        framed = [_Names().visit(child) for child in self._framed(self.told(node), body, self.notes[number].header)]
        choice = ast.If(ast.Call(load(IS_COMPILING), [], []), plain, framed)
        return changed(node, body=[*node.body[:start], *declared, *at(body[0], [choice])])

    # ------------------------------------------------------------------ statements

    def _block(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [new for child in body for new in at(child, self._survived(child, self._statement(child)))]

    def _survived(self, node: ast.stmt, probed: list[ast.stmt]) -> list[ast.stmt]:
        """section() → try: section(); except: say so, go on."""
        if node not in self.survived:
            return probed
        return [ast.Try(probed, [ast.ExceptHandler(load("Exception"), None, [probe("survived")])], [], [])]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        """statement → its probe; the statement; the values its directives ask for."""
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return [ast.Pass()]
        if self.skipped and self.source.statements[self.number_of[node]].function == MAIN:
            if bare_call(node) in self.skipped:
                return [ast.Pass()]
            _Skipping(self.skipped).visit(node)
        if isinstance(node, FUNCTIONS):
            return [self.step("step", node), self.function(node)]
        notes = self.notes[self.number_of[node]]
        self._spread(node, notes.after)
        if notes.covered and not isinstance(node, (ast.Return, *LEAVING)):
            inside = listed(_Covered(self).visit(node))
            return [self.step("begin", node), *inside, *ended([*notes.header, *notes.after])]
        if isinstance(node, ast.If) and notes.after:
            return self._inspected_if(node, notes)
        rewrite = getattr(self, "_" + type(node).__name__.lower(), self._other)
        return [*self._opening(node, notes), *rewrite(node, notes), *ended(notes.after)]

    def _spread(self, node: ast.stmt, inspected: list[Inspected]) -> None:
        """if x: return y  # @inspect y → read y before `return` too, since what comes after won't be reached."""
        inner = getattr(node, "body", ()) if inspected else ()
        leaving = (ast.Return, ast.Raise) if isinstance(node, LOOPS) else (ast.Return, *LEAVING)
        for child in inner:
            if isinstance(child, leaving):
                self.notes[self.number_of[child]].before.extend(inspected)

    def _opening(self, node: ast.stmt, notes: _Notes) -> list[ast.stmt]:
        """→ the probe; values read before the statement runs get a step that is left and resumed."""
        if notes.before:
            token = self._name()
            entered = [assign(token, self._enter(node)), *ended(notes.before)]
            return [*entered, probe("resume", load(token))]
        if isinstance(node, SELF_PROBED) or (isinstance(node, ast.Return) and notes.after):
            return []
        annotated = notes.after or notes.header or notes.covered
        opened = self.step("begin" if annotated else "step", node)
        if isinstance(node, SILENT) or (isinstance(node, ast.Return) and node.value is None):
            for part in ast.walk(opened):
                ast.copy_location(part, node)
        return [opened]

    def _other(self, node: ast.stmt, notes: _Notes) -> list[ast.stmt]:
        return [_Functions(self).visit(node) if isinstance(node, ast.ClassDef) else node]

    def _inspected_if(self, node: ast.If, notes: _Notes) -> list[ast.stmt]:
        """if x: y  # @inspect y → enter; if x: y; resume; end; values."""
        token = self._name()
        whole = [assign(token, self._enter(node)), *self._if(node, notes), probe("resume", load(token))]
        return [*whole, *ended(notes.after)]

    def _if(self, node: ast.If, notes: _Notes) -> list[ast.stmt]:
        read = ended(notes.header)
        orelse = [*copy.deepcopy(read), *self._block(node.orelse)]
        return [changed(node, body=[*read, *self._block(node.body)], orelse=orelse)]

    def _for(self, node: ast.For | ast.AsyncFor, notes: _Notes) -> list[ast.stmt]:
        """for: body → for: values; body; probe (before `continue` too), so each evaluation is a step."""
        body = [*ended(notes.header), *self._loop_body(node, notes)]
        return [changed(node, body=body, orelse=self._block(node.orelse))]

    _asyncfor = _for

    def _loop_body(self, node: ast.For | ast.AsyncFor, notes: _Notes) -> list[ast.stmt]:
        again = self.step("begin" if notes.header else "step", node)
        block = [_Continues(again).visit(child) for child in self._block(node.body)]
        return [*(new for item in block for new in (item if isinstance(item, list) else [item])), again]

    def _while(self, node: ast.While, notes: _Notes) -> list[ast.stmt]:
        """while test: body → while probe or test: values; body; else: values (a probe returns None)."""
        probe = self.step("begin" if notes.header else "step", node)
        test = ast.copy_location(ast.BoolOp(ast.Or(), [probe.value, node.test]), node.test)
        read = ended(notes.header)
        orelse = [*copy.deepcopy(read), *self._block(node.orelse)]
        return [changed(node, test=test, body=[*read, *self._block(node.body)], orelse=orelse)]

    def _with(self, node: ast.With | ast.AsyncWith, notes: _Notes) -> list[ast.stmt]:
        """with a: body → enter; with a: values; body; resume, so that leaving counts with entering."""
        token = self._name()
        body = [*ended(notes.header), *self._block(node.body), probe("resume", load(token))]
        return [assign(token, self._enter(node)), changed(node, body=body)]

    _asyncwith = _with

    def _try(self, node: ast.Try | ast.TryStar, notes: _Notes) -> list[ast.stmt]:
        """except: body → except: say that the step raised; body."""
        handlers = [changed(h, body=[*at(h, [probe("caught")]), *self._block(h.body)]) for h in node.handlers]
        orelse, finalbody = self._block(node.orelse), self._block(node.finalbody)
        return [changed(node, body=self._block(node.body), handlers=handlers, orelse=orelse, finalbody=finalbody)]

    _trystar = _try

    def _match(self, node: ast.Match, notes: _Notes) -> list[ast.stmt]:
        """match x: case: body → match x: case: values; body; where no case fits: values."""
        read = ended(notes.header)
        cases = [changed(case, body=[*copy.deepcopy(read), *self._block(case.body)]) for case in node.cases]
        if read and not is_irrefutable(node.cases[-1]):
            cases.append(ast.match_case(ast.MatchAs(), None, read))
        return [changed(node, cases=cases)]

    def _return(self, node: ast.Return, notes: _Notes) -> list[ast.stmt]:
        """return x  # @inspect y → v = x; values; resume; return v, with v cleared before any `finally`."""
        read, notes.after = notes.after, []
        if not read:
            return [node]
        token = self._name()
        entered, resumed = assign(token, self._enter(node)), probe("resume", load(token))
        if node.value is None:  # in an asynchronous generator the only form there is
            return [entered, *ended(read), resumed, node]
        name = self._name()
        cleared = ast.NamedExpr(ast.Name(name, ast.Store()), ast.Constant(None))
        taken = ast.Subscript(ast.Tuple([load(name), cleared], ast.Load()), ast.Constant(0), ast.Load())
        return [entered, assign(name, node.value), *ended(read), resumed, changed(node, value=taken)]

    def _assert(self, node: ast.Assert, notes: _Notes) -> list[ast.stmt]:
        return self.claim(node)

    def claim(self, node: ast.Assert) -> list[ast.stmt]:
        """assert a == b, m → if (l := a) == (r := b): held(l, r); elif broken(l, r): l = r = None; assert False, m."""
        number = self.told(node)
        sides: list[tuple[str, ast.expr]] = []
        test = self._captured(copy.copy(node.test), sides)
        self.claims[number] = (ast.unparse(node.test), tuple(source for source, _ in sides))
        values = [ast.Constant(number), *(value for _, value in sides)]
        place = place_of_failure(node)
        failed = ast.copy_location(ast.Assert(ast.copy_location(ast.Constant(False), place), node.msg), place)
        names = [value.id for _, value in sides if isinstance(value, ast.Name)]

        def set_all(value: ast.expr) -> list[ast.stmt]:
            return [ast.Assign([ast.Name(n, ast.Store()) for n in names], value)] if names else []

        forgotten = set_all(ast.Constant(None))  # before the message is made, as the values of a test are
        broken = ast.If(frame_call("broken", *values), [*forgotten, failed], [])
        held = probe("held", *copy.deepcopy(values))
        # An error of a side's `__bool__` is at the statement, from its beginning to its end.
        judged = ast.copy_location(ast.If(test, at(node, [held]), at(node, [broken])), node)
        if not names:
            return [judged]
        return [*set_all(load(UNSET)), ast.Try([judged], [], [], set_all(ast.Constant(None)))]

    def _captured(self, test: ast.expr, sides: list[tuple[str, ast.expr]]) -> ast.expr:
        """Return `test` with its sides bound by `:=`, and add them to `sides`, in order of evaluation."""

        def bind(side: ast.expr) -> ast.expr:
            if isinstance(side, ast.Constant):
                sides.append((ast.unparse(side), side))
                return side
            name = self._name()
            sides.append((ast.unparse(side), load(name)))
            return ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), side), side)

        match test:
            case ast.BoolOp():
                return changed(test, values=[self._captured(value, sides) for value in test.values])
            case ast.UnaryOp(op=ast.Not()):
                return changed(test, operand=self._captured(test.operand, sides))
            case ast.Compare():
                return changed(test, left=bind(test.left), comparators=[bind(c) for c in test.comparators])
            case ast.Call(args=args) if args and not any(isinstance(a, (ast.Starred, ast.GeneratorExp)) for a in args):
                return changed(test, args=[bind(argument) for argument in args])
        return bind(test)

    # ------------------------------------------------------------------ small pieces

    def told(self, node: ast.AST) -> int:
        """Return the number that the recorder is told of a statement."""
        return self.first + self.number_of[node]  # type: ignore[index]

    def step(self, kind: str, node: ast.stmt) -> ast.Expr:
        return at(node, [probe(kind, ast.Constant(self.told(node)))])[0]

    def _enter(self, node: ast.stmt) -> ast.expr:
        return frame_call("enter", ast.Constant(self.told(node)))

    def _name(self) -> str:
        return f"_@{next(self.names)}"


class _Functions(ast.NodeTransformer):
    """A class body is one step; the functions in it get frames."""

    def __init__(self, instrumenter: _Instrumenter) -> None:
        self.instrumenter = instrumenter

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        return self.instrumenter.function(node)

    visit_AsyncFunctionDef = visit_FunctionDef


class _Names(ast.NodeTransformer):
    """locals() → shown(locals()); eval(x) → eval(x, *scope(eval)): without the generated names among its own.

    The functions in a function have been seen to already.
    """

    def __init__(self, showing: frozenset[str] = frozenset({"locals", "vars", "dir", "eval", "exec"})) -> None:
        self.showing = showing

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="locals" | "vars" | "dir" as name), args=[], keywords=[]):
                if name in self.showing:
                    return ast.copy_location(ast.Call(load(SHOWN), [node], []), node)
            case ast.Call(func=ast.Name(id="eval" | "exec" as name), args=[code], keywords=[]) if name in self.showing:
                if not isinstance(code, ast.Starred):
                    scope = ast.Starred(ast.Call(load(SCOPE), [load(name)], []), ast.Load())
                    return changed(node, args=[code, ast.copy_location(scope, node)])
        return node

    def _header(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args = self.visit(node.args)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _header


class _Covered(_Functions):
    """Under @stepover nothing is a step; asserts are claims all the same."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)  # it stands at the top of the function

    visit_Nonlocal = visit_Global

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return at(node, self.instrumenter.claim(node))


class _Continues(ast.NodeTransformer):
    """continue → the loop's probe; continue (in this loop, not in those inside it)."""

    def __init__(self, probe: ast.stmt) -> None:
        self.probe = probe

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [copy.deepcopy(self.probe), node]

    def _other_loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.stmt:
        node.orelse = [new for child in node.orelse for new in listed(self.visit(child))]
        return node

    visit_For = visit_AsyncFor = visit_While = _other_loop

    def _other_scope(self, node: ast.stmt) -> ast.stmt:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _other_scope


class _Undeclared(ast.NodeTransformer):
    """global x → pass: the declaration stands at the top of the function instead."""

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    visit_Nonlocal = visit_Global

    def _other_scope(self, node: ast.stmt) -> ast.stmt:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _other_scope


class _Skipping(ast.NodeTransformer):
    """second → nothing: what the module has in place of a section that is not to run."""

    def __init__(self, skipped: frozenset[str]) -> None:
        self.skipped = skipped

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.skipped and isinstance(node.ctx, ast.Load):
            return ast.copy_location(load(SKIPPED), node)
        return node
