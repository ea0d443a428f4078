"""A fixture that builds the emulated device once for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.emulated_cuda.build import CannotBuild, compiler, library
from tests.programs import missing


@pytest.fixture(scope="session")
def emulated() -> None:
    """Build the device; skip the test if there is no compiler. If the compiler fails, the test fails."""
    try:
        compiler()
    except CannotBuild as error:
        missing(str(error))
    library()
