"""Applications that share records. Rule: each notes what it was given and what it was told about it, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.core.share.values import AcknowledgeType
from pykafka4.errors import KafkaError, RecordLockLost
from pykafka4.share import ShareConsumer
from pykafka4.share.record import ShareRecord
from tests.inspection import inspect

__all__ = ["Given", "Sharer"]

CALL_S: Final = 3.0  # seconds that a commit may take
CLOSE: Final = (0.0, 2.0)  # seconds that a close may take
Key = tuple[str, int, int]  # topic, partition, offset


@attrs.define
class Given:
    """A record that an application was given."""

    key: Key
    value: bytes
    count: int
    member: str
    at: float
    stored: bool | None = None  # whether it was told that an acceptance is stored; None: it was told nothing


class Sharer:
    """One thread with a share consumer, and another one after it was closed."""

    def __init__(self, sim: Any, number: int) -> None:
        self.sim, self.number, self.id = sim, number, f"sharer-{number}"
        self.given: list[Given] = []
        self.state = "new"
        self.member = ""  # its id, while it has a subscription
        self._polls: list[float] = []  # when
        self.explicit = sim.plan.explicit[number]

    def run(self) -> None:
        """The thread."""
        while not self.sim.drained():
            consumer = ShareConsumer(
                bootstrap_servers=self.sim.servers,
                group_id="g",
                client_id=self.id,
                share_acknowledgement_mode="explicit" if self.explicit else "implicit",
                **self.sim.plan.options,
            )
            consumer.subscribe(sorted(self.sim.plan.topics))
            member = self.member = inspect(consumer).machine.member.member_id
            polls = self.sim.random.choice((3, 20, 100)) if not self.sim.healed else 1_000_000
            while polls and not self.sim.drained():
                polls -= 1
                self._poll(consumer, member)
                if not self.sim.healed and self.sim.random.random() < 0.03:
                    self._subscribe_again(consumer)
            self.state, self.member = "closing", ""
            self._close(consumer)
        self.state = "done"

    def _poll(self, consumer: ShareConsumer, member: str) -> None:
        sim, random = self.sim, self.sim.random
        self.state = "polling"
        self._polls.append(sim.timeline.now)
        try:
            records = consumer.poll(random.choice((0.0, 0.1, 0.5)), 1 if sim.healed and sim.slow else random.choice((None, 1, 5)))
        except KafkaError as error:
            sim.note(f"{self.id}: {error!r}")
            sim.world.sleep(0.05)
            return
        given = [self._note(record, member) for record in records]
        if not records:
            sim.world.sleep(0.1)
            return
        self.state = "working"
        sim.world.sleep(random.expovariate(1 / (sim.plan.slow if sim.healed else sim.plan.work)))
        accepted = self._acknowledge(consumer, records, given) if self.explicit else given
        if self.explicit or random.random() < 0.5:
            self._commit(consumer, accepted)

    def _subscribe_again(self, consumer: ShareConsumer) -> None:
        """At once or soon, whether the member has left in time or not."""
        self.state = "unsubscribing"
        began, limit = self.sim.timeline.now, self.sim.random.choice(CLOSE)
        consumer.unsubscribe(limit)
        self.sim.closed(self.id, self.sim.timeline.now - began, limit)
        self.sim.world.sleep(self.sim.random.choice((0.0, 0.2)))
        consumer.subscribe(sorted(self.sim.plan.topics))

    def longest_pause(self, since: float) -> float:
        """The longest time between two polls since then."""
        times = [*(at for at in self._polls if at >= since), self.sim.timeline.now]
        return max(later - earlier for earlier, later in zip([since, *times], times, strict=False))

    def _note(self, record: ShareRecord, member: str) -> Given:
        found = Given(
            (record.topic, record.partition, record.offset), record.value or b"", record.delivery_count, member, self.sim.timeline.now
        )
        self.given.append(found)
        self.sim.given(found)
        return found

    def _acknowledge(self, consumer: ShareConsumer, records: list[ShareRecord], given: list[Given]) -> list[Given]:
        random, accepted = self.sim.random, []
        for record, one in zip(records, given, strict=True):
            kind = random.choices(("accept", "release", "reject", "renew"), (8, 0 if self.sim.healed else 2, 1, 1))[0]
            try:
                consumer.acknowledge(record, kind)
                if kind == "renew":
                    consumer.commit_async()
                    self.sim.world.sleep(random.random() * 0.1)
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            except RecordLockLost:
                one.stored = False
                continue
            if kind in ("accept", "renew"):
                accepted.append(one)
        return accepted

    def _commit(self, consumer: ShareConsumer, accepted: list[Given]) -> None:
        self.state = "committing"
        try:
            results = consumer.commit(CALL_S)
        except KafkaError as error:
            self.sim.note(f"{self.id}: commit: {error!r}")
            return
        for one in accepted:
            told = [error for tp, error in results.items() if tuple(tp) == one.key[:2]]
            if told and told[0] is None:
                one.stored = True
                self.sim.stored(one)

    def _close(self, consumer: ShareConsumer) -> None:
        began, limit = self.sim.timeline.now, self.sim.random.choice(CLOSE)
        consumer.close(limit)
        self.sim.closed(self.id, self.sim.timeline.now - began, limit)
