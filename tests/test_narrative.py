"""What a lecture can say, and that a sentence about a measured number is what its samples agree on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trace_tools import decide, plot, text
from trace_tools.narrative import listening
from trace_tools.schema import Narrative


def chosen(value: object, **options: object) -> Narrative:
    heard: list[Narrative] = []
    with listening(heard.append):
        decide(value, above="more", below="less", undecided="who knows", **options)  # type: ignore[arg-type]
    [narrative] = heard
    return narrative


@pytest.mark.parametrize(
    ("value", "than", "said"),
    [
        (1.2, 1.0, "more"),
        (0.8, 1.0, "less"),
        (1.0, 1.0, "who knows"),
        (1.05, (0.9, 1.1), "who knows"),
        (0.89, (0.9, 1.1), "less"),
        ([1.2, 1.3, 1.4, 1.3, 0.1], 1.1, "more"),  # its middle half
        ([0.8, 1.3, 1.4, 0.7], 1.0, "who knows"),
    ],
)
def test_a_sentence_is_what_the_samples_agree_on(value: object, than: object, said: str) -> None:
    narrative = chosen(value, than=than)
    assert (narrative.kind, narrative.text) == ("text", said)
    assert narrative.choice is not None and narrative.choice.sentences == ["more", "less", "who knows"]


def test_each_word_is_said_inside_a_pause() -> None:
    log: list[str] = []

    @contextmanager
    def pause() -> Iterator[None]:
        log.append("pause")
        yield
        log.append("go on")

    with listening(lambda told: log.append(told.kind), pause):
        text("a")
        plot({"y": [1, 2]})
    assert log == ["pause", "text", "go on", "pause", "plot", "go on"]
    text("nobody listens")
