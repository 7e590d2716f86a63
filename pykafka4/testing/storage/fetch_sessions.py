"""Keeps the fetch sessions (KIP-227) of one broker. Invariant: a response leaves out only partitions without a change since the last
response.

A session keeps the partitions that its client requests, in the order in which a response is filled. A partition moves to the end
when a response after the first has records of it, or when it is requested again after it was forgotten. The broker keeps a limited number
of sessions, in memory only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from pykafka4.testing.timeline import Timeline
from pykafka4.wire.protocol.fields import MAX_INT32, NO_UUID
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse

__all__ = ["RequestedPartition", "FetchSession", "FetchSessions"]

SLOTS: Final = 1000  # max.incremental.fetch.session.cache.slots
EVICTED_AFTER_S: Final = 120.0  # seconds for which a session is kept even if another session needs its slot
Answer: TypeAlias = FetchResponse.Topic.Partition
Key: TypeAlias = tuple[str | UUID, int]


@attrs.define(eq=False)
class RequestedPartition:
    """`high_watermark` and `log_start_offset` are the values of the last response (-1: none, or an error)."""

    topic: str  # empty if the request names topics by id
    topic_id: UUID
    wish: FetchRequest.Topic.Partition
    name: str | None = None  # the topic's name; None until the topic has been found
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> Key:
        return self.topic if self.topic_id == NO_UUID else self.topic_id, self.wish.partition

    def note(self, answer: Answer) -> bool:
        """Keep the offsets of `answer`; return whether the response must contain the partition."""
        changed = (self.high_watermark, self.log_start_offset) != (answer.high_watermark, answer.log_start_offset)
        # -1 after an error: the high watermark differs next time, so the next response contains the partition.
        self.high_watermark = -1 if answer.error_code else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        told = answer.diverging_epoch.epoch >= 0 or answer.preferred_read_replica >= 0
        return changed or told or bool(answer.records) or bool(answer.error_code)


@attrs.define(eq=False)
class FetchSession:
    id: int
    by_id: bool  # requests name topics by id
    created_at: float
    used_at: float
    partitions: dict[Key, RequestedPartition]
    epoch: int = 1  # the epoch with which the next request continues the session

    def update(self, asked: Iterable[RequestedPartition], forgotten: Iterable[Key]) -> None:
        """A partition that is in both `asked` and `forgotten` is removed."""
        for new in asked:
            known = self.partitions.setdefault(new.key, new)
            known.wish = new.wish
        for key in forgotten:
            self.partitions.pop(key, None)
        self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1

    def select(self, answers: Iterable[tuple[RequestedPartition, Answer]]) -> Iterator[tuple[RequestedPartition, Answer]]:
        """The partitions that the response must contain."""
        for asked, answer in answers:
            if asked.note(answer):
                if answer.records and self.partitions.pop(asked.key, None) is not None:
                    self.partitions[asked.key] = asked
                yield asked, answer


class FetchSessions:
    def __init__(self, timeline: Timeline, numbers: Iterator[int]) -> None:
        """`numbers` yields the ids of the next sessions. No id is used twice, not even after a restart."""
        self._timeline, self._numbers = timeline, numbers
        self._sessions: dict[int, FetchSession] = {}
        self.slots = SLOTS

    def find(self, number: int) -> FetchSession | None:
        """The session counts as used now."""
        session = self._sessions.get(number)
        if session is not None:
            session.used_at = self._timeline.now
        return session

    def open(self, partitions: Iterable[tuple[RequestedPartition, Answer]], *, by_id: bool) -> int:
        """Open a session; return its id, or 0 if there is no room."""
        known = {}
        for asked, answer in partitions:
            asked.high_watermark, asked.log_start_offset = answer.high_watermark, answer.log_start_offset
            known[asked.key] = asked
        if len(self._sessions) >= self.slots and not self._evict(len(known)):
            return 0
        now = self._timeline.now
        session = FetchSession(next(self._numbers), by_id, now, now, known)
        self._sessions[session.id] = session
        return session.id

    def close(self, number: int) -> None:
        self._sessions.pop(number, None)

    def clear(self) -> None:
        self._sessions.clear()

    def _evict(self, size: int) -> bool:
        """Evict an unused session, or an old one with at most `size` partitions; return whether a session was evicted."""
        latest = self._timeline.now - EVICTED_AFTER_S
        unused = min(self._sessions.values(), key=lambda session: session.used_at, default=None)
        if unused is not None and unused.used_at >= latest:
            old = [session for session in self._sessions.values() if session.created_at < latest and len(session.partitions) <= size]
            unused = min(old, key=lambda session: (len(session.partitions), session.id), default=None)
        if unused is None:
            return False
        self.close(unused.id)
        return True
