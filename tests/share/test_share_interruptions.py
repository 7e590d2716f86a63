"""Share consumers and what comes in between: Ctrl-C, signal handlers, exceptions, other subscriptions."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka4.errors import ConfigError, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.share import ShareConsumer
from pykafka4.share import session as session_module
from pykafka4.share.delivered import DeliveredRecords
from pykafka4.share.record import ShareRecord
from pykafka4.testing import ModelServer
from tests.consumer.consuming import topic
from tests.inspection import inspect
from tests.net.interrupts import PACKAGE, interrupted, interrupts

SECONDS = 20.0  # nothing that works takes so long
T0 = TopicPartition("t", 0)
Make = Callable[..., ShareConsumer]


@pytest.fixture
def make(server: ModelServer) -> Iterator[Make]:
    """Makes members of group `g` that have subscribed to `t`; explicit, unless an option says otherwise."""

    def hurry(cluster: Any) -> None:
        cluster.shares.auto_offset_reset, cluster.shares.heartbeat_interval = "earliest", 0.05

    server.do(hurry)
    made: list[ShareConsumer] = []

    def new(**options: Any) -> ShareConsumer:
        usual = {"group_id": "g", "fetch_max_wait_ms": 50, "share_acknowledgement_mode": "explicit"}
        made.append(ShareConsumer(bootstrap_servers=server.bootstrap_servers, **{**usual, **options}))
        made[-1].subscribe(["t"])
        return made[-1]

    yield new
    for consumer in made:
        consumer.close(2)


def take(consumer: ShareConsumer, limit: int | None = None) -> list[ShareRecord]:
    """The records of the first poll that has some."""
    deadline = time.monotonic() + SECONDS
    while not (found := consumer.poll(0.2, limit)):
        assert time.monotonic() < deadline, (consumer.status(), consumer.stats())
    return found


def final(cluster: Any) -> int:
    """Records at the beginning of t-0 that are final."""
    return max((p.start for p in cluster.shares.partitions.values() if p.tp == T0), default=0)


def free(cluster: Any, name: str) -> list[int]:
    """Offsets of records that were acquired, and are available again."""
    found = [p.slots for p in cluster.shares.partitions.values() if p.tp.topic == name]
    return [offset for slots in found for offset, slot in slots.items() if slot.state.value == "available"]


def wait_until(server: ModelServer, consumer: ShareConsumer, moment: float) -> None:
    """Wait for a moment of the client's clock."""
    server.wait_for(lambda cluster: inspect(consumer).loop.now() >= moment)


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_ctrl_c_at_any_place_of_a_poll_takes_no_record_from_the_application(server: ModelServer, make: Make, mode: str) -> None:
    topic(server, 6)
    consumer = make(share_acknowledgement_mode=mode)
    (first,) = take(consumer, 1)
    if mode == "explicit":
        consumer.accept(first)
    consumer.commit()  # so that all runs have the same places
    got: list[ShareRecord] = []
    at = 1
    within = tuple(PACKAGE + path for path in ("/share/session.py", "/share/delivered.py", "/consumer", "/core", "/net"))
    # Not the handle: nothing can come between the return of a Python function and the next bytecode.
    while (place := interrupted(lambda: got.extend(consumer.poll(0.0, 2)), at, within=within)) is not None:
        at += 1
        records = inspect(consumer).session.records
        with inspect(consumer).session.guard.using("commit"):
            records.accept_all()
        assert [record for record, kind in records.held.items() if kind is not None] == [], place
    assert [(record.offset, record.delivery_count) for record in got] == [(1, 1), (2, 1)]
    consumer.close()
    assert server.do(final) in ((1, 3) if mode == "implicit" else (1,))


@pytest.mark.parametrize("call", ["commit", "close", "poll"])
def test_a_signal_handler_cannot_have_accepted_what_a_poll_has_not_returned(server: ModelServer, make: Make, call: str) -> None:
    topic(server, 4)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer, 1)
    consumer.commit()
    taken: list[int] = []

    def handler() -> None:
        if inspect(consumer).session.records.out and not taken:
            with pytest.raises(KafkaError, match=f"a signal handler, destructor or callback called {call} during poll"):
                getattr(consumer, call)()
            taken.append(at)

    at = 0
    while not taken:
        at += 1
        if interrupted(partial(consumer.poll, 0.0, 1), at, handler=handler) is None:
            break
        if not taken:  # the poll has returned its record
            inspect(consumer).session.records.ready.extendleft(inspect(consumer).session.records.held)
            inspect(consumer).session.records.held.clear()
    assert taken
    assert server.do(final) == 1


@pytest.mark.parametrize(
    ("mode", "call"),
    [
        *(("implicit", call) for call in ("commit", "poll", "subscribe")),
        *(("explicit", call) for call in ("commit", "poll", "acknowledge")),
    ],
)
def test_a_signal_handler_that_commits_at_any_place_of_a_call_sends_nothing_twice(
    server: ModelServer, make: Make, mode: str, call: str
) -> None:
    topic(server, 400)
    consumer = make(share_acknowledgement_mode=mode)
    refused: list[str] = []

    def handler() -> None:
        try:
            consumer.commit()
        except KafkaError as error:
            refused.append(str(error))

    def act() -> None:
        if call == "poll":
            got.extend(consumer.poll(0.0, 1))
        elif call == "acknowledge":
            with contextlib.suppress(ConfigError):  # the handler has sent it
                consumer.accept(record)
        elif call == "subscribe":
            consumer.subscribe(["t"])
        else:
            consumer.commit()

    within = tuple(PACKAGE + path for path in ("/share/session.py", "/share/delivered.py"))
    at = 0
    got: list[ShareRecord] = []
    place: str | None = ""
    while place is not None:
        (record,) = got or take(consumer, 1)
        got.clear()
        if mode == "explicit":
            consumer.reject(record)
        at += 1
        place = interrupted(act, at, within=within, handler=handler)
    if mode == "explicit" and got:
        consumer.reject(got[0])
    consumer.commit()
    assert {text.partition(":")[0] for text in refused} == {f"a signal handler, destructor or callback called commit during {call}"}
    stats = consumer.stats()
    assert (stats["acknowledged"], stats["failed"]) == (stats["delivered"], 0)


def test_an_exception_in_the_place_of_an_earlier_one_is_another_one(server: ModelServer, make: Make) -> None:
    topic(server, 3)
    consumer = make(share_acknowledgement_mode="implicit")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        take(consumer)
        same = id(error)
    again = None
    for _ in range(1_000):  # until one is at the same address
        try:
            raise ZeroDivisionError
        except ZeroDivisionError as error:
            again = id(error)
            if again == same:
                consumer.close()
                break
    assert again == same
    assert server.do(final) == 0


def test_an_exception_that_is_handled_during_the_poll_does_not_release_its_records(server: ModelServer, make: Make) -> None:
    topic(server, 3)
    consumer = make(share_acknowledgement_mode="implicit")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        take(consumer)
        consumer.close()
    assert server.do(final) == 3


def test_a_commit_that_ctrl_c_ends_is_not_sent_again(server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 2)
    consumer = make()
    first, second = take(consumer)
    consumer.accept(first)
    sent = DeliveredRecords.sent

    def interrupt(hand: DeliveredRecords, outgoing: Any) -> None:
        monkeypatch.setattr(DeliveredRecords, "sent", sent)
        raise KeyboardInterrupt

    monkeypatch.setattr(DeliveredRecords, "sent", interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.commit()
    server.wait_for(lambda cluster: final(cluster) == 1)
    assert consumer.commit() == {}
    consumer.accept(second)
    assert consumer.commit() == {T0: None}
    assert (consumer.stats()["acknowledged"], consumer.stats()["failed"]) == (2, 0)


def test_what_a_poll_has_accepted_is_sent_although_no_other_poll_comes(server: ModelServer, make: Make) -> None:
    topic(server, 4)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer, 1)
    assert len(consumer.poll(0.0, 1)) == 1  # the application works on this one for long
    server.wait_for(lambda cluster: final(cluster) == 1)


@pytest.mark.parametrize(("call", "stored"), [("commit", 2), ("close", 2), ("unsubscribe", 1)])
def test_what_polls_have_accepted_is_sent_with_what_comes_next(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch, call: str, stored: int
) -> None:
    monkeypatch.setattr(session_module, "FLUSH_S", 1_000.0)
    topic(server, 4)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer, 1)
    assert len(consumer.poll(0.0, 1)) == 1
    assert server.do(final) == 0
    getattr(consumer, call)()
    assert server.do(final) == stored
    assert consumer.stats()["acknowledged"] == stored


def test_fast_polls_do_not_put_off_what_earlier_ones_have_accepted(make: Make) -> None:
    session = inspect(make()).session
    done: list[str] = []

    def act(now: float) -> None:
        session.machine.call_at(now + 1_000.0, lambda: done.append("first"))
        session.machine.call_at(now + 1_000.0, lambda: done.append("second"))

    session.runtime.loop.ask(act, SECONDS)
    assert done == ["first"]


def test_acknowledgements_of_polls_have_one_outcome_together(server: ModelServer, make: Make) -> None:
    topic(server, 4)
    results: list[Any] = []
    consumer = make(share_acknowledgement_mode="implicit")
    consumer.set_acknowledgement_callback(results.append)
    take(consumer, 1)
    assert [len(consumer.poll(0.0, 1)) for _ in range(2)] == [1, 1]
    server.wait_for(lambda cluster: final(cluster) == 2)
    server.wait_for(lambda cluster: results)
    assert (results, consumer.stats()["acknowledged"]) == ([{T0: None}], 2)


def test_a_commit_waits_for_what_polls_have_accepted(server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "FLUSH_S", 1_000.0)
    topic(server, 3)
    consumer = make()
    (first,) = take(consumer, 1)
    consumer.accept(first)
    assert len(consumer.poll(0.0, 1)) == 1
    assert consumer.commit() == {T0: None}
    assert server.do(final) == 1
    assert consumer.commit() == {}


def test_ctrl_c_at_any_place_of_what_a_poll_sends_has_it_sent_once(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "FLUSH_S", 1_000.0)
    topic(server, 300)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer, 1)
    session = inspect(consumer).session
    within = tuple(PACKAGE + path for path in ("/share/session.py", "/share/delivered.py"))

    def act() -> None:
        with session._step:
            session.records.accept_all()
            session._flush(soon=True)

    for place in interrupts(act, within=within):
        consumer.commit()
        count = consumer.stats()["delivered"]
        server.wait_for(lambda cluster, n=count: consumer.stats()["acknowledged"] >= n)
        assert (consumer.stats()["acknowledged"], consumer.stats()["failed"], server.do(final)) == (count, 0, count), place
        session._taken_at = 0.0  # so that all runs have the same places
        assert len(consumer.poll(0.0, 1)) == 1, place


def test_ctrl_c_in_unsubscribe_does_not_keep_the_consumer_from_joining_again(server: ModelServer, make: Make) -> None:
    topic(server, 1)
    consumer = make(share_acknowledgement_mode="implicit", fetch_max_wait_ms=1_000)
    take(consumer)
    assert consumer.poll(0.0) == []  # a ShareFetch waits at the broker, so the session cannot end yet
    server.wait_for(lambda cluster: final(cluster) == 1)
    leave = inspect(consumer).machine.leave

    def interrupt(now: float, seconds: float, then: Callable[[], None]) -> None:
        leave(now, seconds, lambda: None)  # the wait for it is over
        then()

    inspect(consumer).machine.leave = interrupt  # type: ignore[method-assign]
    consumer.unsubscribe()
    inspect(consumer).machine.leave = leave  # type: ignore[method-assign]
    consumer.subscribe(["t"])
    server.produce("t", "new")
    assert [record.offset for record in take(consumer)] == [1]


def test_a_late_answer_to_a_leave_does_not_end_the_consumer(server: ModelServer, make: Make) -> None:
    topic(server, 1)
    consumer = make(share_acknowledgement_mode="implicit")
    take(consumer)
    consumer.commit()
    server.delay("ShareGroupHeartbeat", 0.3, times=3)
    consumer.unsubscribe(0.05)
    server.wait_for(lambda cluster: not cluster.shares.group("g").members)
    consumer.subscribe(["t"])
    server.produce("t", "new")
    assert [record.offset for record in take(consumer)] == [1]


def test_another_subscription_releases_what_is_buffered_of_other_topics(server: ModelServer, make: Make) -> None:
    topic(server, 3)
    server.create_topic("u", 1)
    consumer = make(share_acknowledgement_mode="implicit")
    assert [record.offset for record in take(consumer, 1)] == [0]
    consumer.subscribe(["u"])
    server.wait_for(lambda cluster: free(cluster, "t") == [1, 2])
    server.produce("u", "x")
    assert [record.topic for record in take(consumer)] == ["u"]
    server.wait_for(lambda cluster: final(cluster) == 1)  # the application had it


def test_records_that_arrive_for_an_old_subscription_are_released(server: ModelServer, make: Make) -> None:
    topic(server, 0)
    server.create_topic("u", 1)
    consumer = make(share_acknowledgement_mode="implicit", fetch_max_wait_ms=5_000)
    deadline = time.monotonic() + SECONDS
    while not consumer.status()["share_consumer"]["partitions"]:
        assert time.monotonic() < deadline
        consumer.poll(0.05)
    consumer.poll(0.05)
    server.wait_for(lambda cluster: cluster.requests["ShareFetch"] > 0)
    consumer.subscribe(["u"])
    server.produce("t", "job")
    server.wait_for(lambda cluster: free(cluster, "t") == [0])


def test_a_slow_application_gets_the_records_that_are_locked_for_it(server: ModelServer, make: Make) -> None:
    topic(server, 25)
    server.do(lambda cluster: setattr(cluster.shares, "lock_seconds", 1.0))
    consumer = make(share_acknowledgement_mode="implicit")
    found: list[int] = []
    began = inspect(consumer).loop.now()
    while len(found) < 25:
        (record,) = take(consumer, 1)
        found.append(record.offset)
        assert record.delivery_count == 1
        wait_until(server, consumer, began + 0.1 * len(found))
    assert found == list(range(25))
    assert inspect(consumer).loop.now() - began > 2 * 1.0


def test_ctrl_c_in_a_renewal_does_not_keep_records_from_being_renewed(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 3)
    server.do(lambda cluster: setattr(cluster.shares, "lock_seconds", 1.0))
    consumer = make(share_acknowledgement_mode="implicit")
    (record,) = take(consumer, 1)
    consumer.commit()
    wait_until(server, consumer, inspect(record).acquired.until - 0.4)

    def interrupt(fn: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect(consumer).session, "post", interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(0.0, 1)
    assert len(consumer.poll(0.0, 1)) == 1
    server.wait_for(lambda cluster: 2 in inspect(record).acquired.renewed)


def test_records_that_were_locked_too_long_are_told_with_the_way_out(
    server: ModelServer, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    topic(server, 3)
    server.do(lambda cluster: setattr(cluster.shares, "lock_seconds", 0.2))
    consumer = make(share_acknowledgement_mode="implicit")
    inspect(consumer).session._renews = False  # as with brokers before Kafka 4.2
    (record,) = take(consumer, 1)
    with caplog.at_level(logging.WARNING, "pykafka4.share"):
        for _ in range(2):
            wait_until(server, consumer, inspect(record).acquired.until)
            (record,) = take(consumer, 1)
    messages = [each.getMessage() for each in caplog.records if "ended before a poll" in each.getMessage()]
    assert len(messages) == 1
    assert "before a poll returned them: 2;" in messages[0]
    assert "max_poll_records (500)" in messages[0]
    assert "share_acquire_mode='record_limit'" in messages[0]
    assert consumer.stats()["dropped"] == 4


def test_brokers_that_cannot_renew_are_not_asked_again(server: ModelServer, make: Make) -> None:
    topic(server, 20)
    server.do(lambda cluster: (setattr(cluster.shares, "lock_seconds", 1.0), cluster.versions.update({79: (1, 1)})))
    consumer = make(share_acknowledgement_mode="implicit")
    (record,) = take(consumer, 1)
    wait_until(server, consumer, inspect(record).acquired.until - 0.5)
    take(consumer, 1)
    server.wait_for(lambda cluster: not inspect(consumer).session._renews)
    assert consumer.commit() == {T0: None}
    assert consumer.stats()["failed"] == 0  # the application has renewed nothing
