"""The spool against a model: a list for each topic. Order is kept, and nothing that was written is lost."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykafka4.agent.format import parse
from pykafka4.agent.message import Message
from pykafka4.agent.settings.values import Sync
from pykafka4.agent.spool.frames import FIRST, SEAL_SIZE, read_header, read_seal, salvage
from tests.agent.spool.world import World, message, number_of, undelivered

TOPICS = ("a", "b", "c")
MIB = 1024 * 1024


@attrs.define
class Entry:
    number: int
    on_disk: bool
    done: bool = False


class SpoolMachine(RuleBasedStateMachine):
    @initialize(room=st.sampled_from([3, 20, 10**6]), window=st.sampled_from([8_192, 60_000, 10**6]), always=st.booleans())
    def open(self, room: int, window: int, always: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name), room=room, window=window, always=always, max_size=1 * MIB, sync=Sync.NEVER)
        self.log: dict[str, list[Entry]] = {topic: [] for topic in TOPICS}
        self.number = 0

    # ---- the router

    @rule(topics=st.lists(st.sampled_from(TOPICS), min_size=1, max_size=30), size=st.sampled_from([10, 10, 3_000, 30_000]))
    def receive(self, topics: list[str], size: int) -> None:
        """As the router does it."""
        added: list[tuple[str, Entry]] = []
        for topic in topics:
            self.number += 1
            given = message(topic, self.number, size)
            entry = Entry(self.number, on_disk=True)
            if self.world.spool.takes(topic) or len(self.world.sender.waiting) >= self.world.sender.room:
                self.world.spool.add(given)
                added.append((topic, entry))
            else:
                self.world.sender.send_spooled(given)
                entry.on_disk = False
            self.log[topic].append(entry)
        self.world.spool.write()
        self._forget({number_of(lost) for lost in self.world.ledger.messages})

    def _forget(self, numbers: set[int]) -> None:
        for topic, entries in self.log.items():
            self.log[topic] = [entry for entry in entries if entry.number not in numbers]

    # ---- the producer

    @rule()
    def run(self) -> None:
        self.world.now += 2.0
        self.world.run()

    @precondition(lambda self: self.world.sender.waiting)
    @rule(data=st.data(), outcome=st.sampled_from(["ACKED", "ACKED", "MESSAGE_TOO_LARGE"]))
    def end_some(self, data: st.DataObject, outcome: str) -> None:
        """In any order, as batches of several partitions end."""
        waiting = self.world.sender.waiting
        for delivery in data.draw(st.lists(st.sampled_from(waiting), unique_by=id, max_size=20)):
            waiting.remove(delivery)
            delivery.end(outcome)
            self._done(delivery.message)

    @rule()
    def end_all(self) -> None:
        for delivery in self.world.sender.waiting:
            self._done(delivery.message)
        self.world.sender.end()

    def _done(self, given: Message) -> None:
        for entry in self.log[given[0]]:
            if entry.number == number_of(given):
                entry.done = True

    @rule()
    def save(self) -> None:
        self.world.spool.save()

    # ---- the process

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self._lose_memory()
        self.world.begin()

    @rule(data=st.data())
    def crash_with_a_torn_write(self, data: st.DataObject) -> None:
        """The last file of a topic ends anywhere behind its progress, or in zeros."""
        self.world.crash()
        self._lose_memory()
        folder = Path(self.folder.name) / "topics" / "t-a"
        files = sorted(folder.glob("*.seg")) if folder.exists() else []
        if files and files[-1].stat().st_size > FIRST:
            size, sealed = files[-1].stat().st_size, _is_sealed(files[-1])
            cut = data.draw(st.integers(min(_progress(files[-1]), size), size))
            os.truncate(files[-1], cut)
            if not (sealed and cut == size) and data.draw(st.booleans()):  # no bytes are written after a complete seal
                os.truncate(files[-1], cut + 1000)
            kept = _numbers(files)
            self.log["a"] = [entry for entry in self.log["a"] if not entry.on_disk or entry.number in kept]
        self.world.begin()

    def _lose_memory(self) -> None:
        """What the producer had and the disk has not is lost."""
        for topic, entries in self.log.items():
            self.log[topic] = [entry for entry in entries if entry.on_disk]

    @rule()
    def end_and_start(self) -> None:
        left = self.world.sender.waiting[:]
        self.world.sender.end("CLOSED")
        unkept = self.world.spool.close([undelivered(delivery.message) for delivery in left])
        self._forget({int(record.value.lstrip(b".")) for record in unkept if record.value is not None})
        for topic, entries in self.log.items():
            self.log[topic] = [entry for entry in entries if entry.on_disk or not entry.done]
            for entry in self.log[topic]:
                entry.on_disk = True
        self.world.begin()

    # ---- what must hold

    @invariant()
    def order_is_kept(self) -> None:
        if not hasattr(self, "world"):
            return
        for topic, entries in self.log.items():
            sent, numbers = self.world.sent(topic), [entry.number for entry in entries]
            if not sent:
                continue
            begin = numbers.index(sent[0])
            assert sent == numbers[begin : begin + len(sent)], topic
            assert all(entry.done for entry in entries[:begin]), topic

    @invariant()
    def counts_are_right(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.count()
        state = self.world.spool.state()
        assert state.bytes <= state.max_size
        assert not self.world.ledger.lost or "SPOOL_FULL" in {reason for _, reason in self.world.ledger.lost}
        for topic, entries in self.log.items():
            sent = set(self.world.sent(topic))
            only_on_disk = sum(entry.number not in sent and not entry.done for entry in entries)
            counted = state.topics[topic].messages if topic in state.topics else 0
            # After a crash messages may be sent again that are done.
            again = sum(entry.number not in sent and entry.done for entry in entries)
            assert only_on_disk <= counted <= only_on_disk + again, topic

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for _ in range(10_000):
            if not self.world.sender.waiting and not any(counts.messages for counts in self.world.spool.state().topics.values()):
                break
            self.run()
            self.end_all()
        self.run()
        self.order_is_kept()
        self.world.spool.save()
        for topic, entries in self.log.items():
            assert all(entry.done for entry in entries), topic
        assert self.world.spool.state().bytes == 0
        self.world.crash()
        self.folder.cleanup()


def _is_sealed(file: Path) -> bool:
    return read_seal(file.read_bytes()[-SEAL_SIZE:]) is not None


def _progress(file: Path) -> int:
    return read_header(file.read_bytes()[:FIRST])[0]


def _numbers(files: list[Path]) -> set[int]:
    """The messages that files hold, found by their text: each value ends with its number, and ends its frame."""
    return {number_of(parse(data)) for file in files for _, data in salvage(file.read_bytes()[FIRST:]).frames if data[4:6] != b"\x01\xff"}


TestSpoolMachine = SpoolMachine.TestCase
TestSpoolMachine.settings = settings(
    max_examples=int(os.environ.get("SPOOL_EXAMPLES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
