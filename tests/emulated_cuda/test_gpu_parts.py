"""The claims of the lecture's parts that only a GPU can run: planted mistakes make them fail, a busy card does not."""

from __future__ import annotations

import sys

from tests.emulated_cuda.build import ROOT, environment, run

SMALL = {"streamed_bytes": 2**25, "matmul_side": 256}


def test_failure_of_the_second_process_fails_no_claim(emulated: None) -> None:
    """The second process fails on a card that only one process may use."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import lecture; lecture.FIRST_CALLS = "
        "\"raise SystemExit('CUDA-capable device(s) is/are busy or unavailable')\"; "
        "print(lecture.first_calls()); lecture.first_calls_of_a_process()"
    )
    done = run([sys.executable, "-c", code], environment("h100") | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and done.stdout.splitlines()[0].endswith("busy or unavailable"), done.stderr


MISTAKES = (  # function, original source, source with a mistake
    ("memory_in_real_pieces", "    del pieces[::2]\n", "    del pieces[:5]\n"),  # one large hole instead of many
    (
        "eager_and_replayed",
        "            w.copy_(value)  #",
        "            pass  #",
    ),  # the steps of the warm-up are not undone
    ("eager_and_replayed", "        x.copy_(new_x)\n", "        x = new_x\n"),  # the graph reads the old address
    ("additions_in_the_cache", "        for _ in range(calls):\n            f()\n", "        pass\n"),
)
MISTAKEN = f"""
import sys, types
sys.path.insert(0, {str(ROOT)!r})
source = open({str(ROOT / "lecture.py")!r}, encoding="utf-8").read()
for function, right, wrong in {MISTAKES!r}:
    assert source.count(right) == 1, right
    module = sys.modules["mistaken"] = types.ModuleType("mistaken")
    exec(compile(source.replace(right, wrong), "lecture.py", "exec"), module.__dict__)
    module.sizes = lambda: module.Sizes(**{SMALL!r})
    try:
        getattr(module, function)()
    except AssertionError:
        print("failed")
"""


def test_claims_fail_for_planted_mistakes(emulated: None) -> None:
    done = run([sys.executable, "-c", MISTAKEN], environment("h100") | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("failed") == len(MISTAKES), done.stdout
