"""List the lines for a GPU that did not run on the emulated device; `make emulate` reports them.

The lecture runs as plain Python under coverage.py, on the CPU and on three cards, two of which have published peaks
and one of which lacks fp8. The tools run in the tests marked `cuda`, with all processes that these start, and in tests
with simulated drivers and devices that refuse or are not CUDA's. Lines that ran in none of these are listed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from coverage import Coverage

from tests.emulated_cuda.build import ROOT, environment

CARDS = ("emulated", "h100", "t4")
WITH_STAND_INS = (
    "tests/machines",
    "tests/machines/test_accelerators.py",
    "tests/commands/test_doctor.py",
    "tests/tracing/test_recorder_devices.py",
    "tests/test_lecture.py::test_free_memory_decides_sizes_once",
)
FOR_A_GPU = re.compile(r"\b(gpu|cuda)\b")
FOR_NONE = re.compile(r"\bgpu is None|not gpu\b|'cpu'")


def lecture(out: Path, path: Path) -> bool:
    """Run the lecture on each card and on the CPU; return whether all runs were possible."""
    return all([_lecture(out, path, card) for card in (*CARDS, None)])


def report(out: Path, path: Path) -> None:
    """Print the lines that never ran."""
    runs, tests = _combined(out.glob("lecture-*.coverage")), _combined(out.glob("tools.coverage.*"))
    missed = [*_missed_in_lecture(runs, tests, path), *_missed_in_tools(tests)]
    for line in missed:
        print(f"did not run: {line}")
    print(f"{len(missed)} lines did not run: of the lecture anywhere, of the tools those that are for a GPU")


def _lecture(out: Path, lecture: Path, card: str | None) -> bool:
    """Run the lecture as plain Python. A failed claim about time may end it, which is no error here."""
    data = out / f"lecture-{card or 'cpu'}.coverage"
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", f"--include={lecture}", str(lecture)]
    variables = environment(card or CARDS[0]) | {"OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(ROOT)])
    if card is None:
        variables["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run(command, env=variables, cwd=lecture.parent, capture_output=True, text=True)
    if done.returncode:
        print(f"the lecture on {card or 'the CPU'} ended early: {done.stderr.strip().splitlines()[-1]}")
    return done.returncode == 0 or "AssertionError" in done.stderr


def tests(out: Path, variables: Mapping[str, str], *, cover: bool) -> bool:
    """Run the tests marked `cuda`; return whether all passed.

    With `cover`, also run those with simulated devices, which `make test-all` runs otherwise, and record which lines
    run in all these tests and in the processes that they start.
    """
    command = [sys.executable, "-m", "pytest", "-n2", "--dist=loadgroup"]
    runs = [(["-m", "cuda"], dict(variables))]
    if cover:
        settings = out / "settings.ini"
        settings.write_text(
            f"[run]\npatch = subprocess\nparallel = True\ndata_file = {out / 'tools.coverage'}\n"
            f"include = {ROOT / 'lecture.py'},{ROOT / 'trace_tools'}/*\n",
            encoding="utf-8",
        )
        command[1:1] = ["-m", "coverage", "run", f"--rcfile={settings}"]
        without_device = {name: value for name, value in variables.items() if not name.startswith("EMULATED_CUDA")}
        runs.append((["-m", "not cuda", *WITH_STAND_INS], without_device | {"PYTHONPATH": ""}))
    return all([subprocess.run([*command, *chosen], env=env, cwd=ROOT).returncode == 0 for chosen, env in runs])


def _combined(paths: Iterable[Path]) -> Coverage:
    """Combine coverage files: a line ran if it ran in any of them.

    Tests kill processes, some while they write their file. coverage.py warns of a broken file and goes on.
    """
    coverage = Coverage(data_file=None)
    coverage.combine([str(path) for path in paths], keep=True)
    return coverage


def _missed(coverage: Coverage, path: Path) -> set[int]:
    """Return the lines of a file that did not run."""
    _, _, missing, _ = coverage.analysis(str(path))
    return set(missing)


def _missed_in_lecture(runs: Coverage, tests: Coverage, lecture: Path) -> Iterator[str]:
    """Yield the lines that ran neither in this copy of the lecture nor in the tests, which run the original."""
    lines = lecture.read_text(encoding="utf-8").splitlines()
    missed = _missed(runs, lecture) & _missed(tests, ROOT / "lecture.py")
    for number in sorted(missed):
        yield f"lecture.py:{number}: {lines[number - 1].strip()[:100]}"


def _missed_in_tools(tests: Coverage) -> Iterator[str]:
    """Yield the lines of the tools that are for a GPU and did not run in the tests."""
    for path in sorted((ROOT / "trace_tools").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        gpu_lines = set(_for_a_gpu(ast.parse(text)))
        if not gpu_lines:
            continue
        lines = text.splitlines()
        for number in sorted(gpu_lines & _missed(tests, path)):
            yield f"{path.relative_to(ROOT)}:{number}: {lines[number - 1].strip()[:100]}"


def _for_a_gpu(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of accelerators' classes, of functions that take an accelerator, and under an `if` for a GPU."""
    for node in ast.walk(tree):
        body: list[ast.stmt] = []
        if isinstance(node, ast.If) and FOR_A_GPU.search(test := ast.unparse(node.test)):
            body = node.orelse if FOR_NONE.search(test) else node.body
        elif isinstance(node, ast.FunctionDef):
            body = node.body if any("Accelerator" in ast.unparse(argument) for argument in node.args.args) else []
        elif isinstance(node, ast.ClassDef) and node.name in ("Accelerator",):
            body = node.body
        for statement in body:
            yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
