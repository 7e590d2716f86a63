"""A consumer in transactions. Rule: positions go into a transaction only with the membership under which they were read (KIP-447)."""

from __future__ import annotations

from typing import Final

from pykafka4.attachment import SHORT, Attachment
from pykafka4.config import ConsumerConfig
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.guard import Guard, call
from pykafka4.consumer.selection import Selection
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.consumer.reader import Reader
from pykafka4.errors import ConfigError, GroupError
from pykafka4.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["TransactionalReads"]

ILLEGAL_GENERATION: Final = 22
REWIND_SECONDS: Final = 60.0


class TransactionalReads:
    """What a transactional producer needs of a consumer: see `Producer.transaction`."""

    def __init__(
        self,
        attachment: Attachment[ConsumerMachine],
        config: ConsumerConfig,
        reader: Reader,
        guard: Guard,
        selection: Selection,
        commits: Commits,
    ) -> None:
        self._attachment, self._config, self._reader, self._selection = attachment, config, reader, selection
        self._commits = commits
        self.guard = guard

    def check(self) -> None:
        """Refuse a consumer whose offsets cannot be part of a transaction."""
        if self._config.group_id is None:
            raise ConfigError("transaction(consumer): the consumer needs a group_id: offsets are stored per group")
        if self._config.enable_auto_commit:
            raise ConfigError("transaction(consumer): the consumer commits by itself; create it with enable_auto_commit=False")

    @call
    def group_metadata(self) -> ConsumerGroupMetadata:
        """See Consumer.group_metadata."""
        self._attachment.check()
        group = self._config.group_id
        if group is None:
            raise ConfigError("group_metadata needs a group_id")
        if not self._selection.topics:
            return ConsumerGroupMetadata(group)
        with self.guard.using("group_metadata"):
            member = self._attachment.runtime.loop.ask(
                lambda _: self._attachment.machine.membership.protocol.credentials, SHORT, "the group's membership"
            )
        if member is None or member.generation < 0 or self._selection.lost:
            why = f"{self._selection.lost}; poll rejoins the group" if self._selection.lost else "poll joins the group"
            raise GroupError(ILLEGAL_GENERATION, "group_metadata", f"this consumer is not a member of group {group} now: {why}")
        return ConsumerGroupMetadata(group, member.generation, member.member_id, member.instance_id)

    @call
    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit()` would commit."""
        self._attachment.check()
        with self.guard.using("transaction"):
            return {tp: OffsetAndMetadata(offset, epoch) for tp, (offset, epoch) in self._reader.reached().items()}

    @call
    def rewind(self, timeout: float | None) -> None:
        """Read again from the committed offsets; where there are none, from where reading began."""
        with self.guard.using("transaction"):
            claims = {tp: claim for tp, claim in self._reader.claims.items() if claim.position is not None}
            if not claims:
                return
            committed = self._commits.committed(list(claims), REWIND_SECONDS if timeout is None else timeout)
            offsets = {}
            for tp, claim in claims.items():
                at = committed[tp]
                start = claim.start if at is None else at.offset
                if start is not None and tp in self._reader.claims:
                    offsets[tp] = start
            if offsets:
                self._reader.seek_each(offsets)
