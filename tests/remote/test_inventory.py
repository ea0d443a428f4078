"""Inventories: their meaning, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.errors import UsageError
from trace_tools.remote.inventory import Entry, folder_of, read

ONE = "machines:\n- {name: a, engine: local"
MISTAKES = {
    "no file": (None, "can't be read: No such file or directory; expected an inventory"),
    "no YAML": ("machines: [", "line 2: not YAML"),
    "no mapping": ("- a", "expected a mapping, found a list of 1"),
    "none": ("machines: []", "machines: expected 1 to 1000, found 0"),
    "unknown field": (f"{ONE}, hots: b}}", "machines[0]: unknown key 'hots'; expected 'name', 'engine', "),
    "no name": ("machines: [{engine: local}]", "machines[0]: the key 'name' is missing"),
    "type": (f"{ONE}, minutes: soon}}", "machines[0].minutes: expected int, found str 'soon'"),
    "two of a name": (f"{ONE}}}\n- {{name: a, engine: local}}", "'a' and machine 'a' would both write rendered/a"),
    "one folder": (
        "machines: [{name: a-cpu, engine: local}, {name: a, engine: local, devices: [cpu, cuda]}]",
        "machines[1].name: 'a' and machine 'a-cpu' would both write rendered/a-cpu",
    ),
    "path": ("machines: [{name: ../a, engine: local}]", "machines[0].name: found '../a'; expected a-z"),
    "reports": ("machines: [{name: diff, engine: local}]", "is the folder of the comparison"),
    "engine": ("machines: [{name: a, engine: ray}]", "found 'ray'; expected one of local, ssh, slurm, sky"),
    "no host": ("machines: [{name: a, engine: ssh}]", "machines[0].host: is missing; the engine ssh needs it"),
    "option": ("machines: [{name: a, engine: ssh, host: -oProxyCommand=x}]", "expected a host as in `ssh HOST`"),
    "not its field": (f"{ONE}, partition: x}}", "machines[0].partition: does not apply to the engine local"),
    "words": ("machines: [{name: a, engine: slurm, partition: a b}]", "found 'a b'; expected one word"),
    "quote": (f'{ONE}, python: "a \'b"}}', "No closing quotation"),
    "device": (f"{ONE}, devices: [tpu]}}", "machines[0].devices[0]: device 'tpu'; expected"),
    "twice": (f"{ONE}, devices: [cpu, cpu]}}", "cpu is listed twice"),
    "minutes": (f"{ONE}, minutes: 0}}", "found 0; expected 1 to"),
    "folder": (f"{ONE}, folder: here}}", "expected a path on that machine, beginning with / or ~/"),
    "files": ("files: [../x]\nmachines: [{name: a, engine: local}]", "files[0]: found '../x'"),
    "aliases": ("machines: [&a {name: a, engine: local}, *a]", "line 1: found an anchor"),
}


@each("case", MISTAKES)
def test_each_mistake_is_a_one_line_error(case: str, tmp_path: Path) -> None:
    text, message = MISTAKES[case]
    path = tmp_path / "machines.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        read(path)
    error = str(raised.value)
    assert error.startswith(f"{path}: ") and message in error and "\n" not in error


def test_machines_and_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(
        'files: ["data/*.csv"]\nmachines:\n- {name: h100, engine: slurm, host: login, gres: "gpu:h100:1"}\n'
    )
    inventory = read(path)
    assert inventory.machines == [Entry("h100", "slurm", host="login", gres="gpu:h100:1")]
    assert inventory.files == ["data/*.csv"]


def test_several_devices_have_folders_of_their_own() -> None:
    both = Entry("box", "local", devices=["cuda:1", "cpu"])
    assert [folder_of(both, device) for device in both.devices] == ["box-cuda-1", "box-cpu"]
    assert folder_of(Entry("box", "local", devices=["cpu"]), "cpu") == "box"
