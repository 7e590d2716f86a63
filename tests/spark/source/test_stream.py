"""Streams of `format("pykafka4")` on real brokers: no record is lost, and none comes twice, through failures and restarts."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Client, Producer
from tests.spark.source.jobs import Job, counted, delete_before, offsets, options, produce, wait_failed

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


@pytest.fixture
def job(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[Job]:
    """A query of a topic with two partitions; nothing runs when the test has ended."""
    cluster.create_topic(topic, 2)
    yield Job(spark, options(cluster, subscribe=topic), tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


class SinkFailure(Exception):
    """The failure of a sink."""


def fail_once(number: int, then: Callable[[], None] = lambda: None) -> Callable[[int], None]:
    """A sink that fails in this batch, once; something happens before."""
    left = [number]

    def before(batch: int) -> None:
        if batch in left:
            left.remove(batch)
            then()
            raise SinkFailure(f"batch {batch}")

    return before


# ---------------------------------------------------------------- where a query starts


@pytest.mark.main_job
def test_a_query_starts_at_latest_and_reads_what_is_written_then(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100))
    query = job.start()
    job.wait_begun(query)
    produce(cluster, topic, range(100, 300))
    job.wait_for(200, query)
    query.stop()
    assert job.values == counted(range(100, 300))


def test_records_that_arrive_during_the_first_batch_are_read(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100))
    job.before = lambda batch: produce(cluster, topic, range(100, 200)) if batch == 0 else None
    query = job.start()
    job.wait_for(100, query)
    query.stop()
    assert job.values == counted(range(100, 200))


def test_a_first_batch_that_fails_begins_again_where_it_began(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100))
    job.before = fail_once(0, lambda: produce(cluster, topic, range(100, 150)))
    assert "SinkFailure" in wait_failed(job.start())
    produce(cluster, topic, range(150, 250))
    job.run()
    assert job.values == counted(range(100, 250))


def test_the_second_batch_run_again_has_the_records_of_its_first_run(job: Job, cluster: Cluster, topic: str) -> None:
    job.before = fail_once(1)
    query = job.start()
    job.wait_begun(query)
    produce(cluster, topic, range(10))
    assert "SinkFailure" in wait_failed(query)
    produce(cluster, topic, range(10, 30))
    job.run()
    assert job.values == counted(range(30))
    assert set(dict(job.batches)[1]) <= set(map(str, range(10)))


def test_starting_offsets_by_number_earliest_and_latest(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10), partition=0)
    produce(cluster, topic, range(100, 110), partition=1)
    job.run(startingOffsets=f'{{"{topic}": {{"0": 7, "1": -2}}}}')
    assert job.values == counted([7, 8, 9, *range(100, 110)])


def test_starting_offsets_behind_the_end_of_a_log_are_refused(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10), partition=0)
    text = wait_failed(job.start(startingOffsets=f'{{"{topic}": {{"0": 11, "1": -1}}}}'))
    assert f"option startingOffsets: offset 11 of {topic}-0 is past the end of the log, 10" in text


def test_starting_timestamp(job: Job, cluster: Cluster, topic: str) -> None:
    begin = 1_700_000_000_000
    with Producer(**cluster.client) as producer:
        for number in range(20):
            producer.send(topic, str(number), partition=number % 2, timestamp_ms=begin + number)
    job.run(startingTimestamp=begin + 15)
    assert job.values == counted(range(15, 20))


def test_a_missing_topic_is_named(job: Job) -> None:
    assert "the cluster lacks these topics: missing-topic" in wait_failed(job.start(subscribe="missing-topic", failOnDataLoss="false"))


# ---------------------------------------------------------------- idle, restarted, ending


def test_idle_triggers_have_no_batch(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10))
    query = job.start(trigger={"processingTime": "20 milliseconds"}, startingOffsets="earliest")
    job.wait_for(10, query)
    time.sleep(3.0)
    query.stop()
    assert len(job.batches) == 1


def test_a_restarted_query_goes_on_where_it_was(job: Job, cluster: Cluster, topic: str) -> None:
    for part in range(3):
        produce(cluster, topic, range(part * 50, part * 50 + 50))
        job.run(startingOffsets="earliest")
    assert job.sizes == [50, 50, 50]
    assert job.values == counted(range(150))


def test_available_now_ends_while_a_producer_writes(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100))
    numbers, stop = itertools.count(100), threading.Event()

    def write() -> None:
        with Producer(**cluster.client) as producer:
            while not stop.wait(0.1):  # slower than any machine runs batches of 40
                producer.send(topic, str(next(numbers)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        job.run(startingOffsets="earliest", maxOffsetsPerTrigger=40)
    finally:
        stop.set()
        writer.join()
    assert all(size <= 41 for size in job.sizes)  # the share of a partition is one offset at least
    job.run()
    assert job.values == counted(range(next(numbers)))


def test_trigger_once_reads_all_whatever_the_limit(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100))
    job.start({"once": True}, startingOffsets="earliest", maxOffsetsPerTrigger=10).awaitTermination(60)
    assert job.sizes == [100]


# ---------------------------------------------------------------- limits


def test_a_limit_is_divided_by_backlog_and_starves_nobody(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(1000), partition=0)
    produce(cluster, topic, [1000], partition=1)
    job.run(startingOffsets="earliest", maxOffsetsPerTrigger=300)
    assert "1000" in job.batches[0][1]
    assert job.sizes == [300, 300, 300, 101]
    assert job.values == counted(range(1001))


def test_a_batch_waits_for_the_minimum_until_the_delay_is_over(job: Job, cluster: Cluster, topic: str) -> None:
    query = job.start(minOffsetsPerTrigger=100, maxTriggerDelay="8s")
    job.wait_begun(query)
    produce(cluster, topic, range(99))
    time.sleep(2.0)
    assert job.sizes == []
    produce(cluster, topic, [99])
    job.wait_for(100, query)
    produce(cluster, topic, range(100, 110))
    job.wait_for(110, query)  # after the delay
    query.stop()
    assert job.sizes == [100, 10]
    assert job.values == counted(range(110))


def test_a_minimum_over_the_maximum_is_refused(job: Job) -> None:
    with pytest.raises(AnalysisException, match="minOffsetsPerTrigger=11"):
        job.start(minOffsetsPerTrigger=11, maxOffsetsPerTrigger=10)


# ---------------------------------------------------------------- new partitions and topics


def test_a_partition_that_is_added_during_a_run_is_read_from_its_first_record(job: Job, cluster: Cluster, topic: str) -> None:
    query = job.start(**{"kafka.metadata.max.age.ms": 200})
    job.wait_begun(query)
    produce(cluster, topic, range(10))
    job.wait_for(10, query)
    cluster.add_partitions(topic, 3)
    produce(cluster, topic, range(10, 20), partition=2)
    job.wait_for(20, query)
    query.stop()
    assert job.values == counted(range(20))


def test_a_partition_that_is_added_between_runs_is_read_from_its_first_record(job: Job, cluster: Cluster, topic: str) -> None:
    job.run()
    cluster.add_partitions(topic, 4)
    produce(cluster, topic, range(40), partition=3)
    job.before = fail_once(1)
    assert "SinkFailure" in wait_failed(job.start())
    job.run()
    assert job.values == counted(range(40))


def test_new_topics_of_a_pattern_are_read_from_their_first_records(job: Job, cluster: Cluster, topic: str) -> None:
    job.options = options(cluster, subscribePattern=f"{topic}-[ab]")
    job.run()
    cluster.create_topic(f"{topic}-a", 1)
    produce(cluster, f"{topic}-a", range(10))
    cluster.create_topic(f"{topic}-c", 1)
    produce(cluster, f"{topic}-c", range(100, 110))
    job.run()
    cluster.create_topic(f"{topic}-b", 1)
    produce(cluster, f"{topic}-b", range(10, 30))
    job.run()
    assert job.values == counted(range(30))


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize("when", ["before", "during"])
def test_deleted_records_are_an_error(job: Job, cluster: Cluster, topic: str, when: str) -> None:
    produce(cluster, topic, range(100), partition=0)
    first = job.run(startingOffsets="earliest", maxOffsetsPerTrigger=1000)
    assert job.values == counted(range(100)), first.exception()
    produce(cluster, topic, range(100, 200), partition=0)
    if when == "before":
        delete_before(cluster, topic, 0, 150)
    else:
        job.before = lambda batch: delete_before(cluster, topic, 0, 150) if batch == 1 else None
    text = wait_failed(job.start())
    assert f"{topic}-0" in text
    assert "failOnDataLoss" in text
    assert job.values == counted(range(100))


@pytest.mark.parametrize("when", ["before", "during"])
def test_deleted_records_are_skipped_if_losses_are_allowed(job: Job, cluster: Cluster, topic: str, when: str) -> None:
    produce(cluster, topic, range(100), partition=0)
    job.run(startingOffsets="earliest")
    produce(cluster, topic, range(100, 200), partition=0)
    if when == "before":
        delete_before(cluster, topic, 0, 150)
    else:
        job.before = lambda batch: delete_before(cluster, topic, 0, 150) if batch == 1 else None
    job.run(failOnDataLoss="false")
    assert job.values == counted([*range(100), *range(150, 200)])


def test_a_deleted_topic_ends_a_query(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10))
    query = job.start(startingOffsets="earliest", **{"kafka.metadata.max.age.ms": 200})
    job.wait_for(10, query)
    cluster.delete_topic(topic)
    text = wait_failed(query)
    assert f"{topic}-0" in text
    assert "the topic was deleted" in text


def test_a_recreated_topic_ends_a_query(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10))
    job.run(startingOffsets="earliest")
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 2)
    produce(cluster, topic, range(100, 200))
    text = wait_failed(job.start())
    assert f"topic {topic} was deleted and created again" in text


def test_a_recreated_topic_is_read_from_its_first_record_if_losses_are_allowed(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10))
    query = job.start(startingOffsets="earliest", failOnDataLoss="false", **{"kafka.metadata.max.age.ms": 200})
    job.wait_for(10, query)
    cluster.delete_topic(topic)
    time.sleep(1.0)  # some triggers without the topic
    cluster.create_topic(topic, 2)
    produce(cluster, topic, range(100, 200))
    job.wait_for(110, query)
    query.stop()
    assert job.values == counted([*range(10), *range(100, 200)])


# ---------------------------------------------------------------- offsets without records


def test_aborted_transactions_at_the_end_do_not_stall_a_query(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(10), partition=0)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        for block in range(3):
            with pytest.raises(SinkFailure), producer.transaction():
                for number in range(50):
                    producer.send(topic, f"aborted {block} {number}", partition=0)
                producer.flush()
                raise SinkFailure
    job.run(startingOffsets="earliest", isolationLevel="read_committed")
    assert job.values == counted(range(10))
    produce(cluster, topic, range(10, 20), partition=0)
    job.run(isolationLevel="read_committed")
    assert job.values == counted(range(20))


def test_an_open_transaction_is_read_when_it_is_committed(job: Job, cluster: Cluster, topic: str) -> None:
    query = job.start(isolationLevel="read_committed")
    job.wait_begun(query)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(20):
                producer.send(topic, str(number))
            producer.flush()
            time.sleep(2.0)
            assert job.values == counted([])
    job.wait_for(20, query)
    query.stop()
    assert job.values == counted(range(20))


@pytest.mark.lengthy
def test_a_compacted_topic_is_read_to_its_end(job: Job, cluster: Cluster, topic: str) -> None:
    name = f"{topic}-compacted"
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100"}
    cluster.create_topic(name, 1, configs=configs)
    with Producer(**cluster.client) as producer:
        for number in range(200):
            producer.send(name, str(number), key="one")
            if number % 50 == 49:
                producer.flush()
                time.sleep(0.3)
    until(lambda: len(cluster.log(name)[0]) < 100, 60, "the log to be compacted")
    left = counted(record.value.decode() for record in cluster.log(name)[0] if record.value is not None)
    job.options = options(cluster, subscribe=name)
    job.run(startingOffsets="earliest", maxOffsetsPerTrigger=30)
    assert set(job.values) <= set(left)
    assert job.values["199"] == 1


# ---------------------------------------------------------------- what a query tells


def test_progress_shows_the_lag(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100), partition=0)
    query = job.start(startingOffsets="earliest", maxOffsetsPerTrigger=30, trigger={"processingTime": "1 hour"})
    job.wait_for(30, query)
    until(lambda: query.lastProgress is not None and query.lastProgress["numInputRows"] == 30, 30, "a progress")
    end, latest = offsets(query), offsets(query, "latestOffset")
    query.stop()
    assert end[topic] == {"0": 30, "1": 0}
    assert latest == {topic: {"0": 100, "1": 0}, "@behind": 70}


def test_offsets_are_committed_to_a_group(job: Job, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, range(100), partition=1)
    job.run(startingOffsets="earliest", commitOffsetsToGroup=f"{topic}-lag")
    with Client(**cluster.client) as client:
        committed = client.committed_offsets(f"{topic}-lag")
    assert {tp.partition: found.committed.offset for tp, found in committed.items() if found.committed} == {0: 0, 1: 100}
