"""Transactions with a consumer: what was read is committed with what was written, or it is read again."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import (
    Client,
    ConfigError,
    Consumer,
    GroupError,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
    Record,
    TransactionAborted,
    TransactionError,
)
from pykafka4.consumer.reading.delivered import DeliveredOffsets
from pykafka4.core.producer.transactions.machine import TransactionState
from pykafka4.core.subscription import Claim
from pykafka4.producer.transaction_block import TransactionBlock
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import Maker, ctrl_c, written

IN = ("in", 0)


@pytest.fixture(params=["4.4", "3.9"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """One broker of a release with transaction.version 2, or 1; topic `in` with ten records in one partition, and topic `out`."""
    with ModelServer(brokers=1, release=request.param) as server:
        server.create_topic("in", 1)
        server.create_topic("out", 1)
        server.produce("in", *(b"%d" % n for n in range(10)), partition=0)
        yield server


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    with contextlib.ExitStack() as made:

        def producer(**options: Any) -> Producer:
            options = {"transactional_id": "copy", "linger_ms": 0, "retry_backoff_ms": 10, **options}
            one = Producer(bootstrap_servers=server.bootstrap_servers, **options)
            made.callback(one.close, SECONDS)
            one.init_transactions(SECONDS)
            return one

        yield producer


@pytest.fixture
def producer(make: Maker) -> Producer:
    return make()


@pytest.fixture
def consumer(server: ModelServer) -> Iterator[Consumer]:
    with reading(server) as consumer:
        yield consumer


def reading(server: ModelServer, **options: Any) -> Consumer:
    consumer = Consumer(
        bootstrap_servers=server.bootstrap_servers,
        group_id="g",
        isolation_level="read_committed",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        **{"auto_offset_reset": "earliest", **options},
    )
    consumer.subscribe(["in"])
    return consumer


def take(consumer: Consumer, count: int) -> list[int]:
    """The offsets of the next `count` records."""
    found: list[int] = []
    until(lambda: len(found) >= count or (found.extend(r.offset for r in consumer.poll(0.05, count - len(found))), False)[1])
    return found


def requests(server: ModelServer) -> Counter[str]:
    return server.do(lambda cluster: Counter(cluster.requests))  # type: ignore[no-any-return]


# ---- partitions that end, and topics


def test_offsets_of_a_deleted_topic_are_no_part_of_a_transaction_and_those_of_the_new_one_are(
    server: ModelServer, producer: Producer
) -> None:
    with reading(server, metadata_max_age_ms=100) as consumer:
        consumer.unsubscribe()
        consumer.assign([IN])
        with producer.transaction(consumer):
            assert take(consumer, 10) == [*range(10)]
        claim = inspect(consumer).session.reader.claims[TopicPartition(*IN)]
        server.produce("in", b"the last", partition=0)
        with producer.transaction(consumer):
            assert take(consumer, 1) == [10]
            server.do(lambda cluster: cluster.recreate_topic("in"))
            until(lambda: claim.outdated)
            producer.send("out", b"of the old topic")
        assert server.committed("g") == {}
        server.produce("in", *(b"new %d" % n for n in range(11)), partition=0)
        with producer.transaction(consumer):
            assert take(consumer, 11) == [*range(11)]
        assert server.committed("g") == {TopicPartition(*IN): 11}  # as in the old topic, of which it is known already
    assert written(server) == [b"of the old topic"]


@pytest.mark.parametrize("where", ["inside", "before"])
def test_records_of_a_partition_that_was_revoked_are_not_committed(
    server: ModelServer, producer: Producer, consumer: Consumer, where: str
) -> None:
    """Their offsets cannot be part of the transaction, and the next owner of the partition reads them again."""
    assert take(consumer, 4) == [0, 1, 2, 3]

    def lose() -> None:
        with reading(server) as other:
            until(lambda: (consumer.poll(0.02, 1), bool(other.poll(0.02, 1)) or bool(other.assignment()))[1])
            consumer.poll(0.02, 1)

    if where == "before":
        lose()
    with pytest.raises(TransactionAborted, match=r"in-0: revoked or lost after poll had returned records"), producer.transaction(consumer):
        producer.send("out", b"0 to 3")
        if where == "inside":
            lose()
    assert written(server) == []
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))
        producer.send("out", b"all")
    assert (written(server), server.committed("g")) == ([b"all"], {IN: 10})


def test_a_partition_that_ends_after_its_records_were_committed_is_no_reason_to_abort(
    server: ModelServer, producer: Producer, consumer: Consumer
) -> None:
    with producer.transaction(consumer):
        take(consumer, 4)
        producer.send("out", b"0 to 3")
    consumer.unsubscribe()
    with producer.transaction(consumer):
        producer.send("out", b"more")
    assert (written(server), server.committed("g")) == ([b"0 to 3", b"more"], {IN: 4})


# ---- what is part of a transaction


def test_the_current_record_of_a_loop_is_part_of_its_own_transaction(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    for n, record in enumerate(consumer):
        if n in (2, 4):
            with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
                raise ZeroDivisionError
            continue
        with producer.transaction(consumer):
            producer.send("out", record.value)
        assert server.committed("g") == {IN: record.offset + 1}
        if record.offset == 6:
            break
    assert written(server) == [b"%d" % n for n in range(7)]


def test_columns_are_part_of_the_transaction_in_which_they_were_returned(
    server: ModelServer, producer: Producer, consumer: Consumer
) -> None:
    with producer.transaction(consumer):
        until(lambda: consumer.poll_arrow(0.05, 4))
    assert server.committed("g")[TopicPartition(*IN)] == 4
    with contextlib.suppress(ZeroDivisionError), producer.transaction(consumer):
        until(lambda: consumer.poll_arrow(0.05, 3))
        raise ZeroDivisionError
    assert consumer.position(IN) == 4
    with producer.transaction(consumer):
        until(lambda: consumer.poll_arrow(0.05))
    assert server.committed("g")[TopicPartition(*IN)] == 10


def test_a_transaction_in_which_nothing_was_read_costs_nothing(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    with producer.transaction(consumer):
        take(consumer, 10)
    before = requests(server)
    for _ in range(3):
        with producer.transaction(consumer):
            consumer.poll(0.0)
    after = requests(server) - before
    assert not {"TxnOffsetCommit", "EndTxn", "AddOffsetsToTxn"} & after.keys()
    consumer.seek(IN, 3)
    with producer.transaction(consumer):
        """Back to an offset that is not the one stored."""
    assert server.committed("g") == {IN: 3}


# ---- after a transaction that was not committed


def test_after_a_seek_an_abort_goes_back_to_where_the_seek_went(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    with producer.transaction(consumer):
        take(consumer, 10)
    consumer.seek(IN, 2)
    for _ in range(2):
        assert take(consumer, 2) == [2, 3]
        with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
            raise ZeroDivisionError
    with producer.transaction(consumer):
        assert take(consumer, 2) == [2, 3]
    assert take(consumer, 2) == [4, 5]
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        raise ZeroDivisionError
    assert take(consumer, 2) == [4, 5]


def test_offsets_stored_by_hand_after_a_seek_count(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    take(consumer, 5)
    consumer.seek(IN, 0)
    producer.begin_transaction()
    assert take(consumer, 3) == [0, 1, 2]
    producer.send_offsets_to_transaction({IN: 3}, consumer.group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)
    assert take(consumer, 2) == [3, 4]
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        raise ZeroDivisionError
    assert take(consumer, 2) == [3, 4]


def test_after_ctrl_c_during_the_abort_the_consumer_goes_back(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    take(consumer, 5)
    server.delay("EndTxn", 0.5)
    calls = inspect(producer).transaction_calls
    with ctrl_c(lambda: calls.get("caller", ("", ""))[1] == "abort_transaction"), producer.transaction(consumer):
        producer.send("out", b"v").result(SECONDS)
        raise ZeroDivisionError
    producer.abort_transaction(SECONDS)
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))


def timed_out(server: ModelServer, producer: Producer, consumer: Consumer, failing: bool, sought: bool = False) -> None:
    """A transaction with the records 0 to 4, and then one with 5 to 7 (after a seek to 5) whose commit has timed out."""
    take(consumer, 5)
    with producer.transaction(consumer):
        producer.send("out", b"first")
    if sought:
        consumer.seek(IN, 5)
    take(consumer, 3)
    server.fail("Produce", "REQUEST_TIMED_OUT", topic="out", times=4)
    if failing:
        server.fail("Produce", "INVALID_RECORD", topic="out")
    with (
        pytest.raises(KafkaTimeoutError, match=r"(?s)commit_transaction.*call commit_transaction again"),
        producer.transaction(consumer, timeout=0.3),
    ):
        producer.send("out", b"second")


@pytest.mark.parametrize("polls", [False, True])
def test_a_commit_that_timed_out_and_turns_out_to_be_aborted(server: ModelServer, make: Maker, consumer: Consumer, polls: bool) -> None:
    producer = make(retry_backoff_ms=150)
    timed_out(server, producer, consumer, failing=True)
    with pytest.raises(TransactionAborted):
        producer.commit_transaction(SECONDS)
    producer.abort_transaction(SECONDS)
    if polls:  # what it returns lies behind the records of the transaction that failed
        assert take(consumer, 2) == [8, 9]
        with pytest.raises(TransactionAborted, match="poll reads them again"), producer.transaction(consumer):
            producer.send("out", b"never")
    with producer.transaction(consumer):
        assert take(consumer, 5) == [5, 6, 7, 8, 9]
        producer.send("out", b"third")
    assert (written(server), server.committed("g")) == ([b"first", b"third"], {IN: 10})


@pytest.mark.parametrize("sought", [False, True])
def test_a_commit_that_timed_out_and_turns_out_to_be_committed(server: ModelServer, make: Maker, consumer: Consumer, sought: bool) -> None:
    producer = make(retry_backoff_ms=150)
    timed_out(server, producer, consumer, failing=False, sought=sought)
    producer.commit_transaction(SECONDS)
    assert take(consumer, 2) == [8, 9]
    with producer.transaction(consumer):
        producer.send("out", b"third")
    assert (written(server), server.committed("g")) == ([b"first", b"second", b"third"], {IN: 10})


@pytest.mark.parametrize("where", ["commit", "abort", "block"])
def test_a_fenced_producer_leaves_the_records_to_the_next_one(server: ModelServer, make: Maker, consumer: Consumer, where: str) -> None:
    producer = make()
    take(consumer, 5)
    others: list[Producer] = []
    with pytest.raises(ProducerFencedError), producer.transaction(consumer, SECONDS):
        producer.send("out", b"v").result(SECONDS)
        others.append(make())
        if where == "abort":
            raise KafkaError("of the application")
        if where == "block":
            producer.commit_transaction(SECONDS)
    with others[0].transaction(consumer):
        assert take(consumer, 10) == list(range(10))
        others[0].send("out", b"again")
    assert (written(server), server.committed("g")) == ([b"again"], {IN: 10})


def test_a_rewind_that_failed_is_carried_out_by_the_next_transaction(
    server: ModelServer, producer: Producer, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(consumer, 5)

    def denied(*args: Any) -> None:
        raise KafkaError("no coordinator")

    monkeypatch.setattr(inspect(consumer).session.commits, "looking_up", denied)
    with pytest.raises(ZeroDivisionError) as raised, producer.transaction(consumer):
        raise ZeroDivisionError
    assert raised.value.__notes__ == ["pykafka4: rewinding the consumer failed; its next transaction will first try again: no coordinator"]
    with pytest.raises(KafkaError, match="no coordinator"), producer.transaction(consumer):
        producer.send("out", b"never")
    monkeypatch.undo()
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))


def test_a_block_that_ends_on_the_loops_thread_does_not_wait_for_it(server: ModelServer) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        producer = Producer(client, transactional_id="copy", linger_ms=0)
        producer.init_transactions(SECONDS)
        consumer = Consumer(client, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, heartbeat_interval_ms=50)
        consumer.subscribe(["in"])
        take(consumer, 5)
        block = producer.transaction(consumer)
        block.__enter__()
        producer.send("out", b"never").result(SECONDS)
        left = GeneratorExit()
        inspect(producer).session.post(lambda _: block.__exit__(GeneratorExit, left, None))
        assert producer.stats().acked == 1  # the loop answers
        assert "rewinding the consumer failed" in left.__notes__[-1]
        transactions = inspect(producer).machine.transactions
        until(lambda: transactions is not None and transactions.state is TransactionState.READY)
        with producer.transaction(consumer):
            assert take(consumer, 10) == list(range(10))
        consumer.close(SECONDS)
        producer.close(SECONDS)


def test_a_consumer_in_two_transactions_at_once_is_refused(server: ModelServer, make: Maker, consumer: Consumer) -> None:
    outer, inner = make(), make(transactional_id="other")
    take(consumer, 5)
    with pytest.raises(TransactionAborted, match="another transaction"), outer.transaction(consumer):
        outer.send("out", b"outer")
        with contextlib.suppress(TransactionAborted), inner.transaction(consumer):
            inner.send("out", b"inner")
    assert (written(server), server.committed("g")) == ([], {})


def test_a_consumer_that_is_no_member_any_more_aborts_whoever_says_so_first(
    server: ModelServer, producer: Producer, consumer: Consumer
) -> None:
    """The client knows it from a heartbeat; with others the coordinator of the group is asked first."""
    with (
        pytest.raises(TransactionAborted, match="not a member of group g now: poll joins the group") as raised,
        producer.transaction(consumer),
    ):
        assert take(consumer, 3) == [0, 1, 2]
        producer.send("out", b"never")
        server.fail("Heartbeat", "UNKNOWN_MEMBER_ID")
        until(inspect(consumer).machine.membership.losses, "the loss of its partitions")
    assert isinstance(raised.value.__cause__, GroupError)
    with pytest.raises(GroupError, match="not a member"):
        consumer.group_metadata()
    assert (written(server), server.committed("g")) == ([], {})


# ---- transactions that could not begin


@pytest.mark.parametrize("made", ["before the poll", "after it"])
def test_what_was_read_for_a_transaction_that_could_not_begin_is_read_again(
    server: ModelServer, make: Maker, consumer: Consumer, made: str
) -> None:
    """The commit before it has a known outcome only later; then it no longer owes a rewind itself."""
    producer = make(retry_backoff_ms=150)
    timed_out(server, producer, consumer, failing=False)
    block = producer.transaction(consumer)
    assert take(consumer, 1) == [8]
    if made == "after it":
        block = producer.transaction(consumer)
    with pytest.raises(TransactionError, match="call commit_transaction again"), block:
        producer.send("out", b"never")
    producer.commit_transaction(SECONDS)
    with pytest.raises(TransactionAborted, match=r"could not begin.*poll reads them again"), producer.transaction(consumer):
        producer.send("out", b"never")
    assert take(consumer, 2) == [8, 9]
    with producer.transaction(consumer):
        producer.send("out", b"third")
    assert (written(server), server.committed("g")) == ([b"first", b"second", b"third"], {IN: 10})


@pytest.mark.parametrize("where", ["_in_transaction", "enter", "begin", "abort"])
def test_what_was_read_for_a_transaction_that_ctrl_c_kept_from_beginning_is_read_again(
    server: ModelServer, producer: Producer, consumer: Consumer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    reads, calls = inspect(consumer).session.transactional, inspect(producer).session.transactions
    take(consumer, 5)

    def interrupted(*args: Any) -> Any:
        monkeypatch.undo()
        if where == "abort":  # twice: the second one ends the abort
            monkeypatch.setattr(calls, "abort", interrupted_too)
        raise KeyboardInterrupt

    def interrupted_too(*args: Any) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    place: tuple[Any, str] = {
        "_in_transaction": (reads, "check"),
        "enter": (TransactionBlock, "__enter__"),  # before its first line
        "begin": (calls, "begin"),
        "abort": (reads, "begin"),
    }[where]
    monkeypatch.setattr(*place, interrupted)
    with pytest.raises(KeyboardInterrupt), producer.transaction(consumer):
        producer.send("out", b"never")
    if where == "abort":
        producer.abort_transaction(SECONDS)
    assert take(consumer, 2) == [5, 6]
    with pytest.raises(TransactionAborted, match="could not begin"), producer.transaction(consumer):
        producer.send("out", b"never")
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))
    assert server.committed("g") == {IN: 10}


def test_a_block_that_is_never_entered_counts_as_one_that_could_not_begin(
    server: ModelServer, producer: Producer, consumer: Consumer
) -> None:
    """An exception came between the two, or the application has other plans: records are processed twice rather than never."""
    producer.transaction(consumer)
    assert take(consumer, 2) == [0, 1]
    with producer.transaction(consumer):
        """Nothing was in hand when the other block was made."""
    producer.transaction(consumer)
    assert take(consumer, 2) == [2, 3]
    with producer.transaction(consumer):
        """Still nothing was."""
    assert take(consumer, 1) == [4]
    producer.transaction(consumer)
    with pytest.raises(TransactionAborted, match="could not begin"), producer.transaction(consumer):
        producer.send("out", b"never")
    assert take(consumer, 6) == [4, 5, 6, 7, 8, 9]
    with producer.transaction(consumer):
        producer.transaction(consumer)
    with producer.transaction(consumer):
        """What was in hand inside of the block is committed."""
    assert server.committed("g") == {IN: 10}


def test_a_transaction_refused_inside_of_another_changes_nothing(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    with producer.transaction(consumer):
        take(consumer, 3)
        with pytest.raises(TransactionError), producer.transaction(consumer):
            producer.send("out", b"never")
        take(consumer, 2)
        producer.send("out", b"0 to 4")
    with producer.transaction(consumer):
        assert take(consumer, 5) == [5, 6, 7, 8, 9]
    assert (written(server), server.committed("g")) == ([b"0 to 4"], {IN: 10})


def test_records_of_a_refused_block_are_read_again_although_the_rewind_of_the_transaction_around_it_failed(
    server: ModelServer, producer: Producer, consumer: Consumer
) -> None:
    take(consumer, 5)
    server.fail("OffsetFetch", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        with pytest.raises(TransactionError), producer.transaction(consumer):
            producer.send("out", b"never")
        raise ZeroDivisionError
    server.assert_all_met()
    with pytest.raises(TransactionAborted, match="poll reads them again"), producer.transaction(consumer):
        producer.send("out", b"never")
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))
    assert server.committed("g") == {IN: 10}


def test_nothing_is_read_again_when_nothing_was_read_for_a_transaction_that_could_not_begin(
    server: ModelServer, make: Maker, consumer: Consumer
) -> None:
    producer = make(retry_backoff_ms=150)
    timed_out(server, producer, consumer, failing=False)
    with pytest.raises(TransactionError, match="call commit_transaction again"), producer.transaction(consumer):
        """Without records."""
    producer.commit_transaction(SECONDS)
    with producer.transaction(consumer):
        assert take(consumer, 2) == [8, 9]
    assert server.committed("g") == {IN: 10}


# ---- the same records twice


@pytest.mark.parametrize("how", ["seek", "rewind"])
def test_records_in_hand_that_were_read_again_meanwhile_are_not_committed_without_offsets(
    server: ModelServer, producer: Producer, consumer: Consumer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A rewind is owed, and the application is at the same place again: it has other copies of the same records."""
    with producer.transaction(consumer):
        take(consumer, 3)
    reader = inspect(consumer).session.reader
    rewind_each, take_in = reader.rewind_each, take(consumer, 3)

    def interrupted(offsets: Any) -> None:
        monkeypatch.undo()
        if how == "rewind":
            rewind_each(offsets)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(reader), "rewind_each", lambda _, offsets: interrupted(offsets))
    with pytest.raises(KeyboardInterrupt), producer.transaction(consumer):
        raise ZeroDivisionError
    if how == "seek":
        consumer.seek(IN, 3)
    assert take(consumer, 3) == take_in == [3, 4, 5]
    with pytest.raises(TransactionAborted, match="poll reads them again"), producer.transaction(consumer):
        producer.send("out", b"never")
    with producer.transaction(consumer):
        assert take(consumer, 7) == [3, 4, 5, 6, 7, 8, 9]
        producer.send("out", b"once")
    assert (written(server), server.committed("g")) == ([b"once"], {IN: 10})


# ---- reading that goes back


def test_records_before_those_in_hand_count_when_reading_has_gone_back() -> None:
    """The log was truncated, or the topic is a new one."""
    handed, claim = DeliveredOffsets(), Claim(TopicPartition(*IN))
    handed.add(claim.tp, 90, 99)
    claim.start = 90
    assert handed.start(claim, 50) == 50
    handed.add(claim.tp, 50, 60)
    assert handed.start(claim, 61) == 50
    handed.end(claim, 61)
    assert handed.cut_off == {claim.tp: (claim.origin, 61)}


def test_after_an_abort_the_records_behind_a_lost_end_are_read_again(server: ModelServer, producer: Producer, consumer: Consumer) -> None:
    """The log has grown beyond the committed offset again."""
    server.do(lambda cluster: cluster.create_topic("grows", 1, unclean=True))
    server.produce("grows", *(b"%d" % n for n in range(5)), partition=0)
    server.produce("grows", *(b"%d" % n for n in range(5)), partition=0)
    consumer.subscribe(["grows"])
    with producer.transaction(consumer):
        assert take(consumer, 10) == list(range(10))
        producer.send("out", b"x")
    server.do(lambda cluster: cluster.unclean_election("grows", 0, lost=1))
    until(lambda: (consumer.poll(0.05), consumer.position(("grows", 0)) == 5)[1])
    server.produce("grows", *(b"%d" % n for n in range(10)), partition=0)
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        assert take(consumer, 10) == list(range(5, 15))
        raise ZeroDivisionError
    assert take(consumer, 10) == list(range(5, 15))


@pytest.mark.parametrize("seek", [False, True])
def test_after_an_abort_the_records_behind_a_lost_beginning_are_read_again(server: ModelServer, producer: Producer, seek: bool) -> None:
    """The committed offset is out of range."""
    with reading(server, auto_offset_reset="latest") as consumer:
        until(lambda: (consumer.poll(0.05), consumer.assignment())[1])
        consumer.seek(IN, 0)
        with producer.transaction(consumer):
            assert take(consumer, 10) == list(range(10))
            producer.send("out", b"x")
        consumer.pause([IN])
        server.produce("in", *(b"%d" % n for n in range(10)), partition=0)
        server.do(lambda cluster: cluster.delete_records("in", 0, 20))
        consumer.resume([IN])
        if seek:
            consumer.seek(IN, 20)
        until(lambda: (consumer.poll(0.05), consumer.position(IN) == 20)[1])
        server.produce("in", *(b"%d" % n for n in range(5)), partition=0)
        with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
            assert take(consumer, 5) == list(range(20, 25))
            raise ZeroDivisionError
        assert take(consumer, 5) == list(range(20, 25))


@pytest.mark.parametrize("sought", [False, True])
def test_the_first_record_that_is_to_be_read_again(sought: bool) -> None:
    handed, claim = DeliveredOffsets(), Claim(TopicPartition(*IN))
    claim.start = 3
    assert handed.first(claim, 7) == 7
    handed.add(claim.tp, 5, 6)
    assert handed.first(claim, 7) == 5
    if sought:
        handed.sought(claim, 7)
        claim.start = 2
        assert handed.first(claim, 4) == 2


@pytest.mark.parametrize("what", ["process", "streams"])
def test_process_and_streams_are_refused_until_a_transaction_has_ended(
    server: ModelServer, make: Maker, consumer: Consumer, what: str
) -> None:
    """They commit by themselves, also what the transaction aborts or has not processed."""
    stop = threading.Event()

    def call() -> None:
        if what == "process":
            consumer.process(lambda record: stop.set(), stop=stop)
        else:
            consumer.streams({"in": 1}).close()

    producer = make()
    with producer.transaction(consumer):
        take(consumer, 2)
        with pytest.raises(ConfigError, match=f"{what}: a transaction with this consumer is open"):
            call()
        producer.send("out", b"x")
    assert server.committed("g") == {IN: 2}
    call()
    with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
        raise ZeroDivisionError
    stop.clear()
    server.produce("in", *(b"%d" % n for n in range(10)), partition=0)
    call()


@pytest.mark.parametrize("how", ["refused", "never entered"])
@pytest.mark.parametrize("what", ["process", "streams"])
def test_process_and_streams_are_refused_when_a_transaction_could_not_begin_until_its_records_are_read_again(
    server: ModelServer, producer: Producer, consumer: Consumer, what: str, how: str
) -> None:
    """They would commit what the application has in hand, and has not processed."""
    stop, handled = threading.Event(), list[int]()

    def handle(record: Record) -> None:
        handled.append(record.offset)
        if record.offset == 9:
            stop.set()

    def call() -> None:
        if what == "process":
            consumer.process(handle, stop=stop)
        else:
            with consumer.streams({"in": 1}) as streams:
                for record in streams[0]:
                    handle(record)
                    if stop.is_set():
                        break

    take(consumer, 3)
    if how == "refused":
        producer.begin_transaction()
        with pytest.raises(TransactionError, match="a transaction is open"), producer.transaction(consumer):
            """Not entered."""
        producer.abort_transaction(SECONDS)
    else:
        producer.transaction(consumer)
    with pytest.raises(ConfigError, match=rf"{what}: a transaction with this consumer has not begun.*run a block with transaction\("):
        call()
    with pytest.raises(TransactionAborted, match="could not begin"), producer.transaction(consumer):
        """It goes back."""
    call()
    assert handled == list(range(10))


def test_what_is_no_consumer_is_refused(producer: Producer) -> None:
    for wrong in ("x", 5, producer):
        with pytest.raises(TypeError, match="consumer must be a Consumer, not"):
            producer.transaction(wrong)  # type: ignore[arg-type]
