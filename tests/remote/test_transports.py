"""The commands that reach machines, and what their failures say; test_run has them run."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.programs import require
from trace_tools.remote.bundle import pack
from trace_tools.remote.inventory import Entry
from trace_tools.remote.transports import command_for, environment, in_any_shell, in_words, sky_task

HERE = Path(".")


def test_ssh_asks_for_nothing_and_checks_host_keys() -> None:
    command = command_for(Entry("a", "ssh", host="box", ssh_config="my.config"), 10, {}, Path("/fleet"), "")
    assert command[:3] == ["ssh", "-F", "/fleet/my.config"]
    home = command_for(Entry("a", "ssh", host="box", ssh_config="~/my.config"), 10, {}, Path("/fleet"), "")
    assert home[2] == str(Path.home() / "my.config")
    assert {"-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oForwardAgent=no"} <= {*command}
    assert command[-3:-1] == ["--", "box"]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "ksh", "csh", "tcsh", "fish"])
def test_the_login_shell_may_be_any(shell: str) -> None:
    require(shell)
    said = 'it\'s "one" of \\n \\0101 %s `two` $(three) {four} ! !! é \\\n# ~ * ['
    line = in_any_shell(f'said={shlex.quote(said)}\nfalse || ! : &\nprintf %s "$said$1"; cat\n')
    ran = subprocess.run([shell, "-c", line], input="; the rest", capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == (f"{said}; the rest", "")


def test_a_container_is_a_command() -> None:
    entry = Entry("a", "local", python="apptainer exec --nv 'my torch.sif' ~/venv/bin/python")
    script = command_for(entry, 10, {"name": "it's"}, HERE, "")[2]
    line = next(line for line in script.splitlines() if "apptainer" in line)
    words = shlex.split(line)
    assert words[:6] == ["$group", "apptainer", "exec", "--nv", "my torch.sif", "$HOME/venv/bin/python"]
    assert words[7] == '{"name": "it\'s"}'


def test_srun_exports_only_what_is_named() -> None:
    entry = Entry("a", "slurm", partition="gpu", constraint="h100|h200", account="me", gres="gpu:1", cpus=4)
    line = next(line for line in command_for(entry, 10, {}, HERE, "")[2].splitlines() if line.startswith("srun"))
    words = shlex.split(line)
    assert {"--partition=gpu", "--constraint=h100|h200", "--account=me", "--gres=gpu:1"} <= {*words}
    assert "--export=HOME,PATH,USER,LOGNAME,TMPDIR,LANG" in words and "--time=240" in words


def test_a_batch_job_is_asked_for_as_srun_is_and_is_named_by_what_is_asked() -> None:
    entry = Entry(
        "a", "slurm", partition="gpu", gres="gpu:1", python="~/my venv/bin/python".replace(" ", "-"), batch=True
    )
    one, other = (command_for(entry, 10, {"name": "it's"}, HERE, key * 64)[2] for key in "ab")
    line = next(line for line in one.splitlines() if line.strip().startswith("sbatch"))
    assert {"--parsable", "--partition=gpu", "--gres=gpu:1", "--time=240"} <= {*shlex.split(line)}
    assert f"job-{'a' * 16}\n" in one and f"job-{'b' * 16}\n" in other and "srun" not in one
    job = next(line for line in one.splitlines() if line.startswith("  printf %s"))
    text = shlex.split(one[one.index(job) :].partition(" >job.sh")[0])[2]
    asked = next(line for line in text.splitlines() if "tools" in line)
    assert shlex.split(asked)[:3] == ["$HOME/my-venv/bin/python", "$d/tools", '{"name": "it\'s"}']


def test_no_environment_goes_to_ssh() -> None:
    ours = {"HOME": "/home/ann", "HF_TOKEN": "secret", "LC_ALL": "C"}
    assert environment(Entry("a", "ssh", host="b"), ours) == {"HOME": "/home/ann"}
    assert environment(Entry("a", "local"), ours) == ours


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (255, "ssh: connect to host 10.0.0.1 port 22: Connection refused", "can't be reached: ssh: connect"),
        (73, "mkdir: cannot create directory 'x': No space left on device", "its disk is full"),
        (127, "sh: 1: /no/python: not found", "can't run `python3` there"),
        (1, "srun: error: Unable to allocate resources: Invalid account", "Slurm refuses: Unable to allocate"),
        (1, "trace-tools: found Python 3.8; 3.11 or newer is needed", "found Python 3.8"),
        (9, "", "ended with status 9"),
    ],
)
def test_failures_in_words(status: int, said: str, message: str) -> None:
    assert message in in_words(Entry("a", "ssh", host="box"), status, said.splitlines())


def test_a_task_for_sky(lecture: Path) -> None:
    entry = Entry("cloud", "sky", accelerators="H100:1", torch="2.13.0")
    task = yaml.safe_load(sky_task(entry, pack(lecture), ["torch", "yaml", "no_such_package"]))
    assert task["name"] == "cloud" and task["resources"] == {"accelerators": "H100:1"}
    assert task["setup"] == "python3 -m pip install PyYAML no_such_package torch==2.13.0\n"
