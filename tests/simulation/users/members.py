"""Applications that consume. Each member is a process of its own, which uses the public API as applications do: it polls or iterates, is
slow, seeks, pauses, commits, asks for positions, closes its consumer, leaves a `with` block, forgets the handle, or dies.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from pykafka4 import Client, Consumer, SubscriptionPattern
from pykafka4.errors import ClosedError, ConfigError, InvalidOffset, KafkaError, KafkaTimeoutError, LogTruncated, OffsetOutOfRange
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.inspection import inspect
from tests.simulation.judge.handed import Reading
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.consumer_features import EXCLUDED, PATTERN, REMOTE_PATTERN, is_for_tasks, protocol_of
from tests.simulation.plans.consumer_plan import COOPERATIVE
from tests.simulation.users.applications import judge_time, timed
from tests.simulation.users.companion import Companion
from tests.simulation.users.rare_calls import RareCalls
from tests.simulation.users.task_handle import TaskHandle
from tests.simulation.world.crashes import Crashed
from tests.simulation.world.virtual import Process
from tests.simulation.world.weather import VirtualTransport, Weather

if TYPE_CHECKING:
    from tests.simulation.plans.consumers import ConsumerSimulation

__all__ = ["Member"]

COMMIT_AGAIN_S: Final = 5.0  # virtual seconds; only the application repeats a commit that found no coordinator in its time
MOST_COMMITS: Final = 5  # under way without anybody waiting
CLOSE_SECONDS: Final = 5.0
RARELY: Final = 0.02  # how likely, between two polls, is a call that only some applications make
BLOCK_SECONDS: Final = 10.0  # what the end of a `with` block may take
LEAVE_SECONDS: Final = 5.0  # what the client takes to close a consumer that was forgotten
AFTER_CRASH_S: Final = 1.0  # seconds in which every call has ended
WAYS: Final = ("close", "close", "with", "with and exception", "forget", "unsubscribe")  # how the application ends


class Interrupted(Exception):
    """What the application raises in its own code, or in a listener."""


class Member:
    """One process with a consumer in it."""

    def __init__(self, sim: ConsumerSimulation, number: int, instance: str | None) -> None:
        self.sim, self.number, self.instance = sim, number, instance
        self.name = f"m{number}"
        self.process = Process(self.name)
        self.weather = Weather(sim.timeline, sim.random, sim.cluster, sim.plan.climate, sim.note)
        self.weather.on_failed = lambda node: sim.disturb(0.0, node=node)
        self.transport: VirtualTransport | None = None
        self.protocol = protocol_of(sim.plan, number)
        self.strategies = sim.plan.strategies[(number - 1) % len(sim.plan.strategies)]
        self.reading = Reading(sim, self.name, sim.policy, keeps=self.strategies == COOPERATIVE)
        self.in_hand: list[Record] = []
        self.alive = True
        self.ending = False
        self.working_long = False  # perhaps beyond its lease: it is out of the group then
        self.consumer: Consumer | None = None
        self.companion: Companion | None = None
        self.crash = Crashed(self)
        self.callbacks: dict[int, int] = {}  # of commit_async: how often each was called
        self.unanswered = 0
        self.polled = sim.timeline.now  # when a poll last returned, or a loop had its next record
        self.call: tuple[str, float] | None = None  # the one under way, and since when
        self._session: Any = None
        self.iterates = sim.random.random() < sim.plan.iterate and sim.plan.options["enable_auto_commit"]
        self._batches = sim.random.random() < 0.3
        self._way = sim.random.choice(WAYS) if not self.iterates else sim.random.choice(WAYS[:-1])
        self._raises = sim.random.random() < 0.1  # its listener, now and then
        self._commits_back = sim.random.random() < 0.3  # in its listener
        self.tasks: TaskHandle | None = None  # of a member that uses asyncio, the same as `consumer`
        self.for_tasks = is_for_tasks(sim.plan, number)
        if self.for_tasks:  # one thread uses the consumer, and a listener cannot wait for a call that runs the event loop
            self.iterates = self._commits_back = False
            self._way = "unsubscribe" if self._way == "unsubscribe" else "close"
        self._raised: Interrupted | None = None
        self._polling = False
        self._commit_again_at = sim.timeline.now + COMMIT_AGAIN_S
        self._rare = RareCalls(self)
        sim.ledger.on_cut.append(self.reading.cut)

    def begin(self) -> None:
        """Start the process."""
        self.sim.world.spawn(self._run, self.name, self.process)

    @property
    def running(self) -> bool:
        """Whether anything of the process still uses the network."""
        return self.alive or (self.companion is not None and self.companion.reads and not self.process.killed)

    # ---- the listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They are ours."""
        self.sim.note(f"{self.name} gets {[str(tp) for tp in partitions]}")
        self.sim.check_alone(self, partitions)
        self.reading.begin(partitions)
        self._perhaps_raise()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """The partitions are lost, unless this member was never told of the assignment."""
        self.sim.note(f"{self.name} gives back {[str(tp) for tp in partitions]}")
        if self._commits_back and self._polling and set(partitions) <= set(self.reading.owned):
            self._commit_and_wait(limit=1.0)
        self.reading.end(partitions)
        self._perhaps_raise()

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may have them."""
        self.sim.note(f"{self.name} loses {[str(tp) for tp in partitions]}")
        self.sim.upset()
        self.reading.end(partitions, lost=True)

    def _perhaps_raise(self) -> None:
        if self._raises and self._polling and self.sim.random.random() < 0.3:
            self._raised = Interrupted("a listener that raises")
            raise self._raised

    # ---- its main loop

    def _run(self) -> None:
        sim = self.sim
        sim.world.sleep(sim.random.random() * 0.1)
        consumer = self._open()
        if self.iterates:  # iteration waits without end: another thread closes the consumer when the process is to end
            sim.world.spawn(self._interrupt, f"{self.name} closer", self.process)
        if "pattern" in sim.plan.features and self.protocol == "consumer" and sim.plan.seed % 2:
            consumer.subscribe(SubscriptionPattern(REMOTE_PATTERN), self)  # the coordinator matches topics, and nothing can be excluded
        elif "pattern" in sim.plan.features:
            consumer.subscribe(PATTERN, self, exclude=EXCLUDED)
        else:
            consumer.subscribe(sorted(sim.plan.topics), self)
        try:
            if self._way.startswith("with"):
                self._in_block(consumer)
            else:
                del consumer
                self._go_on()
        except ClosedError:
            if not self.ending:
                raise
        except KafkaError:
            if self.crash.at is None:
                raise
            self._use_what_crashed()
        self._end()

    def _open(self) -> Consumer:
        sim = self.sim
        options = {**sim.plan.options, "client_id": self.name, "partition_assignment_strategy": list(self.strategies)}
        if self.instance is not None:
            options["group_instance_id"] = self.instance
        if self.protocol == "consumer":
            for name in ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"):  # the coordinator has them
                del options[name]
            options["group_protocol"] = "consumer"
        if sim.plan.companion and self.number == 1:
            theirs = {name: options.pop(name) for name in list(options) if name in CLIENT_OPTIONS}
            client = Client(bootstrap_servers=sim.servers, **theirs)
            self.companion = Companion(self, client)
            consumer = self.consumer = Consumer(client=client, **options)
            sim.world.spawn(self.companion.run, f"{self.name} companion", self.process)
        elif self.for_tasks:
            self.tasks = TaskHandle(self, bootstrap_servers=sim.servers, **options)
            consumer = self.consumer = cast("Consumer", self.tasks)
        else:
            consumer = self.consumer = Consumer(bootstrap_servers=sim.servers, **options)
        self._session = inspect(consumer).session
        self.crash.session = self._session
        return consumer

    def _in_block(self, consumer: Consumer) -> None:
        """Leave a `with` block, also by an exception."""
        left = self.sim.timeline.now
        try:
            with consumer:
                try:
                    self._go_on()
                finally:
                    left = self.sim.timeline.now
                if self._way != "with":
                    raise Interrupted("the application's own")
                if not self.iterates:
                    self.finish()
        except Interrupted as error:
            if str(error) != "the application's own":
                raise
        finally:
            judge_time(self.sim, "the end of a with block", left, BLOCK_SECONDS + 1.0)

    def _go_on(self) -> None:
        batches, limit = None, 0.0
        while not self.ending:
            if self.iterates:
                self._iterate()
            elif self._batches:
                if batches is None:
                    limit = self.sim.random.choice((0.0, 0.05, 0.5))
                    batches = self.current_consumer().batches(limit)
                if not self._poll(batches.__next__, limit):
                    batches = None  # an exception ends a generator
            else:
                self._poll_somehow()

    def _poll_somehow(self) -> None:
        """`poll` with some timeout; now and then another thread wakes it up."""
        sim = self.sim
        if sim.random.random() < 0.97:
            limit = sim.random.choice((0.0, 0.0, 0.05, 0.5))
            self._poll(lambda: self.current_consumer().poll(limit), limit)
            return
        soon = sim.random.uniform(0.0, 0.5)
        polled = weakref.ref(self.current_consumer())  # the poll may be over, and the handle forgotten, when this thread wakes up

        def wake() -> None:
            sim.world.sleep(soon)
            consumer = polled()
            if consumer is not None:
                consumer.wakeup()

        sim.world.spawn(wake, f"{self.name} waker", self.process)
        self._poll(lambda: self.current_consumer().poll(5.0), soon)

    def _poll(self, poll: Any, limit: float) -> bool:
        """Have records from `poll`, which may take `limit` seconds; whether it did not raise."""
        self.finish()
        records: list[Record] = []
        raised, asked = False, self.sim.timeline.now
        try:
            with self.calling("poll", limit + (1.0 if self._commits_back else 0.0)):
                records = poll()
        except (KafkaError, Interrupted) as error:
            self._excuse(error)
            raised = True
        for record in records:
            self.reading.take(record)
        self.in_hand = records
        if not raised:
            cancelled = self.tasks is not None and self.tasks.cancelled
            self.sim.used["polls cancelled"] += cancelled
            self.reading.looked(asked, emptied=len(records) < self.sim.plan.options["max_poll_records"] and not cancelled)
        self._work(len(records))
        return not raised

    def _iterate(self) -> None:
        """A `for` loop, left by `break` or by an exception now and then."""
        sim = self.sim
        left = sim.random.choice((1, 20, 200))
        self.finish()  # the record that the last loop was left with counts as finished when another one asks for the next
        try:
            with self.calling("iteration", None):
                asked = sim.timeline.now
                for record in self.current_consumer():
                    self.call, self._polling = None, False
                    self.reading.take(record)
                    self.reading.looked(asked, emptied=sim.timeline.now > asked + 0.01)
                    self.in_hand = [record]
                    self._work(1)
                    left -= 1
                    if self.ending or left <= 0:
                        break
                    self.finish()
                    self.call, self._polling, asked = ("iteration", sim.timeline.now), True, sim.timeline.now
        except (KafkaError, Interrupted) as error:
            self._excuse(error)

    def _interrupt(self) -> None:
        """The thread that ends an iteration."""
        while not self.ending and self.alive and self.crash.at is None:
            self.sim.world.park(0.1)
        if self.alive and self.crash.at is None and self.consumer is not None and not self.process.killed:
            with contextlib.suppress(KafkaError, Interrupted):  # what a listener raises comes out of `close`
                self.consumer.close(CLOSE_SECONDS)

    @contextlib.contextmanager
    def calling(self, what: str, limit: float | None) -> Iterator[None]:
        """A call is under way, which ends within `limit` seconds."""
        sim = self.sim
        outer, self.call = self.call, (what, sim.timeline.now)
        self._polling = what in ("poll", "iteration")
        try:
            if limit is None:
                yield
            else:
                with timed(sim, what, limit):
                    yield
        finally:
            self.call = outer
            self._polling = outer is not None and outer[0] in ("poll", "iteration")

    def current_consumer(self) -> Consumer:
        assert self.consumer is not None
        return self.consumer

    def finish(self) -> None:
        for record in self.in_hand:
            self.sim.ledger.finish(record)
        self.in_hand = []

    # ---- errors

    def _excuse(self, error: Exception) -> None:
        """Go on after an error that something outside the client explains."""
        if error is self._raised:
            self._raised = None
            return
        if self.crash.at is not None or isinstance(error, ClosedError):
            raise error
        if self.sim.fenced(error, self.instance):
            self.sim.note(f"{self.name}: {error}")
            self.close()  # another process is this instance now: this one ends
            return
        if isinstance(error, InvalidOffset):
            self._choose_offset(error)
        elif not self.sim.explains(error):
            raise Broken("no needless failure", f"{self.name}: poll raised {error!r}")
        self.sim.note(f"{self.name}: {error}")
        self.sim.world.sleep(0.02)

    def _choose_offset(self, error: InvalidOffset) -> None:
        """The client has no offset, and auto_offset_reset is none."""
        sim, tp = self.sim, TopicPartition(error.topic, error.partition)
        position, log = self.reading.owned.get(tp), sim.ledger.log(tp)
        if sim.policy != "none" or position is None:
            raise Broken("no needless failure", f"{self.name} is asked where to read: {error!r}")
        if isinstance(error, OffsetOutOfRange):
            # by another election, between the error and the seek
            overtaken = position.sought and not position.handed and tp in sim.ledger.cuts
            wrong = position.at is not None and position.at > log.start_offset and not position.cuts and not overtaken
        elif isinstance(error, LogTruncated):
            # Where the epochs of the log end, which is the cut but for a gap before the next record. The old log may lead again meanwhile.
            cuts = [cut.end for cut in sim.ledger.cuts.get(tp, ())]
            following = {sim.ledger.next_in_log(tp, max(end, log.start_offset)) for end in cuts}
            wrong = sim.ledger.next_in_log(tp, max(error.truncated_to, log.start_offset)) not in following
        else:
            wrong = sim.ledger.last.get(tp, -1) >= 0 and position.at is None
        if wrong and tp not in sim.ledger.gone:  # the group forgets the offsets of a topic that is deleted
            raise Broken("no needless failure", f"{self.name} is asked where to read on, without need: {error!r}; {position}")
        # What has been finished is read again from there, nothing is left out.
        at = error.truncated_to if isinstance(error, LogTruncated) else log.start_offset
        if not isinstance(error, LogTruncated):
            sim.ledger.deleted(tp, at)  # the next leader may still have it
        self.current_consumer().seek(tp, at)
        self.reading.sought(tp, at)

    def _use_what_crashed(self) -> None:
        """Every call raises the crash, at once."""
        consumer, tps = self.current_consumer(), sorted(self.reading.owned) or [TopicPartition("t", 0)]
        calls: dict[str, Callable[[], object]] = {
            "poll": lambda: consumer.poll(5.0),
            "commit": lambda: consumer.commit({tps[0]: 0}, 5.0),
            "committed": lambda: consumer.committed(tps, 5.0),
            "seek": lambda: consumer.seek(tps[0], 0),
        }
        for what, call in calls.items():
            try:
                with self.calling(what, 0.0):
                    call()
            except KafkaError:
                continue
            raise Broken("a crash is told", f"{self.name}: {what} raised nothing after a crash: {self.crash.what}")

    # ---- what else applications do

    def _work(self, records: int) -> None:
        sim = self.sim
        self.polled = sim.timeline.now
        if not sim.healed and sim.random.random() > 0.995:
            self._rare.work_long(sim.random.uniform(2.0, 6.0), self.polled)  # now and then for longer than max_poll_interval_ms allows
            sim.upset()
        elif not self.iterates:
            sim.world.sleep(sim.random.choice((0.001, 0.01, 0.05)) if records else sim.random.uniform(0.02, 0.3))
        elif sim.random.random() < 0.1:
            sim.world.sleep(0.01)
        if self.ending:
            return
        if not sim.plan.options["enable_auto_commit"] and (records or sim.timeline.now > self._commit_again_at):
            self._commit()
        if sim.healed and self.reading.paused:
            self._pause()
        if sim.random.random() < sim.plan.calls:
            sim.random.choice((self._seek, self._pause, self._position, self._committed, self._commit_and_wait))()
        if self._rare.calls and sim.random.random() < max(sim.plan.calls, RARELY):
            sim.random.choice(self._rare.calls)()

    def _commit(self) -> None:
        if not self.iterates:
            self.finish()
        if self.unanswered >= MOST_COMMITS:  # they go out one by one: a flood of them only delays the last
            return
        self._commit_again_at = self.sim.timeline.now + COMMIT_AGAIN_S
        number = len(self.callbacks)
        self.callbacks[number] = 0
        self.unanswered += 1

        def told(offsets: object, error: object) -> None:
            self.callbacks[number] += 1
            self.unanswered -= 1

        try:
            with self.calling("commit_async", 0.0):
                self.current_consumer().commit_async(None, told)
        except KafkaError as error:
            del self.callbacks[number]
            self.unanswered -= 1
            self.excuse_call("commit_async", error, self.sim.timeline.now)

    def _commit_and_wait(self, limit: float | None = None) -> None:
        sim = self.sim
        limit = limit or sim.random.choice((0.5, 3.0))
        if self.iterates and not self._polling:
            return
        self.finish()
        wanted = {
            tp: position.at
            for tp, position in self.reading.owned.items()
            if position.at is not None and not position.cuts and position.known
        }
        began = sim.timeline.now
        try:
            with self.calling("commit", limit):
                self.current_consumer().commit(timeout=limit)
        except KafkaError as error:
            self.excuse_call("commit", error, began)
            return
        for tp, at in wanted.items():
            stored = sim.ledger.most.get(tp, -1)
            if stored < at and tp not in sim.ledger.gone:
                raise Broken("a commit that returned is stored", f"{self.name} {tp}: {at} was committed, {stored} is stored")

    def excuse_call(self, what: str, error: KafkaError, began: float) -> None:
        """A call may fail when the group changes, or while nothing could be asked; in any case the next poll raises a crash."""
        if self.crash.at is None and not self.ending and not self.sim.explains_call(error, began):
            raise Broken("no needless failure", f"{self.name}: {what} failed, begun at {began:.3f}: {error!r}") from error

    def _seek(self) -> None:
        owned = self.reading.owned
        if not owned or self.sim.healed:
            return
        sim = self.sim
        tp = sim.random.choice(sorted(owned))
        log, reached = sim.ledger.log(tp), owned[tp].at
        if reached is not None and sim.policy == "latest":  # from behind the end of a log that was cut, reading continues at any later end
            reached = min(reached, log.end_offset)
        if reached is None or reached <= log.start_offset:
            return
        self.finish()
        offset = sim.random.randint(log.start_offset, reached)
        sim.note(f"{self.name} seeks {tp} to {offset}")
        with contextlib.suppress(ConfigError), self.calling("seek", 0.0):  # revoked meanwhile
            self.current_consumer().seek(tp, offset)
            self.reading.sought(tp, offset)
            sim.ledger.went_back(tp, offset)

    def _pause(self) -> None:
        consumer, paused = self.current_consumer(), self.reading.paused
        if paused:
            with contextlib.suppress(ConfigError), self.calling("resume", 0.0):
                consumer.resume(sorted(paused))
            paused.clear()
        elif self.reading.owned and not self.sim.healed and not self.iterates:  # a loop that waits for records could not resume
            tp = self.sim.random.choice(sorted(self.reading.owned))
            with contextlib.suppress(ConfigError), self.calling("pause", 0.0):
                consumer.pause([tp])
                paused.add(tp)

    def _position(self) -> None:
        ledger = self.sim.ledger
        for tp, position in list(self.reading.owned.items()):
            at = position.at
            if at is not None:
                with contextlib.suppress(ConfigError, KafkaTimeoutError, InvalidOffset), self.calling("position", 0.0):
                    told = self.current_consumer().position(tp, 0.0)
                    following, start = ledger.next_in_log(tp, at), ledger.log(tp).start_offset
                    reset = ledger.latest and at < start  # out of range: on at the end of the log
                    skips = following is not None and told > following >= start and not reset
                    if self.reading.owned.get(tp) is position and not position.cuts and (told < at or skips) and tp not in ledger.cuts:
                        raise Broken("positions never skip", f"{self.name} {tp}: position {told}, {at} to {following} is next")

    def _committed(self) -> None:
        sim, limit = self.sim, self.sim.random.choice((0.5, 3.0))
        tps, began = sorted(self.reading.owned), self.sim.timeline.now
        try:
            with self.calling("committed", limit):
                found = self.current_consumer().committed(tps, limit)
        except KafkaError as error:
            self.excuse_call("committed", error, began)
            return
        for tp, at in found.items():
            if at is not None and at.offset > sim.ledger.most.get(tp, -1):
                raise Broken("nothing unfinished is committed", f"{tp}: committed() says {at.offset}, which nobody committed")

    @property
    def group_id(self) -> str:
        """What the group knows it by."""
        return self._session.machine.membership.protocol.member_id if self._session is not None else ""

    def state(self) -> str:
        """What its membership is in the middle of."""
        return self._session.machine.membership.state.name.lower() if self._session is not None else "starting"

    def generation(self) -> int:
        """The generation that the client is in; -1 out of the group."""
        identity = None if self._session is None else self._session.machine.membership.protocol.identity
        return -1 if identity is None else int(identity.generation)

    def status(self) -> object:
        """For the message of a broken promise."""
        return self._session.machine.status(self.sim.timeline.now) if self._session is not None else "starting"

    # ---- its ends

    def _end(self) -> None:
        """The application ends, in one of the ways in which applications do."""
        sim, crashed = self.sim, self.crash.at is not None
        sim.note(f"{self.name} ends: {self._way}")
        if self._way == "forget" and not self.iterates and not crashed:
            self._forget()
        elif not self._way.startswith("with") or crashed:
            failed = sim.random.random() < 0.3  # the application was interrupted in its work: what it has in hand is not finished
            if not self.iterates and not failed:
                self.finish()
            if self._way == "unsubscribe" and not crashed and not failed:
                with self.calling("unsubscribe", 2 * BLOCK_SECONDS):
                    self.current_consumer().unsubscribe()
            with self.calling("close", AFTER_CRASH_S if crashed else CLOSE_SECONDS + 1.0):
                (self.tasks or self._session).close(CLOSE_SECONDS, failed=failed)
        self._gone()

    def _forget(self) -> None:
        """Drop the handle: the client closes the consumer by itself."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self.consumer = None
        with self.calling("the close of a forgotten consumer", LEAVE_SECONDS + 1.0):
            end = self.sim.timeline.now + 3 * LEAVE_SECONDS
            while not self._session.closed and self.sim.timeline.now < end:
                self.sim.world.park(0.1)

    def _gone(self) -> None:
        self.alive = False
        self.sim.upset()
        self.sim.freed(self.instance)
        if self.sim.healed and not self.sim.living():
            self.sim.join()
        if self.companion is not None and not self.process.killed:
            self.companion.alone()

    def close(self) -> None:
        """Have the application end; sometimes another thread of it closes the consumer."""
        self.ending = True
        self.sim.upset()
        if self._session is None:
            self.die()

    def die(self) -> None:
        """SIGKILL."""
        if self.alive:
            self.sim.note(f"{self.name} dies")
            self.process.killed = True
            self.sim.killed[self.instance] = self.sim.timeline.now
            if self.transport is not None:
                self.transport.die()
            self._gone()

    def uncalled(self) -> set[int]:
        """The commits whose callback has not been called and still has to be."""
        return set() if self.process.killed else {number for number, times in self.callbacks.items() if not times}

    def check_callbacks(self, due: set[int]) -> None:
        """No callback was called twice, and those of `due` were called."""
        wrong = [number for number, times in self.callbacks.items() if times > 1] + sorted(due & self.uncalled())
        if wrong:
            raise Broken("callbacks of commits run once", f"{self.name}: (commit, times called): {[(n, self.callbacks[n]) for n in wrong]}")


def _names(kind: Any) -> Iterable[str]:
    return [field.name for field in kind.__attrs_attrs__]


CLIENT_OPTIONS: Final = frozenset(_names(ClientConfig))
