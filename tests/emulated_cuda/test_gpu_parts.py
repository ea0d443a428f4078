"""The lecture's parts that only a GPU can run.

The claims are about bytes, clocks and losses. Results that depend on time are not checked, because emulated times are
meaningless.
"""

from __future__ import annotations

import json
import re
import sys

from tests.emulated_cuda.build import ROOT, environment, run
from tests.emulated_cuda.profiles import PROFILES

PARTS = ("time_on_a_gpu", "bytes_on_a_gpu", "loop_as_a_graph", "memory_in_pieces")
SMALL = {"streamed_bytes": 2**25, "matmul_side": 256}
PIECE_MIB = SMALL["streamed_bytes"] // 16 // 2**20
PEAK, TENSOR_CORES = 989.5e12, 4096  # H100: FLOP/s, and FLOPs of a multiprocessor per cycle
SCRIPT = f"""
import json, sys
sys.path.insert(0, {str(ROOT)!r})
import lecture
from trace_tools.lecture.vocabulary import listening
lecture.sizes = lambda: lecture.Sizes(**{SMALL!r})
lecture.peak_flops, lecture.peak_bandwidth, lecture.peak_is_promised = lambda _: {PEAK}, lambda: 3.35e12, lambda _: True
refused = lecture.refused
def refused_and_back(*bytes_):
    try:
        return refused(*bytes_)
    finally:
        fractions.append(lecture.torch.cuda.get_per_process_memory_fraction())
lecture.refused, fractions = refused_and_back, []
narratives = {{}}
for part in {PARTS!r}:
    of_part = narratives[part] = []
    with listening(lambda n: of_part.append([n.kind, getattr(n, "text", None) or "", getattr(n, "rows", None)])):
        getattr(lecture, part)()
print(json.dumps([narratives, fractions]))
"""


def test_claims_hold(emulated: None) -> None:
    variables = environment("h100") | {"OMP_NUM_THREADS": "1"}
    done = run([sys.executable, "-c", SCRIPT], variables)
    assert done.returncode == 0, done.stderr
    by_part, fractions = json.loads(done.stdout.splitlines()[-1])
    texts = {part: "\n".join(text for _, text, _ in narratives) for part, narratives in by_part.items()}
    assert all("nan" not in text and "None" not in text for text in texts.values())
    assert fractions == [1.0]  # the limit on this process's memory was restored

    [rows] = [rows for kind, _, rows in by_part["time_on_a_gpu"] if kind == "table"]
    assert [len(row) for row in rows] == [3] * 3 and all(first > 0 for _, first, _ in rows)
    assert f"{PROFILES['h100'].multiprocessors * TENSOR_CORES * 1980e6 / 1e12:.4g} TFLOP/s" in texts["time_on_a_gpu"]

    requested, unallocated = re.findall(r"(?:Tried to allocate|and) ([\d.]+) MiB", texts["memory_in_pieces"])[:2]
    assert 2 * PIECE_MIB <= float(requested) < float(unallocated)  # the free pieces together are large enough


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
