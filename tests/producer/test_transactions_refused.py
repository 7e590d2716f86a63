"""Transactions: calls whose outcome is not known, and what each refusal of a coordinator leads to."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pykafka4 import (
    BrokerError,
    ConfigError,
    ConsumerGroupMetadata,
    DeliveryFailed,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
    TransactionAborted,
    TransactionError,
)
from pykafka4.core.producer.transactions.machine import TransactionState
from pykafka4.producer.session import _reported
from pykafka4.producer.transactions import TransactionCalls
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import Maker

MAYBE = "the transaction may have been committed"


@pytest.fixture(params=["4.4", "3.9"])
def server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """One broker of a release with transaction.version 2, or 1; topic `t` with two partitions."""
    with ModelServer(brokers=1, release=request.param) as server:
        server.create_topic("t", 2)
        yield server


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        options = {"transactional_id": "x", "linger_ms": 0, "retry_backoff_ms": 10, **options}
        made.append(Producer(bootstrap_servers=server.bootstrap_servers, **options))
        return made[-1]

    yield producer
    for one in made:
        one.close(SECONDS)


@pytest.fixture
def producer(make: Maker) -> Producer:
    producer = make()
    producer.init_transactions(SECONDS)
    return producer


def version_1(server: ModelServer) -> bool:
    return bool(server.do(lambda cluster: cluster.release) == "3.9")


# ---- calls


def test_a_call_is_pending_before_the_loop_has_begun_it(producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    go = threading.Event()
    inspect(producer).loop.call(lambda now: go.wait(SECONDS))
    try:
        with pytest.raises(KafkaTimeoutError, match="call commit_transaction again"):
            producer.commit_transaction(0.02)
        for call in (producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(TransactionError, match="the outcome of commit_transaction is not known yet"):
                call()
    finally:
        go.set()
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()


def test_a_call_of_a_signal_handler_does_not_let_other_threads_in(producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    told: list[str] = []
    go = threading.Event()
    inspect(producer).loop.call(lambda now: go.wait(SECONDS))  # the commit is under way until both calls were refused

    def call(name: str) -> None:
        try:
            producer.begin_transaction()
        except TransactionError as error:
            told.append(f"{name}: {error}")

    def other() -> None:
        until(lambda: "commit" in str(inspect(producer).transaction_calls))
        os.kill(os.getpid(), signal.SIGUSR1)
        until(lambda: told)
        call("other")
        go.set()

    before = signal.signal(signal.SIGUSR1, lambda *_: call("handler"))
    thread = threading.Thread(target=other, name="other")
    try:
        thread.start()
        producer.commit_transaction(SECONDS)
        thread.join(SECONDS)
    finally:
        go.set()
        signal.signal(signal.SIGUSR1, before)
    assert told[0].startswith("handler: begin_transaction: the outcome of commit_transaction is not known yet")
    assert told[1].startswith("other: thread 'other' called begin_transaction while thread 'MainThread' is in commit_transaction")
    producer.begin_transaction()


# ---- commits in doubt


@pytest.mark.parametrize(("code", "error"), [("TRANSACTION_ABORTABLE", TransactionAborted), ("PRODUCER_FENCED", ProducerFencedError)])
def test_a_commit_that_was_sent_and_refused_is_in_doubt(
    server: ModelServer, producer: Producer, code: str, error: type[KafkaError]
) -> None:
    """A broker may have carried it out although it answers with an error."""
    producer.begin_transaction()
    producer.send("t", b"v", partition=0).result(SECONDS)
    server.fail("EndTxn", code, after=True)
    with pytest.raises(error, match=MAYBE):
        producer.commit_transaction(SECONDS)
    with pytest.raises(KafkaError, match=MAYBE):
        producer.abort_transaction(SECONDS)


def test_a_commit_that_was_not_sent_is_not_in_doubt(server: ModelServer, producer: Producer) -> None:
    server.fail("Produce", "INVALID_RECORD", topic="t", partition=1)
    with pytest.raises(TransactionAborted) as raised, producer.transaction():
        producer.send("t", b"acknowledged", partition=0).result(SECONDS)
        producer.send("t", b"bad", partition=1)
    assert MAYBE not in str(raised.value)
    with producer.transaction():
        producer.send("t", b"next", partition=1)


def test_a_commit_that_succeeded_puts_the_next_transaction_in_no_doubt(server: ModelServer, producer: Producer) -> None:
    with producer.transaction():
        producer.send("t", b"committed", partition=0)
    server.fail("EndTxn", "PRODUCER_FENCED")
    producer.begin_transaction()
    producer.send("t", b"aborted", partition=0).result(SECONDS)
    with pytest.raises(ProducerFencedError) as raised:
        producer.abort_transaction(SECONDS)
    assert MAYBE not in str(raised.value)


@pytest.mark.parametrize("acknowledged", [0, 3])
def test_after_records_timed_out_the_commit_fails(server: ModelServer, make: Maker, acknowledged: int) -> None:
    producer = make(delivery_timeout_ms=300, request_timeout_ms=200)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for n in range(acknowledged):
        producer.send("t", b"%d" % n, partition=0).result(SECONDS)
    server.fail("Produce", "NOT_ENOUGH_REPLICAS", topic="t", partition=1, times=1000)
    producer.send("t", b"late", partition=1)
    for _ in range(2):
        with pytest.raises(TransactionAborted, match="must be aborted"):
            producer.commit_transaction(SECONDS)
    producer.abort_transaction(SECONDS)
    decided = server.do(lambda cluster: [t.state.value for t in cluster.transactions.transactions.values()])
    assert decided == (["CompleteAbort"] if acknowledged or not version_1(server) else decided)


@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
def test_an_error_that_ends_the_producer_after_acknowledged_records_commits_nothing(
    server: ModelServer, producer: Producer, error: str
) -> None:
    with pytest.raises(KafkaError) as raised, producer.transaction():
        producer.send("t", b"acknowledged", partition=0).result(SECONDS)
        server.fail("Produce", error, topic="t", partition=1)
        producer.send("t", b"bad", partition=1)
    assert not isinstance(raised.value, TransactionError)
    states = server.do(lambda cluster: {t.state.value for t in cluster.transactions.transactions.values()})
    assert states == {"Ongoing"}
    with pytest.raises(type(raised.value)):
        producer.begin_transaction()


# ---- errors of the coordinator


@pytest.mark.parametrize("code", ["INVALID_TOPIC_EXCEPTION", "POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_PRODUCER_ID"])
def test_a_partition_that_cannot_be_added_aborts_the_transaction(server: ModelServer, producer: Producer, code: str) -> None:
    if not version_1(server):
        pytest.skip("brokers add partitions themselves")
    server.fail("AddPartitionsToTxn", code)
    with pytest.raises(TransactionAborted, match=f"AddPartitionsToTxn of x: {code}"), producer.transaction():
        producer.send("t", b"bad", partition=0)
    with producer.transaction():
        producer.send("t", b"good", partition=0)


@pytest.mark.parametrize("code", ["INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
def test_errors_of_adding_a_partition_that_end_the_producer(server: ModelServer, producer: Producer, code: str) -> None:
    if not version_1(server):
        pytest.skip("brokers add partitions themselves")
    server.fail("AddPartitionsToTxn", code)
    with pytest.raises(BrokerError, match=code), producer.transaction():
        producer.send("t", b"bad", partition=0)
    with pytest.raises(BrokerError, match=code):
        producer.begin_transaction()


@pytest.mark.parametrize(("code", "most"), [("UNKNOWN_TOPIC_OR_PARTITION", 6), ("CONCURRENT_TRANSACTIONS", 12)])
def test_adding_a_partition_is_repeated_with_a_growing_back_off(server: ModelServer, make: Maker, code: str, most: int) -> None:
    """A transaction that is just being completed takes about 20 ms; everything else takes `retry_backoff_ms` and longer."""
    if not version_1(server):
        pytest.skip("brokers add partitions themselves")
    producer = make(retry_backoff_ms=100)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    server.fail("AddPartitionsToTxn", code, times=1000)
    producer.send("t", b"v", partition=0)
    time.sleep(1.0)
    asked = server.do(lambda cluster: cluster.requests["AddPartitionsToTxn"])
    assert 2 <= asked <= most


def test_init_transactions_may_be_repeated_when_it_should_be_aborted(server: ModelServer, make: Maker) -> None:
    producer = make()
    server.fail("InitProducerId", "TRANSACTION_ABORTABLE")
    with pytest.raises(BrokerError, match="TRANSACTION_ABORTABLE"):
        producer.init_transactions(SECONDS)
    assert inspect(producer).machine.transactions.state is TransactionState.UNINITIALIZED
    producer.init_transactions(SECONDS)
    with producer.transaction():
        producer.send("t", b"v", partition=0)


def test_a_loop_that_goes_on_after_aborted_transactions_ends_when_one_cannot_be_aborted(server: ModelServer, producer: Producer) -> None:
    """TransactionAborted means that the next transaction may succeed; without an abort none can begin."""
    server.fail("EndTxn", "TRANSACTION_ABORTABLE", times=2)
    with pytest.raises(TransactionAborted) as raised, producer.transaction(timeout=SECONDS):
        producer.send("t", b"v", partition=0)
    assert "aborting the transaction failed" in raised.value.__notes__[0]
    with pytest.raises(TransactionError, match=r"begin_transaction: .*: call abort_transaction first .*TRANSACTION_ABORTABLE") as refused:
        producer.begin_transaction()
    assert not isinstance(refused.value, TransactionAborted)
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()


def test_an_epoch_that_is_refused_for_the_moment_is_asked_for_again(server: ModelServer, producer: Producer) -> None:
    """After a commit whose first answer was lost. At worst the next transaction, which has begun meanwhile, aborts."""
    server.disconnect("EndTxn")
    server.fail("InitProducerId", "TRANSACTION_ABORTABLE")
    with producer.transaction():
        producer.send("t", b"first", partition=0)
    with contextlib.suppress(TransactionAborted), producer.transaction():
        producer.send("t", b"second", partition=0)
    with producer.transaction():
        producer.send("t", b"third", partition=0)
    if version_1(server):  # from version 2 on EndTxn brings the epoch
        server.assert_all_met()


def interrupt_line(number: int) -> Callable[..., Any]:
    """A trace function: Ctrl-C before that line of the code that notes which thread is in a call."""
    functions = (TransactionCalls._run, TransactionCalls._enter, TransactionCalls._leave)
    watched, seen = {function.__code__ for function in functions}, 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code not in watched:
            return None
        seen += event == "line"
        if event == "line" and seen == number:
            raise KeyboardInterrupt
        return trace

    return trace


def test_ctrl_c_in_a_call_leaves_no_entry_that_locks_other_threads_out(producer: Producer) -> None:
    before = sys.gettrace()
    for number in range(1, 200):
        sys.settrace(interrupt_line(number))
        try:
            producer.begin_transaction()
        except KafkaError:
            """It is open already."""
        except KeyboardInterrupt:
            assert inspect(producer).transaction_calls == {}, f"line {number}"
            continue
        finally:
            sys.settrace(before)
        assert number > 20
        return
    raise AssertionError("no end of lines")


@pytest.mark.parametrize("what", ["begin_transaction", "commit_transaction", "abort_transaction"])
def test_after_ctrl_c_in_its_last_lines_a_call_tells_its_outcome_when_made_again(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    calls = inspect(producer).session.transactions
    if what != "begin_transaction":
        producer.begin_transaction()
        producer.send("t", b"v", partition=0)
    wait = calls._wait

    def interrupted(*args: Any) -> None:
        wait(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(calls, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(producer, what)()
    monkeypatch.undo()
    getattr(producer, what)()
    with pytest.raises(TransactionError):  # once: this one is another call
        getattr(producer, what)()


@pytest.mark.parametrize(
    ("group", "error", "names"),
    [
        (ConsumerGroupMetadata(5), TypeError, "group_id must be a str, not 5"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("\ud800"), ConfigError, "group_id.*cannot be encoded"),
        (ConsumerGroupMetadata("g" * 40_000), ConfigError, "group_id has 40,000 bytes"),
        (ConsumerGroupMetadata("g", "1", "m"), TypeError, "generation_id must be an int"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 2**40, "m"), ConfigError, "generation_id must be from 0"),
        (ConsumerGroupMetadata("g", -2, "m"), ConfigError, "generation_id must be from 0"),
        (ConsumerGroupMetadata("g", 1, None), TypeError, "member_id must be a str, not None"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 1, "m", 7), TypeError, "group_instance_id must be a str, not 7"),  # type: ignore[arg-type]
    ],
)
def test_metadata_of_a_group_that_cannot_be_sent_is_refused_at_the_call(
    producer: Producer, group: ConsumerGroupMetadata, error: type[Exception], names: str
) -> None:
    with producer.transaction():
        producer.send("t", b"v", partition=0)
        with pytest.raises(error, match=names):
            producer.send_offsets_to_transaction({("in", 0): 1}, group, SECONDS)
    with producer.transaction():
        producer.send("t", b"next", partition=0)


@pytest.mark.parametrize("fails", [False, True])
def test_records_that_the_application_gave_up_are_not_raised_at_the_end(server: ModelServer, fails: bool) -> None:
    """Those that failed by themselves are."""
    raises = pytest.raises(DeliveryFailed, match="INVALID_RECORD") if fails else contextlib.nullcontext()
    options = {"transactional_id": "x", "linger_ms": 60_000}
    with raises, Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
        producer.init_transactions(SECONDS)
        for _ in range(2):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                given_up = producer.send("t", b"given up", partition=0)
                raise ZeroDivisionError
            if fails:
                server.fail("Produce", "INVALID_RECORD", topic="t")
                with contextlib.suppress(TransactionAborted), producer.transaction():
                    producer.send("t", b"bad", partition=1)
        with producer.transaction():
            producer.send("t", b"good", partition=0)
    error = given_up.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.code == "TRANSACTION_ABORTED"


def test_records_of_a_transaction_that_was_repeated_are_not_raised_at_the_end(server: ModelServer) -> None:
    """The coordinator refused its offsets, so the records that waited failed before the abort was called."""
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x", linger_ms=60_000) as producer:
        producer.init_transactions(SECONDS)
        with pytest.raises(TransactionAborted), producer.transaction():
            given_up = producer.send("t", b"v", partition=0)
            with contextlib.suppress(TransactionAborted):
                producer.send_offsets_to_transaction({("t", 0): 1}, ConsumerGroupMetadata("g", 5, "nobody"), SECONDS)
            until(given_up.done)
        with producer.transaction():
            producer.send("t", b"v", partition=0)
    error = given_up.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.code == "TRANSACTION_ABORTED"


def test_failures_that_were_raised_do_not_hide_others_between_them(server: ModelServer, make: Maker) -> None:
    producer = make(transactional_id=None)
    for start, end in ((0, 1), (5, 6), (2, 3), (3, 4), (2, 3), (8, 8)):
        inspect(producer).session.mark_failures_seen(start, end)
    assert _reported.get()[inspect(producer).session._serial] == ((0, 1), (2, 4), (5, 6))


@pytest.mark.parametrize("own", [True, False])
def test_a_block_that_the_garbage_collector_leaves_on_a_loops_thread_does_not_block_it(
    server: ModelServer, make: Maker, producer: Producer, own: bool
) -> None:
    def pages() -> Iterator[Any]:
        with producer.transaction():
            yield producer.send("t", b"never")

    generator = pages()
    next(generator).result(SECONDS)
    held = [generator]
    del generator
    inspect(producer if own else make(transactional_id=None)).session.post(lambda _: held.clear())
    assert producer.stats().acked == 1  # the loop answers
    transactions = inspect(producer).machine.transactions
    assert transactions is not None
    until(lambda: transactions.state is TransactionState.READY)
    with producer.transaction():
        producer.send("t", b"next")


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_whose_transaction_was_ended_inside_does_not_end_the_next_one(server: ModelServer, producer: Producer, fails: bool) -> None:
    block = producer.transaction()
    block.__enter__()
    producer.send("t", b"never")
    producer.abort_transaction(SECONDS)
    with producer.transaction():
        producer.send("t", b"v", partition=0)
        if fails:  # what the garbage collector does with a generator that was left half way
            left = GeneratorExit()
            block.__exit__(GeneratorExit, left, None)
            assert "another one has begun, which the block does not end" in left.__notes__[0]
        else:
            with pytest.raises(TransactionError, match="another one has begun, which the block does not end"):
                block.__exit__(None, None, None)
        producer.send("t", b"w", partition=0).result(SECONDS)
