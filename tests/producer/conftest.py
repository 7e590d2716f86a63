"""Model brokers, and producers that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import Producer
from pykafka4.testing import ModelServer
from tests.producer.producing import Maker


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    """Three brokers, topic `t` with three partitions."""
    server.create_topic("t", 3)
    return server


@pytest.fixture
def denied_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record for a partition that brokers deny fails after a fifth of a second: for tests of what follows from that."""
    monkeypatch.setattr("pykafka4.core.producer.topics.parking.MISSING_PARTITION_S", 0.2)


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    """Makes producers, and closes them in the end."""
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        made.append(Producer(bootstrap_servers=server.bootstrap_servers, **options))
        return made[-1]

    yield producer
    for one in made:
        one.close(0)
