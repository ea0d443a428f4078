"""Evaluate the lecture's claims on one card, and write how each `assert` ended.

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
    "1 / 50 < by_hand_s / took[-1].seconds < 50": "compares times",
    "all((100000.0 < point.speed < 1000000000000000.0 for point in here.values()))": "judges times",
    "torch.equal(target.cpu(), source)": "compares what a large kernel computes",
}


class _Rewritten(ast.NodeTransformer):
    """assert TEST → _judge(LINE, SOURCE, TEST), and `pass` for parts that are left out."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Call(ast.Name(name)) if name in LEFT_OUT:
                return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        arguments = [ast.Constant(node.lineno), ast.Constant(ast.unparse(node.test)), node.test]
        call = ast.Call(ast.Name("_judge", ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def evaluated() -> tuple[list[tuple[int, str, bool]], list[str]]:
    """Run the sections of the lecture; return line, source and result of each claim, and the errors of sections."""
    tree = ast.parse(LECTURE.read_text(encoding="utf-8"))
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    claims: list[tuple[int, str, bool]] = []
    module = types.ModuleType("lecture")
    names = vars(module)
    names["__file__"] = str(LECTURE)
    names["_judge"] = lambda line, source, held: claims.append((line, source, bool(held)))
    sys.modules["lecture"] = module
    rewritten = ast.fix_missing_locations(_Rewritten().visit(tree))
    exec(compile(rewritten, str(LECTURE), "exec", dont_inherit=True), names)
    measure = names["measure"]

    def briefly(*functions: Any, **options: Any) -> Any:
        return measure(*functions, **{**options, "warmup": 1, "repeats": 3, "min_seconds": 0.0, "max_seconds": 0.1})

    names["measure"] = briefly
    errors = []
    for statement in main.body:
        source = ast.unparse(statement)
        try:
            exec(source, names)
        except Exception as error:
            errors.append(f"{source}: {type(error).__name__}: {error}")
    return claims, errors


def main(out: Path) -> None:
    """Evaluate the claims of this repository's lecture, and write them and the errors."""
    from trace_tools.machines import peak_benchmark

    peak_benchmark.measured_peaks = lambda device, only=None: []
    with contextlib.redirect_stdout(io.StringIO()):
        result = evaluated()
    out.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
