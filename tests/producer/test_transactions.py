"""Transactions: what commits, what must abort, and what a caller is told; with both versions of the protocol."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    ConfigError,
    Consumer,
    ConsumerGroupMetadata,
    DeliveryFailed,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
    TransactionAborted,
    TransactionError,
)
from pykafka4.records import Written
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import Maker, balanced, committed, ctrl_c

ID = "invoices-1"
PASSING = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "CONCURRENT_TRANSACTIONS",
    "UNKNOWN_SERVER_ERROR",
)
GROUP = ConsumerGroupMetadata("g")


@pytest.fixture(params=["4.4", "3.9", "2.1"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """Three brokers of releases with transaction.version 2, 1, and 0 without KIP-360; topic `t` with three partitions."""
    with ModelServer(brokers=3, release=request.param) as server:
        server.create_topic("t", 3)
        yield server


@pytest.fixture
def producer(make: Maker) -> Producer:
    return begun(make())


def begun(producer: Producer) -> Producer:
    producer.init_transactions(SECONDS)
    return producer


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        options = {"transactional_id": ID, "linger_ms": 0, "retry_backoff_ms": 10, **options}
        made.append(Producer(bootstrap_servers=server.bootstrap_servers, **options))
        return made[-1]

    yield producer
    for one in made:
        one.close(SECONDS)


def release(server: ModelServer) -> tuple[int, ...]:
    return tuple(map(int, server.do(lambda cluster: cluster.release).split(".")))


def test_commits_are_read_and_aborts_are_not(server: ModelServer, producer: Producer) -> None:
    for number in range(4):
        try:
            with producer.transaction() as same:
                assert same is producer
                sent = [producer.send("t", b"%d.%d" % (number, n), partition=n) for n in range(3)]
                if number % 2:
                    producer.flush(SECONDS)
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert all(delivery.exception(0) is None for delivery in sent)
    assert committed(server) == [b"%d.%d" % (number, n) for number in (0, 2) for n in range(3)]
    assert balanced(producer)


def test_an_abort_fails_what_is_not_sent(server: ModelServer, make: Maker) -> None:
    producer = begun(make(linger_ms=60_000))
    with pytest.raises(ZeroDivisionError), producer.transaction():
        sent = producer.send("t", b"v", partition=0)
        raise ZeroDivisionError
    error = sent.exception(SECONDS)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TRANSACTION_ABORTED", Written.NO)
    assert server.records("t") == []
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert committed(server) == [b"next"]


def test_an_empty_transaction_asks_nothing_of_the_coordinator(server: ModelServer, producer: Producer) -> None:
    server.fail("EndTxn", "INVALID_TXN_STATE")
    with producer.transaction():
        """Nothing."""
    producer.begin_transaction()
    producer.abort_transaction(SECONDS)
    assert len(server.unmet()) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda p: p.send("t", b"v"), "begin_transaction"),
        (lambda p: p.commit_transaction(), "no transaction is open"),
        (lambda p: p.abort_transaction(), "no transaction is open"),
        (lambda p: p.send_offsets_to_transaction({("t", 0): 1}, GROUP), "no transaction is open"),
        (lambda p: p.init_transactions(), "is called once"),
    ],
)
def test_what_does_not_fit_the_state_is_refused(server: ModelServer, producer: Producer, call: Any, says: str) -> None:
    for _ in range(2):
        with pytest.raises(TransactionError, match=f"{ID}: .*{says}"):
            call(producer)
        with producer.transaction():
            producer.send("t", b"v", partition=0)


def test_nothing_works_before_init_transactions(make: Maker) -> None:
    producer = make()
    for call in (lambda: producer.send("t", b"v"), producer.begin_transaction, producer.commit_transaction):
        with pytest.raises(TransactionError, match="call init_transactions"):
            call()
    producer.flush(SECONDS)
    assert producer.partitions_for("t", SECONDS) == [0, 1, 2]


def test_without_a_transactional_id_there_are_no_transactions(make: Maker) -> None:
    producer = make(transactional_id=None)
    with pytest.raises(ConfigError, match=r"^init_transactions: this producer has no transactional_id"):
        producer.init_transactions()
    with pytest.raises(ConfigError, match="no transactional_id"), producer.transaction():
        """Never."""


def test_a_second_producer_fences_the_first(server: ModelServer, make: Maker) -> None:
    first = begun(make())
    first.begin_transaction()
    first.send("t", b"zombie", partition=0).result(SECONDS)
    second = begun(make())
    with pytest.raises(
        ProducerFencedError, match=f"^{ID}: another producer with this transactional_id has been started; the commit was sent"
    ):
        first.commit_transaction(SECONDS)
    for call in (first.begin_transaction, first.abort_transaction, lambda: first.send("t", b"v")):
        with pytest.raises(ProducerFencedError):
            call()
    with second.transaction():
        second.send("t", b"second", partition=0)
    assert committed(server) == [b"second"]


def test_a_record_that_failed_prevents_the_commit(server: ModelServer, producer: Producer) -> None:
    server.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="t", partition=1)
    with (
        pytest.raises(TransactionAborted, match=rf"^{ID}: the transaction must be aborted: .*TOPIC_AUTH"),
        producer.transaction(),
    ):
        producer.send("t", b"good", partition=0)
        producer.send("t", b"bad", partition=1)
    with producer.transaction():
        producer.send("t", b"after", partition=1)
    assert committed(server) == [b"after"]


def test_a_record_that_was_dropped_prevents_the_commit(server: ModelServer, make: Maker) -> None:
    producer = begun(make(on_full="drop", buffer_memory=65_536, max_partition_bytes=65_536, max_request_size=40_000, linger_ms=60_000))
    with producer.transaction():
        producer.send("t", b"fits", partition=0)
    server.delay("Produce", 0.3)
    with pytest.raises(TransactionAborted, match="of its records were dropped"), producer.transaction():
        for _ in range(9):
            producer.send("t", bytes(30_000), partition=0)
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert committed(server) == [b"fits", b"next"]


def test_after_a_failure_send_is_refused_until_the_abort(server: ModelServer, producer: Producer) -> None:
    producer.begin_transaction()
    server.fail("Produce", "INVALID_RECORD")
    assert producer.send("t", b"bad", partition=0).exception(SECONDS) is not None
    for call in (lambda: producer.send("t", b"v"), lambda: producer.commit_transaction(SECONDS)):
        with pytest.raises(TransactionAborted, match=r"must be aborted: .*INVALID_RECORD"):
            call()
    producer.abort_transaction(SECONDS)
    with producer.transaction():
        producer.send("t", b"after", partition=0)
    assert committed(server) == [b"after"]


@pytest.mark.parametrize("error", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_a_lost_numbering_aborts_and_does_not_begin_another_epoch(server: ModelServer, producer: Producer, error: str) -> None:
    if release(server) < (2, 5):
        pytest.skip("brokers before Kafka 2.5 cannot continue a producer id")
    with producer.transaction():
        producer.send("t", b"before", partition=0)
    server.fail("Produce", error)
    with pytest.raises(TransactionAborted, match=error), producer.transaction():
        producer.send("t", b"bad", partition=0)
    with producer.transaction():
        producer.send("t", b"after", partition=0)
        producer.send("t", b"other", partition=1)
    assert committed(server) == [b"after", b"before", b"other"]


@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
def test_errors_after_which_the_producer_has_ended(server: ModelServer, producer: Producer, error: str) -> None:
    server.fail("Produce", error)
    with pytest.raises(KafkaError) as raised, producer.transaction():
        producer.send("t", b"v", partition=0)
    assert not isinstance(raised.value, TransactionError)
    with pytest.raises(type(raised.value)):
        producer.begin_transaction()


@pytest.mark.parametrize(
    "error",
    ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "UNKNOWN_SERVER_ERROR"],
)
@pytest.mark.parametrize("api", ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"])
def test_passing_errors_of_coordinators_are_retried(server: ModelServer, make: Maker, api: str, error: str) -> None:
    if api.startswith("Add") and release(server) >= (4, 0):
        pytest.skip("not sent with transaction.version 2")
    server.fail(api, error, times=2)
    producer = begun(make())
    with producer.transaction():
        producer.send("t", b"v", partition=0)
        producer.send_offsets_to_transaction({("t", 0): 7}, GROUP, SECONDS)
    server.assert_all_met()
    assert committed(server) == [b"v"]
    assert server.committed("g") == {("t", 0): 7}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce"])
def test_lost_requests_and_lost_responses_change_nothing(server: ModelServer, producer: Producer, api: str, after: bool) -> None:
    if api.startswith("Add") and release(server) >= (4, 0):
        pytest.skip("not sent with transaction.version 2")
    server.disconnect(api, after=after)
    for n in range(2):
        with producer.transaction():
            producer.send("t", b"%d" % n, partition=0)
            producer.send_offsets_to_transaction({("t", 0): n}, GROUP, SECONDS)
    server.assert_all_met()
    assert committed(server) == [b"0", b"1"]
    assert server.committed("g") == {("t", 0): 1}


def test_a_commit_waits_for_offsets_whose_call_timed_out(server: ModelServer, producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.fail("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", topic="t", partition=0, times=5)
    with pytest.raises(KafkaTimeoutError, match=r"send_offsets_to_transaction: not done within 0\.05 s"):
        producer.send_offsets_to_transaction({("t", 0): 3}, GROUP, 0.05)
    producer.commit_transaction(SECONDS)
    assert server.committed("g") == {("t", 0): 3}


def test_a_cluster_that_has_not_finalized_version_2_gets_the_requests_of_version_1(server: ModelServer, make: Maker) -> None:
    def lower(cluster: Any) -> None:
        cluster.transaction_version = 0

    server.do(lower)
    producer = begun(make())
    for n in range(3):
        with producer.transaction():
            producer.send("t", b"%d" % n, partition=0)
            producer.send_offsets_to_transaction({("t", 0): n}, GROUP, SECONDS)
    assert committed(server) == [b"0", b"1", b"2"]


def test_offsets_of_an_aborted_transaction_do_not_count(server: ModelServer, producer: Producer) -> None:
    with producer.transaction():
        producer.send_offsets_to_transaction({("t", 0): 5}, GROUP, SECONDS)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({("t", 0): 9}, GROUP, SECONDS)
    producer.abort_transaction(SECONDS)
    assert server.committed("g") == {("t", 0): 5}


@pytest.mark.parametrize(
    ("group", "offsets", "error"),
    [
        ("g", {("t", 0): 1}, TypeError),
        (None, {("t", 0): 1}, TypeError),
        (GROUP, [("t", 0)], TypeError),
        (GROUP, {("t", 0): -1}, ConfigError),
    ],
)
def test_wrong_arguments_are_named(producer: Producer, group: Any, offsets: Any, error: type[Exception]) -> None:
    producer.begin_transaction()
    with pytest.raises(error, match=r"group_metadata|offset"):
        producer.send_offsets_to_transaction(offsets, group)
    producer.commit_transaction(SECONDS)


def test_a_commit_that_timed_out_is_finished_by_the_next_call_and_by_no_other(server: ModelServer, producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.delay("EndTxn", 0.5)
    with pytest.raises(KafkaTimeoutError, match="the outcome is not known: call commit_transaction again"):
        producer.commit_transaction(0.01)
    for call in (producer.begin_transaction, producer.abort_transaction):
        with pytest.raises(TransactionError, match="the outcome of commit_transaction is not known yet"):
            call()
    producer.commit_transaction(SECONDS)
    with pytest.raises(TransactionError, match="no transaction is open"):
        producer.commit_transaction(SECONDS)
    assert committed(server) == [b"v"]


def test_after_ctrl_c_the_next_commit_finishes(server: ModelServer, producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.delay("EndTxn", 0.5)
    with ctrl_c(
        lambda: inspect(producer).session.transactions._unseen is not None and inspect(producer).session.transactions._unseen.started
    ):
        producer.commit_transaction(SECONDS)
    producer.commit_transaction(SECONDS)
    assert committed(server) == [b"v"]


def test_concurrent_calls_are_refused_with_both_threads(server: ModelServer, producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.delay("EndTxn", 0.5)
    other = threading.Thread(target=producer.commit_transaction, name="committer")
    other.start()
    until(lambda: inspect(producer).transaction_calls, SECONDS)
    with pytest.raises(
        TransactionError, match="thread 'MainThread' called begin_transaction while thread 'committer' is in commit_transaction"
    ):
        producer.begin_transaction()
    other.join(SECONDS)
    producer.begin_transaction()


def test_close_aborts_and_hands_the_unsent_records_back(server: ModelServer, make: Maker) -> None:
    producer = begun(make(linger_ms=60_000))
    producer.begin_transaction()
    producer.send("t", b"written", partition=0)
    producer.flush(SECONDS)
    unsent = producer.send("t", b"unsent", partition=0)
    assert [(record.value, record.written) for record in producer.close(SECONDS)] == [(b"unsent", Written.NO)]
    assert isinstance(unsent.exception(0), DeliveryFailed)
    assert committed(server) == []
    with pytest.raises(ClosedError):
        producer.begin_transaction()


def test_a_block_that_fails_and_cannot_abort_says_both(server: ModelServer, producer: Producer) -> None:
    with pytest.raises(ZeroDivisionError) as raised, producer.transaction():
        producer.send("t", b"v", partition=0).result(SECONDS)
        server.fail("EndTxn", "PRODUCER_FENCED")
        raise ZeroDivisionError
    assert raised.value.__notes__ == [
        f"pykafka4: aborting the transaction failed: {ID}: another producer with this transactional_id has been started"
    ]


def test_a_denied_id_may_be_granted(server: ModelServer, make: Maker) -> None:
    server.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    producer = make()
    with pytest.raises(AuthorizationError, match="needs WRITE on transactional id 'invoices-1'"):
        producer.init_transactions(SECONDS)
    with begun(producer).transaction():
        producer.send("t", b"v", partition=0)
    assert committed(server) == [b"v"]


def test_a_timeout_that_brokers_do_not_allow_is_named(server: ModelServer, make: Maker) -> None:
    server.fail("InitProducerId", "INVALID_TRANSACTION_TIMEOUT")
    with pytest.raises(ConfigError, match=f"^{ID}: transaction_timeout_ms=3000000 is larger than the brokers' transaction.max.timeout.ms"):
        make(transaction_timeout_ms=3_000_000).init_transactions(SECONDS)


def test_old_brokers_that_cannot_check_the_member_are_not_given_its_offsets(server: ModelServer, producer: Producer) -> None:
    if release(server) >= (2, 5):
        pytest.skip("they check it")
    with (
        pytest.raises(TransactionAborted, match="generation_id_or_member_epoch is set, but version 2 cannot carry it"),
        producer.transaction(),
    ):
        producer.send_offsets_to_transaction({("t", 0): 1}, ConsumerGroupMetadata("g", 1, "member"), SECONDS)
    with producer.transaction():
        producer.send_offsets_to_transaction({("t", 0): 2}, GROUP, SECONDS)
    assert server.committed("g") == {("t", 0): 2}


def test_records_that_are_read_and_written_in_one_transaction(server: ModelServer, producer: Producer) -> None:
    if release(server) < (2, 5):
        pytest.skip("before KIP-447")
    server.create_topic("in", 1)
    for n in range(6):
        server.produce("in", b"%d" % n, partition=0)
    options: dict[str, Any] = {"bootstrap_servers": server.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
    with Consumer(**options) as commits_by_itself, pytest.raises(ConfigError, match="enable_auto_commit=False"):
        producer.transaction(commits_by_itself)
    with Consumer(**options, enable_auto_commit=False, max_poll_records=2) as consumer:
        consumer.subscribe(["in"])
        assert next(filter(None, consumer.batches(SECONDS, 2)))[0].offset == 0
        with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
            raise ZeroDivisionError
        for attempt in range(4):
            first, second = next(filter(None, consumer.batches(SECONDS, 2)))
            assert first.offset == (0, 2, 2, 4)[attempt]
            try:
                with producer.transaction(consumer):
                    producer.send("t", first.value, partition=0)
                    producer.send("t", second.value, partition=0)
                    if attempt == 1:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                assert attempt == 1
        metadata = consumer.group_metadata()
        assert metadata.generation_id > 0
        assert metadata.member_id
    assert committed(server) == [b"%d" % n for n in range(6)]
    assert server.committed("g") == {("in", 0): 6}


def test_an_end_whose_answer_was_lost_cannot_end_the_next_transaction(server: ModelServer, producer: Producer) -> None:
    """Its first request may still be executed: the next transaction has another epoch, and those behind it have the same one, unless each
    transaction has one of its own (version 2). Brokers before 2.5 give none (KIP-360)."""
    for number in range(3):
        if number == 0:
            server.disconnect("EndTxn")
        with producer.transaction(timeout=SECONDS):
            producer.send("t", b"%d" % number, partition=0)
    server.assert_all_met()

    def epochs() -> list[int]:
        batches = server.do(lambda cluster: list(cluster.log("t", 0).batches))
        return [batch.header.producer_epoch for batch in batches if not batch.header.control]

    first, second, third = epochs()
    assert second > first or server.cluster.release == "2.1"
    assert third == second or server.cluster.release == "4.4"


def test_a_transaction_with_a_purged_record_is_not_committed(producer: Producer, server: ModelServer) -> None:
    producer.begin_transaction()
    producer.send("t", b"written", partition=0).result(SECONDS)
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
    purged = producer.send("t", b"purged", partition=1)
    assert producer.purge(in_flight=True) == 1
    assert purged.exception(0).code == "PURGED"  # type: ignore[union-attr]
    server.do(lambda cluster: [cluster.start_broker(node) for node in cluster.brokers])
    with pytest.raises(TransactionAborted, match="purged"):
        producer.commit_transaction(SECONDS)
    producer.abort_transaction(SECONDS)
    with producer.transaction():
        producer.send("t", b"next", partition=1)
    assert committed(server) == [b"next"]


def test_offsets_whose_answer_was_lost_cannot_be_stored_in_the_next_transaction(server: ModelServer, producer: Producer) -> None:
    """As with EndTxn, the next transaction has another epoch, in which the late request is refused."""
    for number in range(2):
        if number == 0:
            server.disconnect("TxnOffsetCommit")
        with producer.transaction(timeout=SECONDS):
            producer.send("t", b"%d" % number, partition=0)
            producer.send_offsets_to_transaction({("t", 0): number}, GROUP, SECONDS)
    server.assert_all_met()
    batches = server.do(lambda cluster: list(cluster.log("t", 0).batches))
    first, second = (batch.header.producer_epoch for batch in batches if not batch.header.control)
    assert second > first or server.cluster.release == "2.1"


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn"])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_what_begins_a_transaction_late_is_refused_when_that_has_ended(server: ModelServer, make: Maker, api: str, end: str) -> None:
    """Nobody would end what it begins: the coordinator would abort it after its timeout, and fence the producer."""
    if not (2, 5) <= release(server) < (4,):
        pytest.skip("from 4.0 on brokers add partitions themselves; before 2.5 there is no other epoch")
    producer = begun(make())

    def transaction() -> None:
        if api == "AddPartitionsToTxn":
            producer.send("t", b"v", partition=0).result(SECONDS)
        else:
            producer.send_offsets_to_transaction({("t", 0): 1}, GROUP, SECONDS)
        if end == "abort":
            raise ZeroDivisionError

    server.disconnect(api)
    with contextlib.suppress(ZeroDivisionError), producer.transaction(timeout=SECONDS):
        transaction()
    server.assert_all_met()
    with producer.transaction(timeout=SECONDS):
        producer.send("t", b"next", partition=0)
    batches = server.do(lambda cluster: list(cluster.log("t", 0).batches))
    assert batches[-2].header.producer_epoch == 1


def test_an_abort_after_a_commit_that_was_executed_is_no_success(server: ModelServer, make: Maker) -> None:
    producer = begun(make(retry_backoff_ms=500))
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.disconnect("EndTxn", after=True)
    with pytest.raises(KafkaTimeoutError):
        producer.commit_transaction(0.2)
    server.assert_all_met()
    server.fail("EndTxn", "TRANSACTION_ABORTABLE")
    with pytest.raises(TransactionAborted):
        producer.commit_transaction(SECONDS)
    with pytest.raises(BrokerError, match="INVALID_TXN_STATE"):
        producer.abort_transaction(SECONDS)
    assert committed(server) == [b"v"]


@pytest.mark.parametrize("how", ["timeout", "ctrl_c"])
def test_a_block_whose_offsets_are_not_taken_aborts(server: ModelServer, producer: Producer, how: str) -> None:
    if release(server) < (2, 5):
        pytest.skip("before KIP-447")
    server.create_topic("in", 1)
    server.produce("in", b"0", partition=0)
    with Consumer(
        bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(["in"])
        assert next(filter(None, consumer.batches(SECONDS, 2)))[0].offset == 0
        server.delay("TxnOffsetCommit", 0.5)
        if how == "timeout":
            with pytest.raises(KafkaTimeoutError, match="send_offsets_to_transaction"), producer.transaction(consumer, 0.3):
                producer.send("t", b"v", partition=0).result(SECONDS)
        else:
            calls = inspect(producer).transaction_calls
            with ctrl_c(lambda: calls.get("caller", ("", ""))[1] == "send_offsets_to_transaction"), producer.transaction(consumer):
                producer.send("t", b"v", partition=0).result(SECONDS)
        with producer.transaction():
            pass
        assert next(filter(None, consumer.batches(SECONDS, 2)))[0].offset == 0
    assert committed(server) == []


def test_after_an_abort_that_failed_the_consumer_reads_again_too(server: ModelServer, producer: Producer) -> None:
    """Its records go to the next producer, and no later transaction contains their offsets unprocessed."""
    server.create_topic("in", 1)
    server.produce("in", b"0", partition=0)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=server.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["in"])
        assert next(filter(None, consumer.batches(SECONDS, 2)))[0].offset == 0
        with pytest.raises(ZeroDivisionError), producer.transaction(consumer, SECONDS):
            producer.send("t", b"v", partition=0).result(SECONDS)
            server.fail("EndTxn", "INVALID_PRODUCER_ID_MAPPING")
            raise ZeroDivisionError
        assert next(filter(None, consumer.batches(SECONDS, 2)))[0].offset == 0
