"""Books of a real producer: the account at rest and under races, and what becomes of failed batches."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from pykafka4 import BufferFull, Producer
from pykafka4.agent.account.books import Books
from pykafka4.agent.account.hooks import BatchOutcomes, count_undelivered
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.values import Discards, TopicAccount
from pykafka4.agent.message import Reason, Source
from pykafka4.agent.router import Router
from pykafka4.agent.service.on_loop import LoopCalls
from pykafka4.agent.settings.values import SpoolSettings
from pykafka4.agent.spool.spool import Spool
from pykafka4.testing import ModelServer
from tests.agent.account.accounting import check_balance, message

SECONDS = 30.0


@attrs.frozen
class Agent:
    """The parts of an agent that count."""

    producer: Producer
    ledger: Ledger
    outcomes: BatchOutcomes
    books: Books


Start = Callable[..., Agent]


@pytest.fixture
def start(server: ModelServer) -> Iterator[Start]:
    """Starts the parts, and closes their producers in the end."""
    started: list[Agent] = []

    def start(**options: Any) -> Agent:
        ledger, reasons = Ledger(), Reasons(autocreate=False)
        outcomes = BatchOutcomes(ledger, reasons, keeps_undelivered=False)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, hooks=outcomes, on_full="raise", **options)
        started.append(Agent(producer, ledger, outcomes, Books(producer, ledger, reasons)))
        return started[-1]

    yield start
    for agent in started:
        agent.producer.close(0)


def test_at_rest_the_account_has_each_message_once(server: ModelServer, start: Start) -> None:
    server.create_topic("t", 2)
    agent = start()
    for number in range(10):
        agent.producer.send("t", b"v", timestamp_ms=number)
    agent.producer.flush(SECONDS)
    agent.ledger.discarded(message("t", timestamp_ms=77), Reason.RATE_LIMIT)
    account = agent.books.account()
    check_balance(account)
    assert account.total == account.topics["t"] == TopicAccount(11, 10, 0, 0, Discards({Reason.RATE_LIMIT: 1}, 77, 77))
    counters = agent.books.counters(account)
    assert [counters[name] for name in ("MsgCreate", "MsgDestroy", "AckOk", "DiscardDueToRateLimit")] == [11, 11, 10, 1]


def test_failed_batches_are_discards_with_reason_and_times_and_the_log_names_the_error(
    server: ModelServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server.create_topic("t", 1)
    server.create_topic("u", 1)
    agent = start(linger_ms=50)
    server.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="t", times=1)
    server.fail("Produce", "INVALID_TIMESTAMP", topic="u", times=1)
    for number in (5, 3, 9):
        agent.producer.send("t", b"v", timestamp_ms=number)
    agent.producer.send("u", b"v", timestamp_ms=1)
    agent.producer.flush(SECONDS)
    account = agent.books.account()
    check_balance(account)
    assert account.topics["t"].discards == Discards({Reason.NOT_AUTHORIZED: 3}, 3, 9)
    assert account.topics["u"].discards == Discards({Reason.KAFKA_ERROR_ACK: 1}, 1, 1)
    assert agent.books.unfinished_report().topics == {topic: row.discards for topic, row in account.topics.items()}
    start = "agent: discarded (KAFKA_ERROR_ACK): messages: 1, the last of topic 'u': "
    lines = [line for line in caplog.messages if line.startswith(start)]
    assert len(lines) == 1
    assert "INVALID_TIMESTAMP" in lines[0]


def test_an_unknown_topic_is_a_bad_topic_in_the_account_and_in_the_report(server: ModelServer, start: Start) -> None:
    agent = start(unknown_topic_timeout_ms=100, allow_auto_create_topics=False)
    agent.producer.send("no-such-topic", b"v", timestamp_ms=5)
    agent.producer.flush(SECONDS)
    account = agent.books.account()
    assert account.topics["no-such-topic"].discards.by_reason == {Reason.BAD_TOPIC: 1}
    report = agent.books.unfinished_report()
    assert report.recent_bad_topics == ("no-such-topic",)
    assert report.topics["no-such-topic"] == Discards({Reason.BAD_TOPIC: 1}, 5, 5)


def test_possible_duplicates_are_counted_with_their_times_without_idempotence(server: ModelServer, start: Start) -> None:
    server.create_topic("t", 1)
    agent = start(enable_idempotence=False, linger_ms=20)
    server.disconnect("Produce", after=True)  # the broker has written the batch, and its response is lost
    for number in (8, 4):
        agent.producer.send("t", b"v", timestamp_ms=number)
    agent.producer.flush(SECONDS)
    assert len(server.records("t")) == 4
    assert agent.books.account().possible_duplicates == 2
    row = agent.books.unfinished_report().possible_duplicates["t"]
    assert (row.count, row.first_ms, row.last_ms) == (2, 4, 8)


def test_with_idempotence_there_are_none(server: ModelServer, start: Start) -> None:
    server.create_topic("t", 1)
    agent = start(linger_ms=20)
    server.disconnect("Produce", after=True)
    agent.producer.send("t", b"v")
    agent.producer.flush(SECONDS)
    assert len(server.records("t")) == 1
    assert agent.books.account().possible_duplicates == 0
    assert agent.books.unfinished_report().possible_duplicates == {}


def test_what_the_end_could_not_deliver_is_discarded(server: ModelServer, start: Start) -> None:
    server.create_topic("t", 1)
    agent = start(linger_ms=60_000)
    for number in range(3):
        agent.producer.send("t", b"v", timestamp_ms=number)
    agent.producer.close(0)
    assert agent.outcomes.wait(SECONDS)
    expected = Discards({Reason.SERVER_SHUTDOWN: 3}, 0, 2)
    assert agent.books.account().total == TopicAccount(3, 0, 0, 0, expected)
    assert agent.books.unfinished_report().topics == {"t": expected}


def test_the_account_balances_while_threads_send_and_brokers_refuse(server: ModelServer, start: Start) -> None:
    """Batches fail and are acknowledged, topics come and are unknown, the pool is full: in each snapshot the account balances, the counts
    only grow, and in the end it has what the senders have counted.
    """
    rng = random.Random(7)
    topics = [f"t{number}" for number in range(6)]
    for topic in topics[:4]:
        server.create_topic(topic, 2)
    server.fail("Produce", "INVALID_TIMESTAMP", topic="t0", times=3)
    agent = start(linger_ms=1, buffer_memory=70_000, batch_size=2_000, unknown_topic_timeout_ms=50, allow_auto_create_topics=False)
    stop, sent = threading.Event(), [0, 0, 0]

    def send(number: int) -> None:
        mine = random.Random(number)
        while not stop.is_set() and sent[number] < 4_000:
            topic = mine.choice(topics)
            sent[number] += 1
            try:
                agent.producer.send(topic, b"x" * mine.randrange(200))
            except BufferFull:
                agent.ledger.discarded(message(topic), Reason.NO_MEM)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(sent))]
    for thread in threads:
        thread.start()
    last = 0
    deadline = time.monotonic() + SECONDS
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        if not server.unmet():
            server.fail("Produce", rng.choice(["INVALID_TIMESTAMP", "NOT_LEADER_OR_FOLLOWER"]), topic=rng.choice(topics[:4]), times=1)
        account = agent.books.account()
        check_balance(account)
        discards = account.total.acknowledged + account.total.discards.count
        assert account.total.accepted <= sum(sent)
        assert discards >= last
        last = discards
    stop.set()
    for thread in threads:
        thread.join()
    agent.producer.flush(SECONDS)  # the buffer may still be full
    while server.unmet():
        sent[0] += 1
        agent.producer.send(rng.choice(topics[:4]), b"v").exception(SECONDS)
    agent.producer.flush(SECONDS)
    account = agent.books.account()
    check_balance(account)
    assert account.total.accepted == sum(sent)
    assert account.total.queued == 0
    assert account.total.discards.by_reason.keys() == {Reason.KAFKA_ERROR_ACK, Reason.BAD_TOPIC, Reason.NO_MEM}
    assert agent.books.total_report().by_reason == account.total.discards.by_reason


def test_topics_that_the_producer_forgets_stay_in_the_sums(server: ModelServer, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.core.producer.outcomes.ledger.RETIRED", 5)
    agent = start(unknown_topic_timeout_ms=10, allow_auto_create_topics=False)
    for number in range(40):
        agent.producer.send(f"unknown-{number}", b"v")
    agent.producer.flush(SECONDS)
    account = agent.books.account()
    check_balance(account)
    assert account.total.discards.by_reason == {Reason.BAD_TOPIC: 40}
    assert len(account.topics) == 5
    assert account.others.discards.by_reason == {Reason.BAD_TOPIC: 35}


def test_with_a_spool_each_snapshot_has_each_message_once(server: ModelServer, tmp_path: Any) -> None:
    """Messages go to the disk, and from there to the producer, while another thread takes accounts: one is never in two places."""
    server.create_topic("t", 2)
    accepted: list[int] = []

    async def run() -> None:
        ledger, reasons = Ledger(), Reasons(autocreate=False)
        outcomes = BatchOutcomes(ledger, reasons, keeps_undelivered=True)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, hooks=outcomes, on_full="raise", linger_ms=0)
        spool = Spool(SpoolSettings(tmp_path / "spool", always=True), ledger, None)
        router = Router(producer, ledger, None, spool)
        books = Books(producer, ledger, reasons, spool=spool, on_loop=LoopCalls(asyncio.get_running_loop()))
        spool.start(router, 50_000)
        received, done = [0], threading.Event()

        def look() -> None:
            while not done.is_set():
                account = books.account()
                after = received[0]
                check_balance(account)
                assert account.total.accepted <= after
                accepted.append(account.total.accepted)

        looking = asyncio.create_task(asyncio.to_thread(look))
        for number in range(300):
            received[0] += 20
            router.accept([message("t", b"%d" % number)] * 20, Source.TCP)
            await asyncio.sleep(0.002)
        async with asyncio.timeout(SECONDS):
            while (await asyncio.to_thread(books.account)).total.acknowledged < received[0]:
                await asyncio.sleep(0.05)
        done.set()
        await looking
        account = await asyncio.to_thread(books.account)
        assert account.total == TopicAccount(received[0], received[0], 0, 0)
        await spool.stop()
        count_undelivered(ledger, spool.close(await asyncio.to_thread(producer.close)))

    asyncio.run(run())
    assert len(accepted) > 5
    assert accepted == sorted(accepted)
    assert len(server.records("t")) == 6_000


def test_the_end_with_a_spool_discards_nothing_and_the_next_process_accepts_it_as_restored(server: ModelServer, tmp_path: Any) -> None:
    server.create_topic("t", 1)
    settings = SpoolSettings(tmp_path / "spool")

    async def begin() -> None:
        ledger, reasons = Ledger(), Reasons(autocreate=False)
        outcomes = BatchOutcomes(ledger, reasons, keeps_undelivered=True)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, hooks=outcomes, on_full="raise", linger_ms=60_000)
        spool = Spool(settings, ledger, None)
        books = Books(producer, ledger, reasons, spool=spool)
        Router(producer, ledger, None, spool).accept([message("t", b"%d" % number) for number in range(5)], Source.TCP)
        account = books.account()
        assert account.total == TopicAccount(5, 0, 5, 0)
        count_undelivered(ledger, spool.close(await asyncio.to_thread(producer.close, 0)))
        assert outcomes.wait(SECONDS)
        account = books.account()
        check_balance(account)
        assert account.total == account.topics["t"] == TopicAccount(5, 0, 0, 5)
        assert books.unfinished_report().topics == {}

    async def go_on() -> None:
        ledger, reasons = Ledger(), Reasons(autocreate=False)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, hooks=BatchOutcomes(ledger, reasons, True), on_full="raise")
        spool = Spool(settings, ledger, None)
        router = Router(producer, ledger, None, spool)
        books = Books(producer, ledger, reasons, spool=spool, on_loop=LoopCalls(asyncio.get_running_loop()))
        spool.start(router, 50_000)
        router.accept([message("t", b"new")], Source.TCP)
        async with asyncio.timeout(SECONDS):
            while (account := await asyncio.to_thread(books.account)).total.acknowledged < 6:
                check_balance(account)
                await asyncio.sleep(0.02)
        assert account.total == TopicAccount(6, 6, 0, 0)
        assert account.restored == 5
        await spool.stop()
        spool.close(await asyncio.to_thread(producer.close))

    asyncio.run(begin())
    asyncio.run(go_on())
    assert [record.value for record in server.records("t")] == [b"0", b"1", b"2", b"3", b"4", b"new"]


def test_an_agents_loop_that_is_slow_does_not_stop_the_spool_for_good(start: Start) -> None:
    """It answers too late: then nobody waits for the account, and what comes from the disk must go on."""
    calls: list[Callable[[], object]] = []

    def too_slow(look: Callable[[], Any]) -> Any:
        calls.append(look)
        raise TimeoutError

    class Disk:
        topics: dict[str, Any] = {}
        holds = 0

        def state(self) -> Any:
            return self

        def hold(self) -> None:
            self.holds += 1

        def release(self) -> None:
            self.holds -= 1

    agent, disk = start(), Disk()
    books = Books(agent.producer, agent.ledger, Reasons(autocreate=False), spool=disk, on_loop=too_slow)
    with pytest.raises(TimeoutError):
        books.account()
    for call in calls:
        call()
    assert (len(calls), disk.holds) == (2, 0)
