"""Whatever valid options a producer has, also those at the ends of their ranges, a few hundred records are acknowledged, each once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykafka4 import Producer
from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.partitioners import NAMED
from pykafka4.testing import ModelServer

RECORDS = 300
SECONDS = 10.0
CHOICES: dict[str, tuple[Any, ...]] = {
    "batch_size": (1024, 1025, 16 * 1024, 64 << 20),
    "linger_ms": (0, None, 0.5, 20),
    "batch_bytes": (None, 1, 100),
    "batch_records": (None, 1, 7),
    "batching": ("partition", "combined"),
    "buffer_memory": (64 * 1024, 1 << 20, 64 << 20),
    "max_partition_bytes": (None, 4 * 1024, 64 * 1024),
    "max_request_size": (1024, 4096, 1 << 20),
    "max_message_bytes": (None, 700, 4096),
    "max_in_flight_requests_per_connection": (1, 2, 5),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "compression_min_bytes": (0, 500),
    "compression_max_ratio": (1.0, 0.01),
    "acks": ("all", 1),
    "enable_idempotence": (None, False),
    "retries": (None, 1, 2**31 - 1),
    "delivery_timeout_ms": (10_000, 120_000),
    "request_timeout_ms": (2_000, 30_000),
    "retry_backoff_ms": (1, 100),
    "metadata_max_age_ms": (50, 300_000),
    "metadata_max_idle_ms": (1, 300_000),
    "connections_max_idle_ms": (50, 540_000),
    "partitioner": (*NAMED,),
    "partitioner_ignore_keys": (False, True),
    "partitioner_adaptive_partitioning_enable": (False, True),
}


def drawn(seed: int) -> dict[str, Any]:
    """Options that go together."""
    random = Random(seed)
    while True:
        options = {name: random.choice(choices) for name, choices in CHOICES.items() if random.random() < 0.7}
        try:
            ProducerConfig.parse({"bootstrap_servers": "localhost:9092", **options})
        except ConfigError:
            continue
        return options


@pytest.mark.parametrize("seed", range(25))
def test_a_few_hundred_records_are_acknowledged_with_any_options(server: ModelServer, seed: int) -> None:
    options = drawn(seed)
    values = [b"%d " % n + b"." * (n % 90) for n in range(RECORDS)]
    with Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
        deliveries = [producer.send("t", value, key=b"k%d" % (n % 5) if n % 2 else None) for n, value in enumerate(values)]
        producer.flush(SECONDS)
        failed = [str(error) for delivery in deliveries if (error := delivery.exception(0)) is not None]
    assert not failed, (options, failed[:3])
    assert sorted(record.value for record in server.records("t")) == sorted(values), options
