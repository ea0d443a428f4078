"""The structure of the package, read from its syntax trees: `pytest -s tests/test_architecture.py` prints its figures.

Imports point one way and never in a circle, only commands print and exit, a name means one thing, every module has
its tests, and few types stand for what the whole package is about: one execution of one statement.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from trace_tools.schema import Step

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "trace_tools").rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module once, and in that process only which runs these tests."""
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


# What each part of the package may import besides itself: a part is a folder, or a module beside cli.py.
GROUND = {
    "accelerators", "arithmetic", "borrowed", "call_tree", "citations", "claim_kinds", "directives", "distances",
    "errors", "estimates", "explorations", "file_format", "files", "floors", "formats", "garbage", "git", "graphs",
    "imports", "invariants", "late_imports", "layout", "mistakes", "narrative", "ranks", "rates", "schema", "shapes",
    "statements", "summaries", "vega", "vocabularies",
}  # fmt: skip
# How pages are drawn, which reports use as well.
DRAWING = {"rendering.charts", "rendering.highlight", "rendering.markdown_text", "rendering.page_base"}
# What machines could do at best is said in a table, which floors are made from.
TABLE = {"machines.known_machines"}
# Pages and traces, made and shown.
SHOWING = {"publishing", "serving", "tracing"}
ALLOWED = {
    **dict.fromkeys(GROUND, GROUND),
    "floors": {*GROUND, *TABLE},
    "drawings": {"narrative"},
    "outcome": GROUND,
    "plain": set(),
    "project": {*GROUND, "machines"},
    "machines": GROUND,
    "metering": GROUND,
    "describing": GROUND,
    "tracing": {"", *GROUND, "describing", "machines", "metering"},  # the package's version
    "rendering": GROUND,
    "comparing": {*GROUND, *DRAWING},
    "benching": {*GROUND, "comparing", "machines", "outcome", "tracing"},
    "publishing": {*GROUND, "comparing", "rendering"},
    "storing": {*GROUND, "comparing", *DRAWING},
    "exchange": {*GROUND, "publishing", "rendering"},
    "fleet": {"", *GROUND, "machines", "tracing"},
    "serving": {*GROUND, "machines", "outcome", "publishing", "rendering", "tracing"},
    "commands": {
        *GROUND,
        "benching",
        "comparing",
        "exchange",
        "fleet",
        "machines",
        "outcome",
        "project",
        "storing",
        *SHOWING,
    },
    "cli": {"", "commands", "errors"},  # the package's version
    "__main__": {"cli"},
    "": {"narrative", "metering", "machines"},  # what a lecture imports
}

# Whoever may say something or end the process, besides commands.
SPEAKERS = {
    "trace_tools.machines.checks": {"print"},  # a process, whose lines its parent reads
    "trace_tools.machines.torch_build": {"print"},  # for the Makefile, before anything is installed
    "trace_tools.plain": {"print"},  # which section begins, where no tracer is
    "trace_tools.cli": {"click.echo", "ctx.exit"},  # an error of the project, as one line
    "trace_tools.tracing.fork_server": {"os._exit"},  # a process, and those that it forks
    "trace_tools.tracing.survey": {"print", "sys.exit"},  # a process, whose last line is its parent's error
    "trace_tools.tracing.child": {"os._exit", "SystemExit", "sys.stderr.write"},  # a process: it ends as plain Python
    "trace_tools.tracing.torchrun": {"print", "sys.exit"},  # a process, likewise
    "trace_tools.tracing.recorder": {"SystemExit"},  # a lecture's own
}

ENDS = {"print", "pprint", "print_exc", "print_exception", "echo", "secho", "exit", "_exit", "abort", "quit"}

# Modules without a test module of their name, and why.
UNTESTED = {
    "trace_tools.__main__": "every test that starts a process runs it",
    "trace_tools.errors": "messages and exit codes are tested where they are raised",
    "trace_tools.schema": "declarations: tests of the file read and write them",
    "trace_tools.tracing.child": "a process: test_tracer runs it",
    "trace_tools.tracing.torchrun": "a process: test_many_ranks runs it",
    "trace_tools.tracing.fork_server": "a process: test_processes runs it",
}

MOST_TYPES_OF_AN_EXECUTION = 6
COPIED = 4  # observations of Step that a class has, too, if it copies one
WHERE = {"id", "frame", "statement", "line", "execution"}  # fields of Step that say which it is; all others observe it


def part_of(module: str) -> str:
    """The part a module belongs to: "rendering" for trace_tools.rendering.html, "" for the package itself."""
    return module.removeprefix("trace_tools").strip(".").partition(".")[0]


@cache
def imports_of(module: str) -> set[str]:
    """The modules that one imports, wherever in it: in functions and for the type checker as well."""
    names: set[str] = set()
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno}: a relative import"
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in FILES else str(node.module) for name in whole.values()}
    return names & set(FILES) - {module}


def reach(module: str) -> set[str]:
    """All that a module imports, and what that imports, and so on."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports_of(waiting.pop()) - reached
        reached |= new
        waiting += new
    return reached


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in trees().items():
        yield from ((module, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_imports_point_one_way() -> None:
    told = []
    for module in FILES:
        part = part_of(module)
        allowed = tuple(f"trace_tools.{name}." for name in ALLOWED[part] - {""})
        others = {other for other in imports_of(module) if part_of(other) != part}
        others -= {"trace_tools"} if "" in ALLOWED[part] else set()
        told += [f"{module} imports {other}" for other in sorted(others) if not f"{other}.".startswith(allowed)]
    assert not told, "\n".join(told)


def test_every_part_that_is_listed_is_there() -> None:
    assert set(ALLOWED) == {part_of(module) for module in FILES}
    assert {name for name in DRAWING if f"trace_tools.{name}" not in FILES} == set()


def test_no_imports_in_a_circle() -> None:
    reached = {module: reach(module) for module in FILES}
    circles = {tuple(sorted(o for o in reached[module] if module in reached[o])) for module in FILES}
    assert not (told := [", ".join(circle) for circle in sorted(circles) if circle]), "\n".join(told)


def test_only_commands_print_and_exit() -> None:
    """No `print`, `click.echo` or `console.print`, no `sys.stdout.write`, no exit and no SystemExit elsewhere."""
    done = defaultdict(set)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.rpartition(".")[2] in ENDS or re.fullmatch(
                    r"sys\.(stdout|stderr)\.(buffer\.)?write\w*", called
                ):
                    done[module].add(called)
            elif isinstance(node, ast.Name) and node.id == "SystemExit":
                done[module].add(node.id)
    wrong = {
        module: sorted(calls - SPEAKERS.get(module, set()))
        for module, calls in done.items()
        if part_of(module) != "commands"
    }
    assert not (told := [f"{module}: {', '.join(calls)}" for module, calls in wrong.items() if calls]), "\n".join(told)
    assert {module: done[module] for module in SPEAKERS} == SPEAKERS, "more is allowed than is done"


def test_a_name_is_one_class() -> None:
    defined = defaultdict(list)
    for module, node in classes():
        defined[node.name].append(module)
    told = [f"{name}: {', '.join(modules)}" for name, modules in sorted(defined.items()) if len(modules) > 1]
    assert not told, "\n".join(told)


def test_tests_mirror_modules() -> None:
    """trace_tools/rendering/html.py has tests/rendering/test_html.py; further test modules may stand beside it."""
    missing = []
    for module, path in FILES.items():
        mirrored = path.relative_to(ROOT / "trace_tools")
        if path.name != "__init__.py" and not (ROOT / "tests" / mirrored.with_name(f"test_{path.name}")).exists():
            missing.append(module)
    assert not (told := sorted(set(missing) - set(UNTESTED))), "\n".join(told)
    assert sorted(set(UNTESTED) - set(missing)) == [], "an exception is not needed any more"


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Names and annotations of a class's fields, and of what its `__init__` is given."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id, item.annotation
        elif isinstance(item, ast.FunctionDef) and item.name == "__init__":
            yield from ((one.arg, one.annotation) for one in item.args.args if one.annotation is not None)


def assigned(node: ast.ClassDef) -> set[str]:
    """The attributes that a class gives itself."""
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}


def names_in(annotation: ast.expr) -> Iterator[str]:
    """The types of which a field holds one: those of `Step | None` and `tuple[Step, Step]`, not of `list[Step]`."""
    match annotation:
        case ast.Constant(value=str(text)):
            yield from names_in(ast.parse(text, mode="eval").body)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.BinOp(left=left, right=right):
            yield from names_in(left)
            yield from names_in(right)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[*of])) if "..." not in map(
            ast.unparse, of
        ):
            for one in of:
                yield from names_in(one)
        case ast.Subscript(value=ast.Name(id="Optional" | "ClassVar" | "Final"), slice=of):
            yield from names_in(of)


def test_few_types_stand_for_an_execution() -> None:
    """`Step` is one execution of one statement. So is, by any name, what holds one, or copies what is in one.

    - It holds one: a field, or an argument of `__init__`, is one step (or perhaps one, or a pair of them). A list of
      steps is many executions, and no type for one. Another name for a step, or for a tuple with one, counts.
    - It copies one: four of its fields or more have names of Step's fields, other than those that say which it is.
    - It is a subclass of one of these.

    What holds one of these in turn is about something else (a finding, a row of a table), and is printed beside them.
    """
    observations = {one.name for one in fields(Step)} - WHERE
    found = {("trace_tools.schema", "Step")}
    for module, tree in trees().items():
        given = (node for node in tree.body if isinstance(node, ast.Assign))
        tuples = (node for node in given if isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)))
        found |= {(module, ast.unparse(node.targets[0])) for node in tuples if "Step" in names_in(node.value)}
        renamed = (one for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names)
        assert not [one for one in renamed if one.name == "Step" and one.asname], f"{module}: Step by another name"
    for module, node in classes():
        annotated = dict(fields_of(node))
        held = {name for annotation in annotated.values() for name in names_in(annotation)}
        if held & {"Step", "Event"} or len(observations & {*annotated, *assigned(node)}) >= COPIED:
            found.add((module, node.name))
    while more := {(m, node.name) for m, node in classes() if bases(node) & {name for _, name in found}} - found:
        found |= more
    others = {name for _, name in found} - {"Step"}
    holders = {n.name for _, n in classes() if others & {x for _, of in fields_of(n) for x in names_in(of)}}
    print(f"types for one execution of one statement: {len(found)}, at most {MOST_TYPES_OF_AN_EXECUTION}")
    print(*(f"  {module}.{name}" for module, name in sorted(found)), sep="\n")
    print("  held by", ", ".join(sorted(holders - others)))
    assert len(found) <= MOST_TYPES_OF_AN_EXECUTION


def bases(node: ast.ClassDef) -> set[str]:
    return {name for base in node.bases for name in names_in(base)}


def test_its_size_is_printed() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES.values())
    print(f"{lines:,} lines of trace_tools in {len(FILES)} modules, {sum(1 for _ in classes())} classes")
    assert lines and len(FILES)


@pytest.mark.parametrize(
    "module", ["trace_tools", "trace_tools.cli", "trace_tools.publishing.site", "trace_tools.tracing.tracer"]
)
def test_no_torch_until_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
