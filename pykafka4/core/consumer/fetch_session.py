"""Keeps the state of a fetch session with one broker (KIP-227). Invariant: while the session is open, `asked` has its partitions as of
the last Fetch; an event after which the client cannot know the partitions that the broker has ends the session.

Sessions exist from Fetch 7 (Kafka 1.1) on. A full Fetch (epoch 0) names all partitions and opens a session. The Fetches that follow, one at
a time, name differences from `asked`: partitions that are new, changed, or not read now. A response leaves out partitions without news, so
an idle round is as short for many partitions as for few.

Behaviour of brokers in a session (Kafka's `FetchSession`):

* A response contains a partition that has records, an error, a new high watermark, a new log start offset, a truncated log, or a follower
  to read from instead; also a partition that is new to the session, and a partition whose error has ended.
* Brokers fill a response in the order in which partitions were added to the session. A partition that had records moves to the end, as with
  `Position.turn`; one that is named again keeps its rank; one that was forgotten and is named again comes last. So a partition that is
  paused and resumed often could always be last, while other partitions have more data than a response can hold. When such a partition has
  waited for a round of all partitions, `Source` restores the order with a full Fetch.
* Brokers process the forgotten partitions after the named ones, so a partition must not be in both lists. With topic ids, a recreated
  topic is another topic; with names it is the same.
* All requests of a session use topic ids (Fetch 13 and later), or all use names. The version is known only when a request is encoded: if it
  does not fit, `check` raises, and a full Fetch is sent instead.
* A full Fetch ends the session that it names. Its response has session id 0 if the broker has no room for a new session: then the next
  Fetch is also full.
* A broker may also end a session to make room for a new one, for example after two minutes without a request. A restart of the broker
  loses all its sessions. A consumer that closes does not end its sessions, because its Fetch is nearly always held back, and brokers read
  nothing else from that connection meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

import attrs

from pykafka4.core.subscription import Position
from pykafka4.errors import KafkaError
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.fields import MAX_INT32

__all__ = ["BY_ID_FROM", "SESSION_ERRORS", "RequestedPartition", "FetchSession", "OtherVersion"]

SESSIONS_FROM: Final = 7  # the first version of Fetch with sessions
BY_ID_FROM: Final = 13  # the first version of Fetch with topic ids
FULL: Final = 0  # the epoch of a full Fetch
SESSION_ERRORS: Final = frozenset(
    BY_NAME[name].code
    for name in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR", "INCONSISTENT_TOPIC_ID")
)


class OtherVersion(KafkaError):
    """The broker's version of Fetch no longer fits the session. Nothing was sent."""


class RequestedPartition(NamedTuple):
    position: Position
    topic_id: UUID | None
    offset: int
    epoch: int  # leader epoch of the record before `offset`
    leader_epoch: int
    limit: int


@attrs.define(eq=False)
class FetchSession:
    number: int = 0  # session id; before the session is open, the id of the previous session
    epoch: int = FULL  # session epoch of the next Fetch
    by_id: bool = False
    asked: dict[TopicPartition, RequestedPartition] = attrs.Factory(dict)
    limit: int = 0  # sum of the bytes requested per partition
    unnamed: int = 0  # number of partitions whose topic has no id

    @property
    def is_open(self) -> bool:
        return self.epoch != FULL

    def clear(self) -> None:
        """Prepare a full Fetch. A Fetch in flight keeps the previous `asked`."""
        self.asked, self.limit, self.unnamed = {}, 0, 0

    def note(self, tp: TopicPartition, now: RequestedPartition | None) -> RequestedPartition | None:
        """Set the request of the next Fetch for `tp`; None removes `tp`. Return the previous request, or None."""
        before = self.asked.get(tp)
        if before is not None:
            self.limit -= before.limit
            self.unnamed -= before.topic_id is None
        if now is not None:
            self.asked[tp] = now
            self.limit += now.limit
            self.unnamed += now.topic_id is None
        elif before is not None:
            del self.asked[tp]
        return before

    def answered(self, number: int, version: int) -> None:
        """Continue, begin or end the session. `number` is the session id in the response, `version` the version of the Fetch."""
        if self.is_open and number == self.number:
            self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1
        elif self.is_open or not number:
            self.epoch, self.number = FULL, number
        else:
            self.number, self.epoch, self.by_id = number, 1, version >= BY_ID_FROM

    def end(self) -> None:
        """Make the next Fetch a full one."""
        self.epoch = FULL

    def check(self, version: int) -> None:
        if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):
            raise OtherVersion(f"Fetch v{version} cannot continue a session whose topics go by {'id' if self.by_id else 'name'}")
