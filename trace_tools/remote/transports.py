"""Pack the files that a machine needs, and build the command that reaches it and runs a trace there.

bundle = pack(Path("lecture.py"), files=["data/*.csv"])
bundle.archive        # a gzipped tar; the same files give the same bytes
bundle.digest         # of the whole content

    tools/__main__.py, tools/trace_tools/…, tools/yaml/…      `python tools` runs `trace_tools.remote.worker`
    lecture/lecture.py, lecture/data/…                        the lecture, the modules in its folder, its files

The command is a shell script for `sh`, `ssh` or `srun`:

command_for(entry, archive_bytes, asked, beside, key)      ["ssh", "-T", …, "--", "gpu-box", "sh -c '…'"]

The script reads the archive from its standard input, unpacks it in a new folder, runs the tools there and removes the
folder. After the archive, its input is the connection: when that closes, the run ends, and so does a Slurm job. Prompts
for a key, a password or an unknown host fail. No environment is sent.

A `batch` job uses a folder named by `key`, the digest of the archive and request, so that the same request finds the
same job again. The folder is removed when a line `ok` confirms that the trace has arrived, or when the job failed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shlex
import string
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import yaml

import trace_tools
from trace_tools.errors import UsageError
from trace_tools.remote.inventory import Entry
from trace_tools.remote.worker import MARK
from trace_tools.source.imports import OURS, modules
from trace_tools.source.statements import ParsedSource, read_source
from trace_tools.util import formats

SSH = (
    "-T", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oConnectTimeout=15", "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4", "-oForwardAgent=no", "-oForwardX11=no", "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no", "-oLogLevel=ERROR", "-oControlMaster=no",
)  # fmt: skip
# of our environment, for ssh itself and for Slurm's commands
KEPT = ("HOME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "USER", "LOGNAME", "SLURM_CONF")
EXPORTED = "HOME,PATH,USER,LOGNAME,TMPDIR,LANG"  # of the environment of srun, for the job
KEY = 16  # characters of a key in the name of a batch job's folder
PLAIN = frozenset(f"{string.ascii_letters}{string.digits} ./_-")  # not special in any shell
REFUSED = 73  # the script's exit status if the machine cannot take the archive
OPTIONS = {"partition": "--partition", "constraint": "--constraint", "account": "--account", "qos": "--qos"}
OPTIONS |= {"gres": "--gres", "cpus": "--cpus-per-task", "time": "--time"}

# `exec 3<&0` keeps the connection for the watcher, because a background job's own input is /dev/null. `setsid` makes a
# group of everything that the command starts, so that ending it reaches all; srun ends its own processes and is
# signalled alone.
SCRIPT = """\
umask 077
unset SSH_CONNECTION SSH_CLIENT SSH_TTY
base={base}
mkdir -p "$base" && d=$(mktemp -d "$base/run-XXXXXX") || exit {refused}
group={group} job=
ends() {{ [ -z "$job" ] || kill -s "$1" -- "${{group:+-}}$job"; }} 2>/dev/null
trap '[ -z "$group" ] || ends KILL; cd /; rm -rf "$d"' EXIT
trap 'ends TERM; exit 129' HUP INT TERM
cd "$d" && head -c {length} | tar -xzf - || exit {refused}
exec 3<&0
{command} </dev/null 3<&- & job=$!
( cat <&3; ends TERM; sleep {grace}; ends KILL ) >/dev/null 2>&1 & watch=$!
exec 3<&-
wait $job; status=$?
kill $watch 2>/dev/null
exit $status
"""
# Another script for `batch`. The job's output goes to a file, which is read from its beginning each time. A job that
# could not write its exit status, on a full disk, leaves no `room`: head reports why.
BATCH = """\
umask 077
unset SSH_CONNECTION SSH_CLIENT SSH_TTY
d={base}/job-{key}
if {again} && [ -s "$d/id" ]; then scancel "$(cat "$d/id")" 2>/dev/null; rm -rf "$d"; fi
mkdir -p "$d" && cd "$d" || exit {refused}
if [ -s id ]; then head -c {length} >/dev/null; else
  head -c {length} | tar -xzf - || {{ cd /; rm -rf "$d"; exit {refused}; }}
  printf %s {job} >job.sh
  sbatch --parsable {options} --output=said --error=error job.sh >submitted
  status=$?; [ $status = 0 ] || {{ cd /; rm -rf "$d"; exit $status; }}
  cut -d';' -f1 submitted >id
fi
id=$(cat id) sent=0 was=
trap '[ ! -e got ] || {{ scancel "$id"; cd /; rm -rf "$d"; }} 2>/dev/null; exit 0' TERM
exec 3<&0
( read -r answer <&3; [ "$answer" != ok ] || : >got; kill -TERM $$ ) & watch=$!
exec 3<&-
while :; do
  state=$(squeue -h -j "$id" -o '%T (%r)' 2>&1) && known=true || known=false
  case $state in *"Invalid job id"*) known=true state= ;; esac
  [ ! -s status ] || state=
  size=$(cat said 2>/dev/null | wc -c)
  [ "$size" -le "$sent" ] || {{ tail -c +$((sent + 1)) said | head -c $((size - sent)) || exit 1; sent=$size; }}
  if [ -z "$state" ] && $known || [ -s status ]; then break; fi
  ! $known || [ "$state" = "$was" ] || echo "sbatch: job $id ${{state% (None)}}" >&2
  was=$state
  sleep {poll}
done
if [ -s status ] && grep -q '{mark}.*"\\(end\\|why\\)"' said; then wait $watch; fi
cat error >&2
if [ -s status ]; then status=$(cat status); else
  status=1
  head -c 1000000 /dev/zero >room
  state=$(scontrol -o show job "$id" 2>/dev/null | grep -o 'JobState=[A-Z_]*')
  echo "Slurm ended job $id: ${{state#JobState=}}" >&2
fi
kill $watch 2>/dev/null
cd /; rm -rf "$d"
exit $status
"""
JOB = """\
#!/bin/sh
umask 077
d=$PWD
{command} </dev/null
echo $? >status
"""
POLL_S = 2  # between two checks of a batch job
GRACE_S = 15  # time for a remote tracer to end


def command_for(
    entry: Entry, archive_bytes: int, request: Mapping[str, Any], beside: Path, key: str, *, again: bool = False
) -> list[str]:
    """Return the command that traces on a machine; it receives the archive on its standard input.

    A batch job is named by `key`, which identifies the request; `again` ends an existing one first.
    """
    words = shlex.split(entry.python) if entry.python else [sys.executable if entry.engine == "local" else "python3"]
    if entry.engine == "slurm" and not entry.batch:
        words = ["srun", *_of_slurm(entry), *words]
    elif entry.nodes is not None:  # the job's script runs on the first of them
        words = ["srun", *_tasks(entry), *words]
    command = " ".join([*map(_quoted, words), '"$d/tools"', shlex.quote(json.dumps(request))])
    common = {"base": _quoted(entry.folder), "length": archive_bytes, "refused": REFUSED}
    if entry.batch:
        job, options = shlex.quote(JOB.format(command=command)), " ".join(map(_quoted, _of_slurm(entry)))
        of_job = {"key": key[:KEY], "again": str(again).lower(), "mark": MARK.strip(), "poll": POLL_S}
        script = BATCH.format(**common, **of_job, job=job, options=options)
    else:
        group, command = ("", command) if entry.engine == "slurm" else ("$(command -v setsid)", f"$group {command}")
        script = SCRIPT.format(**common, command=command, group=group, grace=GRACE_S)
    host = host_of(entry)
    if host is None:
        return ["sh", "-c", script]
    config = ["-F", str(beside / Path(entry.ssh_config).expanduser())] if entry.ssh_config else []
    # SkyPilot's hosts are not known in advance: it writes them to ssh's configuration.
    known_hosts = ["-oUserKnownHostsFile=~/.ssh/known_hosts"] if entry.engine == "sky" else []
    return ["ssh", *config, *SSH, *known_hosts, "--", host, in_any_shell(script)]


def in_any_shell(script: str) -> str:
    """Return a line that makes `sh` run a script in any login shell: csh takes no quoted newline and expands `!`."""
    escaped = "".join(chr(byte) if chr(byte) in PLAIN else f"\\0{byte:03o}" for byte in script.encode())
    return f"""sh -c 'eval "$(printf %b "{escaped}")"'"""


def host_of(entry: Entry) -> str | None:
    """Return the host for ssh; None to run on this machine. SkyPilot makes each cluster an ssh host of its name."""
    return entry.name if entry.engine == "sky" else entry.host


def _of_slurm(entry: Entry) -> list[str]:
    """Return Slurm's command for a task: it queues, chooses the machine, and ends the job at its time limit."""
    options = [f"{option}={value}" for name, option in OPTIONS.items() if (value := getattr(entry, name)) is not None]
    time_limit = [] if entry.time else [f"--time={entry.minutes}"]
    return [*_tasks(entry), f"--job-name=trace-{entry.name}", f"--export={EXPORTED}", *options, *time_limit]


def _tasks(entry: Entry) -> list[str]:
    return ["--ntasks=1"] if entry.nodes is None else [f"--nodes={entry.nodes}", "--ntasks-per-node=1"]


def _quoted(word: str) -> str:
    """Quote for a shell; `~` is the remote home folder."""
    return f'"$HOME"/{shlex.quote(word[2:])}' if word.startswith("~/") else shlex.quote(word)


def environment(entry: Entry, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command: all of ours on this machine, only `KEPT` otherwise."""
    return dict(ours) if entry.engine == "local" else {name: ours[name] for name in KEPT if name in ours}


def in_words(entry: Entry, status: int, error_lines: Sequence[str]) -> str:
    """Explain in one line why no trace arrived, from the exit status and the end of standard error."""
    lines = [line.strip() for line in error_lines if line.strip()]
    text = "\n".join(lines)
    last = lines[-1] if lines else ""
    host = host_of(entry)
    if host is not None and status == 255:
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text:
            return (
                "its host key has changed; ask its owner whether this is expected. If so, run "
                f"`ssh-keygen -R {host}`, then connect once with `ssh {host}`"
            )
        if "Host key verification failed" in text or "host key is known" in text:
            return (
                f"its host key is not known; connect once with `ssh {host}`, compare its fingerprint with the one from "
                "its owner, and accept it"
            )
        if "Permission denied" in text:
            return f"refuses the key: `ssh {host}` must log in without asking for anything"
        return f"can't be reached: {last or 'ssh printed no error'}"
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return "its disk is full"
    if status in (126, 127):
        return f"can't run `{entry.python or 'python3'}` there: {last}"
    slurm = [line.partition(": error: ")[2] for line in lines if line.startswith(("srun: error: ", "sbatch: error: "))]
    if slurm:
        return f"Slurm refuses: {slurm[0]}"
    return last or f"ended with status {status} without a message"


def sky_task(entry: Entry, bundle: Bundle, lecture_needs: Sequence[str]) -> str:
    """Return a task file for SkyPilot: a machine with the accelerator, and the packages of the lecture."""
    distributions = packages_distributions()  # pip's name for yaml is PyYAML, if it is installed here
    names = sorted(distributions.get(name, [name])[0] for name in lecture_needs)
    wanted = [f"torch=={entry.torch}" if name == "torch" and entry.torch else name for name in names]
    setup = f"python3 -m pip install {' '.join(map(shlex.quote, wanted))}" if wanted else "python3 --version"
    task = {
        "name": entry.name,
        "resources": {"accelerators": entry.accelerators},
        "setup": setup + "\n",
        "run": f"echo ready for {shlex.quote(bundle.lecture)}\n",
    }
    return yaml.safe_dump(task, sort_keys=False)


# --- what is sent ---------------------------------------------------------------------------------

MOST_BYTES = 256 << 20  # largest archive, the tools included
TOOLS = frozenset({".py", ".yaml", ".txt"})
# Code that only makes pages and reports is not sent, so changing it does not require a new trace.
STAYS = frozenset({"bench", "commands", "diff", "export", "live", "pages", "presentation"})
# Must run on any Python, even one that is too old for the tools.
MAIN = """\
import sys
if sys.version_info < (3, 11):
    sys.exit("trace-tools: found Python %d.%d; 3.11 or newer is needed" % sys.version_info[:2])
from trace_tools.remote.worker import main
main()
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The archive, with the lecture's name and text."""

    archive: bytes
    digest: str
    lecture: str
    text: str


def pack(lecture: Path, files: Sequence[str] = ()) -> Bundle:
    """Pack a lecture with the tools. Raises UsageError for missing or too large files, LectureError for an invalid
    lecture.
    """
    source = read_source(lecture)
    folder = lecture.resolve().parent
    sent = {f"lecture/{path.relative_to(folder).as_posix()}": path for path in _sent_files(folder, source, files)}
    contents = {**_tools(), **{name: b"" for name in sent}}
    size = sum(map(len, contents.values()))
    for name, path in sent.items():
        size += path.stat().st_size
        if size > MOST_BYTES:
            limit = formats.byte_size(MOST_BYTES)
            raise UsageError(f"{path}: with this file, more than {limit} would be sent; list fewer in `files`")
        contents[name] = path.read_bytes()
    contents[f"lecture/{lecture.name}"] = source.text.encode("utf-8")
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode(errors="surrogateescape"))
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return Bundle(packed.getvalue(), digest.hexdigest(), lecture.name, source.text)


def _sent_files(folder: Path, source: ParsedSource, files: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the lecture's folder to send; links in `files` that lead out of the folder are skipped."""
    roots = {name.partition(".")[0] for name in modules(source, folder)} - {OURS}
    for root in sorted(roots):
        if (single := folder / f"{root}.py").is_file():
            yield single
        package = folder / root
        everything = any(package.glob("*.py"))  # else a namespace package, or a data folder with the name of a module
        yield from filter(_is_sent, sorted(package.rglob("*" if everything else "*.py")))
    for pattern in files:
        try:
            matching = sorted(folder.glob(pattern))
        except (ValueError, IndexError):
            raise UsageError(f"files: {pattern}: expected a file pattern such as data/*.csv") from None
        if not any(part.startswith(".") for part in Path(pattern).parts):  # as in a shell, no hidden files then
            parts = {path: path.relative_to(folder).parts for path in matching}
            matching = [path for path in matching if not any(part.startswith(".") for part in parts[path])]
        inside = [path for path in matching if path.resolve().is_relative_to(folder)]
        if matching and not inside:
            raise UsageError(f"files: {pattern}: is a link to a file outside {folder.name}/; expected files inside it")
        if not (sent := [path for path in inside if path.is_file() and "__pycache__" not in path.parts]):
            raise UsageError(f"files: {pattern}: no such file in {folder.name}/")
        yield from sent


def _is_sent(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts


@cache
def _tools() -> dict[str, bytes]:
    """Return the tools and PyYAML in plain Python, by path in the archive."""
    contents = {"tools/__main__.py": MAIN.encode()}
    for package, name, endings in ((trace_tools, OURS, TOOLS), (yaml, "yaml", {".py"})):
        root = Path(str(package.__file__)).parent
        paths = (path for path in sorted(root.rglob("*")) if path.suffix in endings and _is_sent(path))
        inside = ((path.relative_to(root), path) for path in paths)
        sent = {inner: path for inner, path in inside if inner.parts[0] not in STAYS}
        contents |= {f"tools/{name}/{inner.as_posix()}": path.read_bytes() for inner, path in sent.items()}
    return contents
