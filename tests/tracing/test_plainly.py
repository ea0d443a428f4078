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
import asyncio, atexit, contextlib, ctypes, functools, inspect, multiprocessing, os, pickle, signal, subprocess, sys
import time, traceback
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
    names(1, b=2)
    caught()
    asyncio.run(awaited())
    timed()
    asyncio.run(signalled())
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
    sys.stdout.reconfigure(line_buffering=True, errors="replace")
    print("a\\udc80b")
    sys.stdout.buffer.write(b"bytes\\n")
    sys.stdout.buffer.flush()
    os.write(1, b"a descriptor\\n")
    os.system("echo a shell")
    said(subprocess.run("echo a program; exit 3", shell=True).returncode)
    ctypes.CDLL(None).puts(b"a line of C")
    ctypes.CDLL(None).fflush(None)

def names(a, b):
    with contextlib.nullcontext() as c:
        assert a + 1 == b
        said(sorted(locals()), sorted(vars()), dir(), takes(**locals()))
        local = locals()
        said(local is locals() or sys.version_info >= (3, 13), "local" in locals(), eval("a + b"))
    said([name for name in {*globals(), *dir(sys.modules[__name__]), *vars(neighbour)} if not name.isidentifier()])

def takes(a, b, c):
    return a, b, c

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
    found += [tolerant(1), tolerant(-6), *numbers()]
    n = 0
    while True:
        try:
            assert n < 5
            n += 1
        except AssertionError:
            break
    said(found, n)

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

def numbers():
    for n in (1, -1):
        try:
            yield check(n)
        except AssertionError:
            yield "in a generator"

async def awaited():
    async def task():
        check(-7)
    said([str(error) for error in await asyncio.gather(task(), task(), return_exceptions=True)])

def timed():
    """Holds in every timed run, never where something is metered nor where clocks are wrong."""
    wall, steady = time.perf_counter(), time.monotonic()
    time.sleep(0.05)
    assert abs((time.perf_counter() - wall) / (time.monotonic() - steady) - 1) < 0.2, "clocks agree"
    assert not metered(), "as fast as it should be"
    measure(lambda: check(3))
    try:
        check(-8)
    except AssertionError as error:
        said("caught", error)

def metered():
    import torch.utils._python_dispatch as modes
    return any("metering" in type(mode).__module__ for mode in modes._get_current_dispatch_mode_stack())

async def signalled():
    times = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, times.append, 1)
    for i in range(20):
        os.kill(os.getpid(), signal.SIGHUP)
        done = [i]  # @inspect done
        await asyncio.sleep(0.005)
    said(len(times))

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

CHECKS = """
def catching(f):
    try:
        return f()
    except AssertionError as error:
        return str(error)
"""


@pytest.mark.slow
def test_each_run_prints_the_same_as_a_plain_run(environment: dict[str, str], tmp_path: Path) -> None:
    course = tmp_path / "all/course"
    course.mkdir(parents=True)
    (tmp_path / "all/beside").mkdir()
    (tmp_path / "all/beside/x").write_text("beside", encoding="utf-8")
    (course / ".env").write_text("hidden", encoding="utf-8")
    (course / "data").write_text("data", encoding="utf-8")
    neighbour = "from pathlib import Path\ndef data():\n    return (Path(__file__).parent / 'data').read_text()\n"
    (course / "neighbour.py").write_text(neighbour, encoding="utf-8")
    (course / "checks.py").write_text(CHECKS, encoding="utf-8")
    path = course / "lecture.py"
    path.write_text(LECTURE, encoding="utf-8")
    variables = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": ""}
    options = ["--passes", "1", "-o", "../rendered", "--name", "cpu"]
    command = [sys.executable, "-m", "trace_tools", "trace", "lecture.py", *options]
    completed = subprocess.run(
        command, cwd=course, env={**variables, "LOG": f"{tmp_path}/traced"}, capture_output=True, text=True, timeout=170
    )
    assert completed.returncode == 0, completed.stderr
    assert (course / "data").read_text() == "data" and len(list(course.iterdir())) == 5
    assert not list((tmp_path / "all/rendered").glob(".run-*"))

    as_script = "import os, sys; sys.argv, sys.path[0] = ['lecture.py'], os.getcwd(); import lecture; lecture.main()"
    command = [sys.executable, "-c", as_script]
    plain = subprocess.run(command, cwd=course, env={**variables, "LOG": f"{tmp_path}/plain"}, capture_output=True)
    assert plain.returncode == 0, plain.stderr
    expected = (tmp_path / "plain").read_text(encoding="utf-8")
    runs = (tmp_path / "traced").read_text(encoding="utf-8").split("begin\n")[1:]
    logs = [_in_the_folder("begin\n" + run) for run in runs]
    assert "\n20\n" in expected, "all 20 signals arrived"
    assert len(logs) == 3 and set(logs) == {expected}, "cold, warm and counted"

    trace = load(tmp_path / "all/rendered/cpu/trace.yaml").trace
    assert [(p.name, p.ended, p.why_no_warm) for p in trace.run.processes] == [("pass 1", "complete", None)]
    steps = [step for step in trace.steps if isinstance(step, Step)]
    assert trace.run.complete and all(step.claim.held for step in steps if step.claim)
    assert all(step.meters is None or step.meters.why is None for step in steps)
    printed = "".join(step.stdout or "" for step in steps)
    assert _lines(printed) == _lines(plain.stdout.decode()) and not problems(trace)
    outputs = {LECTURE.splitlines()[step.line - 1].strip()[:9]: step.stdout or "" for step in steps if step.stdout}
    assert outputs["os.system"] == "a shell\n" and outputs["os.write("] == "a descriptor\n"
    assert "a child\n" in outputs.get('said("sta', "") + outputs.get("if (child", ""), "while the parent forks or waits"


def _in_the_folder(text: str) -> str:
    """Give the private copy in paths the name of the folder, as in a plain run."""
    return re.sub(r"\.course-trace-\d+", "course", text)


def _lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines())
