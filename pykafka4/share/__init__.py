"""Defines ShareConsumer, the application's handle for a share group. Invariant: a consumer acknowledges only records that brokers have
locked for it; it accepts only records that polls have returned.

docs/guide/share-groups.md explains locks, acknowledgements and errors. Decoding and acknowledging (`share.delivered`) run on
application threads, requests run on the loop (`core.share.machine`). Polls take records and errors from `core.share.mailbox`.

Modules; each line imports only from lines below it:
    session    the calls of a share consumer, on application threads: polls with renewals of locks, commits, `close`
    delivered  decoded records, in hand or waiting for a poll, with their acknowledgements
    record     ShareRecord, the record that `poll` returns
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, Unpack

from pykafka4.client.client import Client
from pykafka4.client.runtime import Runtime
from pykafka4.client.serving import ServesStatus
from pykafka4.consumer.guard import Iteration
from pykafka4.core.share.values import AcknowledgeType
from pykafka4.errors.frames import guarded
from pykafka4.misuse import api_timeout, check_timeout, refuse_keywords
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.options.typed import ShareConsumerOptions
from pykafka4.share.record import ShareRecord
from pykafka4.share.session import OnAcknowledged, Results, ShareConsumerSession

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source
    from pykafka4.pages.watched import Watched

__all__ = ["AcknowledgeType", "ShareConsumer", "ShareRecord"]


class ShareConsumer(ServesStatus):
    """A member of a share group (KIP-932), whose members share the records of partitions, and acknowledge each record.

    `ShareConsumer(bootstrap_servers="host:9092", group_id="jobs", **options)` owns a client; `ShareConsumer(client=client, …)` shares one.
    The options are the fields of `ShareConsumerConfig` (docs/options.md). Use a share consumer from one thread at a time. Timeouts are
    in seconds.
    """

    _name = "ShareConsumer"

    @guarded
    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ShareConsumerOptions]
    ) -> None:
        """Raises ConfigError for an invalid option. The first poll has the consumer join the group, in the background.

        `callback_executor` runs the callbacks of acknowledgements; default: one thread of the client.
        """
        self._session = session = ShareConsumerSession(client, callback_executor, options)
        self._finalizer = weakref.finalize(self, ShareConsumerSession.forgotten, session)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs

    @classmethod
    @guarded
    def from_properties(
        cls,
        properties: Properties,
        /,
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> Self:
        """Create a share consumer from a file or mapping of options with the names of Java's client: see `Client.from_properties`.

        `client`, `callback_executor` and `options` are as in the constructor, and override `properties`.
        """
        return create(cls, ShareConsumerConfig, properties, options, client=client, callback_executor=callback_executor)

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import NetworkSource, ShareSource  # imported here: few programs read figures

        return ShareSource(self._session), NetworkSource(self._session.runtime)

    # -- subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to `topics`, a list of names, instead of the topics subscribed before. The next poll joins the group if the consumer
        is not a member.

        Records of other topics are released if no poll has returned them. With the group config `share.auto.offset.reset=latest` (the
        default), a new group gets only records that are written after its first member has joined.

        Raises TypeError for a string or a pattern (share groups have no patterns); ConfigError for an empty list or an illegal name.
        """
        self._session.subscribe(topics)

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Send all acknowledgements but renewals, release all other records, and leave the group, within `timeout` seconds (default 60)."""
        self._session.unsubscribe(api_timeout(timeout))

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return set(self._session.topics)

    # -- records

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> list[ShareRecord]:
        """A list of up to `max_records` records (default max_poll_records); empty if none arrived within `timeout` seconds.

        `timeout=None` waits indefinitely, 0 does not wait. Each record is locked for this consumer until it is acknowledged, at most for
        the group's lock duration (30 s by default; acquisition_lock_timeout_ms) after its acquisition or the last renewal. With implicit
        acknowledgement this call accepts the records of the last poll; with explicit acknowledgement the application must first acknowledge
        each of these records, unless the record's lock has ended.

        Raises ConfigError without a subscription, KafkaError for records that are not acknowledged, UnsupportedVersion if the brokers have
        no share groups, CorruptRecord or RecordTooLarge, once, for a batch that cannot be read (it is rejected; `error.next_offset` is None
        if the end of the batch is unknown), ConfigError, once, for a batch whose codec needs a missing library (the batch is
        released), BufferFull while 10,000 acknowledgement callbacks wait to run, and errors that need the application or an administrator
        (GroupError, AuthorizationError, …).
        """
        if unknown:
            refuse_keywords("ShareConsumer.poll", unknown)
        return self._session.poll(timeout, max_records)

    def __iter__(self) -> Iterator[ShareRecord]:
        """An endless iterator, which requests one record at a time (brokers may lock other records of its batch as well).

        With implicit acknowledgement, each record is accepted when the next one is requested. An exception from a poll does not end the
        iterator. Once a thread has requested a record, `poll` in another thread raises KafkaError until the iterator is deleted or the
        first thread ends.
        """
        return ShareIterator(self)

    def wakeup(self) -> None:
        """Make the running poll, or the next one, return immediately, with [] if there are no records.

        Any thread or signal handler may call this method.
        """
        self._session.wakeup()

    # -- acknowledging

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType | str = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record: accept, release, reject or renew it. The next poll, commit or close sends the acknowledgement.

        Until then another call for the record replaces the acknowledgement. Raises ConfigError with implicit acknowledgement, for an
        unknown kind, and for a record that is not in hand; TypeError for an object that is not a ShareRecord; RecordLockLost if the
        record's lock has ended: brokers deliver the record again, unless that was its last delivery.
        """
        self._session.acknowledge(record, kind)

    def accept(self, record: ShareRecord) -> None:
        """Accept `record`: it was processed, and brokers do not deliver it again. Raises the errors of `acknowledge`."""
        self._session.acknowledge(record, AcknowledgeType.ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """Release `record`: brokers deliver it again, to any consumer, unless that was its last delivery.

        Raises the errors of `acknowledge`.
        """
        self._session.acknowledge(record, AcknowledgeType.RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """Reject `record`: it cannot be processed, and brokers do not deliver it again. Raises the errors of `acknowledge`."""
        self._session.acknowledge(record, AcknowledgeType.REJECT)

    def renew(self, record: ShareRecord) -> None:
        """Renew the lock of `record` (Kafka 4.2): the record stays in hand, and must still be acknowledged, but `poll` may be called.

        Raises the errors of `acknowledge`.
        """
        self._session.acknowledge(record, AcknowledgeType.RENEW)

    def commit(self, timeout: float | None = None) -> Results:
        """Send the acknowledgements and wait; return, by partition, None if the broker has stored them, otherwise the error.

        With implicit acknowledgement, `commit` accepts all records that polls have returned. RecordLockLost in the result means that the
        locks of some records had ended: brokers deliver each of these records again, unless that was its last delivery. Raises
        KafkaTimeoutError after `timeout` seconds (default 60): then the outcome is unknown.
        """
        return self._session.commit(api_timeout(timeout))

    def commit_async(self, on_done: OnAcknowledged | None = None) -> None:
        """Send the acknowledgements without waiting; the callback executor calls `on_done(results)` with the result of `commit`.

        Without `on_done`, the results go to the acknowledgement callback; if there is none, errors go to the log as warnings. Raises
        BufferFull while 10,000 callbacks wait to run.
        """
        self._session.commit_async(on_done)

    def set_acknowledgement_callback(self, callback: OnAcknowledged | None) -> None:
        """Have `callback(results)` run on the callback executor; `results` is like the result of `commit`. None removes the callback.

        The callback gets the outcomes of acknowledgements that a call other than `commit` has sent (`commit_async` only without `on_done`),
        and RecordLockLost for records whose locks had ended before that call. Without a callback, failures are logged as warnings. Raises
        TypeError if `callback` is not callable.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, not {callback!r}")
        self._session.on_acknowledged = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """The duration of a lock in this group, in ms; None before the first successful ShareFetch."""
        seconds = self._session.mailbox.lock_seconds
        return None if seconds is None else round(seconds * 1000)

    # -- status, closing

    def status(self) -> dict[str, Any]:
        """The client's status, the member's state and partitions, and the `errors` of brokers and partitions that deliver no records."""
        return {**self._session.runtime.status(), "share_consumer": self._session.status()}

    def _shown(self) -> tuple[Runtime, object, Watched]:
        from pykafka4.consumer.watched import WatchedShareConsumer

        session = self._session
        session.check()
        return session.runtime, session, WatchedShareConsumer(session.config.client_id, session)

    def stats(self) -> dict[str, int]:
        """Records so far: `delivered` to the application, `acknowledged`, `failed` (their acknowledgements failed, or their locks had ended
        before), `dropped` (their locks had ended before `poll` returned them). Renewals do not count. Records now: `in_hand`, and
        `buffered` for the next poll."""
        return self._session.stats()

    def close(self, timeout: float | None = None) -> None:
        """Send all acknowledgements but renewals, release all other records, leave the group.

        Takes at most `timeout` seconds (default: `close_timeout_ms`). With implicit acknowledgement the records of the last poll
        are accepted, unless an exception is being handled, or another thread closes the consumer; then the records are released. Closing
        twice is allowed.
        """
        limit = check_timeout(timeout)
        self._finalizer.detach()
        self._session.close(limit)

    def __enter__(self) -> ShareConsumer:
        self._session.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finalizer.detach()
        self._session.close(failed=error is not None)

    def __repr__(self) -> str:
        return f"<ShareConsumer of group {self._session.config.group_id!r} at {self._session.runtime!r}>"


class ShareIterator:
    """Not a generator, which would end with the first exception."""

    __slots__ = ("__weakref__", "_consumer", "_iteration")

    def __init__(self, consumer: ShareConsumer) -> None:
        """Keep `consumer` alive: an application may keep only the iterator."""
        self._consumer, self._iteration = consumer, Iteration()
        self._iteration.follow(self)

    def __iter__(self) -> ShareIterator:
        return self

    def __next__(self) -> ShareRecord:
        while True:
            for record in self._consumer._session.poll(None, 1, self._iteration):  # no call follows in which Ctrl-C could lose the record
                return record
