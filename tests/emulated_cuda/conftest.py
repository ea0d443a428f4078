"""The emulated device, built once for the tests of this folder; without a compiler they are skipped, and say why."""

from __future__ import annotations

import pytest

from tests.emulated_cuda.build import CannotBuild, compiler, library


@pytest.fixture(scope="session")
def emulated() -> None:
    """Build the device. A compiler that can't build it is a failure, and its absence is not."""
    try:
        compiler()
    except CannotBuild as error:
        pytest.skip(str(error))
    library()
