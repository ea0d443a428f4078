"""The commands that reach machines, and their error messages; test_run runs the commands."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

import trace_tools
from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.remote import transports
from trace_tools.remote.inventory import Entry
from trace_tools.remote.transports import STAYS, command_for, environment, in_any_shell, in_words, pack, sky_task

CURRENT_FOLDER = Path(".")


def test_ssh_asks_no_questions_and_checks_host_keys() -> None:
    command = command_for(Entry("a", "ssh", host="box", ssh_config="my.config"), 10, {}, Path("/fleet"), "")
    assert command[:3] == ["ssh", "-F", "/fleet/my.config"]
    home = command_for(Entry("a", "ssh", host="box", ssh_config="~/my.config"), 10, {}, Path("/fleet"), "")
    assert home[2] == str(Path.home() / "my.config")
    assert {"-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oForwardAgent=no"} <= {*command}
    assert command[-3:-1] == ["--", "box"]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "ksh", "csh", "tcsh", "fish"])
def test_commands_work_in_any_login_shell(shell: str) -> None:
    require(shell)
    text = 'it\'s "one" of \\n \\0101 %s `two` $(three) {four} ! !! é \\\n# ~ * ['
    line = in_any_shell(f'said={shlex.quote(text)}\nfalse || ! : &\nprintf %s "$said$1"; cat\n')
    completed = subprocess.run([shell, "-c", line], input="; the rest", capture_output=True, text=True, check=True)
    assert (completed.stdout, completed.stderr) == (f"{text}; the rest", "")


def test_python_may_be_a_container_command() -> None:
    entry = Entry("a", "local", python="apptainer exec --nv 'my torch.sif' ~/venv/bin/python")
    script = command_for(entry, 10, {"name": "it's"}, CURRENT_FOLDER, "")[2]
    line = next(line for line in script.splitlines() if "apptainer" in line)
    words = shlex.split(line)
    assert words[:6] == ["$group", "apptainer", "exec", "--nv", "my torch.sif", "$HOME/venv/bin/python"]
    assert words[7] == '{"name": "it\'s"}'


def test_srun_exports_only_named_variables() -> None:
    entry = Entry("a", "slurm", partition="gpu", constraint="h100|h200", account="me", gres="gpu:1", cpus=4)
    line = next(
        line for line in command_for(entry, 10, {}, CURRENT_FOLDER, "")[2].splitlines() if line.startswith("srun")
    )
    words = shlex.split(line)
    assert {"--partition=gpu", "--constraint=h100|h200", "--account=me", "--gres=gpu:1"} <= {*words}
    assert "--export=HOME,PATH,USER,LOGNAME,TMPDIR,LANG" in words and "--time=240" in words


def test_batch_jobs_have_sruns_options_and_the_requests_key() -> None:
    entry = Entry(
        "a", "slurm", partition="gpu", gres="gpu:1", python="~/my venv/bin/python".replace(" ", "-"), batch=True
    )
    script, other_script = (command_for(entry, 10, {"name": "it's"}, CURRENT_FOLDER, key * 64)[2] for key in "ab")
    line = next(line for line in script.splitlines() if line.strip().startswith("sbatch"))
    assert {"--parsable", "--partition=gpu", "--gres=gpu:1", "--time=240"} <= {*shlex.split(line)}
    assert f"job-{'a' * 16}\n" in script and f"job-{'b' * 16}\n" in other_script and "srun" not in script
    job = next(line for line in script.splitlines() if line.startswith("  printf %s"))
    text = shlex.split(script[script.index(job) :].partition(" >job.sh")[0])[2]
    job_line = next(line for line in text.splitlines() if "tools" in line)
    assert shlex.split(job_line)[:3] == ["$HOME/my-venv/bin/python", "$d/tools", '{"name": "it\'s"}']


def test_no_environment_goes_to_ssh() -> None:
    variables = {"HOME": "/home/ann", "HF_TOKEN": "secret", "LC_ALL": "C"}
    assert environment(Entry("a", "ssh", host="b"), variables) == {"HOME": "/home/ann"}
    assert environment(Entry("a", "local"), variables) == variables


@pytest.mark.parametrize(
    ("status", "output", "message"),
    [
        (255, "ssh: connect to host 10.0.0.1 port 22: Connection refused", "can't be reached: ssh: connect"),
        (73, "mkdir: cannot create directory 'x': No space left on device", "its disk is full"),
        (127, "sh: 1: /no/python: not found", "can't run `python3` there"),
        (1, "srun: error: Unable to allocate resources: Invalid account", "Slurm refuses: Unable to allocate"),
        (1, "trace-tools: found Python 3.8; 3.11 or newer is needed", "found Python 3.8"),
        (9, "", "ended with status 9"),
    ],
)
def test_failures_are_explained(status: int, output: str, message: str) -> None:
    assert message in in_words(Entry("a", "ssh", host="box"), status, output.splitlines())


def test_sky_task(lecture: Path) -> None:
    entry = Entry("cloud", "sky", accelerators="H100:1", torch="2.13.0")
    task = yaml.safe_load(sky_task(entry, pack(lecture), ["torch", "yaml", "no_such_package"]))
    assert task["name"] == "cloud" and task["resources"] == {"accelerators": "H100:1"}
    assert task["setup"] == "python3 -m pip install PyYAML no_such_package torch==2.13.0\n"


# The archive that is sent, read with tarfile


def names(archive: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name for member in opened if member.isfile()}


def test_files_that_are_sent(lecture: Path) -> None:
    folder = lecture.parent
    lecture.write_text("import shapes, layers.one\n" + lecture.read_text())
    for name in ("shapes.py", "secret.py", "layers/__init__.py", "layers/one.py", "data/a.csv", "data/b.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "data/link.csv").symlink_to("/etc/passwd")
    (folder / "data/.env").write_text("TOKEN=1")
    sent = names(pack(lecture, ["data/*.csv", "data/*"]).archive)
    lecture_files = {name for name in sent if name.startswith("lecture/")}
    expected = ("talk.py", "shapes.py", "layers/__init__.py", "layers/one.py", "data/a.csv", "data/b.bin")
    assert lecture_files == {f"lecture/{name}" for name in expected}
    assert {"tools/__main__.py", "tools/trace_tools/remote/worker.py", "tools/yaml/__init__.py"} <= sent
    assert not [name for name in sent if "__pycache__" in name]
    tools = Path(trace_tools.__file__).parent
    assert {folder.name for folder in tools.iterdir()} >= STAYS  # each of them exists, and none is sent
    assert not [name for name in sent if name.removeprefix("tools/trace_tools/").partition("/")[0] in STAYS]


def test_links_out_of_the_folder_are_not_followed(lecture: Path, tmp_path: Path) -> None:
    outside = tmp_path / "apart"
    folder = lecture.parent / "in"
    for directory in (outside, folder / "data"):
        directory.mkdir(parents=True)
    (outside / "secret.csv").write_text("1")
    (folder / "data/out").symlink_to(outside)
    (folder / "data/one.csv").symlink_to(outside / "secret.csv")
    (folder / "data/two.csv").write_text("2")
    (folder / "data/three.csv").symlink_to("two.csv")
    moved = lecture.rename(folder / "talk.py")
    for pattern in ("data/out/*", "data/*/secret.csv", "data/one.csv"):
        with pytest.raises(UsageError, match=rf"files: {re.escape(pattern)}: .*link.* in/"):
            pack(moved, [pattern])
    sent = {name for name in names(pack(moved, ["data/*"]).archive) if name.startswith("lecture/data")}
    assert sent == {"lecture/data/two.csv", "lecture/data/three.csv"}


def test_unusual_file_names_and_packages_are_sent(lecture: Path) -> None:
    folder = lecture.parent
    (folder / "parts/deep").mkdir(parents=True)
    (folder / "parts/deep/one.py").touch()
    (folder / "parts/large.bin").touch()
    (folder / ".hidden").touch()
    lecture.write_text("import parts.deep.one\n" + lecture.read_text())
    unusual = [os.fsdecode(b"data/\xff.csv"), "data/two\nlines.csv", "data/-a b.csv"]
    (folder / "data").mkdir()
    for name in unusual:
        (folder / name).touch()
    archive = pack(lecture, ["data/*", ".hid*"]).archive
    (folder / "unpacked").mkdir()
    require("tar", "gzip")
    subprocess.run(["tar", "-xzf", "-", "-C", str(folder / "unpacked")], input=archive, check=True)
    sent = {str(path.relative_to(folder / "unpacked/lecture")) for path in (folder / "unpacked/lecture").rglob("*.*")}
    assert sent == {"talk.py", "parts/deep/one.py", ".hidden", *unusual}


def test_same_files_give_the_same_archive(lecture: Path) -> None:
    first, second = pack(lecture), pack(lecture)
    assert (first.archive, first.digest) == (second.archive, second.digest)
    lecture.write_text(lecture.read_text() + "\n")
    assert pack(lecture).digest != first.digest


def test_files_that_cannot_be_sent_are_errors(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"files: no/\*: no such file"):
        pack(lecture, ["no/*"])
    for pattern in (".", "a**b"):
        with pytest.raises(UsageError, match=r"expected a file pattern"):
            pack(lecture, [pattern])
    (lecture.parent / "large.bin").write_bytes(b"0" * 1000)
    monkeypatch.setattr(transports, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match=r"large\.bin: .*more than .* would be sent"):
        pack(lecture, ["large.bin"])
