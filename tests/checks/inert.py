"""`make inert`: does any of CPython's own tests notice that the code it tests runs with probes in it?

Each subject's tests run in two fresh processes: in one, modules are imported as they are, in the other with
probes, as a lecture is. Every test must end alike in both. Subjects are modules of the standard library,
with their tests; CPython's tests of the language, which are instrumented themselves; and packages from the index,
where their sources can be downloaded. The latter two run a third time, under a meter that is read at each boundary,
as the metering process does. What differs only once in two attempts is chance (clocks, threads).

    python -m tests.checks.inert                  everything; writes tests/checks/inert.md
    python -m tests.checks.inert enum test_with   only these, and writes nothing
    python -m tests.checks.inert --alone          one process at a time, where others need the machine
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.checks.inert_process import Job

TIMEOUT_S = 900
REPORT = Path(__file__).with_suffix(".md")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Subject:
    """What is instrumented, and the tests that are to say whether it shows."""

    name: str
    modules: tuple[str, ...]  # patterns
    tests: tuple[str, ...]
    path: str = ""  # where they are found, if they are not Python's own; then pytest runs them
    metered: bool = False  # a third time, under a meter


@dataclass(frozen=True)
class Difference:
    """A test that ended otherwise with probes."""

    test: str
    plain: str
    probed: str
    how: str = "probed"  # or "metered"

    @property
    def reason(self) -> str | None:
        """Why that must be so; None when nothing says that it must."""
        return next(
            (why for pattern, why in EXPECTED.items() if re.search(pattern, f"{self.test} {self.probed}")), None
        )


@dataclass(frozen=True)
class Finding:
    """What came of one subject."""

    subject: Subject
    outcomes: dict[str, str]  # plainly
    differences: tuple[Difference, ...]
    steps: int  # that were recorded
    seconds: tuple[float, ...]  # plainly, with probes, metered
    trouble: str | None = None  # why there is nothing to compare


def library(names: str, tests: str = "") -> Subject:
    """Modules of the standard library, and all below them, with their tests."""
    modules = tuple(pattern for name in names.split() for pattern in (name, f"{name}.*"))
    found = tests.split() or [f"test_{names.replace('.', '_')}"]
    return Subject(names.replace(" ", ", "), modules, tuple(f"test.{test}" for test in found))


def itself(test: str) -> Subject:
    """A test of the language, which is instrumented itself."""
    return Subject(f"test_{test}", (f"test.test_{test}",), (f"test.test_{test}",), metered=True)


LIBRARY = [
    library("abc _py_abc", "test_abc"), library("argparse"), library("ast"), library("base64"), library("bisect"),
    library("calendar"), library("codeop"), library("collections", "test_collections test_ordered_dict test_userdict"),
    library("configparser"), library("contextlib", "test_contextlib test_contextlib_async"), library("copy"),
    library("csv"), library("dataclasses"), library("difflib"), library("email"), library("enum"),
    library("filecmp"), library("fnmatch"), library("fractions"), library("functools"), library("getopt"),
    library("gettext"), library("glob"), library("graphlib"), library("heapq"),
    library("html", "test_html test_htmlparser"), library("http.cookies"), library("inspect"), library("ipaddress"),
    library("json"), library("linecache"), library("numbers", "test_abstract_numbers test_numeric_tower"),
    library("operator"), library("optparse"), library("pathlib"), library("pickle"), library("pprint"),
    library("queue"), library("random"), library("re"), library("reprlib"), library("sched"), library("shelve"),
    library("shlex"), library("statistics"), library("string"), library("tempfile"), library("textwrap"),
    library("_threading_local", "test_threading_local"), library("tomllib"),
    library("traceback"), library("types"), library("typing"), library("urllib.parse", "test_urlparse"),
    library("uuid"), library("weakref _weakrefset", "test_weakref test_weakset"),
    library("xml.etree", "test_xml_etree"),
    library("asyncio", " ".join(f"test_asyncio.test_{name}" for name in (
        "queues", "locks", "timeouts", "runners", "futures", "pep492", "context", "waitfor"))),
]  # fmt: skip
LANGUAGE = [itself(name) for name in (
    "asyncgen", "asyncio.test_pep492", "asyncio.test_taskgroups", "asyncio.test_tasks", "augassign", "baseexception",
    "builtin", "call", "class", "compare", "contextlib", "contextlib_async", "coroutines", "dataclasses", "decorators",
    "descr", "descrtut", "dictcomps", "dynamic", "dynamicclassattribute", "enum", "enumerate", "except_star",
    "exception_group", "exception_variations", "exceptions", "extcall", "frame", "fstring", "funcattrs", "functools",
    "gc", "generator_stop", "generators", "genericclass", "genexps", "grammar", "inspect", "isinstance", "iter",
    "keywordonlyarg", "listcomps", "metaclass", "named_expressions", "patma", "pep646_syntax", "positional_only_arg",
    "property", "raise", "richcmp", "scope", "setcomps", "subclassinit", "super", "syntax", "threading_local",
    "type_annotations", "type_params", "typechecks", "types", "typing", "unpack", "unpack_ex", "with",
    "yield_from", "pep380",
)]  # fmt: skip

SHORTER = "the stack is a few calls shorter: a probe needs two or three below the function it stands in"
ENDED = "a frame that has ended by an exception has the line of its last probe in `f_lineno` (`tb_lineno` is right)"
REPLACED = "torch and typing_extensions, which a meter loads, replace a function of the module"
COUNTED = "it counts all objects, or references to None; the tracer has some"
EXPECTED = {  # a pattern in a test's name, or in what it says with probes → why it differs
    r"name '_@\w+' is not defined": "a function made of another's code needs the globals of the other",
    r"'_@(frame|\d+)'": "`locals()` and `co_varnames` have the names of the probes' variables too",
    r"RecursionError|recursion": SHORTER,
    r"PEP626Tests|test_frame\.ReprTest": ENDED,
    r"test_patma\.TestTracing": "`sys.settrace` sees a function's first line once more at its end",
    r"test_sneaky_frame_object": "a finalizer runs while a probe does",
    r"test_inspect\.test_inspect\.|typing\._collect_parameters": REPLACED,
    r"test_gc\.GCTests|test_bug_xmltoolkit63|ClassPropertiesAndMethods\.test_slots": COUNTED,
}


PACKAGES = {  # on the index → where in its sources its modules and its tests are, and which modules are instrumented
    "einops": (".", "einops/tests", ("einops", "einops.*")),
    "attrs": ("src", "tests", ("attr", "attr.*", "attrs", "attrs.*")),
    "click": ("src", "tests", ("click", "click.*")),
    "markdown-it-py": (".", "tests", ("markdown_it", "markdown_it.*")),
}


def package(name: str, folder: Path) -> Iterator[Subject]:
    """Yield a package with its tests, if they can be downloaded.

    A folder `tests` at the top gets another name: its package would be taken for the one that this file is in.
    """
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", name, "-d"]
    subprocess.run([*download, str(folder)], check=False, capture_output=True)
    modules, tests, patterns = PACKAGES[name]
    for archive in folder.glob(f"{name.replace('-', '?')}-*.tar.gz"):
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
        root = folder / archive.name.removesuffix(".tar.gz")
        place = root / tests
        if tests == "tests":
            place = place.rename(root / f"tests_of_{name.replace('-', '_')}")
        found = sorted(str(path) for path in place.rglob("test_*.py"))
        yield Subject(name, patterns, tuple(found), str(root / modules), metered=True)


def examine(subject: Subject, folder: Path) -> Finding:
    """Run a subject's tests plainly and with probes; where they differ, once more."""
    first = attempt(subject, folder)
    if not (first.differences or first.trouble):
        return first
    second = attempt(subject, folder)
    if first.trouble or second.trouble:
        return second
    again = {(difference.test, difference.how) for difference in second.differences}
    return replace(first, differences=tuple(d for d in first.differences if (d.test, d.how) in again))


def attempt(subject: Subject, folder: Path) -> Finding:
    """Run a subject's tests plainly, with probes and perhaps under a meter, and compare."""
    plain, *seconds = run(subject, folder, "plain")
    if isinstance(plain, str):
        return Finding(subject, {}, (), 0, tuple(seconds), f"plain: {plain}")
    found: list[Difference] = []
    steps = 0
    for how in ("probed", "metered") if subject.metered else ("probed",):
        ended, took = run(subject, folder, how)
        seconds.append(took)
        if isinstance(ended, str):
            return Finding(subject, plain["outcomes"], (), 0, tuple(seconds), f"{how}: {ended}")
        found += compare(plain["outcomes"], ended["outcomes"], how)
        steps += ended["steps"]
    return Finding(subject, plain["outcomes"], tuple(found), steps, tuple(seconds))


def compare(plain: dict[str, str], probed: dict[str, str], how: str) -> list[Difference]:
    """Return the tests that ended in different ways (what a failure says may differ)."""
    both = sorted({*plain, *probed})
    pairs = ((test, plain.get(test, "not run"), probed.get(test, "not run")) for test in both)
    return [Difference(*pair, how) for pair in pairs if pair[1].partition(":")[0] != pair[2].partition(":")[0]]


def run(subject: Subject, folder: Path, how: str) -> tuple[dict[str, Any] | str, float]:
    """Run the tests in a process of their own; return what it wrote (or why it did not), and the time in s."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = Path(scratch, "result.json")
        job = Path(scratch, "job.json")
        Job(subject.modules, subject.tests, how, str(result), with_pytest=bool(subject.path)).save(job)
        path = os.pathsep.join(filter(None, [subject.path, str(ROOT)]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "EINOPS_TEST_BACKENDS": "numpy"}
        started = time.monotonic()
        command = [sys.executable, "-m", "tests.checks.inert_process", str(job)]
        try:
            ended = subprocess.run(
                command, cwd=scratch, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"not done after {TIMEOUT_S} s", time.monotonic() - started
        took = time.monotonic() - started
        if not result.exists():
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
            return f"status {ended.returncode}: {last[0]}", took
        return json.loads(result.read_text(encoding="utf-8")), took


def line(finding: Finding) -> str:
    """Return a finding as a row of the report's table."""
    kinds = Counter(outcome.partition(":")[0] for outcome in finding.outcomes.values())
    ended = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1]))
    differences = finding.trouble or len(finding.differences)
    seconds = [f"{seconds:.1f}" for seconds in finding.seconds] + [""] * (3 - len(finding.seconds))
    cells = [finding.subject.name, len(finding.outcomes), ended, differences, f"{finding.steps:,}", *seconds]
    return f"| {' | '.join(map(str, cells))} |"


def report(findings: Sequence[Finding], took_s: float) -> str:
    """Return the report in Markdown."""
    differences = [d for finding in findings for d in finding.differences]
    tests = sum(len(finding.outcomes) for finding in findings)
    head = [
        "# CPython's tests and those of four packages, with probes and without",
        "",
        f"Python {platform.python_version()} on {platform.system()}: {tests:,} tests of {len(findings)} subjects;"
        f" {len(differences)} ended otherwise with probes. Made by `make inert` in {took_s / 60:.0f} minutes.",
        "",
        "| instrumented | tests | plainly | differences | steps begun | plain (s) | with probes (s) | metered (s) |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
        *(line(finding) for finding in findings),
        "",
    ]
    if not differences:
        return "\n".join(head)
    head += ["## What differs, and why", "", "| why | tests |", "|---|---|"]
    return "\n".join([*head, *(f"| {why} | {named} |" for why, named in by_reason(differences)), ""])


def by_reason(differences: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    """Yield each reason with the tests it is given for, those of a class together."""
    classes: dict[str, Counter[str]] = {}
    for difference in differences:
        name = difference.test.removeprefix("test.").partition(" ")[0]
        name += " (metered)" if difference.how == "metered" else ""
        place, _, test = name.rpartition(".")
        counted = classes.setdefault(difference.reason or "not known", Counter())
        counted[place if re.search(r"_\d+( \(metered\))?$", test) else name] += 1
    for why, counted in classes.items():
        yield why, ", ".join(f"`{name}`" + (f" × {n}" if n > 1 else "") for name, n in counted.items())


def main(names: Sequence[str], jobs: int = 2) -> int:
    """Run the subjects named, or all; return 1 when anything differs without a reason."""
    if not exists("test.support"):
        print("this Python comes without its own tests (the package `test`)")
        return 2
    started = time.monotonic()
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="inert-") as scratch, ThreadPoolExecutor(jobs) as pool:
        folder = Path(scratch)
        subjects = [s for s in [*LIBRARY, *LANGUAGE] if all(map(exists, s.tests))]
        for name in [name for name in PACKAGES if not names or name in names]:
            subjects.extend(package(name, folder))
        chosen = [s for s in subjects if not names or s.name in names]
        for finding in pool.map(lambda subject: examine(subject, folder), chosen):
            print(line(finding), flush=True)
            findings.append(finding)
    unexplained = [d for finding in findings for d in finding.differences if d.reason is None]
    for difference in unexplained:
        print(f"\n{difference.test}\n  plainly: {difference.plain}\n  {difference.how}:  {difference.probed}")
    if not names:
        REPORT.write_text(report(findings, time.monotonic() - started), encoding="utf-8")
    return 1 if unexplained or any(finding.trouble for finding in findings) else 0


def exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    words = sys.argv[1:]
    alone = "--alone" in words  # one process at a time, on a machine that has other things to do
    sys.exit(main([word for word in words if word != "--alone"], 1 if alone else 2))
