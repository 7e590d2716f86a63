"""What tests of the reader share."""

from __future__ import annotations

import pytest

from tests.consumer.reader_harness import ReaderHarness


@pytest.fixture
def harness() -> ReaderHarness:
    return ReaderHarness()
