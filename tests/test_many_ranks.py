"""Lectures with torch.distributed, run by torchrun and traced: tests/lectures/many_ranks.py, and failing ranks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.analysis.outcome import problems
from trace_tools.trace.model import Step, Trace
from trace_tools.trace.ranks import by_rank, disagreeing
from trace_tools.trace.trace_file import load

LECTURE = Path(__file__).parent / "lectures" / "many_ranks.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]

SUMS = """
import os, signal, time
import torch
import torch.distributed as dist

RANKS = (1, 2)

def main():
    dist.init_process_group("gloo")
    sums()
    failing()
    if dist.get_rank() == 0:
        first()
    dist.destroy_process_group()

def sums():
    rank = dist.get_rank()  # @inspect rank
    x = torch.full((4,), rank + 1.0)  # @inspect x
    dist.all_reduce(x)  # @inspect x
    assert x[0] == 3

def failing():
    if dist.get_rank() == 1:
        HOW
    dist.barrier()

def first():
    y = 1  # @inspect y
"""


# A step is written about 20 ms after its end. The delay before a failure gives the other ranks time to write theirs.
TIME_TO_WRITE = "time.sleep(0.5); "


def lecture(folder: Path, failure: str = "pass") -> Path:
    path = folder / "lecture.py"
    path.write_text(SUMS.replace("HOW", failure), encoding="utf-8")
    return path


def traced(environment: dict[str, str], path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    out = ["-o", str(path.parent / "out"), "--device", "cpu"]
    command = [sys.executable, "-m", "trace_tools", "trace", str(path), *out, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def trace_in(folder: Path, name: str = "cpu") -> Trace:
    return load(folder / "out" / name / "trace.yaml").trace


def step_at(trace: Trace, text: str) -> Step:
    lines = trace.sources[0].text.splitlines()
    return next(step for step in trace.steps if isinstance(step, Step) and text in lines[step.line - 1])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_claims_of_many_ranks_lecture_hold_with_torchrun(environment: dict[str, str], ranks: int) -> None:
    command = [*TORCHRUN, "--nproc-per-node", str(ranks), str(LECTURE)]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["8", "64"])
def test_claims_of_many_ranks_lecture_hold_with_simulated_ranks(environment: dict[str, str], ranks: str) -> None:
    alone = {name: value for name, value in environment.items() if name not in {"RANK", "WORLD_SIZE"}}
    command = [sys.executable, str(LECTURE)]
    variables = {**alone, "RANKS_PRETENDED": ranks}
    completed = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr[-3000:]


@pytest.mark.slow
def test_a_trace_of_two_ranks(environment: dict[str, str], tmp_path: Path) -> None:
    """Each rank has a cold, a warm and a metered run, and two runs with wrong clocks; its values are exact."""
    completed = traced(environment, lecture(tmp_path), "--ranks", "2", "--passes", "1")
    assert completed.returncode == 0, completed.stderr
    trace = trace_in(tmp_path)
    assert trace.run.ranks == 2 and trace.run.complete
    assert [(process.name, process.rank, process.ended) for process in trace.run.processes] == [
        (name, rank, "complete") for name in ("pass 1", "metering", "shaken") for rank in (0, 1)
    ]
    assert not any(process.why_no_warm for process in trace.run.processes)
    assert trace.run.story == "pass 1, warm"
    ((source, values),) = disagreeing(step_at(trace, "rank = dist"), 2)
    assert source == "rank" and {rank: value.value for rank, value in values.items()} == {0: 0, 1: 1}
    ((_, before),) = disagreeing(step_at(trace, "torch.full"), 2)
    assert {rank: value.tensor.elements for rank, value in before.items() if value.tensor} == {
        0: [1.0] * 4,
        1: [2.0] * 4,
    }
    summed = step_at(trace, "all_reduce(x)")
    assert not disagreeing(summed, 2)
    for step in by_rank(summed, 2).values():
        assert step.host_ns and step.meters and step.meters.collectives
        (operation,) = step.meters.collectives
        assert (operation.operation, operation.ranks, operation.calls, operation.bytes, operation.factor) == (
            "all_reduce",
            2,
            1,
            16,
            1.0,
        )
        assert operation.waited_ns and operation.moved_ns
    assert step_at(trace, "y = 1").on == [0]
    assert all(process.peak_ram_bytes for process in trace.run.processes)
    page = (tmp_path / "out" / "cpu" / "00-sums.html").read_text(encoding="utf-8")
    assert all(f"[{rank + 1}., {rank + 1}., {rank + 1}., {rank + 1}.]" in page for rank in (0, 1))
    plain = yaml.safe_load((tmp_path / "out" / "cpu" / "trace.yaml").read_text(encoding="utf-8"))
    assert plain["run"]["ranks"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "ended"),
    [
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "killed by SIGKILL at line 24 on rank 1, then OTHER",
        ),
        ("raise ValueError('rank one is unwell')", "ValueError at line 24 on rank 1, then OTHER"),
        (
            "time.sleep(600)",
            "made no progress for 15 s and was stopped at line 24 on rank 1, then waited for the others in barrier",
        ),
    ],
    ids=["killed", "raises", "hangs"],
)
def test_failing_rank(environment: dict[str, str], tmp_path: Path, failure: str, ended: str) -> None:
    """The trace has the steps of all ranks until the failure, and names the rank that failed first and its line.

    The other ranks notice the failure by their connection to the rank or by torchrun, whichever is quicker.
    """
    completed = traced(
        environment, lecture(tmp_path, TIME_TO_WRITE + failure), "--ranks", "2", "--passes", "1", "--timeout", "15"
    )
    assert completed.returncode == 1
    trace = trace_in(tmp_path, "cpu/partial")
    other = r"(RuntimeError at line 25|stopped because other ranks had failed( at line 25)?)"
    assert re.match(ended.replace("OTHER", other), trace.run.ended), trace.run.ended
    assert problems(trace)[0] == f"incomplete: {trace.run.ended}"
    assert len(by_rank(step_at(trace, "all_reduce(x)"), 2)) == 2


def tracer_of_two(environment: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    """Start a trace of two ranks and wait until one of them sleeps."""
    path, out = lecture(folder, "open('here', 'w').close(); time.sleep(600)"), folder / "out"
    command = ["trace", str(path), "-o", str(out), "--device", "cpu", "--ranks", "2"]
    command = [sys.executable, "-m", "trace_tools", *command]
    tracer = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 60
    while not list(out.glob(".run-*/view-*/**/here")) and time.monotonic() < deadline:
        time.sleep(0.1)
    return tracer


@pytest.mark.slow
def test_ranks_end_when_the_tracer_is_killed(environment: dict[str, str], tmp_path: Path) -> None:
    """A tracer that is killed by SIGKILL sends no message; torchrun and the ranks notice by themselves."""
    tracer = tracer_of_two(environment, tmp_path)
    tracer.kill()
    tracer.wait()
    deadline = time.monotonic() + 60
    while (running := processes_of(tmp_path / "out")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running


def processes_of(out: Path) -> list[str]:
    """Return the commands of all processes whose command names this folder."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(out) in words and int(folder.name) != os.getpid():
            commands.append(words)
    return commands


@pytest.mark.slow
@each(
    ("options", "facts"),
    [
        (["--ranks", "3"], ("--ranks 3", "RANKS", "lecture.py", "1 or 2")),
        (["--ranks", "0"], ("--ranks 0", "1 to 1,024")),
        (["--ranks", "2", "--timeout", "0"], ("--timeout 0", "above 0")),
        (["--ranks", "2", "--device", "cuda:1"], ("--ranks 2", "--device cuda:1", "--device cuda")),
    ],
)
def test_invalid_rank_options_are_refused(
    environment: dict[str, str], tmp_path: Path, options: list[str], facts: tuple[str, ...]
) -> None:
    completed = traced(environment, lecture(tmp_path), *options)
    assert completed.returncode == 2 and says(completed.stderr, "error: ", *facts)


@pytest.mark.slow
def test_ranks_need_a_lecture_that_uses_torch(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("def main():\n    pass\n", encoding="utf-8")
    completed = traced(environment, path, "--ranks", "2")
    assert completed.returncode == 2
    assert completed.stderr.startswith("error: --ranks 2: plain.py ") and completed.stderr.count("\n") == 1


@pytest.mark.slow
def test_torch_without_distributed(environment: dict[str, str], tmp_path: Path) -> None:
    """If torch is built without torch.distributed, the error is one line and the run's folder is removed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'trace_tools.tracing.torchrun' in sys.orig_argv:\n"
        "    import torch.distributed\n    torch.distributed.is_available = lambda: False\n",
        encoding="utf-8",
    )
    variables = {**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"}
    completed = traced(variables, lecture(tmp_path), "--ranks", "2")
    assert completed.returncode == 2
    assert completed.stderr.splitlines()[-1].startswith("error: lecture.py: nothing was recorded; --ranks 2: torch ")
    assert completed.stderr.endswith("is built without torch.distributed\n")
    assert not list((tmp_path / "out").glob(".run-*"))


@pytest.mark.slow
def test_ctrl_c_stops_ranks_and_leaves_a_partial_trace(environment: dict[str, str], tmp_path: Path) -> None:
    tracer = tracer_of_two(environment, tmp_path)
    tracer.send_signal(signal.SIGINT)
    _, output = tracer.communicate(timeout=60)
    assert "KeyboardInterrupt at line 24" in trace_in(tmp_path, "cpu/partial").run.ended, output
    assert not processes_of(tmp_path / "out")


@pytest.mark.slow
def test_all_ranks_measure_the_same_number_of_calls(environment: dict[str, str], tmp_path: Path) -> None:
    """One rank is far slower than the other; with different numbers of calls, they would wait forever."""
    path = tmp_path / "measured.py"
    path.write_text(
        "import time, torch, torch.distributed as dist\n"
        "from trace_tools import measure\n"
        "dist.init_process_group()\n"  # torch chooses the backend
        "calls = 0\n"
        "def f():\n"
        "    global calls\n"
        "    calls += 1\n"
        "    time.sleep(0.002 * dist.get_rank())\n"
        "    dist.all_reduce(torch.ones(2))\n"
        "measure(f, repeats=5, min_seconds=0.05)\n"
        "made = [None, None]\n"
        "dist.all_gather_object(made, calls)\n"
        "assert made[0] == made[1] > 5, made\n"
        "dist.destroy_process_group()\n",  # otherwise the end of one rank may abort the other
        encoding="utf-8",
    )
    command = [*TORCHRUN, "--nproc-per-node", "2", str(path)]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr[-2000:]


# --- several nodes --------------------------------------------------------------------------------------------------


def started_node(environment: dict[str, str], path: Path, node: int, port: int) -> subprocess.Popen[str]:
    """Start one of two nodes on this machine, with one rank."""
    node_options = ["--nodes", "2", "--node-rank", str(node), "--rdzv-endpoint", f"127.0.0.1:{port}"]
    out = ["-o", str(path.parent / ("out" if node == 0 else "other")), "--device", "cpu"]
    command = [
        sys.executable,
        "-m",
        "trace_tools",
        "trace",
        str(path),
        *out,
        "--ranks",
        "2",
        "--passes",
        "1",
        *node_options,
    ]
    variables = {**environment, "TMPDIR": str(path.parent)}  # a killed node leaves its files there
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def on_two_nodes(environment: dict[str, str], path: Path) -> tuple[list[subprocess.Popen[str]], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    return [started_node(environment, path, node, port) for node in (0, 1)], port


@pytest.mark.slow
def test_two_nodes(environment: dict[str, str], tmp_path: Path) -> None:
    """The ranks of both nodes are in one trace on node 0; node 1 leaves no files."""
    (first, second), _ = on_two_nodes(environment, lecture(tmp_path))
    _, output = first.communicate(timeout=120)
    assert first.returncode == 0, output
    second_output = second.communicate(timeout=30)[1]
    assert second.returncode == 0 and says(second_output.splitlines()[-1], "node 1 of 2", "complete", "node 0")
    trace = trace_in(tmp_path)
    assert trace.run.nodes == ["A processor", "A processor"] and trace.run.ranks == 2
    assert [(process.name, process.rank, process.ended) for process in trace.run.processes] == [
        (name, rank, "complete") for name in ("pass 1", "metering", "shaken") for rank in (0, 1)
    ]
    assert not any(process.why_no_warm for process in trace.run.processes)
    ((source, values),) = disagreeing(step_at(trace, "rank = dist"), 2)
    assert source == "rank" and {rank: value.value for rank, value in values.items()} == {0: 0, 1: 1}
    assert not disagreeing(step_at(trace, "all_reduce(x)"), 2)
    assert not (tmp_path / "other").exists() and not processes_of(tmp_path)


@pytest.mark.slow
def test_failing_rank_on_another_node(environment: dict[str, str], tmp_path: Path) -> None:
    path = lecture(tmp_path, TIME_TO_WRITE + "os.kill(os.getpid(), signal.SIGKILL)")
    (first, second), _ = on_two_nodes(environment, path)
    _, output = first.communicate(timeout=120)
    last_line = second.communicate(timeout=60)[1].splitlines()[-1]
    trace = trace_in(tmp_path, "cpu/partial")
    assert trace.run.ended.startswith("killed by SIGKILL at line 24 on rank 1, then "), output
    assert (first.returncode, second.returncode) == (1, 1) and last_line.startswith("node 1 of 2: killed by SIGKILL")
    assert len(by_rank(step_at(trace, "all_reduce(x)"), 2)) == 2  # its steps before the failure have arrived


@pytest.mark.slow
@pytest.mark.parametrize("node", [0, 1])
def test_killed_node_ends_the_other_node(environment: dict[str, str], tmp_path: Path, node: int) -> None:
    """The other node ends soon and reports the cause; no rank survives."""
    path = lecture(tmp_path, f"open({str(tmp_path / 'here')!r}, 'w').close(); time.sleep(600)")
    nodes, _ = on_two_nodes(environment, path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "here").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    nodes[node].kill()
    lines = nodes[1 - node].communicate(timeout=60)[1].splitlines()
    if node == 0:
        assert nodes[1].returncode == 2 and lines[-1].startswith("error: node 0 has ended")
    else:
        assert nodes[0].returncode == 1
        assert any(line.startswith("incomplete: lost with its node on rank 1, then ") for line in lines)
        assert step_at(trace_in(tmp_path, "cpu/partial"), "all_reduce(x)").on == [0]
    deadline = time.monotonic() + 60
    while (running := processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running
