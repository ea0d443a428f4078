"""Each process of a trace behaves as plain Python: its runs must print what a plain run prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.analysis.outcome import problems
from trace_tools.trace.file import load
from trace_tools.trace.model import Step

LECTURE = '''
import asyncio, atexit, contextlib, ctypes, functools, inspect, multiprocessing, os, pickle, subprocess, sys, traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from trace_tools import measure
import checks, neighbour

HERE = Path(__file__).parent
LOG = Path(os.environ["LOG"])

def said(*words):
    """Print, and leave in a file what every process says."""
    with LOG.open("a") as log:
        print(*words, file=log)
    print(*words)
    sys.stdout.flush()

def main():
    said("begin")
    folder()
    output()
    caught()
    asyncio.run(awaited())
    timed()
    forks()
    said("end")
    sys.exit()
    said("never")

def folder():
    said(open("../beside/x").read(), open(".env").read(), (HERE / "data").read_text(), neighbour.data())
    (HERE / "data").write_text("written")
    open("new", "w").write("new")
    said(open("data").read(), sorted(os.listdir(".")), Path(sys.path[0]) == HERE)
    said(os.getcwd(), __file__, neighbour.__file__, sys.argv[0].rpartition("/")[2])
    said(inspect.getsource(forks)[:12], inspect.getsourcefile(forks), pickle.loads(pickle.dumps(forks)) is forks)
    try:
        open("nothing")
    except OSError as error:
        said(error, traceback.extract_tb(error.__traceback__)[-1].filename)
    os.remove(__file__)

def output():
    said(sys.stdout.name, sys.stdout.mode, sys.stdout.encoding, sys.stdout.isatty(), sys.stdout is sys.__stdout__)
    said(sys.stdout.errors, sys.stdout.newlines, sys.stdout.line_buffering, repr(sys.stdout), sys.stdout.fileno())
    sys.stdout.reconfigure(line_buffering=True, errors="replace")
    print("a\\udc80b")
    sys.stdout.buffer.write(b"bytes\\n")
    sys.stdout.buffer.flush()
    os.write(1, b"a descriptor\\n")
    os.system("echo a shell")
    said(subprocess.run("echo a program; exit 3", shell=True).returncode)
    ctypes.CDLL(None).puts(b"a line of C")
    ctypes.CDLL(None).fflush(None)

def check(x):
    assert x > 0, f"{x}"
    return x

def caught():
    found = []
    try:
        check(-1)
    except AssertionError:
        found.append("in the lecture")
    found.append(checks.catching(lambda: check(-2)))
    with contextlib.suppress(AssertionError):
        check(-3)
        found.append("never")
    with ThreadPoolExecutor(1) as pool:
        found.append(str(pool.submit(check, -4).exception()))
        with contextlib.suppress(AssertionError):
            pool.submit(check, -5).result()
            found.append("never")
    found += [tolerant(1), tolerant(-6)]
    said(found)

def catching(f):
    @functools.wraps(f)
    def tried(x):
        try:
            return f(x)
        except Exception as error:
            return str(error)
    return tried

@catching
def tolerant(x):
    assert x == 1, f"{x} is not 1"
    return x

async def awaited():
    async def task():
        check(-7)
    said([str(error) for error in await asyncio.gather(task(), task(), return_exceptions=True)])

def timed():
    """Holds in every timed run, never where something is metered"""
    assert not metered(), "as fast as it should be"
    measure(lambda: check(3))
    try:
        check(-8)
    except AssertionError as error:
        said("caught", error)

def metered():
    import torch.utils._python_dispatch as modes
    return any("metering" in type(mode).__module__ for mode in modes._get_current_dispatch_mode_stack())

MODULE = [sorted(vars()) == sorted(globals()), [name for name in dir() if not name.isidentifier()]]

def work(queue):
    print("in a process", flush=True)
    queue.put(multiprocessing.current_process().name)

def forks():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,), name="worker")
    process.start()
    process.join()
    said(queue.get(), MODULE)
    if (child := os.fork()) == 0:
        atexit.register(print, "at the exit of a child")
        print("a child")
        return
    said("status", os.waitpid(child, 0)[1] >> 8)
'''
FILES = {
    "course/lecture.py": LECTURE,
    "beside/x": "beside",
    "course/.env": "hidden",
    "course/data": "data",
    "course/neighbour.py": """
from pathlib import Path
def data():
    return (Path(__file__).parent / 'data').read_text()
""",
    "course/checks.py": """
def catching(f):
    try:
        return f()
    except AssertionError as error:
        return str(error)
""",
}


@pytest.mark.slow
def test_each_run_prints_the_same_as_a_plain_run(environment: dict[str, str], tmp_path: Path) -> None:
    course = tmp_path / "all/course"
    for name, text in FILES.items():
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text(text, encoding="utf-8")
    variables = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": ""}

    def run(log: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=course,
            env={**variables, "LOG": str(tmp_path / log)},
            capture_output=True,
            timeout=170,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done

    run("traced", "-m", "trace_tools", "trace", "lecture.py", "--passes", "1", "-o", "../rendered", "--name", "cpu")
    assert (course / "data").read_text() == "data" and len(list(course.iterdir())) == 5
    assert not list((tmp_path / "all/rendered").glob(".run-*"))
    plain = run(
        "plain",
        "-c",
        "import os, sys; sys.argv, sys.path[0] = ['lecture.py'], os.getcwd(); import lecture; lecture.main()",
    )
    expected = (tmp_path / "plain").read_text(encoding="utf-8")
    runs = (tmp_path / "traced").read_text(encoding="utf-8").split("begin\n")[1:]
    # the private copy in paths gets the name of the folder, as in a plain run
    logs = [re.sub(r"\.course-trace-\d+", "course", "begin\n" + run) for run in runs]
    assert len(logs) == 3 and set(logs) == {expected}, "cold, warm and counted"

    trace = load(tmp_path / "all/rendered/cpu/trace.yaml")
    assert [(p.name, p.ended, p.why_no_warm) for p in trace.run.processes] == [("pass 1", "complete", None)]
    steps = [step for step in trace.steps if isinstance(step, Step)]
    assert trace.run.complete and all(step.claim.held for step in steps if step.claim)
    assert all(step.meters is None or step.meters.why is None for step in steps)
    printed = "".join(step.stdout or "" for step in steps)
    assert sorted(printed.splitlines()) == sorted(plain.stdout.decode().splitlines()) and not problems(trace)
    outputs = {LECTURE.splitlines()[step.line - 1].strip()[:9]: step.stdout or "" for step in steps if step.stdout}
    assert outputs["os.system"] == "a shell\n" and outputs["os.write("] == "a descriptor\n"
    assert "a child\n" in outputs.get('said("sta', "") + outputs.get("if (child", ""), "while the parent forks or waits"
