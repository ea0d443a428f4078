"""Real engines on this machine: an sshd for another user, and a Slurm with two nodes. Tests skip missing ones."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.programs import require

PLAIN = """\
from trace_tools import text

def main():
    sums()

def sums():
    text("A sum.")
    x = 1 + 1  # @inspect x
    assert x == 2
"""
SLURM = Path(f"/tmp/slurm{os.getpid()}")  # a short path; sshd passes it to its sessions
SLURM_NODES = ("n1", "n2")
SYSTEM_PYTHON = "/usr/bin/python3"  # another user can run it


@dataclass(frozen=True)
class Box:
    """The host that ssh reaches as `box`."""

    config: Path
    home: Path
    user: str
    known_hosts: Path
    key: Path


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def require_system_python() -> None:
    code = "import sys; sys.exit(sys.version_info < (3, 11))"
    if not Path(SYSTEM_PYTHON).exists() or subprocess.run([SYSTEM_PYTHON, "-c", code], check=False).returncode:
        pytest.skip(f"{SYSTEM_PYTHON} is no Python 3.11 or newer")


@pytest.fixture
def lecture(tmp_path: Path) -> Path:
    path = tmp_path / "talk.py"
    path.write_text(PLAIN, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def ssh_box() -> Iterator[Box]:
    """Start an sshd on 127.0.0.1 with a known host key. If this process is root, create a user for it."""
    require("sshd", "ssh", "ssh-keygen", "tar", "gzip")
    require_system_python()
    root = Path(tempfile.mkdtemp(prefix="sb", dir="/tmp"))
    as_root, user, user_created = os.getuid() == 0, getpass.getuser(), False
    daemon: subprocess.Popen[bytes] | None = None
    try:
        root.chmod(0o755)
        home, server, client = root / "home", root / "srv", root / "me"
        for folder in (home, server, client):
            folder.mkdir(mode=0o700)
        if as_root:
            user = f"sb{os.getpid()}"
            command = ["useradd", "--system", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", user]
            subprocess.run(command, check=True)
            user_created = True
        for key in (server / "host_key", client / "key", client / "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
        keys = (
            home if as_root else server
        ) / "authorized_keys"  # in the home, as StrictModes checks all parent folders
        keys.write_bytes((client / "key.pub").read_bytes())
        keys.chmod(0o600)
        port = free_port()
        settings = [
            f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {server}/host_key", "PidFile none",
            f"AuthorizedKeysFile {keys}", "AuthenticationMethods publickey", "PasswordAuthentication no",
            "KbdInteractiveAuthentication no", "UsePAM no", f"AllowUsers {user}", "AllowTcpForwarding no",
            "X11Forwarding no", f"StrictModes {'yes' if as_root else 'no'}", "AcceptEnv *", "MaxStartups 100",
            f"SetEnv SLURM_CONF={SLURM}/slurm.conf",
        ]  # fmt: skip
        (server / "sshd_config").write_text("\n".join(settings) + "\n")
        drop: dict[str, Any] = {}
        if as_root:
            entry = pwd.getpwnam(user)
            for path in (home, keys, server, *server.iterdir()):
                os.chown(path, entry.pw_uid, entry.pw_gid)
            drop = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        (sshd,) = require("sshd")
        with (client / "log").open("wb") as log:
            daemon = subprocess.Popen(
                [sshd, "-D", "-e", "-f", str(server / "sshd_config")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **drop,
            )  # fmt: skip
        for _ in range(100):
            assert daemon.poll() is None, (client / "log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        public = " ".join((server / "host_key.pub").read_text().split()[:2])
        (client / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
        (client / "config").write_text(
            f"Host box\n HostName 127.0.0.1\n Port {port}\n User {user}\n IdentityFile {client}/key\n"
            f" IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {client}/known_hosts\n"
            " GlobalKnownHostsFile /dev/null\n SendEnv *\n"
        )
        yield Box(client / "config", home if as_root else Path.home(), user, client / "known_hosts", client / "key")
    finally:
        if daemon is not None:
            daemon.terminate()
            daemon.wait(10)
        if user_created:
            listed = subprocess.run(
                ["ps", "-o", "pid=,stat=", "-u", user], capture_output=True, text=True, check=False
            ).stdout
            for pid, state in (line.split() for line in listed.splitlines()):
                if not state.startswith("Z"):
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.2)
            subprocess.run(["userdel", user], check=False, capture_output=True)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Path]:
    """Start a Slurm with two nodes, without systemd, control groups or a database; yield its configuration."""
    require("munged", "slurmctld", "slurmd", "srun", "sinfo", "tar", "gzip")
    if os.getuid() != 0:
        pytest.skip("slurmd and munged need root")
    require_system_python()
    root = SLURM
    root.mkdir(mode=0o755)
    daemons: list[subprocess.Popen[bytes]] = []
    conf = root / "slurm.conf"
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    try:
        for name in ("state", "log"):
            (root / name).mkdir()
        munge, entry = root / "munge", pwd.getpwnam("munge")
        munge.mkdir(mode=0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        for path in (munge, munge / "key"):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        host = socket.gethostname().partition(".")[0]
        lines = [
            "ClusterName=box", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={free_port()}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge",
            "CredType=cred/munge", f"AuthInfo=socket={munge}/sock",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny", f"StateSaveLocation={root}/state",
            f"SlurmdSpoolDir={root}/spool-%n", f"SlurmctldPidFile={root}/ctld.pid", f"SlurmdPidFile={root}/%n.pid",
            f"SlurmctldLogFile={root}/log/ctld", f"SlurmdLogFile={root}/log/%n",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU", "SchedulerType=sched/backfill",
            "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2",
            "SlurmdParameters=config_overrides", "MpiDefault=none", "ReturnToService=2", "MailProg=/bin/true",
            "KillWait=20", "NodeName=DEFAULT CPUs=4 RealMemory=1000 State=UNKNOWN",
            *(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()}" for name in SLURM_NODES),
            f"PartitionName=main Nodes={','.join(SLURM_NODES)} Default=YES MaxTime=600 State=UP",
        ]  # fmt: skip
        conf.write_text("\n".join(lines) + "\n")
        (root / "cgroup.conf").write_text("CgroupMountpoint=/sys/fs/cgroup\n")

        def start(*command: str, **drop: Any) -> None:
            with (root / "log" / f"{command[0]}.out").open("wb") as log:
                (program,) = require(command[0])
                daemons.append(
                    subprocess.Popen(
                        [program, *command[1:]],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=environment,
                        **drop,
                    )
                )

        start(
            "munged", "-F", f"--key-file={munge}/key", f"--socket={munge}/sock", f"--pid-file={munge}/pid",
            f"--log-file={munge}/log", f"--seed-file={munge}/seed",
            user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
        )  # fmt: skip
        for _ in range(100):
            if (munge / "sock").exists():
                break
            time.sleep(0.1)
        start("slurmctld", "-D", "-f", str(conf))
        for name in SLURM_NODES:
            start("slurmd", "-D", "-N", name, "-f", str(conf))
        ready = False
        for _ in range(200):
            state = subprocess.run(
                ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
            )
            if ready := state.stdout.strip() == "idle":
                break
            if any(daemon.poll() is not None for daemon in daemons):
                break
            time.sleep(0.1)
        if not ready:
            logs = {path.name: path.read_text(errors="replace")[-300:] for path in (root / "log").iterdir()}
            pytest.skip(f"Slurm does not start here: {logs}")
        yield conf
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(15)
            daemon.kill()
        shutil.rmtree(root, ignore_errors=True)
