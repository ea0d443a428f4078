"""What a lecture's abbreviations stand for, found as its prose says it and in no other way."""

from __future__ import annotations

from tests.cases_in_one import each
from trace_tools.pages.search import abbreviations


@each(
    ("text", "said"),
    [
        ("A mixture of experts (MoE) has many.", [("MoE", "mixture of experts")]),
        ("counted in floating-point operations (FLOPs).", [("FLOP", "floating-point operations")]),
        ("divide by the root mean square (RMS) of it", [("RMS", "root mean square")]),
        ("the model FLOPs utilization, MFU. An MFU of 0.5", [("MFU", "model FLOPs utilization")]),
        ("HFU, hardware FLOPs utilization, counts", [("HFU", "hardware FLOPs utilization")]),
        ("RoPE (rotary position embedding) turns", [("RoPE", "rotary position embedding")]),
        ("low-rank adaptation (LoRA) trains less", [("LoRA", "low-rank adaptation")]),
        ("A GPU (the processor that trains models) is rented", []),
        ("its own memory (HBM) is fast", []),
        ("weights, AdamW keeps two averages", []),
        ("the first (A), the second (B)", []),
        ("", []),
    ],
)
def test_an_abbreviation_is_found_beside_what_it_stands_for(text: str, said: list[tuple[str, str]]) -> None:
    assert abbreviations([text]) == said


def test_what_was_said_first_stays() -> None:
    texts = ["mixture of experts (MoE)", "MoE, model of everything, is another", "a margin of error (MoE)"]
    assert abbreviations(texts) == [("MoE", "mixture of experts")]


def test_long_texts_take_no_time() -> None:
    assert abbreviations(["word " * 20_000, "A B " * 20_000, "(" * 20_000, "AB, " * 5_000, "a-" * 200_000]) == []
