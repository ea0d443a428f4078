"""One test for many cases: `@each` takes the arguments of `pytest.mark.parametrize` and makes a single test.

@each(("text", "number"), [("1", 1), ("2", 2)])
def test_texts_are_numbers(text, number):
    assert int(text) == number

All cases run, and the message names each failed case. Each case has its own folder `tmp_path`, and `monkeypatch` is
undone after each case.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest


def each(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each case, and fail with the names and errors of all cases that failed."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    several = not isinstance(names, str) or len(keys) > 1
    cases = [*cases]
    labels = None if ids is None or callable(ids) else [*ids]

    def name_of(index: int, case: Any, values: Sequence[Any]) -> str:
        if labels is not None:
            return f"{labels[index]}"
        if getattr(case, "id", None) is not None and hasattr(case, "marks"):
            return str(case.id)
        return ", ".join(str(ids(value)) if callable(ids) else f"{value!r:.100}" for value in values)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def together(**fixtures: Any) -> None:
            failed = []
            for index, case in enumerate(cases):
                values = case.values if hasattr(case, "marks") else case if several else (case,)
                own = fixtures | dict(zip(keys, values, strict=True))
                if "tmp_path" in fixtures:
                    own["tmp_path"] = fixtures["tmp_path"] / f"case-{index}"
                    own["tmp_path"].mkdir()
                try:
                    with ExitStack() as undone:
                        if "monkeypatch" in fixtures:
                            own["monkeypatch"] = undone.enter_context(fixtures["monkeypatch"].context())
                        test(**own)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{name_of(index, case, values)}: {type(error).__name__}: {error}")
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(cases)} cases failed", *failed]), pytrace=False)

        others = [parameter for name, parameter in inspect.signature(test).parameters.items() if name not in keys]
        together.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return together

    return decorated
