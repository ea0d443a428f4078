"""Planting faults in a tiny lecture whose claims are known to be strong, weak or idle."""

from __future__ import annotations

import ast
import os
import re
import tempfile
from pathlib import Path

import pytest

from tests.checks.faults import Section
from tests.checks.mutate import main
from tests.checks.mutate_report import read_reasons
from tests.programs import require

LECTURE = '''"""A tiny lecture"""

import math

from trace_tools import plot, text

MASS = 2.5


def main() -> None:
    strong()
    weak()


def strong() -> None:
    """Strong"""
    area = 3 * 7
    assert area == 21
    shown = 11 * 13
    text(f"{shown}")
    hidden = 17 * 19
    plot({"x": [hidden]}, x=[23 * 29])  # @hide
    if area > 1000:
        area = 31


def weak() -> None:
    """Weak"""
    sides = [2, 3]
    sides.reverse()
    weight = heavy(sides)
    assert weight > 0
    assert math.pi > 3
    for_ever(2)


def heavy(sides: list[int]) -> float:
    """Heavy"""
    return MASS * sides[0] * sides[1]


def for_ever(n: int) -> None:
    """Ends, unless it is changed"""
    while n < 4:
        n += 2
    assert n == 4
'''


@pytest.fixture
def lecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_TOOLS_MACHINE", str(tmp_path / "never read"))
    monkeypatch.setattr("tests.checks.mutate.PATIENCE_S", 1)
    path = tmp_path / "tiny.py"
    path.write_text(LECTURE, encoding="utf-8")
    return path


def judged(lecture: Path, *arguments: str) -> tuple[int, str]:
    """Plant faults in a lecture; return the exit code and the report."""
    path = lecture.with_name("report.md")
    code = main([*arguments, "--lecture", str(lecture), "--report", str(path)])
    return code, path.read_text(encoding="utf-8")


def section(name: str) -> Section:
    return Section(ast.parse(LECTURE), LECTURE, name)


def planted(name: str) -> list[str]:
    return [f"{fault.text}: {fault.before} → {fault.after}" for fault in section(name).faults()]


def test_code_that_only_feeds_prose_gets_no_faults() -> None:
    numbers = {n for fault in section("strong").faults() for n in re.findall(r"\d+", fault.before)}
    assert {"3", "7"} <= numbers
    assert numbers.isdisjoint({"11", "13", "17", "19", "23", "29"})


def test_faults_are_planted_in_code_that_claims_use() -> None:
    assert "MASS = 2.5: 2.5 → 3.75" in planted("weak")
    assert "return MASS * sides[0] * sides[1]: MASS * sides[0] → MASS / sides[0]" in planted("weak")
    assert "sides.reverse(): sides.reverse() → " in planted("weak")
    assert "while n < 4:: n < 4 → n >= 4" in planted("weak")
    assert not any("heavy(sides) → " in fault or "for_ever(2): for_ever(2) → " in fault for fault in planted("weak"))


def test_planted_fault_is_the_only_change() -> None:
    tiny = section("strong")
    for fault in tiny.faults():
        [changed] = tiny.planted(fault).body
        before, after = ast.unparse(tiny.definitions["strong"]), ast.unparse(changed)
        assert before != after
        different = [a for a, b in zip(before.splitlines(), after.splitlines(), strict=False) if a != b]
        assert len(different) == 1 or fault.kind == "line"
    assert ast.unparse(tiny.tree) == ast.unparse(ast.parse(LECTURE))


def test_strong_claims_catch_every_executed_fault(lecture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = judged(lecture, "strong")
    assert "0 of 1 claims never failed" in capsys.readouterr().out
    survivors = [line for line in report.splitlines() if re.match(r"\| \d", line)]
    assert all("area > 1000" in line or "area = 31" in line for line in survivors)  # in a branch that never runs
    assert code == (1 if survivors else 0)


@pytest.mark.slow
def test_weak_claims_are_listed_and_reasons_kept(lecture: Path) -> None:
    code, report = judged(lecture, "weak")
    assert code == 1
    assert "| 32 | `weight > 0` | *a fact" in report
    assert "| 33 | `math.pi > 3` | *a fact" in report
    assert "`n == 4`" not in report  # a fault made it fail
    change = "`MASS * sides[0] * sides[1]` → `MASS * sides[0] / sides[1]`"
    survivor = f"| `return MASS * sides[0] * sides[1]` | {change} |"
    assert f"{survivor}  |" in report
    path = lecture.with_name("report.md")
    path.write_text(report.replace(f"{survivor}  |", f"{survivor} weights are \\| as they are |"), encoding="utf-8")
    lecture.write_text(LECTURE.replace('"""A tiny lecture"""', '"""A tiny lecture"""\n'), encoding="utf-8")
    _, second_report = judged(lecture, "weak")
    assert f"{survivor} weights are \\| as they are |" in second_report
    assert len(read_reasons(path)) >= 3
    _, joint_report = judged(lecture, "strong")
    assert joint_report.index("## strong") and joint_report.index("## weak")
    assert f"{survivor} weights are \\| as they are |" in joint_report


PARTS = """
def main():
    first()
    second()

def first():
    area = side() * 3
    show(area * 7)
    judge(area)

def second():
    assert side() == 2
    near = max(abs(math.dist(p, q)) for p, q in zip([(11.0,)], [(12.0,)]))
    assert near < 2000

def side():
    return 2

def judge(area):
    assert area == 6

def show(area):
    text(f"{area * 5}")
"""


def test_callers_that_reach_a_fault() -> None:
    first = Section(ast.parse(PARTS), PARTS, "first")
    by_definition = {fault.definition: first.callers(fault) for fault in first.faults()}
    assert by_definition == {"first": None, "side": None, "judge": frozenset({"judge"})}


def test_functions_that_only_narrate_get_no_faults() -> None:
    first = Section(ast.parse(PARTS), PARTS, "first")
    assert not any("7" in fault.text or fault.definition == "show" for fault in first.faults())


def test_shared_code_is_changed_in_the_first_section() -> None:
    first, second = (Section(ast.parse(PARTS), PARTS, name) for name in ("first", "second"))
    assert "side" in {fault.definition for fault in second.faults()}
    assert {fault.definition for fault in second.without([first])} == {"second"}


def test_faults_make_a_noticeable_difference() -> None:
    changes = {(f.before, f.after) for f in Section(ast.parse(PARTS), PARTS, "second").faults()}
    assert ("2000", "3000") in changes  # not 2001
    assert not any(
        before.startswith("zip(") and before != after for before, after in changes
    )  # swapping p and q changes no distance


def test_deeper_parts_are_changed_only_on_request() -> None:
    source = PARTS.replace("judge(area)\n\n", "judge(area)  # @deeper\n\n")
    core, deep = (Section(ast.parse(source), source, "first", deeper=deeper) for deeper in (False, True))
    assert {fault.definition for fault in deep.faults()} - {fault.definition for fault in core.faults()} == {"judge"}
    assert len(deep.claims()) == 1 and not core.claims()


@pytest.mark.slow
def test_endless_fault_is_stopped(lecture: Path) -> None:
    _, report = judged(lecture, "weak")
    assert "n += 2` | left out" not in report  # a run that does not end counts as caught


def test_failing_lecture_is_refused(lecture: Path) -> None:
    lecture.write_text(LECTURE.replace("area = 3 * 7", "area = 1 / 0"), encoding="utf-8")
    with pytest.raises(ValueError, match="strong fails without any fault: ZeroDivisionError"):
        judged(lecture, "strong")


def test_faults_leave_no_files_and_processes(lecture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("sleep")
    duration = str(10**6 + os.getpid())  # in seconds; also identifies the process
    weak = f"""def weak():
    '''Weak'''
    folder = tempfile.mkdtemp()
    sleeper = subprocess.Popen(["sleep", "{duration}"], cwd=folder)
    while 1 + 1 == 3:  # for ever, with a fault in it
        pass
"""
    source = LECTURE.replace("import math", "import math, subprocess, tempfile").partition("def weak()")[0] + weak
    lecture.write_text(source, encoding="utf-8")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert "| weak | 0 |" in judged(lecture, "weak")[1]
    assert list(folder.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if duration.encode() in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_unknown_section_is_an_error(lecture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        judged(lecture, "nowhere")
    assert "tiny.py has no section 'nowhere'; it has strong, weak" in capsys.readouterr().err
