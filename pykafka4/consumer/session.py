"""Session. Rule: everything of a consumer but its handle; one thread at a time uses it, and only its waits block.

The client keeps this alive, not the handle, so a consumer that is forgotten while open is noticed.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from operator import length_hint
from threading import Thread
from typing import Any, Final

from pykafka4.client import Client
from pykafka4.consumer.arguments import (
    Offsets,
    OnDone,
    Partitions,
    as_offsets,
    as_partitions,
    as_topics,
    check_limit,
    check_listener,
    check_on_done,
    check_overlap,
    check_timeout,
    read_config,
)
from pykafka4.core import INFINITY
from pykafka4.core.consumer.machine import COMMIT_SECONDS, ConsumerMachine
from pykafka4.core.consumer.reader import Place, Reader
from pykafka4.core.group.offsets import Found, names_of
from pykafka4.core.subscription import Assigned, Claim, Ending, Start, Ticket
from pykafka4.errors import BufferFull, ClosedError, ConfigError, GroupError, KafkaError, KafkaTimeoutError
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["API_SECONDS", "Session"]

API_SECONDS: Final = 60.0  # calls without a timeout of their own
CLOSE_SECONDS: Final = 10.0
PARTING_SECONDS: Final = 10.0  # for the last auto-commit before partitions are given back
PARTING_LEAST: Final = 1.0  # it is sent even by those who do not wait for its answer
LEAVE_SECONDS: Final = 5.0
SHORT: Final = 10.0  # the loop answers at once; this bounds the wait if it cannot
ILLEGAL_GENERATION: Final = 22
MOST_OWED: Final = 10_000
POLLS: Final = "_pykafka4_polls"  # attribute of exceptions


class Session:
    """Everything of a consumer but its handle: the client may keep this alive, not the handle, so a forgotten one is noticed."""

    def __init__(self, client: Client | None, executor: Executor | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(client, executor, options)
        self.client = client if client is not None else Client.private(self.config, executor)
        self.client.check()
        self.signal = Signal()
        self.reader = Reader(self.client.loop.now, self.signal.notify, self._reseek)
        self.topics: tuple[str, ...] = ()
        self.listener: object | None = None
        self.static: dict[TopicPartition, None] = {}
        self._lost = ""  # why partitions were lost, until there are new ones
        self._telling = ""  # the listener's method that runs
        self._told: dict[str, Ticket] = {}  # the last that the listener was told of, by whether it began or ended
        self._parting: Promise[KafkaError | None] | None = None  # the last auto-commit before partitions go
        self._busy: dict[str, tuple[Thread, str]] = {}  # who uses the consumer, and for what
        self._reads: Thread | None = None  # who polled last: the records handed out are in its hands
        self._polled: object | None = None  # marks the exception that was being handled during the last poll
        self._asked_at: float = INFINITY  # the reader's mark at which the loop was last asked to fetch on
        self._woken = False  # by `wakeup`: the poll under way, or the next, returns without waiting
        self._closer: dict[str, tuple[Thread, object]] = {}  # who closes: its listener may still commit
        self._owed: deque[None] = deque()  # one for each callback of commit_async that has not begun
        self.closing = self.closed = False
        self.member: ConsumerMachine = self.client.loop.ask(self._start, SHORT, "starting the consumer")
        self.client.attach(self)

    def _start(self, now: float) -> ConsumerMachine:
        engine = self.client.engine
        member = ConsumerMachine(self.config, engine.network, engine.cluster, engine.recovery, engine.random, self.reader)
        engine.add(member, "consumer")
        return member

    def _reseek(self, old: Claim, new: Claim, start: Start | int) -> None:
        self._post(lambda _: self.member.fetcher.seek(old, new, start))

    def _post(self, fn: Callable[[float], object]) -> None:
        self.client.loop.call(fn, self.member)

    # ---------------------------------------------------------------- one thread at a time

    def check(self) -> None:
        """Raise what every call would raise."""
        closed = "this consumer is closed; make a new one"
        if self.closed and not self.client.loop.forked:  # before looking at a private client, which is closed as well
            raise ClosedError(closed)
        self.client.check()
        if self.closing and system.current_thread() is not self._closer.get("closer", (None, None))[0]:
            raise ClosedError(closed)
        if (failure := self.client.engine.failure(self.member)) is not None and not self.closing:
            raise failure.again()

    @contextlib.contextmanager
    def _using(self, what: str) -> Iterator[None]:
        outermost = self._enter(what)
        try:
            yield
        finally:
            if outermost:
                self._leave()

    def _enter(self, what: str) -> bool:
        """Have the consumer for this thread; whether this call is the one to give it back."""
        self.check()
        mine = (system.current_thread(), what)
        holder = self._busy.setdefault("user", mine)  # one step under the interpreter's lock: only one of two threads gets it
        if holder is mine:
            self.reader.changing = False  # Ctrl-C may have left it set
            return True
        if not self._inside(holder[0]):  # Ctrl-C ended that call before it could give the consumer back
            self._busy.clear()
            return self._enter(what)
        if holder[0] is not mine[0]:
            raise KafkaError(
                f"thread {holder[0].name!r} is in {holder[1]} and thread {mine[0].name!r} called {what}: "
                "a consumer is used by one thread at a time; give each thread its own"
            )
        self._check_whole(what)
        return False

    def _check_whole(self, what: str) -> None:
        """Refuse a call that comes in the middle of another one on the same thread: records would be lost or handed out twice."""
        holder = self._busy.get("user")
        if self.reader.changing and holder is not None and holder[0] is system.current_thread() and self._inside(holder[0]):
            raise self._in_the_middle(what, holder[1])

    @staticmethod
    def _in_the_middle(what: str, other: str) -> KafkaError:
        return KafkaError(
            f"{what} was called in the middle of {other}, by a signal handler or a destructor: call wakeup() there, "
            f"and {what} when {other} has returned"
        )

    def _inside(self, thread: Thread) -> bool:
        """Whether `thread` is in a call of this consumer; of the calling thread: in another call than the present one."""
        found, frame = 0, sys._current_frames().get(thread.ident or 0)
        while frame is not None:
            found += frame.f_code in CALLS and frame.f_locals.get("self") is self
            frame = frame.f_back
        return found > (thread is system.current_thread())

    def _leave(self) -> None:
        self._busy.clear()
        if self.closing:
            self.signal.notify()

    # ---------------------------------------------------------------- polling

    def lists(self) -> Iterator[Iterator[Record]]:
        """Lists for a loop to run through. One ends early when there is news of the group, or the consumer is closed."""
        while True:
            yield self.poll(None, None, self.reader.take_one_by_one)  # type: ignore[misc]

    def poll(
        self, timeout: float | None = 1.0, max_records: int | None = None, take: Callable[[int], Iterable[Record]] | None = None
    ) -> list[Record]:
        """See Consumer.poll. All in one function: Ctrl-C between the return of one and the return of its caller would lose the list."""
        limit, take = check_limit(max_records, self.config.max_poll_records), take or self.reader.take
        timeout = check_timeout(timeout)
        if not self._enter("poll"):
            if self._telling:
                raise KafkaError(f"poll inside {self._telling}: the poll that runs the listener goes on when it returns")
            raise self._in_the_middle("poll", self._busy["user"][1])
        reader, entered = self.reader, False
        try:
            if not self.topics and not self.static:
                raise ConfigError("poll: there is nothing to read; subscribe or assign first")
            reader.enter()
            entered = True
            self._reads = system.current_thread()
            self._note_handled_error()
            if reader.beckoned:
                self.client.loop.wake()
                reader.beckoned = False
            records = self._look(INFINITY if timeout is None else self.client.loop.now() + timeout, limit, take)
            self._woken = False
            reader.leave()
            self._leave()
            return records  # type: ignore[return-value]
        except BaseException:  # Ctrl-C included: what was decoded is handed out by the next poll
            if entered:
                reader.take_back()
            reader.leave()
            self._leave()
            raise

    def _note_handled_error(self) -> None:
        """The application may poll while it handles an exception: that one has nothing to do with the records of this poll.

        The exception is marked, not kept: its frames may hold the last reference to the consumer.
        """
        error = sys.exc_info()[1]
        self._polled = None if error is None else object()
        if error is not None:
            error.__dict__.setdefault(POLLS, {})[id(self)] = self._polled

    def _interrupted(self) -> bool:
        """Whether the application handles an exception that came after the last poll."""
        error = sys.exc_info()[1]
        return error is not None and (self._polled is None or error.__dict__.get(POLLS, {}).get(id(self)) is not self._polled)

    def _look(self, deadline: float, limit: int, take: Callable[[int], Iterable[Record]]) -> Iterable[Record]:
        reader, loop = self.reader, self.client.loop
        while True:
            if reader.ready:
                self._take_news(deadline)
            if self._parting is None:
                records = take(limit)
                if not length_hint(records):
                    reader.relieve()
                self._make_room()
                if length_hint(records):
                    return records
            left = deadline - loop.now()
            if left <= 0 or self._woken:
                return []
            self.signal.wait(self._worth_a_look, None if left == INFINITY else left)
            self.check()

    def wakeup(self) -> None:
        """See Consumer.wakeup."""
        self._woken = True
        self.signal.notify()

    def _worth_a_look(self) -> bool:
        return self.reader.ready or self.closing or self._woken

    def _make_room(self) -> None:
        """Have the loop fetch on, once per mark: only the loop thread moves the mark, always further on."""
        mark = self.reader.resume_at
        if self.reader.consumed >= mark and mark != self._asked_at:
            self._post(self.member.fetcher.space)
            self._asked_at = mark

    def _take_news(self, deadline: float) -> None:
        reader = self.reader
        reader.drain()
        while reader.events:
            event = reader.events[0]
            if isinstance(event, Assigned):
                self._gain(event.ticket)
            elif not self._give_back(event.ticket, deadline):
                return
            reader.events.popleft()
        if reader.fatal is not None:
            raise reader.fatal.again()
        if reader.notices:
            raise reader.notices.popleft()

    # ---------------------------------------------------------------- partitions come and go

    def _gain(self, ticket: Ticket) -> None:
        """Take up partitions. Done again, after an interruption or because the listener raised, it repeats nothing that was done."""
        if self.reader.ticket is not ticket:
            if ticket.ending is not None:  # over before it was seen: its end comes next
                self.reader.refuse(ticket.claims)
                return
            by_hand = [claim for claim in ticket.claims if claim.tp in self.static]  # assigned since: the group's share ends soon
            self.reader.refuse(by_hand)
            self.reader.adopt(claim for claim in ticket.claims if claim.tp not in self.static)
            self._lost = ""
            self.reader.ticket = ticket
        self._tell("begin", "on_partitions_assigned", ticket)

    def _give_back(self, ticket: Ticket, deadline: float) -> bool:
        """Commit what is finished, tell the listener, let go. False: the commit is not through yet and the poll's time is over."""
        reader = self.reader
        if reader.ticket is not ticket:
            self._parting = None
            self._post(lambda _: self.member.membership.released(ticket))
            return True
        if self._parting is None:
            reader.purge(reader.current(ticket.claims))
            parting = self._commit_finished(ticket, PARTING_SECONDS)
            parting.add_done_callback(lambda _: self.signal.notify())
            self._parting = parting
        left = deadline - self.client.loop.now()
        self.signal.wait(self._parting_is_over, None if left == INFINITY else max(0.0, left))
        if self._parting is None or not self._parting.done():  # None: `close` in another thread has taken it over
            return False
        self._lost = ticket.reason if ticket.ending is Ending.LOST else ""
        try:
            self._tell_end(ticket)
        finally:
            self._forget(ticket)
            self._parting = None
        return True

    def _parting_is_over(self) -> bool:
        """Whether the last commit before partitions go has an outcome; or `wakeup` or `close` end the poll that waits for it."""
        return self._parting is None or self._parting.done() or self._woken or self.closing

    def _forget(self, ticket: Ticket) -> None:
        self.reader.release(ticket.claims)
        self.reader.ticket = None
        self._post(lambda _: self.member.membership.released(ticket))

    def _tell_end(self, ticket: Ticket) -> None:
        """Once, though the listener may close the consumer or unsubscribe in the middle of it."""
        self._tell("end", "on_partitions_lost" if ticket.ending is Ending.LOST else "on_partitions_revoked", ticket)

    def _tell(self, event: str, method: str, ticket: Ticket) -> None:
        if self._told.get(event) is ticket:
            return
        tps = [claim.tp for claim in ticket.claims]
        if method == "on_partitions_lost" and not hasattr(self.listener, method):
            method = "on_partitions_revoked"
        tell = getattr(self.listener, method, None)
        if tell is not None:
            idle = self.reader.idle
            self._telling = method
            try:
                self.reader.idle = self.client.loop.now()  # a listener that hangs does not hold its partitions: max_poll_interval_ms counts
                self._told[event] = ticket
                tell(tps)
            finally:
                self._telling, self.reader.idle = "", idle

    def subscribe(self, topics: Sequence[str], listener: object | None) -> None:
        """See Consumer.subscribe."""
        names = as_topics(topics)
        if self.config.group_id is None:
            raise ConfigError("subscribe needs a group_id: members of a group share out the partitions; without a group use assign")
        check_listener(listener)
        check_overlap(names, self.static)
        with self._using("subscribe"):
            self.reader.drain()
            self.topics, self.listener, self.reader.fatal = names, listener, None
            self._post(lambda _: self.member.membership.subscribe(names))

    def assign(self, partitions: Partitions) -> None:
        """See Consumer.assign."""
        tps = as_partitions(partitions)
        check_overlap(self.topics, tps)
        with self._using("assign"):
            reader = self.reader
            gone = [reader.claims[tp] for tp in self.static if tp not in tps]
            fresh = [Claim(tp) for tp in tps if tp not in self.static]
            if gone:
                self._commit_finished(reader.ticket, COMMIT_SECONDS, {claim.tp for claim in gone})
                reader.release(gone)
            reader.adopt(fresh)
            self.static = dict.fromkeys(tps)
            self._post(lambda _: self.member.fetcher.drop(gone))
            self._post(lambda _: self.member.fetcher.adopt(fresh, Start.COMMITTED))

    def unsubscribe(self) -> None:
        """See Consumer.unsubscribe."""
        with self._using("unsubscribe"):
            try:
                self._part(self.client.loop.now() + PARTING_SECONDS, in_hand=False)
            finally:
                self.reader.drain()
                self.topics, self.listener, self.reader.fatal = (), None, None

    def _part(self, deadline: float, *, in_hand: bool) -> None:
        """Commit, tell the listener, give everything up, leave the group: as far as `deadline` allows.

        With `in_hand` the list that the last poll handed out counts as finished.
        What is buffered goes first, so nothing may keep the rest from being done: reading on would pass over it.
        """
        reader, now = self.reader, self.client.loop.now
        ticket, claims, patience = reader.ticket, list(reader.claims.values()), 0.0
        reader.purge(claims)
        parting, self._parting = self._parting, None
        try:
            if parting is None:
                self.reader.settle(in_hand=in_hand)
                parting = self._commit_finished(ticket, max(PARTING_LEAST, deadline - now()))
            _settled(parting, max(0.0, deadline - now()))
            if ticket is not None:
                self._tell_end(ticket)
            patience = LEAVE_SECONDS
        finally:
            reader.release(claims)
            reader.ticket, self.static = None, {}
            self._post(lambda _: self.member.fetcher.drop(claims))
            self._say_goodbye(min(patience, max(0.0, deadline - now())))

    def _say_goodbye(self, patience: float) -> None:
        left: Promise[None] = self.client.loop.promise(self.member)
        self._post(lambda now: self.member.leave(now, patience, lambda: left.set_result(None)))
        _settled(left, patience + 1)

    # ---------------------------------------------------------------- positions

    def _assigned(self, partitions: Partitions | None, what: str) -> list[TopicPartition]:
        if partitions is None:
            return list(self.reader.claims)
        tps = as_partitions(partitions)
        for tp in tps:
            if tp not in self.reader.claims:
                raise ConfigError(f"{what}: {tp} is not assigned to this consumer; assignment() says what is")
        return list(tps)

    def seek(self, partitions: Partitions | None, start: Start | int, what: str) -> None:
        """See Consumer.seek and its relatives."""
        with self._using(what):
            self.reader.seek_all(self._assigned(partitions, what), start)

    def position(self, tp: TopicPartition, timeout: float) -> int:
        """See Consumer.position."""
        with self._using("position"):
            self._assigned((tp,), "position")

            def known() -> bool:
                self.reader.drain()
                return self.closing or self.reader.fatal is not None or self.reader.next_offset(tp) is not None

            if not self.signal.wait(known, timeout):
                raise KafkaTimeoutError(f"position of {tp}: not known after {timeout:g} s; status() says what it waits for")
            self.check()
            offset = self.reader.next_offset(tp)
            if offset is None:
                assert self.reader.fatal is not None
                raise self.reader.fatal.again()
            return offset

    def lag(self, tp: TopicPartition) -> int | None:
        """See Consumer.lag."""
        with self._using("lag"):
            self._assigned((tp,), "lag")
            position, end = self.reader.position(tp), self.reader.claims[tp].end
            return None if position is None or end < 0 else max(0, end - position)

    def pause(self, partitions: Partitions) -> None:
        """See Consumer.pause."""
        with self._using("pause"):
            tps = self._assigned(partitions, "pause")
            self.reader.pause(*tps)
            claims = [self.reader.claims[tp] for tp in tps]
            self._post(lambda _: self.member.fetcher.pause(*claims))

    def resume(self, partitions: Partitions) -> None:
        """See Consumer.resume."""
        with self._using("resume"):
            tps = self._assigned(partitions, "resume")
            self.reader.resume(*tps)
            claims = [self.reader.claims[tp] for tp in tps]
            self._post(lambda _: self.member.fetcher.resume(*claims))

    # ---------------------------------------------------------------- commits

    def commit(self, offsets: Offsets | None, timeout: float) -> None:
        """See Consumer.commit."""
        places = self._places(offsets)
        ticket = self._ticket_for(places)
        if not places:
            return
        promise = self._send_commit(places, ticket, timeout)
        error = promise.result(timeout + SHORT)
        if error is not None:
            try:
                raise error
            finally:
                del error, promise  # the error, its traceback and this frame would be a cycle, which keeps a forgotten consumer open

    def commit_async(self, offsets: Offsets | None, on_done: OnDone | None) -> None:
        """See Consumer.commit_async."""
        check_on_done(on_done)
        if on_done is not None and len(self._owed) >= MOST_OWED:
            raise BufferFull(f"{MOST_OWED:,} callbacks of commit_async have not run yet: the callback executor is busy or blocked")
        places = self._places(offsets)
        promise = self._send_commit(places, self._ticket_for(places), COMMIT_SECONDS)
        if on_done is not None:
            self._owed.append(None)
            promise.add_done_callback(lambda p: self.client.callbacks.post(lambda: self._call_back(on_done, places, p)))

    def _call_back(self, on_done: OnDone, places: dict[TopicPartition, OffsetAndMetadata], promise: Promise[KafkaError | None]) -> None:
        self._owed.pop()
        on_done(places, _outcome(promise))

    def _places(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        self.check()
        if self.config.group_id is None:
            raise ConfigError("commit needs a group_id: offsets are stored under the group's name")
        if offsets is None:
            with self._using("commit"):
                reached = self.reader.reached()
                self.reader.finished.update(reached)  # the application says so; else the next auto-commit would go back behind this one
                return _places(reached)
        places = as_offsets(offsets)
        self.reader.finished.update({tp: (at.offset, at.leader_epoch) for tp, at in places.items() if tp in self.reader.claims})
        return places

    def _ticket_for(self, places: Mapping[TopicPartition, OffsetAndMetadata]) -> Ticket | None:
        """The membership to commit under. Without one a subscribed consumer has nothing it may commit."""
        ticket = self.reader.ticket
        lost = self._lost if ticket is None else ticket.reason if ticket.ending is Ending.LOST else ""
        if self.topics and (lost or (ticket is None and places)):
            why = f"{lost}; poll joins the group again" if lost else "poll joins the group"
            raise GroupError(ILLEGAL_GENERATION, "commit", f"this consumer holds no partitions of the group now: {why}")
        strange = [tp for tp in places if tp not in self.reader.claims] if self.topics else []
        if strange:  # the coordinator would take it, and the next owner would begin there
            raise GroupError(ILLEGAL_GENERATION, "commit", f"{names_of(strange)}: not assigned to this consumer; assignment() says what is")
        return ticket

    def _send_commit(
        self, places: dict[TopicPartition, OffsetAndMetadata], ticket: Ticket | None, timeout: float
    ) -> Promise[KafkaError | None]:
        promise: Promise[KafkaError | None] = self.client.loop.promise(self.member)
        wanted = dict(places)
        self._post(lambda now: self.member.commit(wanted, ticket, now + timeout, promise.set_result))
        return promise

    def _commit_finished(
        self, ticket: Ticket | None, timeout: float, only: Iterable[TopicPartition] | None = None
    ) -> Promise[KafkaError | None]:
        """Auto-commit before partitions go. Failing is logged by the loop: the records are read again, which at-least-once allows."""
        finished = self.reader.settle()
        chosen = finished if only is None else {tp: finished[tp] for tp in only if tp in finished}
        allowed = self.config.enable_auto_commit and self.config.group_id is not None
        if not chosen or not allowed or (ticket is None and self.topics) or (ticket is not None and ticket.ending is Ending.LOST):
            done: Promise[KafkaError | None] = Promise()
            done.set_result(None)
            return done
        promise: Promise[KafkaError | None] = self.client.loop.promise(self.member)
        self._post(lambda now: self.member.commit_last(_places(chosen), ticket, now + timeout, promise.set_result))
        return promise

    def committed(self, partitions: Partitions, timeout: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See Consumer.committed."""
        self.check()
        if self.config.group_id is None:
            raise ConfigError("committed needs a group_id: offsets are stored under the group's name")
        tps = as_partitions(partitions)
        if not tps:
            return {}
        promise: Promise[Found | KafkaError] = self.client.loop.promise(self.member)
        self._post(lambda now: self.member.offsets.lookup(tps, now + timeout, lambda _, found: promise.set_result(found)))
        found = promise.result(timeout + SHORT)
        if isinstance(found, KafkaError):
            try:
                raise found
            finally:
                del found, promise  # no cycle with this frame, which would keep a forgotten consumer open
        return {tp: found[tp] for tp in tps}

    # ---------------------------------------------------------------- the rest

    def status(self) -> dict[str, Any]:
        """See Consumer.status."""
        if (failure := self.client.engine.failure(self.member)) is not None:
            return {"state": "crashed", "reason": str(failure)}
        try:
            return self.client.loop.ask(self.member.status, SHORT, "the consumer's status")
        except KafkaError as error:
            return self.client.why_unknown(error)

    def stats(self) -> dict[str, int]:
        """See Consumer.stats."""
        delivered = self.member.fetcher.positions.delivered
        waiting = delivered - self.reader.consumed
        return {"fetched_bytes": delivered, "buffered_bytes": waiting, "partitions": len(self.reader.claims)}

    def close(self, timeout: float | None = None, *, failed: bool | None = None) -> None:
        """See Consumer.close. `failed`: the application was interrupted in its work with what the last poll handed out."""
        if failed is None:
            failed = self._interrupted()
        self._close(timeout, in_hand=not failed and self._reads is system.current_thread())

    def _close(self, timeout: float | None, *, in_hand: bool) -> None:
        if self.closed or self.client.loop.forked:  # a forked child must not touch what its parent may have locked
            return
        self._check_whole("close")
        mine = (system.current_thread(), object())
        closer = self._closer.setdefault("closer", mine)
        if closer is not mine:
            if self._inside(closer[0]):
                return
            self._closer["closer"] = mine  # Ctrl-C ended the close before
        self.closing = True
        timeout = CLOSE_SECONDS if timeout is None else timeout
        deadline = system.monotonic() + timeout
        self.reader.interrupt()
        self.signal.notify()
        try:
            with self._using_last(timeout):
                if self.client.loop.alive:  # a crashed one has nobody to tell
                    self._part(self.client.loop.now() + max(0.0, deadline - system.monotonic()), in_hand=in_hand)
        finally:  # whatever the listener raised, Ctrl-C included: the member goes, and a client of its own with it
            self.client.loop.call(lambda _: self.client.engine.remove(self.member))  # also where it has failed
            self.client.loop.call(lambda _: self.member.gone())
            self.client.detach(self)
            self.closed = True
            self._closer.clear()

    @contextlib.contextmanager
    def _using_last(self, timeout: float) -> Iterator[None]:
        """Have the consumer for closing it. Another thread's poll ends now; its listener may take a while, up to `timeout` seconds."""
        me = system.current_thread()
        inside = self._busy.get("user", (None, ""))[0] is me
        if not inside:
            self.signal.wait(self._unused, timeout)
            self._busy["user"] = (me, "close")
        try:
            yield
        finally:
            if not inside:
                self._busy.clear()

    def _unused(self) -> bool:
        """Whether no other thread is in a call of this consumer."""
        holder = self._busy.get("user")
        return holder is None or not self._inside(holder[0])

    def drain(self, timeout: float) -> None:
        """At interpreter exit: commit what is finished, leave the group. Nobody said that the list in hand is."""
        self.close(timeout, failed=True)

    @staticmethod
    def forgotten(core: Session) -> None:
        """The handle was collected while open: say so and close on another thread, since the collector must not wait."""
        if not core.closed and core.client.loop.alive:
            # the collector may run on the loop thread, and what shows warnings is the application's
            logs.current().aside(lambda: warnings.warn("a Consumer was not closed; use `with`, or close()", ResourceWarning, stacklevel=3))
            core.client.callbacks.post(lambda: core.close(LEAVE_SECONDS, failed=True))


CALLS: Final = frozenset(
    method.__code__
    for method in (
        Session.poll,
        Session.subscribe,
        Session.assign,
        Session.unsubscribe,
        Session.seek,
        Session.position,
        Session.lag,
        Session.pause,
        Session.resume,
        Session.commit,
        Session.commit_async,
        Session.close,
    )
)  # what applications call: each of them has the consumer while it is on a thread's stack


def _settled(promise: Promise[Any], timeout: float | None) -> bool:
    """Whether it is done within `timeout` seconds, however it ended."""
    if promise.done():
        return True
    with contextlib.suppress(KafkaTimeoutError):
        promise.exception(timeout)
    return promise.done()


def _outcome(promise: Promise[KafkaError | None]) -> KafkaError | None:
    error = promise.exception(0)
    if error is not None:
        return error if isinstance(error, KafkaError) else KafkaError(str(error))
    return promise.result(0)


def _places(reached: Mapping[TopicPartition, Place]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(offset, epoch) for tp, (offset, epoch) in reached.items()}
