"""Faults that can be planted in a lecture: single small changes in code that affects claims.

    section = Section(ast.parse(source), source, "napkin_math")
    for fault in section.faults():
        exec(compile(section.planted(fault), ...), module_of_the_lecture)

Code that only feeds prose is not changed: arguments of `text`, `table`, `plot` …, lines marked `@hide`, and assignments
that nothing else reads. Strings, seeds, annotations and the duration of `measure` are not changed either, because no
claim should depend on them, nor are sizes that depend on the machine.

The faults of a section are in its core; code that only calls marked `# @deeper` reach is included only on request.
Claims of deeper parts may fail because of a fault in the core.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.checks.fault_kinds import KEYWORDS, Change, changes_of

PROSE = frozenset({"ask", "decide", "explore", "text", "note", "link", "table", "plot", "image"})
SEEDS = frozenset({"manual_seed", "seed", "set_num_threads", "default_rng"})
MUTED = ("measure",)  # its keywords set how long to measure
SIZES = frozenset({"sizes", "Sizes"})  # claims have to hold for all sizes
CONVERSIONS = frozenset({"item", "detach", "cpu"})  # the number is the same with and without them


@dataclass(frozen=True)
class Fault:
    """One change: the node of `definition` with this number (as `ast.walk` counts) becomes another one."""

    definition: str  # the function, class or constant that contains the fault
    number: int
    line: int
    kind: str  # "constant", "operator", "argument", "call", "line"
    text: str  # the line that contains the fault
    before: str
    after: str
    in_claim: bool  # whether the fault is in an assert
    becomes: Callable[[ast.AST], ast.AST] = field(compare=False, repr=False)


class Section:
    """The code that one of main's functions runs and that affects its claims."""

    def __init__(self, tree: ast.Module, source: str, name: str, *, deeper: bool = False) -> None:
        self.tree = tree
        self.name = name
        self.lines = source.splitlines()
        self.definitions = dict(_definitions(tree))
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        self.modules = {(alias.asname or alias.name).partition(".")[0] for n in imports for alias in n.names}
        self.relevant: dict[str, set[ast.stmt]] = {}  # for each definition, its statements that affect claims
        self.idle: set[ast.AST] = set()  # values in these statements that nothing reads
        self._follow([(name, False)])
        if not deeper:
            core = self._reach(name, deeper=False)
            self.relevant = {name: statements for name, statements in self.relevant.items() if name in core}

    def claims(self) -> list[ast.Assert]:
        """Return every assert of the section, in the order of the file."""
        claims = [n for name in self.relevant for n in ast.walk(self.definitions[name]) if isinstance(n, ast.Assert)]
        return sorted(claims, key=lambda claim: claim.lineno)

    def faults(self) -> Iterator[Fault]:
        """Yield every fault, grouped by definition."""
        for name, statements in self.relevant.items():
            numbers = {node: number for number, node in enumerate(ast.walk(self.definitions[name]))}
            for statement in sorted(statements, key=lambda s: s.lineno):
                for kind, node, becomes in self._changes(statement, may_drop=self._may_drop(name, statement)):
                    line = getattr(node, "lineno", statement.lineno)
                    after = becomes(copy.deepcopy(node))
                    if kind != "line" and ast.unparse(after) == ast.unparse(node):
                        continue
                    yield Fault(
                        definition=name,
                        number=numbers[node],
                        line=line,
                        kind=kind,
                        text=self.lines[line - 1].partition("  # ")[0].strip(),
                        before=ast.unparse(node),
                        after=ast.unparse(ast.fix_missing_locations(after)) if kind != "line" else "",
                        in_claim=isinstance(statement, ast.Assert),
                        becomes=becomes,
                    )

    def planted(self, fault: Fault | None, callers: frozenset[str] | None = None) -> ast.Module:
        """Return definitions with the fault, to be executed in the module of the lecture.

        If `callers` is given, the section calls only these of the functions whose results it does not use.
        """
        changed: dict[str, ast.stmt] = {}
        if callers is not None:
            changed[self.name] = _KeepOnlyCallsOf(callers, self.definitions).visit(
                copy.deepcopy(self.definitions[self.name])
            )
        if fault is not None:
            definition = changed.get(fault.definition) or copy.deepcopy(self.definitions[fault.definition])
            target = list(ast.walk(definition))[fault.number]
            changed[fault.definition] = _Replacement(target, fault.becomes(target)).visit(definition)
        body = list(changed.values())
        if not all(
            isinstance(definition, ast.FunctionDef) for definition in body
        ):  # other definitions may use a constant or a class
            replaced = {self.definitions[name]: definition for name, definition in changed.items()}
            body = [replaced.get(node, copy.deepcopy(node)) for node in self.tree.body]  # type: ignore[call-overload]
        return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))

    def without(self, earlier: Iterable[Section]) -> list[Fault]:
        """Return the faults in definitions that no earlier section uses; the others belong to earlier sections."""
        met = {name for section in earlier for name in section.relevant}
        return [fault for fault in self.faults() if fault.definition not in met]

    def callers(self, fault: Fault) -> frozenset[str] | None:
        """Return the functions that the section must call to reach the fault; None for all of them."""
        called = {name for name in self.definitions if self._calls_alone(name)}
        body = ast.Module([_KeepOnlyCallsOf(frozenset(), called).visit(copy.deepcopy(self.definitions[self.name]))], [])
        used = {
            node.id for node in ast.walk(body) if isinstance(node, ast.Name)
        }  # names that the section uses apart from these calls
        if fault.definition == self.name or any(fault.definition in self._reach(name) for name in used):
            return None
        return frozenset(name for name in called if fault.definition in self._reach(name))

    def _calls_alone(self, name: str) -> bool:
        return any(_called_alone(node) == name for node in ast.walk(self.definitions[self.name]))

    def _reach(self, name: str, *, deeper: bool = True) -> set[str]:
        reached, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in self.definitions or current in reached:
                continue
            reached.add(current)
            nodes = set(ast.walk(self.definitions[current]))
            if not deeper:
                parts = [node for node in nodes if isinstance(node, ast.Expr) and self._is_marked(node, "@deeper")]
                nodes = nodes.difference(*map(ast.walk, parts))
            waiting += [node.id for node in nodes if isinstance(node, ast.Name)]
        return reached

    def _is_marked(self, statement: ast.stmt, directive: str) -> bool:
        last = statement.end_lineno or statement.lineno
        return any(directive in line for line in self.lines[statement.lineno - 1 : last])

    def _follow(self, waiting: list[tuple[str, bool]]) -> None:
        """Find the relevant statements of each definition that the section reaches."""
        reached: dict[str, bool] = {}  # for each definition, whether its result matters
        while waiting:
            name, result_matters = waiting.pop()
            if name not in self.definitions or name == "main" or name in SIZES:
                continue
            if name in reached and (reached[name] or not result_matters):
                continue
            reached[name] = result_matters
            statements = self._relevant(self.definitions[name], result_matters=reached[name])
            self.relevant[name] = statements
            local = _locals(self.definitions[name])
            for statement in statements:
                alone = statement.value if isinstance(statement, ast.Expr) else None
                for node in _own_names(statement):
                    called_alone = isinstance(alone, ast.Call) and alone.func is node
                    if node.id not in local:
                        waiting.append((node.id, not called_alone))
        order = list(self.definitions)
        self.relevant = {name: self.relevant[name] for name in sorted(self.relevant, key=order.index)}

    def _relevant(self, definition: ast.stmt, *, result_matters: bool) -> set[ast.stmt]:
        if isinstance(definition, ast.FunctionDef):
            return self._slice(definition, result_matters=result_matters)
        if isinstance(definition, ast.ClassDef):
            methods = [node for node in definition.body if isinstance(node, ast.FunctionDef)]
            return set().union(*(self._slice(method, result_matters=True) for method in methods))
        return {definition}

    def _slice(self, function: ast.FunctionDef, *, result_matters: bool) -> set[ast.stmt]:
        """Return the statements of a function that claims, results or effects depend on: a backward slice."""
        statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
        fresh = _names_of_literals(statements)
        needed: set[str] = set()
        relevant: set[ast.stmt] = set()
        while True:
            before = len(relevant)
            for statement in statements:
                if statement not in relevant and self._matters(statement, needed, fresh, relevant, result_matters):
                    relevant.add(statement)
                    needed |= {name.id for name in _own_names(statement)}
            if len(relevant) == before:
                self.idle |= set(_values_never_read(relevant, needed))
                return relevant

    def _matters(
        self, statement: ast.stmt, needed: set[str], fresh: set[str], relevant: set[ast.stmt], result_matters: bool
    ) -> bool:
        if self._is_prose(statement):
            return False
        inner = [node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]
        if inner and not isinstance(statement, ast.FunctionDef):
            return any(node in relevant for node in inner)
        match statement:
            case ast.Return():
                return result_matters and statement.value is not None
            case ast.Assign(targets=targets):
                pass
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                targets = [target]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in fresh:
                return name in needed
            case _:
                return not isinstance(statement, (ast.Pass, ast.Continue, ast.Break, ast.Import, ast.ImportFrom))
        return any(self._target_matters(target, needed, fresh) for target in targets)

    def _target_matters(self, target: ast.expr, needed: set[str], fresh: set[str]) -> bool:
        names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        if names:
            return bool(needed & set(names))
        base = target
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        return not (isinstance(base, ast.Name) and base.id in fresh) or base.id in needed

    def _is_prose(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Constant):
                return True
            call = statement.value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in PROSE:
                return True
        if hasattr(statement, "body"):
            return False
        if self._only_tells(_called_alone(statement)):
            return True
        return self._is_marked(statement, "@hide")

    def _only_tells(self, name: str | None) -> bool:
        """Return whether a function narrates and makes no claim."""
        if name not in self.definitions:
            return False
        calls = (_called(node) for node in ast.walk(self.definitions[name]))
        parts = [node for part in self._reach(name) for node in ast.walk(self.definitions[part])]
        return any(call in PROSE for call in calls) and not any(isinstance(node, ast.Assert) for node in parts)

    def _changes(self, statement: ast.stmt, *, may_drop: bool) -> Iterator[Change]:
        """Yield the possible changes of a statement."""
        quiet = self.idle | set(_quiet(statement))
        for node in _own(statement):
            if node in quiet:
                continue
            yield from changes_of(node)
            alone = (
                isinstance(statement, ast.Expr) and node is statement.value
            )  # such a line can be left out as a whole
            if self._is_method_call(node) and not alone and _called(node) not in CONVERSIONS:
                yield "call", node, lambda call: call.func.value  # type: ignore[attr-defined]
        if may_drop and not (isinstance(statement, ast.Expr) and _called(statement.value) in SEEDS):
            yield "line", statement, lambda node: ast.copy_location(ast.Pass(), node)

    def _is_method_call(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        base: ast.expr = node.func.value
        while isinstance(base, ast.Attribute):
            base = base.value
        return not (isinstance(base, ast.Name) and base.id in self.modules)

    def _may_drop(self, name: str, statement: ast.stmt) -> bool:
        """Return whether the function works without the statement: an effect, or a name that already has a value."""
        if isinstance(statement, (ast.Expr, ast.AugAssign, ast.Delete)):
            return (
                _called_alone(statement) not in self.definitions
            )  # otherwise the claims of the called function would be lost
        if not isinstance(statement, ast.Assign):
            return False
        stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        earlier = [s for s in self.relevant[name] if isinstance(s, ast.Assign) and s.lineno < statement.lineno]
        assigned = {n.id for s in earlier for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return stored <= assigned


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            if any(isinstance(value, (int, float)) for value in constants):
                yield node.targets[0].id, node


def _names_of_literals(statements: Iterable[ast.stmt]) -> set[str]:
    """Return the names of new lists, dicts and sets, which no other name refers to."""
    literals = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    pairs: list[tuple[ast.expr, ast.expr | None]] = []
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs += zip(names, values, strict=False)
            case ast.Assign(targets=[name], value=value) | ast.AnnAssign(target=name, value=value):
                pairs.append((name, value))
    return {name.id for name, value in pairs if isinstance(name, ast.Name) and isinstance(value, literals)}


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without nested statements, annotations and decorators."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and isinstance(node, (ast.stmt, ast.arg)):
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [c for c in children if isinstance(c, ast.AST) and not isinstance(c, ast.stmt)]


def _locals(definition: ast.stmt) -> set[str]:
    """Return the names that a function binds, arguments included."""
    if not isinstance(definition, ast.FunctionDef):
        return set()
    stored = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in ast.walk(definition) if isinstance(n, ast.arg)}


def _own_names(statement: ast.stmt) -> list[ast.Name]:
    nodes = [node for node in _own(statement) if isinstance(node, ast.Name)]
    return [node for node in nodes if isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)]


def _called_alone(statement: ast.AST) -> str | None:
    """Return the called function's name if the statement is only a call."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None


def _values_never_read(statements: Iterable[ast.stmt], needed: set[str]) -> Iterator[ast.AST]:
    """Yield the nodes of `b` in `x, y = a, b` if no relevant statement reads `y`."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name) and target.id not in needed:
                        yield from ast.walk(value)


def _quiet(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes that no claim should depend on: f-strings, prose, seeds, durations of measurements."""
    for node in ast.walk(statement):
        is_silent = isinstance(node, ast.JoinedStr) or _called(node) in SEEDS | PROSE
        if is_silent or (isinstance(node, ast.keyword) and node.arg in KEYWORDS):
            yield from ast.walk(node)
        elif isinstance(node, ast.Call) and _called(node) in MUTED:
            yield node
            for keyword in node.keywords:
                yield from ast.walk(keyword)


def _called(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)


class _KeepOnlyCallsOf(ast.NodeTransformer):
    """Remove calls of the lecture's own functions whose results are not used, except calls of some functions."""

    def __init__(self, kept: frozenset[str], own: Iterable[str]) -> None:
        self.left_out = set(own) - kept

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if _called_alone(node) in self.left_out else node


class _Replacement(ast.NodeTransformer):
    def __init__(self, target: ast.AST, replacement: ast.AST) -> None:
        self.target = target
        self.replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.target else self.generic_visit(node)
