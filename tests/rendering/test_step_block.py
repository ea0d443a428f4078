from __future__ import annotations

import base64
import json
import zlib
from itertools import accumulate
from typing import Any

from tests.rendering.hostile import hostile_trace
from tests.rendering.played import training
from tests.rendering.test_html import html
from tests.rendering.test_stepping import played
from trace_tools.rendering.compose import make_document
from trace_tools.rendering.document import Section
from trace_tools.rendering.step_block import BUDGET, StepBlock, step_block
from trace_tools.schema import Trace

STEPS = 10_000


def section(trace: Trace) -> Section:
    return make_document(trace).sections[0]


def unpacked(block: StepBlock) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(block.text)))


def table(column: Any) -> list[str]:
    return [column["of"][place] for place in accumulate(column["at"])]


def test_the_columns_say_what_the_stops_say() -> None:
    shown = section(played().trace())
    block = step_block(shown)
    columns = unpacked(block)
    stops = shown.stepping.stops
    assert (block.kept, block.total, columns["total"]) == (len(stops), len(stops), len(stops))
    assert list(accumulate(columns["stops"]["line"])) == [stop.line for stop in stops]
    assert table(columns["stops"]["anchor"]) == [stop.anchor for stop in stops]
    assert columns["stops"]["inside"] == [stop.inside for stop in stops]
    assert columns["frames"]["of"] == [-1, 3, 6]
    seen = columns["seen"]
    told = zip(accumulate(seen["stop"]), table(seen["name"]), seen["text"], seen["change"], strict=True)
    assert list(told)[:5] == [
        (0, "x", "f32[3] = [0., 0., 0.]", 1),
        (1, "y", "f32[2] = [0., 0.]", 1),
        (2, "y", "f32[2] = [9., 0.]", 3),
        (3, "total", "2", 1),
        (4, "n", "1", 1 + 8),
    ]
    assert table(seen["storage"])[:4] == ["A", "A", "A", ""]
    assert columns["outputs"] == [[10, 2]]


def test_the_same_steps_give_the_same_bytes() -> None:
    assert step_block(section(training(300))).text == step_block(section(training(300))).text


def test_a_page_of_ten_thousand_steps_keeps_to_its_weight_with_all_of_them() -> None:
    trace = training(STEPS)
    block = step_block(section(trace))
    assert block.kept == block.total >= STEPS
    assert len(block.text) <= BUDGET
    assert len(html(trace).encode()) <= 400_000


def test_beyond_the_budget_repetitions_go_first() -> None:
    shown = section(training(3_000))
    whole = step_block(shown)
    less = step_block(shown, len(whole.text) - 1)
    columns = unpacked(less)
    assert len(less.text) < len(whole.text) and less.kept < less.total == columns["total"]
    # of a line that is executed again and again, `rate` never changes and the losses always do
    kept = table(columns["seen"]["name"])
    assert (kept.count("rate"), kept.count("loss")) == (2, table(unpacked(whole)["seen"]["name"]).count("loss"))
    numbers = list(accumulate(columns["stops"]["number"]))
    assert numbers[0] == 1 and numbers[-1] == less.total


def test_a_block_never_exceeds_its_budget_and_its_calls_stay_in_it() -> None:
    shown = section(training(3_000))
    for budget in (10_000, 3_000, 1_500):
        block = step_block(shown, budget)
        columns = unpacked(block)
        assert len(block.text) <= budget and 0 < block.kept < block.total
        for place, inside in enumerate(columns["stops"]["inside"]):
            assert place + inside < block.kept
        assert all(-1 <= of < block.kept for of in columns["frames"]["of"])


def test_a_page_says_when_its_player_does_not_have_all_steps() -> None:
    from unittest import mock

    trace = training(2_000)
    assert "The player has" not in html(trace)
    with mock.patch("trace_tools.rendering.html.step_block", lambda shown: step_block(shown, 9_000)):
        page = html(trace)
    assert "The player has" in page and 'href="trace.yaml">Look at it' in page


def test_tricks_are_cut_and_made_visible() -> None:
    text = zlib.decompress(base64.b64decode(step_block(section(hostile_trace())).text)).decode()
    assert "\u202e" not in text and "\x1b" not in text and len(text) < 100_000
