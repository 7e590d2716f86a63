"""A producer or consumer that fails by an internal error ends alone: its waiters fail, the other users of the client go on."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from pykafka4 import Client, Consumer, KafkaError, Producer
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, until

SENDER_CALLS = (
    "poll",
    "_collect",
    "_pick",
    "_requests.build",
    "_requests.request_ended",
    "_answers._act",
    "_outcomes.acknowledge",
    "want",
    "_deadlines.watch",
)

pytestmark = pytest.mark.model(topics={"t": 3})


class Bomb:
    """Raises in the `at`-th call of a method of one machine."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise ValueError("an injected failure")
            return method(*args, **options)

        return called


def only(broken: object, whole: Callable[..., Any], wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """A method that calls `wrapped` for `broken`, `whole` for every other instance of a class that has no instance attributes."""
    return lambda *args: (whole if args and hasattr(args[0], "poll") and args[0] is not broken else wrapped)(*args)


class Outcomes:
    """How often each record of a producer got its outcome."""

    def __init__(self) -> None:
        self.sent = 0
        self.count: Counter[int] = Counter()
        self.failed = 0

    def send(self, producer: Producer, partition: int | None = None, topic: str = "t") -> None:
        number = self.sent
        producer.send(topic, b"%d" % number, partition=partition, on_delivery=lambda delivery: self.told(number, delivery))  # type: ignore[arg-type]
        self.sent += 1

    def told(self, number: int, delivery: Any) -> None:
        self.count[number] += 1
        self.failed += delivery.exception(0) is not None

    @property
    def complete(self) -> bool:
        return len(self.count) == self.sent

    def check(self) -> None:
        assert set(self.count) == set(range(self.sent)), "a record without an outcome"
        assert set(self.count.values()) <= {1}, "a record with two outcomes"


@pytest.mark.parametrize("at", [1, 2, 5, 20])
@pytest.mark.parametrize("name", SENDER_CALLS)
def test_a_producer_that_fails_at_any_point_gives_every_record_one_outcome_and_leaves_the_others_alone(
    client: Client, name: str, at: int
) -> None:
    dice = random.Random(f"{name} {at}")
    doomed, healthy = Producer(client=client, linger_ms=0), Producer(client=client, linger_ms=0)
    bomb = Bomb(at)
    sender = inspect(doomed).machine
    *path, method = name.split(".")
    part = attrgetter(*path)(sender) if path else sender
    setattr(part, method, bomb.wrap(getattr(part, method)))
    theirs, ours, refused = Outcomes(), Outcomes(), None
    try:
        for number in range(300):
            theirs.send(doomed, dice.choice([None, 0, 1, 2]), "t" if dice.random() < 0.9 else f"new-{number % 3}")
            ours.send(healthy)
            if dice.random() < 0.05:
                inspect(client).loop.wake()
                threading.Event().wait(0.001)
    except KafkaError as error:
        refused = error
    until(lambda: theirs.complete, "an outcome for each record")
    while not ours.sent >= 300:
        ours.send(healthy)
    healthy.flush(SECONDS)
    theirs.check()
    ours.check()
    assert ours.failed == 0
    assert client.status()["state"] == "connected"
    if at == 1:
        assert inspect(client).engine.failure(sender) is not None, "the call was never made"
    assert refused is None or "an injected failure" in str(refused)
    if inspect(client).engine.failure(sender) is not None:
        assert doomed.status()["state"] == "crashed"
        with pytest.raises(KafkaError, match="an injected failure"):
            doomed.send("t", b"v")
    doomed.close(SECONDS)
    assert healthy.close(SECONDS) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_loop_that_crashes_at_any_point_gives_every_record_one_outcome(server: ModelServer, seed: int) -> None:
    dice = random.Random(seed)
    producer = Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=0)
    bomb = Bomb(dice.randrange(1, 60))
    network = inspect(producer).engine.network
    name = dice.choice(["poll", "receive", "submit", "_answer"])
    wrapped = bomb.wrap(getattr(network, name))
    setattr(network, name, wrapped)
    loop: Any = inspect(producer).loop
    loop._events = {kind: wrapped if handler.__name__ == name else handler for kind, handler in loop._events.items()}
    outcomes, refused = Outcomes(), None
    try:
        for _ in range(3000):
            outcomes.send(producer, dice.choice([None, 0, 1, 2]))
    except KafkaError as error:
        refused = error
    producer.close(SECONDS)
    assert refused is None or "an injected failure" in str(refused)
    until(lambda: outcomes.complete, "an outcome for each record")
    outcomes.check()


def test_a_loop_that_crashes_fails_the_records_that_no_broker_has_answered(server: ModelServer) -> None:
    server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
    producer, outcomes = Producer(bootstrap_servers=server.bootstrap_servers), Outcomes()
    outcomes.send(producer)
    loop = inspect(producer).loop
    inspect(producer).engine.network.poll = Bomb(1).wrap(len)  # type: ignore[method-assign]
    loop.wake()
    until(lambda: outcomes.complete, "an outcome for the record")
    assert outcomes.failed == 1
    assert "an injected failure" in str(loop.crashed)
    producer.close(SECONDS)


@pytest.mark.parametrize("where", ["membership", "fetcher", "offsets", "coordinator"])
def test_a_consumer_that_fails_raises_in_every_call_and_leaves_the_others_alone(
    client: Client, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Consumer(client=client, group_id="broken", auto_offset_reset="earliest")
    broken.subscribe(["t"])
    healthy = Consumer(client=client, group_id="healthy", auto_offset_reset="earliest")
    healthy.subscribe(["t"])
    with Producer(client=client) as producer:
        producer.send("t", b"v")
    until(lambda: broken.poll(0.1), "the record")
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            broken.poll(SECONDS)
        except KafkaError as error:
            waiting.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    bomb = Bomb(1)
    part = getattr(inspect(broken).machine, where)
    owner: Any = part if hasattr(part, "__dict__") else type(part)
    monkeypatch.setattr(owner, "poll", only(part, owner.poll, bomb.wrap(owner.poll)))
    inspect(client).loop.wake()
    thread.join(SECONDS)
    assert "stopped this consumer: ValueError: an injected failure" in str(waiting[0])
    for use in (
        broken.poll,
        lambda: broken.commit(timeout=SECONDS),
        lambda: broken.position(("t", 0)),
        lambda: broken.committed([("t", 0)]),
    ):
        with pytest.raises(KafkaError, match="an injected failure"):
            use()
    assert broken.status()["consumer"]["state"] == "crashed"
    broken.close(SECONDS)
    until(lambda: healthy.poll(0.1), "the record for the other consumer")
    healthy.commit()
    healthy.close(SECONDS)


def test_a_producer_that_fails_while_its_requests_are_being_written_leaves_the_others_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Producer(client=client)
    other.send("t", b"v").result(SECONDS)
    producer = Producer(client=client, acks=0, enable_idempotence=False, linger_ms=60_000)  # without acks a written request is answered
    for partition in range(3):
        producer.send("t", b"v", partition=partition)
    producer.flush(SECONDS)
    handles = [producer.send("t", b"v", partition=partition) for partition in range(3)]

    def fail(*_: Any) -> None:
        raise ValueError("an injected failure")

    monkeypatch.setattr(inspect(producer).machine._outcomes, "acknowledge", fail)
    with contextlib.suppress(KafkaError):
        producer.flush(SECONDS)
    assert all("an injected failure" in str(handle.exception(SECONDS)) for handle in handles)
    assert other.send("t", b"v").result(SECONDS)
    assert client.status()["state"] == "connected"
    assert producer.stats().buffered_bytes == 0
    producer.close(0)
    assert other.close(SECONDS) == []


def test_a_handler_that_produces_to_kafka_does_not_stall_others(server: ModelServer) -> None:
    """It holds its lock while `send` waits for room, and the loop has something to log meanwhile."""
    producer = Producer(
        bootstrap_servers=server.bootstrap_servers, buffer_memory=65_536, max_partition_bytes=65_536, max_block_ms=3000, linger_ms=0
    )
    producer.send("t", b"first", partition=0).result(SECONDS)
    entered = threading.Event()

    class ToKafka(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not entered.is_set():
                entered.set()
                with contextlib.suppress(KafkaError):
                    while True:
                        producer.send("t", bytes(10_000), partition=0)

    handler, logger = ToKafka(), logging.getLogger("pykafka4")
    logger.addHandler(handler)
    application = threading.Thread(target=lambda: logger.warning("the application logs"), daemon=True)
    try:
        server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])
        application.start()
        assert entered.wait(SECONDS)
        slowest = 0.0
        while application.is_alive():
            began = time.monotonic()
            inspect(producer).loop.ask(lambda now: None, SECONDS)
            slowest = max(slowest, time.monotonic() - began)
            threading.Event().wait(0.01)
        assert slowest < 1.5, "the loop waited for the handler"
    finally:
        logger.removeHandler(handler)
        producer.close(0)
