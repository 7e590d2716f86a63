"""Defines `Client`, the public handle of a runtime. Invariant: a client has no state except its options and its `Runtime`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, Unpack

from pykafka4.client.futures import ClientFutures
from pykafka4.client.runtime import Listener, Runtime
from pykafka4.client.serving import ServesStatus
from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved, MetadataChanged
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline
from pykafka4.errors import ConfigError, shown_unless_secret
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ClientOptions

if TYPE_CHECKING:
    from pykafka4.bounds import BoundSpec
    from pykafka4.client.calls import FetchOffsets, Offsets, Partitions, Times, Topics
    from pykafka4.client.targets import Target
    from pykafka4.core.admin.values import CommitResult, CommittedOffset, FetchedPartition, GroupCoordinator, ListedOffset
    from pykafka4.metrics.sources import Source
    from pykafka4.pages.watched import Watched
    from pykafka4.records import TopicPartition
    from pykafka4.splits import Split
    from pykafka4.wire.protocol.schema import Request, Response

__all__ = ["BrokerAdded", "BrokerRemoved", "Client", "MetadataChanged", "PartitionOffline", "PartitionOnline"]

R = TypeVar("R", bound="Response")


class Client(ServesStatus):
    """One loop thread, its connections and the cluster's metadata, shared by any number of producers, consumers and admin clients.

    `Client(bootstrap_servers="host:9092", **options)` takes the options of `ClientConfig` (docs/options.md). `callback_executor` is a
    `concurrent.futures.Executor` for callbacks and listeners of events; by default, they run one after the other on a thread of
    the client. All methods may be called from any thread. A client cannot be pickled, or used in a forked child process.
    """

    _name = "Client"

    @guarded
    def __init__(self, *wrong: Never, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background; no broker needs to be up yet."""
        if wrong:
            raise ConfigError(f"{shown_unless_secret(wrong[0])}: pass options as keywords: Client(bootstrap_servers=…)")
        self.config = ClientConfig.parse(options)
        self._runtime = Runtime.shared(self.config, callback_executor)

    @classmethod
    @guarded
    def from_properties(
        cls, properties: Properties, /, *, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]
    ) -> Self:
        """Create a client from a file or mapping of options with the names of Java's or librdkafka's clients (docs/guide/properties.md).

        `properties` is the path of a `.properties` file, or a mapping of names to text, numbers, booleans or None.
        `callback_executor` and `options` are as in the constructor; `options` take precedence over `properties`.
        Names, units and values are converted. Properties without an effect in this client are logged at INFO, on `pykafka4.config`.
        Options that the class does not have are refused.

        Raises ConfigError, which names the property and its place, for a property that is unknown, wrong or not supported; OSError if the
        file cannot be read; TypeError for another type of `properties`. Sources: the options of Java's clients, librdkafka's
        CONFIGURATION.md.
        """
        return create(cls, ClientConfig, properties, options, callback_executor=callback_executor)

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import NetworkSource  # imported here: few programs read figures

        return (NetworkSource(self._runtime),)

    @classmethod
    def of(cls, runtime: Runtime, config: ClientConfig) -> Client:
        """Another handle of a runtime, for code of this package."""
        client = cls.__new__(cls)
        client.config, client._runtime = config, runtime
        return client

    def events(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called on the callback executor for PartitionOffline(tp, reason), PartitionOnline(tp), BrokerAdded and
        BrokerRemoved(node, host, port), MetadataChanged(version), and OffsetsLost(tp, first, until, reason) of the client's consumers.

        A slow listener can miss intermediate states, but never the current one: while the listener is busy, opposite events can cancel each
        other, and only the last MetadataChanged and the last OffsetsLost of each partition are kept.
        Returns a function that removes the listener: `stop = client.events(listener)`, later `stop()`.
        Raises TypeError if `listener` is not callable.
        """
        if not callable(listener):
            raise TypeError(f"listener must be callable, not {listener!r}")
        self._runtime.check()
        return self._runtime.events.add(listener)

    def refresh_metadata(self, topics: Collection[str] | None = None, timeout: float | None = None) -> None:
        """Refresh the metadata of `topics` (an empty list: only the brokers), or of all topics in use (None).

        `timeout` in seconds, default `request_timeout_ms`. Raises AuthorizationError if access to one of `topics` is denied, and
        KafkaTimeoutError. If no broker can be reached, the message of the timeout has the addresses that were tried, with their errors;
        otherwise the message names the broker that has not answered, if there is one.
        """
        names, limit = None if topics is None else _names(topics), self._seconds(timeout)
        self._runtime.refresh_metadata(names, limit)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the partitions of `topic`. If they are unknown, request the metadata, and wait until the topic exists.

        `timeout` in seconds, default `request_timeout_ms`. Raises KafkaTimeoutError, BrokerError (AuthorizationError, …).
        """
        return self._runtime.partitions_of(check_topic(topic), self._seconds(timeout))

    # -- stateless calls

    @property
    def futures(self) -> ClientFutures:
        """The stateless calls with a `concurrent.futures.Future` as their result: `client.futures.fetch(…)`."""
        return ClientFutures(self._runtime)

    def fetch(
        self,
        offsets: FetchOffsets,
        timeout: float | None = None,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> dict[TopicPartition, FetchedPartition]:
        """Return records of any partitions from given offsets on, read from the leaders. The call uses no group, and keeps no position.

        `offsets` maps partitions, or (topic, partition) pairs, to an offset or to (offset, max_bytes); the default of `max_bytes` is 1 MiB.
        A first batch that is larger is returned whole. A result without records does not mean the end of the log: compare `next_offset`
        with `high_watermark`, or with `last_stable_offset` for read_committed. A request asks for at most `receive_message_max_bytes`, for
        all partitions together.

        A broker waits up to `max_wait_ms` for `min_bytes` of records (0: not at all). Fetches of one client that wait at the same broker
        are answered one after the other. `timeout` in seconds (default 60). The call follows changes of leaders until the timeout. Each
        partition has its records or its own `error`: AuthorizationError, BrokerError (OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, …),
        CorruptRecord, RecordTooLarge, KafkaTimeoutError.
        """
        return self._runtime.calls.fetch(offsets, timeout, max_wait_ms, min_bytes, isolation_level).wait()

    def list_offsets(
        self,
        times: Times,
        timeout: float | None = None,
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset]:
        """Return offsets by name or by time, each from the partition's leader.

        `times` maps partitions to EARLIEST, LATEST, MAX_TIMESTAMP (Kafka 3.0), EARLIEST_LOCAL (3.5) or LATEST_TIERED (3.9), or to a time:
        milliseconds since 1970, or an aware datetime. The offset for a time is the offset of the first record with this timestamp or a
        later one. With read_committed, LATEST is the last stable offset, and records after it are not found.

        `timeout` in seconds (default 60). Each partition has its offset (None: no such record) or its own `error`, which is
        UnsupportedVersion if its leader is too old for a name. Sources: KIP-79, KIP-734, KIP-405, KIP-1005.
        """
        return self._runtime.calls.list_offsets(times, timeout, isolation_level).wait()

    def find_coordinator(self, group: str, timeout: float | None = None) -> GroupCoordinator:
        """Return the broker that coordinates `group`, whether the group exists or not.

        Raises AuthorizationError, BrokerError, and KafkaTimeoutError after `timeout` seconds (default 60).
        """
        return self._runtime.calls.find_coordinator(group, timeout).wait()

    def committed_offsets(
        self, group: str, partitions: Partitions | None = None, timeout: float | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offset of `group` for each of `partitions`: an offset, None or an error.

        An offset in a transaction that has not ended is not returned: the result has the offset from before the transaction, or an even
        older one just after a change of the coordinator. With `require_stable` the call waits until the transaction has ended, and returns
        the newest offset (KIP-447; without effect before Kafka 2.5). `timeout` in seconds (default 60). Without `partitions`, the call
        returns all committed offsets, or raises the group's error.
        """
        return self._runtime.calls.committed_offsets(group, partitions, timeout, require_stable).wait()

    def commit_offsets(self, group: str, offsets: Offsets, timeout: float | None = None) -> dict[TopicPartition, CommitResult]:
        """Commit `offsets`, a mapping of partitions to an offset or OffsetAndMetadata, for a group that has no members.

        A group that does not exist is created. `timeout` in seconds (default 60). Each partition has its own `error`, which is None if its
        offset is stored. If the group has members and can be described, the error is GroupNotEmpty, which names the members. After a
        KafkaTimeoutError it is unknown whether the offset is stored. Other errors are AuthorizationError and BrokerError.
        """
        return self._runtime.calls.commit_offsets(group, offsets, timeout).wait()

    def splits(
        self,
        topics: Topics,
        n: int,
        start: BoundSpec = "earliest",
        until: BoundSpec = "now",
        *,
        partitions: Iterable[int | TopicPartition | tuple[str, int]] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_committed",
        timeout: float | None = None,
    ) -> list[Split]:
        """Divide a bounded read of `topics` into at most `n` splits for several processes; `read(split=split, …)` reads one split.

        This call turns `start` and `until`, which are as for `read`, into offsets: each offset between them is in exactly one split, and
        no split is empty. Splits have about the same size in bytes if brokers return sizes (which needs DESCRIBE on the cluster, and Kafka
        2.0), otherwise about the same number of offsets. `partitions` limits the read to (topic, partition) pairs, or to numbers for one
        topic. With isolation_level="read_committed", the default here as for `read`, "now" is before the first open transaction.

        `timeout` in seconds (default 60). Raises the error of the topics and partitions that failed, or PartialFailure if their
        errors differ.
        """
        return self._runtime.calls.splits(topics, n, start, until, partitions, timeout, isolation_level).wait()

    def request(self, target: Target | int, message: Request[R], timeout: float | None = None, *, max_version: int | None = None) -> R:
        """Send `message`, a request of `pykafka4.messages`, to a broker, and return the response.

        `target` is the number of a broker, ANY, CONTROLLER, `coordinator(group)` or `leader(partition)`. The version of the request is the
        highest that both sides have, and at most `max_version`. Requests that only read (the reference lists them) are repeated after a
        lost connection, and sent to the new leader, coordinator or controller when the old one refuses all of their items. (A broker
        named by its number is never replaced.) All other requests are written once: their response is returned unchanged, error codes
        included, and after ConnectionLost or KafkaTimeoutError a note says that the broker may have carried the request out.

        `timeout` in seconds (default 60). Raises UnsupportedVersion if the broker lacks the request, or a field that is set;
        ConfigError for a value that does not fit its field.
        """
        return self._runtime.calls.request(target, message, timeout, max_version).wait()

    # -- status and end

    def status(self) -> dict[str, Any]:
        """Return a dict that shows why no records flow. Also works on a closed or crashed client.

        Items: `state` (connected, connecting, unreachable, unresponsive, crashed, closed, forked), `reason`, `brokers`, `offline`
        partitions, `topics` with errors, … Points in time are given as ages in seconds. "unresponsive": the client's thread did not respond
        within 5 s. "forked": the client was created in another process.
        """
        return self._runtime.status()

    def _shown(self) -> tuple[Runtime, object, Watched]:
        from pykafka4.client.watched import WatchedClient

        return self._runtime, None, WatchedClient.of(self._runtime)

    def close(self, timeout: float | None = None) -> None:
        """Close the producers, consumers and admin clients of this client, then the loop and its connections.

        Takes at most `timeout` seconds, plus the time of rebalance listeners.
        If `timeout` is None, each producer and consumer has its `close_timeout_ms`, and a loop that does not respond has 10 s. Closing
        twice, or in a callback, is allowed.
        """
        self._runtime.close(check_timeout(timeout))

    def __enter__(self) -> Client:
        self._runtime.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._runtime)

    def _seconds(self, timeout: float | None) -> float:
        limit = check_timeout(timeout)
        return self.config.request_timeout_ms / 1000 if limit is None else limit


def _names(topics: object) -> list[str]:
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={topics!r}: takes a list of topic names")
    return [check_topic(topic) for topic in topics]
