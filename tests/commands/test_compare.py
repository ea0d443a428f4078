"""`compare`: pages and CSV in one folder, or one format on stdout."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from click.testing import CliRunner

from tests.diff.test_compare import machine_trace
from tests.messages import says
from trace_tools.commands.compare import compare as command
from trace_tools.errors import UsageError
from trace_tools.trace.trace_file import write


def test_pages_and_csv_are_written_to_one_folder(tmp_path: Path) -> None:
    paths = []
    for name, ns in (("a", 20_000), ("b", 10_000)):
        paths.append(tmp_path / f"{name}.yaml")
        write(machine_trace(name, [ns]), paths[-1])
    out = tmp_path / "site" / "compare"
    result = CliRunner().invoke(command, [*map(str, paths), "-o", str(out), "--base", "b"])
    assert result.exit_code == 0, result.output
    pair = {"b-to-a.html", "b-to-a.md"}
    assert {path.name for path in out.iterdir()} == {
        "index.html",
        "index.md",
        "compare.csv",
        "figures",
        ".pages",
    } | pair
    assert all(f'href="{name}"' in (out / "index.html").read_text() for name in pair if name.endswith("html"))
    assert 'href="index.html"' in (out / "b-to-a.html").read_text() and "](b-to-a.md)" in (out / "index.md").read_text()
    (out / "own-to-me.md").write_text("not made here")
    assert "b (base)" in (out / "index.html").read_text()
    before = (out / "index.html").read_bytes()
    CliRunner().invoke(command, [*map(str, paths), "-o", str(out), "--base", "b"])
    assert (out / "index.html").read_bytes() == before
    CliRunner().invoke(command, [*map(str, paths), "-o", str(out)])  # now the base is a
    assert {path.name for path in out.glob("*-to-*")} == {"a-to-b.html", "a-to-b.md", "own-to-me.md"}
    shown = CliRunner().invoke(command, [*map(str, paths), "--format", "csv"])
    assert next(csv.reader(io.StringIO(shown.output)))[0] == "quantity"


def test_unwritable_output_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(machine_trace("a", [1_000]), path)
    (tmp_path / "out").write_text("")
    result = CliRunner().invoke(command, [str(path), str(path), "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, UsageError)
    assert "can't be written" in str(result.exception)


def test_floors_of_an_unknown_machine_are_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write(machine_trace("a", [1_000]), path)
    result = CliRunner().invoke(command, [str(path), "--floor", "NVIDIA H100"])
    assert isinstance(result.exception, UsageError)
    nearest = "NVIDIA H100 80GB HBM3, NVIDIA H100 PCIe, NVIDIA H100 NVL"
    assert says(result.exception, "--floor NVIDIA H100: ", "unknown", nearest)
    result = CliRunner().invoke(command, [str(path), "--floor", "Tesla T4"])
    assert result.exit_code == 0 and "Machines that were not traced" in result.output
