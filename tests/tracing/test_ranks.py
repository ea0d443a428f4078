"""Under a launcher such as torchrun, each rank traces itself into a folder of its own."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.machines.machine import computer
from trace_tools.trace.file import load
from trace_tools.trace.model import Step
from trace_tools.trace.records import ProcessId
from trace_tools.tracing import ranks
from trace_tools.tracing.tracer import Tracer

ROOT = Path(__file__).parents[2]
LECTURE = """
import torch
import torch.distributed as dist
def main():
    sums()
def sums():
    dist.init_process_group("gloo")
    x = torch.full((4,), dist.get_rank() + 1.0)  # @inspect x
    dist.all_reduce(x)  # @inspect x
    assert x[0] == 3
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("world", [{}, {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}])
def test_each_run_of_a_rank_has_a_port_of_its_own(world: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a launcher nothing changes."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", ranks.AGENTS):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**world, "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert ranks.named("cpu") == ("cpu-rank3" if world else "cpu") and ranks.measures_peaks() is not bool(world)
    met = set()
    for number in range(1, 4):
        for run in range(ranks.RUNS):
            with ranks.meeting(ProcessId("pass", number), run):
                met.add((os.environ["MASTER_PORT"], os.environ.get(ranks.AGENTS)))
    assert met == ({(str(29501 + n), "False") for n in range(9)} if world else {("29500", None)})
    assert os.environ["MASTER_PORT"] == "29500" and ranks.AGENTS not in os.environ


def test_a_gpu_keeps_going_after_an_error_but_not_as_one_rank_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that skips the rest of a section would answer another section's operation of its peers."""
    lecture = tmp_path / "lecture.py"
    lecture.write_text("def main():\n    pass\n", encoding="utf-8")
    gpu = dataclasses.replace(computer(), device="cuda")
    decided = []
    for world in ({}, {"RANK": "1", "WORLD_SIZE": "2"}):
        for name, value in world.items():
            monkeypatch.setenv(name, value)
        tracer = Tracer(lecture, tmp_path / "out")
        tracer.job = dataclasses.replace(tracer.job, torch=True)
        monkeypatch.setattr(tracer, "_survey", lambda folder: gpu)
        tracer.prepare(tmp_path)
        decided.append(tracer.job.options.keep_going)
    assert decided == [True, False]


def test_one_rank_at_a_time_writes_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux's NFS client makes POSIX locks of `flock`; these need a file that is open for writing."""
    monkeypatch.setattr(fcntl, "flock", fcntl.lockf)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    taken = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", taken, str(tmp_path / ".lock")]
    with ranks.one_at_a_time(tmp_path):
        assert subprocess.run(command, capture_output=True).returncode == 1
    assert subprocess.run(command).returncode == 0


@pytest.mark.slow
def test_two_ranks_trace_themselves(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "lecture.py").write_text(LECTURE, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "trace_tools", "trace", "lecture.py", "--passes", "2", "-o", "out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    traces = {path.parent.name: load(path) for path in sorted((tmp_path / "out").glob("*/trace.yaml"))}
    assert [re.sub(r".*-", "", name) for name in traces] == ["rank0", "rank1"]
    for number, (name, trace) in enumerate(traces.items()):
        assert trace.machine.slug == name and trace.run.complete and trace.run.timed_runs == 4
        steps = [step for step in trace.steps if isinstance(step, Step)]
        values = [dict(step.values)["x"].tensor for step in steps if step.values]
        assert [x.elements[0] for x in values if x and x.elements] == [number + 1.0, 3.0]
        counted = [one for step in steps if step.meters for one in step.meters.collectives or ()]
        sent = {(one.operation, one.ranks, one.bytes) for one in counted}
        assert sent == {("all_reduce", 2, 16)}
    assert (tmp_path / "out" / "index.html").exists()
