"""Options of the producer reach what they are for: the accumulator's bounds, and the bytes in the log."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pykafka4.options.config import ProducerConfig
from pykafka4.producer import session as module
from pykafka4.producer.rates import RateLimits
from pykafka4.producer.topics import TopicPolicies
from pykafka4.testing import ModelServer
from pykafka4.wire.records.compression import CODECS
from tests.net.net_helpers import SECONDS
from tests.producer.producing import Maker

GIVEN: dict[str, tuple[Any, str, Any]] = {
    "batch_size": (12_345, "batch_size", 12_345),
    "buffer_memory": (1_234_567, "buffer_memory", 1_234_567),
    "max_partition_bytes": (654_321, "max_partition_bytes", 654_321),
    "max_request_size": (99_999, "max_request_size", 99_999),
}
PRODUCER = {"bootstrap_servers": "h:1"}
OWN: dict[str, tuple[Any, str, Any]] = {
    "linger_ms": (77, "linger", 0.077),
    "batch_bytes": (123, "batch_bytes", 123),
    "batch_records": (45, "batch_records", 45),
    "batching": ("combined", "combined", True),
    "compression_type": ("lz4", "codec", CODECS["lz4"]),
    "compression_min_bytes": (67, "compression_min_bytes", 67),
    "compression_max_ratio": (0.8, "compression_max_ratio", 0.8),
    "max_message_bytes": (8_900, "max_message_bytes", 8_900),
}


@pytest.mark.parametrize("option", GIVEN)
def test_the_accumulator_gets_the_option(make: Maker, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    value, argument, expected = GIVEN[option]
    seen: list[dict[str, Any]] = []
    real = module.Accumulator

    def accumulator(**arguments: Any) -> Any:
        seen.append(arguments)
        return real(**arguments)

    monkeypatch.setattr(module, "Accumulator", accumulator)
    make(**{option: value})
    assert seen[0][argument] == expected


def policies(**options: Any) -> TopicPolicies:
    limits = RateLimits((), lambda: 0.0, lambda: 0.0, contextlib.nullcontext(), lambda seconds: None)
    return TopicPolicies(ProducerConfig(**PRODUCER, **options), limits)


@pytest.mark.parametrize("option", OWN)
def test_a_topic_has_the_option_of_the_producer_or_its_own(option: str) -> None:
    value, field, expected = OWN[option]
    assert getattr(policies(**{option: value})("t"), field) == expected
    found = policies(topic_policies={"t-*": {option: value}})
    assert getattr(found("t-1"), field) == expected != getattr(found("other"), field)


@pytest.mark.parametrize(("option", "off"), [("batch_bytes", 0), ("batch_records", 0), ("max_message_bytes", 0), ("linger_ms", 30.0)])
def test_what_a_topic_turns_off_is_off_for_it(option: str, off: float) -> None:
    """Without linger a batch is sent after half of `delivery_timeout_ms`, so that its records do not expire unsent."""
    found = policies(**{option: 1_000}, delivery_timeout_ms=60_000, topic_policies={"t": {option: None}})
    assert getattr(found("t"), OWN[option][1]) == off != getattr(found("u"), OWN[option][1])


def test_a_level_is_that_of_its_codec() -> None:
    own = {"same": {"compression_type": "zstd"}, "other": {"compression_type": "gzip"}, "own": {"compression_level": 3}}
    found = policies(compression_type="zstd", compression_level=19, topic_policies=own)
    assert [found(topic).level for topic in ("any", "same", "other", "own")] == [19, 19, None, 3]


def test_the_exact_name_comes_first_then_the_first_pattern_and_only_that_counts() -> None:
    rows = {"orders-*": {"batch_records": 1}, "orders-eu": {"batch_records": 2}, "*": {"batch_bytes": 3}}
    found = policies(topic_policies=rows)
    seen = [(p.batch_records, p.batch_bytes) for p in map(found, ("orders-eu", "orders-us", "else"))]
    assert seen == [(2, 0), (1, 0), (0, 3)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_in_the_log_are_compressed_as_configured(server: ModelServer, make: Maker, codec: str) -> None:
    producer = make(compression_type=codec)
    assert producer.send("t", bytes(10_000), partition=0).result(SECONDS).offset == 0
    codecs = server.do(lambda cluster: [batch.header.attributes & 7 for batch in cluster.log("t", 0).batches])
    assert codecs == [CODECS[codec]]
    assert [record.value for record in server.records("t")] == [bytes(10_000)]
