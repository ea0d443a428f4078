"""A traced lecture is the module `__main__`, and prints what `python lecture.py` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.pages.content.compose import make_document
from trace_tools.trace.file import load
from trace_tools.trace.model import Step
from trace_tools.trace.tree import Tree

LECTURE = '''\
"""Identity"""
import code, contextvars, dataclasses, doctest, inspect, io, multiprocessing, os, pickle, runpy, sys, typing, unittest

class Point:
    """A point

    >>> Point().x
    3
    """
    x: int = 3

@dataclasses.dataclass
class Pair:
    a: "Point"
    b: "typing.ClassVar[int]" = 1

class Test(unittest.TestCase):
    def test_square(self):
        self.assertEqual(square(3), 9)

def square(x: "int") -> "Point":
    return x * x

def work(x):
    return __name__, x * x, Point

assert __name__ in ("__main__", "__mp_main__", "other")
IS_SCRIPT = __name__

def main():
    names()
    looking()
    processes()
    running()

def names():
    """Names"""
    import __main__
    print(__builtins__.len([1]), type(__loader__).__name__, __loader__.name, __spec__, __package__, __name__)
    print(os.path.basename(__file__), os.path.isabs(__file__), __cached__, __annotations__, __doc__, IS_SCRIPT)
    print(list(globals())[:10], "lecture" in sys.modules, len(sys.argv), os.path.basename(sys.argv[0]))
    print(__main__.names is names, vars(sys.modules["__main__"]) is globals())
    print([variable.name for variable in contextvars.copy_context()])

def looking():
    """Looking"""
    print(Point, Point.__module__, square.__module__, square.__globals__ is globals())
    print(pickle.loads(pickle.dumps(Point)) is Point, b"__main__" in pickle.dumps(square))
    print(typing.get_type_hints(square), typing.get_type_hints(Pair), dataclasses.fields(Pair)[0].type)
    print(inspect.getsource(Point), inspect.getsource(square), inspect.getmodule(square).__name__)

def processes():
    """Processes"""
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, [1, 2]), pool.apply(square, (3,)))

def running():
    """Running"""
    print(doctest.testmod())
    ran = unittest.main(exit=False, argv=["x"], testRunner=unittest.TextTestRunner(stream=io.StringIO()))
    print(ran.result.testsRun, ran.result.wasSuccessful())
    print(sorted(runpy.run_path(__file__, run_name="other"))[:3])

if __name__ == "__main__":
    main()
'''
PACKAGED = """\
import sys
from . import beside

def main():
    section()

def section():
    print(__name__, __package__, __spec__.name, __loader__.name, beside.NAME, "course.talk" in sys.modules)

if __name__ == "__main__":
    main()
"""

# A file's own code runs as in plain Python, with the arguments, settings and calls that it chooses.
BLOCKS = """\
import argparse, asyncio, functools, multiprocessing, random, sys

SCALE = 1
random.seed(1)

def square(x):
    return x * x

def draw(steps):
    \"\"\"Draw\"\"\"
    print(steps, SCALE, random.randrange(100), [name for name in globals() if name.startswith("_@")])

def leave(status):
    if status == "unlucky":
        raise ValueError(status)
    return status

"""
CALLED = """\
def main(steps):
    draw(steps)
    return leave("unlucky" if steps == 13 else 0)

"""
ENDS = {
    "settings": "    SCALE = 3\n    random.seed(7)\n    main(steps=3)\n",
    "several calls": "    main(1); main(2)\n    functools.partial(main, 4)()\n",
    "caught": "    try:\n        main(13)\n    except ValueError as error:\n        print('caught', error)\n",
    "arguments": "    parser = argparse.ArgumentParser()\n    parser.add_argument('--steps', type=int, default=5)\n"
    "    sys.exit(main(**vars(parser.parse_args())))\n",
    "pool": "    multiprocessing.set_start_method('spawn')\n    pool = multiprocessing.Pool(1)\n"
    "    main(pool.map(square, [3]))\n    pool.terminate()\n",
    "error": "    main(1)\n    main(13)\n",
    "hook": "    sys.excepthook = lambda *error: print('hook', error[1]) or sys.__excepthook__(*error)\n"
    "    main(1)\n    leave('unlucky')\n",
    "status": "    main(1)\n    sys.exit(3)\n",
}
PROGRAMS = {
    **{name: f'{BLOCKS}{CALLED}if __name__ == "__main__":\n{end}' for name, end in ENDS.items()},
    "without a block": f"{BLOCKS}{CALLED}main(6)\n",
    "without a call": f"{BLOCKS}def main(steps=2):\n    draw(steps)\n",
    "asynchronous": f"{BLOCKS}async def main():\n    draw(1)\n\nif __name__ == '__main__':\n    asyncio.run(main())\n",
    "another name": f"{BLOCKS}def talk():\n    draw(1)\n\nif __name__ == '__main__':\n    random.seed(1)\n    talk()\n",
}


def printed(trace: Path) -> str:
    steps = [event for event in load(trace).trace.steps if isinstance(event, Step)]
    return "".join(step.stdout or "" for step in sorted(steps, key=lambda step: step.id))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [("lecture.py", LECTURE, ["lecture.py"]), ("course/talk.py", PACKAGED, ["-m", "course.talk"])],
    ids=["script", "module"],
)
def test_a_traced_lecture_is_the_main_module(tmp_path: Path, name: str, text: str, arguments: list[str]) -> None:
    if "/" in name:
        (tmp_path / "course").mkdir()
        (tmp_path / "course/__init__.py").touch()
        (tmp_path / "course/beside.py").write_text("NAME = __name__\n", encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    plain = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "trace_tools", "trace", *arguments, "--passes", "1", "-o", "out", "--name", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    traced = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170)
    assert traced.returncode == 0, traced.stderr
    path = tmp_path / "out/cpu/trace.yaml"
    assert printed(path) == plain.stdout and len(plain.stdout) > 40
    [process, *_] = load(path).trace.run.processes
    assert process.warm_ns is not None  # the warm run was the main module, too


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_main_block_runs_as_in_plain_python(tmp_path: Path, name: str) -> None:
    text = PROGRAMS[name]
    (tmp_path / "talk.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    plain, traced = (
        subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
        for arguments in (
            ["-c", f"{text}\nmain()"] if name == "without a call" else ["talk.py"],
            ["-m", "trace_tools", "trace", "talk.py", "--passes", "1", "-o", "out", "--name", "cpu"],
        )
    )
    path = next((tmp_path / "out").glob("**/trace.yaml"))
    trace = load(path).trace
    assert printed(path) == plain.stdout
    assert traced.returncode == bool(plain.returncode), traced.stderr
    assert ("ValueError" in plain.stderr) == ("ValueError" in traced.stderr)
    [process] = trace.run.processes
    assert (process.warm_ns is not None) == (plain.returncode == 0), process.why_no_warm
    tree = Tree(trace)
    assert tree.section_calls()[0][1].function == "draw"
    assert make_document(trace).sections[0].function == "draw"
