"""Options of the producer reach what they are for: the accumulator's bounds, and the bytes in the log."""

from __future__ import annotations

from typing import Any

import pytest
from net_helpers import SECONDS
from producing import Maker

from pykafka4.producer import core as module
from pykafka4.testing import ModelServer
from pykafka4.wire.records.compression import CODECS

GIVEN: dict[str, tuple[Any, str, Any]] = {
    "linger_ms": (77, "linger", 0.077),
    "batch_size": (12_345, "batch_size", 12_345),
    "buffer_memory": (1_234_567, "buffer_memory", 1_234_567),
    "max_partition_bytes": (654_321, "max_partition_bytes", 654_321),
    "max_request_size": (99_999, "max_request_size", 99_999),
    "compression_type": ("lz4", "codec", CODECS["lz4"]),
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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_in_the_log_are_compressed_as_configured(server: ModelServer, make: Maker, codec: str) -> None:
    producer = make(compression_type=codec)
    assert producer.send("t", bytes(10_000), partition=0).result(SECONDS).offset == 0
    codecs = server.do(lambda cluster: [batch.header.attributes & 7 for batch in cluster.log("t", 0).batches])
    assert codecs == [CODECS[codec]]
    assert [record.value for record in server.records("t")] == [bytes(10_000)]
