"""Applications that produce. Each is a thread that uses the public API as applications do, and tells the watch what it was told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from pykafka4.errors import BufferFull, ClosedError, KafkaError, KafkaTimeoutError
from pykafka4.wire.records.hot import Delivery
from tests.simulation.judge.balance import balance
from tests.simulation.judge.invariants import Broken, Sent
from tests.simulation.judge.special import value_of
from tests.simulation.plans.features import disguised

if TYPE_CHECKING:
    from tests.simulation.judge.invariants import Watch
    from tests.simulation.plans.simulation import Simulation

__all__ = ["Application", "timed"]

SLACK_S: Final = 0.3  # seconds that a call may take beside what it waits for
IN_CALLBACKS: Final = 100  # added to the number of who sends from a callback: another thread, so there is no order between the two
HEADERS: Final = ((), (), (("trace", b"1"),), (("a", None), ("b", b"x" * 20)))


@contextlib.contextmanager
def timed(sim: Any, what: str, limit: float) -> Iterator[None]:
    """A call that has to end within `limit` virtual seconds, also where it raises because its time is over."""
    began = sim.timeline.now
    try:
        yield
    except KafkaError:
        judge_time(sim, what, began, limit)
        raise
    judge_time(sim, what, began, limit)


def judge_time(sim: Any, what: str, began: float, limit: float) -> None:
    """Complain if a call took longer than `limit`."""
    took = sim.timeline.now - began
    if took > limit + SLACK_S:
        raise Broken("waits end in time", f"{what} took {took:.3f} s of {limit:g}")


def chosen(sent: Sent) -> int | None:
    """What the application gives as the partition."""
    return sent.partition if sent.wraps is None else sent.wraps


class Many:
    """One callback for many records, called once for each. For which does not matter: its handle may be another one than was returned."""

    def __init__(self, watch: Watch, many: list[Sent]) -> None:
        self._watch, self._many = watch, many
        self._count = 0
        for sent in many:
            sent.second = 0

    def __call__(self, delivery: Delivery) -> None:
        self._watch.special.counts["callbacks of many"] += 1
        self._watch.special.again(self._many[min(self._count, len(self._many) - 1)])
        self._count += 1


class Application:
    """A thread that sends records, and now and then flushes, waits for a record, or drops its handle."""

    def __init__(self, sim: Simulation, number: int) -> None:
        self.sim, self.number = sim, number
        self.left = sim.plan.records
        self._next = 0
        slowly = sim.plan.trouble / sim.plan.records
        self._pace = slowly if sim.plan.spaced else sim.random.choice((0.001, 0.02, slowly))
        self._topics = [*sim.plan.topics, *sim.plan.unknown_topics]
        self._keeps = sim.random.choice((1.0, 1.0, 0.5))  # how likely a handle is kept
        self._last: Sent | None = None

    def run(self) -> None:
        """The thread."""
        sim = self.sim
        sim.world.sleep(sim.random.random() * 0.05)
        while self.left > 0 and not sim.closing:
            if sim.plan.many and sim.random.random() < 0.3 and not self._send_many(sim.random.choice((2, 7))):
                break
            for _ in range(min(self.left, 1 if sim.plan.spaced else sim.random.choice((1, 1, 1, 5, 20)))):
                if not self.send():
                    break
            self._something_else()
            sim.world.sleep(sim.random.expovariate(1 / (0.002 if sim.healed else self._pace)))

    def _something_else(self) -> None:
        sim, choice = self.sim, self.sim.random.random()
        limit = sim.random.choice((0.0, 0.1, 1.0))
        try:
            if choice < 0.03:
                with timed(sim, "flush", limit):
                    sim.producer.flush(limit)
            elif choice < 0.06 and self._last is not None:
                with timed(sim, "exception", limit):
                    self._last.delivery.exception(limit)  # type: ignore[union-attr]
                self._last.looked_at = True
            elif choice < 0.07:
                known = [sent for sent in sim.watch.sent if sent.stored is not None]  # before the question: more are told meanwhile
                balance(sim.producer.stats(), known)
            elif choice < 0.08:
                self._look_at_partitions(limit)
            elif sim.plan.purges and choice < 0.12:
                with timed(sim, "purge", 0.0):
                    sim.producer.purge(in_flight=choice < 0.1)
        except KafkaError as error:
            if not isinstance(error, (KafkaTimeoutError, ClosedError)) and not sim.watch.crashed:
                raise

    def _look_at_partitions(self, limit: float) -> None:
        """Brokers may tell what was true before, and topics only grow."""
        sim, topic = self.sim, self.sim.random.choice(self._topics)
        with timed(sim, "partitions_for", limit):
            found = sim.producer.partitions_for(topic, limit)
        least, most = sim.plan.topics.get(topic, 1), len(sim.cluster.topics[topic].partitions)
        if found != list(range(len(found))) or not least <= len(found) <= most:
            raise Broken("partitions are told as they are", f"{topic}: {found}, there are {most}, once {least}")

    def _draw(self, callback: bool, actor: int) -> Sent:
        sim, random = self.sim, self.sim.random
        topic = random.choice(self._topics)
        count = sim.plan.topics.get(topic, 0)
        choice = random.randrange(3)
        sent = Sent(
            actor=actor,
            number=self._next,
            topic=topic,
            value=value_of(topic, actor, self._next, random.choice((30, 100, 100, 700))),
            key=b"k%d" % random.randrange(10) if choice == 1 else b"" if random.random() < 0.05 else None,
            headers=random.choice(HEADERS),
            partition=random.randrange(count) if choice == 2 and count else None,
            timestamp_ms=sim.cluster.wall_ms() - 5 if random.random() < 0.3 else None,
            at=sim.timeline.now,
            called=callback,
        )
        sent.dropped = random.random() > self._keeps
        if sent.partition is not None and sim.plan.options.get("partitioner") == "partition_key":
            sent.wraps, sent.partition = random.choice((sent.partition, random.randrange(1 << 32))), None
        return sent

    def send(self) -> bool:
        """Send the next record; False when there was no room in time, or the producer is closed."""
        sim = self.sim
        sent = self._draw(sim.random.random() < 0.7, self.number)
        raising, sending = sim.random.random() < 0.05, sim.random.random() < 0.02

        def heard(delivery: Delivery) -> None:
            sim.watch.answered(sent, delivery)
            if sending and self.left > 0:
                self.left -= 1
                self._offer(self._draw(False, IN_CALLBACKS + self.number), None)
            if raising:
                raise ValueError("a callback that raises")

        self.left -= 1
        if self._offer(sent, heard if sent.called else None):
            return True
        if sim.closing:
            self.left = 0
        else:
            self.left += 1
        return False

    def _given(self, sent: Sent) -> bytes:
        return disguised(sent.value) if self.sim.plan.disguise else sent.value

    def _send_many(self, count: int) -> bool:
        """Send some at once; False as in `send`. Those before one that is refused are accepted."""
        sim, many = self.sim, []
        for _ in range(min(count, self.left)):
            many.append(attrs.evolve(self._draw(False, self.number), dropped=False))
            self._next += 1
        first = many[0]
        for sent in many:
            sent.topic, sent.headers, sent.partition, sent.timestamp_ms = first.topic, first.headers, first.partition, first.timestamp_ms
            sent.wraps = first.wraps
            sent.value = value_of(sent.topic, sent.actor, sent.number, len(sent.value))
            sim.watch.offer(sent)
        self.left -= len(many)
        where: dict[str, Any] = {"headers": list(first.headers), "partition": chosen(first), "timestamp_ms": first.timestamp_ms}
        if sim.plan.called:
            where["on_delivery"] = Many(sim.watch, many)
        try:
            with timed(sim, "send_many", sim.max_block * len(many)):
                found = sim.producer.send_many(first.topic, [self._given(s) for s in many], keys=[s.key for s in many], **where)
        except (BufferFull, KafkaError) as error:
            if not isinstance(error, sim.refusals) and not sim.closing:
                raise Broken("the producer goes on", f"send_many raised {error!r}") from error
            found = error.accepted  # type: ignore[attr-defined]
        for sent, delivery in zip(many, found, strict=False):
            sim.watch.accept(sent, delivery)
        for sent in many[len(found) :]:
            sim.watch.refuse(sent)
        self.left = 0 if sim.closing else self.left + len(many) - len(found)
        return len(found) == len(many)

    def _offer(self, sent: Sent, heard: Any) -> bool:
        sim = self.sim
        self._next += 1
        sim.watch.offer(sent)
        where: dict[str, Any] = {"key": sent.key, "partition": chosen(sent), "timestamp_ms": sent.timestamp_ms}
        late = heard is not None and sim.random.random() < 0.2  # the callback is given to the handle
        try:
            with timed(sim, "send", sim.max_block):
                first = None if late else heard
                delivery = sim.producer.send(sent.topic, self._given(sent), headers=list(sent.headers), on_delivery=first, **where)
        except (BufferFull, KafkaError) as error:
            sim.watch.refuse(sent)
            if not isinstance(error, sim.refusals) and not sim.closing:
                raise Broken("the producer goes on", f"send raised {error!r}") from error
            return False
        sim.watch.accept(sent, delivery)
        if late:
            delivery.add_done_callback(heard)
        if sim.plan.called and sim.random.random() < 0.3:
            sent.second = 0
            delivery.add_done_callback(lambda _: sim.watch.special.again(sent))
        if not sent.dropped:
            self._last = sent
        return True
