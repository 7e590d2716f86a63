"""Companion: a second consumer on a member's client, which reads partitions that it assigned to itself, without a group.

Whatever happens to the member's consumer, this one goes on: it ends when it has read everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka4 import Client, Consumer
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from tests.simulation.judge.handed import Reading
from tests.simulation.judge.invariants import Broken
from tests.simulation.users.applications import timed

if TYPE_CHECKING:
    from tests.simulation.users.members import Member

__all__ = ["Companion"]

POLL_SECONDS: Final = 0.2


class Companion:
    """Reads all partitions from the beginning, some of them not all the time."""

    def __init__(self, member: Member, client: Client) -> None:
        self._member, self._client, self._sim = member, client, member.sim
        self.reading = Reading(member.sim, f"{member.name}'s companion", "earliest", in_group=False)
        self.reads = True
        member.sim.ledger.on_cut.append(self.reading.cut)

    def run(self) -> None:
        """The thread."""
        sim = self._sim
        try:
            with Consumer(client=self._client, auto_offset_reset="earliest", fetch_max_wait_ms=500) as consumer:
                self._read(consumer)
        except KafkaError as error:
            if self._member.crash.at is None or not self._member.crash.shared:
                raise Broken("the others of a client go on", f"{self.reading.name} ends with {error!r}") from error
        self.reads = False
        sim.note(f"{self.reading.name} ends")
        if not self._member.alive:
            self._client.close(0.5)

    def alone(self) -> None:
        """The member's consumer is closed; the last of the two closes the client."""
        if not self.reads:
            self._client.close(0.5)

    def _read(self, consumer: Consumer) -> None:
        sim, reading = self._sim, self.reading
        self._assign(consumer, sorted(p.tp for p in sim.cluster.partitions()))
        while not (sim.healed and not sim.left() and self._through()):
            if sim.random.random() < 0.01 and not sim.healed:  # some partitions only, for a while
                self._assign(consumer, sim.random.sample(sorted(reading.owned), 1))
            elif sim.random.random() < 0.05 or sim.healed:
                self._assign(consumer, sorted(p.tp for p in sim.cluster.partitions()))
            try:
                self._poll(consumer)
            except KafkaError as error:
                if not sim.explains(error):
                    raise
            sim.world.sleep(0.1)

    def _poll(self, consumer: Consumer) -> None:
        asked = self._sim.timeline.now
        with timed(self._sim, "poll", POLL_SECONDS):
            records = consumer.poll(POLL_SECONDS)
        for record in records:
            self.reading.take(record)
        self.reading.looked(asked, emptied=len(records) < 500)

    def _assign(self, consumer: Consumer, tps: list[TopicPartition]) -> None:
        """What is assigned again is read from its beginning; what stays goes on."""
        reading = self.reading
        if tps == sorted(reading.owned):
            return
        consumer.assign(tps)
        reading.end([tp for tp in reading.owned if tp not in tps])
        reading.begin([tp for tp in tps if tp not in reading.owned])

    def _through(self) -> bool:
        """Whether it has read to the end of every log."""
        logs = {p.tp: p.log for p in self._sim.cluster.partitions()}
        positions = self.reading.owned
        return all(
            tp in positions and ((positions[tp].at or 0) >= log.end_offset or log.end_offset == log.start_offset)
            for tp, log in logs.items()
        )
