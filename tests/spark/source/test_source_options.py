"""Options of a read as a whole: defaults as the JVM connector's, what a batch refuses, isolation, options that reads do not need."""

from __future__ import annotations

import logging
import pickle

import pytest

from pykafka4.bounds import EARLIEST, LATEST
from pykafka4.errors import ConfigError
from pykafka4.spark.options import Use
from pykafka4.spark.source.options import SourceOptions

NEEDED = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


def parse(use: Use = Use.BATCH_READ, /, **options: str) -> SourceOptions:
    return SourceOptions.parse({**NEEDED, **options}, use)


def test_defaults_are_those_of_the_jvm_connector() -> None:
    batch, stream = parse(), parse(Use.STREAM_READ)
    assert (batch.starting.timestamp, batch.ending.timestamp, stream.starting.timestamp) == (EARLIEST, LATEST, LATEST)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.latest_if_no_such_time
    assert batch.isolation_level == "read_uncommitted"
    assert (batch.poll_timeout, stream.max_trigger_delay) == (120.0, 900.0)
    assert parse(Use.STREAM_READ, maxTriggerDelay="0").max_trigger_delay == 0
    assert batch.min_partitions is batch.max_records_per_partition is batch.columns is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "option startingOffsets=latest: a batch that starts there has no records"),
        ({"endingOffsets": "earliest"}, "option endingOffsets=earliest: a batch that ends there has no records"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "option startingOffsets: -1 of t-0 is latest, and a batch that starts there"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "option endingOffsets: -2 of t-0 is earliest, and a batch that ends there"),
        ({"startingOffsetsByTimestampStrategy": "never"}, "option startingOffsetsByTimestampStrategy='never': takes error or latest"),
        ({"columns": " ,"}, "option columns=.*: takes names of columns"),
        ({"isolationLevel": "serializable"}, "option isolationLevel='serializable': takes read_uncommitted or read_committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "option kafka.auto.offset.reset is not supported: startingOffsets says"),
        ({"kafka.key.deserializer": "x"}, "option kafka.key.deserializer is not supported: keys and values are always bytes"),
        ({"kafka.value.deserializer": "x"}, "option kafka.value.deserializer is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "option kafka.enable.auto.commit is not supported"),
        ({"kafka.interceptor.classes": "x"}, "option kafka.interceptor.classes is not supported"),
    ],
)
def test_what_a_batch_refuses(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse(**options)


def test_a_stream_may_start_at_the_end() -> None:
    assert parse(Use.STREAM_READ, startingOffsets='{"t":{"0":-1}}').starting.offsets
    with pytest.raises(ConfigError, match="option minOffsetsPerTrigger=5 is more than maxOffsetsPerTrigger=4"):
        parse(Use.STREAM_READ, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")


def test_the_isolation_level_has_two_names() -> None:
    assert parse(isolationLevel="read_committed").isolation_level == "read_committed"
    assert parse(**{"kafka.isolation.level": "read_committed"}).consumer["isolation_level"] == "read_committed"
    with pytest.raises(ConfigError, match=r"options isolationLevel=read_committed and kafka.isolation.level=read_uncommitted differ"):
        parse(isolationLevel="read_committed", **{"kafka.isolation.level": "read_uncommitted"})


def test_options_of_groups_have_no_effect_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pykafka4.spark"):
        found = parse(**{"kafka.group.id": "g", "kafka.session.timeout.ms": "1000", "kafka.max.poll.records": "7"})
    assert set(found.client) == {"bootstrap_servers"}
    assert found.consumer == {"max_poll_records": 7, "isolation_level": "read_uncommitted"}
    assert "option kafka.group.id has no effect here: reads are not members of a group" in caplog.messages


def test_they_travel_and_show_no_secret() -> None:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
    found = parse(**{f"kafka.{name}": value for name, value in sasl.items()})
    assert "hunter2" not in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert "hunter2" not in repr(again)
