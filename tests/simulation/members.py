"""Applications that consume. Each member is a process of its own, which uses the public API as applications do: it polls or iterates, is
slow, seeks, pauses, commits, asks for positions, closes or dies.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from applications import timed
from invariants import Broken
from virtual import Process
from weather import VirtualTransport, Weather

from pykafka4 import Consumer
from pykafka4.errors import ClosedError, ConfigError, ConnectionLost, GroupError, KafkaError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.wire.hot import Record

if TYPE_CHECKING:
    from consumers import ConsumerSimulation

__all__ = ["Member"]

COMMIT_AGAIN: Final = 5.0  # virtual seconds; nobody but the application repeats a commit that found no coordinator in its time
CLOSE_SECONDS: Final = 5.0


class Member:
    """One process with a consumer in it."""

    def __init__(self, sim: ConsumerSimulation, number: int, instance: str | None) -> None:
        self.sim, self.number, self.instance = sim, number, instance
        self.process = Process(f"m{number}")
        self.weather = Weather(sim.timeline, sim.random, sim.cluster, sim.plan.climate, sim.note)
        self.weather.on_failed = lambda node: sim.disturb(0.0, node=node)
        self.transport: VirtualTransport | None = None
        self.owned: dict[TopicPartition, int | None] = {}  # partition: where the next record is looked for, None at the beginning
        self.paused: set[TopicPartition] = set()
        self.in_hand: list[Record] = []
        self.alive = True
        self.ending = False
        self.consumer: Consumer | None = None
        self._iterates = sim.random.random() < sim.plan.iterate and sim.plan.options["enable_auto_commit"]
        self._commit_again_at = sim.timeline.now + COMMIT_AGAIN

    def begin(self) -> None:
        """Start the process."""
        self.sim.world.spawn(self._run, f"m{self.number}", self.process)

    # ---- the listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They are ours."""
        self.sim.note(f"m{self.number} gets {[str(tp) for tp in partitions]}")
        for tp in partitions:
            if tp in self.owned:
                raise Broken("listeners are told the truth", f"{tp} is assigned twice")
            self.owned[tp] = None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """They are not ours any more, unless this one was never told."""
        self.sim.note(f"m{self.number} gives back {[str(tp) for tp in partitions]}")
        for tp in partitions:
            if tp not in self.owned:
                raise Broken("listeners are told the truth", f"{tp} is revoked and was not assigned")
            del self.owned[tp]
            self.paused.discard(tp)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Somebody else may have them."""
        self.sim.note(f"m{self.number} loses {[str(tp) for tp in partitions]}")
        for tp in partitions:
            self.owned.pop(tp, None)
            self.paused.discard(tp)

    # ---- its main loop

    def _run(self) -> None:
        sim = self.sim
        sim.world.sleep(sim.random.random() * 0.1)
        options = {**sim.plan.options, "client_id": f"m{self.number}"}
        if self.instance is not None:
            options["group_instance_id"] = self.instance
        self.consumer = consumer = Consumer(bootstrap_servers=sim.servers, **options)
        self._core = consumer._session
        if self._iterates:  # iteration waits without end: another thread closes the consumer when the process is to end
            sim.world.spawn(self._interrupt, f"m{self.number} closer", self.process)
        consumer.subscribe(sorted(sim.plan.topics), self)
        try:
            while not self.ending:
                if self._iterates:
                    self._iterate()
                else:
                    self._poll()
        except ClosedError:
            if not self.ending:
                raise
        self._close()

    def _poll(self) -> None:
        sim = self.sim
        self._finish()
        limit = sim.random.choice((0.0, 0.0, 0.05, 0.5))
        try:
            with timed(sim, "poll", limit):
                records = self._consumer().poll(limit)
        except (GroupError, ConnectionLost, ConfigError) as error:
            self._excuse(error)
            records = []
        for record in records:
            self._take(record)
        self.in_hand = records
        self._work(len(records))

    def _iterate(self) -> None:
        """A `for` loop, left by `break` or by an exception now and then."""
        sim = self.sim
        left = sim.random.choice((1, 20, 200))
        self._finish()  # the record that the last loop was left with counts as finished when another one asks for the next
        try:
            for record in self._consumer():
                self._take(record)
                self.in_hand = [record]
                self._work(1)
                left -= 1
                if self.ending or left <= 0:
                    break
                self._finish()
        except (GroupError, ConnectionLost, ConfigError) as error:
            self._excuse(error)

    def _interrupt(self) -> None:
        """The thread that ends an iteration."""
        while not self.ending and self.alive:
            self.sim.world.park(0.1)
        if self.alive and self.consumer is not None and not self.process.killed:
            with contextlib.suppress(KafkaError):
                self.consumer.close(CLOSE_SECONDS)

    def _excuse(self, error: KafkaError) -> None:
        # A broker that was not understood twice in a row is named once, and asked again.
        if isinstance(error, ConnectionLost) and "answer damaged" not in self.sim.plan.faults:
            raise error
        if isinstance(error, ConfigError):
            raise error
        self.sim.note(f"m{self.number}: {error}")
        self.sim.world.sleep(0.02)

    def _consumer(self) -> Consumer:
        assert self.consumer is not None
        return self.consumer

    def _finish(self) -> None:
        for record in self.in_hand:
            self.sim.ledger.finished[TopicPartition(record.topic, record.partition)].add(record.offset)
        self.in_hand = []

    def _take(self, record: Record) -> None:
        tp = TopicPartition(record.topic, record.partition)
        self.sim.ledger.handed += 1
        if tp not in self.owned:
            what = f"m{self.number} gets {tp} offset {record.offset} and owns {sorted(self.owned)}"
            raise Broken("records of owned partitions only", what)
        if tp in self.paused:
            raise Broken("paused partitions are quiet", f"m{self.number} gets {tp} offset {record.offset}, which is paused")
        self._follow(tp, record)

    def _follow(self, tp: TopicPartition, record: Record) -> None:
        """It must be the next in the log; the first of an assignment may lie before that, not behind a record that nobody finished."""
        log, ledger = self.sim.cluster.log(*tp), self.sim.ledger
        before = self.owned[tp]
        lost = before is None or before < log.start_offset
        if lost and self.sim.latest and ledger.begin(tp, record.offset):
            before = record.offset
        expected = ledger.next_in_log(tp, ledger.done_below(tp) if before is None else before)
        wrong = record.offset != expected if before is not None else expected is not None and record.offset > expected
        if wrong and record.offset > log.start_offset:
            raise Broken("positions never skip", f"m{self.number} {tp}: {record.offset} where {expected} is next (after {before})")
        written = self.sim.values[tp].get(record.offset)
        found = (record.key, record.value, tuple(record.headers), record.timestamp_ms)
        if written is None or found != (written.key, written.value, written.headers, written.timestamp_ms):
            raise Broken("records are what was written", f"{tp} offset {record.offset}: {found}, written {written}")
        self.owned[tp] = record.offset + 1

    # ---- what else applications do

    def _work(self, records: int) -> None:
        sim = self.sim
        if not sim.healed and sim.random.random() > 0.995:
            sim.world.sleep(sim.random.uniform(2.0, 6.0))  # now and then for longer than max_poll_interval_ms allows
        elif not self._iterates:
            sim.world.sleep(sim.random.choice((0.001, 0.01, 0.05)) if records else sim.random.uniform(0.02, 0.3))
        elif sim.random.random() < 0.1:
            sim.world.sleep(0.01)
        if self.ending:
            return
        if not self._core.config.enable_auto_commit and (records or sim.timeline.now > self._commit_again_at):
            self._commit()
        if sim.healed and self.paused:
            self._pause()
        if sim.random.random() < sim.plan.calls:
            sim.random.choice((self._seek, self._pause, self._position, self._committed, self._commit_and_wait))()

    def _commit(self) -> None:
        if not self._iterates:
            self._finish()
        self._commit_again_at = self.sim.timeline.now + COMMIT_AGAIN
        with contextlib.suppress(GroupError, KafkaTimeoutError):
            self._consumer().commit_async()

    def _commit_and_wait(self) -> None:
        sim, limit = self.sim, self.sim.random.choice((0.5, 3.0))
        if self._iterates:
            return
        self._finish()
        wanted = {tp: at for tp, at in self.owned.items() if at is not None}
        with contextlib.suppress(GroupError, KafkaTimeoutError), timed(sim, "commit", limit + 1.0):
            self._consumer().commit(timeout=limit)
            for tp, at in wanted.items():
                stored = sim.ledger.most.get(tp, -1)
                if stored < at:
                    raise Broken("a commit that returned is stored", f"m{self.number} {tp}: {at} was committed, {stored} is stored")

    def _seek(self) -> None:
        if not self.owned or self._iterates or self.sim.healed:
            return
        sim = self.sim
        tp = sim.random.choice(sorted(self.owned))
        log = sim.cluster.log(*tp)
        reached = self.owned[tp]
        if reached is None or reached <= log.start_offset:
            return
        self._finish()
        offset = sim.random.randint(log.start_offset, reached)
        sim.note(f"m{self.number} seeks {tp} to {offset}")
        with contextlib.suppress(ConfigError):  # revoked meanwhile
            self._consumer().seek(tp, offset)
            sim.ledger.rewind(tp, offset)
            self.owned[tp] = offset

    def _pause(self) -> None:
        consumer = self._consumer()
        if self.paused:
            tps = sorted(self.paused)
            with contextlib.suppress(ConfigError):
                consumer.resume(tps)
            self.paused.clear()
        elif self.owned and not self.sim.healed and not self._iterates:
            tp = self.sim.random.choice(sorted(self.owned))
            with contextlib.suppress(ConfigError):
                consumer.pause([tp])
                self.paused.add(tp)

    def _position(self) -> None:
        for tp, at in list(self.owned.items()):
            if at is not None and not self._iterates:
                with contextlib.suppress(ConfigError, KafkaTimeoutError):
                    position = self._consumer().position(tp, 0.0)
                    following = self.sim.ledger.next_in_log(tp, at)
                    if tp in self.owned and (position < at or (following is not None and position > following >= self._start(tp))):
                        raise Broken("positions never skip", f"m{self.number} {tp}: position {position}, {at} to {following} is next")

    def _start(self, tp: TopicPartition) -> int:
        return self.sim.cluster.log(*tp).start_offset

    def _committed(self) -> None:
        sim, limit = self.sim, self.sim.random.choice((0.5, 3.0))
        tps = sorted(self.owned)
        with contextlib.suppress(KafkaError), timed(sim, "committed", limit + 1.0):
            for tp, at in self._consumer().committed(tps, limit).items():
                if at is not None and at.offset > sim.ledger.most.get(tp, -1):
                    raise Broken("nothing unfinished is committed", f"{tp}: committed() says {at.offset}, which nobody committed")

    def state(self) -> str:
        """What its membership is in the middle of."""
        return self._core.member.group.state.name.lower() if self.consumer is not None else "starting"

    def status(self) -> object:
        """For the message of a broken promise."""
        return self._core.member.status(self.sim.timeline.now) if self.consumer is not None else "starting"

    # ---- its ends

    def _close(self) -> None:
        """The application closes the consumer."""
        self.sim.note(f"m{self.number} closes")
        failed = self.sim.random.random() < 0.3  # the application was interrupted in its work: what it has in hand is not finished
        if not self._iterates and not failed:
            self._finish()
        with timed(self.sim, "close", CLOSE_SECONDS + 1.0):
            self._core.close(CLOSE_SECONDS, failed=failed)
        self.alive = False
        self.sim.freed(self.instance)

    def close(self) -> None:
        """Have the application end; sometimes another thread of it closes the consumer."""
        self.ending = True
        if self.consumer is None:
            self.die()

    def die(self) -> None:
        """SIGKILL."""
        if self.alive:
            self.sim.note(f"m{self.number} dies")
            self.alive = False
            self.process.killed = True
            if self.transport is not None:
                self.transport.die()
            self.sim.freed(self.instance)
