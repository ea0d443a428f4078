"""Records of steps and frames: values, claims, exceptions, calls, threads, printed text, warnings, images, marks."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.messages import says
from tests.tracing.probed import Probed, Trace, listening
from trace_tools.lecture import vocabulary

# ------------------------------------------------------------------------------ values


def inspected(step: Any) -> list[tuple[Any, ...]]:
    """Return (source, value or error text), and the unit if there is one, of each expression inspected at a step."""
    return [(source, v.get("value", v.get("text")), *([unit] if unit else [])) for source, unit, v in step.values]


def test_values_are_read_at_the_line_of_their_directive(trace: Trace) -> None:
    lecture = trace("""
N = 2  # @inspect N  #: [[("N", 2)]]
def main():
    x = f(3)  # @inspect x [FLOP], N.real  #: [[("x", 3, "FLOP"), ("N.real", 2)]]
    for i in range(N):  # @inspect i  #: [[("i", 0)], [("i", 1)]]
        if i: break  # @inspect i, x  #: [[("i", 0), ("x", 3)], [], [("i", 1), ("x", 3)]]
    while x > 2:  # @inspect x  #: [[("x", 3)], [("x", 2)]]
        x -= 1
    with open("/dev/null") as file:  # @inspect file.name  #: [[("file.name", "/dev/null")]]
        raise_it = 1
    try:
        raise KeyError("k")  # @inspect x  #: [[("x", 2)]]
    except KeyError as error:  # @inspect error.args[0]
        y = 1  #: [[("error.args[0]", "k")]]
    if y: y = 5; z = 6  # @inspect y, z  #: [[("y", 5), ("z", 6)], [], []]
    match y:  # @inspect y  #: [[("y", 5)]]
        case 7: pass
    return y  # @inspect y, gone  #: [[("y", 5), ("gone", "NameError: name 'gone' is not defined")]]
def f(n, m=1):  # @inspect n, m [B]
    return n
""").check(of=inspected)  # fmt: skip
    one, three = ({"type": "int", "value": n} for n in (1, 3))
    assert lecture.frames("f")[0].arguments == [["n", None, three], ["m", "B", one]]


def test_calls_during_description_are_not_recorded(trace: Trace) -> None:
    lecture = trace("""
class Loud:
    def __repr__(self): return helper("repr")
    def __eq__(self, other): return bool(helper("eq"))  #: ["helper"]
    def __str__(self): return helper("str")
    @property
    def size(self): return helper("size")
class Error(Exception):
    def __str__(self): return helper("error")
def helper(x):
    return x
def main():
    x = Loud()  # @inspect x, x.size  #: [""]
    assert x == Loud(), x  #: ["Loud.__eq__"]
    try:
        raise Error(x)  #: [""]
    except Error as error:  # @inspect error
        assert isinstance(x, Loud)  #: [""]
    take(x)  #: ["take"]
def take(x):  # @inspect x, x.size
    pass
""").check("calls")  # fmt: skip
    assert len(lecture.run.frames) == len(["<module>", "main", "Loud.__eq__", "helper", "take"])


def test_each_call_records_what_it_returns(trace: Trace) -> None:
    lecture = trace("""
import asyncio
def factorial(n):  # @inspect return
    if n == 0: return 1
    return n * factorial(n - 1)
def find(xs, x):  # @inspect xs return
    for i, y in enumerate(xs):
        if y == x: return i  # @inspect i
def overruled():  # @inspect return
    try:
        return 1
    finally:
        return 2
def produced(n):  # @inspect return
    yield from range(n)
    return "done"
async def waited(x):  # @inspect return
    await asyncio.sleep(0)
    return x
class Pair:
    def both(self): return (lambda: 1)(), 2  # @inspect return
def one_line(x): return x * 2  # @inspect x return
def failing(x):  # @inspect return
    return 1 // x
def main():
    factorial(2), find("ab", "b"), find("ab", "c"), overruled(), list(produced(2)), asyncio.run(waited(3))
    Pair().both(), one_line(4)
    try:
        failing(0)
    except ZeroDivisionError:
        pass
""")  # fmt: skip
    run, names, returned = lecture.run, lecture.program.functions, dict[str, list[Any]]()
    of_steps = [(step.frame, step.values) for step in run.steps.values()]
    for frame, values in [*of_steps, *((frame.id, frame.arguments) for frame in run.frames.values())]:
        for _, _, value in (one for one in values if one[0] == "return"):
            items = [item["value"] for item in value.get("items", ())]
            returned.setdefault(names[run.frames[frame].function], []).append(items or value.get("value"))
    assert returned == {
        "factorial": [2, 1, 1], "find": [1, None], "overruled": [1, 2], "produced": ["done"],
        "waited": [3], "Pair.both": [[1, 2]], "one_line": [8],
    }  # fmt: skip


# ------------------------------------------------------------------------------ claims

CLAIMS = """
def main():
    a, b = 1, 2
    assert a < b < 3, "held"  #: [["held", 1, 2, 3]]
    assert a and not (b == 2 and a > 5) or missing  #: [["held", 1, 2, 2, 1, 5, None]]
    assert isinstance(a, int)  #: [["held", 1, "type"]]
    assert all(x for x in (a, b))  #: [["held", True]]
    for i in range(2): assert i >= 0
    covered()
    assert a == b, f"{a} is not {b}"  #: [["passed over", 1, 2]]
    reached = 1
    return reached
def covered():  # @stepover
    assert 1 + 1 == 2
"""


def test_claims_record_the_values_of_their_sides(trace: Trace) -> None:
    """A side may not be evaluated; a failed claim is passed over."""

    def judged(step: Any) -> Any:
        _, held, sides = step.claim
        return [held, *(side and side.get("value", side["type"]) for side in sides)]

    lecture = trace(CLAIMS, failing_claims_raise=False).check(of=judged)
    assert len(lecture.steps("reached = 1")) == 1


def test_failed_claim_ends_the_run(tmp_path: Path) -> None:
    lecture = Probed(CLAIMS, "lecture.py", tmp_path / "x.journal")
    with pytest.raises(AssertionError, match="1 is not 2"):
        lecture.main()
    [step] = lecture.steps("assert a == b")
    assert step.claim[1] == "raised" and step.left and lecture.steps("reached = 1") == []
    assert step.raised == {"type": "AssertionError", "message": "1 is not 2", "origin_line": 10}


def test_failed_claim_below_stepover_belongs_to_the_calling_step(trace: Trace) -> None:
    text = "def main():\n    f(1)\n    f(0)\ndef f(x):  # @stepover\n    assert x > 0\n"
    lecture = trace(text, failing_claims_raise=False)
    assert lecture.steps("f(1)")[0].claim is None
    sides = [{"type": "int", "value": 0}] * 2
    assert lecture.steps("f(0)")[0].claim == [lecture.number("assert x"), "passed over", sides]


CAUGHT = """
import contextlib
def main():
    section()
def section():
    try:
        check(-1)
    except AssertionError:
        y = 3
    with contextlib.suppress(AssertionError):
        assert 1 == 2
    tried = 0
    while True:
        try:
            assert tried == 5
        except Exception:
            tried += 1
        else:
            break
    try:
        assert tried == 6
    except ValueError:
        pass
def check(x):
    inner(x)
def inner(x):{covered}
    assert x > 0
"""


@pytest.mark.parametrize("covered", ["", "  # @stepover"])
@pytest.mark.parametrize("raising", [True, False])
def test_claims_that_the_lecture_catches_do_not_fail(tmp_path: Path, raising: bool, covered: str) -> None:
    text = CAUGHT.replace("{covered}", covered)
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", failing_claims_raise=raising)
    with pytest.raises(AssertionError) if raising else contextlib.nullcontext():
        lecture.main()
    assert len(lecture.steps("y = 3")) == 1 and len(lecture.steps("tried += 1")) == 5
    [last] = lecture.steps("assert tried == 6")
    assert last.claim[1] == ("raised" if raising else "passed over") and last.left is raising
    broken = [s for s in lecture.run.steps.values() if s.claim and s.claim[1] == "raised" and s.seq != last.seq]
    assert len(broken) == 7 and not any(s.left for s in broken)


def test_a_claim_fails_if_a_library_reraises_its_error(tmp_path: Path) -> None:
    text = """
from concurrent.futures import ThreadPoolExecutor
def main():
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(check)
    between = 1
    later.result()

def check():
    assert 1 > 2
"""
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal")
    with pytest.raises(AssertionError):
        lecture.main()
    assert [step.left for step in lecture.steps("assert")] == [True]


# ------------------------------------------------------------------------------ exceptions


def test_exceptions_are_recorded_at_each_step_they_leave(trace: Trace) -> None:
    def left(step: Any) -> Any:
        return step.raised and (step.raised["message"][:8], step.raised["origin_line"])

    trace("""
def main():
    for i in range(3):  #: [None] * 4
        try:
            outer(i)  #: [("division", 18), None, ("invalid ", 16)]
        except ZeroDivisionError:
            pass
        except ValueError as group:
            pass
def outer(i):
    with open("/dev/null"):
        x = inner(i)  #: [("division", 18), None, ("invalid ", 16)]
    return x
def inner(i):
    if i == 2:
        return int(
            "x")
    return 1 / i  #: [("division", 18), None]
""").check(of=left)  # fmt: skip


# ------------------------------------------------------------------------------ calls


def test_code_below_stepover_has_no_steps(trace: Trace) -> None:
    lecture = trace("""
def main():
    x = f(1)  # @stepover  #: [1]
    for i in range(3):  # @stepover  #: [3]
        y = f(i)  #: []
    with manager():  # @stepover  #: [7]
        f(5)
    def local(): return f(6)  # @stepover
    local()  #: [6]
    g()  #: [7]
    return f(9)  # @stepover @inspect x  #: [9]
def f(n):
    return work(n)
def g():  # @stepover
    return f(7)
class Manager:
    def __enter__(self): f(1)
    def __exit__(self, *args): f(1)
def manager(): return Manager()
""").check("ns")  # fmt: skip
    assert len(lecture.run.frames) == len(["<module>", "main"])


def test_inspected_expressions_below_stepover_are_not_evaluated(trace: Trace) -> None:
    read: list[int] = []
    trace("""
def main():
    f(1)  # @stepover  #: [""]
    f(2)  #: ["f"]
def f(n):  # @inspect read.append(n)
    x = n  # @inspect read.append(x)
""", given={"read": read}).check("calls")  # fmt: skip
    assert read == [2, 2]


def test_generator_frames_belong_to_the_step_that_started_them(trace: Trace) -> None:
    lecture = trace("""
def main():
    g = generator(2)  #: [""]
    first = next(g)  #: ["generator"]
    rest = list(g)  #: [""]
    total = sum(x for x in generator(1))  #: ["generator"]
def generator(n):
    for i in range(n):
        yield work(i)  #: [""] * 3
    yield from inner()  #: ["inner", "inner"]
def inner():
    yield work(5)
    f()  #: ["f", "f"]
def f(): pass
""").check("calls")  # fmt: skip
    suspending = {line for line, _, suspends in lecture.program.places.values() if suspends}
    assert suspending == {9, 10, 12}
    assert [step.execution for step in lecture.steps("yield work(i)")] == [1, 2, 1]


def test_coroutine_frames_belong_to_the_step_that_runs_them(trace: Trace) -> None:
    """The event loop calls tasks, so they belong to the step that runs the loop."""
    trace("""
import asyncio
def main():
    asyncio.run(start())  #: ["start wait wait"]
async def start():
    await wait(1)  #: ["wait"]
    await asyncio.gather(wait(2), wait(3))  #: [""]
    async with Room():  #: ["Room.__aenter__ Room.__aexit__"]
        async for x in numbers(): f()  #: ["numbers", "f", ""]
async def wait(n):
    await asyncio.sleep(0)
    f()  #: ["f"] * 3
async def numbers():
    yield 1
class Room:
    async def __aenter__(self): f()  #: ["f"]
    async def __aexit__(self, *args): f()  #: ["f"]
def f(): pass
""").check("calls")  # fmt: skip


# ------------------------------------------------------------------------------ threads


def test_thread_calls_belong_to_the_step_that_started_them(trace: Trace) -> None:
    """The late thread makes its first call after the step that started it and the calling function have ended."""
    lecture = trace("""
import threading
def main():
    late = section()
    start()
    gate.set()
    late.join()
def section():
    thread = threading.Thread(target=lambda: gate.wait(5) and outer(9), name="late")
    thread.start()  #: ["outer"]
    return thread
def start():
    threads = [threading.Thread(target=outer, args=(n,), name=f"worker {n}") for n in range(3)]
    [thread.start() for thread in threads]  #: ["outer outer outer"]
    [thread.join() for thread in threads]
def outer(n):
    inner(n)  #: ["inner"] * 4
def inner(n):
    print("from thread", n)
""", given={"gate": threading.Event()}).check("calls")  # fmt: skip
    assert {frame.thread for frame in lecture.frames("outer")} == {"worker 0", "worker 1", "worker 2", "late"}
    assert {frame.thread for frame in lecture.frames("inner")} == {None}, "its caller is in the same thread"
    assert {step.stdout for step in lecture.steps("print")} == {f"from thread {n}\n" for n in (0, 1, 2, 9)}


def test_threads_unknown_to_python_are_recorded(trace: Trace) -> None:
    """The recorder does not add a thread that C++ started to the lecture's list of threads."""
    lecture = trace("""
import _thread, threading
def main():
    _thread.start_new_thread(f, ())
    started.wait(5)
    return g()
def f():
    try: h()
    finally: started.set()
def h(): pass
def g(): return threading.enumerate()
""", given={"started": threading.Event()})  # fmt: skip
    assert [frame.thread for frame in lecture.frames("f")] == ["native"]
    assert threading.enumerate() == [threading.main_thread()]


# ------------------------------------------------------------------------------ what happens during a step


def test_output_and_warnings_belong_to_the_innermost_step(trace: Trace) -> None:
    written: list[str] = []  # as a library of C writes to descriptor 1
    output = SimpleNamespace(grown=lambda: bool(written), take=lambda: written.pop() if written else "", finish=str)
    lecture = trace("""
import warnings
from functools import reduce
print("module")  #: ["module\\n"]
def main():
    print("one", 2)  #: ["one 2\\n"]
    for i in range(2): f(i)
    reduce(lambda a, b: print(b), [1, 2])  #: ["2\\n"]
    x = 1  # @inspect print("inspected")  #: [""]
    f(5)  # @stepover  #: ["in f 5\\n"]
    f((work(900), written.append("by C\\n"), 7)[2])  #: ["by C\\n"]
def f(i):
    print("in f", i)  #: ["in f 0\\n", "in f 1\\n", "in f 7\\n"]
    warnings.warn("careful", stacklevel=1)
""", output=output, given={"written": written}).check("stdout")  # fmt: skip
    assert any(step.warnings for step in lecture.steps("warnings.warn"))


def test_marks_apply_to_every_open_step(tmp_path: Path) -> None:
    text = "def main():\n    x = 1  #: [False]\n    f()  #: [True]\n"
    text += "def f():\n    y = 1  #: [False]\n    mark()  #: [True]\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal")
    lecture.module.mark = lambda: lecture.recorder.mark("compiled")
    lecture.main().check("compiled")


def test_images_that_the_lecture_makes_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a copy of its folder, which is deleted afterwards."""
    real, copy = tmp_path / "real", tmp_path / "copy"
    for folder in (real, copy):
        folder.mkdir()
        (folder / "beside.svg").touch()
    (copy / "made.svg").write_text("<svg/>")
    (copy / "large.png").write_bytes(bytes(2 << 20))
    monkeypatch.chdir(copy)
    given = {"image": vocabulary.image, "names": ["made.svg", "beside.svg", "gone.svg", "large.png"]}
    text = "def main():\n    [image(name) for name in names]\n"
    lecture = Probed(text, "lecture.py", tmp_path / "x.journal", given=given)
    with listening(lecture.recorder, str, real), lecture:
        lecture.module.main()
    [step] = lecture.steps("[image")
    made, *others = [entry["url"] for entry in step.narrative]
    assert made == "data:image/svg+xml;base64,PHN2Zy8+" and others == ["beside.svg", "gone.svg", "large.png"]
    assert len(step.warnings) == 2 and says(step.warnings[0], "NotShown", "'gone.svg'")
    assert says(step.warnings[1], "NotShown", "large.png", "2,097,152 bytes", "1,048,576")
