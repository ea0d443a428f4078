"""The structure of the package, read from its syntax trees.

Imports point one way and never in a circle, only commands print and exit, torch is imported late, and each part has a
ceiling for its lines.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "trace_tools").rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module once, and only in the process that runs these tests."""
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


@pytest.fixture(scope="module", autouse=True)
def _parsed() -> None:
    trees()


# The folders and modules of the package, from the bottom up: each may import from those before it. "" is the package
# itself, which lectures import; it names the modules that it loads late as text.
LAYERS = (
    *("errors", "util", "trace", "lecture", "", "source", "machines", "describing", "metering", "analysis"),
    *("presentation", "diff", "pages", "edtrace", "tracing", "live"),
    *("commands", "cli", "__main__"),
)

# Modules other than commands that may print or end the process.
PRINT_OR_EXIT_ALLOWED = {
    "trace_tools": {"print", "sys.exit"},  # without the packages that it needs
    "trace_tools.lecture.run_plain": {"print"},  # a lecture's texts, if no tracer runs
    "trace_tools.cli": {"click.echo", "ctx.exit"},  # one-line errors of the project settings
    "trace_tools.tracing.survey": {"print", "sys.exit"},  # its own process; the parent reports its last line
    "trace_tools.tracing.worker": {"os._exit", "SystemExit", "sys.stderr.write"},  # its own process
    "trace_tools.tracing.recorder.recorder": {"SystemExit"},  # raised by a lecture
}

PRINT_OR_EXIT = {"print", "pprint", "print_exc", "print_exception", "echo", "secho", "exit", "_exit", "abort", "quit"}


def part_of(module: str) -> str:
    """Return the folder of a module: "pages" for trace_tools.pages.html, "" for the package itself."""
    return module.removeprefix("trace_tools").strip(".").partition(".")[0]


@cache
def imports_of(module: str) -> set[str]:
    """Return the modules that a module imports anywhere, including in functions and for the type checker."""
    names: set[str] = set()
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno}: a relative import"
            qualified = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in FILES else str(node.module) for name in qualified.values()}
    return names & set(FILES) - {module}


def reach(module: str) -> set[str]:
    """Return all modules that a module imports, directly or indirectly."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports_of(waiting.pop()) - reached
        reached |= new
        waiting += new
    return reached


def test_imports_point_one_way() -> None:
    layer = {part: number for number, part in enumerate(LAYERS)}
    assert {part_of(module) for module in FILES} == set(LAYERS)
    upwards = [
        f"{module} imports {other}"
        for module in FILES
        for other in sorted(imports_of(module))
        if layer[part_of(other)] > layer[part_of(module)]
    ]
    assert not upwards, "\n".join(upwards)


def test_imports_have_no_circles() -> None:
    reached = {module: reach(module) for module in FILES}
    circles = {tuple(sorted(o for o in reached[module] if module in reached[o])) for module in FILES}
    assert not (lines := [", ".join(circle) for circle in sorted(circles) if circle]), "\n".join(lines)


def test_only_commands_print_and_exit() -> None:
    """No `print`, `click.echo` or `console.print`, no `sys.stdout.write`, no exit and no SystemExit elsewhere."""
    calls_by_module = defaultdict(set)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.rpartition(".")[2] in PRINT_OR_EXIT or re.fullmatch(
                    r"sys\.(stdout|stderr)\.(buffer\.)?write\w*", called
                ):
                    calls_by_module[module].add(called)
            elif isinstance(node, ast.Name) and node.id == "SystemExit":
                calls_by_module[module].add(node.id)
    forbidden = {
        module: sorted(calls - PRINT_OR_EXIT_ALLOWED.get(module, set()))
        for module, calls in calls_by_module.items()
        if part_of(module) != "commands"
    }
    lines = [f"{module}: {', '.join(calls)}" for module, calls in forbidden.items() if calls]
    assert not lines, "\n".join(lines)
    assert {module: calls_by_module[module] for module in PRINT_OR_EXIT_ALLOWED} == PRINT_OR_EXIT_ALLOWED, (
        "a module in the table prints or exits less than the table allows"
    )


def test_torch_is_imported_late() -> None:
    modules = "trace_tools.cli, trace_tools.pages.site, trace_tools.tracing.tracer"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# The most lines of Python of each folder, and of other parts. They may only fall: `test_no_part_outgrows_its_ceiling`
# says which parts are below theirs; lower it there.
CEILINGS = {
    "tracing": 5_300,
    "pages": 4_260,
    "diff": 4_450,
    "presentation": 1_480,
    "machines": 1_400,
    "metering": 1_590,
    "trace": 1_580,
    "source": 1_300,
    "describing": 1_260,
    "lecture": 970,
    "commands and the modules at the top": 1_100,
    "analysis": 990,
    "live": 290,
    "util": 600,
    "edtrace": 260,
    "package": 26_810,
    "modules": 155,
    "JavaScript": 1_600,
    "CSS": 700,
    "tests": 27_400,
}


def lines_of(*paths: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def test_no_part_outgrows_its_ceiling() -> None:
    """What a newcomer must read is bounded, part by part; `pytest -s` prints the figures."""
    package = ROOT / "trace_tools"
    folders = defaultdict(list)
    for module, path in FILES.items():
        part = part_of(module)
        at_the_top = part == "commands" or path.parent == package
        folders["commands and the modules at the top" if at_the_top else part].append(path)
    figures = {folder: lines_of(*paths) for folder, paths in folders.items()} | {
        "package": lines_of(*FILES.values()),
        "modules": len(FILES),
        "JavaScript": lines_of(*package.rglob("*.js")),
        "CSS": lines_of(*package.rglob("*.css")),
        "tests": lines_of(*(ROOT / "tests").rglob("*.py")),
    }
    assert figures.keys() == CEILINGS.keys()
    for part, ceiling in CEILINGS.items():
        print(f"{part:36} {figures[part]:7,} ≤ {ceiling:6,}")
    above = [f"{part}: {figures[part]:,}, ceiling {top:,}" for part, top in CEILINGS.items() if figures[part] > top]
    assert not above, "; ".join(above)
