from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.rendering.browsing import open_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    opened = open_browser()
    yield opened
    opened.quit()
