"""The way of a message through the router, with a producer on a model cluster: what is sent, what is discarded, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from pykafka4 import Producer
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.limits import ArrivalLimits
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import AHEAD_MS, Router
from pykafka4.agent.settings.values import (
    AgentSettings,
    Batching,
    InputSettings,
    Offline,
    RateLimitSettings,
    TcpSettings,
    TopicSettings,
    TopicsSettings,
)
from pykafka4.agent.unknown import PAUSE_S, UnknownTopics
from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed
from pykafka4.hooks import BatchOutcome
from pykafka4.records import Written
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import start_all, stop_all

NOW_MS = 1_700_000_000_000
QUICK = TopicSettings(batching=Batching.PER_TOPIC, linger_ms=0)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.create_topic("t", 4)
        yield server


class World:
    """A router with its producer and its ledger."""

    def __init__(self, server: ModelServer, stack: ExitStack, kafka: dict[str, Any], topics: TopicsSettings, max_buffer: int) -> None:
        self.settings = AgentSettings(
            inputs=InputSettings(tcp=TcpSettings(port=1), max_buffer=max_buffer),
            kafka={"bootstrap_servers": server.bootstrap_servers, **kafka},
            topics=topics,
        )
        self.server, self.stack = server, stack
        self.clock = 0.0
        self.unknown = UnknownTopics(clock=lambda: self.clock)
        self.producer = Producer(**{**producer_options(self.settings), "hooks": self.unknown})
        stack.callback(self.producer.close, 1.0)
        self.ledger = Ledger()

    def router(self, spool: FakeSpool | None = None) -> Router:
        limits = ArrivalLimits.of(self.settings.topics)
        return Router(self.producer, self.ledger, limits, spool, self.unknown, lambda: NOW_MS / 1000)

    @property
    def discards(self) -> dict[str, dict[Reason, int]]:
        return {topic: dict(found.by_reason) for topic, found in self.ledger.before_producer().topics.items()}

    def values(self, topic: str = "t") -> list[bytes | None]:
        self.producer.flush(SECONDS)
        return [record.value for partition in range(4) for record in self.server.records(topic, partition)]


class FakeSpool:
    """A disk that has no bottom."""

    def __init__(self, behind: set[str]) -> None:
        self.behind, self.added, self.writes = behind, list[Message](), 0

    def takes(self, topic: str) -> bool:
        return topic in self.behind

    def add(self, message: Message) -> None:
        self.behind.add(message[0])
        self.added.append(message)

    def write(self) -> None:
        self.writes += 1


def freeze_all(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.freeze(broker, 60.0) for broker in cluster.brokers])


Maker = Callable[..., World]


@pytest.fixture
def make(server: ModelServer) -> Iterator[Maker]:
    with ExitStack() as stack:

        def world(topics: TopicsSettings | None = None, max_buffer: int = 16 * 2**20, **kafka: Any) -> World:
            return World(server, stack, kafka, topics or TopicsSettings(default=QUICK), max_buffer)

        yield world


def message(value: bytes = b"v", topic: str = "t", key: bytes | None = None, number: int | None = None, at: int = NOW_MS) -> Message:
    return topic, value, key, number, at


def test_a_message_becomes_a_record_with_its_key_its_partition_and_its_timestamp(server: ModelServer, make: Maker) -> None:
    world = make()
    world.router().accept([message(b"a", key=b"k", number=4_294_967_295, at=NOW_MS - 5)], Source.TCP)
    world.producer.flush(SECONDS)
    (record,) = server.records("t", (2**32 - 1) % 4)
    assert (record.value, record.key, record.timestamp_ms) == (b"a", b"k", NOW_MS - 5)
    assert (world.discards, world.ledger.counters()["TcpInputForwardMsg"]) == ({}, 1)


def test_keys_choose_no_partition(server: ModelServer, make: Maker) -> None:
    world = make(max_request_size=4096)
    router = world.router()
    for n in range(200):
        router.accept([message(b"%d" % n, key=b"same")], Source.TCP)
        world.producer.flush(SECONDS)
    counts = [len(server.records("t", partition)) for partition in range(4)]
    assert sum(counts) == 200
    assert min(counts) > 20


@pytest.mark.parametrize("at", [0, -1, -(2**63), NOW_MS + AHEAD_MS + 1, 2**63 - 1])
def test_a_timestamp_that_brokers_may_refuse_is_replaced_and_counted(server: ModelServer, make: Maker, at: int) -> None:
    world = make()
    router = world.router()
    router.accept([message(at=at, number=0), message(at=NOW_MS + AHEAD_MS, number=0)], Source.TCP)
    world.producer.flush(SECONDS)
    replaced, kept = [record.timestamp_ms for record in server.records("t", 0)]
    assert replaced > NOW_MS
    assert kept == NOW_MS + AHEAD_MS
    assert router.counters() == {"TimestampsReplaced": 1}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (message(topic="some topic"), Reason.BAD_TOPIC),
        (message(topic="\\xff"), Reason.BAD_TOPIC),
        (message(topic="."), Reason.BAD_TOPIC),
        (message(topic="t" * 250), Reason.BAD_TOPIC),
        (message(bytes(5_000)), Reason.LONG_MSG),
        (message(b"", key=bytes(5_000)), Reason.LONG_MSG),
    ],
    ids=["space", "no UTF-8", "dot", "too long a name", "value", "key"],
)
def test_a_message_that_no_broker_would_take_is_discarded_with_the_reason(make: Maker, given: Message, reason: Reason) -> None:
    world = make(max_request_size=4096)
    world.router().accept([message(b"before"), given, message(b"after")], Source.TCP)
    assert list(world.discards.values()) == [{reason: 1}]
    assert sorted(map(bytes, filter(None, world.values()))) == [b"after", b"before"]


def test_a_full_pool_discards_and_goes_on(server: ModelServer, make: Maker) -> None:
    world = make(max_buffer=2**20)
    world.router().accept([message(number=n) for n in range(4)], Source.TCP)
    world.producer.flush(SECONDS)
    freeze_all(server)
    messages = [message(bytes(1000), number=n) for n in range(2_000)]
    world.router().accept(messages, Source.TCP)
    lost = world.discards["t"]
    assert lost.keys() == {Reason.NO_MEM}
    assert 900 < lost[Reason.NO_MEM] < 1_500
    server.do(lambda cluster: cluster.heal())
    assert len(world.values()) == 2_004 - lost[Reason.NO_MEM]


def test_a_topic_that_is_stuck_leaves_room_for_others(server: ModelServer, make: Maker) -> None:
    server.create_topic("other", 4)
    world = make(max_buffer=2**20, max_partition_bytes=2**18)
    router = world.router()
    router.accept([message(number=n) for n in range(4)] + [message(topic="other")], Source.TCP)
    world.producer.flush(SECONDS)
    server.do(lambda cluster: cluster.orphan("t", 0, 60.0))
    router.accept([message(b"finds no leader", number=0)], Source.TCP)
    until(lambda: world.producer.status()["partitions"]["t-0"]["state"] == "offline", "partition 0 to be offline")
    router.accept([message(bytes(1000), number=0) for _ in range(2_000)], Source.TCP)
    router.accept([message(bytes(1000), "other") for _ in range(100)], Source.TCP)
    assert set(world.discards) == {"t"}
    server.do(lambda cluster: cluster.heal())


def test_a_closed_producer_means_that_the_agent_ends(make: Maker) -> None:
    world = make()
    world.producer.close()
    world.router().accept([message()], Source.TCP)
    assert world.discards == {"t": {Reason.SERVER_SHUTDOWN: 1}}


def test_an_error_that_nobody_expects_is_a_bug_and_logged_once(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    world = make()
    world.router().accept([("t", 5, None, None, NOW_MS)] * 3, Source.TCP)  # type: ignore[list-item]
    assert world.discards == {"t": {Reason.BUG: 3}}
    assert [record.message for record in caplog.records if "a bug" in record.message] == [
        "agent: a bug: a message could not be passed to the producer"
    ]


def test_messages_over_the_limit_of_their_topic_are_discarded_whatever_becomes_of_the_others(make: Maker) -> None:
    named = {"none": TopicSettings(rate_limit=RateLimitSettings(60_000, 0)), "t*": TopicSettings(rate_limit=RateLimitSettings(60_000, 2))}
    world = make(TopicsSettings(default=QUICK, named=named))
    world.router().accept([message(), message(topic="none"), message(), message(), message(topic="some topic")], Source.TCP)
    assert world.discards == {"none": {Reason.RATE_LIMIT: 1}, "t": {Reason.RATE_LIMIT: 1}, "some topic": {Reason.BAD_TOPIC: 1}}
    assert len(world.values()) == 2


def test_messages_of_a_denied_topic_use_no_places_of_its_limit(make: Maker) -> None:
    world = make(TopicsSettings(default=attrs.evolve(QUICK, rate_limit=RateLimitSettings(60_000, 1))))
    world.unknown.on_ack(BatchOutcome("t", None, 1, -1, DeliveryFailed("t", None, "UNKNOWN_TOPIC_OR_PARTITION", Written.NO)))
    router = world.router()
    router.accept([message(), message()], Source.TCP)
    assert world.discards == {"t": {Reason.BAD_TOPIC: 2}}
    world.clock += PAUSE_S
    router.accept([message(b"asks again")], Source.TCP)
    assert world.values() == [b"asks again"]


def test_bytes_that_are_no_message_are_counted(make: Maker) -> None:
    world = make()
    world.router().refuse(b"x", Refused(Reason.MALFORMED), Source.TCP)
    assert world.ledger.before_producer().refused == {Reason.MALFORMED: 1}


# -- with a spool


def test_without_room_messages_go_to_the_disk_and_those_of_the_topic_behind_them(server: ModelServer, make: Maker) -> None:
    server.create_topic("other", 1)
    world, spool = make(max_buffer=2**20), FakeSpool(set())
    router = world.router(spool)
    router.accept([message(number=n) for n in range(4)] + [message(topic="other")], Source.TCP)
    world.producer.flush(SECONDS)
    freeze_all(server)
    router.accept([message(b"%04d" % n + bytes(1000), number=0) for n in range(2_000)], Source.TCP)
    assert world.discards == {}
    numbers = [int(added[1][:4]) for added in spool.added]  # type: ignore[index]
    assert numbers == list(range(numbers[0], 2_000)), "once one is on the disk, so are those after it"
    assert spool.writes == 2, "one for each list of messages"
    server.do(lambda cluster: cluster.heal())


def test_a_message_that_no_broker_would_take_does_not_go_to_the_disk(make: Maker) -> None:
    world, spool = make(), FakeSpool(set())
    world.router(spool).accept([message(topic="some topic")], Source.TCP)
    assert (spool.added, world.discards) == ([], {"some topic": {Reason.BAD_TOPIC: 1}})


def test_a_limit_counts_messages_as_they_arrive_and_not_when_they_come_from_the_disk(make: Maker) -> None:
    topics = TopicsSettings(default=attrs_with_limit(2))
    world, spool = make(topics), FakeSpool({"t"})
    router = world.router(spool)
    router.accept([message(b"%d" % n) for n in range(4)], Source.TCP)
    assert (len(spool.added), world.discards) == (2, {"t": {Reason.RATE_LIMIT: 2}})
    deliveries = [router.send_spooled(added) for added in spool.added]
    assert all(delivery is not None and delivery.result(SECONDS) for delivery in deliveries)


def attrs_with_limit(count: int) -> TopicSettings:
    return TopicSettings(batching=Batching.PER_TOPIC, linger_ms=0, rate_limit=RateLimitSettings(60_000, count))


def test_a_spooled_message_waits_for_room_and_is_discarded_if_no_broker_would_take_it(server: ModelServer, make: Maker) -> None:
    world = make(max_buffer=2**20, max_request_size=4096)
    router = world.router(FakeSpool(set()))
    assert router.send_spooled(message(bytes(5_000))) is None
    assert world.discards == {"t": {Reason.LONG_MSG: 1}}
    freeze_all(server)
    with pytest.raises(BufferFull):
        for _ in range(5_000):
            router.send_spooled(message(bytes(1000)))
    server.do(lambda cluster: cluster.heal())


def test_a_message_on_disk_that_is_a_bug_is_discarded_so_that_the_next_process_does_not_meet_it_again(make: Maker) -> None:
    world = make()
    assert world.router(FakeSpool(set())).send_spooled(("t", 5, None, None, NOW_MS)) is None  # type: ignore[arg-type]
    assert world.discards == {"t": {Reason.BUG: 1}}


def test_with_a_spool_what_an_ended_producer_does_not_take_waits_on_disk(make: Maker) -> None:
    world, spool = make(), FakeSpool(set())
    router = world.router(spool)
    world.producer.close()
    router.accept([message()], Source.TCP)
    assert (len(spool.added), world.discards) == (1, {})
    with pytest.raises(ClosedError):
        router.send_spooled(message())
    assert world.discards == {}


def test_a_message_on_disk_has_the_time_of_its_arrival_if_its_own_cannot_be_used(make: Maker) -> None:
    world, spool = make(), FakeSpool({"t"})
    router = world.router(spool)
    router.accept([message(at=0), message(at=NOW_MS - 5)], Source.TCP)
    assert [added[4] for added in spool.added] == [NOW_MS, NOW_MS - 5]
    assert router.timestamps_replaced == 1


# -- partitions that are offline


@pytest.mark.parametrize("offline", Offline)
def test_while_its_partition_is_offline_a_message_with_a_partition_key_waits_or_goes_to_the_next(
    server: ModelServer, make: Maker, offline: Offline
) -> None:
    world = make(TopicsSettings(default=QUICK, offline=offline))
    router = world.router()
    router.accept([message(number=n) for n in range(4)], Source.TCP)
    world.producer.flush(SECONDS)
    server.do(lambda cluster: cluster.orphan("t", 1, 60.0))
    router.accept([message(b"finds no leader", number=1)], Source.TCP)
    until(lambda: world.producer.status()["partitions"]["t-1"]["state"] == "offline", "partition 1 to be offline")
    router.accept([message(b"keyed", number=5), *(message(b"any") for _ in range(20))], Source.TCP)

    def arrived() -> Counter[bytes | None]:
        return Counter(record.value for partition in (0, 2, 3) for record in server.records("t", partition))

    until(lambda: arrived()[b"any"] == 20, "messages for any partition")
    if offline is Offline.NEXT:
        until(lambda: b"keyed" in [record.value for record in server.records("t", 2)], "the keyed message in the next partition")
    server.do(lambda cluster: cluster.heal())
    world.producer.flush(SECONDS)
    there = [record.value for record in server.records("t", 1)]
    assert there == [b"v", b"finds no leader"] + ([b"keyed"] if offline is Offline.WAIT else [])


# -- topics that brokers do not know


def test_messages_of_a_topic_that_does_not_exist_fail_after_the_time_for_it(make: Maker) -> None:
    world = make(unknown_topic_timeout_ms=300)
    world.router().accept([message(topic="absent"), message()], Source.TCP)
    until(lambda: sum(world.producer.stats().failed.values()) == 1, "the message to fail")
    assert [code for code, _ in world.producer.stats().failed] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_topic_that_brokers_denied_uses_no_memory_and_is_found_again_when_it_was_created(server: ModelServer, make: Maker) -> None:
    world = make(unknown_topic_timeout_ms=300)
    router = world.router(spool := FakeSpool(set()))
    router.accept([message(topic="new")] * 3, Source.TCP)
    until(lambda: sum(world.producer.stats().failed.values()) == 3, "the messages to fail")  # perhaps one after the other
    until(lambda: len(world.unknown) == 1, "brokers to deny the topic")
    router.accept([message(topic="new"), message()] * 100, Source.TCP)
    assert world.discards == {"new": {Reason.BAD_TOPIC: 100}}
    assert (spool.added, world.producer.stats().topics["new"].accepted) == ([], 3)
    world.clock += PAUSE_S
    server.create_topic("new", 1)
    router.accept([message(b"asks", topic="new"), message(b"too early", topic="new")], Source.TCP)
    until(lambda: not world.unknown, "the topic to be found")
    router.accept([message(b"after", topic="new")], Source.TCP)
    until(lambda: [record.value for record in server.records("new")] == [b"asks", b"after"], "the messages")
    assert world.discards == {"new": {Reason.BAD_TOPIC: 101}}


def test_messages_wait_for_brokers_that_are_away_longer_than_for_an_unknown_topic(server: ModelServer, make: Maker) -> None:
    world = make(unknown_topic_timeout_ms=200, reconnect_backoff_max_ms=200)
    stop_all(server)
    world.router().accept([message(b"kept")], Source.TCP)
    with pytest.raises(TimeoutError):
        world.producer.flush(1.0)
    assert world.producer.stats().failed == {}
    start_all(server)
    assert world.values() == [b"kept"]


def test_many_topics_that_do_not_exist_are_discarded_within_the_memory_for_them(make: Maker) -> None:
    world = make(max_buffer=64 * 2**20)
    router = world.router()
    for start in range(0, 20_000, 100):
        router.accept([message(topic=f"absent-{n}") for n in range(start, start + 100)], Source.TCP)
    before = world.ledger.before_producer()
    lost = sum(found.count for found in before.topics.values()) + before.others.count
    stats = world.producer.stats()
    assert lost + stats.accepted == 20_000
    assert stats.queued < 12_000
