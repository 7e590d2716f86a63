"""Records: what was accepted gets its outcome, and nothing waits without an end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka4 import BufferFull, Client, ConfigError, Consumer, DeliveryFailed, KafkaError, KafkaTimeoutError, Producer
from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.records import Written
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Delivery
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import FEW, HUNG, Maker, Sending, balanced, ctrl_c, knowing, out_of_reach, start_all, stop_all, values

# -- records go out


def test_leaving_the_block_delivers_everything(server: ModelServer, make: Maker) -> None:
    with make(linger_ms=60_000) as producer:
        for n in range(100):
            producer.send("t", b"%02d" % n)
    assert values(server) == [b"%02d" % n for n in range(100)]
    assert balanced(producer)


def test_flush_waits_for_what_lingers_and_for_its_callbacks(make: Maker) -> None:
    producer, called = make(linger_ms=60_000), list[Delivery]()
    sent = [producer.send("t", b"v", on_delivery=called.append) for _ in range(10)]
    producer.flush(SECONDS)
    assert len(called) == 10
    assert all(delivery.exception(0) is None for delivery in sent)


def test_a_record_whose_first_answer_was_lost_has_its_own_timestamp(server: ModelServer, make: Maker) -> None:
    producer = make(linger_ms=60_000)
    server.disconnect("Produce", after=True)
    began = time.time_ns() // 1_000_000
    sent = [producer.send("t", b"v", partition=0, timestamp_ms=began + n) for n in range(3)]
    producer.flush(SECONDS)
    server.assert_all_met()
    assert [delivery.result(0).timestamp_ms for delivery in sent] == [began + n for n in range(3)]
    assert [record.timestamp_ms for record in server.records("t", 0)] == [began + n for n in range(3)]


def test_a_partition_whose_replicas_are_stuck_keeps_no_acknowledgement_from_others_in_its_request(server: ModelServer, make: Maker) -> None:
    server.create_topic("one-replica", 1, leaders=[1], replicas=1)
    server.create_topic("stuck", 1, leaders=[1])
    producer = make(linger_ms=500, request_timeout_ms=2_000, delivery_timeout_ms=2_500, retry_backoff_ms=1_000)
    for wait in (SECONDS, 0.1):
        sent = [producer.send(topic, b"v") for topic in ("one-replica", "stuck")]
        with contextlib.suppress(KafkaTimeoutError):
            producer.flush(wait)
        server.do(lambda cluster: cluster.pause_replication(2, 600.0))
    assert sent[0].result(SECONDS).offset == 1
    assert sent[1].exception(SECONDS) is not None


def test_flush_that_takes_too_long_says_how_much_is_left(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    for _ in range(3):
        producer.send("t", b"v")
    producer.send("unknown", b"v")
    with pytest.raises(KafkaTimeoutError, match=r"flush: records not delivered within 0\.05 s: 4; status\(\) says"):
        producer.flush(0.05)


def test_a_result_that_is_not_there_in_time_refers_to_the_status(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    delivery = producer.send("t", b"v", partition=0)
    for timeout in (0, 0.01, -1):
        with pytest.raises(KafkaTimeoutError, match=r"t-0: not acknowledged .*; it is still being sent, and Producer.status\(\) says why"):
            delivery.result(timeout)
    with pytest.raises(ConfigError, match="timeout='1': must be a non-negative number of seconds"):
        delivery.result("1")  # type: ignore[arg-type]


def test_a_delivery_can_be_awaited_before_and_after_its_outcome(make: Maker) -> None:
    async def main() -> list[int]:
        delivery = producer.send("t", b"v", partition=0)
        return [(await delivery).offset, (await delivery).offset]

    producer = make()
    assert asyncio.run(main()) == [0, 0]


def test_partitions_are_looked_up(make: Maker) -> None:
    assert make().partitions_for("t", SECONDS) == [0, 1, 2]


def test_stats_and_status_tell_where_every_record_is(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    producer.send("t", b"v")
    producer.send("unknown", b"v")
    shown = producer.status()["producer"]
    assert (shown["accepted"], shown["acked"], shown["queued"] + shown["in_flight"]) == (3, 1, 2)
    producer.close(0)
    stats = producer.stats()
    assert (stats.accepted, stats.acked, stats.lost, stats.queued, stats.buffered_bytes) == (3, 1, 2, 0, 0)
    assert producer.status()["state"] == "closed"


# -- records fail


@pytest.mark.usefixtures("denied_soon")
def test_a_partition_that_is_not_there_fails_the_first_send_to_its_topic_aloud(server: ModelServer, make: Maker) -> None:
    producer = make()
    with pytest.raises(DeliveryFailed, match="partition=99, but the highest partition of the topic is 2"), producer, out_of_reach(server):
        lost = producer.send("t", b"lost", partition=99)
        kept = producer.send("t", b"kept", partition=1)
    assert lost.exception(0).record.partition == 99  # type: ignore[union-attr]
    assert kept.exception(0) is None
    assert values(server) == [b"kept"]
    assert balanced(producer)
    assert producer.stats().failed == {("UNKNOWN_TOPIC_OR_PARTITION", Written.NO): 1}


@pytest.mark.usefixtures("denied_soon")
def test_a_thread_waiting_for_a_record_without_a_partition_is_woken(server: ModelServer, make: Maker) -> None:
    producer, called = make(linger_ms=60_000), list[Delivery]()
    with out_of_reach(server):
        one = producer.send("t", b"v", partition=99)
        two = producer.send("t", b"v", partition=98, on_delivery=called.append)
    assert isinstance(one.exception(SECONDS), DeliveryFailed)
    producer.flush(SECONDS)
    assert two.settled
    assert len(called) == 1


def test_expired_records_say_which_address_failed_and_why(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=500, linger_ms=0, reconnect_backoff_ms=10))
    stop_all(server)
    until(lambda: producer.status()["state"] == "unreachable")
    failure = producer.send("t", b"v", partition=0).exception(SECONDS)
    assert isinstance(failure, DeliveryFailed)
    assert (failure.code, failure.written) == ("TIMED_OUT", Written.NO)
    for address in server.bootstrap_servers.split(","):
        assert f"{address} connection refused" in str(failure)


@pytest.mark.usefixtures("denied_soon")
def test_a_scope_raises_the_first_failure_of_its_own(server: ModelServer, make: Maker) -> None:
    producer = make()
    with pytest.raises(DeliveryFailed, match="partition=99"), producer.delivery_scope(SECONDS) as same, out_of_reach(server):
        same.send("t", b"v", partition=99)
        same.send("t", b"v", partition=98)
    with producer.delivery_scope(SECONDS):
        producer.send("t", b"kept")
    assert values(server) == [b"kept"]


def test_a_scope_raises_the_failure_of_a_parked_record_that_is_not_counted_yet(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, left, lose_parked = make(), threading.Event(), Outcomes.lose_parked
    server.do(lambda cluster: cluster.deny("topic", "denied"))

    def count_late(outcomes: Outcomes, *about: Any) -> None:
        """Between the outcome and its count, the callbacks of another batch wake the threads that wait."""
        inspect(producer).session.progress()
        left.wait(0.2)  # the end of the scope, if the scope does not wait for the count
        lose_parked(outcomes, *about)

    monkeypatch.setattr(Outcomes, "lose_parked", count_late)
    with pytest.raises(DeliveryFailed):
        try:
            with producer.delivery_scope(SECONDS):
                producer.send("denied", b"v")
        finally:
            left.set()


@pytest.mark.usefixtures("denied_soon")
def test_failures_are_raised_once_in_each_thread(server: ModelServer, make: Maker) -> None:
    producer, elsewhere = make(), list[BaseException]()
    with out_of_reach(server):
        one, two = [producer.send("t", b"v", partition=99) for _ in range(2)]
    producer.flush(SECONDS)
    producer.raise_failures(since=producer.stats().lost)
    with pytest.raises(DeliveryFailed) as caught:
        producer.raise_failures()
    assert caught.value.__notes__ == ["2 failures that the application had not seen, this one included"]
    producer.raise_failures()

    def other() -> None:
        assert one.exception(SECONDS) is not None
        try:
            producer.raise_failures()
        except DeliveryFailed as error:
            elsewhere.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(SECONDS)
    assert len(elsewhere) == 1, "the other thread's records may be among them"
    assert not hasattr(elsewhere[0], "__notes__"), "one of the two was looked at"
    assert two.exception(SECONDS) is not None


@pytest.mark.usefixtures("denied_soon")
def test_failures_are_raised_once_in_each_asyncio_task(server: ModelServer, make: Maker) -> None:
    producer = make()
    with out_of_reach(server):
        producer.send("t", b"v", partition=99)
    producer.flush(SECONDS)

    async def task() -> None:
        with pytest.raises(DeliveryFailed):
            producer.raise_failures()
        producer.raise_failures()

    async def main() -> None:
        await asyncio.gather(task(), task())

    asyncio.run(main())


@pytest.mark.usefixtures("denied_soon")
@pytest.mark.parametrize("looked_at", range(4))
def test_a_scope_raises_only_unread_failures(server: ModelServer, make: Maker, looked_at: int) -> None:
    producer = make()
    with out_of_reach(server):
        before = producer.send("t", b"v", partition=99)
    producer.flush(SECONDS)
    expected = pytest.raises(DeliveryFailed, match=f"partition={90 + looked_at}") if looked_at < 3 else contextlib.nullcontext()
    with expected, producer.delivery_scope(SECONDS):
        with out_of_reach(server):
            sent = [producer.send("u", b"v", partition=90 + n) for n in range(3)]
        for delivery in sent[:looked_at]:
            assert delivery.exception(SECONDS) is not None
        assert before.exception(SECONDS) is not None, "it failed before the block, so it cannot stand for a failure of the block"


@pytest.mark.usefixtures("denied_soon")
def test_a_failure_that_an_inner_block_raised_is_not_raised_by_the_outer_one(server: ModelServer) -> None:
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        with pytest.raises(DeliveryFailed, match="partition=99"), producer.delivery_scope(SECONDS), out_of_reach(server):
            producer.send("t", b"v", partition=99)
        producer.send("t", b"v", partition=0)
    with pytest.raises(DeliveryFailed, match="partition=98"), Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        with pytest.raises(DeliveryFailed, match="partition=99"), producer.delivery_scope(SECONDS), out_of_reach(server):
            producer.send("t", b"v", partition=99)
        with out_of_reach(server):
            producer.send("u", b"v", partition=98)


def test_a_scope_whose_block_raises_raises_that(make: Maker) -> None:
    producer = make(linger_ms=60_000)
    with pytest.raises(ZeroDivisionError), producer.delivery_scope():
        producer.send("t", b"v")
        raise ZeroDivisionError


def test_a_scope_that_takes_too_long_says_so(server: ModelServer, make: Maker) -> None:
    producer = knowing(make())
    stop_all(server)
    with pytest.raises(KafkaTimeoutError, match="flush: records not delivered within"), producer.delivery_scope(0.05):
        producer.send("t", b"v")


def test_an_error_in_the_block_carries_a_note_of_what_was_not_delivered(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=300))
    with pytest.raises(ZeroDivisionError) as caught, producer:
        stop_all(server)
        producer.send("t", b"v")
        raise ZeroDivisionError
    assert caught.value.__notes__ == ["pykafka4: records not delivered when the producer closed: 1"]


# -- no room


def test_a_send_waits_for_room_and_goes_on(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, partition=0)
    blocked = len(sending.sent)
    start_all(server)
    until(lambda: len(sending.sent) > blocked + 20)
    stop_all(server)
    producer.close(0)
    sending.refused()


def test_a_send_that_finds_no_room_in_time_names_what_is_full(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, max_block_ms=50))
    stop_all(server)
    with pytest.raises(BufferFull, match=r"buffer_memory=65536 .* t-0 needs \d+ more; no room within max_block_ms=50"):
        while True:
            producer.send("t", b"y" * 5000, partition=0)
    accepted = producer.stats().accepted
    with pytest.raises(BufferFull, match="unknown needs"):
        producer.send("unknown", b"y" * 60_000)
    assert producer.stats().accepted == accepted


def test_a_send_that_needs_memory_does_not_wait_for_the_linger_of_open_batches(server: ModelServer, make: Maker) -> None:
    server.do(lambda cluster: cluster.create_topic("wide", 100))
    producer = make(**{**FEW, "linger_ms": 100_000}, max_block_ms=SECONDS * 1000)
    producer.send("wide", b"first", partition=0)
    producer.flush(SECONDS)
    for partition in range(100):  # a third of them fit, as a batch takes 2 KiB
        until(lambda: inspect(producer).loop._wakeup.asleep)  # nothing else makes a turn
        producer.send("wide", b"v", partition=partition)


@pytest.mark.parametrize("sick", ["without a leader", "not known"])
def test_a_thread_that_waits_for_room_in_a_full_partition_keeps_no_other_waiting(server: ModelServer, make: Maker, sick: str) -> None:
    producer = knowing(make(batch_size=2_048, buffer_memory=1 << 20, max_partition_bytes=16_384, linger_ms=0))
    server.do(lambda cluster: cluster.hide_topic("hidden", 1_000.0))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    blocked = Sending(producer, *(["hidden"] if sick == "not known" else []), partition=0)
    healthy = threading.Thread(target=lambda: [producer.send("t", bytes(1_000), partition=1) for _ in range(100)], daemon=True)
    healthy.start()
    healthy.join(SECONDS)
    assert not healthy.is_alive(), "it stands in line behind one whose partition takes nothing"
    assert blocked.is_alive()
    until(lambda: len(server.records("t", 1)) == 100)
    producer.close(0)
    blocked.refused()


def test_a_signal_handler_sends_while_the_thread_it_interrupts_waits_for_room(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, handled = knowing(make(**FEW, max_block_ms=SECONDS * 1000)), list[Delivery]()
    refused = inspect(producer).session._refused

    def handler(*_: object) -> None:
        start_all(server)
        handled.append(producer.send("t", b"y" * 5000, partition=0))

    def interrupted() -> bool:
        monkeypatch.setattr(inspect(producer).session, "_refused", refused)
        signal.raise_signal(signal.SIGUSR1)
        return refused()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        stop_all(server)
        monkeypatch.setattr(inspect(producer).session, "_refused", interrupted)  # asked first when `send` waits for room
        while not handled:
            last = producer.send("t", b"y" * 5000, partition=0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled[0].result(SECONDS).offset < last.result(SECONDS).offset


def test_a_send_in_a_callback_fails_at_once_when_the_buffer_is_full(server: ModelServer, make: Maker) -> None:
    producer, caught = knowing(make(**FEW)), list[BaseException]()

    def forward(_: Delivery) -> None:
        try:
            while True:
                producer.send("t", b"y" * 5000, partition=0)
        except BufferFull as error:
            caught.append(error)

    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    producer.send("t", b"v", partition=1, on_delivery=forward)
    until(lambda: caught, "the callback")
    assert "a callback must not wait for it" in str(caught[0])


def test_ctrl_c_ends_a_send_that_waits_for_room_and_nothing_is_accepted(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    stop_all(server)
    with ctrl_c(lambda: inspect(producer).blocked_sends):
        while True:
            producer.send("t", b"y" * 5000, partition=0)
    accepted = producer.stats().accepted
    assert inspect(producer).session.acc.waiters == inspect(producer).blocked_sends == 0
    assert len(producer.close(0)) == accepted - 1


# -- callbacks and their executor


@pytest.mark.parametrize("wrong", ["threads", ThreadPoolExecutor, 5])
def test_what_is_no_executor_is_refused_when_it_is_given(wrong: Any) -> None:
    for kind in (Client, Producer, Consumer):
        with pytest.raises(ConfigError, match=r"callback_executor=.*must be a concurrent\.futures\.Executor"):
            kind(bootstrap_servers="127.0.0.1:1", callback_executor=wrong)


def test_callbacks_run_on_the_executor_that_was_given(make: Maker) -> None:
    names: list[str] = []
    with ThreadPoolExecutor(1, "mine") as executor:
        producer = make(callback_executor=executor)
        producer.send("t", b"v", on_delivery=lambda _: names.append(threading.current_thread().name))
        producer.flush(SECONDS)
    assert names[0].startswith("mine")


def test_callbacks_that_the_executor_dropped_block_no_wait(make: Maker) -> None:
    executor, go, called = ThreadPoolExecutor(1), threading.Event(), list[Delivery]()
    executor.submit(go.wait, SECONDS)
    producer = make(callback_executor=executor)
    producer.send("t", b"v", on_delivery=called.append).result(SECONDS)
    until(lambda: executor._work_queue.qsize() == 1)
    executor.shutdown(wait=False, cancel_futures=True)
    began = time.monotonic()
    assert producer.close() == []
    assert time.monotonic() - began < SECONDS, HUNG
    assert len(called) == 1
    go.set()


def test_a_callback_that_raises_settles_all_the_same(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    producer = make()
    producer.send("t", b"v", on_delivery=lambda _: 1 / 0)  # type: ignore[arg-type]
    producer.flush(SECONDS)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("shared", [False, True])
def test_a_callback_that_is_added_after_the_producer_was_closed_is_called(server: ModelServer, make: Maker, shared: bool) -> None:
    client = Client(bootstrap_servers=server.bootstrap_servers)
    producer = Producer(client=client) if shared else make()
    delivery, called = producer.send("t", b"v"), threading.Event()
    producer.close()
    if not shared:
        client.close()
    delivery.add_done_callback(lambda _: called.set())
    assert called.wait(SECONDS)
    client.close()


def test_on_the_loops_own_thread_nothing_waits(server: ModelServer, make: Maker) -> None:
    """A destructor may run there."""
    producer = knowing(make(**FEW))
    stop_all(server)
    sending = Sending(producer, partition=0)
    loop = inspect(producer).loop
    with pytest.raises(KafkaError, match="flush inside a callback"):
        loop.ask(lambda _: producer.flush(), SECONDS)
    with pytest.raises(BufferFull):
        loop.ask(lambda _: producer.send("t", b"y" * 60_000, partition=0), SECONDS)
    undelivered: list[Any] = []
    with contextlib.suppress(KafkaError):  # the loop ends with its last producer
        loop.ask(lambda _: undelivered.append(producer.close()), SECONDS)
    sending.refused()
    assert len(undelivered[0]) == len(sending.sent)
    assert balanced(producer)


def test_a_send_on_the_loop_of_another_client_does_not_wait(server: ModelServer, make: Maker) -> None:
    """A destructor may run there. The loop would send no heartbeats meanwhile."""
    producer, other = knowing(make(**FEW)), inspect(make()).loop
    stop_all(server)
    sending = Sending(producer, partition=0)
    with pytest.raises(BufferFull, match="must not wait"):
        other.ask(lambda _: producer.send("t", b"y" * 60_000, partition=0), SECONDS)
    producer.close(0)
    sending.refused()


def test_a_with_block_that_ends_on_the_loop_of_another_client_loses_no_record(server: ModelServer, make: Maker) -> None:
    """The collector may close a generator there. `close` cannot wait, so it raises; the records are delivered all the same."""
    deliveries: list[Delivery] = []

    def sending() -> Iterator[None]:
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            stop_all(server)
            deliveries.append(producer.send("t", b"v", partition=0))
            yield

    generator, other = sending(), inspect(make()).loop
    next(generator)
    with pytest.raises(KafkaTimeoutError, match="destructor"):
        other.ask(lambda _: generator.close(), SECONDS)
    start_all(server)
    assert deliveries[0].result(SECONDS).offset == 0


def test_batches_of_records_that_waited_for_their_topic_are_compressed_and_sent(server: ModelServer) -> None:
    server.create_topic("parked", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers, compression_type="gzip", batch_size=20_000) as producer:
        deliveries = [producer.send("parked", b"%4d" % n * 250, partition=0) for n in range(200)]
        assert [delivery.result(SECONDS).offset for delivery in deliveries] == list(range(200))
    codecs = server.do(lambda cluster: [batch.header.attributes & 7 for batch in cluster.log("parked", 0).batches])
    assert len(codecs) >= 10
    assert set(codecs) == {1}
