"""The settings as values, one class for each table of the TOML file. Invariant: a value that exists is valid."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

__all__ = [
    "AgentSettings",
    "Batching",
    "DiscardLogSettings",
    "Empty",
    "HttpSettings",
    "InputSettings",
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

KIB, MIB = 1024, 1024 * 1024


class Empty(StrEnum):
    """What an empty key or value is written to Kafka as."""

    NULL = "null"
    EMPTY = "empty"


class Batching(StrEnum):
    """Which messages share the limits of a batch."""

    COMBINED = "combined"  # those of all topics with this setting
    PER_TOPIC = "per_topic"
    OFF = "off"  # each message is sent at once


class Offline(StrEnum):
    """Where a message with a partition key goes while its partition has no leader."""

    WAIT = "wait"  # it waits for the partition
    NEXT = "next"  # to the next partition that has a leader


class Sync(StrEnum):
    """When the spool's files are synced to the disk."""

    ALWAYS = "always"  # after each write
    INTERVAL = "interval"  # every `sync_interval_ms`
    NEVER = "never"  # when the operating system does it


@attrs.frozen
class UnixSettings:
    """A UNIX socket. `mode` None: as the umask has it; `owner` and `group` None: those of the process."""

    path: Path
    mode: int | None = None
    owner: str | None = None
    group: str | None = None


@attrs.frozen
class TcpSettings:
    """A TCP socket; `host` is a loopback address."""

    port: int
    host: str = "127.0.0.1"


@attrs.frozen
class InputSettings:
    """[inputs]: sizes are bytes."""

    unix_datagram: UnixSettings | None = None
    unix_stream: UnixSettings | None = None
    tcp: TcpSettings | None = None
    max_buffer: int = 128 * MIB  # the pool: memory of messages that wait for acknowledgements
    max_datagram_size: int = 64 * KIB
    allow_large_datagrams: bool = False  # larger than the default send buffer of a socket allows
    max_stream_message_size: int = 2 * MIB  # without the size field
    empty: Empty = Empty.NULL


@attrs.frozen
class HttpSettings:
    """[http]: pages on a loopback address; `allowed_hosts` are further names that a Host header may have."""

    port: int = 9090
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()


@attrs.frozen
class ReportSettings:
    """[reports]: intervals of discard reports, and the bytes kept of a refused message."""

    interval_s: float = 600.0
    prefix_size: int = 256


@attrs.frozen
class DiscardLogSettings:
    """[discard_log]: a file with a line for each discarded message. Sizes are bytes; prefix None: whole keys and values."""

    path: Path
    max_file_size: int = 1 * MIB
    max_archive_size: int = 32 * MIB
    max_prefix_size: int | None = 2048


@attrs.frozen
class RateLimitSettings:
    """At most `max_count` messages of a topic in each interval; 0 discards all."""

    interval_ms: int
    max_count: int


@attrs.frozen
class TopicSettings:
    """[topics.default], or [topics."name"]: None means what [topics.default] says, and there the producer's default."""

    batching: Batching | None = None
    linger_ms: float | None = None
    batch_bytes: int | None = None
    batch_records: int | None = None
    compression_type: str | None = None
    compression_level: int | None = None
    compression_min_bytes: int | None = None
    compression_max_ratio: float | None = None
    max_message_bytes: int | None = None
    rate_limit: RateLimitSettings | None = None


@attrs.frozen
class TopicsSettings:
    """[topics]: names may be patterns with *, ? and [ab], as in the producer's topic_policies."""

    default: TopicSettings = TopicSettings(batching=Batching.COMBINED, linger_ms=10_000)
    named: Mapping[str, TopicSettings] = attrs.Factory(dict)
    autocreate: bool = False
    offline: Offline = Offline.WAIT


@attrs.frozen
class SpoolSettings:
    """[spool]: a folder for messages that the cluster cannot take now. Sizes are bytes."""

    path: Path
    max_size: int = 1024 * MIB
    sync: Sync = Sync.INTERVAL
    sync_interval_ms: int = 1000
    always: bool = False  # every message is written to the disk before it is sent


@attrs.frozen
class ServiceSettings:
    """[service]: the process. `shutdown_ms` is the time for the delivery of what waits at the end."""

    shutdown_ms: int = 30_000
    user: str | None = None
    group: str | None = None
    log_level: str = "INFO"


@attrs.frozen
class AgentSettings:
    """The whole file. `kafka` has options of the producer, checked."""

    inputs: InputSettings
    kafka: Mapping[str, Any]
    topics: TopicsSettings = TopicsSettings()
    http: HttpSettings | None = HttpSettings()
    reports: ReportSettings = ReportSettings()
    discard_log: DiscardLogSettings | None = None
    spool: SpoolSettings | None = None
    service: ServiceSettings = ServiceSettings()
