"""The structure of the package, read from its syntax trees.

Imports point one way and never in a circle, only commands print and exit, and torch is imported late.
`pytest -s tests/test_architecture.py` also prints the figures of the code, each with its goal.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from trace_tools.tracing.options import OPTIONS

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "trace_tools").rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module once, and only in the process that runs these tests."""
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


# The folders and modules of the package, from the bottom up: each may import from those before it. "" is the package
# itself, which lectures import; it names the modules that it loads late as text.
LAYERS = (
    *("errors", "util", "trace", "lecture", "", "source", "machines", "describing", "metering", "analysis"),
    *("presentation", "diff", "pages", "edtrace", "tracing", "live", "export"),
    *("config", "commands", "cli", "__main__"),
)

# Modules other than commands that may print or end the process.
PRINT_OR_EXIT_ALLOWED = {
    "trace_tools.machines.checks": {"print"},  # its own process; the parent reads its output
    "trace_tools.machines.torch_build": {"print"},  # for the Makefile, before anything is installed
    "trace_tools.lecture.run_plain": {"print"},  # a lecture's texts, if no tracer runs
    "trace_tools.cli": {"click.echo", "ctx.exit"},  # one-line errors of the project settings
    "trace_tools.tracing.fork_server": {"os._exit"},  # its own process, and its forks
    "trace_tools.tracing.survey": {"print", "sys.exit"},  # its own process; the parent reports its last line
    "trace_tools.tracing.worker": {
        "os._exit",
        "SystemExit",
        "sys.stderr.write",
    },  # its own process; ends as plain Python
    "trace_tools.tracing.recorder.call": {"SystemExit"},  # raised by a lecture
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
    for module in ("trace_tools", "trace_tools.cli", "trace_tools.pages.site", "trace_tools.tracing.supervisor"):
        code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0, module


def test_code_figures(request: pytest.FixtureRequest) -> None:
    """Print the figures of the code with their goals; a missed goal is no failure."""
    if request.config.getoption("capture") != "no":
        return  # counting the tests takes a while, and the output would be hidden
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES.values()}
    flat = [path for path in lines if path.parent == ROOT / "trace_tools" and not path.name.startswith("__")]
    classes = {
        f"{module}.{node.name}": (node.end_lineno - node.lineno + 1, len(attributes(node)))
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.end_lineno is not None
    }
    longest, widest = (max(classes, key=lambda name: classes[name][measure]) for measure in (0, 1))
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    once = sum(map(called_once, trees().values()))
    touched = [1 + len(acting_on(option)) for option in OPTIONS]  # 1: the table of options
    fast, everything = collected()
    readme = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    rows = [
        ("trace_tools: lines", sum(lines.values()), 36_000),
        ("trace_tools: modules", len(FILES), 170),
        ("trace_tools: modules at the top", len(flat), 5),
        ("tests: lines", tests, 38_000),
        ("tests: collected by make test", fast, 4_000),
        ("tests: collected by make test-all", everything, None),
        (f"longest class: lines of {longest}", classes[longest][0], 250),
        (f"widest class: attributes of {widest}", classes[widest][1], 15),
        ("private functions with one use", once, 250),
        ("modules that an option of `trace` is in, median", int(median(touched)), 2),
        ("README: lines", readme, 150),
    ]
    width = max(len(name) for name, _, _ in rows)
    print(f"\n{'figure':{width}}  {'today':>7}  {'goal':>8}")
    for name, figure, goal in rows:
        print(f"{name:{width}}  {figure:7,}  {f'≤ {goal:,}' if goal is not None else '':>8}")
    assert all(figure > 0 for _, figure, _ in rows)


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the attributes that the methods of a class assign to `self`."""
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}


def called_once(tree: ast.Module) -> int:
    """Count a module's private functions that are called in one place and named nowhere else."""
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("_")]
    used = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    called = Counter(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(used[name] == called[name] == 1 for name in names)


def acting_on(option: str) -> set[str]:
    """Return the modules that read an option of `trace` from its `TraceOptions`."""
    return {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == option and ast.unparse(node.value).endswith("options")
    }


def collected() -> tuple[int, int]:
    """Return how many tests `make test` runs, and how many there are."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", "not slow", "tests"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    counted = re.search(r"^(?:(\d+)/)?(\d+) tests collected", listed, re.MULTILINE)
    assert counted is not None, listed[-2_000:]
    return int(counted[1] or counted[2]), int(counted[2])
