"""ShareConsumer. Rule: a record is locked for one consumer at a time; only what the application has processed is accepted.

This is the handle. Locks, acknowledgements and errors are in docs/guide/share-groups.md. Decoding and acknowledging (`share.delivered`) run
on the thread that polls, requests on the loop (`core.share.machine`). They meet in `core.share.mailbox`.

Modules; each line imports only from lines below it:
    session    polls, commits and closes, on application threads
    delivered  decoded records, and the application's acknowledgements
    record     ShareRecord
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
    Options are those of `ShareConsumerConfig` (docs/options.md). Use it from one thread at a time. Timeouts are seconds.
    """

    _name = "ShareConsumer"

    @guarded
    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ShareConsumerOptions]
    ) -> None:
        """Raises ConfigError for an invalid option. Connecting happens in the background, after the first poll.

        `callback_executor` runs the callbacks of acknowledgements; default: one thread of the client.
        """
        self._session = session = ShareConsumerSession(client, callback_executor, options)
        self._finalizer = weakref.finalize(self, ShareConsumerSession.forgotten, session)
        self._finalizer.atexit = False  # the client drains at exit

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
        """A share consumer with the options of a file or mapping with the names of Java's client: see `Client.from_properties`.

        `client`, `callback_executor` and `options` are as in the constructor; they win.
        """
        return create(cls, ShareConsumerConfig, properties, options, client=client, callback_executor=callback_executor)

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import NetworkSource, ShareSource  # imported here: few programs read figures

        return ShareSource(self._session), NetworkSource(self._session.runtime)

    # -- what to read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Share the records of `topics`, a list of names, instead of the topics subscribed before. The next poll joins the group.

        What polls have not returned of other topics is released. A new group gets records that are written after its first member has
        joined, unless the config `share.auto.offset.reset` of the group is `earliest`.

        Raises TypeError for a pattern, which share groups do not have; ConfigError for an empty list or an illegal name.
        """
        self._session.subscribe(topics)

    def unsubscribe(self, timeout: float | None = None) -> None:
        """Send what is acknowledged, release all other records, and leave the group, within `timeout` seconds (default 60)."""
        self._session.unsubscribe(api_timeout(timeout))

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return set(self._session.topics)

    # -- records

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> list[ShareRecord]:
        """A list of up to `max_records` records (default max_poll_records); empty if none arrived within `timeout` seconds.

        `timeout=None` waits indefinitely, 0 does not wait. Each record is locked for this consumer until it is acknowledged, at most for
        the group's lock duration (30 s by default; acquisition_lock_timeout_ms). With implicit acknowledgement the records of the last poll
        are accepted; with explicit acknowledgement each of them must be acknowledged first, unless its lock has ended.

        Raises KafkaError for records that are not acknowledged, UnsupportedVersion if the brokers have no share groups, CorruptRecord and
        RecordTooLarge, once, for a batch that cannot be read (it is rejected), and errors that need the application or an administrator
        (GroupError, AuthorizationError, …).
        """
        if unknown:
            refuse_keywords("ShareConsumer.poll", unknown)
        return self._session.poll(timeout, max_records)

    def __iter__(self) -> Iterator[ShareRecord]:
        """An endless loop over single records, which asks brokers for one at a time (they may lock the rest of its batch as well).

        With implicit acknowledgement, each is accepted when the next one is requested. An exception of a poll does not end the iterator.
        Until the iterator is deleted, `poll` in another thread raises KafkaError.
        """
        return Records(self)

    def wakeup(self) -> None:
        """Make the running poll, or the next one, return immediately: with [] if there are no records.

        May be called from any thread and from signal handlers.
        """
        self._session.wakeup()

    # -- acknowledging

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType | str = AcknowledgeType.ACCEPT) -> None:
        """Say what becomes of a record: accept, release, reject or renew. It is sent with the next poll, commit or close.

        Until then another call replaces it. Raises ConfigError with implicit acknowledgement, for an unknown kind, and for a record that is
        not in hand; RecordLockLost if its lock has ended, so that it is delivered again.
        """
        self._session.acknowledge(record, kind)

    def accept(self, record: ShareRecord) -> None:
        """It was processed, and is not delivered again. Raises as `acknowledge` does."""
        self._session.acknowledge(record, AcknowledgeType.ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """Deliver it again, to this or another consumer, unless this was its last delivery. Raises as `acknowledge` does."""
        self._session.acknowledge(record, AcknowledgeType.RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """It cannot be processed: do not deliver it again. Raises as `acknowledge` does."""
        self._session.acknowledge(record, AcknowledgeType.REJECT)

    def renew(self, record: ShareRecord) -> None:
        """Begin its lock again (Kafka 4.2): it stays in hand, `poll` may be called, and it has to be acknowledged later.

        Raises as `acknowledge` does.
        """
        self._session.acknowledge(record, AcknowledgeType.RENEW)

    def commit(self, timeout: float | None = None) -> Results:
        """Send the acknowledgements; returns per partition None when they are stored, or the error.

        With implicit acknowledgement this accepts all records that polls have returned. RecordLockLost in the result: the locks of these
        records had ended, and they are delivered again. Raises KafkaTimeoutError after `timeout` seconds (default 60).
        """
        return self._session.commit(api_timeout(timeout))

    def commit_async(self, on_done: OnAcknowledged | None = None) -> None:
        """As `commit`, without waiting; `on_done(results)` is called on the callback executor.

        Without `on_done`, errors go to the acknowledgement callback, or to the log as warnings. Raises BufferFull while 10,000 callbacks
        wait to run.
        """
        self._session.commit_async(on_done)

    def set_acknowledgement_callback(self, callback: OnAcknowledged | None) -> None:
        """Have `callback(results)` called on the callback executor for what `poll`, `commit_async` and `close` have sent, and for records
        whose lock has ended. `results` is as `commit` returns it. None: failures are logged as warnings.

        Raises TypeError if it is not callable.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, not {callback!r}")
        self._session.on_acknowledged = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """For how long brokers lock records of this group; None before the first response."""
        seconds = self._session.mailbox.lock_seconds
        return None if seconds is None else round(seconds * 1000)

    # -- the rest

    def status(self) -> dict[str, Any]:
        """Why nothing is flowing: the client's status, the member's state, its partitions, and the `errors` of brokers and partitions."""
        return {**self._session.runtime.status(), "share_consumer": self._session.status()}

    def _shown(self) -> tuple[Runtime, object, Watched]:
        from pykafka4.consumer.watched import WatchedShareConsumer

        session = self._session
        session.check()
        return session.runtime, session, WatchedShareConsumer(session.config.client_id, session)

    def stats(self) -> dict[str, int]:
        """Records so far: `delivered` to the application, `acknowledged`, `failed` to be acknowledged, `dropped` because their lock
        had ended before `poll` returned them; and now: `in_hand`, and `buffered` for the next poll."""
        return self._session.stats()

    def close(self, timeout: float | None = None) -> None:
        """Send what is acknowledged, release all other records, leave the group.

        Takes at most `timeout` seconds (default: `close_timeout_ms`). With implicit acknowledgement the records of the last poll are
        accepted, unless an exception is being handled, or another thread closes; then they are released. Closing twice is allowed.
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


class Records:
    """See ShareConsumer.__iter__. Not a generator, which would end with the first exception."""

    __slots__ = ("__weakref__", "_consumer", "_iteration")

    def __init__(self, consumer: ShareConsumer) -> None:
        """The loop may have the only reference to `consumer`."""
        self._consumer, self._iteration = consumer, Iteration()
        self._iteration.follow(self)

    def __iter__(self) -> Records:
        return self

    def __next__(self) -> ShareRecord:
        while True:
            for record in self._consumer._session.poll(None, 1, self._iteration):  # no call follows, in which Ctrl-C could take it
                return record
