"""Assignment. Rule: the listener is called once for each assignment and once for its end; finished records are committed before the end.

Partitions are taken up and released on the thread that polls. A revocation never waits here: `begin_release` starts the last commit,
the poll waits until `last_commit_done`, and `finish_release` does the rest. Only `release_all` (for `close` and `unsubscribe`) waits, for
two promises. After Ctrl-C, or an exception of the listener, each step can be run again; it does not repeat what was done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pykafka4.attachment import Attachment
from pykafka4.config import ConsumerConfig
from pykafka4.consumer.arguments import Partitions, as_partitions, as_topics, check_listener, check_overlap
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.guard import Guard, call
from pykafka4.consumer.selection import Selection
from pykafka4.core.consumer.machine import COMMIT_SECONDS, ConsumerMachine
from pykafka4.core.consumer.reader import Reader
from pykafka4.core.subscription import Claim, Ending, Start, Ticket
from pykafka4.errors import ConfigError, KafkaError, KafkaTimeoutError
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import TopicPartition

__all__ = ["LEAVE_SECONDS", "LAST_COMMIT_SECONDS", "Assignment"]

LAST_COMMIT_SECONDS: Final = 10.0  # for the last auto-commit before partitions are released
LAST_COMMIT_LEAST: Final = 1.0  # for that of a consumer that closes without waiting for the response
LEAVE_SECONDS: Final = 5.0


class Change(NamedTuple):
    """What `assign` changes, or the end of all assignments."""

    gone: list[Claim]
    fresh: list[Claim]
    by_hand: dict[TopicPartition, None]  # afterwards
    leaves: bool = False  # the group


class Assignment:
    """The partitions of a consumer: those of `assign`, and those that the group assigns (a `core.subscription.Assignment`)."""

    def __init__(
        self,
        attachment: Attachment[ConsumerMachine],
        config: ConsumerConfig,
        reader: Reader,
        signal: Signal,
        guard: Guard,
        selection: Selection,
        commits: Commits,
    ) -> None:
        """`signal` is notified when the last commit before a revocation has its outcome."""
        self._attachment, self._config, self._reader, self._signal = attachment, config, reader, signal
        self.guard, self._selection, self._commits = guard, selection, commits
        self.listener_method = ""  # the method of the listener that is running
        self._reported: dict[str, Ticket] = {}  # the last ticket whose "begin" or "end" the listener was called for
        self.last_commit: Promise[KafkaError | None] | None = None  # the auto-commit that a revocation waits for
        self.change: Change | None = None  # an unfinished `assign` or `release_all`: the next poll or call completes it

    # ---------------------------------------------------------------- calls of the application

    @call
    def subscribe(self, topics: Sequence[str], listener: object | None) -> None:
        """See Consumer.subscribe."""
        names, selection = as_topics(topics), self._selection
        if self._config.group_id is None:
            raise ConfigError("subscribe needs a group_id: the group assigns the partitions; without a group use assign")
        check_listener(listener)
        check_overlap(names, selection.by_hand)
        with self.guard.using("subscribe"):
            self.complete_change()
            self._reader.drain()
            selection.topics, selection.listener, self._reader.fatal = names, listener, None
            self._attachment.post(lambda _: self._attachment.machine.membership.subscribe(names))

    @call
    def assign(self, partitions: Partitions) -> None:
        """See Consumer.assign."""
        tps, selection = as_partitions(partitions), self._selection
        check_overlap(selection.topics, tps)
        with self.guard.using("assign"):
            self.complete_change()
            reader = self._reader
            gone = [reader.claims[tp] for tp in selection.by_hand if tp not in tps]
            fresh = [Claim(tp) for tp in tps if tp not in selection.by_hand]
            if gone:
                self._commits.commit_finished(reader.ticket, COMMIT_SECONDS, {claim.tp for claim in gone})
            self.change = Change(gone, fresh, tps)
            self.complete_change()

    def complete_change(self, leave_seconds: float = 0.0) -> Promise[None] | None:
        """Do the rest of an interrupted `assign` or `release_all`; each step may be done twice.

        Returns the promise of having left the group, if that is part of it.
        """
        if self.change is None:
            return None
        gone, fresh, self._selection.by_hand, leaves = self.change
        self._reader.release(gone)
        self._reader.adopt(fresh)
        self._attachment.post(lambda _: self._attachment.machine.fetcher.drop(gone))
        self._attachment.post(lambda _: self._attachment.machine.fetcher.adopt(fresh, Start.COMMITTED))
        left = None
        if leaves:
            self._reader.ticket = None
            left = self._leave_group(leave_seconds)
        self.change = None
        return left

    @call
    def unsubscribe(self) -> None:
        """See Consumer.unsubscribe."""
        with self.guard.using("unsubscribe"):
            try:
                self.release_all(self._attachment.runtime.loop.now() + LAST_COMMIT_SECONDS, in_hand=False)
            finally:
                self._reader.drain()
                self._selection.topics, self._selection.listener, self._reader.fatal = (), None, None

    # ---------------------------------------------------------------- events of the group, on the thread that polls

    def take_up(self, ticket: Ticket) -> None:
        """Partitions were assigned: begin to read them, and call the listener."""
        reader, by_hand = self._reader, self._selection.by_hand
        if reader.ticket is not ticket:
            if ticket.ending is not None:  # it ended before this poll: the event of its end comes next
                reader.refuse(ticket.claims)
                return
            ours = [claim for claim in ticket.claims if claim.tp in by_hand]  # by `assign` since then: the group revokes them soon
            reader.refuse(ours)
            reader.adopt(claim for claim in ticket.claims if claim.tp not in by_hand)
            self._selection.lost = ""
            reader.ticket = ticket
        self._call_listener("begin", "on_partitions_assigned", ticket)

    def begin_release(self, ticket: Ticket) -> bool:
        """Partitions end: drop their buffered records and start the last commit. False: they were never taken up and are released now."""
        reader = self._reader
        if reader.ticket is not ticket:
            self.last_commit = None
            self._attachment.post(lambda _: self._attachment.machine.membership.released(ticket))
            return False
        if self.last_commit is None:
            reader.purge(reader.current(ticket.claims))
            last_commit = self._commits.commit_finished(ticket, LAST_COMMIT_SECONDS)
            last_commit.add_done_callback(lambda _: self._signal.notify())
            self.last_commit = last_commit
        return True

    def last_commit_done(self) -> bool:
        """Whether the last commit has an outcome, or `close` in another thread has taken it over."""
        return self.last_commit is None or self.last_commit.done()

    def finish_release(self, ticket: Ticket) -> bool:
        """Call the listener and release the partitions. False: the last commit has no outcome yet, or another thread is closing."""
        if self.last_commit is None or not self.last_commit.done():
            return False
        self._selection.lost = ticket.reason if ticket.ending is Ending.LOST else ""
        try:
            self._report_end(ticket)
        finally:
            self._forget(ticket)
            self.last_commit = None
        return True

    def _forget(self, ticket: Ticket) -> None:
        self._reader.release(ticket.claims)
        self._reader.ticket = None
        self._attachment.post(lambda _: self._attachment.machine.membership.released(ticket))

    def _report_end(self, ticket: Ticket) -> None:
        """Call the listener, once, even if it closes the consumer or unsubscribes."""
        self._call_listener("end", "on_partitions_lost" if ticket.ending is Ending.LOST else "on_partitions_revoked", ticket)

    def _call_listener(self, event: str, method: str, ticket: Ticket) -> None:
        if self._reported.get(event) is ticket:
            return
        tps, listener, reader = [claim.tp for claim in ticket.claims], self._selection.listener, self._reader
        if method == "on_partitions_lost" and not hasattr(listener, method):
            method = "on_partitions_revoked"
        listen: Callable[[list[TopicPartition]], Any] | None = getattr(listener, method, None)
        if listen is not None:
            idle = reader.idle
            self.listener_method = method
            try:
                reader.idle = self._attachment.runtime.loop.now()  # max_poll_interval_ms bounds the listener, too
                self._reported[event] = ticket
                listen(tps)
            finally:
                self.listener_method, reader.idle = "", idle

    # ---------------------------------------------------------------- close and unsubscribe

    def release_all(self, deadline: float, *, in_hand: bool) -> None:
        """Commit, call the listener, release all partitions, leave the group, within `deadline`.

        With `in_hand` the list that the last poll returned counts as finished.
        Buffered records are dropped first. Therefore the rest is always done: a consumer that continued to read would skip these records.
        """
        reader, now = self._reader, self._attachment.runtime.loop.now
        self.complete_change()
        ticket, claims, leave_seconds = reader.ticket, list(reader.claims.values()), 0.0
        self.change = Change(claims, [], {}, leaves=True)
        try:
            reader.purge(claims)
            last_commit, self.last_commit = self.last_commit, None
            if last_commit is None:
                reader.settle(in_hand=in_hand)
                last_commit = self._commits.commit_finished(ticket, max(LAST_COMMIT_LEAST, deadline - now()))
            _wait(last_commit, max(0.0, deadline - now()))
            if ticket is not None:
                self._report_end(ticket)
            leave_seconds = LEAVE_SECONDS
        finally:
            leave_seconds = min(leave_seconds, max(0.0, deadline - now()))
            left = self.complete_change(leave_seconds)
            if left is not None:  # not done by a call of the listener
                _wait(left, leave_seconds + 1)

    def _leave_group(self, timeout: float) -> Promise[None]:
        left: Promise[None] = self._attachment.promise()
        self._attachment.post(lambda now: self._attachment.machine.leave(now, timeout, lambda: left.set_result(None)))
        return left


def _wait(promise: Promise[Any], timeout: float) -> None:
    """Wait up to `timeout` seconds until it has a result or an error."""
    if not promise.done():
        with contextlib.suppress(KafkaTimeoutError):
            promise.exception(timeout)
