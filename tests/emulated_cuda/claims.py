"""Evaluate the lecture's claims on one card: run the parts that use the device, and write how each `assert` ended.

    EMULATED_CUDA_COMPUTED=1048576 python -m tests.emulated_cuda --cards h100 \\
        python -m tests.emulated_cuda.claims OUT.json

The lecture chooses its sizes by the card's memory, as on a real card. With EMULATED_CUDA_COMPUTED, kernels on large
tensors are launched but not computed, so an H100's sizes take only seconds on a CPU. Shapes, counts and the
allocator's figures are those of the card; the values of large tensors and all times are meaningless. `measure` calls
its function few times, and no peaks are measured.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

LECTURE = Path(__file__).resolve().parents[2] / "lecture.py"
# Parts that are left out, named by their first function. Their claims do not depend on the card.
LEFT_OUT = {
    "tokens_on_disk": "files",
    "killed_and_resumed": "processes and files",
    "what_it_learns": "what a model learns",
}
# Claims that are evaluated but not judged, by their source: kernels take no time here, and large ones have no result.
NOT_JUDGED = {
    "many < few / 2": "compares times",
    "torch.equal(target.cpu(), source)": "compares what a large kernel computes",
}


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

    def left_out(self) -> set[str]:
        """Return the functions that LEFT_OUT reaches."""
        reached: set[str] = set()
        waiting = [*LEFT_OUT]
        while waiting:
            if (name := waiting.pop()) not in reached:
                reached.add(name)
                waiting += self.used[name]
        return reached

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
    """assert TEST → _judge(LINE, SOURCE, TEST), and `pass` for parts that are left out."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if self.parts.is_left_out(node) else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        arguments = [ast.Constant(node.lineno), ast.Constant(ast.unparse(node.test)), node.test]
        call = ast.Call(ast.Name("_judge", ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def evaluated() -> tuple[list[tuple[int, str, bool]], list[str]]:
    """Run the sections of the lecture; return line, source and result of each claim, and the errors of sections."""
    tree = ast.parse(LECTURE.read_text(encoding="utf-8"))
    parts = Parts(tree)
    claims: list[tuple[int, str, bool]] = []
    module = types.ModuleType("lecture")
    vars(module).update(
        __file__=str(LECTURE), _judge=lambda line, source, held: claims.append((line, source, bool(held)))
    )
    sys.modules["lecture"] = module
    rewritten = ast.fix_missing_locations(_Rewritten(parts).visit(tree))
    exec(compile(rewritten, str(LECTURE), "exec", dont_inherit=True), vars(module))
    measure = vars(module)["measure"]

    def briefly(*functions: Any, **options: Any) -> Any:
        return measure(*functions, **{**options, "warmup": 1, "repeats": 3, "min_seconds": 0.0, "max_seconds": 0.1})

    vars(module)["measure"] = briefly
    errors = []
    for statement in parts.functions["main"].body:
        source = ast.unparse(statement)
        try:
            exec(source, vars(module))
        except Exception as error:
            errors.append(f"{source}: {type(error).__name__}: {error}")
    return claims, errors


def main(out: Path) -> None:
    """Evaluate the claims of this repository's lecture, and write them and the errors."""
    from trace_tools.machines import peak_benchmark

    peak_benchmark.measured_peaks = lambda device: []
    with contextlib.redirect_stdout(io.StringIO()):
        result = evaluated()
    out.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
