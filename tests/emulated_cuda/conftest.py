"""The emulated device, built once for the tests of this folder. Without a compiler they are skipped with a reason."""

from __future__ import annotations

import pytest

from tests.emulated_cuda.build import CannotBuild, compiler, library


@pytest.fixture(scope="session")
def emulated() -> None:
    """Build the device. Without a compiler, skip; if the compiler fails, the test fails."""
    try:
        compiler()
    except CannotBuild as error:
        pytest.skip(str(error))
    library()
