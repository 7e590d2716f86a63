"""Carries out the calls of a share consumer on application threads: subscriptions, polls, acknowledgements, `close`. Calls that wait have a
deadline, except `poll(timeout=None)`.

With implicit acknowledgement, a poll first accepts the records in hand. A poll has brokers acquire records only if no records of earlier
responses are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any, Final

from pykafka4.client.attachment import LOOP_ANSWER_S, read_config
from pykafka4.client.client import Client
from pykafka4.client.push import Pushing
from pykafka4.consumer.arguments import check_limit, check_on_done
from pykafka4.consumer.guard import Guard, Iteration, call
from pykafka4.consumer.hooks import PollCalls
from pykafka4.consumer.polling_session import PollingSession
from pykafka4.core import INFINITY
from pykafka4.core.share.machine import ShareMachine
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.values import AcknowledgementReport, Acknowledgements, AcknowledgeType, Acquired
from pykafka4.errors import BufferFull, ConfigError, KafkaError, KafkaTimeoutError, UnsupportedVersion, shown
from pykafka4.logs import get_log
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.share.delivered import LOOP, DeliveredRecords, Outgoing, as_type, name_some
from pykafka4.share.record import ShareRecord

__all__ = ["OnAcknowledged", "Results", "ShareConsumerSession"]

log = get_log("pykafka4.share")

Results = dict[TopicPartition, "KafkaError | None"]
Types = Mapping[Acquired, Mapping[int, AcknowledgeType]]
OnAcknowledged = Callable[[Results], Any]

# While decoded records are left for later polls, acknowledgements wait up to this many seconds for later acknowledgements, because each
# request is expensive. After a longer wait they might reach the broker only after the locks have ended.
FLUSH_S: Final = 0.1
# Polls and `commit_async` raise BufferFull while so many callbacks wait: bounds memory while the application blocks the executor.
MOST_OWED: Final = 10_000
WARN_INTERVAL_S: Final = 60.0  # seconds between two warnings about expired locks: a slow application loses locks with each poll


class RecordStep:
    """A block in which the records in hand change. A signal handler that uses the consumer meanwhile gets an error.

    `changing` stays set after an exception: the next call begins with `DeliveredRecords.recover`.
    """

    __slots__ = ("_records",)

    def __init__(self, records: DeliveredRecords) -> None:
        self._records = records

    def __enter__(self) -> None:
        self._records.changing = True

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._records.changing = False


class ShareConsumerSession(PollingSession[ShareMachine]):
    handle, kind = "ShareConsumer", "share consumer"
    config: ShareConsumerConfig

    def __init__(self, client: Client | None, executor: Executor | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ShareConsumerConfig, client, executor, options)
        self.connect(client, self.config, executor)
        super().__init__()
        self.mailbox = Mailbox(self.signal.notify)
        self.records = DeliveredRecords(self.mailbox, self.runtime.loop.now, self.config.max_decompressed_bytes)
        config = self.config
        self._hooks = PollCalls(config.hooks, config.client_id, config.group, self.runtime.loop.now) if config.hooks else None
        self.guard = Guard(self.records, self.signal, self.check)
        self._step = RecordStep(self.records)
        self.topics: tuple[str, ...] = ()
        self.on_acknowledged: OnAcknowledged | None = None
        self.acknowledged = 0  # records whose acknowledgements brokers have stored; the loop counts
        self.failed = 0  # records whose acknowledgements have failed; the loop counts
        self._owed: deque[None] = deque()  # one item for each callback that has not begun
        # Acknowledgements of polls. A timed call takes them at `_taken_at` or later; `_send` and `_leave` may take them earlier.
        self._collected: deque[Outgoing] = deque()
        self._taken_at = -INFINITY
        self._pause = 0.0  # seconds between the last two polls
        self._renews = True  # False after a renewal has failed because a broker cannot renew locks
        self._warned, self._warn_at = 0, -INFINITY  # expired records that warnings have counted; earliest time of the next warning
        self.machine = self.runtime.loop.ask(self._start, LOOP_ANSWER_S, "starting the share consumer")
        self.runtime.attach(self)

    def _start(self, now: float) -> ShareMachine:
        engine = self.runtime.engine
        machine = ShareMachine(self.config, engine.network, engine.cluster, engine.recovery, engine.random, self.mailbox)
        engine.add(machine, "share consumer")
        self.push_metrics(Pushing.SHARE, self._labels)
        return machine

    def _labels(self) -> Mapping[str, str | None]:
        group = {"group_id": self.config.group, "group_member_id": self.machine.member.member_id}
        return {"client_rack": self.config.client_rack, **group}

    # ---------------------------------------------------------------- subscription

    @call
    def subscribe(self, topics: object) -> None:
        with self.guard.using("subscribe"):
            if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
                raise TypeError(f"subscribe takes a list of topic names, not {shown(topics)}: share groups have no patterns")
            names = tuple(dict.fromkeys(check_topic(topic) for topic in topics))
            if not names:
                raise ConfigError("subscribe([]): no topics; call unsubscribe() to leave the group")
            # This waits for the loop, which clears `mailbox.fatal`: otherwise the next poll could raise the previous subscription's error.
            self.runtime.loop.ask(lambda _: self.machine.subscribe(names), LOOP_ANSWER_S, "subscribing", self.machine)
            with self._step:
                self.topics = names
                self.records.keep(names)
                self._send_if_any(self.records.collect_aside())

    @call
    def unsubscribe(self, timeout: float) -> None:
        with self.guard.using("unsubscribe"):
            self.topics = ()
            self.records.ready.clear()  # before the wait, which Ctrl-C may end: no later poll may return these records
            self._leave(timeout)
            self.mailbox.arrivals.clear()

    # ---------------------------------------------------------------- polling

    @call
    def poll(self, timeout: float | None = 1.0, max_records: int | None = None, iteration: Iteration | None = None) -> list[ShareRecord]:
        """`iteration` is the loop over single records that this poll is part of."""
        limit = check_limit(max_records, self.config.max_poll_records)
        timeout = check_timeout(timeout)
        if not self.guard.enter("poll"):
            raise self.guard.refusal("poll")
        delivered, guard = self.records, self.guard
        try:
            with self._step:
                self._begin_poll(limit, iteration)
            records = self._wait_for_records(INFINITY if timeout is None else self.runtime.loop.now() + timeout, limit)
            if self._hooks is not None:
                self._hooks.call_hooks(records)
            self._end_poll()
            # No call from here to the return (unless `close` waits), so no signal handler runs. In a call, Ctrl-C could end the poll after
            # `out` is empty: the caller would get no records, but they would be in hand, and the next poll would accept them unprocessed.
            delivered.out, delivered.changing = [], False
            guard.busy = {}
            if guard.closing:  # `close` waits for this poll to end, then releases its records
                self.signal.notify()
            return records
        except BaseException:  # including Ctrl-C: the next call finds `changing` set if records were taken
            self._end_poll()
            guard.leave()
            raise

    def _begin_poll(self, limit: int, iteration: Iteration | None) -> None:
        if iteration is not None or self.guard.iterations:
            self.guard.iterate(system.current_thread(), iteration)
        if not self.topics:
            raise ConfigError("poll: no topics; call subscribe first")
        if self.config.is_implicit:
            self.records.accept_all()
        elif unacknowledged := self.records.unacknowledged():
            raise KafkaError(
                f"poll: unacknowledged records of the last poll: {name_some(unacknowledged)}; accept, "
                "release, reject or renew each one first, or use share_acknowledgement_mode='implicit'"
            )
        mailbox = self.mailbox
        if mailbox.idle_since != INFINITY:
            self._pause = self.runtime.loop.now() - mailbox.idle_since
        mailbox.idle_since, mailbox.limit = INFINITY, limit
        self._reads = system.current_thread()
        self.handled.note()
        if self._hooks is not None:
            self._hooks.begin()

    def _end_poll(self) -> None:
        self.mailbox.waiting = self._woken = False
        self.mailbox.idle_since = self.runtime.loop.now()

    def _wait_for_records(self, deadline: float, limit: int) -> list[ShareRecord]:
        while True:
            records = self._take(limit)
            left = deadline - self.runtime.loop.now()
            if records or left <= 0 or self._woken:
                return records
            self.signal.wait(self._has_news, None if left == INFINITY else left)
            self.check()

    def _take(self, limit: int) -> list[ShareRecord]:
        """Take records that have arrived; if there are none, have brokers acquire some. Never waits."""
        mailbox = self.mailbox
        self.records.changing = True
        if mailbox.arrivals:  # first: see `Mailbox.wants`
            mailbox.waiting = False
            mailbox.taken += 1
        self.records.stock()
        if mailbox.fatal is not None:
            raise mailbox.fatal.again()
        if mailbox.notices:
            raise mailbox.notices.popleft()
        records = self.records.take(limit)
        self._flush(soon=bool(self.records.ready))
        if self.records.expired > self._warned:
            self._warn()
        if self.records.ready:
            self._renew()
        if not records:
            mailbox.waiting, taken = True, mailbox.taken
            self.post(lambda now: self.machine.want(now, taken))
            self.records.changing = False
        return records

    def _renew(self) -> None:
        """Renew the locks of waiting records, if the locks may end before polls return the records.

        Polls renew, not the loop: an application that has stopped polling must not withhold records from other members.
        """
        lock = self.mailbox.lock_seconds
        if lock is None or not self._renews:
            return
        found = self.records.renewals(max(lock / 2, 2 * self._pause))
        if not found:
            return
        report = AcknowledgementReport(self._renewed)
        parts = [Acknowledgements(acquired, dict.fromkeys(records, AcknowledgeType.RENEW), report) for acquired, records in found.items()]
        self.post(lambda _: self.machine.acknowledge(parts, report))
        # After the hand-over: if Ctrl-C comes before the `for` loop, the next poll renews the same locks again. In the other order, Ctrl-C
        # could leave records that refer to a report that stays open, and are never renewed.
        for records in found.values():
            for record in records.values():
                record._renewal = report

    def _renewed(self, report: AcknowledgementReport) -> None:
        """On the loop thread, stop renewing if a broker cannot renew. Ignore other errors: `poll` drops records whose locks end."""
        if any(isinstance(error, UnsupportedVersion) for error in report.results.values()):
            self._renews = False

    def _warn(self) -> None:
        """Log the number of newly expired records, at most once per WARN_INTERVAL_S."""
        now = self.runtime.loop.now()
        if now >= self._warn_at:
            lost, self._warned, self._warn_at = self.records.expired - self._warned, self.records.expired, now + WARN_INTERVAL_S
            log.warning(
                "%s: share group %s: records whose locks (%g s) ended before a poll returned them: %d; "
                "they are delivered again, and each delivery counts towards the group's limit, after which a record is archived; "
                "lower max_poll_records (%d), or set share_acquire_mode='record_limit' (Kafka 4.2)",
                self.config.client_id,
                self.config.group,
                self.mailbox.lock_seconds or 0.0,
                lost,
                self.config.max_poll_records,
            )

    def _has_news(self) -> bool:
        mailbox = self.mailbox
        return bool(mailbox.arrivals or mailbox.notices or mailbox.fatal) or self._woken or self.guard.closing

    # ---------------------------------------------------------------- acknowledging

    @call
    def acknowledge(self, record: object, kind: object) -> None:
        with self.guard.using("acknowledge"):
            chosen = as_type(kind)
            if self.config.is_implicit:
                raise ConfigError(
                    "acknowledge with share_acknowledgement_mode='implicit': records are accepted by the next poll, commit or close; "
                    "create the consumer with share_acknowledgement_mode='explicit'"
                )
            with self._step:
                self.records.acknowledge(record, chosen)

    def _flush(self, *, soon: bool) -> None:
        """Collect the acknowledgements, and send them at once, because the next poll may come late.

        With `soon`, they wait up to FLUSH_S for later ones, unless `Outgoing.is_urgent`. Raises BufferFull if too many callbacks wait.
        """
        outgoing = self.records.collect()
        if outgoing and self.on_acknowledged is not None:
            self._check_owed()
        if not soon or outgoing.is_urgent:
            self._send_if_any(outgoing)
        elif outgoing:
            self._send_soon(outgoing)

    def _send_soon(self, outgoing: Outgoing) -> None:
        self.records.sending(outgoing)
        self._collected.append(outgoing)
        # The clock is read after the append. In the other order: this thread reads a time before `_taken_at`; the loop takes `_collected`;
        # this thread appends, and posts no call, because a call seems to be pending. The acknowledgements then wait for the next poll.
        now = self.runtime.loop.now()
        if now >= self._taken_at:  # only then, because a wake-up of the loop takes longer than the handling of a record
            self.post(lambda at: self.machine.call_at(at + FLUSH_S, self._pass_collected))
            self._taken_at = now + FLUSH_S
        self.records.sent(outgoing)

    def _pass_collected(self) -> None:
        """Pass the acknowledgements of polls to the machine, with one report. Call this on the loop thread."""
        if types := self._take_collected({}):
            self._give(types, self._report(self._settled))

    def _take_collected(self, more: Types) -> Types:
        """The acknowledgements of polls since the last call, merged with `more`. Call this on the loop thread."""
        found: dict[Acquired, dict[int, AcknowledgeType]] = {}
        parts = [more]
        while self._collected:
            outgoing = self._collected.popleft()
            if outgoing.take(LOOP):
                parts.append(outgoing.types)
        for part in parts:
            for acquired, types in part.items():
                found.setdefault(acquired, {}).update(types)
        return found

    def _send_if_any(self, outgoing: Outgoing) -> None:
        if outgoing:
            self._send(outgoing, self._settled)

    def _send(self, outgoing: Outgoing, done: Callable[[AcknowledgementReport], object]) -> None:
        def give(now: float) -> None:
            if outgoing.take(LOOP):
                self._give(self._take_collected(outgoing.types), report)

        report = outgoing.report = self._report(done)
        for tp, (records, error) in outgoing.lost.items():
            report.begin()
            report.settle(tp, records, error)
        self.records.sending(outgoing)
        self.post(give)
        self.records.sent(outgoing)

    def _report(self, done: Callable[[AcknowledgementReport], object]) -> AcknowledgementReport:
        def settled(report: AcknowledgementReport) -> None:
            self.acknowledged += report.stored
            self.failed += report.failed
            done(report)

        return AcknowledgementReport(settled)

    def _give(self, types: Types, report: AcknowledgementReport) -> None:
        """Call this on the loop thread."""
        self.machine.acknowledge([Acknowledgements(acquired, said, report) for acquired, said in types.items()], report)

    def _settled(self, report: AcknowledgementReport) -> None:
        """On the loop thread, report outcomes for which no caller waits: all to the callback, or without a callback, errors to the log."""
        if self.on_acknowledged is not None:
            self._owe(self.on_acknowledged, report.results)
            return
        for error in report.results.values():
            if error is not None:
                log.warning("%s: share group %s: %s", self.config.client_id, self.config.group, error, group=self.config.group)

    def _check_owed(self) -> None:
        if len(self._owed) >= MOST_OWED:
            raise BufferFull(f"{MOST_OWED:,} callbacks of acknowledgements are waiting: the callback executor is busy or blocked")

    def _owe(self, callback: OnAcknowledged, results: Results) -> None:
        self._owed.append(None)

        def run() -> None:
            self._owed.pop()
            callback(results)

        self.runtime.callbacks.post(run)

    @call
    def commit(self, timeout: float) -> Results:
        with self.guard.using("commit"):
            promise: Promise[Results] = self.promise()
            if not self._commit(lambda report: promise.set_result(report.results)):
                return {}
            try:
                return promise.result(timeout)
            except KafkaTimeoutError:
                raise KafkaTimeoutError(
                    f"commit: not all brokers have answered within {timeout:g} s, so the outcome of the acknowledgements is unknown"
                ) from None

    @call
    def commit_async(self, on_done: OnAcknowledged | None) -> None:
        check_on_done(on_done)
        with self.guard.using("commit_async"):
            callback = on_done or self.on_acknowledged
            if callback is not None:
                self._check_owed()
            sent = self._commit(self._settled if on_done is None else lambda report: self._owe(on_done, report.results))
            if not sent and on_done is not None:
                self._owe(on_done, {})

    def _commit(self, done: Callable[[AcknowledgementReport], object]) -> bool:
        """Collect and send the acknowledgements; return whether there are any."""
        with self._step:
            if self.config.is_implicit:
                self.records.accept_all()
            outgoing = self.records.collect()
            if not outgoing and not self._collected:
                return False
            self._send(outgoing, done)
            return True

    # ---------------------------------------------------------------- status, closing

    def stats(self) -> dict[str, int]:
        records = self.records
        return {
            "delivered": records.delivered,
            "acknowledged": self.acknowledged,
            "failed": self.failed,
            "dropped": records.dropped,
            "in_hand": len(records.held),
            "buffered": len(records.ready),
        }

    def _leave(self, timeout: float, *, accept: bool = False) -> None:
        def leave(now: float) -> None:
            self._pass_collected()
            self.machine.leave(now, timeout, lambda: left.set_result(None))

        with self._step:
            if accept:
                self.records.accept_all()
            self._send_if_any(self.records.collect())
            self.records.held.clear()
        left: Promise[None] = self.promise()
        self.post(leave)
        left.exception(timeout + LOOP_ANSWER_S)

    def _end_work(self, *, in_hand: bool) -> None:
        if self.failure() is None:
            self._leave(self.close_time_left(), accept=self.config.is_implicit and in_hand)
