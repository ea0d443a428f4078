from __future__ import annotations

from tests.pages.recording import Recording
from trace_tools.analysis.rates import StatementTime
from trace_tools.pages.content.compose import make_document

LECTURE = """\
def main():
    train()


def train():
    for step in range(3):
        loss = model(step)
    done = 1


def model(x):
    return x
"""


def spent() -> tuple[StatementTime, ...]:
    made = Recording(LECTURE)
    train = made.call(made.frame("main"), "train()", "train")
    for turn in range(3):
        made.step(train, "for step", host_ns=[10, 20, 30])
        step = made.step(train, "loss", host_ns=[100 * (turn + 1)])
        made.step(made.frame("model", step), "return x", host_ns=[7, 9, 8])
    made.omit(train, "loss", 40, 4_000)
    made.step(train, "done", cold_ns=[5])
    made.step(train, "done", host_ns=[1_000], suspended=True)
    [section] = make_document(made.trace()).sections
    return section.times


def test_executions_of_a_statement_count_together_those_left_out_too() -> None:
    header, loss, done = spent()
    assert (header.code, header.line, header.anchor) == ("for step in range(3):", 6, "L6")
    assert (header.ns, header.executions) == (3 * 20, 3)
    assert (loss.ns, loss.executions) == (100 + 200 + 300 + 4_000, 43)
    assert (done.ns, done.executions) == (5, 2)


def test_what_a_statement_called_is_inside_it() -> None:
    _, loss, _ = spent()
    [inner] = loss.inside
    assert (inner.code, inner.ns, inner.executions) == ("return x", 3 * 8, 3)
