"""The reader of a stream without Spark, on the model cluster: its methods in the order of Spark's calls."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from pykafka4.errors import ConfigError, KafkaTimeoutError
from pykafka4.producer import Producer
from pykafka4.spark import data_source, workers
from pykafka4.spark.source.losses import DataLost
from pykafka4.spark.source.stream import KafkaStreamReader
from pykafka4.testing import ModelServer

Readers = Callable[..., KafkaStreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def readers(server: ModelServer) -> Iterator[Readers]:
    """Makes readers of topic t, and stops them."""
    made: list[KafkaStreamReader] = []

    def make(**options: Any) -> KafkaStreamReader:
        given = {"kafka.bootstrap.servers": server.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "20s", **options}
        if not {"subscribe", "assign", "subscribePattern"} & options.keys():
            given["subscribe"] = "t"
        reader = data_source.stream_reader(given, data_source.schema(given))
        assert isinstance(reader, KafkaStreamReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()
    workers.pool().close()


def crossing(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset after its way through the JVM."""
    return dict(json.loads(json.dumps(offset)))


def turn(
    reader: KafkaStreamReader, start: dict[str, Any] | None = None, limit: ReadLimit = ALL
) -> tuple[dict[str, Any], list[str], list[bytes]]:
    """One trigger: the end of the batch, its ranges, its values."""
    begin = crossing(reader.initialOffset()) if start is None else start
    end = crossing(reader.latestOffset(begin, limit))
    begin = crossing(reader.initialOffset()) if start is None else start  # Spark asks twice
    parts = reader.partitions(begin, end)
    values: list[bytes] = []
    for part in parts:
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))):
            values += batch.column("value").to_pylist()
    return end, [str(part) for part in parts], values


@pytest.mark.model(topics={"t": 2})
def test_a_stream_begins_at_the_end_and_reads_what_comes(server: ModelServer, readers: Readers) -> None:
    server.produce("t", b"old")
    reader = readers()
    end, ranges, _ = turn(reader)
    assert ranges == []
    server.produce("t", b"a", b"b", partition=1)
    end, ranges, values = turn(reader, end)
    assert (ranges, values) == (["t-1 0 to 2"], [b"a", b"b"])
    assert reader.latestOffset(end, ALL) is end


@pytest.mark.model(topics={"t": 1})
def test_the_first_batch_run_again_has_the_same_ranges_and_tasks(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *map(str, range(100)))
    end, ranges, values = turn(readers(startingOffsets="earliest", minPartitions="4"))
    server.produce("t", *map(str, range(100)))
    again = readers(minPartitions="2")  # the options have changed, too
    assert list(map(str, again.partitions(crossing(again.initialOffset()), end))) == ranges
    assert len(ranges) == 4
    assert sorted(map(int, values)) == list(range(100))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
    ],
)
def test_the_default_limit(readers: Readers, options: dict[str, str], limit: ReadLimit) -> None:
    assert readers(**options).getDefaultReadLimit() == limit


@pytest.mark.model(topics={"t": 1})
def test_limits_hold_unless_the_trigger_overrides_them(server: ModelServer, readers: Readers) -> None:
    reader = readers(startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    end, _, _ = turn(reader, limit=limit)
    server.produce("t", *"abcd")
    assert reader.latestOffset(end, limit) == end
    server.produce("t", *"efghij")
    end, ranges, _ = turn(reader, end, limit)
    assert ranges == ["t-0 0 to 7"]
    assert reader.latestOffset(end, limit) == end  # 3 wait
    assert turn(reader, end, ALL)[1] == ["t-0 7 to 10"]


@pytest.mark.model(topics={"t": 1})
def test_available_now_ends_where_the_logs_ended(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *"abc")
    reader = readers(startingOffsets="earliest")
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    server.produce("t", *"def")
    end, _, values = turn(reader)
    assert values == [b"a", b"b", b"c"]
    assert reader.latestOffset(end, ALL) is end


@pytest.mark.model(topics={"t": 1})
def test_new_partitions_are_found_with_the_next_batch(server: ModelServer, readers: Readers) -> None:
    reader = readers()
    end, _, _ = turn(reader)
    server.do(lambda cluster: cluster.add_partitions("t", 2))
    server.produce("t", b"old", partition=0)
    server.produce("t", b"new", partition=1)
    assert turn(reader, end)[1:] == (["t-0 0 to 1", "t-1 0 to 1"], [b"old", b"new"])


@pytest.mark.model(topics={"t": 2})
def test_what_is_assigned_is_read(server: ModelServer, readers: Readers) -> None:
    server.produce("t", b"0", partition=0)
    server.produce("t", b"1", partition=1)
    assert turn(readers(assign='{"t": [1]}', startingOffsets="earliest"))[2] == [b"1"]
    with pytest.raises(ConfigError, match="t has no partition 2; its number of partitions is 2"):
        turn(readers(assign='{"t": [1, 2]}'))


@pytest.mark.model(topics={"t": 2})
def test_starting_offsets_name_each_partition(readers: Readers) -> None:
    with pytest.raises(ConfigError, match=r"option startingOffsets lacks t-1"):
        turn(readers(startingOffsets='{"t": {"0": -2}}'))


@pytest.mark.model(topics={"t": 1})
def test_a_query_may_start_within_an_open_transaction(server: ModelServer, readers: Readers) -> None:
    reader = readers(startingOffsets='{"t": {"0": 1}}', isolationLevel="read_committed")
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        with producer.transaction():
            for value in "abc":
                producer.send("t", value)
            producer.flush()
            end, ranges, _ = turn(reader)
            assert ranges == []
    assert turn(reader, end)[2] == [b"b", b"c"]


@pytest.mark.model(release="2.4", topics={"t": 1})
def test_brokers_without_topic_ids_may_be_upgraded(server: ModelServer, readers: Readers) -> None:
    """Once they have ids, the zeros of the time before would look like those of a topic that was deleted."""
    end, _, _ = turn(readers())
    assert "topicIds" not in end["@pykafka4"]


@pytest.mark.model(topics={"t": 1})
def test_a_topic_that_is_made_again_is_noticed(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *"abc")
    end, _, _ = turn(readers(startingOffsets="earliest"))
    server.do(lambda cluster: cluster.delete_topic("t"))
    server.create_topic("t", 1)
    server.produce("t", *"wxyz")
    with pytest.raises(DataLost, match=r"topic t was deleted and created again .*; option failOnDataLoss=false"):
        turn(readers(), end)
    end, _, values = turn(readers(failOnDataLoss="false"), end)
    assert values == [b"w", b"x", b"y", b"z"]
    assert turn(readers(), end)[1] == []


@pytest.mark.model(topics={"t": 1, "other": 1})
def test_a_topic_that_is_deleted_during_a_run_is_noticed(server: ModelServer, readers: Readers) -> None:
    reader = readers(subscribe="t,other")
    end, _, _ = turn(reader)
    server.do(lambda cluster: cluster.delete_topic("other"))
    with pytest.raises(DataLost, match=r"other-0: in the checkpoint, but not in the subscription any more: the topic was deleted"):
        turn(reader, end)


@pytest.mark.model(topics={"t": 1})
def test_a_query_without_its_brokers_fails_in_time_and_names_them(server: ModelServer, readers: Readers) -> None:
    reader = readers(**{"kafkaConsumer.pollTimeoutMs": "1s"})
    end, _, _ = turn(reader)
    server.close()
    with pytest.raises(KafkaTimeoutError, match=r"t-0: ListOffsets: no answer within 1 s .*127\.0\.0\.1"):
        turn(reader, end)


@pytest.mark.model(topics={"t": 2})
def test_the_report_has_the_ends_of_the_logs_and_what_is_behind(server: ModelServer, readers: Readers) -> None:
    reader = readers(startingOffsets="earliest")
    assert reader.reportLatestOffset() is None
    server.produce("t", *"abcde", partition=1)
    end, _, _ = turn(reader, limit=ReadMaxRows(2))
    assert end["t"] == {"0": 0, "1": 2}
    assert reader.reportLatestOffset() == {"t": {"0": 0, "1": 5}, "@behind": 3}


@pytest.mark.model(topics={"t": 1})
def test_processed_offsets_are_committed_and_not_those_under_way(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *"abc")
    reader = readers(startingOffsets="earliest", commitOffsetsToGroup="lag")
    end, _, _ = turn(reader)
    assert server.committed("lag") == {}
    turn(reader, end)
    assert server.committed("lag") == {("t", 0): 3}


@pytest.mark.model(topics={"t": 1})
def test_a_commit_that_fails_is_a_warning(server: ModelServer, readers: Readers, caplog: pytest.LogCaptureFixture) -> None:
    server.produce("t", *"abc")
    reader = readers(startingOffsets="earliest", commitOffsetsToGroup="lag")
    end, _, _ = turn(reader)
    server.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=2)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            server.produce("t", b"d")
            end, ranges, _ = turn(reader, end)
            assert len(ranges) == 1
    warnings = [record.getMessage() for record in caplog.records if "commitOffsetsToGroup" in record.getMessage()]
    assert len(warnings) == 1
    assert "lag" in warnings[0]


@pytest.mark.model(topics={"t": 1})
def test_offsets_whose_commit_failed_are_committed_again(server: ModelServer, readers: Readers) -> None:
    server.produce("t", *"abc")
    reader = readers(startingOffsets="earliest", commitOffsetsToGroup="lag")
    end, _, _ = turn(reader)
    server.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=1)
    turn(reader, end)
    assert server.committed("lag") == {}
    turn(reader, end)
    assert server.committed("lag") == {("t", 0): 3}


@pytest.mark.model(topics={"t": 1})
def test_a_stopped_reader_leaves_no_thread(server: ModelServer, readers: Readers) -> None:
    before = set(threading.enumerate())
    reader = readers()
    turn(reader)
    assert set(threading.enumerate()) > before
    reader.stop()
    assert set(threading.enumerate()) == before
    reader.stop()


def test_making_and_pickling_a_reader_connects_to_nothing(readers: Readers) -> None:
    reader = readers(**{"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert pickle.loads(pickle.dumps(reader)).initialOffset() == reader.initialOffset()


def test_an_offset_of_a_later_version_is_refused(readers: Readers) -> None:
    with pytest.raises(ConfigError, match="install the version"):
        readers().latestOffset({"@pykafka4": {"version": 9}}, ALL)


def test_a_refused_stream_raises_the_reason_when_the_query_starts() -> None:
    """And not earlier: PySpark would replace the reason by an UnboundLocalError."""
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "endingOffsets": "latest"}
    refused = data_source.stream_reader(given, data_source.schema(given))
    for question in (refused.initialOffset, lambda: refused.latestOffset({}, ALL), lambda: refused.partitions({}, {})):
        with pytest.raises(ConfigError, match="option endingOffsets is for batch reads"):
            question()
    refused.stop()
