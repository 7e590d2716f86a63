"""The harness of a group member for the tests of `core.group`."""

from __future__ import annotations

import pytest

from tests.core.consumer_harness import ConsumerHarness


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness(group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=60_000)
    harness.cluster.set("t", [1, 2, 1])
    return harness
