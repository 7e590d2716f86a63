"""What tests of the reader share."""

from __future__ import annotations

import pytest
from reader_talk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
