"""Client. Rule: the public class has only what applications use; producers and consumers use its `Runtime`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Never, Self, Unpack

from pykafka4.client.handle import Handle
from pykafka4.client.runtime import Listener, Runtime
from pykafka4.core.metadata.events import BrokerAdded, BrokerRemoved, MetadataChanged
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline
from pykafka4.errors import ConfigError, shown_unless_secret
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ClientOptions

__all__ = ["BrokerAdded", "BrokerRemoved", "Client", "MetadataChanged", "PartitionOffline", "PartitionOnline"]


class Client(Handle):
    """One loop thread, its connections and the cluster's metadata, shared by any number of producers and consumers.

    `Client(bootstrap_servers="host:9092", **options)`: options are those of `ClientConfig` (docs/options.md). `callback_executor` is a
    `concurrent.futures.Executor` for delivery callbacks and events; by default they run one after the other on a thread of the client.
    All methods may be called from any thread. A client cannot be pickled, or used in a forked child process.
    """

    _name = "Client"

    @guarded
    def __init__(self, *wrong: Never, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]) -> None:
        """Raises ConfigError for an invalid option. Connecting happens in the background; no broker needs to be up yet."""
        if wrong:
            raise ConfigError(f"{shown_unless_secret(wrong[0])}: pass options as keywords: Client(bootstrap_servers=…)")
        self.config = ClientConfig.parse(options)
        self._runtime = Runtime.shared(self.config, callback_executor)

    @classmethod
    @guarded
    def from_properties(
        cls, properties: Properties, /, *, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]
    ) -> Self:
        """A client with the options of a file or mapping with the names of Java's or librdkafka's clients (docs/guide/properties.md).

        `properties` is the path of a `.properties` file, or a mapping of names to text, numbers, booleans or None.
        `callback_executor` and `options` are as in the constructor; they win.
        Names, units and values are converted. Properties without effect here are logged at INFO, on `pykafka4.config`.
        Options that a class does not have are refused.

        Raises ConfigError with file, line and property for one that is unknown, wrong or not supported; OSError if the file cannot be
        read; TypeError for another type of `properties`. Sources: the options of Java's clients, librdkafka's CONFIGURATION.md.
        """
        return create(cls, ClientConfig, properties, options, callback_executor=callback_executor)

    def events(self, listener: Listener) -> Callable[[], None]:
        """Have `listener(event)` called on the callback executor: PartitionOffline(tp, reason), PartitionOnline(tp), BrokerAdded and
        BrokerRemoved(node, host, port), MetadataChanged(version).

        A slow listener may miss intermediate states, never the current one: opposite events that occur while it is busy cancel each other.
        Returns a function that removes the listener: `stop = client.events(listener)`, later `stop()`.
        Raises TypeError if `listener` is not callable.
        """
        if not callable(listener):
            raise TypeError(f"listener must be callable, not {listener!r}")
        self._runtime.check()
        return self._runtime.events.add(listener)

    def refresh_metadata(self, topics: Collection[str] | None = None, timeout: float | None = None) -> None:
        """Refresh the metadata of `topics` (an empty list: only the brokers), or of all topics in use (None).

        `timeout` in seconds, default `request_timeout_ms`. Raises KafkaTimeoutError with the addresses that were tried and why they failed,
        and AuthorizationError if one of `topics` is denied.
        """
        names, limit = None if topics is None else _names(topics), self._seconds(timeout)
        self._runtime.refresh_metadata(names, limit)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of `topic`; asks the cluster if they are unknown, and waits for a missing topic to appear.

        `timeout` in seconds, default `request_timeout_ms`. Raises KafkaTimeoutError, BrokerError (AuthorizationError, …).
        """
        return self._runtime.partitions_of(check_topic(topic), self._seconds(timeout))

    def status(self) -> dict[str, Any]:
        """Why nothing is flowing: `state` (connected, connecting, unreachable, unresponsive, crashed, closed, forked), `reason`, `brokers`,
        `offline` partitions, `topics` with errors. Times are seconds ago. Also works on a closed or crashed client.

        "unresponsive": the client's thread did not respond within 5 s. "forked": the client was created in another process.
        """
        return self._runtime.status()

    def close(self, timeout: float | None = None) -> None:
        """Close the producers and consumers that use this client, then the loop and its connections, within `timeout` seconds.

        None: without limit. Closing twice, or from a callback, is allowed.
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
    """A list of legal topic names; ConfigError or TypeError naming what is wrong."""
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={topics!r}: must be a list of topic names")
    return [check_topic(topic) for topic in topics]
