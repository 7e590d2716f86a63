"""Fetch sessions (KIP-227). Rule: what `asked` holds is what the broker was told; whatever puts that in doubt ends the session.

A session is a matter of one consumer and one broker, from Fetch 7 (Kafka 1.1) on. A full Fetch (epoch 0) names everything and opens it.
Those that follow, one at a time, name what differs from `asked`: partitions that are new or changed, and those not to be read now. An
answer leaves out what has no news, so a round in which nothing happens costs nothing for the partitions that it is about.

What brokers do in a session (Kafka's `FetchSession`):

* An answer names a partition that has records, an error, another high watermark, another log start offset, or a log that was cut; it
  always names one that is new to the session, and the end of an error.
* They fill an answer in the order in which partitions came into the session. One that had records moves to the end, like in
  `Source.line`; one that is named again keeps its place; one that was forgotten and is named again comes last. So a partition that is
  paused and resumed while others have more than an answer can hold might always come last: `Source` restores the order with a full
  Fetch when one has waited for so long.
* They forget after they have taken what is named: nothing may be in both lists of a request. With ids, a topic that was created again is
  another one; by name it is the same.
* Topics of a session go by id (Fetch 13 and later) or by name, in all of its requests. The version is known only when a request is
  encoded: where it does not suit, `check` refuses, and a full Fetch takes its place.
* A full Fetch ends the session that it names. Its answer has id 0 if there is no room for another: the next is full again.
* They keep sessions for two minutes without a request, or for as long as nobody needs the place; a restart loses them. A consumer that
  closes leaves its sessions to that: a Fetch of it is nearly always held back, and brokers read nothing of a connection meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

import attrs

from pykafka4.core.subscription import Position
from pykafka4.error_table import BY_NAME
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.schema import MAX_INT32

__all__ = ["BY_ID_FROM", "SESSION_ERRORS", "Asked", "FetchSession", "OtherVersion"]

SESSIONS_FROM: Final = 7  # the version of Fetch
BY_ID_FROM: Final = 13
FULL: Final = 0  # the epoch of a Fetch that names everything
SESSION_ERRORS: Final = frozenset(
    BY_NAME[name].code
    for name in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR", "INCONSISTENT_TOPIC_ID")
)


class OtherVersion(KafkaError):
    """The broker speaks another version than when the session began. Nothing was sent."""


class Asked(NamedTuple):
    """What a broker is asked of one partition."""

    position: Position
    topic_id: UUID | None
    offset: int
    epoch: int  # of the record before
    leader_epoch: int
    limit: int


@attrs.define(eq=False)
class FetchSession:
    """What one broker was told."""

    number: int = 0  # the broker's name for it; before it is open, that of the one before
    epoch: int = FULL  # of the next Fetch
    by_id: bool = False
    asked: dict[TopicPartition, Asked] = attrs.Factory(dict)
    limit: int = 0  # bytes that may come of all partitions together
    unnamed: int = 0  # partitions whose topic has no id

    @property
    def is_open(self) -> bool:
        """Whether the next Fetch may name less than everything."""
        return self.epoch != FULL

    def clear(self) -> None:
        """The next Fetch names everything. What was in `asked` stays as it is for who waits for an answer."""
        self.asked, self.limit, self.unnamed = {}, 0, 0

    def note(self, tp: TopicPartition, now: Asked | None) -> Asked | None:
        """The next Fetch asks for `tp` like this, or no longer (None); what the broker was told before."""
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
        """The broker has executed the Fetch under way, in that version, and gives `number` as the session's."""
        if self.is_open and number == self.number:
            self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1
        elif self.is_open or not number:
            self.epoch, self.number = FULL, number
        else:
            self.number, self.epoch, self.by_id = number, 1, version >= BY_ID_FROM

    def end(self) -> None:
        """What the broker knows is in doubt: the next Fetch is full, and ends what there is."""
        self.epoch = FULL

    def check(self, version: int) -> None:
        """Raise OtherVersion if a Fetch in that version cannot continue the session."""
        if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):
            raise OtherVersion(f"Fetch v{version} cannot continue a session whose topics go by {'id' if self.by_id else 'name'}")
