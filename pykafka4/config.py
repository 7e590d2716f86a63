"""Options. Rule: every option is declared once, here, with type, unit, default, range and meaning; the docs are generated from it."""

from __future__ import annotations

import difflib
import logging
import operator
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Address
from numbers import Real
from typing import Any, TypeVar

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.peers import peers_option

__all__ = ["ClientConfig", "ConsumerConfig", "ProducerConfig", "describe", "parse_servers", "typed"]

log = logging.getLogger("pykafka4.config")
MAX_INT = 2**31 - 1
KIB, MIB = 1024, 1024 * 1024


LONGEST_STRING = 32_767  # bytes, the protocol's limit
WRONG_IN_HOSTS = frozenset(",;/@[]")


def _bad(name: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{name}={shown(value)}: {allowed}")


def _whole(value: Any) -> Any:
    """A plain int for any integer type (numpy's, an enum …); anything else unchanged, for the validator to reject."""
    return value if isinstance(value, bool) or not hasattr(type(value), "__index__") else int(operator.index(value))


def _real(value: Any) -> Any:
    """The same for numbers that may have a fraction."""
    value = _whole(value)
    if isinstance(value, (bool, int)) or not isinstance(value, Real):
        return value
    try:
        return float(value)
    except OverflowError:  # too large for a float
        return value


def _plain(value: Any) -> Any:
    """A plain str for an instance of any str subclass."""
    return str.__str__(value) if isinstance(value, str) else value


def _check_number(low: float, high: float, unit: str, kinds: tuple[type, ...]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and attribute.default is None:
            return
        if type(value) not in kinds or not low <= value <= high:  # excludes bool; NaN is in no range
            raise _bad(attribute.name, value, f"must be a number of {unit} from {low:,} to {high:,}")

    return check


def number(default: int | None, unit: str, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    """An integer with unit and range."""
    return attrs.field(
        default=default,
        converter=_whole,
        validator=_check_number(low, high, unit, (int,)),
        metadata={"unit": unit, "range": f"{low:,} to {high:,}", "doc": doc},
    )


def millis(default: int | None, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    """A duration in milliseconds; fractions allowed."""
    return attrs.field(
        default=default,
        converter=_real,
        validator=_check_number(low, high, "milliseconds", (int, float)),
        metadata={"unit": "ms", "range": f"{low:,} to {high:,}", "doc": doc},
    )


def choice(default: str, allowed: Iterable[str], doc: str) -> Any:
    """One of a fixed set of strings."""
    words = tuple(allowed)

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, str) or value not in words:
            raise _bad(attribute.name, value, f"must be one of {', '.join(words)}{_tls_hint(attribute.name, value)}")

    return attrs.field(default=default, converter=_plain, validator=check, metadata={"unit": "", "range": ", ".join(words), "doc": doc})


def _tls_hint(name: str, value: object) -> str:
    secured = name == "security_protocol" and str(value).upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
    return "; this version supports neither TLS nor SASL: connect to a PLAINTEXT listener" if secured else ""


def flag(default: bool | None, doc: str) -> Any:
    """True or false."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, bool) and not (value is None and attribute.default is None):
            raise _bad(attribute.name, value, "must be True or False")

    return attrs.field(default=default, validator=check, metadata={"unit": "", "range": "True, False", "doc": doc})


def text(default: str | None, doc: str) -> Any:
    """A non-empty string that the protocol can encode, or None if that is the default."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and attribute.default is None:
            return
        if not isinstance(value, str) or not value:
            raise _bad(attribute.name, value, "must be a non-empty string" + (" or None" if attribute.default is None else ""))
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise _bad(attribute.name, value, f"cannot be sent as UTF-8: {error.reason} at {error.start}") from None
        if size > LONGEST_STRING:
            raise _bad(attribute.name, value, f"has {size:,} bytes as UTF-8; the protocol allows at most {LONGEST_STRING:,}")

    return attrs.field(default=default, converter=_plain, validator=check, metadata={"unit": "", "range": "text", "doc": doc})


def parse_servers(value: object) -> tuple[tuple[str, int], ...]:
    """Parse `"a:9092,b"`, or a list of such, into ((host, port), …); the port defaults to 9092, IPv6 is written `[::1]:9092`."""
    parts = str.split(value, ",") if isinstance(value, str) else value
    if isinstance(parts, (bytes, bytearray, Mapping)) or not isinstance(parts, Iterable):
        raise _bad("bootstrap_servers", value, 'must be a string such as "host1:9092,host2:9092", or a list of such')
    servers = tuple(_parse_server(part) for part in parts if not (isinstance(part, str) and not part.strip()))
    if not servers:
        raise _bad("bootstrap_servers", value, 'is empty; name at least one broker, such as "localhost:9092"')
    return servers


def _parse_server(part: object) -> tuple[str, int]:
    part = _plain(part)
    if isinstance(part, tuple) and len(part) == 2:
        host, port = _plain(part[0]), _whole(part[1])
    elif isinstance(part, str):
        if "://" in part:
            raise _bad("bootstrap_servers", part, "must be host:port without a scheme (set the option security_protocol instead)")
        host, _, port = part.strip().rpartition(":") if _has_port(part) else (part.strip(), "", "9092")
        host, port = host.strip(), port.strip()
    else:
        raise _bad("bootstrap_servers", part, "must be a string such as host:9092")
    number = port if type(port) is int else int(port) if isinstance(port, str) and port.isdecimal() and len(port) < 6 else 0
    if not isinstance(host, str) or not host or not 0 < number < 65536:
        raise _bad("bootstrap_servers", part, f"must be host:port with a port from 1 to 65535{_way_out(part)}")
    host = _host(part, host)
    try:
        host.encode("idna")  # as the resolver will
    except UnicodeError as error:
        raise _bad("bootstrap_servers", part, f"{host!r} is not a valid host name: {error}") from None
    return host, number


def _host(part: object, host: str) -> str:
    """The host without brackets."""
    address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in address:  # `::1` is an address, `a:b:c` is not
        try:
            IPv6Address(address)
        except ValueError:
            raise _bad("bootstrap_servers", part, f"{host!r} is neither a host name nor an IPv6 address{_way_out(part)}") from None
        return address
    if wrong := [character for character in host if character in WRONG_IN_HOSTS or character.isspace() or not character.isprintable()]:
        raise _bad("bootstrap_servers", part, f"{wrong[0]!r} cannot be in a host name{_way_out(part)}")
    return host


def _way_out(part: object) -> str:
    """A hint at what was probably meant."""
    if not isinstance(part, str):
        return ""
    if "," in part or ";" in part:
        return '; separate brokers with commas, "host1:9092,host2:9092", or pass a list with one broker per item'
    if "[" in part or "]" in part or part.count(":") > 1:
        return "; an IPv6 address with a port is written [::1]:9092"
    return "; remove the user name" if "@" in part else "; remove the path" if "/" in part else ""


def _has_port(part: str) -> bool:
    return ":" in part.rpartition("]")[2] and (part.strip().startswith("[") or part.count(":") == 1)


def _acks(value: object) -> int:
    table = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}
    value = _plain(_whole(value))
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value not in table:
        raise _bad("acks", value, "must be 'all', 1 or 0")
    return table[value]


def _names(value: object) -> tuple[str, ...]:
    parts = str.split(value, ",") if isinstance(value, str) else value
    if not isinstance(parts, Iterable):
        return ()
    names = tuple(str.strip(part) if isinstance(part, str) else None for part in parts)
    return () if None in names else names  # type: ignore[return-value]


@attrs.frozen(kw_only=True)
class ClientConfig:
    """Options of every client."""

    bootstrap_servers: tuple[tuple[str, int], ...] = attrs.field(
        converter=parse_servers,
        metadata={"unit": "", "range": "host:port, …", "doc": "Brokers to connect to first; any broker of the cluster."},
    )
    client_id: str = text("pykafka4", "Name shown in the brokers' logs, quotas and metrics.")
    request_timeout_ms: float = millis(
        30_000,
        "How long to wait for a response before the connection is closed, counted from the broker's previous response if that came later; "
        "batches sent to an unresponsive leader wait this long.",
        low=1,
    )
    retry_backoff_ms: float = millis(100, "Initial back-off before a failed request is retried; doubles, with jitter.", low=1)
    retry_backoff_max_ms: float = millis(1_000, "Maximum of that back-off.", low=1)
    reconnect_backoff_ms: float = millis(50, "Initial back-off before reconnecting to a broker; doubles, with jitter.", low=1)
    reconnect_backoff_max_ms: float = millis(1_000, "Maximum of that back-off.", low=1)
    socket_connection_setup_timeout_ms: float = millis(10_000, "How long one connection attempt may take, handshake included.", low=1)
    socket_connection_setup_timeout_max_ms: float = millis(30_000, "Maximum of that timeout, which grows while attempts fail.", low=1)
    connections_max_idle_ms: float = millis(540_000, "A connection idle for this long is closed.", low=1)
    metadata_max_age_ms: float = millis(300_000, "Metadata is refreshed at least this often (less a random 20 %).", low=1)
    allow_auto_create_topics: bool = flag(
        True, "Ask brokers to create missing topics that a producer sends to. Consumers never create topics."
    )
    unknown_topic_timeout_ms: float = millis(60_000, "Records for a topic that does not exist fail after this long.", low=1)
    receive_message_max_bytes: int = number(
        100 * MIB, "bytes", "A larger response is rejected before memory is allocated for it.", low=1024
    )
    security_protocol: str = choice("PLAINTEXT", ("PLAINTEXT",), "Protocol of the connections.")

    @classmethod
    def parse(cls: type[C], options: Mapping[str, Any]) -> C:
        """The configuration in `options`. Raises ConfigError, for an unknown option with the nearest valid name."""
        known = [a.name for a in attrs.fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigError(_unknown(name, known, cls))
        if "bootstrap_servers" not in options:
            raise ConfigError('bootstrap_servers is missing; name at least one broker, such as bootstrap_servers="localhost:9092"')
        return cls(**options)


C = TypeVar("C", bound=ClientConfig)


def _unknown(name: str, known: list[str], cls: type[ClientConfig]) -> str:
    plain = name.replace(".", "_").replace("-", "_").lower()
    near = [plain] if plain in known else difflib.get_close_matches(plain, known, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]!r}?" if near else "docs/options.md lists all options"
    if plain not in known:
        hint = peers_option(plain, known) or _of_the_other_class(plain) or hint
    return f"unknown {_kind(cls)} option {name!r}; {hint}"


def _of_the_other_class(name: str) -> str | None:
    """A hint for a producer option given to a consumer, or the other way round."""
    owner = next((cls for cls in (ProducerConfig, ConsumerConfig) if name in attrs.fields_dict(cls)), None)
    return None if owner is None else f"it is a {_kind(owner)} option"


def _kind(cls: type[ClientConfig]) -> str:
    return cls.__name__.removesuffix("Config").lower()


_warned: set[int] = set()


def _warn_without_idempotence(client_id: str, acks: int) -> None:
    """Once per process: users who lower `acks` may not expect that this disables idempotence."""
    if acks != -1 and acks not in _warned:
        _warned.add(acks)
        log.warning(
            "%s: acks=%d disables enable_idempotence: retries may write duplicates; set enable_idempotence=False to silence this warning",
            client_id,
            acks,
        )


@attrs.frozen(kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of producers, besides those of every client."""

    acks: int = attrs.field(
        default=-1,
        converter=_acks,
        metadata={
            "unit": "",
            "range": "all, 1, 0",
            "doc": "How many replicas must have written a record: all in-sync ones, the leader, none.",
        },
    )
    enable_idempotence: bool | None = flag(None, "Brokers discard duplicates caused by retries. Default: on with acks=all, off otherwise.")
    batch_size: int = number(256 * KIB, "bytes", "A batch is sent when it reaches this size; buffers start small.", low=1024, high=64 * MIB)
    linger_ms: float = millis(5, "How long a batch waits for more records; up to an eighth less if others are sent before.", high=600_000)
    buffer_memory: int = number(64 * MIB, "bytes", "Memory that records may use while they wait for brokers.", low=64 * KIB, high=2**40)
    max_partition_bytes: int | None = number(
        None, "bytes", "How much of buffer_memory one partition may use. Default: a quarter.", low=4 * KIB, high=2**40
    )
    max_block_ms: float = millis(60_000, "How long `send` blocks while the buffer is full, or while an unknown partition is looked up.")
    delivery_timeout_ms: float = millis(
        120_000,
        "A record fails if it is not acknowledged this long after `send`. Records of a batch fail together, with the oldest: up to a tenth "
        "of this, plus `linger_ms`, earlier.",
        low=1,
    )
    metadata_max_idle_ms: float = millis(300_000, "Metadata of a topic is dropped when nothing was sent to it for this long.", low=1)
    max_request_size: int = number(MIB, "bytes", "Largest record (uncompressed) and largest request.", low=1024, high=1024 * MIB)
    max_in_flight_requests_per_connection: int = number(
        5,
        "requests",
        "Maximum number of requests in flight to a broker; at most 5 with idempotence. Of one partition at most "
        "5 batches are in flight with idempotence (1 to Kafka 0.11), and 1 without.",
        low=1,
        high=1000,
    )
    compression_type: str = choice("none", ("none", "gzip", "snappy", "lz4", "zstd"), "Codec for batches.")

    def __attrs_post_init__(self) -> None:
        if self.enable_idempotence is None:
            object.__setattr__(self, "enable_idempotence", self.acks == -1)
            _warn_without_idempotence(self.client_id, self.acks)
        elif self.enable_idempotence and self.acks != -1:
            raise ConfigError(f"acks={self.acks} with enable_idempotence=True: idempotence needs acks='all'; drop one of the two")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise ConfigError(
                f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection}: brokers remember the last 5 batches "
                "of an idempotent producer; use 5 or fewer, or enable_idempotence=False"
            )
        if self.max_partition_bytes is None:
            object.__setattr__(self, "max_partition_bytes", max(self.buffer_memory // 4, 4 * KIB))
        if self.delivery_timeout_ms < self.linger_ms:
            raise ConfigError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} is less than linger_ms={self.linger_ms}: "
                "records would expire before they are sent"
            )

    @property
    def partition_bytes(self) -> int:
        """`max_partition_bytes` with its default resolved."""
        assert self.max_partition_bytes is not None
        return self.max_partition_bytes


@attrs.frozen(kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of consumers, besides those of every client."""

    group_id: str | None = text(None, "Consumer group; None: no group, no commits, partitions by `assign`.")
    group_instance_id: str | None = text(None, "Id of a static member, which may restart within session_timeout_ms without a rebalance.")
    session_timeout_ms: float = millis(45_000, "A member that sends no heartbeat for this long is removed from the group.", low=1)
    heartbeat_interval_ms: float = millis(
        3_000, "Longest interval of heartbeats to the group coordinator; shorter by as much as recent ones were late.", low=1
    )
    max_poll_interval_ms: float = millis(
        300_000, "Maximum time between two polls, or two records of a `for` loop, before the member leaves the group.", low=1
    )
    partition_assignment_strategy: tuple[str, ...] = attrs.field(
        default=("range",),
        converter=_names,
        metadata={"unit": "", "range": "range", "doc": "How partitions are assigned to members, in order of preference."},
    )
    auto_offset_reset: str = choice(
        "latest", ("earliest", "latest", "none"), "Where to start when there is no committed offset, or it is out of range."
    )
    enable_auto_commit: bool = flag(
        True, "Commit finished records every auto_commit_interval_ms, before partitions are revoked, and on close."
    )
    auto_commit_interval_ms: float = millis(5_000, "Interval of auto-commit.", low=1)
    isolation_level: str = choice("read_uncommitted", ("read_uncommitted",), "Which transactional records `poll` returns.")
    fetch_min_bytes: int = number(1, "bytes", "A broker responds when it has this much data, or after fetch_max_wait_ms.")
    fetch_max_wait_ms: float = millis(
        500,
        "How long a broker may wait for fetch_min_bytes; with fetch_min_bytes=1 up to ten times as long (at most 30 s) if it has no data.",
    )
    fetch_max_bytes: int = number(50 * MIB, "bytes", "Maximum size of a fetch response; at most receive_message_max_bytes.", low=1)
    max_partition_fetch_bytes: int = number(
        MIB, "bytes", "Maximum bytes of one partition in a fetch response; a larger first batch is still returned.", low=1
    )
    prefetch_bytes: int = number(64 * MIB, "bytes", "Maximum bytes of fetched data that wait for `poll`; fetching pauses above it.", low=1)
    max_poll_records: int = number(500, "records", "Maximum number of records that one `poll` returns.", low=1)
    max_decompressed_bytes: int = number(64 * MIB, "bytes", "A batch whose decompressed size is larger is rejected.", low=1024)

    def __attrs_post_init__(self) -> None:
        unknown = [name for name in self.partition_assignment_strategy if name != "range"]
        if unknown or not self.partition_assignment_strategy:
            raise _bad("partition_assignment_strategy", ",".join(self.partition_assignment_strategy), "must be 'range'")
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be less than session_timeout_ms={self.session_timeout_ms}; "
                "a third of it is usual"
            )
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError(f"group_instance_id={self.group_instance_id!r} needs a group_id")
        if self.fetch_max_bytes > self.receive_message_max_bytes:
            raise ConfigError(
                f"fetch_max_bytes={self.fetch_max_bytes} is larger than receive_message_max_bytes={self.receive_message_max_bytes}: "
                "responses of that size would be rejected; lower the former or raise the latter"
            )


def _shown(name: str, default: object) -> str:
    if name == "acks":
        return "all"
    return ", ".join(default) if isinstance(default, tuple) else str(default)


def typed(cls: type[ClientConfig]) -> list[tuple[str, str]]:
    """(name, type) of every option that `cls` adds to its base, as a type checker should see them in a call."""
    base = {a.name for a in attrs.fields(cls.__base__)} if cls is not ClientConfig else set()  # type: ignore[arg-type]
    special = {"bootstrap_servers": "Servers", "acks": "str | int", "partition_assignment_strategy": "str | Iterable[str]"}
    return [(a.name, special.get(a.name, str(a.type))) for a in attrs.fields(cls) if a.name not in base]


def describe(cls: type[ClientConfig]) -> list[tuple[str, str, str, str, str]]:
    """(name, default, unit, range, meaning) of every option that `cls` adds to its base."""
    base = {a.name for a in attrs.fields(cls.__base__)} if cls is not ClientConfig else set()  # type: ignore[arg-type]
    rows = []
    for a in attrs.fields(cls):
        if a.name not in base:
            default = "required" if a.default is attrs.NOTHING else _shown(a.name, a.default)
            rows.append((a.name, default, a.metadata["unit"], a.metadata["range"], a.metadata["doc"]))
    return rows
