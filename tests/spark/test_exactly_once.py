"""The exactly-once task on model brokers: whatever becomes of its attempts, read_committed consumers read each row once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import Row

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import (
    LATEST,
    Client,
    ConfigError,
    ConsumerGroupMetadata,
    KafkaError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAborted,
    read,
)
from pykafka4.spark import ArrowWriter, foreach_batch, workers
from pykafka4.spark.sink.batch import KafkaBatchWriter
from pykafka4.spark.sink.exactly_once import BATCH, QUERY, CommitToken, Skipped, WriteUnit, write_once
from pykafka4.spark.sink.options import Delivery, SinkOptions
from pykafka4.spark.sink.repeats import difference, find_end, note_end
from pykafka4.spark.sink.task import Written
from pykafka4.testing import ModelServer

T0 = TopicPartition("t", 0)
Batches = Iterator[pa.RecordBatch]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Three brokers, a topic of two partitions, and a worker that keeps nothing of other tests."""
    monkeypatch.setattr(workers, "_pools", {})
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    with ModelServer() as brokers:
        brokers.create_topic("t", 2)
        yield brokers
        workers.close()


def in_task(partition: int = 0, batch: int | None = 0, query: str = "q") -> None:
    """From here on the test is this task of Spark; without `batch` of a batch job."""
    TaskContext._setTaskContext(None)
    properties = {} if batch is None else {QUERY: query, BATCH: str(batch)}
    TaskContext(partitionId=partition, localProperties=properties)


def sink(server: ModelServer, topic: str | None = "t", **options: Any) -> SinkOptions:
    return SinkOptions({"bootstrap_servers": server.bootstrap_servers}, topic, delivery=Delivery.EXACTLY_ONCE, **options)


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.string())})


def committed(server: ModelServer, topic: str = "t") -> list[str]:
    records = read(topic, isolation_level="read_committed", bootstrap_servers=server.bootstrap_servers)
    return sorted((record.value or b"").decode() for record in records)


def offsets(server: ModelServer, unit: WriteUnit) -> dict[TopicPartition, OffsetAndMetadata | None]:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        return {place: one.committed for place, one in client.committed_offsets(unit.name).items()}


def written(outcome: Written | Skipped) -> Mapping[str, int]:
    assert isinstance(outcome, Written)
    return outcome.counts


def skipped(outcome: Written | Skipped) -> tuple[int, int, bool]:
    assert isinstance(outcome, Skipped)
    return outcome.rows, outcome.offered, outcome.same_run


def test_rows_and_their_token_are_committed_together(server: ModelServer) -> None:
    in_task(partition=7, batch=3)
    assert written(write_once(job := sink(server), iter([rows("a", "b"), rows(), rows("c")]))) == {"t": 3}
    assert committed(server) == ["a", "b", "c"]
    ((place, token),) = offsets(server, WriteUnit("pykafka4", "q", "t", 7, 3)).items()
    assert (place, token) == (T0, OffsetAndMetadata(3, -1, f'{{"rows": 3, "run": "{job.run}"}}'))


def test_an_attempt_after_the_commit_writes_nothing_whatever_the_order_of_its_rows(server: ModelServer) -> None:
    in_task()
    job = sink(server)
    write_once(job, iter([rows("a", "b", "c")]))
    assert skipped(write_once(job, iter([rows("c"), rows("b", "a")]))) == (3, 3, True)
    assert difference(job, [write_once(job, iter([rows("a")]))]) is None  # of one run: Spark keeps one outcome of each task
    assert skipped(write_once(sink(server), iter([rows("c", "a")]))) == (3, 2, False)  # a restarted query, whose rows differ
    assert committed(server) == ["a", "b", "c"]


def test_the_next_micro_batch_and_other_partitions_are_written(server: ModelServer) -> None:
    job = sink(server)
    for partition, batch, value in [(0, 0, "a"), (1, 0, "b"), (0, 1, "c"), (10, 1, "d")]:
        in_task(partition, batch)
        assert written(write_once(job, iter([rows(value)]))) == {"t": 1}
    assert committed(server) == ["a", "b", "c", "d"]


def test_an_error_of_the_rows_commits_nothing(server: ModelServer) -> None:
    def broken() -> Batches:
        yield rows("a")
        raise OSError("upstream")

    in_task()
    with pytest.raises(OSError, match="upstream"):
        write_once(sink(server), broken())
    assert committed(server) == []
    assert written(write_once(sink(server), iter([rows("a", "b")]))) == {"t": 2}
    assert committed(server) == ["a", "b"]


@pytest.mark.parametrize("late", ["Produce", "TxnOffsetCommit"])  # the leader or the coordinator is the first to refuse the zombie
def test_a_zombie_cannot_commit_once_the_next_attempt_has_begun(server: ModelServer, late: str) -> None:
    def overtaken() -> Batches:
        yield rows("a", "b")
        assert written(write_once(sink(server), iter([rows("a", "b")]))) == {"t": 2}
        server.delay(late, 0.5)
        yield rows("c")

    in_task()
    with pytest.raises(ProducerFencedError) as caught:
        write_once(sink(server), overtaken())
    assert any("another attempt of this task has begun" in note for note in caught.value.__notes__)
    assert committed(server) == ["a", "b"]


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId", "OffsetFetch", "Produce", "TxnOffsetCommit", "EndTxn"])
def test_whatever_request_of_an_attempt_arrives_after_the_next_attempt_has_ended(server: ModelServer, api: str) -> None:
    """As if its worker was frozen just before that request, and went on when Spark had long started another one."""

    def attempt(worker: str) -> Written | Skipped | KafkaError:
        options = {"bootstrap_servers": server.bootstrap_servers, "client_id": worker}  # workers share no connection
        try:
            return write_once(SinkOptions(options, "t", delivery=Delivery.EXACTLY_ONCE), iter([rows("a", "b"), rows("c")]))
        except KafkaError as error:
            return error

    in_task()
    write_once(sink(server), iter([rows("before")]))
    in_task(batch=1)
    server.delay(api, 1.0)
    with ThreadPoolExecutor(1) as frozen:
        first = frozen.submit(attempt, "frozen")
        until(lambda: not server.unmet(), 10.0, "the request that is delayed")
        second = attempt("next")
        outcomes = [first.result(20.0), second]
    assert all(isinstance(each, (Written, Skipped, ProducerFencedError)) for each in outcomes), outcomes
    assert [isinstance(each, Written) for each in outcomes].count(True) <= 1
    attempt("retry")
    assert committed(server) == ["a", "b", "before", "c"]


def test_an_error_of_the_rows_of_a_zombie_is_its_error(server: ModelServer) -> None:
    def broken() -> Batches:
        yield rows("a")
        write_once(sink(server), iter([rows("a", "b")]))
        raise OSError("upstream")

    in_task()
    with pytest.raises(OSError, match="upstream"):
        write_once(sink(server), broken())
    assert committed(server) == ["a", "b"]


def test_a_micro_batch_before_the_last_one_is_refused(server: ModelServer) -> None:
    """Spark would not repeat it: the checkpoint was set back, and the number stands for other rows than before."""
    job = sink(server)
    for number, value in enumerate("ab"):
        in_task(batch=number)
        write_once(job, iter([rows(value)]))
    in_task(batch=0)
    with pytest.raises(ConfigError, match=r"batch 1 is committed under this name already.*transactionalIdPrefix"):
        write_once(job, iter([rows("a", "c")]))
    named = sink(server, idempotency_key="k", batch_id=3)
    in_task(batch=None)
    note_end(named, [write_once(named, iter([rows("d")]))])
    with pytest.raises(ConfigError, match="batch 3 is committed under this name already"):
        find_end(sink(server, idempotency_key="k", batch_id=2))
    assert committed(server) == ["a", "b", "d"]


def test_what_a_killed_attempt_left_open_does_not_hold_readers_back(server: ModelServer) -> None:
    in_task()
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        killed = Producer(client, transactional_id=WriteUnit("pykafka4", "q", "t", 0, 0).name)
        killed.init_transactions()
        killed.begin_transaction()
        killed.send("t", b"x", partition=0).result(10)
        assert client.list_offsets({T0: LATEST}, isolation_level="read_committed")[T0].offset == 0
        write_once(sink(server), iter([rows("a", "b")]))
        ends = [client.list_offsets({T0: LATEST}, isolation_level=level)[T0].offset for level in ("read_committed", "read_uncommitted")]
        assert ends[0] == ends[1]
        assert committed(server) == ["a", "b"]
        killed.close(timeout=0)


def test_a_token_that_is_being_committed_is_waited_for(server: ModelServer) -> None:
    in_task()
    job = SinkOptions({"bootstrap_servers": server.bootstrap_servers, "delivery_timeout_ms": 2_000}, "t", delivery=Delivery.EXACTLY_ONCE)
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        group = ConsumerGroupMetadata(WriteUnit("pykafka4", "q", "t", 0, 0).name)
        producer.send_offsets_to_transaction({T0: CommitToken(0, 2, "run").offset()}, group)
        with pytest.raises(KafkaTimeoutError):
            write_once(job, iter([rows("a", "b")]))
        producer.commit_transaction()
        assert skipped(write_once(job, iter([rows("a", "b")]))) == (2, 2, False)


def test_an_empty_partition_asks_no_broker() -> None:
    in_task()
    job = SinkOptions({"bootstrap_servers": "127.0.0.1:1"}, "t", delivery=Delivery.EXACTLY_ONCE)
    assert written(write_once(job, iter([rows(), rows()]))) == {}


def test_a_batch_job_needs_a_key_and_its_key_is_good_for_one_job(server: ModelServer) -> None:
    in_task(batch=None)
    with pytest.raises(ConfigError, match="idempotencyKey"):
        write_once(sink(server), iter([rows("a")]))
    write_once(sink(server, idempotency_key="monday"), iter([rows("a")]))
    write_once(sink(server, idempotency_key="tuesday"), iter([rows("b")]))
    assert skipped(write_once(sink(server, idempotency_key="monday"), iter([rows("a")]))) == (1, 1, False)
    assert committed(server) == ["a", "b"]


def test_a_job_with_a_key_that_has_ended_is_known_by_its_key_alone(server: ModelServer) -> None:
    in_task(batch=None)
    job = sink(server, idempotency_key="monday")
    first = [write_once(job, iter([rows("a", "b")]))]
    assert find_end(job) is None
    note_end(job, [*first, Written({})])
    assert find_end(sink(server, idempotency_key="monday")) == CommitToken(0, 2, job.run)
    assert find_end(sink(server, idempotency_key="tuesday")) is None
    assert find_end(sink(server)) is None


def test_a_job_whose_driver_died_before_its_end_was_noted_has_ended_when_it_is_repeated(server: ModelServer) -> None:
    in_task(batch=None)
    write_once(sink(server, idempotency_key="monday"), iter([rows("a", "b")]))
    again = sink(server, idempotency_key="monday")
    KafkaBatchWriter(again).commit([write_once(again, iter([rows("a", "b")]))])
    assert find_end(again) == CommitToken(0, 2, again.run)


def test_a_repeated_job_that_differs_has_not_ended(server: ModelServer) -> None:
    in_task(batch=None)
    write_once(sink(server, idempotency_key="monday"), iter([rows("a", "b")]))
    again = sink(server, idempotency_key="monday")
    with pytest.raises(KafkaError, match="rows committed before: 2, rows now: 3"):
        KafkaBatchWriter(again).commit([write_once(again, iter([rows("a", "b", "c")]))])
    assert find_end(again) is None


def test_a_repeated_micro_batch_may_have_fewer_partitions_than_the_one_before(server: ModelServer) -> None:
    def run(batch: int, partitions: int) -> str | None:
        job, messages = sink(server), []
        for partition in range(partitions):
            in_task(partition, batch)
            messages.append(write_once(job, iter([rows("a")])))
        return difference(job, messages)

    assert [run(batch, partitions) for batch, partitions in [(0, 3), (1, 2), (1, 2)]] == [None, None, None]


def test_a_repeated_job_with_other_partitions_is_reported(server: ModelServer) -> None:
    def run(*parts: str) -> str | None:
        job, messages = sink(server, idempotency_key="monday"), []
        for partition, values in enumerate(parts):
            in_task(partition, batch=None)
            messages.append(write_once(job, iter([rows(*values)])))
        return difference(job, messages)

    assert run("ab", "cd", "ef") is None
    assert run("ba", "dc", "fe") is None
    assert "the number of partitions is only 2 now" in (run("ab", "cd") or "")
    assert "rows committed before: 2, rows now: 3" in (run("abc", "def") or "")


def test_a_repeated_job_whose_committed_partitions_are_all_beyond_its_own_is_reported(server: ModelServer) -> None:
    first, again = (sink(server, idempotency_key="monday") for _ in range(2))
    in_task(1, batch=None)
    write_once(first, iter([rows("c", "d")]))  # the task of partition 0 failed, and with it the job
    in_task(0, batch=None)
    message = write_once(again, iter([rows("a", "b", "c", "d")]))
    assert "rows committed before: 2, and the number of partitions is only 1 now" in (difference(again, [message]) or "")


def test_two_writes_of_one_micro_batch_need_two_topics_or_two_keys(server: ModelServer) -> None:
    server.create_topic("u", 1)
    in_task()
    for job in (sink(server), sink(server, "u"), sink(server, idempotency_key="errors")):
        assert written(write_once(job, iter([rows("a")])))
    assert (committed(server), committed(server, "u")) == (["a", "a"], ["a"])


@attrs.frozen
class Frame:
    """A DataFrame of one partition. Its task has no number of a micro-batch, as with Spark Connect."""

    values: str

    def mapInArrow(self, writer: ArrowWriter, schema: str) -> Frame:  # noqa: N802
        in_task(batch=None)
        list(writer(iter([rows(*self.values)])))
        return self

    def collect(self) -> list[Row]:
        return []


def test_a_micro_batch_that_is_written_by_number(server: ModelServer) -> None:
    config = {"bootstrap_servers": server.bootstrap_servers}
    write = foreach_batch(config, topic="t", delivery="exactly_once", name="copy")
    for number, values in [(0, "ab"), (0, "ba"), (1, "cd"), (1, "dc")]:
        write(Frame(values), number)
    assert committed(server) == ["a", "b", "c", "d"]


def test_a_column_of_topics_and_rows_in_another_order(server: ModelServer) -> None:
    server.create_topic("u", 1)
    batch = pa.record_batch({"topic": ["t", "u", "t"], "value": ["a", "b", "c"]})
    in_task()
    assert written(write_once(sink(server, None), iter([batch]))) == {"t": 2, "u": 1}
    assert skipped(write_once(sink(server, None), iter([batch.take(pa.array([1, 0, 2]))]))) == (3, 3, False)
    assert (committed(server), committed(server, "u")) == (["a", "c"], ["b"])


@pytest.mark.parametrize(("columns", "message"), [({"value": ["a"]}, "no column 'topic'"), ({"value": ["a"], "topic": [None]}, "is null")])
def test_rows_without_a_topic_are_an_error_with_a_way_out(server: ModelServer, columns: dict[str, Any], message: str) -> None:
    in_task()
    with pytest.raises((ConfigError, ValueError), match=f"{message}.*option topic"):
        write_once(sink(server, None), iter([pa.record_batch(columns)]))


def test_a_group_of_others_is_refused(server: ModelServer) -> None:
    unit = WriteUnit("mine", "q", "t", 0, 0)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        client.commit_offsets(unit.name, {T0: 5})
    in_task()
    with pytest.raises(ConfigError, match="transactionalIdPrefix"):
        write_once(sink(server, transactional_id_prefix="mine"), iter([rows("a")]))
    assert committed(server) == []


@pytest.mark.cluster
@pytest.mark.lengthy
def test_a_task_that_takes_longer_than_its_transaction_commits_nothing_and_its_repetition_all(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow() -> Batches:
        yield rows("1", "2")
        until(lambda: sum(each.aborted for each in cluster.committed(topic).values()), 120.0, "the coordinator to abort the transaction")
        yield rows("3")

    monkeypatch.setattr(workers, "_pools", {})
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    cluster.create_topic(topic, 2)
    in_task()
    job = SinkOptions({**cluster.client, "transaction_timeout_ms": 2_000}, topic, delivery=Delivery.EXACTLY_ONCE)
    with pytest.raises((ProducerFencedError, TransactionAborted)):
        write_once(job, slow())
    assert written(write_once(job, iter([rows("1", "2", "3")]))) == {topic: 3}
    found = cluster.committed(topic)
    assert sorted(int(record.value or b"") for each in found.values() for record in each.records) == [1, 2, 3]
    workers.close()
