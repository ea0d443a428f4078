"""Combine the versions of a narrative call in all runs: its choice, its answer, its numbers, and other sentences."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from trace_tools.lecture.vocabulary import ANSWERS, decided
from trace_tools.trace.model import Ask, Choice, Narrative, Note, Table, Text, Varied
from trace_tools.trace.structure import from_plain
from trace_tools.tracing.merge.matching import Runs, steps_at
from trace_tools.tracing.merge.reader import JOURNAL, RunRecord
from trace_tools.tracing.merge.representative import NUMBER, as_key, template_of, words_of

Version = Mapping[str, Any]  # a narrative call as one run recorded it


def merged_narrative(own: Version, runs: Runs, position: int, index: int) -> Narrative:
    """Return a narrative call of the representative run with the versions of other runs, which are the calls with the
    same index in the steps at `position`.
    """
    choice: Choice | None = None

    def versions(some: Iterable[RunRecord]) -> list[Version]:
        recorded = [version for step in steps_at(position, some) for version in step.narrative[index : index + 1]]
        return recorded if choice is None else [_with_sentence(version, choice) for version in recorded]

    timed = versions(runs.timed)
    if all(version.get("choice") for version in timed):
        # decided by the samples of all runs that reached it
        choices = [version["choice"] for version in timed]
        samples = [sample for one in choices for sample in one["samples"]]
        choice = decided(Choice(choices[0]["low"], choices[0]["high"], samples))
        own, timed = _with_sentence(own, choice), versions(runs.timed)
    plain = {name: part for name, part in own.items() if name != "choice"}
    narrative: Narrative = from_plain(cast("Any", Narrative), plain, JOURNAL)
    if isinstance(narrative, Text):
        narrative = replace(narrative, choice=choice)
    if isinstance(narrative, Ask):
        answers = [version["answer"]["value"] for version in timed if version.get("answer")]
        if len(set(map(as_key, answers))) > 1:  # the median of numbers, or the most common text
            numbers = [value for value in answers if not isinstance(value, str)]
            is_number = len(numbers) == len(answers)
            value = statistics.median(numbers) if is_number else Counter(answers).most_common(1)[0][0]
            narrative = replace(narrative, answer=replace(narrative.answer, value=value, samples=answers))
    if not isinstance(narrative, Text | Note | Ask | Table):
        return narrative
    # `filled` also has the values of sentences that a run did not choose, which no reader sees
    if len({as_key({name: part for name, part in version.items() if name != "filled"}) for version in timed}) < 2:
        return narrative
    form = _form(own)
    other_forms = Counter(_form(version) for version in timed if _form(version) != form)
    texts = {
        _form(version): "another table" if isinstance(narrative, Table) else words_of(version) for version in timed
    }
    warm, cold = (
        [version for version in versions(some) if _form(version) == form]
        for some in (runs.warm or runs.cold, runs.cold if runs.warm else [])
    )
    varied = _varied_cells if isinstance(narrative, Table) else _varied_numbers
    return replace(
        narrative,
        varied=list(varied(own, warm, cold)) or None,
        others=[(texts[other], count) for other, count in other_forms.most_common()] or None,
    )


def _with_sentence(version: Version, choice: Choice) -> Version:
    """Return a run's version with the sentence for the choice of all runs."""
    sentence = version["choice"]["sentences"][ANSWERS.index(choice.answer or "undecided")]
    return {**version, "text": sentence, "choice": None}


def _form(version: Version) -> str:
    """Return the form of a version, which is equal for versions that differ only in their numbers."""
    if version.get("kind") == "table":
        return as_key([version.get("title"), version.get("columns"), len(version.get("rows") or [])])
    return template_of(words_of(version))[0]


def _varied_numbers(own: Version, warm: Sequence[Version], cold: Sequence[Version]) -> Iterator[Varied]:
    """Yield the numbers of a text that differ between the runs with this text."""
    in_warm, in_cold = ([template_of(words_of(version))[1] for version in versions] for versions in (warm, cold))
    for slot, number in enumerate(NUMBER.finditer(words_of(own))):
        samples, cold_samples = ([numbers[slot] for numbers in in_runs] for in_runs in (in_warm, in_cold))
        if len({*samples, *cold_samples}) > 1:
            yield Varied([*samples], [*cold_samples] or None, start=number.start(), end=number.end())


def _varied_cells(own: Version, warm: Sequence[Version], cold: Sequence[Version]) -> Iterator[Varied]:
    """Yield the cells of a table that differ between the runs with this table."""
    for row, cells in enumerate(own.get("rows") or []):
        for column in range(len(cells)):
            samples, cold_samples = ([version["rows"][row][column] for version in some] for some in (warm, cold))
            if len({as_key(cell) for cell in (*samples, *cold_samples)}) > 1:
                yield Varied(samples, cold_samples or None, row=row, column=column)
