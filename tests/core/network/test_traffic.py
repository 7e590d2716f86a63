"""The counters of one broker, as another thread reads them."""

from __future__ import annotations

import sys
from types import FrameType

from pykafka4.core.network.traffic import BrokerTraffic, _name
from pykafka4.wire.protocol import declared  # noqa: F401  # importing it fills REQUESTS

PRODUCE, FETCH, METADATA = 0, 1, 3


def test_a_snapshot_is_taken_while_the_loop_counts_a_request_of_a_new_kind() -> None:
    traffic = BrokerTraffic()
    traffic.answered(PRODUCE, 0.1, 10)
    traffic.answered(FETCH, 0.1, 10)

    def loop(frame: FrameType, event: str, _: object) -> None:
        """Count a response while the snapshot is between two requests."""
        if event == "call" and frame.f_code is _name.__code__:
            traffic.answered(METADATA, 0.1, 10)

    sys.setprofile(loop)
    try:
        found = traffic.snapshot()
    finally:
        sys.setprofile(None)
    assert found.durations.keys() == {"Produce", "Fetch"}
    assert traffic.snapshot().durations.keys() == {"Produce", "Fetch", "Metadata"}


def test_bytes_in_both_directions_include_the_size_field() -> None:
    traffic = BrokerTraffic()
    traffic.sent((10).to_bytes(4, "big") + bytes(10))
    traffic.answered(METADATA, 0.1, 10)  # the frame comes without its size
    assert (traffic.snapshot().sent_bytes, traffic.snapshot().received_bytes) == (14, 14)
