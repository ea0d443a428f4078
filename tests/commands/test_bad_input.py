"""Each command refuses input that it cannot read: exit code 2, one line with the name, and no file is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.traces import example_trace
from trace_tools.cli import main
from trace_tools.trace.file import dump, write

CONTENTS = {
    "empty": b"",
    "binary": bytes(range(256)),
    "other": b"- a: [\n",
    "head": dump(example_trace()).encode()[:200],
}
OF_TRACES = ("validate {}", "render {} -o pages", "render {} --one-file", "render {} --check", "diff cpu {}")
OF_LECTURES = ("check {}", "trace {} --draft", "serve {} --no-open --port 0", "render cpu -o pages --lecture {}")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, f"{kind}.yaml") for command in OF_TRACES for kind in ("missing", "folder", *CONTENTS)),
        *((command, f"{kind}.py") for command in OF_LECTURES for kind in ("missing", "binary")),
        *((command, "folder.py") for command in OF_LECTURES[1:]),  # `check` looks for lectures in it
        *(("recover {}", name) for name in ("missing", "empty.py")),
    ],
)
def test_input_that_cannot_be_read(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rendered/cpu").mkdir(parents=True)
    write(example_trace(), Path("rendered/cpu/trace.yaml"))
    for suffix in (".yaml", ".py"):
        Path(f"folder{suffix}").mkdir()
        for kind, content in CONTENTS.items():
            Path(kind + suffix).write_bytes(content)
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(main, command.format(name).split())
    assert result.exit_code == 2 and sorted(tmp_path.rglob("*")) == before
    output = result.stdout if command.startswith("check") else result.stderr.removeprefix("error: ")
    assert output.startswith(f"{name}: ") and result.output.count("\n") == 1
