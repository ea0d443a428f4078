"""Fleets on real engines: the traces that are fetched, reasons for missing traces, and files left on the machines."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.messages import says
from tests.programs import PYTHON, require
from tests.remote.conftest import SLURM, SYSTEM_PYTHON, Box
from tests.signals import heard
from trace_tools.errors import TraceToolsError
from trace_tools.remote import run as fleet_run
from trace_tools.remote.inventory import Entry, Inventory
from trace_tools.remote.run import STAMPS, Fleet, Outcome
from trace_tools.trace.trace_file import load, write
from trace_tools.tracing.options import TraceOptions

REQUEST = {"passes": 1, "seed": 3}
ROOT = Path(__file__).resolve().parents[2]


def fleet(lecture: Path, *entries: Entry, out: str = "rendered", **request: object) -> Fleet:
    return Fleet(
        Inventory([*entries]), lecture.parent, lecture, lecture.parent / out, TraceOptions(**{**REQUEST, **request})
    )


def outcomes(lecture: Path, *entries: Entry, **request: object) -> dict[str, Outcome]:
    return {outcome.folder: outcome for outcome in fleet(lecture, *entries, **request).run()}


def by_ssh(box: Box, **fields: object) -> Entry:
    entry = Entry("away", "ssh", host="box", ssh_config=str(box.config), python=SYSTEM_PYTHON)
    return replace(entry, **fields)  # type: ignore[arg-type]


def here(name: str = "here", **fields: object) -> Entry:
    require("sh", "tar", "gzip")
    return replace(Entry(name, "local"), **fields)  # type: ignore[arg-type]


@pytest.fixture
def remote_folder(tmp_path: Path) -> str:
    """The folder of this machine for the files that are sent to it."""
    return str(tmp_path / "there")


def why(outcome: Outcome) -> str:
    assert outcome.path is None and outcome.why is not None and "\n" not in outcome.why
    return outcome.why


# ssh


def test_trace_is_fetched_from_another_users_account(
    lecture: Path, ssh_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    lecture.write_text(lecture.read_text() + "    import os\n    seen = sorted(os.environ)  # @inspect seen\n")
    outcome = outcomes(lecture, by_ssh(ssh_box))["away"]
    assert outcome.why is None and outcome.path == lecture.parent / "rendered/away/trace.yaml"
    text = outcome.path.read_text(encoding="utf-8")
    trace = yaml.safe_load(text)
    assert (trace["machine"]["slug"], trace["run"]["seed"], trace["run"]["complete"]) == ("away", 3, True)
    assert trace["sources"][0]["text"] == lecture.read_text()
    assert {process["ended"] for process in trace["run"]["processes"]} == {"complete"}
    for secret in ("127.0.0.1", "SSH_", "TOKEN", "hunter2", ssh_box.user):
        assert secret not in text
    assert [*(ssh_box.home / ".cache/trace-tools/fleet").iterdir()] == []


def test_failed_machine_does_not_affect_the_others(lecture: Path, ssh_box: Box, remote_folder: str) -> None:
    unreachable = by_ssh(ssh_box, name="gone", host="no-such-host.invalid")
    results = outcomes(lecture, unreachable, here(folder=remote_folder))
    assert results["here"].path is not None
    assert why(results["gone"]).startswith("can't be reached: ssh: Could not resolve hostname")


def test_ssh_refusals_are_explained(lecture: Path, ssh_box: Box, tmp_path: Path) -> None:
    config = ssh_box.config.read_text()
    (tmp_path / "empty").touch()
    known_host = ssh_box.known_hosts.read_text().split()
    other_key = (ssh_box.key.parent / "other.pub").read_text().split()
    (tmp_path / "changed").write_text(f"{known_host[0]} {other_key[0]} {other_key[1]}\n")
    for name in ("empty", "changed"):
        (tmp_path / f"{name}.config").write_text(config.replace(str(ssh_box.known_hosts), str(tmp_path / name)))
    (tmp_path / "key.config").write_text(config.replace(f"{ssh_box.key}\n", f"{ssh_box.key.parent}/other\n"))
    (tmp_path / "asks.config").write_text((tmp_path / "empty.config").read_text() + " StrictHostKeyChecking no\n")
    cases = {
        "empty": "its host key is not known; connect once with `ssh box`",
        "asks": "its host key is not known",
        "changed": "its host key has changed",
        "key": "refuses the key: `ssh box` must log in",
    }
    entries = [by_ssh(ssh_box, name=name, ssh_config=f"{name}.config") for name in cases]
    for name, outcome in outcomes(lecture, *entries).items():
        assert why(outcome).startswith(cases[name])


def test_missing_python_folder_and_torch_are_reported(lecture: Path, ssh_box: Box) -> None:
    cases = {
        "no-python": (by_ssh(ssh_box, python="~/no/python"), "can't run `~/no/python` there"),
        "closed": (by_ssh(ssh_box, folder="/proc/no"), "mkdir: cannot create directory"),
        "torch": (by_ssh(ssh_box, torch="2.13.0"), "torch"),
    }
    for name, (entry, message) in cases.items():
        assert message in why(outcomes(lecture, replace(entry, name=name))[name])


def test_missing_torch_is_reported_if_the_lecture_needs_it(lecture: Path, ssh_box: Box) -> None:
    if subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip(f"{SYSTEM_PYTHON} has torch")
    results = outcomes(lecture, by_ssh(ssh_box, devices=["cuda", "cpu"]))
    assert says(why(results["away-cuda"]), "torch is not installed", "cuda") and results["away-cpu"].path
    lecture.write_text("import torch\n" + lecture.read_text())
    assert says(why(outcomes(lecture, by_ssh(ssh_box))["away"]), "torch is not installed", "talk.py")


def test_remote_processes_end_with_the_connection(lecture: Path, ssh_box: Box) -> None:
    (ssh_box.home / "at-work").unlink(missing_ok=True)
    lecture.write_text(
        f"import os, time\ndef main():\n    wait()\ndef wait():\n"
        f"    open({str(ssh_box.home / 'at-work')!r}, 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    )
    code = textwrap.dedent(f"""
        from pathlib import Path
        from tests.remote.test_run import Box, by_ssh, fleet
        box = Box(*map(Path, {[str(ssh_box.config), str(ssh_box.home), "x", "x", "x"]!r}))
        print(*fleet(Path({str(lecture)!r}), by_ssh(box)).run())
    """)
    for number, limit_s in ((signal.SIGKILL, 25), (signal.SIGINT, 25)):
        started = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=heard
        )
        pid = wait_for(ssh_box.home / "at-work")
        started.send_signal(number)
        started.communicate(timeout=limit_s)
        deadline = time.monotonic() + limit_s
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not Path(f"/proc/{pid}").exists()
        assert not [*lecture.parent.glob("rendered/*/trace.yaml")]
        (ssh_box.home / "at-work").unlink()


@pytest.mark.slow
def test_processes_of_a_wrapper_end_with_the_fleet(lecture: Path, tmp_path: Path, remote_folder: str) -> None:
    sign, wrapper = tmp_path / "at-work", tmp_path / "in a container"
    wrapper.write_text(
        f'#!/bin/sh\nsleep 50 & echo $! >{tmp_path}/beside\n"$@"\n'
    )  # no exec, so the wrapper stays as the parent process
    wrapper.chmod(0o755)
    lecture.write_text(
        f"import os, time\ndef main():\n    wait()\ndef wait():\n"
        f"    open({str(sign)!r}, 'w').write(str(os.getpid()))\n    time.sleep(50)\n"
    )
    entry = here(python=f"'{wrapper}' {PYTHON}", folder=remote_folder)
    code = "from tests.remote.test_run import *\n"
    code += f"print(*fleet(Path({str(lecture)!r}), {entry!r}).run())"
    started = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=heard)
    pids = [wait_for(sign), wait_for(tmp_path / "beside")]
    started.send_signal(signal.SIGINT)
    began = time.monotonic()
    started.communicate(timeout=60)
    assert time.monotonic() - began < 15
    assert [*Path(remote_folder).iterdir()] == [] and not [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_for(path: Path) -> int:
    for _ in range(300):
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.1)
    raise AssertionError(f"{path} was not written")


def test_impossible_requests_are_refused_before_connecting(lecture: Path) -> None:
    requests: dict[str, dict[str, object]] = {
        "--only none: no such section; main calls `sums`": {"only": "none"},
        "passes: 0, limit: 100; expected at least 1 pass and a limit of at least 2": {"passes": 0},
        "--ranks 3: RANKS in talk.py allows 2 or 4": {"ranks": 3},
    }
    lecture.write_text(f"RANKS = (2, 4)\n{lecture.read_text()}")
    for words, request in requests.items():
        with pytest.raises(TraceToolsError) as raised:
            fleet(lecture, here(), **request)
        assert str(raised.value) == words


# Slurm


@pytest.fixture
def cluster(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entry]:
    monkeypatch.setenv("SLURM_CONF", str(slurm))
    yield Entry("node", "slurm", python=SYSTEM_PYTHON, partition="main", cpus=1, time="5")


def test_trace_is_fetched_from_a_slurm_job(
    lecture: Path, cluster: Entry, remote_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    source = "    import os\n    seen = sorted(os.environ)  # @inspect seen\n"
    source += "    job = os.environ['SLURM_JOB_NAME']  # @inspect job\n"
    lecture.write_text(lecture.read_text() + source)
    outcome = outcomes(lecture, replace(cluster, folder=remote_folder))["node"]
    assert outcome.why is None and outcome.path is not None
    text = outcome.path.read_text()
    assert "trace-node" in text and "TOKEN" not in text
    assert [*Path(remote_folder).iterdir()] == []


RANKS = """\
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    sums()
    dist.destroy_process_group()

def sums():
    x = torch.ones(1)
    dist.all_reduce(x)  # @inspect x
    assert x == dist.get_world_size()
"""


@pytest.mark.parametrize("batch", [False, True], ids=["srun", "sbatch"])
def test_ranks_on_two_nodes_of_a_cluster(lecture: Path, cluster: Entry, remote_folder: str, *, batch: bool) -> None:
    """Slurm starts one task per node. The tasks find each other, and one trace is fetched."""
    lecture.write_text(RANKS)
    entry = replace(cluster, folder=remote_folder, nodes=2, python=PYTHON, devices=["cpu"], batch=batch)
    outcome = outcomes(lecture, entry, ranks=2, draft=True)["node"]
    assert outcome.why is None and outcome.trace is not None
    assert outcome.trace.run.ranks == 2 and len(outcome.trace.run.nodes or []) == 2 and outcome.trace.run.complete
    assert [*Path(remote_folder).iterdir()] == []


def test_ranks_must_be_a_multiple_of_the_nodes(lecture: Path, cluster: Entry) -> None:
    for request in ({}, {"ranks": 3}):
        with pytest.raises(TraceToolsError, match="node: expected --ranks, a multiple of its 2 nodes"):
            fleet(lecture, replace(cluster, nodes=2), **request)


def test_cluster_is_reached_through_ssh(lecture: Path, cluster: Entry, ssh_box: Box) -> None:
    outcome = outcomes(lecture, replace(cluster, host="box", ssh_config=str(ssh_box.config)))["node"]
    assert outcome.why is None and outcome.path is not None
    assert [*(ssh_box.home / ".cache/trace-tools/fleet").iterdir()] == []


def test_slurm_refusals_are_explained(lecture: Path, cluster: Entry, remote_folder: str) -> None:
    cases = {
        "no-partition": (replace(cluster, partition="none"), "invalid partition specified: none"),
        "constraint": (replace(cluster, constraint="h100"), "Slurm refuses: Unable to allocate resources"),
        "gres": (replace(cluster, gres="gpu:1"), "Slurm refuses: Invalid generic resource"),
    }
    entries = [replace(entry, name=name, folder=remote_folder) for name, (entry, _) in cases.items()]
    for name, outcome in outcomes(lecture, *entries).items():
        assert cases[name][1] in why(outcome)


def test_slurm_job_ends_with_the_fleet(lecture: Path, cluster: Entry, remote_folder: str, tmp_path: Path) -> None:
    sign = tmp_path / "at-work"
    lecture.write_text(
        f"import os, time\ndef main():\n    wait()\ndef wait():\n"
        f"    open({str(sign)!r}, 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    )
    running = fleet(lecture, replace(cluster, folder=remote_folder)).run()
    code = "from tests.remote.test_run import *\nimport sys\n"
    code += f"print(*fleet(Path({str(lecture)!r}), {replace(cluster, folder=remote_folder)!r}).run())"
    running.close()
    started = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=heard)
    pid = wait_for(sign)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=40)
    for _ in range(100):
        jobs = subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout
        if not jobs and not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.2)
    assert not jobs and not Path(f"/proc/{pid}").exists()


def jobs() -> str:
    return subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout


def test_batch_job_survives_the_fleet_and_is_resumed(
    lecture: Path, cluster: Entry, remote_folder: str, tmp_path: Path
) -> None:
    entry, sign, go = replace(cluster, folder=remote_folder, batch=True), tmp_path / "at-work", tmp_path / "go"
    lecture.write_text(
        "import os, time\nfrom pathlib import Path\ndef main():\n    wait()\ndef wait():\n"
        f"    with open({str(sign)!r}, 'a') as begun:\n        begun.write(os.environ['SLURM_JOB_ID'] + chr(10))\n"
        f"    while not Path({str(go)!r}).exists():\n        time.sleep(0.1)\n    x = 1 + 1  # @inspect x\n"
    )
    code = "from tests.remote.test_run import *\n"
    code += f"print([one.why for one in fleet(Path({str(lecture)!r}), {entry!r}, passes=1).run()])"
    started = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=heard)
    for _ in range(600):
        if sign.exists():
            break
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=40)
    assert jobs() and next(Path(remote_folder).iterdir()).name.startswith("job-")
    go.touch()
    outcome = outcomes(lecture, entry, passes=1)["node"]
    assert outcome.why is None and outcome.path is not None
    assert len({*sign.read_text().split()}) == 1, "the job was started again"
    for _ in range(100):
        if not [*Path(remote_folder).iterdir()]:
            break
        time.sleep(0.1)
    assert [*Path(remote_folder).iterdir()] == []


def test_failed_batch_job_leaves_no_files(lecture: Path, cluster: Entry, remote_folder: str) -> None:
    entry = replace(cluster, folder=remote_folder, batch=True)
    cases = {
        "no-partition": (replace(entry, partition="none"), "Slurm refuses: invalid partition specified"),
        "no-python": (replace(entry, python="/no/python"), "can't run `/no/python` there"),
        "no-torch": (replace(entry, torch="9.9.9"), "torch is not installed"),
    }
    entries = [replace(entry, name=name) for name, (entry, _) in cases.items()]
    for name, outcome in outcomes(lecture, *entries).items():
        assert cases[name][1] in why(outcome)
    for _ in range(100):
        if not [*Path(remote_folder).iterdir()]:
            break
        time.sleep(0.1)
    assert [*Path(remote_folder).iterdir()] == []


def test_a_batch_job_on_a_full_disk(lecture: Path, cluster: Entry, tmp_path: Path) -> None:
    with small_disk(tmp_path, "2900k") as full:  # only the tools fit
        assert why(outcomes(lecture, replace(cluster, folder=str(full), batch=True))["node"]) == "its disk is full"
        assert [*full.iterdir()] == []


@pytest.mark.parametrize("killed", [False, True])
def test_cancelled_batch_job_gives_a_partial_trace_unless_killed(
    lecture: Path, cluster: Entry, remote_folder: str, tmp_path: Path, killed: bool
) -> None:
    sign = tmp_path / "at-work"
    lecture.write_text(
        "import time\ndef main():\n    wait()\ndef wait():\n    x = 1 + 1  # @inspect x\n"
        f"    open({str(sign)!r}, 'w').close()\n    time.sleep(90)\n"
    )

    def cancels() -> None:
        while not sign.exists():
            time.sleep(0.1)
        for pattern in (f"{SLURM}/spool.*/slurm_script", f"{remote_folder}/job-[0-9a-f]*/tools"):
            if killed:  # as if the node were out of memory
                subprocess.run(["pkill", "-KILL", "-f", pattern], check=True)
        subprocess.run(["scancel", "--name=trace-node"], check=True)

    threading.Thread(target=cancels, daemon=True).start()
    outcome = outcomes(lecture, replace(cluster, folder=remote_folder, batch=True))["node"]
    if killed:
        assert "Slurm ended job" in why(outcome)
    else:
        assert outcome.trace is not None and not outcome.trace.run.complete
    for _ in range(100):
        if not [*Path(remote_folder).iterdir()]:
            break
        time.sleep(0.1)
    assert [*Path(remote_folder).iterdir()] == []


# Resuming


@pytest.mark.slow
def test_existing_trace_is_not_traced_again(lecture: Path, remote_folder: str) -> None:
    first = outcomes(lecture, here(folder=remote_folder))["here"]
    assert first.fresh and first.path is not None
    before = first.path.read_bytes()
    second = outcomes(lecture, here(folder=remote_folder, minutes=5), here("more", folder=remote_folder))
    assert not second["here"].fresh and second["more"].fresh
    assert first.path.read_bytes() == before
    assert not outcomes(lecture, here(folder=remote_folder), force=True)["here"].fresh
    assert outcomes(lecture, here(folder=remote_folder), seed=4)["here"].fresh
    assert outcomes(lecture, here(folder=remote_folder))["here"].fresh  # the existing trace is of another request
    lecture.write_text(lecture.read_text() + "\n")
    assert outcomes(lecture, here(folder=remote_folder))["here"].fresh
    write(replace(load(first.path).trace, title="Another"), first.path)
    assert outcomes(lecture, here(folder=remote_folder))["here"].fresh  # the trace was changed
    (lecture.parent / "rendered" / STAMPS).write_text("[rubbish", encoding="utf-8")
    assert outcomes(lecture, here(folder=remote_folder))["here"].fresh


@pytest.mark.slow
def test_partial_trace_is_traced_again(lecture: Path, remote_folder: str) -> None:
    lecture.write_text(lecture.read_text() + "    raise ValueError('no')\n")
    for _ in range(2):
        outcome = outcomes(lecture, here(folder=remote_folder))["here"]
        assert outcome.fresh and outcome.path == lecture.parent / "rendered/here/partial/trace.yaml"
    lecture.write_text(lecture.read_text().replace("raise", "lambda: "))
    outcome = outcomes(lecture, here(folder=remote_folder))["here"]
    assert outcome.path == lecture.parent / "rendered/here/trace.yaml"
    assert not outcome.path.with_name("partial").exists(), "pages would report that a later run did not finish"


@pytest.mark.slow
def test_concurrent_fleets_keep_all_stamps(lecture: Path, tmp_path: Path) -> None:
    require("sh", "tar", "gzip")
    code = f"""if True:
        import sys
        from tests.remote.test_run import *
        running = fleet(Path({str(lecture)!r}), here())
        for number in range(200):
            running._stamp(here(f"{{sys.argv[1]}}{{number}}"), None, Path({str(lecture)!r}))"""
    (lecture.parent / "rendered").mkdir()
    processes = [subprocess.Popen([sys.executable, "-c", code, name], cwd=ROOT) for name in ("a", "b")]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(json.loads((lecture.parent / "rendered" / STAMPS).read_text())) == 400


@pytest.mark.slow
def test_trace_of_another_lecture_is_not_overwritten(lecture: Path, remote_folder: str) -> None:
    outcomes(lecture, here(folder=remote_folder))
    other = lecture.with_name("other.py")
    other.write_text(lecture.read_text())
    with pytest.raises(TraceToolsError, match=r"is a trace of talk\.py, not of other\.py"):
        fleet(other, here(folder=remote_folder))
    assert outcomes(other, here(folder=remote_folder), force=True)["here"].path is not None


# Hostile machines


def fake_python(tmp_path: Path, code: str) -> str:
    """Return a command that runs this code instead of a machine's Python."""
    path = tmp_path / "python"
    prelude = "import json, os, sys, base64, zlib, hashlib\nasked = json.loads(sys.argv[2])\n"
    prelude += "def tell(**what): print('@trace-tools ' + json.dumps(what), flush=True)\n"
    prelude += "def send(content):\n    tell(trace=base64.b64encode(zlib.compress(content)).decode())\n"
    prelude += "    tell(end=hashlib.sha256(content).hexdigest())\n"
    path.write_text(f"{prelude}{textwrap.dedent(code)}")
    return f"{PYTHON} {shlex.quote(str(path))}"


HOSTILE = {
    "silent": ("", "without a message"),
    "words": ("print('Welcome!'); sys.exit('no such module')", "no such module"),
    "no json": ("print('@trace-tools {')", "sent unexpected output: {"),
    "no mapping": ("print('@trace-tools [1]')", "sent unexpected output: [1]"),
    "no progress": ("tell(at='pass 1: matmul')", "sent unexpected output: {"),
    "escapes": ("sys.exit('\\x1b[2Jgone')", r"\u001b[2Jgone"),
    "version": ("tell(version='9.9.9')", "has trace-tools 9.9.9, not 0.1.0"),
    "stops": ("tell(version='0.1.0'); os._exit(3)", "stopped before it finished"),
    "not packed": ("tell(trace='!!!'); tell(end='x')", "that can't be unpacked"),
    "damaged": ("tell(trace=base64.b64encode(zlib.compress(b'a')).decode()); tell(end='x')", "wrong checksum"),
    "no trace": ("send(b'a: 1')", "sent no trace: trace.yaml:"),
    "aliases": ("send(b'a: &x [1]\\nb: *x')", "sent no trace: trace.yaml:"),
    "endless": ("while True: os.write(1, b'x' * 1000000)", "keeps sending unexpected output"),
    "endless errors": ("while True: os.write(2, b'x' * 1000000)", "keeps sending unexpected output"),
    "full disk": ("sys.exit('tar: x: Cannot write: No space left on device')", "its disk is full"),
    "why": ("tell(why='two\\nlines \\x1b[2J')", r"two lines \u001b[2J"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_unexpected_output_is_one_line_and_writes_nothing(
    case: str, lecture: Path, tmp_path: Path, remote_folder: str
) -> None:
    code, message = HOSTILE[case]
    outcome = outcomes(lecture, here(python=fake_python(tmp_path, code), folder=remote_folder))["here"]
    assert message in why(outcome)
    assert [*lecture.parent.glob("rendered/*")] == []


def test_size_of_received_traces_is_limited(
    lecture: Path, tmp_path: Path, remote_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_run, "TRACE_BYTES", 1000)
    bomb = here("bomb", python=fake_python(tmp_path, "send(b'0' * 10_000_000)"), folder=remote_folder)
    assert "no trace is that large" in why(outcomes(lecture, bomb)["bomb"])
    monkeypatch.setattr(fleet_run, "PACKED_BYTES", 1000)
    (tmp_path / "b").mkdir()
    flood = here("flood", python=fake_python(tmp_path / "b", "while True: tell(trace='A' * 100)"), folder=remote_folder)
    assert "no trace is that large" in why(outcomes(lecture, flood)["flood"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [("slug", "its name is"), ("seed", "its seed is 4, not 3"), ("text", "another version of the lecture")],
)
def test_trace_of_another_request_is_refused(
    change: str, message: str, lecture: Path, tmp_path: Path, remote_folder: str
) -> None:
    first = outcomes(lecture, here(folder=remote_folder))["here"]
    assert first.path is not None and first.trace is not None
    trace = first.trace
    changed = {
        "slug": replace(trace, machine=replace(trace.machine, slug="../else")),
        "seed": replace(trace, run=replace(trace.run, seed=4)),
        "text": replace(trace, sources=[replace(trace.sources[0], text=trace.sources[0].text + "\n")]),
    }[change]
    before = first.path.read_bytes()
    write(changed, tmp_path / "other.yaml")
    code = f"send(open({str(tmp_path / 'other.yaml')!r}, 'rb').read())"
    outcome = outcomes(lecture, here(python=fake_python(tmp_path, code), folder=remote_folder))["here"]
    assert message in why(outcome) or (change == "slug" and "sent no trace" in why(outcome))
    assert first.path.read_bytes() == before


def test_slow_machine_is_stopped(
    lecture: Path, tmp_path: Path, remote_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_run, "MINUTE_S", 1)
    slow = here(python=fake_python(tmp_path, "import time; time.sleep(50)"), folder=remote_folder, minutes=1)
    started = time.monotonic()
    assert why(outcomes(lecture, slow)["here"]) == "took longer than 1 minute (`minutes`)"
    assert time.monotonic() - started < 20 and [*Path(remote_folder).iterdir()] == []


@contextmanager
def small_disk(tmp_path: Path, size: str) -> Iterator[Path]:
    full = tmp_path / "full"
    full.mkdir()
    require("mount", "umount")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        yield full
    finally:
        subprocess.run(["umount", "--lazy", str(full)], check=True)


def test_full_disk_is_reported(lecture: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path, "512k") as full:
        assert why(outcomes(lecture, here(folder=str(full)))["here"]) == "its disk is full"
        assert [*full.iterdir()] == []


@pytest.mark.slow
def test_single_device_has_no_folder_of_its_own(lecture: Path, remote_folder: str) -> None:
    results = outcomes(lecture, here(folder=remote_folder, devices=["cpu"]))
    assert [*results] == ["here"]
    assert json.loads((lecture.parent / "rendered" / STAMPS).read_text()).keys() == {"here"}
    assert os.path.exists(lecture.parent / "rendered/here/trace.yaml")
