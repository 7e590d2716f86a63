"""Applications that write in transactions. Rule: each notes what it was told about each transaction, and nothing else."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import attrs

from pykafka4.errors import KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionAborted
from pykafka4.producer import Producer

__all__ = ["Done", "Outcome", "Transactor"]

CALL_S: Final = 5.0  # seconds that a call may take before it is repeated


class Outcome(Enum):
    """What the application knows about a transaction."""

    COMMITTED = "commit_transaction returned"
    ABORTED = "abort_transaction returned, or another producer took over before the end was asked for"
    UNKNOWN = "fenced while it was being committed"


@attrs.frozen
class Done:
    """A transaction that is over for its application."""

    outcome: Outcome
    values: list[bytes]


class Transactor:
    """One thread with a transactional producer, and another one when it is fenced."""

    def __init__(self, sim: Any, number: int) -> None:
        self.sim, self.number, self.id = sim, number, f"transactor-{number}"
        self.done: list[Done] = []
        self.state = "new"
        self._serial = 0

    def sent(self, value: bytes) -> bool:
        """Whether this one has sent it."""
        return value.startswith(b"%d:" % self.number)

    def place(self, value: bytes) -> int:
        """Its number among those that were sent."""
        return int(value.split(b":")[1])

    def run(self) -> None:
        """The thread."""
        producer = self._new()
        for _ in range(self.sim.plan.transactions):
            self.state = "between transactions"
            self.sim.world.sleep(self.sim.random.expovariate(1 / 0.2) if not self.sim.healed else 0.01)
            if not self._one(producer):
                producer.close(0)
                producer = self._new()
        self.state = "done"
        producer.close(CALL_S)

    def _new(self) -> Producer:
        producer = Producer(bootstrap_servers=self.sim.servers, transactional_id=self.id, **self.sim.plan.options)
        self.state = "init_transactions"
        self._until_told(lambda: producer.init_transactions(CALL_S))
        return producer

    def _until_told(self, call: Any) -> None:
        """Repeat a call whose time is over."""
        while True:
            try:
                return call()  # type: ignore[no-any-return]
            except KafkaTimeoutError:
                continue

    def _one(self, producer: Producer) -> bool:
        """One transaction; False when the producer is fenced."""
        random, values = self.sim.random, list[bytes]()
        commits, taken = random.random() < 0.75, random.random() < self.sim.plan.zombies
        self.state, asked = "in a transaction", False
        try:
            producer.begin_transaction()
            commits = self._send_all(producer, values) and commits
            if taken:
                self._take_over()
            self.state = "ending"
            if commits and self._commit(producer):
                self.done.append(Done(Outcome.COMMITTED, values))
                return True
            asked = commits
            self.state = "aborting"
            self._until_told(producer.abort_transaction)
        except ProducerFencedError:
            unknown = self.state == "ending" and commits and not taken
            self.done.append(Done(Outcome.UNKNOWN if unknown or asked else Outcome.ABORTED, values))
            return False
        self.done.append(Done(Outcome.ABORTED, values))
        return True

    def _send_all(self, producer: Producer, values: list[bytes]) -> bool:
        """False if the transaction can only be aborted."""
        try:
            for _ in range(self.sim.random.choice((1, 2, 5, 20))):
                self._send(producer, values)
        except TransactionAborted as error:
            self.sim.note(f"{self.id}: {error!r}")
            return False
        return True

    def _send(self, producer: Producer, values: list[bytes]) -> None:
        random = self.sim.random
        self._serial += 1
        value = b"%d:%d:%s" % (self.number, self._serial, b"x" * random.choice((1, 50, 300)))
        values.append(value)
        producer.send("t", value, partition=random.randrange(self.sim.plan.topics["t"]))
        if random.random() < 0.1:
            self.sim.world.sleep(random.random() * 0.1)

    def _commit(self, producer: Producer) -> bool:
        """False if it can only be aborted."""
        try:
            self._until_told(lambda: producer.commit_transaction(CALL_S))
        except ProducerFencedError:
            raise
        except KafkaError as error:
            self.sim.note(f"{self.id}: {error!r}")
            return False
        return True

    def _take_over(self) -> None:
        """Another process starts with the same transactional id, and fences this one."""
        self.sim.note(f"{self.id} is taken over")
        other = self._new()
        other.close(CALL_S)
