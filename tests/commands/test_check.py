from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from trace_tools.cli import main


def test_each_mistake_is_one_line_with_its_position(tmp_path: Path) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.py", "bad.py", "broken.py"))
    good.write_text("def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n")
    bad.write_text("def main():\n    part()\n\n\ndef part():\n    x = 1  # @insepct x\n    y = 2  # @inspect\n")
    broken.write_text("def main(:\n")
    result = CliRunner().invoke(main, ["check", *map(str, (good, bad, broken))])
    lines = result.stdout.splitlines()
    assert result.exit_code == 1 and len(lines) == 3
    assert lines[0].startswith(f"{bad}:6: ") and lines[1].startswith(f"{bad}:7: ")
    assert lines[2].startswith(f"{broken}:1: ")
    assert CliRunner().invoke(main, ["check", str(good)]).exit_code == 0


def test_other_files_are_skipped_and_correct_lectures_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "helper.py": "# @author somebody\ndef f():\n    return 1\n",
        "words.py": "from trace_tools import text\ntext()\n",
        "deep/talk.py": "def main():\n    part()\n\n\ndef part():\n    x = 1  # @inspect x\n",
        "deep/part.py": "x = 1  # @insepct x\n",
        "helper/script.py": "x = 1  #@param {type:'integer'}\n",
        "venv/pyvenv.cfg": "",
        "venv/bad.py": "def main(:\n",
        ".hidden/bad.py": "def main(:\n",
    }.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)

    def run_check(*paths: str) -> tuple[int, list[str]]:
        result = CliRunner().invoke(main, ["check", *paths])
        return result.exit_code, result.stdout.splitlines()

    assert run_check("deep/talk.py", "helper.py") == (0, ["No mistakes in 2 lectures."])
    code, [line] = run_check("helper")
    assert code == 0 and line.startswith("No lecture found; ")
    assert run_check("helper/script.py")[0] == 0  # a form of Colab, in a script
    code, lines = run_check(".")
    assert code == 1 and {line.partition(":")[0] for line in lines} == {"words.py", "deep/part.py"}
    assert next(line for line in lines if line.startswith("deep/part.py")).startswith("deep/part.py:1: ")
