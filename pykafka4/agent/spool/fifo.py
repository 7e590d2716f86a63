"""Keeps the messages of one topic on disk. Invariant: messages are read and marked as done in order, the oldest first."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from pykafka4.agent.format import parse
from pykafka4.agent.message import Refused
from pykafka4.agent.spool.disk import Disk
from pykafka4.agent.spool.frames import cut
from pykafka4.agent.spool.segment import BLOCK, OUT_OF, Segment
from pykafka4.agent.spool.values import SpooledTopic
from pykafka4.logs import get_log

__all__ = ["Fifo"]

log = get_log("pykafka4.agent.spool")

TIMESTAMP_READ: Final = 64 * 1024  # bytes; for a longer message, the page shows no timestamp
# The number of a topic's first segment. An agent that ends may put a segment in front, whose lower number must not be below 0.
MIDDLE: Final = 10**12


class Fifo:
    """The messages of a topic, in segments. `unread` messages are still to be sent, `sent` messages are not done."""

    def __init__(self, topic: str, folder: Path, disk: Disk) -> None:
        self.topic, self.folder, self._disk = topic, folder, disk
        self.segments: deque[Segment] = deque()
        self.old: list[Segment] = []  # segments of an earlier process whose frames are not counted yet
        self.unread = self.sent = self.restored = 0
        self._reading: Segment | None = None
        self._read_to = 0
        self._next = MIDDLE
        self._has_folder = False

    @property
    def empty(self) -> bool:
        return not (self.unread or self.sent or self.old)

    # ---- writing

    def append(self, data: bytes, count: int, first_ms: int) -> None:
        """Write complete frames at the end. Raises OSError; then none of these frames is in the FIFO."""
        last = self.segments[-1] if self.segments else None
        if last is None or last.sealed or last.size + len(data) > self._disk.segment_size:
            if last is not None:
                self._seal(last)
            self._disk.remove_left()
            self._next = self._disk.free_number(self.folder, self._next) + 1
            last = self._create(self._next - 1)
            self.segments.append(last)
        self._write(last, data, count, first_ms)

    def put_in_front(self, data: bytes, count: int, first_ms: int) -> None:
        """Write complete frames into a new segment in front of all others. Raises OSError."""
        self._disk.remove_left()
        number = self.segments[0].number - 1 if self.segments else MIDDLE - 1
        segment = self._create(self._disk.free_number_in_front(self.folder, number))
        self.segments.appendleft(segment)
        self._write(segment, data, count, first_ms)
        self._seal(segment)

    def close(self) -> None:
        self.save_progress()
        if self.segments:
            self._seal(self.segments[-1])

    def save_progress(self) -> None:
        """Write the progress of the segments, up to the segment that is being read: later segments have no new progress."""
        for segment in self.segments:
            try:
                segment.save_progress()
            except OSError as refused:  # after a crash, the messages are sent again
                self._disk.fail(f"write the progress to {segment.path}", refused)
            if segment is self._reading:
                break

    def _create(self, number: int) -> Segment:
        if not self._has_folder:
            self._disk.add_folder(self.folder)
            self._has_folder = True
        segment = Segment.create(self.folder, number)
        self._disk.account(segment)
        self._disk.syncing.written(self.folder)
        return segment

    def _write(self, segment: Segment, data: bytes, count: int, first_ms: int) -> None:
        segment.append(data, count, first_ms)
        self._disk.account(segment)
        self._disk.syncing.written(segment.path)
        self.unread += count

    def _seal(self, segment: Segment) -> None:
        if not segment.sealed:
            try:
                segment.seal()
            except OSError as refused:
                self._disk.fail(f"seal {segment.path}", refused)

    # ---- reading

    def next_read(self) -> tuple[Segment, int] | None:
        """Return the segment and offset of the next unread message, or None if there is no such message.

        Also return None until old segments are counted: before that, their progress is unknown, and done messages would be sent again.
        """
        if self.old or not self.unread:
            return None
        if self._reading is None:
            self._reading = self.segments[0]
            self._read_to = self._reading.start
        while self._read_to >= self._reading.size and self._reading is not self.segments[-1]:
            self._reading = self.segments[self.segments.index(self._reading) + 1]
            self._read_to = self._reading.start
        return (self._reading, self._read_to) if self._read_to < self._reading.size else None

    def sent_to(self, end: int, count: int) -> None:
        """Mark `count` messages, up to the offset `end` in the segment of `next_read`, as sent."""
        self._read_to = end
        self.unread -= count
        self.sent += count

    def skipped_to(self, end: int, size: int) -> None:
        """Mark the `size` bytes before `end` in the segment of `next_read` as unreadable. The file is later set aside."""
        assert self._reading is not None
        self._read_to = end
        self._reading.damaged = self._reading.sealed = True
        self._disk.damaged_bytes += size

    def take_back(self, count: int) -> None:
        """Make `count` sent messages unread again: the producer has ended and will not acknowledge them."""
        self.sent -= count
        self.unread += count

    def done_to(self, segment: Segment, end: int, count: int) -> int:
        """Mark `count` sent messages, up to `end` in `segment`, as done, and remove segments whose messages are all done.

        Returns the number of unreadable messages in the removed segments; if a length is damaged, the number may be too low.
        """
        segment.start = end
        segment.done += count
        self.sent -= count
        lost = 0
        # The last segment stays while it takes frames: otherwise each message of a slow topic would need a new file.
        while self.segments and self.segments[0].start >= self.segments[0].size and (len(self.segments) > 1 or self.segments[0].sealed):
            lost += self._drop(self.segments[0])
        return lost

    def _drop(self, segment: Segment) -> int:
        self.segments.popleft()
        if segment is self._reading:
            self._reading = None
        missing = (segment.count or 0) - segment.done
        self.unread -= missing
        # A damaged length can hide the number of frames: a damaged file counts as at least one lost message.
        lost = max(missing, 1) if segment.damaged else missing
        self.restored += lost - missing
        self._disk.remove(segment)
        return lost

    def leave(self) -> None:
        while self.segments:
            self._disk.remove(self.segments.popleft())
        if self._has_folder:
            self._disk.remove_folder(self.folder)
            self._has_folder = False
        self._reading = None

    # ---- old segments

    def restore(self, segments: list[Segment]) -> None:
        """Take over the files of an earlier process, in order, without reading them."""
        self.segments.extend(segments)
        self.old = list(segments)
        self._has_folder = True
        self._disk.bytes += BLOCK
        self._next = max([MIDDLE - 1, *(segment.number for segment in segments)]) + 1
        for segment in segments:
            segment.sealed = True  # its end may be torn or have a seal: new frames begin a new segment
            self._disk.account(segment)

    def inspect(self) -> bool:
        """Count the messages of the old segments, and mark unreadable segments. Any thread may call this.

        Returns False if the system lacks file descriptors or memory now; the next call continues with the same segment.
        """
        for segment in self.old:
            if segment.damaged or segment.count is not None:
                continue
            try:
                torn = segment.inspect()
            except (OSError, ValueError) as unreadable:
                if isinstance(unreadable, OSError) and unreadable.errno in OUT_OF:
                    return False
                log.warning("spool: cannot read %s; its messages of topic %s are lost: %s", segment.path, self.topic, unreadable)
                segment.damaged = True
                continue
            if torn:
                log.warning("spool: the last write to %s was torn: its %d bytes are ignored", segment.path, torn)
        for segment in self.old:
            if not segment.damaged:
                segment.oldest_ms = _first_timestamp(segment)
                break
        return True

    def counted(self) -> int:
        """Take over the result of `inspect`, on the loop; return the number of unreadable segments, each counted as one lost message."""
        old, self.old = self.old, []
        for segment in old:
            self._disk.account(segment)
        for segment in old:
            if segment.damaged:
                self.segments.remove(segment)
                self._disk.damaged_bytes += segment.size
                self._disk.remove(segment)
        found = sum((segment.count or 0) - segment.done for segment in old if not segment.damaged)
        self.unread += found
        lost = sum(segment.damaged for segment in old)
        self.restored += found + lost
        while self.segments and self.segments[0].start >= self.segments[0].size and self.segments[0].sealed:
            self._drop(self.segments[0])
        return lost

    def state(self, restored: int) -> SpooledTopic:
        used = sum(segment.used for segment in self.segments)
        return SpooledTopic(self.unread, self.sent, used, self.restored + restored, self.segments[0].oldest_ms if self.segments else None)


def _first_timestamp(segment: Segment) -> int | None:
    try:
        found = cut(segment.read(segment.start, TIMESTAMP_READ))
        return parse(found[0][1])[4] if found else None
    except (OSError, Refused):  # the replay logs the damage when it reads the same bytes
        return None
