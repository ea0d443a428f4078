"""What keeps runs apart: the copy of the folder, captured output, the wait for threads and processes at the end."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cases_in_one import each
from tests.programs import require
from trace_tools.tracing.isolation import ending, private_folder
from trace_tools.tracing.isolation.private_folder import make, path_for, remove, written
from trace_tools.tracing.isolation.restore import _running_in

# ------------------------------------------------------------------------------ the copy of the folder


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Create a course next to another folder, with dotfiles, links, `.git`, an environment and a folder for output."""
    course = tmp_path / "course"
    for folder in ("sub", "sub/deep", ".hidden", ".git", "venv", "rendered", "../other"):
        (course / folder).mkdir(parents=True, exist_ok=True)
        (course / folder / "file").write_text(folder, encoding="utf-8")
    (course / "venv/pyvenv.cfg").touch()
    (course / ".env").write_text("secret", encoding="utf-8")
    (course / "out").symlink_to("../other/file")
    (course / "in").symlink_to("sub/file")
    script = course / "script.sh"
    script.touch(mode=0o755)
    os.utime(script, ns=(10**18, 10**18))
    return course


def test_a_copy_equals_the_folder_and_writes_stay_in_it(course: Path) -> None:
    copy = path_for(course)
    assert make(course, copy, shared=[course / "rendered"]) == [] and copy.parent == course.parent
    assert sorted(os.listdir(copy)) == sorted(os.listdir(course))
    links = {name for name in os.listdir(copy) if (copy / name).is_symlink()}
    assert links == {"out", "in", ".git", "venv", "rendered"}
    assert (copy / "out").read_text() == (copy / "../other/file").read_text() == "../other"
    assert (copy / "script.sh").stat().st_mode == (course / "script.sh").stat().st_mode
    assert (copy / "script.sh").stat().st_mtime_ns == 10**18
    (copy / "in").write_text("written", encoding="utf-8")
    (copy / "sub/deep/file").unlink()
    (copy / "model.txt").write_text("new", encoding="utf-8")
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/x.pyc").touch()
    assert sorted(written(course, copy)) == ["model.txt", "sub/file"]
    assert (copy / "sub/file").read_text() == "written" and not (copy / "sub/deep/file").exists()
    assert (course / "sub/file").read_text() == "sub" and (course / "sub/deep/file").exists()
    inode = copy.stat().st_ino
    make(course, copy)
    assert copy.stat().st_ino == inode and not list(written(course, copy)), "as new, for pools that still run there"
    for folder in (copy / "sub/deep", copy / "sub", copy):
        folder.chmod(0o500)
    remove(copy)
    assert not copy.exists() and all((course / name / "file").exists() for name in ("rendered", ".git", "sub/deep"))


def test_large_and_many_files_are_linked_and_named(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (course / "sub/large").write_bytes(b"x" * 100)
    monkeypatch.setattr(private_folder, "FILE_BYTES", 99)
    copy = path_for(course)
    assert make(course, copy) == [course / "sub/large"] and (copy / "sub/large").is_symlink()
    remove(copy)
    monkeypatch.setattr(private_folder, "ENTRIES", 3)  # fewer than the course has
    assert sorted(make(course, copy)) == [course / ".env", course / "script.sh"]
    assert (copy / "script.sh").is_symlink() and (copy / "sub").is_symlink() and (copy / "sub/file").exists()
    remove(copy)
    assert (course / "sub/large").exists()


def test_copies_of_dead_tracers_are_removed(course: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, living = (course.parent / f".course-trace-{pid}" for pid in (ended.pid, os.getppid()))
    other = course.parent / ".course-trace-notes-of-mine"
    for folder in (dead, living, other, path_for(course)):
        folder.mkdir()
        (folder / "left").touch()
    make(course, path_for(course))
    assert not dead.exists() and living.exists() and other.exists() and not (path_for(course) / "left").exists()


def test_a_copy_of_a_folder_beside_which_nothing_can_be_written(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != course.parent)
    assert path_for(course).parent == Path(tempfile.gettempdir())


# ------------------------------------------------------------------------------ standard output

OTHERS = """
import ctypes, os, subprocess, sys
from pathlib import Path
from trace_tools.tracing.isolation.output_capture import CHUNK_BYTES, OutputFile
output = OutputFile(Path("out"), redact=lambda text: text.replace("me", "you"))
def said():
    sys.stderr.write(repr((output.grown(), output.take())) + "\\n")
said()
os.write(1, b"tell me\\n")
said()
os.system("echo a shell")
subprocess.run(["echo", "a program"])
said()
libc = ctypes.CDLL(None)
libc.printf(b"a line of C, ")
libc.printf(b"whole\\n")
said()
os.write(1, "é".encode()[:1])
said()
os.dup2(os.open("theirs", os.O_WRONLY | os.O_CREAT), 1)
os.write(1, "theirs".encode())
said()
output.connect()
os.write(1, "é".encode()[1:])
said()
libc.printf(b"unfinished")
sys.stderr.write(repr(output.finish()) + "\\n")
os.write(1, b"x" * (3 * CHUNK_BYTES) + b"end")
text = output.take()
sys.stderr.write(repr((len(text) - 2 * CHUNK_BYTES, text[CHUNK_BYTES:][:40], text[-4:])))
"""


LEFT_OUT = "\n… 1,048,579 bytes more were printed …\n"


def test_output_of_c_and_subprocesses_is_captured_(tmp_path: Path, environment: dict[str, str]) -> None:
    require("echo")
    completed = subprocess.run(
        [sys.executable, "-c", OTHERS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert completed.stderr.splitlines() == [
        "(False, '')",
        "(True, 'tell you\\n')",
        "(True, 'a shell\\na program\\n')",
        "(True, 'a line of C, whole\\n')",
        "(True, '')",
        "(False, '')",
        "(True, 'é')",
        "'unfinished'",
        f"({len(LEFT_OUT)}, {LEFT_OUT + 'x'!r}, 'xend')",
    ]
    assert (tmp_path / "theirs").read_text() == "theirs" and completed.stdout == ""


# ------------------------------------------------------------------------------ the end


def test_waiting_for_threads_and_processes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending.wait_for_others(lambda _: None) == [], "other tests left threads or processes"
    monkeypatch.setattr(ending, "WAIT_S", 0.3)
    monkeypatch.setattr(ending, "REPORT_S", 0.1)
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="waiting")
    process = multiprocessing.get_context("fork").Process(target=gate.wait, name="endless")
    threading.Thread(target=gate.wait, daemon=True).start()
    thread.start()
    process.start()
    messages: list[str] = []
    work = threading.Event()
    try:
        with ThreadPoolExecutor(1, "worker") as pool:
            pool.submit(work.wait)
            assert "thread worker_0" in ending.wait_for_others(lambda _: None)
            work.set()  # the pool's worker still runs, but is idle
            running = [f"process endless ({process.pid})", "thread waiting"]
            assert ending.wait_for_others(messages.append) == running
            assert messages == [f"waits for {', '.join(running)}"]
            gate.set()
            process.terminate()
            assert ending.wait_for_others(messages.append) == []
    finally:
        work.set(), gate.set(), process.kill()
    assert not thread.is_alive() and not process.is_alive()


@each(
    ("call", "status"),
    [
        ("os._exit(status=3)", 3),
        ("os.execlp('false', 'false')", 1),
        ("os.execvpe('sh', ['sh', '-c', 'exit $STATUS'], {'PATH': os.environ['PATH'], 'STATUS': '5'})", 5),
    ],
)
def test_output_is_flushed_before_the_process_ends(call: str, status: int) -> None:
    require("sh", "false")
    code = "import os\nfrom trace_tools.tracing.isolation.ending import flush_on_exit\n"
    code += f"with flush_on_exit(lambda: os.write(1, b'written')):\n    {call}\n"
    completed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, start_new_session=True)
    assert completed.returncode == status and set(completed.stdout.split(b"written")) == {b""} != {completed.stdout}


def test_a_thread_that_still_runs_the_lecture_is_named_once(tmp_path: Path) -> None:
    names = {"begun": threading.Event(), "ended": threading.Event()}
    code = "def outer():\n    inner()\ndef inner():\n    begun.set() or ended.wait(9)\n"
    exec(compile(code, f"{tmp_path}/lecture.py", "exec"), names)
    thread = threading.Thread(target=names["outer"])  # type: ignore[arg-type]
    thread.start()
    assert names["begun"].wait(9)
    running = _running_in(tmp_path)
    names["ended"].set()
    thread.join()
    assert running == ["a thread is still running line 4 of the lecture"]
