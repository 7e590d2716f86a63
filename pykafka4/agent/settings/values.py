"""Declares the settings as values, with classes for the tables of the TOML file. The classes check their values; the reader of the file
checks `AgentSettings.kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from pykafka4.agent.settings.fields import (
    KIB,
    MIB,
    SECTION,
    folder_or_file,
    mode,
    name,
    names,
    number,
    of_producer,
    section,
    size,
    size_or_all,
    socket_path,
    switch,
    word,
)
from pykafka4.core.network.endpoint import is_loopback
from pykafka4.errors import ConfigError

__all__ = [
    "AgentSettings",
    "Batching",
    "DiscardLogSettings",
    "Empty",
    "HttpSettings",
    "InputSettings",
    "LogLevel",
    "MIB",
    "Offline",
    "RateLimitSettings",
    "ReportSettings",
    "ServiceSettings",
    "SpoolSettings",
    "Sync",
    "TcpSettings",
    "TopicSettings",
    "TopicsSettings",
    "UnixSettings",
]


class Empty(StrEnum):
    """The form of an empty key or value in the record."""

    NULL = "null"
    EMPTY = "empty"


class Batching(StrEnum):
    """The messages that share the limits of a batch."""

    COMBINED = "combined"  # the messages of all topics with this setting
    PER_TOPIC = "per_topic"  # the messages of one topic, or of one partition for messages with a partition key
    OFF = "off"  # each message is sent at once


class Offline(StrEnum):
    """The treatment of a message with a partition key while its partition has no leader."""

    WAIT = "wait"  # the message waits for the partition
    NEXT = "next"  # the message goes to the next partition that has a leader


class Sync(StrEnum):
    """The times when the spool's files are synced to the disk."""

    ALWAYS = "always"  # after each write
    INTERVAL = "interval"  # every `sync_interval_ms`
    NEVER = "never"  # never by the agent, only by the operating system


class LogLevel(StrEnum):
    """The severity of the least severe lines that the agent logs."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def _check_loopback(host: str) -> None:
    if not is_loopback(host):
        raise ConfigError(f"host={host!r}: must be a loopback address, 127.0.0.0/8 or ::1, because the agent has no authentication")


@attrs.frozen
class UnixSettings:
    """A UNIX socket."""

    path: Path = socket_path("Path of the socket. A stale socket file is replaced; a socket that another process serves is not.")
    mode: int | None = mode("Permissions of the socket; a client needs the right to write. Not set: from the umask.")
    owner: str | None = name("User who owns the socket, by name or number. Not set: the user of the process at its start.")
    group: str | None = name("Group of the socket, by name or number. Not set: the group of the process at its start.")


@attrs.frozen
class TcpSettings:
    """A TCP socket."""

    port: int = number(attrs.NOTHING, "", "Port. 0: any free port, which the log names.", high=65_535)
    host: str = name("Loopback address. Another address is refused: the agent has no authentication.", "127.0.0.1")

    def __attrs_post_init__(self) -> None:
        _check_loopback(self.host)


@attrs.frozen
class InputSettings:
    """The sockets that take messages: at least one of the three."""

    unix_datagram: UnixSettings | None = section(UnixSettings, "UNIX datagram socket: one message in each datagram.")
    unix_stream: UnixSettings | None = section(UnixSettings, "UNIX stream socket: messages one after the other.")
    tcp: TcpSettings | None = section(TcpSettings, "TCP socket on a loopback address: messages one after the other.")
    max_buffer: int = size(
        128 * MIB,
        "The pool: memory for messages that wait for acknowledgements. While it is full, messages are discarded (`NO_MEM`), or spooled.",
        low=64 * KIB,
        high=2**40,
    )
    max_datagram_size: int = size(64 * KIB, "Largest datagram; a larger one is cut by the kernel and so malformed.", low=64, high=16 * MIB)
    allow_large_datagrams: bool = switch(
        False, "Whether `max_datagram_size` may be so large that senders must enlarge the send buffers of their sockets."
    )
    max_stream_message_size: int = size(
        2 * MIB, "Largest message of a stream, without its size field; a larger one ends the connection.", low=64, high=1024 * MIB
    )
    empty: Empty = word(
        Empty.NULL,
        Empty,
        "The key or value of the record if the message's key or value is empty. A null value deletes its key in a compacted topic.",
    )

    def __attrs_post_init__(self) -> None:
        unix = [each.path for each in (self.unix_datagram, self.unix_stream) if each is not None]
        if not unix and self.tcp is None:
            raise ConfigError("no input: at least one of unix_datagram, unix_stream and tcp is needed")
        if len(unix) > len(set(unix)):
            raise ConfigError(f"unix_stream.path={str(unix[0])!r}: unix_datagram has the same path")


@attrs.frozen
class HttpSettings:
    """Pages, JSON and metrics on a loopback address."""

    enabled: bool = switch(True, "Whether the agent serves the pages.")
    port: int = number(9090, "", "Port. 0: any free port, which the log names.", high=65_535)
    host: str = name("Loopback address.", "127.0.0.1")
    allowed_hosts: tuple[str, ...] = names("Further names that the Host header of a request may have, such as the name of a proxy.")

    def __attrs_post_init__(self) -> None:
        _check_loopback(self.host)


@attrs.frozen
class ReportSettings:
    """Reports of discarded messages."""

    interval_s: float = number(600.0, "s", "Interval of reports.", low=1, high=86_400, whole=False)
    prefix_size: int = size(256, "Size of the beginning of a refused or discarded message that a report keeps.", low=0, high=64 * KIB)


@attrs.frozen
class DiscardLogSettings:
    """A file with lines about discarded messages. Without this table there is no file."""

    path: Path = folder_or_file("The file. When it is full, it is renamed to `path.<milliseconds since 1970>`.")
    max_file_size: int = size(1 * MIB, "Largest size of a file.", low=4 * KIB)
    max_archive_size: int = size(32 * MIB, "Largest size of all full files together; the oldest are removed.", low=0)
    max_prefix_size: int | None = size_or_all(2048, "Size of the beginning of a key, and of a value, that is written.")


@attrs.frozen
class RateLimitSettings:
    """A limit of messages in fixed intervals."""

    interval_ms: int = number(attrs.NOTHING, "ms", "Length of an interval.", low=1, high=86_400_000)
    max_count: int = number(attrs.NOTHING, "messages", "Most messages of a topic in an interval; 0: all are discarded.")


@attrs.frozen
class TopicSettings:
    """Settings of topics. `[topics."name"]` inherits missing settings from `[topics.default]`, except for the level of another codec."""

    batching: Batching | None = word(
        None,
        Batching,
        "`combined`: the limits of a batch count the messages of all such topics together; `per_topic`: the messages of each topic, or "
        "of each partition for messages with a partition key; `off`: each message is sent at once.",
    )
    linger_ms: float | None = of_producer("linger_ms")
    batch_bytes: int | None = of_producer("batch_bytes")
    batch_records: int | None = of_producer("batch_records")
    compression_type: str | None = of_producer("compression_type")
    compression_level: int | None = of_producer("compression_level")
    compression_min_bytes: int | None = of_producer("compression_min_bytes")
    compression_max_ratio: float | None = of_producer("compression_max_ratio")
    max_message_bytes: int | None = of_producer("max_message_bytes")
    rate_limit: RateLimitSettings | None = section(RateLimitSettings, "Limit of messages of the topic in an interval.", live=True)


@attrs.frozen
class TopicsSettings:
    """The treatment of messages by topic. Names may be patterns with *, ? and [ab], as in the producer's topic_policies."""

    default: TopicSettings = section(
        TopicSettings,
        "Settings of all topics, unless a table of the topic replaces them.",
        default=TopicSettings(batching=Batching.COMBINED, linger_ms=10_000),
    )
    named: Mapping[str, TopicSettings] = attrs.field(factory=dict, metadata={"doc": "Settings of topics with this name or pattern."})
    autocreate: bool = switch(False, "Whether brokers create a topic that does not exist; they need `auto.create.topics.enable=true`.")
    offline: Offline = word(
        Offline.WAIT,
        Offline,
        "Whether a message with a partition key waits while its partition has no leader, or goes to the next partition with a leader.",
    )


@attrs.frozen
class SpoolSettings:
    """A folder for messages that the cluster cannot take now. Without this table, such messages wait in memory only."""

    path: Path = folder_or_file("The folder. It belongs to one agent.")
    max_size: int = size(
        1024 * MIB, "Most bytes on the disk, without damaged files; messages beyond the limit are discarded (`SPOOL_FULL`).", low=1 * MIB
    )
    sync: Sync = word(Sync.INTERVAL, Sync, "When files are synced: after each write, every `sync_interval_ms`, or when the system does it.")
    sync_interval_ms: int = number(1000, "ms", 'Interval of `sync = "interval"`.', low=1, high=3_600_000)
    always: bool = switch(False, "Whether messages are written to the disk before they are sent, unless the disk refuses writes.")


@attrs.frozen
class ServiceSettings:
    """The process of the agent."""

    shutdown_ms: int = number(
        30_000, "ms", "Time for the delivery of waiting messages at the end. Undelivered messages are spooled or discarded.", live=True
    )
    user: str | None = name(
        "User that the process becomes after it has opened the sockets of inputs; the process must be started as root or as this user."
    )
    group: str | None = name("Primary group of the process after it has become `user`. Not set: the group of `user`.")
    log_level: LogLevel = word(LogLevel.INFO, LogLevel, "Severity of the least severe lines that are logged, to standard error.", live=True)

    def __attrs_post_init__(self) -> None:
        if self.group is not None and self.user is None:
            raise ConfigError(f"group={self.group!r}: needs `user`, because only root may change its group")


def _unless_disabled(value: Any) -> Any:
    return None if isinstance(value, HttpSettings) and not value.enabled else value


@attrs.frozen
class AgentSettings:
    """The settings of the file."""

    inputs: InputSettings = section(InputSettings, "Sockets that take messages.", default=attrs.NOTHING)
    kafka: Mapping[str, Any] = attrs.field(
        default=attrs.NOTHING, repr=False, metadata={"doc": "Options of the producer, at least `bootstrap_servers`."}
    )
    topics: TopicsSettings = section(TopicsSettings, "The treatment of messages by topic.", default=TopicsSettings())
    http: HttpSettings | None = attrs.field(
        default=HttpSettings(), converter=_unless_disabled, metadata={"doc": "Pages, JSON and metrics.", SECTION: HttpSettings}
    )
    reports: ReportSettings = section(ReportSettings, "Reports of discarded messages.", default=ReportSettings())
    discard_log: DiscardLogSettings | None = section(DiscardLogSettings, "A file with lines about discarded messages.")
    spool: SpoolSettings | None = section(SpoolSettings, "A folder for messages that the cluster cannot take now.")
    service: ServiceSettings = section(ServiceSettings, "The process of the agent.", default=ServiceSettings())
