from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trace_tools.cli import main


def test_each_mistake_is_a_line_for_an_editor(tmp_path: Path) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.py", "bad.py", "broken.py"))
    good.write_text("def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n")
    bad.write_text("def main():\n    part()\n\n\ndef part():\n    x = 1  # @insepct x\n    y = 2  # @inspect\n")
    broken.write_text("def main(:\n")
    done = CliRunner().invoke(main, ["check", *map(str, (good, bad, broken))])
    lines = done.stdout.splitlines()
    assert done.exit_code == 1 and len(lines) == 3
    assert lines[0].startswith(f"{bad}:6: ") and lines[1].startswith(f"{bad}:7: ")
    assert lines[2].startswith(f"{broken}:1: ")
    assert CliRunner().invoke(main, ["check", str(good)]).exit_code == 0


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(tmp_path / "none.py")])
    assert done.exit_code in (1, 2) and "none.py" in done.output and "Traceback" not in done.output


def test_what_is_no_lecture_is_passed_over_and_a_good_one_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "helper.py": "# @author somebody\ndef f():\n    return 1\n",
        "words.py": "from trace_tools import txt\n",
        "deep/talk.py": "def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n",
        "deep/part.py": "x = 1  # @insepct x\n",
        "venv/pyvenv.cfg": "",
        "venv/bad.py": "def main(:\n",
        ".hidden/bad.py": "def main(:\n",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)

    def checked(*paths: str) -> tuple[int, list[str]]:
        done = CliRunner().invoke(main, ["check", *paths])
        return done.exit_code, done.stdout.splitlines()

    code, [line] = checked("deep/talk.py", "helper.py")
    assert code == 0 and "deep/talk.py" in line and "helper.py" in line
    code, [line] = checked("helper.py")
    assert code == 0 and "helper.py" in line and "main" in line
    code, lines = checked(".")
    assert code == 1 and {line.partition(":")[0] for line in lines} == {"words.py", "deep/part.py"}
    assert next(line for line in lines if line.startswith("deep/part.py")).startswith("deep/part.py:1: ")
    assert checked("deep/talk")[1][0].endswith("did you mean deep/talk.py?")
