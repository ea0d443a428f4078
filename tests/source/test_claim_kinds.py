"""The kind of a claim follows from its source; each claim here has the expected kind as its message."""

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


def test_claims_have_the_kind_named_in_their_message() -> None:
    source = parse_source(LECTURE, "lecture.py")
    kinds = claim_kinds(source)
    lines = LECTURE.splitlines()
    kinds_by_line = {source.statements[number].line: kind for number, kind in kinds.items()}
    expected = {
        number: line.rpartition('"')[0].rpartition('"')[2] for number, line in enumerate(lines, 1) if "assert" in line
    }
    assert kinds_by_line == expected


def test_tally_names_only_kinds_that_occur() -> None:
    assert tally(["derived", "observed", "derived"]) == "2 derived, 1 observed"
    assert tally(["counted"]) == "1 counted by formula" and tally([]) == ""


def test_too_deeply_nested_claim_is_observed() -> None:
    source = parse_source(f"def main():\n    x = {' + '.join(['1'] * 2_500)}\n    assert x == 2500\n", "lecture.py")
    assert [*claim_kinds(source).values()] == ["observed"]
