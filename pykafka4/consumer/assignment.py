"""Adopts and releases partitions. Invariant: the listener is called at most once for each event (`Assigned`, `Ended`), and for a revocation
only after the attempt at the last commit.

Events are handled on the thread, or in the task, that polls, unsubscribes or closes. In a revocation, this module waits only for the
listener: `begin_release` starts the last commit of finished records. When this commit is done, a poll calls `finish_release`, which calls
the listener and releases the partitions. `release_all` (for `close` and `unsubscribe`) also waits for the last commits and for the end of
the membership. After Ctrl-C, or an exception in the listener, each step can run again without repeating its effects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment
from pykafka4.consumer.arguments import Partitions, Topics, as_partitions, as_subscription, check_listener, check_overlap
from pykafka4.consumer.commits import ILLEGAL_GENERATION, Commits
from pykafka4.consumer.guard import Guard, call
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import Listen, Steps, Waits, at_once, settled
from pykafka4.core.consumer.machine import COMMIT_S, UNSUBSCRIBING, ConsumerMachine
from pykafka4.core.subscription import Assigned, Claim, Ended, Ending, Start
from pykafka4.errors import ConfigError, GroupError, KafkaError
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["LEAVE_S", "LAST_COMMIT_TIMEOUT_S", "Assignment"]

LAST_COMMIT_TIMEOUT_S: Final = 10.0  # limit of the last auto-commit in a revocation or `unsubscribe`
# How long a poll waits for the last commit and returns no records. A commit usually takes milliseconds. If the poll returned records of
# the remaining partitions meanwhile, the rebalance would wait until the application polls again. But a slow coordinator must not hold up
# these records for longer.
LAST_COMMIT_WAIT_S: Final = 0.5
LEAST_LAST_COMMIT_S: Final = 1.0  # limit of the last commit of a consumer that closes without time to wait for the response
# The limit of the last commit of a consumer that closes or unsubscribes while its group rebalances. Coordinators accept no commit between
# the responses to JoinGroup and SyncGroup, and a dead group leader delays SyncGroup until the leader's session times out.
LAST_COMMIT_IN_REBALANCE_S: Final = 3.0
LEAVE_S: Final = 5.0  # limit of the wait for the end of the membership


class AssignmentChange(NamedTuple):
    """The changes that an `assign` or a `release_all` makes."""

    gone: list[Claim]
    fresh: list[Claim]
    by_hand: dict[TopicPartition, None]  # the partitions of `assign` after the change
    leaves: str = ""  # the reason why this consumer leaves the group; empty if the consumer stays


class Assignment:
    def __init__(
        self,
        attachment: Attachment[ConsumerMachine],
        config: ConsumerConfig,
        reader: Reader,
        signal: Signal,
        guard: Guard,
        selection: Selection,
        commits: Commits,
        waits: Waits,
    ) -> None:
        """`signal` wakes polls and tasks that wait for the last commit, or for a position."""
        self._attachment, self._config, self._reader, self._signal = attachment, config, reader, signal
        self.guard, self._selection, self._commits, self._waits = guard, selection, commits, waits
        self.listener_method = ""  # the method of the listener that is running
        self._adopted: Assigned | None = None  # the last assignment that was adopted; the call of the listener may still be due
        self.last_commit: Promise[KafkaError | None] | None = None  # the auto-commit that a revocation waits for
        self._last_commit_wait_until = 0.0  # see `last_commit_wait_left`
        self._paused_before: set[TopicPartition] = set()  # partitions paused at their release: paused again if the next assignment has them
        self.change: AssignmentChange | None = None  # an unfinished `assign` or `release_all`, which a later call completes

    # ---------------------------------------------------------------- calls of the application

    @call
    def subscribe(self, topics: Topics, listener: object | None, exclude: Topics | None) -> None:
        selection = self._selection
        config = self._config
        names, chosen = as_subscription(
            topics, exclude, with_internal=not config.exclude_internal_topics, group_protocol=config.group_protocol
        )
        if config.group_id is None and chosen is not None and chosen.regex is not None:
            raise ConfigError(
                "SubscriptionPattern needs a group_id: the group's coordinator matches it; subscribe takes an re.Pattern as well"
            )
        check_listener(listener)
        check_overlap(names, chosen, selection.by_hand)
        with self.guard.using("subscribe"):
            self.complete_change()
            self._reader.drain()
            selection.topics, selection.filter, selection.listener, self._reader.fatal = names, chosen, listener, None
            self._attachment.post(lambda _: self._attachment.machine.membership.subscribe(names, chosen))
            self._withhold_unsubscribed()  # last: otherwise Ctrl-C could leave partitions of subscribed topics withheld

    def _withhold_unsubscribed(self) -> None:
        """Withhold partitions of topics that are no longer subscribed: the group revokes these partitions only later."""
        selection, claims = self._selection, self._reader.claims
        topics = {tp.topic for tp in claims if tp not in selection.by_hand}
        gone = {topic for topic in topics if not selection.selects(topic)}
        self._reader.withhold([tp for tp in claims if tp.topic in gone and tp not in selection.by_hand])

    def subscription(self) -> set[str]:
        selection, membership = self._selection, self._attachment.machine.membership
        names = set(selection.topics)
        # `matching` belongs to this pattern only after the loop has executed the posted `subscribe`.
        if selection.filter is not None and membership.subscription.filter is selection.filter:
            names |= membership.subscription.matching or frozenset()
        return names

    def extend_lease(self, seconds: float) -> None:
        at_once(self.extending_lease(seconds))

    def extending_lease(self, seconds: float) -> Steps[None]:
        attachment = self._attachment
        attachment.check()
        if not self._selection.subscribed:
            raise ConfigError("extend_lease needs subscribe: partitions of assign are not taken away")
        if self._config.group_id is None:
            raise ConfigError("extend_lease needs a group_id: without a group no partitions are taken away")
        answer: Promise[str | None] = attachment.promise()
        attachment.post(lambda now: answer.set_result(attachment.machine.membership.extend_lease(now, seconds)))
        refusal = yield from self._waits.result(answer, LOOP_ANSWER_S)
        if refusal is not None:
            raise GroupError(ILLEGAL_GENERATION, "extend_lease", refusal)

    @call
    def assign(self, partitions: Partitions) -> None:
        tps, selection = as_partitions(partitions), self._selection
        check_overlap(selection.topics, selection.filter, tps)
        with self.guard.using("assign"):
            self.complete_change()
            reader = self._reader
            gone = [reader.claims[tp] for tp in selection.by_hand if tp not in tps]
            fresh = [Claim(tp) for tp in tps if tp not in selection.by_hand]
            if gone:
                self._commits.commit_finished(COMMIT_S, {claim.tp for claim in gone})
            self.change = AssignmentChange(gone, fresh, tps)
            self.complete_change()

    def complete_change(self, leave_seconds: float = 0.0) -> Promise[None] | None:
        """Do the steps of `change`; after an interruption, all of them again.

        Returns a promise of the end of the membership; None if this consumer stays in the group.
        """
        if self.change is None:
            return None
        gone, fresh, self._selection.by_hand, leaves = self.change
        self._reader.release(gone)
        self._reader.adopt(fresh)
        self._attachment.post(lambda _: self._attachment.machine.fetcher.drop(gone))
        self._attachment.post(lambda _: self._attachment.machine.fetcher.adopt(fresh, Start.COMMITTED))
        left = self._leave_group(leave_seconds, leaves) if leaves else None
        self.change = None  # last: after Ctrl-C the next call does all steps again
        self._signal.notify()  # another task may wait for the position of a partition that is gone
        return left

    def complete_assign(self) -> None:
        """Complete an interrupted `assign`, for calls that need the partitions.

        A `release_all` is left alone: its listener may make such calls, before `release_all` continues.
        """
        if self.change is not None and not self.change.leaves:
            self.complete_change()

    @call
    def unsubscribe(self) -> None:
        with self.guard.using("unsubscribe"):
            at_once(self.unsubscribing())

    def unsubscribing(self) -> Steps[None]:
        try:
            yield from self.release_all(self._attachment.runtime.loop.now() + LAST_COMMIT_TIMEOUT_S, UNSUBSCRIBING, in_hand=False)
        finally:
            self._reader.drain()
            for event in self._reader.events:
                event.reported = True  # the listener of the next subscription must not be called for this event
            self._paused_before.clear()
            selection, self._reader.fatal = self._selection, None
            selection.topics, selection.filter, selection.listener, selection.lost = (), None, None, ""

    # ---------------------------------------------------------------- events of the group

    def adopt(self, assigned: Assigned) -> Steps[None]:
        reader, by_hand = self._reader, self._selection.by_hand
        if self._adopted is not assigned:
            # Claims that ended before this poll are not adopted (the event of their end follows), nor are partitions that `assign` has now.
            late = {claim for claim in assigned.claims if claim.ended or claim.tp in by_hand}
            reader.refuse(late)
            self._pause_again({claim.tp: claim for claim in assigned.claims if claim not in late})
            reader.adopt(claim for claim in assigned.claims if claim not in late)
            self._paused_before &= {claim.tp for claim in late}  # a partition of `late` may still come with a later assignment
            self._withhold_unsubscribed()  # the assignment may be older than the subscription
            self._selection.lost = ""
            self._adopted = assigned
        current = reader.current(assigned.claims)
        if current or not assigned.claims:
            yield from self._call_listener("on_partitions_assigned", assigned, current)

    def _pause_again(self, claims: Mapping[TopicPartition, Claim]) -> None:
        """Renew the application's pauses of partitions that a rebalance has taken away and given back, as eager rebalances do."""
        if paused := self._paused_before & claims.keys():
            self._reader.paused |= paused  # before `adopt`, after which `poll` returns the records of partitions that are not paused
            again = [claims[tp] for tp in paused]
            self._attachment.post(lambda _: self._attachment.machine.fetcher.pause(*again))

    def begin_release(self, ended: Ended) -> bool:
        """Drop buffered records of partitions that end, and start the last commit (without lost partitions).

        Returns False if the release is complete, because this consumer does not read the partitions and the listener need not be called.
        """
        current = self._reader.current(ended.claims)
        if not current and (ended.claims or ended.reported):
            self.last_commit = None
            self._attachment.post(lambda _: self._attachment.machine.membership.released(ended))
            return False
        if self.last_commit is None:
            self._reader.stop_delivering(current)
            owed = [] if ended.ending is Ending.LOST else [claim.tp for claim in current]
            last_commit = self._commits.commit_finished(LAST_COMMIT_TIMEOUT_S, owed)
            last_commit.add_done_callback(lambda _: self._last_commit_ended())
            self._last_commit_wait_until = self._attachment.runtime.loop.now() + LAST_COMMIT_WAIT_S
            self.last_commit = last_commit
        return True

    def _last_commit_ended(self) -> None:
        """Wake the poll, or have a `for` loop poll, to finish the release. Called on any thread."""
        self._reader.interrupt()
        self._signal.notify()

    def last_commit_wait_left(self) -> float:
        """The seconds for which a poll still waits for the last commit (see LAST_COMMIT_WAIT_S)."""
        return 0.0 if self.last_commit is None else self._last_commit_wait_until - self._attachment.runtime.loop.now()

    def last_commit_done(self) -> bool:
        """Whether the last commit has an outcome, or `release_all` has taken that commit over."""
        return self.last_commit is None or self.last_commit.done()

    def finish_release(self, ended: Ended) -> Steps[bool]:
        """Call the listener and release the partitions. Returns False if the last commit has no outcome yet or belongs to `release_all`."""
        if self.last_commit is None or not self.last_commit.done():
            return False
        self._selection.lost = ended.reason if ended.ending is Ending.LOST else ""
        try:
            yield from self._report_end(ended)
        finally:
            if not self._waits.listening:  # otherwise the poll was cancelled, but the listener still runs: a later poll releases `ended`
                self._paused_before |= self._reader.paused.intersection(claim.tp for claim in self._reader.current(ended.claims))
                self._reader.release(ended.claims)
                self._attachment.post(lambda _: self._attachment.machine.membership.released(ended))
                self.last_commit = None
                self._signal.notify()
        return True

    def _report_end(self, ended: Ended) -> Steps[None]:
        """Call the listener at most once, even if the listener closes the consumer or unsubscribes."""
        current = self._reader.current(ended.claims)
        if current or not ended.claims:
            yield from self._call_listener("on_partitions_lost" if ended.ending is Ending.LOST else "on_partitions_revoked", ended, current)

    def _call_listener(self, method: str, event: Assigned | Ended, claims: Collection[Claim]) -> Steps[None]:
        if event.reported:
            yield from self._waits.finish_listener()
            return
        listener, reader, tps = self._selection.run or self._selection.listener, self._reader, [claim.tp for claim in claims]
        if method == "on_partitions_lost" and not hasattr(listener, method):
            method = "on_partitions_revoked"
        listen: Listen | None = getattr(listener, method, None)
        if listen is not None:
            idle, within = reader.idle, self.guard.listening
            self.listener_method = method
            try:
                reader.idle = self._attachment.runtime.loop.now()  # max_poll_interval_ms also bounds the listener
                self.guard.listening = True
                yield from self._waits.listen(listen, tps, event)
            finally:
                self.guard.listening, self.listener_method, reader.idle = within, "", idle

    # ---------------------------------------------------------------- close and unsubscribe

    def release_all(self, deadline: float, reason: str, *, in_hand: bool) -> Steps[None]:
        """Commit, call the listener, release all partitions, and leave the group for `reason`.

        With `in_hand` the list that the last poll returned counts as finished. Buffered records are dropped first. Therefore the
        partitions are released even after an exception: a consumer that read on would skip these records.
        """
        reader, now = self._reader, self._attachment.runtime.loop.now
        self.complete_change()
        claims, leave_seconds = list(reader.claims.values()), 0.0
        self.change = AssignmentChange(claims, [], {}, reason)
        try:
            reader.stop_delivering(claims)
            begun, self.last_commit = self.last_commit, None
            reader.settle(in_hand=in_hand)
            # None means all partitions. If a revocation or loss has begun, its partitions are left out.
            owed = None
            if begun is not None:
                owed = reader.claims.keys() - {claim.tp for claim in reader.current(reader.events[0].claims)}
            last_commit = self._commits.commit_finished(max(LEAST_LAST_COMMIT_S, deadline - now()), owed)
            self._attachment.post(lambda at: self._attachment.machine.offsets.limit_rebalance(at + LAST_COMMIT_IN_REBALANCE_S))
            for commit in (begun, last_commit):
                if commit is not None:
                    yield from settled(self._waits, commit, max(0.0, deadline - now()))
            for ended in self._ends():
                yield from self._report_end(ended)
            leave_seconds = LEAVE_S
        finally:
            leave_seconds = min(leave_seconds, max(0.0, deadline - now()))
            # Again: the listener may have completed this change with a call, and then subscribed or assigned.
            self.change = AssignmentChange(list(reader.claims.values()), [], {}, reason)
            left = self.complete_change(leave_seconds)
            assert left is not None
            yield from settled(self._waits, left, leave_seconds + 1)

    def _ends(self) -> list[Ended]:
        """The unhandled events that end partitions, and a new event that ends all other partitions of the group, if any.

        The new event is queued with the others: if a listener closes the consumer, that close finds the event reported, and does not
        call the listener again.
        """
        reader = self._reader
        reader.drain()
        ends = [event for event in reader.events if isinstance(event, Ended)]
        ending = {claim.origin for ended in ends for claim in ended.claims}
        rest = tuple(claim for tp, claim in reader.claims.items() if tp not in self._selection.by_hand and claim.origin not in ending)
        if rest:
            ends.append(Ended(rest, Ending.REVOKED))
            reader.events.append(ends[-1])
        return ends

    def _leave_group(self, timeout: float, reason: str) -> Promise[None]:
        left: Promise[None] = self._attachment.promise()
        self._attachment.post(lambda now: self._attachment.machine.leave(now, timeout, lambda: left.set_result(None), reason))
        return left
