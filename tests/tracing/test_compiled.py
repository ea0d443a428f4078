"""The functions that numba compiles are found by their names; `test_programs` runs them."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.cases_in_one import each
from trace_tools.source.statements import parse_source
from trace_tools.tracing.instrument import compiled_functions

DEFINED = "def f(x): return x\ndef g(x): return f(x)\nclass C:\n    def m(self, x): return x\n"


@each(
    ("text", "names"),
    [
        ("import numba as nb\n@nb.njit\ndef h(x): return x\n", {"h"}),
        ("from numba import *\n@guvectorize\ndef h(x): pass\n", {"h"}),
        ("import numba\n@numba.experimental.jitclass\nclass D:\n    def n(self): pass\n", {"n"}),
        ("import numba\nfast = numba.njit(f)\nprint(fast(1), g(1))\n", {"f"}),
        ("import numba\nfast = numba.njit(C.m)\nc = C()\n", {"m"}),
        ("import numba\ndef fast(one): return numba.njit(one)\nfast(g)\n", {"g"}),
        ("import pandas\npandas.Series([1]).rolling(1).apply(f, engine='numba')\n", {"f"}),
        ("from beside import fast\n@fast\ndef h(x): return x\n", {"h"}),
        ("import beside\n@beside.fast\ndef h(x): return x\n", {"h"}),
        ("from plain import fast\n@fast\ndef h(x): return x\n", set()),
        ("import numba\nprint(f(1), g(2), C().m(3), numba.__version__)\n", set()),
        ("import numba\nall = {'a': f}\nfast = {k: numba.njit(one) for k, one in all.items()}\n", {"f"}),
        ("import numba\ndef main(): return f(1)\nif __name__ == '__main__':\n    print(main)\n", set()),
    ],
)
def test_functions_that_numba_compiles(text: str, names: set[str], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import numba\nfast = numba.njit\n", encoding="utf-8")
    (tmp_path / "plain.py").write_text("def fast(f): return f\n", encoding="utf-8")
    source = parse_source(DEFINED + text, str(tmp_path / "lecture.py"))
    assert {node.name for node in compiled_functions(source) if isinstance(node, ast.FunctionDef)} == names
