from __future__ import annotations

import math
from unittest import mock

import pytest

from trace_tools.util.replaced import replaced


def test_it_is_as_mock_does_it() -> None:
    for replace in (replaced, mock.patch.object):
        before = math.sqrt
        with pytest.raises(ValueError, match="inside"), replace(math, "sqrt", len):
            assert math.sqrt is len
            raise ValueError("inside")
        assert math.sqrt is before


def test_what_is_not_there_is_no_place_for_another() -> None:
    with pytest.raises(AttributeError), replaced(math, "nothing_of_that_name", len):
        pass
