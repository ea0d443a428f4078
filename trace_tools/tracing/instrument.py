"""Insert probes into a syntax tree; the program stays the same.

The lecture runs as ordinary Python. Before each statement, one call closes the previous step and opens the next.
Probes intercept only this, so library code runs unchanged.

    def f(x):                      def f(x):
        y = g(x)  # @inspect y         try: _@frame = None if _@is_compiling() or _@timed else _@open(0)
        return y                       except NameError: _@frame = None
                                       if _@frame is None: del _@frame; <the body as written>
                                       else:
                                           try:
                                               _@frame.begin(1)
                                               y = g(x)
                                               _@frame.end()
                                               try: _@frame.value("y", None, y)
                                               except BaseException: _@frame.value_failed("y", None)
                                               _@frame.step(2)
                                               return y
                                           except BaseException: _@frame.raised(); raise
                                           finally: _@frame.close()

The body is emitted twice because dynamo and torch's other tracers, which record the code that runs, must get the body
as written; so must `measure` and `timeit`, which time it, and other interpreters, where the built-in names of the hooks
are missing (cloudpickle sends functions by value: joblib, dask, ray). Generated names can't be written in Python, and
start with an underscore so that star-imports skip them. No probe keeps a value for the next
statement.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trace_tools.source.cells import Cell, preamble_length
from trace_tools.source.directives import RETURN, Directive, Inspected, Position
from trace_tools.source.statements import (
    FUNCTIONS,
    ParsedSource,
    bare_call,
    main_of,
    qualified_name,
    sections,
)
from trace_tools.source.vocabularies import emitting_functions
from trace_tools.trace.model import MODULE
from trace_tools.tracing.syntax import (
    FRAME,
    assign,
    at,
    catches_assertions,
    changed,
    ended,
    failing_node,
    fill_positions,
    frame_call,
    is_irrefutable,
    listed,
    load,
    own_nodes,
    probe,
    suspends,
)

OPEN = "_@open"
IS_COMPILING = "_@is_compiling"
TIMED = "_@timed"
UNSET = "_@unset"
SKIPPED = "_@skipped"
SHOWN = "_@shown"
BUILTINS = "_@builtins"
MODULE_FRAME = -1

LEAVING = (ast.Raise, ast.Continue, ast.Break)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
SELF_PROBED = (ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A tree with probes, and the facts about its statements that the recorder needs."""

    tree: ast.Module
    functions: dict[int, str]  # number of each `def` (MODULE_FRAME for the module) → qualified name
    covered: frozenset[int]  # statements and functions under @stepover
    claims: dict[int, tuple[str, tuple[str, ...]]]  # assert → source of its test, and of the sides of the test
    catching: frozenset[int]  # statements inside a `try` or `with` of the same function that catches AssertionError
    # statement → its line, whether it has inspected expressions, and whether it may suspend
    places: dict[int, tuple[int, bool, bool]] = field(default_factory=dict)
    main: str = MODULE  # the function that calls the sections
    cells: frozenset[int] = frozenset()  # the sections of a script, whose frames are of the module's own code


def is_generated(name: object) -> bool:
    """Return whether a name was generated: no name that can be written in Python starts with `_@`."""
    return isinstance(name, str) and name.startswith("_@")


def instrument(
    source: ParsedSource,
    directives: Sequence[Directive] = (),
    skipped: frozenset[str] = frozenset(),
    *,
    keep_going: bool = False,
) -> Instrumented:
    """Return `source` with probes; the source's own tree is used up. Functions named in `skipped`, called by its main
    function, have no effect and return None.

    With `keep_going`, an exception from a section does not leave the main function, provided that the call is a whole
    statement of its body.
    """
    return _Instrumenter(source, directives, skipped, keep_going=keep_going).run()


@dataclass
class _Notes:
    """The directives of one statement, by the position where their values are read."""

    header: list[Inspected] = field(default_factory=list)
    after: list[Inspected] = field(default_factory=list)
    before: list[Inspected] = field(default_factory=list)
    covered: bool = False


class _Instrumenter:
    def __init__(
        self,
        source: ParsedSource,
        directives: Sequence[Directive],
        skipped: frozenset[str],
        *,
        keep_going: bool,
    ) -> None:
        self.source = source
        self.skipped = skipped
        self.main = main_of(source)
        definition, named = source.functions.get(self.main), set(sections(source)) if keep_going else set()
        body: list[ast.stmt] = definition.node.body if definition is not None else []  # type: ignore[attr-defined]
        self.survived = frozenset(node for node in body if bare_call(node) in named)
        if keep_going:
            self.survived |= {cell.node for cell in source.cells}
        self.number_of: dict[ast.AST, int] = {s.node: s.number for s in source.numbered}
        self.notes = {s.number: _Notes() for s in source.numbered}
        self.inspected = {directive.statement for directive in directives if directive.name == "inspect"}
        for directive in directives:
            node, notes = source.statements[directive.statement].node, self.notes[directive.statement]
            if directive.name == "inspect":
                position = "before" if isinstance(node, LEAVING) else directive.position
                getattr(notes, position).extend(directive.inspected)
            notes.covered |= directive.name == "stepover"
        self.returned: dict[ast.stmt, Inspected] = {}  # functions with `@inspect return` on the `def` line
        for statement in source.statements:
            if isinstance(statement.node, FUNCTIONS):
                self._inspect_returns(statement.node)
        # They run as written, so that what they emit belongs to the line that calls them.
        names, marked = emitting_functions(source), {directive.statement for directive in directives}
        self.emitting = frozenset(
            s.node
            for s in source.statements
            if s.parent is None
            and isinstance(s.node, FUNCTIONS)
            and s.node.name in names
            and marked.isdisjoint(self.number_of[part] for part in ast.walk(s.node) if isinstance(part, ast.stmt))
        )
        self.compiled = compiled_functions(source)
        self.functions = {MODULE_FRAME: MODULE}
        self.claims: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.names = itertools.count()
        self.cells = frozenset(cell.number for cell in source.cells)
        self.catching = frozenset(
            self.number_of[node]
            for statement in source.statements
            if catches_assertions(statement.node)
            for child in statement.node.body  # type: ignore[attr-defined]
            for node in own_nodes(child)
            if isinstance(node, ast.stmt)
        )

    def run(self) -> Instrumented:
        body = self.source.tree.body
        start = preamble_length(body)
        framed = self._framed(MODULE_FRAME, [cell.node for cell in self.source.cells] or body[start:])
        tree = ast.Module([*body[:start], *framed], type_ignores=[])
        return Instrumented(
            tree=fill_positions(tree),
            functions=self.functions,
            places={s.number: (s.line, s.number in self.inspected, suspends(s.node)) for s in self.source.numbered},
            covered=frozenset(number for number, notes in self.notes.items() if notes.covered),
            claims=self.claims,
            catching=self.catching,
            main=self.main,
            cells=self.cells,
        )

    def _inspect_returns(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Copy a function's directives to its `return` statements.

        `def f(x):  # @inspect return` applies to each `return` in it, `# @inspect x` to each `return` of a name.
        """
        header = self.notes[self.number_of[node]].header
        asked = next((item for item in header if item.is_return), None)
        if asked is not None:
            header[:] = [item for item in header if not item.is_return]
            self.returned[node] = asked
        parts = (part for child in node.body for part in own_nodes(child))
        for part in parts if asked or header else ():
            if isinstance(part, ast.Return) and (asked or isinstance(part.value, ast.Name)):
                self._inspect_return(part, asked or Inspected(RETURN, load(RETURN)))

    def _inspect_return(self, node: ast.Return, item: Inspected) -> None:
        """Add `@inspect return` to a statement unless its returned value is already inspected there."""
        after = self.notes[self.number_of[node]].after
        name = node.value.id if isinstance(node.value, ast.Name) else RETURN
        if not any(other.source in (RETURN, name) for other in after):
            after.append(item)

    # ------------------------------------------------------------------ frames

    def _framed(
        self,
        number: int,
        body: list[ast.stmt],
        arguments: Sequence[Inspected] = (),
        returned: Inspected | None = None,
    ) -> list[ast.stmt]:
        """Return the body of a frame with probes.

        `returned`: a call that reaches the end of its body returned None, which is shown on the line of its `def`.
        """
        if not body:
            return []
        inner = [*at(body[0], ended(arguments, "argument")), *self._block(body)]
        if returned is not None:
            inner += at(body[-1], ended([replace(returned, node=ast.Constant(None))], "argument"))
        return at(body[0], self._in_frame(number, inner))

    def _in_frame(self, number: int, body: list[ast.stmt]) -> list[ast.stmt]:
        """body → try: body; except: record the exception, raise; finally: close the frame, which a function opens."""
        handler = ast.ExceptHandler(load("BaseException"), None, [probe("raised"), ast.Raise()])
        tried = ast.Try(body or [ast.Pass()], [handler], [], [probe("close")])
        if number != MODULE_FRAME and number not in self.cells:
            return [tried]
        # a built-in name, because the lecture may list its globals
        name: list[ast.expr] = [ast.Subscript(load(BUILTINS), ast.Constant(FRAME), ast.Store())]
        if number in self.cells:
            tried.finalbody.append(ast.Assign(copy.deepcopy(name), ast.Attribute(load(FRAME), "parent", ast.Load())))
        return [ast.Assign(name, _open(number)), tried]

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        """def: body → def: docstring; global …; open a frame; if there is none: body as written; else: framed body."""
        number = self.number_of[node]
        if node in self.emitting or node in self.compiled:
            return node
        self.functions[self.number_of[node]] = qualified_name(self.source.statements[number])
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        body = node.body[start:]
        if not body:
            return node
        declared = [n for child in body for n in own_nodes(child) if isinstance(n, (ast.Global, ast.Nonlocal))]
        plain = [_Undeclared().visit(copy.deepcopy(child)) for child in body]
        framed = self._framed(self.number_of[node], body, self.notes[number].header, self.returned.get(node))
        _hide_names(framed)
        # Dynamo folds the first call to True and never reads the other names. The body as written runs outside the
        # handler, so that `sys.exception()` is what it was, and without generated names in its `locals()`.
        as_written = ast.BoolOp(ast.Or(), [ast.Call(load(IS_COMPILING), [], []), load(TIMED)])
        opened = ast.IfExp(as_written, ast.Constant(None), _open(self.number_of[node]))
        no_hooks = ast.ExceptHandler(load("NameError"), None, [assign(FRAME, ast.Constant(None))])
        is_none = ast.Compare(load(FRAME), [ast.Is()], [ast.Constant(None)])
        gone = ast.Delete([ast.Name(FRAME, ast.Del())])
        choice = [ast.Try([assign(FRAME, opened)], [no_hooks], [], []), ast.If(is_none, [gone, *plain], framed)]
        return changed(node, body=[*node.body[:start], *declared, *at(body[0], choice)])

    # ------------------------------------------------------------------ statements

    def _block(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [new for child in body for new in at(child, self._survived(child, self._statement(child)))]

    def _survived(self, node: ast.stmt, probed: list[ast.stmt]) -> list[ast.stmt]:
        """section() → try: section(); except: record the exception, continue."""
        if node not in self.survived:
            return probed
        return [ast.Try(probed, [ast.ExceptHandler(load("Exception"), None, [probe("survived")])], [], [])]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        """statement → its probe; the statement; the values that its directives inspect."""
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return [ast.Pass()]
        if self.skipped and self.source.statements[self.number_of[node]].function == self.main:
            if bare_call(node) in self.skipped:
                return [ast.Pass()]
            _Skipping(self.skipped).visit(node)
        if isinstance(node, FUNCTIONS):
            return [self.step("step", node), self.function(node), *self._remarks([node])]
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
        """if x: return y  # @inspect y → read y before the `return` as well, because the code after it is not reached.

        `@inspect return` is moved to the `return` statement; y is then read where the returned value is read.
        """
        inner = getattr(node, "body", ()) if inspected else ()
        leaving = (ast.Return, ast.Raise) if isinstance(node, LOOPS) else (ast.Return, *LEAVING)
        moved = [item for item in inspected if item.is_return] if inner else []
        inspected[:] = [item for item in inspected if item not in moved]
        for child in inner:
            notes = self.notes[self.number_of[child]]
            if isinstance(child, ast.Return):
                for item in moved:
                    self._inspect_return(child, item)
            if isinstance(child, leaving):
                (notes.after if isinstance(child, ast.Return) and notes.after else notes.before).extend(inspected)

    def _opening(self, node: ast.stmt, notes: _Notes) -> list[ast.stmt]:
        """statement → its probe. Values read before the statement runs belong to a step that is left and resumed."""
        if notes.before:
            token = self._name()
            entered = [assign(token, self._enter(node)), *ended(notes.before)]
            return [*entered, probe("resume", load(token))]
        if isinstance(node, SELF_PROBED) or (isinstance(node, ast.Return) and notes.after):
            return []
        annotated = notes.after or notes.header or notes.covered
        return [self.step("begin" if annotated else "step", node)]

    def _cell(self, node: Cell, notes: _Notes) -> list[ast.stmt]:
        """cell → open a frame; its statements; close it, and continue in the module's frame."""
        self.functions[self.number_of[node]] = node.name
        return self._in_frame(self.number_of[node], self._block(node.body))

    def _other(self, node: ast.stmt, notes: _Notes) -> list[ast.stmt]:
        return [_Functions(self).visit(node), *self._remarks(node.body)] if isinstance(node, ast.ClassDef) else [node]

    def _remarks(self, nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
        """@njit def f → the same; if it reads values: warn that `f` has no steps."""
        names = [node.name for node in nodes if isinstance(node, FUNCTIONS) and node in self.compiled]
        texts = (f"NotTraced: numba may compile `{name}`, so it runs as written" for name in names)
        reads = ast.Attribute(load(FRAME), "reads_values", ast.Load())
        return [ast.If(reads, [probe("emit", ast.Constant("warnings"), ast.Constant(text))], []) for text in texts]

    def _inspected_if(self, node: ast.If, notes: _Notes) -> list[ast.stmt]:
        """if x: y  # @inspect y → enter; if x: y; resume; end; values."""
        token = self._name()
        resumed = [*self._if(node, notes), probe("resume", load(token))]
        return [assign(token, self._enter(node)), *resumed, *ended(notes.after)]

    def _if(self, node: ast.If, notes: _Notes) -> list[ast.stmt]:
        read = ended(notes.header)
        orelse = [*copy.deepcopy(read), *self._block(node.orelse)]
        return [changed(node, body=[*read, *self._block(node.body)], orelse=orelse)]

    def _for(self, node: ast.For | ast.AsyncFor, notes: _Notes) -> list[ast.stmt]:
        """for: body → for: values; body; probe (also before `continue`), so that each evaluation is a step."""
        again = self.step("begin" if notes.header else "step", node)
        block = [new for child in self._block(node.body) for new in listed(_Continues(again).visit(child))]
        return [changed(node, body=[*ended(notes.header), *block, again], orelse=self._block(node.orelse))]

    _asyncfor = _for

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
        """except: body → except: record that the step raised; body."""
        handlers = [changed(h, body=[*at(h, [probe("caught")]), *self._block(h.body)]) for h in node.handlers]
        orelse, finalbody = self._block(node.orelse), self._block(node.finalbody)
        return [changed(node, body=self._block(node.body), handlers=handlers, orelse=orelse, finalbody=finalbody)]

    _trystar = _try

    def _match(self, node: ast.Match, notes: _Notes) -> list[ast.stmt]:
        """match x: case: body → match x: case: values; body; if no case matches: values."""
        read = ended(notes.header)
        cases = [changed(case, body=[*copy.deepcopy(read), *self._block(case.body)]) for case in node.cases]
        if read and not is_irrefutable(node.cases[-1]):
            cases.append(ast.match_case(ast.MatchAs(), None, read))
        return [changed(node, cases=cases)]

    def _return(self, node: ast.Return, notes: _Notes) -> list[ast.stmt]:
        """return x  # @inspect y → v = x; values; resume; return v.

        `@inspect return` reads v.
        """
        read, notes.after = notes.after, []
        if not read:
            return [node]
        token, name = self._name(), self._name()
        entered, resumed = assign(token, self._enter(node)), probe("resume", load(token))
        result = ast.Constant(None) if node.value is None else load(name)
        read = [replace(item, node=result) if item.is_return else item for item in read]
        if node.value is None:  # an asynchronous generator allows no other form
            return [entered, *ended(read), resumed, node]
        return [entered, assign(name, node.value), *ended(read), resumed, changed(node, value=load(name))]

    def _assert(self, node: ast.Assert, notes: _Notes) -> list[ast.stmt]:
        return self.claim(node)

    def claim(self, node: ast.Assert) -> list[ast.stmt]:
        """assert a == b, m → if (l := a) == (r := b): held(l, r); elif broken(l, r): l = r = None; assert False, m."""
        number = self.number_of[node]
        sides: list[tuple[str, ast.expr]] = []
        test = self._captured(copy.copy(node.test), sides)
        self.claims[number] = (ast.unparse(node.test), tuple(source for source, _ in sides))
        values = [ast.Constant(number), *(value for _, value in sides)]
        failing = failing_node(node)
        failed = ast.copy_location(ast.Assert(ast.copy_location(ast.Constant(False), failing), node.msg), failing)
        names = [value.id for _, value in sides if isinstance(value, ast.Name)]

        def set_all(value: ast.expr) -> list[ast.stmt]:
            return [ast.Assign([ast.Name(n, ast.Store()) for n in names], value)] if names else []

        forgotten = set_all(ast.Constant(None))  # before the message is built, as Python drops the values of a test
        broken = ast.If(frame_call("broken", *values), [*forgotten, failed], [])
        held = probe("held", *copy.deepcopy(values))
        # An error in a side's `__bool__` has the position of the whole statement.
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

    def step(self, kind: str, node: ast.stmt) -> ast.Expr:
        return at(node, [probe(kind, ast.Constant(self.number_of[node]))])[0]

    def _enter(self, node: ast.stmt) -> ast.expr:
        return frame_call("enter", ast.Constant(self.number_of[node]))

    def _name(self) -> str:
        return f"_@{next(self.names)}"


def _open(number: int) -> ast.expr:
    return ast.Call(load(OPEN), [ast.Constant(number)], [])


class _Functions(ast.NodeTransformer):
    """Gives frames to the functions in a class; the class body itself is one step."""

    def __init__(self, instrumenter: _Instrumenter) -> None:
        self.instrumenter = instrumenter

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        return self.instrumenter.function(node)

    visit_AsyncFunctionDef = visit_FunctionDef


def _hide_names(body: Sequence[ast.stmt]) -> None:
    """locals() → shown(locals()), also for `vars` and `dir`, as in `self.__dict__.update(locals())`."""
    for part in [part for child in body for part in own_nodes(child)]:
        match part:
            case ast.Call(func=ast.Name(id="locals" | "vars" | "dir"), args=[], keywords=[]):
                part.args = [ast.copy_location(ast.Call(part.func, [], []), part)]
                part.func = load(SHOWN)


class _Continues(ast.NodeTransformer):
    """continue → the loop's probe; continue (in this loop, not in inner ones)."""

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
    """global x → pass: the declaration is moved to the top of the function."""

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


class _Covered(_Undeclared):
    """Gives no steps to statements under @stepover; their asserts are still claims."""

    def __init__(self, instrumenter: _Instrumenter) -> None:
        self.instrumenter = instrumenter

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        return self.instrumenter.function(node)

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return at(node, self.instrumenter.claim(node))


class _Skipping(ast.NodeTransformer):
    """second → a function without effect, if `second` is a section that must not run."""

    def __init__(self, skipped: frozenset[str]) -> None:
        self.skipped = skipped

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.skipped and isinstance(node.ctx, ast.Load):
            return ast.copy_location(load(SKIPPED), node)
        return node


# --- --inspect-all: names that are bound ----------------------------------------------------------


def inspect_all(source: ParsedSource) -> list[Directive]:
    """Return a directive for each statement of a function that assigns to names."""
    directives = []
    for statement in source.statements:
        parts = (part for target in _targets(statement.node) for part in ast.walk(target))
        names = (part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        inspected = tuple(Inspected(name, ast.Name(name, ast.Load())) for name in dict.fromkeys(names))
        if inspected:
            headers = (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
            position: Position = "header" if isinstance(statement.node, headers) else "after"
            directives.append(Directive("inspect", statement.number, position, statement.line, inspected))
    return directives


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            yield from targets
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            yield target
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield target
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (item.optional_vars for item in items if item.optional_vars)


# --- functions that numba compiles ----------------------------------------------------------------
# In a file that uses numba, which can't read probes, these are all functions and classes that are decorated, or whose
# name stands anywhere but in a call of it: `njit(total)`, `kernels = {"sum": total}`, `Compiled(total).run()`.
# Following the values instead would still miss some, and a lecture would fail with an error of numba's. If that is too
# broad, the function has no steps: a remark at its `def` says why.


NUMBA = "numba"


def compiled_functions(source: ParsedSource) -> frozenset[ast.AST]:
    """Return the `def`s of a source that numba may compile."""
    nodes = [*ast.walk(source.tree)]
    if NUMBA not in source.text and not any(_leads_to_numba(node, Path(source.path).parent) for node in nodes):
        return frozenset()
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    called |= {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # of `a.step` only "step" counts
    named = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called
    }
    named.discard(main_of(source))  # as in `run(main)`
    taken: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and (node.decorator_list or node.name in named):
            taken += node.body if isinstance(node, ast.ClassDef) else [node]  # the methods of a `jitclass`
    return frozenset(node for node in taken if isinstance(node, FUNCTIONS))


def _leads_to_numba(node: ast.AST, folder: Path) -> bool:
    """Return whether a node imports a file in the lecture's folder that uses numba."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return False
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    files = [folder / f"{module.replace('.', '/')}.py" for module in modules]
    return any(file.is_file() and NUMBA in file.read_text("utf-8", "replace") for file in files)
