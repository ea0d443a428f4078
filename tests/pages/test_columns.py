from __future__ import annotations

from typing import Any

from tests.pages.lectures import first_section
from tests.pages.recording import Recording, matrix, of_section
from tests.pages.written import unpacked
from trace_tools.machines.peaks import known_machines
from trace_tools.pages.columns import floors_block, results_block, timed_lines
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import one_file
from trace_tools.trace.model import Machine, Meters, Peak, Trace, Value, Work


def results(lecture: str, *calls: str) -> list[list[Any]]:
    """Return the lines of a section that calls `f` after other functions, whose frames come first."""
    recording = Recording(lecture)
    main = recording.frame("main")
    for name in calls:
        frame = recording.call(main, f"{name}()", name)
    for number in (1, 2):
        inner = recording.call(frame, "g(", "g", arguments=[("n", Value("int", number))])
        recording.step(inner, "y = n", host_ns=[10**6, 3 * 10**6, 2 * 10**6], values=[("y", Value("int", number))])
    lines: list[list[Any]] = unpacked(results_block(make_document(recording.trace()).sections[-1]))
    return lines


CALLS = "def main():\n    other()\n    f()\n\ndef other():\n    pass\n\n"
CALLS += "def f():\n    g(1)\n    g(2)\n\ndef g(n):\n    y = n  # @inspect y\n"


def test_lines_have_keys_that_do_not_depend_on_other_sections() -> None:
    """An anchor has the number of a call in the whole trace; a key has the turn of a line on its page."""
    alone, after_another = results(CALLS, "f"), results(CALLS, "other", "f")
    assert [line[1] for line in alone] != [line[1] for line in after_another]
    assert [(key, *more) for key, _, *more in alone] == [(key, *more) for key, _, *more in after_another]
    first, second = [line for line in alone if any(name == "y" for _, _, name, _ in line[3])]
    assert (first[0].partition(":")[0], first[0][-2:], second[0][-2:]) == (second[0].partition(":")[0], ":1", ":2")
    assert first[2] == 2 * 10**6  # the median
    assert [note for note in first[3] if note[0] == "value"] == [["value", "", "y", "1"]]
    moved, edited = results("import math\n\n" + CALLS, "f"), results(CALLS.replace("y = n ", "y = n + 0 "), "f")
    assert [line[0] for line in alone] == [line[0] for line in moved]
    changed = [line for line, other in zip(alone, edited, strict=True) if line[0] != other[0]]
    assert [[name for _, _, name, _ in line[3] if name] for line in changed] == [["y"], ["y"]]


def bounded() -> Trace:
    """Return a trace whose lines need at least 1 µs; 1 µs and 10 µs; 1 µs in bfloat16 on an H100.

    An H100 has 67 TFLOP/s in float32 and 3.35 TB/s. A T4 has no bfloat16.
    """
    loop = "for i in range(2):\n    z = y + 1  # @inspect z\n"
    recording, f = of_section(
        f"y = x @ x  # @inspect y\n{loop}w = y.bfloat16() @ y  # @inspect w\nnowhere = meta @ meta"
    )

    def step(code: str, *work: Work, flops: int = 1) -> None:
        meters = Meters(flops, 1, 1, peak_bytes=2 * 10**10, operators=[("aten.mm", 1)], work=list(work) or None)
        recording.step(f, code, annotated=True, host_ns=[10**6] * 3, values=[("y", matrix(2, 2))], meters=meters)

    step("y = ", ("aten.mm", "float32", 67 * 10**6, 0))
    for moved in (3_350_000, 33_500_000):
        step("z = ", ("aten.add", "float32", 1, moved))
    step("w = ", ("aten.mm", "bfloat16", 989_500_000, 0))
    step("nowhere = ", flops=10**9)
    return recording.trace(machine=Machine("A processor", "cpu", "cpu", peaks=[Peak("memory", 1e10, "measured")]))


def test_timed_lines_have_a_lower_bound_per_machine() -> None:
    machines = [it for name in ("NVIDIA H100 80GB HBM3", "Tesla T4") for it in known_machines() if name in it.names]
    bounds = unpacked(floors_block(timed_lines(first_section(bounded())), machines))
    assert bounds["anchors"] == ["L5", "L7", "L8", "L9"]
    (name, h100_facts, on_h100), (_, _, on_t4) = bounds["machines"]
    assert name == "H100 80GB HBM3"
    assert on_h100 == [
        "at least 1 µs, float32",
        "at least 1 µs, memory, to 10 µs, memory",
        "at least 1 µs, bfloat16",
        None,  # tensors on the meta device are not computed
    ]
    assert on_t4[2] == "no bfloat16 peak of Tesla T4 is known" and on_t4[3] is None
    assert "3.35 TB/s" in h100_facts and "not measured" in h100_facts
    assert 'id="floors"' in one_file(bounded())
    recording, f = of_section("y = x")
    recording.step(f, "y = ", annotated=True, host_ns=[10**6])
    assert 'id="floors"' not in one_file(recording.trace())
