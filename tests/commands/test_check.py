from __future__ import annotations

from pathlib import Path

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
