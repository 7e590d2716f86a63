"""Puts a consumer's offsets into transactions, and rewinds the consumer if a transaction is not committed.

The offsets go into a transaction together with the consumer's membership (KIP-447). From the beginning of a transaction, the consumer owes
a rewind until the commit is known or the consumer has gone back. An owed rewind is carried out before the next transaction with the
consumer. If records were read for a transaction that could not begin, a rewind is owed too, because they have not been processed.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.guard import Guard, call
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import Steps, Waits
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.subscription import MemberIdentity, OffsetAndEpoch
from pykafka4.errors import ConfigError, GroupError, TransactionAborted
from pykafka4.errors.codes import BY_NAME
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["RecordsInTransaction", "TransactionalReads"]

ILLEGAL_GENERATION: Final = BY_NAME["ILLEGAL_GENERATION"].code
REWIND_S: Final = 60.0  # default limit of a rewind before a transaction, which cannot begin without the rewind
FAILED_REWIND_S: Final = 10.0  # default limit of a rewind after a failed transaction; shorter, because the next transaction tries again


@attrs.define(eq=False)
class RecordsInTransaction:
    """A consumer's part in one transaction."""

    committed: bool = False  # written by the loop thread, as soon as the commit is known
    offsets: dict[TopicPartition, tuple[object, int]] = attrs.Factory(dict)  # the stretch (`DeliveredOffsets.stretch`) and offset
    left_at: dict[TopicPartition, OffsetAndEpoch] | None = None  # the positions of the application when the block ended
    left_after: int = -1  # `DeliveredOffsets.changes` at that time: positions may be equal although the same records were read again


class TransactionalReads:
    """A consumer's side of transactions (a `producer.transaction_block.ConsumerSide`)."""

    def __init__(
        self,
        attachment: Attachment[ConsumerMachine],
        config: ConsumerConfig,
        reader: Reader,
        guard: Guard,
        selection: Selection,
        commits: Commits,
        waits: Waits,
    ) -> None:
        self._attachment, self._config, self._reader, self._selection = attachment, config, reader, selection
        self._commits, self._waits = commits, waits
        self.guard = guard
        self._reading: RecordsInTransaction | None = None  # the last transaction, until its commit is settled or the consumer has gone back
        self._refused = False  # a transaction could not begin: go back, even if the previous transaction is committed
        self._announced = False  # a block was made after records were returned, and has not begun
        self._stored: dict[TopicPartition, tuple[object, int]] = {}  # the last stretch and offset that a transaction has committed
        self._application_stretches: dict[TopicPartition, object] = {}  # stretches whose offsets the application may have stored itself

    def check(self) -> None:
        if self._config.group_id is None:
            raise ConfigError("transaction(consumer): the consumer needs a group_id: offsets are stored per group")
        if self._config.enable_auto_commit:
            raise ConfigError("transaction(consumer): the consumer commits by itself; create it with enable_auto_commit=False")
        if self._selection.run is not None:
            raise ConfigError(
                "transaction(consumer): process or streams run and commit finished records; use transaction() without the consumer"
            )

    @call
    def check_none(self, what: str) -> None:
        """Refuse the call `what`, which commits automatically, if it could commit records of a transaction with this consumer."""
        with self.guard.using(what):
            reading = self._reading
            if reading is not None and not self._settled(reading):
                raise ConfigError(
                    f"{what}: a transaction with this consumer is open, or was not committed, and {what} would commit its records "
                    "outside of it; end it first, or use transaction() without the consumer"
                )
            if (self._refused or self._announced) and self._reader.delivered.in_hand:
                raise ConfigError(
                    f"{what}: a transaction with this consumer has not begun, and {what} would commit records that were read for it; "
                    "run a block with transaction(consumer) first: it contains these records, or goes back to them"
                )

    @call
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership. The application may commit with it, so later rewinds of current stretches look up committed offsets."""
        self._attachment.check()
        with self.guard.using("group_metadata"):
            self._application_stretches = {tp: self._reader.delivered.stretch(claim) for tp, claim in self._reader.claims.items()}
            return self._membership(self._ask_for_member())

    @call
    def membership(self) -> ConsumerGroupMetadata:
        """The membership for the offsets from `take`. Raises TransactionAborted if the membership has ended."""
        self._attachment.check()
        with self.guard.using("group_metadata"):
            member = self._ask_for_member()
        return self._membership_of_block(member)

    def finding_membership(self) -> Steps[ConsumerGroupMetadata]:
        """`membership` for a task, which must not block for a turn of the client's loop."""
        self._attachment.check()
        answer: Promise[MemberIdentity | None] = self._attachment.promise()
        self._attachment.post(lambda now: answer.set_result(self._identity(now)))
        return self._membership_of_block((yield from self._waits.result(answer, LOOP_ANSWER_S)))

    def _ask_for_member(self) -> MemberIdentity | None:
        if not self._selection.subscribed:
            return None
        return self._attachment.runtime.loop.ask(self._identity, LOOP_ANSWER_S, "the group's membership")

    def _membership_of_block(self, member: MemberIdentity | None) -> ConsumerGroupMetadata:
        """Raise TransactionAborted if the membership has ended, as if the coordinator had refused the offsets."""
        try:
            return self._membership(member)
        except GroupError as error:
            raise TransactionAborted(str(error)) from error

    def _identity(self, _: float) -> MemberIdentity | None:
        """Call this on the loop thread."""
        return self._attachment.machine.membership.protocol.identity

    def _membership(self, member: MemberIdentity | None) -> ConsumerGroupMetadata:
        group = self._config.group_id
        if group is None:
            raise ConfigError("group_metadata needs a group_id")
        if not self._selection.subscribed:
            return ConsumerGroupMetadata(group)
        if member is None or member.generation < 0 or self._selection.lost:
            why = f"{self._selection.lost}; poll rejoins the group" if self._selection.lost else "poll joins the group"
            raise GroupError(ILLEGAL_GENERATION, "group_metadata", f"this consumer is not a member of group {group} now: {why}")
        return ConsumerGroupMetadata(group, member.generation, member.member_id, member.instance_id)

    def announce(self) -> None:
        """A block that has not begun when the next block is made counts as refused."""
        self._refused = self._refused or self._announced
        self._announced = not self._nothing_new()

    @call
    def begin(self, timeout: float | None) -> Any:
        """Raises TransactionAborted after a rewind that takes back unprocessed records: poll returns them again."""
        self._attachment.check()
        return self._waits.drive(self._beginning(timeout))

    def _beginning(self, timeout: float | None) -> Steps[RecordsInTransaction]:
        with self.guard.exclusive("transaction"):
            last = self._reading
            if last is not None and not self._settled(last):
                nothing_newer = not self._refused and self._is_where(last)
                yield from self._rewinding(timeout)
                if not nothing_newer:
                    raise TransactionAborted(
                        "an earlier transaction with this consumer was not committed, and records were read after its records; "
                        "the consumer has gone back now: poll reads them again"
                    )
            elif self._refused and self._reader.delivered.in_hand:
                yield from self._rewinding(timeout)
                raise TransactionAborted(
                    "an earlier transaction with this consumer could not begin, so the records that were read for it are not processed; "
                    "the consumer has gone back now: poll reads them again"
                )
            self._refused = self._announced = False
            self._reading = RecordsInTransaction()
            return self._reading

    def refuse(self) -> None:
        """A transaction could not begin: its records are read again, unless the transaction of an open block commits them."""
        self._refused = self._refused or not self._nothing_new()
        self._announced = False

    def _nothing_new(self) -> bool:
        """Return True only if the application has received no records that belong in a transaction that begins now."""
        last = self._reading
        try:
            return not self._reader.delivered.in_hand or (last is not None and self._is_where(last))
        except RuntimeError:  # another thread uses the consumer, and is changing the positions
            return False

    @call
    def take(self, reading: RecordsInTransaction) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets after the records that the application has received, including the current record of a `for` loop.

        Offsets that a transaction has stored already are left out. Raises TransactionAborted if a partition was revoked or lost after it
        had returned records that no transaction has committed, if it was revoked while brokers reported its topic as missing, or if the
        consumer has been used in another transaction.
        """
        self._attachment.check()
        with self.guard.exclusive("transaction"):
            positions = self._leave(reading)
            if self._reading is not reading:
                raise TransactionAborted("the consumer has been used in another transaction since this one began")
            # Refused and announced blocks were inside this transaction, which has all records that the application has received.
            self._refused = self._announced = False
            if cut_off := self._reader.delivered.cut_off:
                names = ", ".join(map(str, sorted(cut_off)))
                raise TransactionAborted(
                    f"{names}: revoked or lost after poll had returned records that no transaction has committed; their next owner reads "
                    "them again, so their results must not be committed here"
                )
            if doubtful := self._reader.delivered.in_doubt(self._reader.claims):
                names = ", ".join(map(str, sorted(doubtful)))
                raise TransactionAborted(
                    f"{names}: revoked while brokers reported that the topic does not exist, so its offsets may be invalid"
                )
            stretch, claims = self._reader.delivered.stretch, self._reader.claims
            reading.offsets = {tp: (stretch(claims[tp]), offset) for tp, (offset, _) in positions.items() if tp in claims}
            # Offsets of a deleted topic are left out: in the new topic they would belong to other records, and the old records are gone.
            changed = [tp for tp, at in reading.offsets.items() if self._stored.get(tp) != at and not claims[tp].outdated]
            return {tp: OffsetAndMetadata(*positions[tp]) for tp in changed}

    def _leave(self, reading: RecordsInTransaction) -> dict[TopicPartition, OffsetAndEpoch]:
        reading.left_after, reading.left_at = self._reader.delivered.changes, self._reader.handed_out()
        return reading.left_at

    def _is_where(self, reading: RecordsInTransaction) -> bool:
        """Whether the application has received no records, and moved no positions, since the block ended."""
        return reading.left_after == self._reader.delivered.changes and reading.left_at == self._reader.handed_out()

    @call
    def settle(self, reading: RecordsInTransaction) -> None:
        """After a known commit, the consumer owes no rewind."""
        with self.guard.using("transaction"):
            if self._reading is reading:
                self._settled(reading)

    def _settled(self, reading: RecordsInTransaction) -> bool:
        if not reading.committed:
            return False
        claims = self._reader.claims
        self._reader.delivered.committed(reading.offsets, claims)
        self._stored = {tp: at for tp, at in {**self._stored, **reading.offsets}.items() if tp in claims}
        self._reading = None
        return True

    @call
    def fail(self, reading: RecordsInTransaction, timeout: float | None) -> Any:
        return self._waits.drive(self._failing(reading, timeout))

    def _failing(self, reading: RecordsInTransaction, timeout: float | None) -> Steps[None]:
        with self.guard.exclusive("transaction"):
            if self._reading is reading:
                if reading.left_at is None:
                    self._leave(reading)
                yield from self._rewinding(FAILED_REWIND_S if timeout is None else timeout)

    def _rewinding(self, timeout: float | None) -> Steps[None]:
        """Read each partition again from its committed offset; without a committed offset, from the offset at which reading began.

        If a seek of the application, or a restart in a recreated topic, began the stretch, the partition is read again from the start of
        the stretch, until a transaction, or perhaps the application itself, has committed an offset in the stretch.
        """
        with self.guard.using("transaction"):
            reader, delivered = self._reader, self._reader.delivered
            positions = reader.positions()
            claims = {tp: reader.claims[tp] for tp in positions}
            starts = {tp: delivered.start(claim, positions[tp]) for tp, claim in claims.items()}
            back = {tp: (at, -1) for tp, at in starts.items() if delivered.was_sought(tp) and at is not None}
            for tp in list(back):
                if delivered.stretch(claims[tp]) in (self._application_stretches.get(tp), self._stored.get(tp, (None,))[0]):
                    del back[tp]
            others = [tp for tp in claims if tp not in back]
            limit = REWIND_S if timeout is None else timeout
            committed = (yield from self._commits.looking_up(others, limit)) if others else {}
            for tp in others:
                at, start = committed[tp], starts[tp]
                if at is not None:
                    back[tp] = (at.offset, at.leader_epoch)  # with its epoch: the log may have been truncated, and have grown again
                elif start is not None:
                    back[tp] = (start, -1)
            reader.rewind_each({tp: offset for tp, offset in back.items() if tp in reader.claims})
            self._reading, self._refused, self._announced = None, False, False
