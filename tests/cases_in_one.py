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


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each case, and fail with the values and errors of all cases that failed."""
    keys, cases = [names] if isinstance(names, str) else [*names], [*cases]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def together(**fixtures: Any) -> None:
            failed = []
            for index, case in enumerate(cases):
                values = (case,) if isinstance(names, str) else case
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
                    case_shown = ", ".join(f"{value!r:.100}" for value in values)
                    failed.append(f"{case_shown}: {type(error).__name__}: {error}")
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(cases)} cases failed", *failed]), pytrace=False)

        others = [parameter for name, parameter in inspect.signature(test).parameters.items() if name not in keys]
        together.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return together

    return decorated
