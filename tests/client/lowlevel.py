"""What tests of the stateless calls share."""

from __future__ import annotations

from pykafka4 import BrokerError, TopicPartition

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def code_of(error: object) -> str:
    """The name of a broker's error code."""
    assert isinstance(error, BrokerError), error
    return error.code.name
