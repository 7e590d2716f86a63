"""Assignment. Rule: the listener hears once of each beginning and each end, and what was finished is committed before partitions go.

Partitions come and go on the thread that polls. While it does not close or unsubscribe nothing here waits: `begin_giving_back` starts the
commit, the poll waits until `is_parted`, `give_back` does the rest. `part`, which gives everything back at once, waits for two promises.
Each step may be done again after Ctrl-C, or because the listener raised, and repeats nothing that was done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

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

__all__ = ["LEAVE_SECONDS", "PARTING_SECONDS", "Assignment"]

PARTING_SECONDS: Final = 10.0  # for the last auto-commit before partitions are given back
PARTING_LEAST: Final = 1.0  # it is sent even by those who do not wait for its answer
LEAVE_SECONDS: Final = 5.0


class Assignment:
    """The partitions of a consumer: those assigned by hand, and the group's share as its events tell."""

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
        """`signal` is notified when a commit that the poll waits for has its outcome."""
        self._attachment, self._config, self._reader, self._signal = attachment, config, reader, signal
        self.guard, self._selection, self._commits = guard, selection, commits
        self.telling = ""  # the listener's method that runs
        self._told: dict[str, Ticket] = {}  # the last that the listener was told of, by whether it began or ended
        self.parting: Promise[KafkaError | None] | None = None  # the last auto-commit before partitions go

    # ---------------------------------------------------------------- what the application asks for

    @call
    def subscribe(self, topics: Sequence[str], listener: object | None) -> None:
        """See Consumer.subscribe."""
        names, selection = as_topics(topics), self._selection
        if self._config.group_id is None:
            raise ConfigError("subscribe needs a group_id: members of a group share out the partitions; without a group use assign")
        check_listener(listener)
        check_overlap(names, selection.by_hand)
        with self.guard.using("subscribe"):
            self._reader.drain()
            selection.topics, selection.listener, self._reader.fatal = names, listener, None
            self._attachment.post(lambda _: self._attachment.machine.membership.subscribe(names))

    @call
    def assign(self, partitions: Partitions) -> None:
        """See Consumer.assign."""
        tps, selection = as_partitions(partitions), self._selection
        check_overlap(selection.topics, tps)
        with self.guard.using("assign"):
            reader = self._reader
            gone = [reader.claims[tp] for tp in selection.by_hand if tp not in tps]
            fresh = [Claim(tp) for tp in tps if tp not in selection.by_hand]
            if gone:
                self._commits.commit_finished(reader.ticket, COMMIT_SECONDS, {claim.tp for claim in gone})
                reader.release(gone)
            reader.adopt(fresh)
            selection.by_hand = dict.fromkeys(tps)
            self._attachment.post(lambda _: self._attachment.machine.fetcher.drop(gone))
            self._attachment.post(lambda _: self._attachment.machine.fetcher.adopt(fresh, Start.COMMITTED))

    @call
    def unsubscribe(self) -> None:
        """See Consumer.unsubscribe."""
        with self.guard.using("unsubscribe"):
            try:
                self.part(self._attachment.runtime.loop.now() + PARTING_SECONDS, in_hand=False)
            finally:
                self._reader.drain()
                self._selection.topics, self._selection.listener, self._reader.fatal = (), None, None

    # ---------------------------------------------------------------- what the group does, seen by the thread that polls

    def gain(self, ticket: Ticket) -> None:
        """Take up partitions."""
        reader, by_hand = self._reader, self._selection.by_hand
        if reader.ticket is not ticket:
            if ticket.ending is not None:  # over before it was seen: its end comes next
                reader.refuse(ticket.claims)
                return
            ours = [claim for claim in ticket.claims if claim.tp in by_hand]  # assigned since: the group's share ends soon
            reader.refuse(ours)
            reader.adopt(claim for claim in ticket.claims if claim.tp not in by_hand)
            self._selection.lost = ""
            reader.ticket = ticket
        self._tell("begin", "on_partitions_assigned", ticket)

    def begin_giving_back(self, ticket: Ticket) -> bool:
        """Hand out no more of these partitions and commit what is finished. False: they were not taken up, and that was all."""
        reader = self._reader
        if reader.ticket is not ticket:
            self.parting = None
            self._attachment.post(lambda _: self._attachment.machine.membership.released(ticket))
            return False
        if self.parting is None:
            reader.purge(reader.current(ticket.claims))
            parting = self._commits.commit_finished(ticket, PARTING_SECONDS)
            parting.add_done_callback(lambda _: self._signal.notify())
            self.parting = parting
        return True

    def is_parted(self) -> bool:
        """Whether the last commit before partitions go has an outcome, or a close in another thread has taken it over."""
        return self.parting is None or self.parting.done()

    def give_back(self, ticket: Ticket) -> bool:
        """Tell the listener, let go. False: the last commit has no outcome yet, or a close in another thread does this."""
        if self.parting is None or not self.parting.done():
            return False
        self._selection.lost = ticket.reason if ticket.ending is Ending.LOST else ""
        try:
            self._tell_end(ticket)
        finally:
            self._forget(ticket)
            self.parting = None
        return True

    def _forget(self, ticket: Ticket) -> None:
        self._reader.release(ticket.claims)
        self._reader.ticket = None
        self._attachment.post(lambda _: self._attachment.machine.membership.released(ticket))

    def _tell_end(self, ticket: Ticket) -> None:
        """Once, though the listener may close the consumer or unsubscribe in the middle of it."""
        self._tell("end", "on_partitions_lost" if ticket.ending is Ending.LOST else "on_partitions_revoked", ticket)

    def _tell(self, event: str, method: str, ticket: Ticket) -> None:
        if self._told.get(event) is ticket:
            return
        tps, listener, reader = [claim.tp for claim in ticket.claims], self._selection.listener, self._reader
        if method == "on_partitions_lost" and not hasattr(listener, method):
            method = "on_partitions_revoked"
        tell: Callable[[list[TopicPartition]], Any] | None = getattr(listener, method, None)
        if tell is not None:
            idle = reader.idle
            self.telling = method
            try:
                reader.idle = self._attachment.runtime.loop.now()  # one that hangs does not hold them: max_poll_interval_ms counts
                self._told[event] = ticket
                tell(tps)
            finally:
                self.telling, reader.idle = "", idle

    # ---------------------------------------------------------------- everything at once

    def part(self, deadline: float, *, in_hand: bool) -> None:
        """Commit, tell the listener, give everything up, leave the group: as far as `deadline` allows.

        With `in_hand` the list that the last poll handed out counts as finished.
        What is buffered goes first, so nothing may keep the rest from being done: reading on would pass over it.
        """
        reader, now = self._reader, self._attachment.runtime.loop.now
        ticket, claims, patience = reader.ticket, list(reader.claims.values()), 0.0
        reader.purge(claims)
        parting, self.parting = self.parting, None
        try:
            if parting is None:
                reader.settle(in_hand=in_hand)
                parting = self._commits.commit_finished(ticket, max(PARTING_LEAST, deadline - now()))
            _settled(parting, max(0.0, deadline - now()))
            if ticket is not None:
                self._tell_end(ticket)
            patience = LEAVE_SECONDS
        finally:
            reader.release(claims)
            reader.ticket, self._selection.by_hand = None, {}
            self._attachment.post(lambda _: self._attachment.machine.fetcher.drop(claims))
            patience = min(patience, max(0.0, deadline - now()))
            _settled(self._say_goodbye(patience), patience + 1)

    def _say_goodbye(self, patience: float) -> Promise[None]:
        left: Promise[None] = self._attachment.promise()
        self._attachment.post(lambda now: self._attachment.machine.leave(now, patience, lambda: left.set_result(None)))
        return left


def _settled(promise: Promise[Any], timeout: float | None) -> bool:
    """Whether it is done within `timeout` seconds, however it ended."""
    if promise.done():
        return True
    with contextlib.suppress(KafkaTimeoutError):
        promise.exception(timeout)
    return promise.done()
