"""An application that copies a topic in transactions, with its offsets in them. Rule: it does what the guide says, and keeps no count."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from pykafka4.consumer import Consumer
from pykafka4.errors import KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionError
from pykafka4.producer import Producer
from pykafka4.wire.records.batch import WireRecord
from tests.simulation.judge.invariants import Broken

__all__ = ["Copier"]

CALL_S: Final = 5.0  # seconds that a call may take before it is repeated
SOURCE: Final = "source"
NUMBER: Final = 90  # of the application, in its values


class Dropped(Exception):
    """The application has changed its mind."""


class Copier:
    """One thread with a consumer and a transactional producer."""

    id: Final = "copier"

    def __init__(self, sim: Any, records: int) -> None:
        self.sim, self.state = sim, "new"
        self.expected = [b"%d:%d:copy" % (NUMBER, n) for n in range(records)]
        sim.cluster.create_topic(SOURCE, 1)
        for value in self.expected:
            sim.cluster.append(SOURCE, 0, [WireRecord(key=None, value=value, timestamp_ms=0)])

    def sent(self, value: bytes) -> bool:
        """Whether this one has sent it."""
        return value.startswith(b"%d:" % NUMBER)

    def run(self) -> None:
        """The thread."""
        random, group = self.sim.random, "copiers"
        with Consumer(
            bootstrap_servers=self.sim.servers,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **self.sim.client_options,
        ) as consumer:
            if self.sim.plan.grouped:
                consumer.subscribe([SOURCE])
            else:
                consumer.assign([(SOURCE, 0)])
            producer = self._new()
            while not self._done(consumer):
                self.state = "between transactions"
                self.sim.world.sleep(random.random() * 0.1)
                try:
                    self._one(producer, consumer)
                except Dropped:
                    continue
                except ProducerFencedError:
                    producer.close(0)
                    producer = self._new()
                except KafkaError as error:
                    self.sim.note(f"{self.id}: {error!r}")
                    if not self._end(producer):
                        producer.close(0)
                        producer = self._new()
            self.state = "done"
            producer.close(CALL_S)

    def _new(self) -> Producer:
        producer = Producer(bootstrap_servers=self.sim.servers, transactional_id=self.id, **self.sim.plan.options)
        while True:
            with contextlib.suppress(KafkaTimeoutError):
                producer.init_transactions(CALL_S)
                return producer

    def _one(self, producer: Producer, consumer: Consumer) -> None:
        """One transaction, with one poll before it or several inside."""
        random = self.sim.random
        records = consumer.poll(0.2, random.choice((1, 3, 10)))
        self.state = "in a transaction"
        with producer.transaction(consumer, random.choice((0.05, CALL_S))):
            for _ in range(random.choice((1, 1, 3))):
                for record in records:
                    producer.send("t", record.value, partition=0)
                records = consumer.poll(0.02, 3) if random.random() < 0.5 else []
            for record in records:
                producer.send("t", record.value, partition=0)
            if random.random() < 0.3:
                raise Dropped

    def _end(self, producer: Producer) -> bool:
        """A call may have timed out: ask for its outcome until it is known. False if the producer can do nothing more."""
        self.state = "ending"
        calls = (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction)
        while True:
            for call in calls:
                try:
                    call()
                except KafkaTimeoutError:
                    continue
                except TransactionError as error:
                    if "no transaction is open" in str(error):
                        return True
                except KafkaError:
                    return False

    def _done(self, consumer: Consumer) -> bool:
        """Whether the group has committed the end."""
        try:
            found = consumer.committed((SOURCE, 0), 1.0)
        except KafkaError:
            return False
        return found is not None and found.offset >= len(self.expected)

    def judge(self, values: list[bytes]) -> None:
        """Each record of the source is there once."""
        found = [value for value in values if self.sent(value)]
        if missing := set(self.expected) - set(found):
            raise Broken("a committed transaction is read whole", f"not copied: {sorted(missing)[:5]}")
        if len(found) > len(self.expected):
            again = sorted(value for value in self.expected if found.count(value) > 1)
            raise Broken("each committed record is read once, in order", f"copied again: {again[:5]}")
        if found != self.expected:
            raise Broken("each committed record is read once, in order", f"copied in another order: {found[:20]}")
