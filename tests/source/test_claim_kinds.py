"""What stands behind a claim follows from its source; each case says so in the claim's own line."""

from __future__ import annotations

from trace_tools.source.claim_kinds import claim_kinds, tally
from trace_tools.source.statements import parse_source

LECTURE = """\
import math
import torch
from trace_tools import count, measure, text

PEAK = 989.5e12

def main():
    days = 6.3e24 / PEAK / 86_400
    assert round(days) > 1, "derived"
    assert math.isclose(halved(4), 2), "derived"
    x = torch.ones(3)
    assert x.sum() == 3, "observed"
    flops = count(lambda: x * 2).flops
    assert flops == 3, "counted"
    assert flops / measure(lambda: x * 2).seconds < PEAK, "observed"
    assert doubled(x).shape == (3,), "observed"
    sizes = {}
    for name in ("a", "b"):
        sizes[name] = len(name)
    assert sizes == {"a": 1, "b": 1}, "observed"
    sizes["x"] = x.numel()
    found = []
    found.append(flops)
    assert found[0] == 3, "counted"
    try:
        x.view(2)
    except RuntimeError as error:
        refusal = str(error)
    assert "invalid" in refusal, "observed"
    assert len(open("there").read()) == 3, "observed"
    same(3)

def halved(n):
    return n / 2

def doubled(tensor):
    twice = tensor * 2
    return twice

def same(n):
    assert n == 3, "derived"

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def of_a_class():
    assert Model()(1) == 1, "observed"
"""


def test_the_kind_of_each_claim_is_what_its_line_says() -> None:
    source = parse_source(LECTURE, "lecture.py")
    kinds = claim_kinds(source)
    lines = LECTURE.splitlines()
    found = {source.statements[number].line: kind for number, kind in kinds.items()}
    said = {
        number: line.rpartition('"')[0].rpartition('"')[2] for number, line in enumerate(lines, 1) if "assert" in line
    }
    assert found == said


def test_a_tally_names_the_kinds_that_there_are() -> None:
    assert tally(["derived", "observed", "derived"]) == "2 derived, 1 observed"
    assert tally(["counted"]) == "1 counted by formula" and tally([]) == ""


def test_what_is_nested_too_deeply_to_be_followed_is_observed() -> None:
    source = parse_source(f"def main():\n    x = {' + '.join(['1'] * 2_500)}\n    assert x == 2500\n", "lecture.py")
    assert [*claim_kinds(source).values()] == ["observed"]
