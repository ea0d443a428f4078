"""Evaluate the lecture's claims on one card: run the parts that use the device, write both sides of each `assert`.

    EMULATED_CUDA_COMPUTED=1048576 python -m tests.emulated_cuda --cards h100 \\
        python -m tests.emulated_cuda.claims OUT.json [SECTION …]

The lecture chooses its sizes by the card's memory, as on a real card. With EMULATED_CUDA_COMPUTED, kernels on large
tensors are launched but not computed, so an H100's sizes take only seconds on a CPU. Shapes, counts and the
allocator's figures are those of the card; the values of large tensors and all times are meaningless. `measure` calls
its function once, and no peaks are measured.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import operator
import sys
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LECTURE = Path(__file__).resolve().parents[2] / "lecture.py"
# Parts that are left out, named by their first function. Their claims do not depend on the card.
LEFT_OUT = {
    "tokens_on_disk": "files",
    "the_language_model_learns": "what a model learns",
    "share_at_that_clock": "clocks, which the emulated nvidia-smi makes up",
    "compiled_gelu": "torch.compile, which is not emulated",
    "attention_in_steps_and_in_one_kernel": "fused attention, which is not emulated",
    "language_model_killed_and_resumed": "processes and files",
}
# Claims that are evaluated but not judged, by their source: kernels take no time here, and large ones have no result.
TIME, VALUES = "compares times", "compares what a large kernel computes"
NOT_JUDGED = {
    "seconds['view'] < seconds['copy']": TIME,
    "wrong < right / 2": TIME,
    "all((0 < share <= 1.3 for found in shares.values() for share in found))": TIME,
    "all((speed <= 1.3 * max((roof[0] for roof in roofs.values())) for _, speed in points.values()))": TIME,
    "rate < (peak_bandwidth() or math.inf)": TIME,
    "max((rates[0] for rates in series.values())) < max((rates[-1] for rates in series.values()))": TIME,
    "shares[1] < shares[0] / 2": TIME,
    "context + firsts[0] > later[0]": TIME,
    "torch.equal(functions['GELU'](), gelu(x, approximate='tanh'))": VALUES,
    "torch.equal(short, torch.mv(matrix, v))": VALUES,
    "torch.equal(target, source + 1)": VALUES,
    "torch.equal(target.cpu(), source)": VALUES,
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}
JUDGES = dict(COMPARISONS.values())


@dataclass
class Drawn:
    """One evaluation of an `assert`, with operator, left side and right side of each comparison in it."""

    line: int
    function: str
    source: str
    held: bool = False
    comparisons: list[tuple[str, Any, Any]] = field(default_factory=list)


class Parts:
    """The functions of a lecture, and those of them that use the device directly or through other functions."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        self.used = {
            name: {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} & self.functions.keys()
            for name, function in self.functions.items()
        }
        self.on_the_device = {name for name, function in self.functions.items() if any(map(_asks, ast.walk(function)))}
        while more := {n for n in self.used.keys() - self.on_the_device if self.used[n] & self.on_the_device}:
            self.on_the_device |= more

    def asserts(self) -> Iterator[tuple[str, ast.Assert]]:
        """Yield the asserts of functions that use the device, each with the function's name."""
        for name in sorted(self.on_the_device):
            yield from ((name, node) for node in ast.walk(self.functions[name]) if isinstance(node, ast.Assert))

    def left_out(self) -> dict[str, str]:
        """Return the functions that LEFT_OUT reaches, each with the reason."""
        reasons: dict[str, str] = {}
        waiting = list(LEFT_OUT.items())
        while waiting:
            name, reason = waiting.pop()
            if name not in reasons:
                reasons[name] = reason
                waiting += [(inner, reason) for inner in self.used[name]]
        return reasons

    def is_left_out(self, statement: ast.stmt) -> bool:
        """Return whether a statement begins a part that is not evaluated."""
        match statement:
            case ast.Expr(ast.Call(ast.Name(name), arguments, named)) if name in self.functions:
                return name in LEFT_OUT or not (arguments or named or name in self.on_the_device)
        return False


def _asks(node: ast.AST) -> bool:
    """Return whether an expression uses the device or depends on it."""
    match node:
        case ast.Call(ast.Name("device" | "sizes")) | ast.Attribute(attr="cuda") | ast.Constant("cuda"):
            return True
    return False


class _Rewritten(ast.NodeTransformer):
    """assert a < b → _drawn(n, _compared(n, "<", a, b)), and `pass` for parts that are left out."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.function = parts, ""
        self.drawn: list[Drawn] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.function = self.function, self.function or node.name
        self.generic_visit(node)
        self.function = outer
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if self.parts.is_left_out(node) else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        number = ast.Constant(len(self.drawn))
        self.drawn.append(Drawn(node.lineno, self.function, ast.unparse(node.test)))
        called = _call("_drawn", number, self._sides(node.test, number))
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(called), node))

    def _sides(self, test: ast.expr, number: ast.Constant) -> ast.expr:
        match test:
            case ast.BoolOp(op, values):
                return ast.BoolOp(op, [self._sides(value, number) for value in values])
            case ast.UnaryOp(ast.Not() as op, operand):
                return ast.UnaryOp(op, self._sides(operand, number))
            case ast.Compare(left, operators, others):
                names = ast.Constant(",".join(COMPARISONS[type(comparison)][0] for comparison in operators))
                return _call("_compared", number, names, left, *others)
        return test


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def draw(path: Path, sections: Collection[str]) -> tuple[list[Drawn], list[str]]:
    """Run the named sections of a lecture, or all; return the claims and the errors that ended a section."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = Parts(tree)
    rewritten = _Rewritten(parts)
    tree = ast.fix_missing_locations(rewritten.visit(tree))
    drawn: list[Drawn] = []
    compared: dict[int, list[tuple[str, Any, Any]]] = {}

    def compare(number: int, names: str, *sides: Any) -> bool:
        pairs = list(zip(names.split(","), sides, sides[1:], strict=False))
        compared.setdefault(number, []).extend((name, _shown(a), _shown(b)) for name, a, b in pairs)
        return all(bool(JUDGES[name](a, b)) for name, a, b in pairs)

    def note(number: int, held: Any) -> None:
        claim = rewritten.drawn[number]
        drawn.append(Drawn(claim.line, claim.function, claim.source, bool(held), compared.pop(number, [])))

    module = types.ModuleType("lecture")
    vars(module).update(__file__=str(path), _compared=compare, _drawn=note)
    sys.modules["lecture"] = module
    exec(compile(tree, path, "exec", dont_inherit=True), vars(module))
    errors = []
    for statement in parts.functions["main"].body:
        source = ast.unparse(statement)
        if sections and source.removesuffix("()") not in sections:
            continue
        try:
            exec(source, vars(module))
        except Exception as error:
            errors.append(f"{source}: {type(error).__name__}: {error}")
    return drawn, errors


def _shown(side: Any) -> Any:
    return side if side is None or isinstance(side, bool | int | float | str) else repr(side)[:100]


def main(out: Path, sections: Collection[str]) -> None:
    """Evaluate the lecture of this repository, and write the claims and the errors."""
    from trace_tools.machines import peak_benchmark
    from trace_tools.metering.measurement import Witness, witnessed

    class Once(Witness):
        single = True

    peak_benchmark.measured_peaks = lambda device: []
    with witnessed(Once()), contextlib.redirect_stdout(io.StringIO()):
        claims, errors = draw(LECTURE, sections)
    out.write_text(json.dumps([[asdict(claim) for claim in claims], errors]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
