"""Spool: the FIFOs of all topics in one folder, and the tasks that send, sync and count what is on disk.

The router's part, for each list of messages that an input hands over:

    for message in messages:
        if spool.takes(topic):         # its older messages are on disk
            spool.add(message)         # never raises; discards with SPOOL_FULL or SPOOL_FAILED
            continue
        try:
            producer.send(...)
        except BufferFull:             # no room; a rate limit is another matter
            spool.add(message)
    spool.write()                      # one write per topic

A topic goes to the producer directly only while nothing of it is on disk. So what the producer has of it and did not get from here is
older than all that is on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pykafka4.agent.format import pack
from pykafka4.agent.message import Message, Reason
from pykafka4.agent.settings.values import SpoolSettings
from pykafka4.agent.spool.disk import Disk
from pykafka4.agent.spool.ending import direct, put_back
from pykafka4.agent.spool.fifo import Fifo
from pykafka4.agent.spool.folder import Folder
from pykafka4.agent.spool.frames import crc_of
from pykafka4.agent.spool.replay import Replay
from pykafka4.agent.spool.segment import BLOCK
from pykafka4.agent.spool.values import Discards, Sender, SpooledTopic, SpoolState
from pykafka4.logs import get_log
from pykafka4.misuse import is_legal_topic
from pykafka4.records import ProducerRecord

__all__ = ["Spool"]

log = get_log("pykafka4.agent.spool")

LOOK_S: Final = 0.5  # after this time acknowledgements are looked for, even if nobody called
READINGS: Final = 50  # between two looks
LEAST_PAUSE_S: Final = 0.1  # topics that have to pause are tried again together: each time goes through all topics
PROGRESS_S: Final = 1.0  # how often the progress is written: after a crash, what was acknowledged since is sent again
MOST_TOPICS: Final = 10_000  # each has a folder, a file, and its turn: a program that invents names would use up inodes and the loop's time
MOST_LEAVING: Final = 50  # topics of which nothing is left, in one turn of the loop: see LEAVING_COST
NEW_FILE: Final = 2 * BLOCK  # the most that a write to a topic may need beside its bytes: the rest of a block, and a folder


class Added:
    """Messages of a topic that wait for `write`."""

    __slots__ = ("frames", "messages", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.frames: list[bytes] = []
        self.size = 0


class Spool:
    """See the module. All methods are called on the agent's loop."""

    def __init__(
        self, settings: SpoolSettings, discards: Discards, empty: bytes | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Lock the folder and look what files it holds; none is read yet. Raises SpoolUnusable.

        `empty` is what an empty key or value on disk becomes, as for the inputs.
        """
        self._settings, self._discards, self._empty, self._clock = settings, discards, empty, clock
        self._folder = Folder(settings.path)
        self._disk = Disk(settings, clock)
        for path in (settings.path, settings.path.parent):  # they may be new
            self._disk.syncing.written(path)
        self._fifos: dict[str, Fifo] = self._folder.fifos(self._disk)
        self._restored: Counter[str] = Counter()  # of topics of which nothing is left
        self._added: dict[str, Added] = {}
        self._added_size = 0
        self._always = settings.always
        self.cluster_away = False  # set by the agent: new messages go to the disk first, as in memory a kill would lose them
        self._reader = ThreadPoolExecutor(1, "pykafka4-spool-read")
        self._tasks: list[asyncio.Task[None]] = []
        self._work = asyncio.Event()
        self.replay: Replay | None = None

    # ---- writing

    def takes(self, topic: str) -> bool:
        """Whether the topic's next message has to be added here: older ones are on disk, the cluster is away, or `always` is set."""
        if topic in self._fifos or topic in self._added:
            return True
        return (self._always or self.cluster_away) and not self._disk.refuses()

    def add(self, message: Message) -> None:
        """Put a message behind those of its topic, with the next `write`. Discards it if there is no room."""
        topic, value, key, partition_key, timestamp_ms = message
        if self._disk.refuses():
            self._discards.discarded(message, Reason.SPOOL_FAILED)
            return
        added = self._added.get(topic)
        if added is None and topic not in self._fifos:
            if not is_legal_topic(topic):
                self._discards.discarded(message, Reason.BAD_TOPIC)
                return
            if len(self._fifos) + len(self._added) >= MOST_TOPICS:
                self._discards.discarded(message, Reason.SPOOL_FULL)
                return
        body = pack(topic.encode(), value or b"", key or b"", partition_key, timestamp_ms)
        size = len(body) + 4 + (NEW_FILE if added is None else 0)
        if self._disk.bytes + self._added_size + size > self._disk.max_size:
            self._discards.discarded(message, Reason.SPOOL_FULL)
            return
        if added is None:
            added = self._added[topic] = Added()
        added.messages.append(message)
        added.frames += (crc_of(body), body)
        added.size += size
        self._added_size += size

    def write(self) -> None:
        """Write what was added: one write per topic. Discards what the disk refuses."""
        if not self._added:
            return
        everything, self._added, self._added_size = self._added, {}, 0
        for topic, added in everything.items():
            fifo = self._fifo(topic)
            if not fifo.unread:  # otherwise its messages are just being sent, or wait for something else
                self._work.set()
            try:
                fifo.append(b"".join(added.frames), len(added.messages), added.messages[0][4])
                self._disk.succeed()
            except OSError as refused:
                self._disk.fail(f"write to {fifo.folder}", refused)
                for message in added.messages:
                    self._discards.discarded(message, Reason.SPOOL_FAILED)
                if fifo.empty:
                    self._leave(fifo)
                continue
            if self.replay is not None:
                self.replay.add(fifo)

    def _leave(self, fifo: Fifo) -> None:
        """Nothing of the topic is on disk: it goes to the producer directly."""
        fifo.leave()
        if fifo.restored:
            self._restored[fifo.topic] += fifo.restored
        del self._fifos[fifo.topic]
        if self.replay is not None:
            self.replay.remove(fifo)

    # ---- sending

    def begin(self, sender: Sender, window: int) -> None:
        """What is on disk may be sent, at most `window` bytes of it unacknowledged at a time."""
        self.replay = Replay(sender, self._discards, window, self._empty, self._clock)
        for fifo in self._fifos.values():
            self.replay.add(fifo)

    def start(self, sender: Sender, window: int) -> None:
        """As `begin`; and tasks of the running loop send, sync and count."""
        self.begin(sender, window)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._count(), self._send(), self._tick())]
        for task in self._tasks:
            task.add_done_callback(_report)

    async def stop(self) -> None:
        """Send nothing more from here on; to be called before `Producer.close`. `add` and `write` still work."""
        if self.replay is not None:
            self.replay.stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _count(self) -> None:
        """Count the messages of old files, one topic after the other; each is sent from then on."""
        loop = asyncio.get_running_loop()
        for fifo in self.uncounted():
            while not await loop.run_in_executor(self._reader, fifo.inspect):
                await asyncio.sleep(LOOK_S)
            self.counted(fifo)

    def uncounted(self) -> list[Fifo]:
        """Topics with old files whose messages are not counted yet."""
        return [fifo for fifo in self._fifos.values() if fifo.old]

    def counted(self, fifo: Fifo) -> None:
        """The old files of a topic are inspected."""
        lost = fifo.counted()
        if lost:
            self._discards.damaged(fifo.topic, lost)
        if fifo.empty:
            self._leave(fifo)
        self._work.set()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        assert self.replay is not None

        def wake(_: object) -> None:
            loop.call_soon_threadsafe(self._work.set)

        while True:
            self._work.clear()
            self.look(wake)
            if await self._send_some(self.replay):
                continue
            if self.replay.should_hurry():
                await loop.run_in_executor(self._reader, self.replay.sender.hurry)
            pause = self.replay.pause()
            await _either(self._work, LOOK_S if pause is None else min(max(pause, LEAST_PAUSE_S), LOOK_S))

    async def _send_some(self, replay: Replay) -> bool:
        """Send some readings, or until there is news; whether anything was sent. A look goes through all topics: not after each reading."""
        loop, readings = asyncio.get_running_loop(), 0
        while readings < READINGS and not self._work.is_set() and (reading := replay.next_reading()) is not None:
            readings += 1
            try:
                data = await loop.run_in_executor(self._reader, reading.segment.read, reading.offset, reading.length)
            except OSError as refused:
                replay.unreadable(reading, refused)
            else:
                replay.send(reading, data)
        return readings > 0

    def look(self, wake: Callable[[object], object]) -> None:
        """Remove from the disk what is acknowledged or discarded."""
        assert self.replay is not None
        for fifo in self.replay.look(wake):
            if not self._always:
                self._leave(fifo)

    async def _tick(self) -> None:
        """Write the progress and sync, each at its time."""
        sync_s = self._settings.sync_interval_ms / 1000
        next_sync, next_progress = self._clock() + sync_s, self._clock() + PROGRESS_S
        while True:
            await asyncio.sleep(max(0.0, min(next_sync, next_progress) - self._clock()))
            now = self._clock()
            if now >= next_sync:
                next_sync = now + sync_s
                self._disk.syncing.begin()
            if now >= next_progress:
                next_progress = now + PROGRESS_S
                self.save()

    def save(self) -> None:
        """Write how far the messages are done; remove the files of topics without messages, of some of them each time."""
        leaving = MOST_LEAVING
        for fifo in list(self._fifos.values()):
            if fifo.empty and leaving:
                leaving -= 1
                self._leave(fifo)
            elif not fifo.empty:
                fifo.save_progress()
        if not self._fifos:
            self._disk.probe()

    # ---- counts

    def hold(self) -> None:
        """Hand nothing over to the producer until `release` was called as often: so that the account sees each message in one place."""
        if self.replay is not None:
            self.replay.holds += 1

    def release(self) -> None:
        """See `hold`."""
        if self.replay is not None and self.replay.holds:
            self.replay.holds -= 1
            self._work.set()

    def state(self) -> SpoolState:
        """Counts, for the account and the page."""
        topics = {topic: fifo.state(self._restored[topic]) for topic, fifo in self._fifos.items()}
        topics |= {topic: SpooledTopic(0, 0, 0, count, None) for topic, count in self._restored.items() if count and topic not in topics}
        disk = self._disk
        counting = any(fifo.old for fifo in self._fifos.values())
        return SpoolState(disk.bytes, disk.max_size, topics, disk.damaged_bytes, *disk.trouble(), counting)

    # ---- the end

    def close(self, undelivered: Sequence[ProducerRecord]) -> list[ProducerRecord]:
        """After `Producer.close`: put what it returned in front of the topics' messages, sync, unlock. Returns what there is no room for.

        Blocks while it writes. Records that were sent from the disk are not put back a second time: they are still there.
        """
        self.write()
        sent = {} if self.replay is None else self.replay.unsettled()
        older = direct(undelivered, sent, self._empty)
        for topic, messages in sent.items():
            self._fifos[topic].take_back(len(messages))
            crashed = sum(each.crashed for each in messages)
            self._count_kept(topic, len(messages) - crashed)
            self._count_kept(topic, crashed, Reason.BUG)
        left = put_back(older, self._fifo, self._disk)
        for topic, count in (Counter(record.topic for record in older) - Counter(record.topic for record in left)).items():
            self._count_kept(topic, count)
        for fifo in list(self._fifos.values()):
            if fifo.empty:
                self._leave(fifo)
            else:
                fifo.close()
        self.abandon()
        return left

    def abandon(self) -> None:
        """Give the folder free, without a word about what is in it: as a crash does, but what waits is synced."""
        self._reader.shutdown()
        self._disk.syncing.close()
        self._folder.close()

    def _count_kept(self, topic: str, count: int, reason: Reason = Reason.SERVER_SHUTDOWN) -> None:
        if count:
            self._discards.kept(topic, reason, count)

    def _fifo(self, topic: str) -> Fifo:
        return self._fifos.get(topic) or self._fifos.setdefault(topic, Fifo(topic, self._folder.of_topic(topic), self._disk))


def _report(task: asyncio.Task[None]) -> None:
    """A task of the spool has ended. Nobody awaits it, so the loop's handler gets its exception, at which the agent ends."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "the spool has failed", "exception": error})


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, for so long at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
