"""Keeps the FIFOs of all topics in one folder, and runs the tasks that send, sync and count messages on disk.

The router's calls, for each list of messages from an input:

    for message in messages:
        if spool.takes(topic):         # older messages are on disk, the cluster is away, or `always` is set
            spool.add(message)         # never raises; may discard the message
            continue
        try:
            producer.send(...)
        except (KafkaError, MemoryError):  # no room, or the producer has ended or crashed
            spool.add(message)
    spool.write()                      # one write per topic

Invariant: a topic's messages go to the producer directly only while the topic has no FIFO. So its direct messages in the producer
are older than all messages of its FIFO.
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

CHECK_S: Final = 0.5  # seconds between two checks for acknowledgements, if no callback comes earlier
READINGS: Final = 50  # reads between two checks: a check goes through all topics
LEAST_PAUSE_S: Final = 0.1  # seconds; pausing topics are tried again together, because an attempt goes through all topics
PROGRESS_S: Final = 1.0  # seconds between two writes of the progress: after a crash, messages acknowledged since then are sent again
MOST_TOPICS: Final = 10_000  # a program that invents names would otherwise use up inodes and the loop's time
MOST_LEAVING: Final = 50  # empty topics that one `save` removes: see `replay.LEAVING_COST`
NEW_FILE: Final = 2 * BLOCK  # the bytes on the disk besides the message's own: the rest of a block, and a folder


class Added:
    """A topic's messages that wait for `write`."""

    __slots__ = ("frames", "messages", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.frames: list[bytes] = []
        self.size = 0


class Spool:
    """The FIFOs of all topics. The agent's loop calls all methods."""

    def __init__(
        self, settings: SpoolSettings, discards: Discards, empty: bytes | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Lock the folder, and list its files. `empty` replaces an empty key or value from the disk. Raises SpoolUnusable."""
        self._settings, self._discards, self._empty, self._clock = settings, discards, empty, clock
        self._folder = Folder(settings.path)
        self._disk = Disk(settings, clock)
        for path in (settings.path, settings.path.parent):  # a new folder: without a sync of both, a loss of power could remove it
            self._disk.syncing.written(path)
        try:
            self._fifos: dict[str, Fifo] = self._folder.fifos(self._disk)
        except BaseException:
            self._disk.syncing.close()
            self._folder.close()
            raise
        self._restored: Counter[str] = Counter()  # by topic: restored messages of FIFOs that have left the disk
        self._added: dict[str, Added] = {}
        self._added_size = 0
        self._always = settings.always
        self.cluster_away = False  # set by the agent: new messages then go to disk, because a kill would lose messages in memory
        self._reader = ThreadPoolExecutor(1, "pykafka4-spool-read")
        self._tasks: list[asyncio.Task[None]] = []
        self._work = asyncio.Event()
        self.replay: Replay | None = None

    # ---- writing

    def takes(self, topic: str) -> bool:
        """Whether the topic's next message must be added here; while the disk refuses writes, only if the topic has a FIFO here."""
        if topic in self._fifos or topic in self._added:
            return True
        return (self._always or self.cluster_away) and not self._disk.refuses()

    def add(self, message: Message) -> None:
        """Put a message behind its topic's earlier messages, for the next `write`; or discard and count the message."""
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
        """Write the added messages. Discards and counts messages that the disk refuses."""
        if not self._added:
            return
        everything, self._added, self._added_size = self._added, {}, 0
        for topic, added in everything.items():
            fifo = self._fifo(topic)
            if not fifo.unread:  # otherwise the sending task already has work for this topic
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
        """Remove a topic without messages on disk: its next message may go to the producer directly."""
        fifo.leave()
        if fifo.restored:
            self._restored[fifo.topic] += fifo.restored
        del self._fifos[fifo.topic]
        if self.replay is not None:
            self.replay.remove(fifo)

    # ---- sending

    def begin(self, sender: Sender, window: int) -> None:
        """Allow messages on disk to be sent; their topics share `window` unacknowledged bytes."""
        self.replay = Replay(sender, self._discards, window, self._empty, self._clock)
        for fifo in self._fifos.values():
            self.replay.add(fifo)

    def start(self, sender: Sender, window: int) -> None:
        self.begin(sender, window)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._count(), self._send(), self._tick())]
        for task in self._tasks:
            task.add_done_callback(_report)

    async def stop(self) -> None:
        """Stop the tasks, so that no more messages are sent from the disk. `add` and `write` still work.

        Call this before `Producer.close`: after that close each attempt to send would fail, and the replay would try again without end.
        """
        if self.replay is not None:
            self.replay.stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _count(self) -> None:
        """Count the messages of old files. A counted topic's messages may be sent while other topics are counted."""
        loop = asyncio.get_running_loop()
        for fifo in self.uncounted():
            while not await loop.run_in_executor(self._reader, fifo.inspect):
                await asyncio.sleep(CHECK_S)
            self.counted(fifo)

    def uncounted(self) -> list[Fifo]:
        return [fifo for fifo in self._fifos.values() if fifo.old]

    def counted(self, fifo: Fifo) -> None:
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
            # Cleared before `remove_done`: a later acknowledgement sets the event again. If the event were cleared after `remove_done`, an
            # acknowledgement between the two would be missed, and its message would wait up to CHECK_S.
            self._work.clear()
            self.remove_done(wake)
            if await self._send_some(self.replay):
                continue
            if self.replay.should_hurry():
                await loop.run_in_executor(self._reader, self.replay.sender.hurry)
            pause = self.replay.pause()
            await _either(self._work, CHECK_S if pause is None else min(max(pause, LEAST_PAUSE_S), CHECK_S))

    async def _send_some(self, replay: Replay) -> bool:
        """Read and send up to READINGS times; return whether a read took place."""
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

    def remove_done(self, wake: Callable[[object], object]) -> None:
        assert self.replay is not None
        for fifo in self.replay.remove_done(wake):
            if not self._always:  # with `always`, the next message would create the same file again; `save` removes idle topics
                self._leave(fifo)

    async def _tick(self) -> None:
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
        """Write the progress of all topics; remove up to MOST_LEAVING empty topics, and files that the disk has refused to remove.

        Without topics, probe the disk.
        """
        leaving = MOST_LEAVING
        for fifo in list(self._fifos.values()):
            if fifo.empty and leaving:
                leaving -= 1
                self._leave(fifo)
            elif not fifo.empty:
                fifo.save_progress()
        if not self._fifos:
            self._disk.probe()
        # This does not wait for the next write: while such files fill the spool, `add` discards all messages, and nothing is written.
        self._disk.remove_left()

    # ---- counts

    def hold(self) -> None:
        """Send no message until `release` has been called as often as `hold`, so that the account finds each message in one place."""
        if self.replay is not None:
            self.replay.holds += 1

    def release(self) -> None:
        if self.replay is not None and self.replay.holds:
            self.replay.holds -= 1
            self._work.set()

    def state(self) -> SpoolState:
        topics = {topic: fifo.state(self._restored[topic]) for topic, fifo in self._fifos.items()}
        topics |= {topic: SpooledTopic(0, 0, 0, count, None) for topic, count in self._restored.items() if count and topic not in topics}
        disk = self._disk
        counting = any(fifo.old for fifo in self._fifos.values())
        only_syncs_fail = disk.failure is None and disk.syncing.failure is not None
        return SpoolState(disk.bytes, disk.max_size, topics, disk.damaged_bytes, *disk.trouble(), counting, only_syncs_fail)

    # ---- the end

    def close(self, undelivered: Sequence[ProducerRecord]) -> list[ProducerRecord]:
        """Put the closed producer's undelivered records in front of the messages on disk, sync, and unlock the folder. Blocks.

        Returns the records that could not be written. Records that came from the disk are still on disk, and are not written again.
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
        """Sync the written files and unlock the folder, without progress or seals. Tests simulate a crash with this call."""
        self._reader.shutdown()
        self._disk.syncing.close()
        self._folder.close()

    def _count_kept(self, topic: str, count: int, reason: Reason = Reason.SERVER_SHUTDOWN) -> None:
        if count:
            self._discards.kept(topic, reason, count)

    def _fifo(self, topic: str) -> Fifo:
        return self._fifos.get(topic) or self._fifos.setdefault(topic, Fifo(topic, self._folder.of_topic(topic), self._disk))


def _report(task: asyncio.Task[None]) -> None:
    """Pass a task's exception to the loop's handler, which ends the agent. No code awaits the task while the agent runs."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "the spool has failed", "exception": error})


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
