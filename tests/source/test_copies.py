"""Values that stand in several places, because one may not import the other, are equal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from integration.judge import log_format
from integration.kafka.jars import KAFKA
from pykafka4.assignors.builtin import ASSIGNORS
from pykafka4.core.producer.produce.requests import MOST_IN_FLIGHT
from pykafka4.errors import ConfigError
from pykafka4.options.config import ConsumerConfig, ProducerConfig
from pykafka4.testing.storage.log import REMEMBERED
from pykafka4.wire.records.compression import CODECS

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {"bootstrap_servers": "localhost:9092"}


def found(pattern: str, *path: str) -> str:
    """The group of `pattern`, which occurs once in this file."""
    (value,) = re.findall(pattern, ROOT.joinpath(*path).read_text())
    return str(value)


def range_of(config: Any, option: str) -> list[str]:
    """The words that an option takes, as docs/options.md lists them."""
    return str(attrs.fields_dict(config)[option].metadata["range"]).split(", ")


def test_codecs_are_those_of_the_option_of_both_cores_and_of_the_judge() -> None:
    assert range_of(ProducerConfig, "compression_type") == list(CODECS)
    assert int(found(r"LAST_CODEC = (\d+)", "pykafka4", "wire", "records", "compiled", "_hot.pyx")) == max(CODECS.values())
    assert log_format.CODECS.keys() == set(CODECS.values())


def test_assignors_are_those_of_the_option() -> None:
    assert range_of(ConsumerConfig, "partition_assignment_strategy") == list(ASSIGNORS)
    for name in ASSIGNORS:
        assert ConsumerConfig.parse({**SERVERS, "partition_assignment_strategy": name}).partition_assignment_strategy == (name,)


def test_the_option_allows_as_many_batches_in_flight_as_the_client_sends_and_brokers_remember() -> None:
    assert MOST_IN_FLIGHT == REMEMBERED
    ProducerConfig.parse({**SERVERS, "max_in_flight_requests_per_connection": MOST_IN_FLIGHT})
    with pytest.raises(ConfigError, match=f"brokers remember the last {MOST_IN_FLIGHT} batches"):
        ProducerConfig.parse({**SERVERS, "max_in_flight_requests_per_connection": MOST_IN_FLIGHT + 1})


def test_all_backends_start_the_same_release_of_kafka() -> None:
    assert found(r"<kafka\.version>([^<]+)</kafka\.version>", "integration", "kafka", "pom.xml") == KAFKA
    assert found(r'"KAFKA_VERSION", "(\d[^"]+)"', "Vagrantfile") == KAFKA
