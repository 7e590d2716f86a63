"""Declares the options of clients, producers and consumers: type, unit, default, range and meaning.

`make options` renders docs/options.md and `typed.py` from these declarations. `security.py` has the options of TLS and SASL, `fields.py`
the kinds of fields.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.hooks import parse_consumer_hooks, parse_hooks
from pykafka4.logs import Subject
from pykafka4.options.fields import (
    KIB,
    MIB,
    as_int,
    as_str,
    bad,
    changed_options,
    choice,
    flag,
    mapping,
    millis,
    millis_or_off,
    number,
    number_or_off,
    parsed,
    ratio,
    text,
)
from pykafka4.options.hosts import AllowedHosts, address_or_name, parse_allowed_hosts
from pykafka4.options.policies import SETTINGS, RateLimit, TopicPolicy, check_level, policies_of, policy_with, rates_of
from pykafka4.options.proxy import Proxy, parse_proxy
from pykafka4.options.resets import check_reset, parse_reset
from pykafka4.options.security import SecurityConfig
from pykafka4.options.serializers import (
    parse_key_deserializers,
    parse_key_serializers,
    parse_value_deserializers,
    parse_value_serializers,
)
from pykafka4.options.servers import parse_servers
from pykafka4.other_clients.tables import option_hint
from pykafka4.partitioners import DEFAULT, NAMED, PartitionFunction
from pykafka4.serializers import NAMED as NAMED_SERIALIZERS
from pykafka4.serializers import NAMED_DESERIALIZERS, Deserializers, Serializers

if TYPE_CHECKING:
    from pykafka4.assignors.interface import Assignor

__all__ = ["GROUP_OPTIONS", "ClientConfig", "ConsumerConfig", "ProducerConfig", "hide_secrets", "parse_servers"]

log = logging.getLogger("pykafka4.config")

# Options of ConsumerConfig without a meaning for `read` and `table`, which have no group.
GROUP_OPTIONS: Final = (
    *("group_id", "group_instance_id", "group_protocol", "group_remote_assignor", "partition_assignment_strategy"),
    *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "enable_auto_commit", "auto_commit_interval_ms"),
)
# Options that group_protocol=consumer refuses, each with the setting that replaces it.
CLASSIC_ONLY: Final = {
    "session_timeout_ms": "the coordinator takes it from the group's config consumer.session.timeout.ms",
    "heartbeat_interval_ms": "the coordinator takes it from the group's config consumer.heartbeat.interval.ms",
    "partition_assignment_strategy": "the coordinator assigns the partitions; group_remote_assignor names its assignor",
}


def _parse_acks(value: object) -> int:
    table = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}
    value = as_str(as_int(value))
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value not in table:
        raise bad("acks", value, "must be 'all', 1 or 0")
    return table[value]


DEAD_LETTER: Final = "dead-letter:"  # prefix of a value of on_poison; the name of a topic follows


def _check_on_poison(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    is_topic = isinstance(value, str) and value.startswith(DEAD_LETTER) and value != DEAD_LETTER
    if value not in ("raise", "skip") and not is_topic:
        raise bad(attribute.name, value, f"must be 'raise', 'skip', or '{DEAD_LETTER}' and the name of a topic")


# The names in `assignors.builtin`, which is not imported here: producers do not need it.
ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")


def _parse_strategies(value: Any) -> tuple[str | Assignor, ...]:
    parts: Any = str.split(value, ",") if isinstance(value, str) else value
    if not isinstance(parts, Iterable) or isinstance(parts, (bytes, Mapping)):
        parts = (parts,)
    return tuple(str.strip(part) if isinstance(part, str) else part for part in parts)


def _check_strategies(_: Any, attribute: attrs.Attribute[Any], value: tuple[Any, ...]) -> None:
    names = [_assignor_name(attribute.name, each) for each in value]
    if not names:
        raise ConfigError(f"{attribute.name} is empty: must have at least one of {', '.join(ASSIGNORS)}, or an assignor of your own")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{attribute.name} has two assignors with the name {name!r}: members agree on an assignor by its name")


def _assignor_name(option: str, assignor: Any) -> str:
    if isinstance(assignor, str):
        if assignor not in ASSIGNORS:
            raise bad(option, assignor, f"must be one of {', '.join(ASSIGNORS)}, or an assignor of your own (pykafka4.assignors.Assignor)")
        return assignor
    what = f"{option}: {shown(assignor)}"
    if isinstance(assignor, type):
        raise ConfigError(f"{what} is a class: pass an object, {assignor.__name__}()")
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(assignor, "assign", None)):
        raise ConfigError(
            f"{what} is neither a name nor an assignor; an assignor has name, cooperative and assign (pykafka4.assignors.Assignor)"
        )
    if not isinstance(getattr(assignor, "cooperative", None), bool):
        raise ConfigError(f"{what}: its `cooperative` must be True or False")
    user_data = getattr(assignor, "user_data", None)
    if user_data is not None and not callable(user_data):
        raise ConfigError(f"{what}: its `user_data` must be a method, not {shown(user_data)}")
    return name


@attrs.frozen(kw_only=True)
class ClientConfig(SecurityConfig):
    """Options of every client."""

    bootstrap_servers: tuple[tuple[str, int], ...] = parsed(
        parse_servers, "host:port, …", "Brokers to connect to first; any brokers of the cluster will do.", default=attrs.NOTHING
    )
    proxy_url: Proxy | None = parsed(
        parse_proxy,
        "URL",
        "Proxy for all connections: `socks5://[user:password@]host:port`, or `http://…` for HTTP CONNECT. "
        "The proxy looks up the names of brokers.",
    )
    allowed_hosts: AllowedHosts | None = parsed(
        parse_allowed_hosts,
        "host or network, …",
        "Hosts that brokers may advertise: names (`example.com`, with its subdomains) and networks (`10.0.0.0/8`). "
        "The client connects to brokers at other hosts only if `bootstrap_servers` has these hosts. None: any host.",
    )
    client_id: str = text("pykafka4", "Name shown in the brokers' logs, quotas and metrics.")
    enable_metrics_push: bool = flag(
        True, "Whether producers and consumers push metrics to brokers that want them. Brokers without KIP-714 get no request."
    )
    request_timeout_ms: float = millis(
        30_000,
        "How long to wait for a response before the connection is closed, counted from the request, or from the broker's previous response "
        "if that came after the request; batches sent to an unresponsive leader wait this long.",
        low=1,
    )
    retry_backoff_ms: float = millis(100, "Initial backoff before a failed request is retried; doubles, with jitter.", low=1)
    retry_backoff_max_ms: float = millis(1_000, "Maximum of the backoff that begins with `retry_backoff_ms`.", low=1)
    reconnect_backoff_ms: float = millis(50, "Initial backoff before reconnecting to a broker; doubles, with jitter.", low=1)
    reconnect_backoff_max_ms: float = millis(1_000, "Maximum of the backoff that begins with `reconnect_backoff_ms`.", low=1)
    socket_connection_setup_timeout_ms: float = millis(10_000, "How long one connection attempt may take, handshake included.", low=1)
    socket_connection_setup_timeout_max_ms: float = millis(
        30_000, "Maximum of an attempt's timeout, which grows while attempts fail.", low=1
    )
    connections_max_idle_ms: float = millis(540_000, "A connection idle for this long is closed.", low=1)
    metadata_max_age_ms: float = millis(300_000, "Metadata is refreshed at this age, or up to 20 % earlier, at random.", low=1)
    allow_auto_create_topics: bool = flag(
        True, "Ask brokers to create missing topics that a producer sends to. Consumers never create topics."
    )
    unknown_topic_timeout_ms: float = millis(
        60_000, "Records for a topic that does not exist fail after this long; while no broker can be reached, they wait.", low=1
    )
    receive_message_max_bytes: int = number(
        100 * MIB, "bytes", "A larger response is rejected before memory is allocated for it.", low=1024
    )

    def allows(self, host: str) -> bool:
        """Whether the client may connect to `host`: `allowed_hosts` is None or allows it, or the host is a bootstrap server."""
        if self.allowed_hosts is None or self.allowed_hosts.allows(host):
            return True
        return address_or_name(host) in map(address_or_name, dict(self.bootstrap_servers))

    @classmethod
    def parse(cls: type[C], options: Mapping[str, Any]) -> C:
        """Make a configuration from `options`.

        Raises ConfigError, which for an unknown option names a similar one if there is one; TypeError if a method of a hook is a coroutine
        function.
        """
        known = [a.name for a in attrs.fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigError(_unknown(name, known, cls))
        if "bootstrap_servers" not in options:
            raise ConfigError('bootstrap_servers is missing; name at least one broker, such as bootstrap_servers="localhost:9092"')
        return cls(**options)


C = TypeVar("C", bound=ClientConfig)


def _unknown(name: str, known: list[str], cls: type[ClientConfig]) -> str:
    as_str = name.replace(".", "_").replace("-", "_").lower()
    near = [as_str] if as_str in known else difflib.get_close_matches(as_str, known, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]!r}?" if near else "docs/options.md lists all options"
    if as_str not in known:
        hint = option_hint(as_str, known) or _of_the_other_class(as_str) or hint
    return f"unknown {_kind(cls)} option {name!r}; {hint}"


def _of_the_other_class(name: str) -> str | None:
    """A hint for an option of producers or consumers that was given to another kind of client."""
    owner = next((cls for cls in (ProducerConfig, ConsumerConfig) if name in attrs.fields_dict(cls)), None)
    return None if owner is None else f"it is a {_kind(owner)} option"


def _kind(cls: type[ClientConfig]) -> str:
    return "share consumer" if cls.__name__ == "ShareConsumerConfig" else cls.__name__.removesuffix("Config").lower()


_warned: set[int] = set()  # values of `acks`


def _warn_without_idempotence(client_id: str, acks: int) -> None:
    """Warn once per process and value: users who lower `acks` might not know that this disables idempotence."""
    if acks != -1 and acks not in _warned:
        _warned.add(acks)
        log.warning(
            "%s: acks=%d disables enable_idempotence: brokers do not discard duplicates; "
            "set enable_idempotence=False to silence this warning",
            client_id,
            acks,
        )


def _check_partitioner(_: object, attribute: object, value: object) -> None:
    if not callable(value) and not (isinstance(value, str) and value in NAMED):
        raise bad("partitioner", value, f"must be one of {', '.join(NAMED)}, or a callable")


@attrs.frozen(kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of producers, in addition to the options of every client."""

    acks: int = parsed(
        _parse_acks,
        "all, 1, 0",
        "Which replicas must have written a record before it is acknowledged: all in-sync replicas, the leader, or none.",
        default=-1,
    )
    enable_idempotence: bool | None = flag(
        None, "Brokers discard duplicates caused by retries. Default: on with acks=all, unless retries=0; otherwise off."
    )
    transactional_id: str | None = text(
        None,
        "Name under which transactions outlive this producer: a new producer with the same name fences this one. None: no transactions.",
    )
    transaction_timeout_ms: float = millis(
        60_000, "The coordinator aborts a transaction that is open for longer; at most the brokers' transaction.max.timeout.ms.", low=1
    )
    # A Produce request has at most one batch for each partition, so small batches limit the rate, and cost CPU in client and broker.
    batch_size: int = number(
        256 * KIB,
        "bytes",
        "A batch is sent when the next record does not fit into this size; buffers start small.",
        low=1024,
        high=64 * MIB,
    )
    linger_ms: float | None = millis_or_off(
        5,
        "How long a batch waits for more records; up to an eighth less if other batches are sent then. None: until it is full or "
        "reaches `batch_bytes` or `batch_records`, at most half of `delivery_timeout_ms`.",
        high=600_000,
    )
    batching: str = choice(
        "partition",
        ("partition", "combined"),
        "`partition`: `linger_ms`, `batch_bytes` and `batch_records` apply to each batch. `combined`: they apply to the open batches of "
        "all topics with the same three values, and these batches are sent together.",
    )
    batch_bytes: int | None = number_or_off(
        None, "bytes", "A batch is sent when its keys and values have this many bytes; a record counts as at least 1.", low=1
    )
    batch_records: int | None = number_or_off(None, "records", "A batch is sent when it has this many records.", low=1)
    buffer_memory: int = number(64 * MIB, "bytes", "Memory that records may use while they wait for brokers.", low=64 * KIB, high=2**40)
    # The records of an unavailable partition wait in the buffer, and must leave room for the other partitions.
    max_partition_bytes: int | None = number(
        None, "bytes", "How much of buffer_memory one partition may use. Default: a quarter.", low=4 * KIB, high=2**40
    )
    on_full: str = choice(
        "block",
        ("block", "raise", "drop"),
        "While the buffer is full, `send` waits up to max_block_ms, raises BufferFull at once, or drops the record. "
        "A dropped record is counted in stats(), and its Delivery fails.",
    )
    key_serializer: Serializers | None = parsed(
        parse_key_serializers,
        ", ".join(NAMED_SERIALIZERS),
        "How keys become bytes: a name, a callable with topic and key, or a mapping of topic patterns to these. "
        "Default: bytes and str are sent as they are.",
    )
    value_serializer: Serializers | None = parsed(
        parse_value_serializers, ", ".join(NAMED_SERIALIZERS), "How values become bytes, in the same forms as `key_serializer`."
    )
    hooks: tuple[Any, ...] = parsed(
        parse_hooks,
        "objects",
        "An object, or several, whose methods are called when records are sent and batches have their outcome.",
        default=(),
    )
    max_block_ms: float = millis(
        60_000, "How long `send` may wait: for room in the buffer, for the topic's metadata, or for the topic's rate limit."
    )
    delivery_timeout_ms: float = millis(
        120_000,
        "A record fails if it is not acknowledged this long after `send`. All records of a batch fail when its oldest record does, so "
        "newer records can fail early, by up to `linger_ms` plus a tenth of this time.",
        low=1,
    )
    close_timeout_ms: float | None = millis(
        None,
        "How long `close`, and the end of a `with` block, wait for deliveries; then the remaining records fail. "
        "Default: `delivery_timeout_ms`.",
    )
    retries: int | None = number(
        None,
        "attempts",
        "How many times at most a batch that was written to a socket is sent again. Default: until delivery_timeout_ms has passed. 0: a "
        "batch is sent at most once, so that records can be lost but not duplicated; disables enable_idempotence.",
        high=2**31 - 1,
    )
    max_failed_attempts: int | None = number(
        None,
        "attempts",
        "A batch fails after this many error responses; lost connections do not count. Default: no such limit.",
        low=1,
        high=2**31 - 1,
    )
    metadata_max_idle_ms: float = millis(300_000, "Metadata of a topic is dropped after this time without a record for the topic.", low=1)
    max_request_size: int = number(
        MIB,
        "bytes",
        "Largest record, uncompressed, and largest sum of the batches in a request. A raw batch may be larger.",
        low=1024,
        high=1024 * MIB,
    )
    max_in_flight_requests_per_connection: int = number(
        5,
        "requests",
        "Maximum number of requests in flight to a broker; at most 5 with idempotence. At most 5 batches of one partition are in flight "
        "with idempotence (1 with Kafka 0.11), and 1 without.",
        low=1,
        high=1000,
    )
    max_message_bytes: int | None = number_or_off(
        None,
        "bytes",
        "Largest batch, and largest record with its overhead, before compression. None: `max_request_size` is the limit.",
        low=128,
    )
    compression_type: str = choice("none", ("none", "gzip", "snappy", "lz4", "zstd"), "Codec for batches.")
    partitioner: str | PartitionFunction = parsed(
        as_str,
        f"{', '.join(NAMED)}, or a callable",
        "Chooses the partition of a record that is sent without one (docs/guide/partitioning.md). A callable is called with topic, key, "
        "partitions and available partitions.",
        default=DEFAULT,
        validator=_check_partitioner,
    )
    partitioner_ignore_keys: bool = flag(False, "Keys do not choose partitions. A callable still gets the keys.")
    partitioner_adaptive_partitioning_enable: bool = flag(
        True, "Records without a key go less often to partitions whose earlier records are not acknowledged yet (KIP-794)."
    )
    compression_level: int | None = number_or_off(
        None,
        "level",
        "Level of the codec: gzip 1 to 9, lz4 1 to 17, zstd -131,072 to 22. None: the codec's default.",
        low=-131_072,
        high=22,
    )
    compression_min_bytes: int = number(0, "bytes", "A batch with fewer bytes of records is not compressed.")
    compression_max_ratio: float = ratio(
        1.0, "A batch is sent uncompressed if its compressed size would be more than this share of its uncompressed size."
    )
    topic_policies: tuple[TopicPolicy, ...] = mapping(
        policies_of, "name or pattern -> settings", f"Settings of single topics: {', '.join(f'`{name}`' for name in SETTINGS)}."
    )
    rate_limits: tuple[RateLimit, ...] = mapping(
        rates_of,
        "name or pattern -> (max_messages, interval_ms)",
        "How many records of a topic are accepted in each interval; 0: none. None instead of the pair: no limit, "
        "whatever later patterns say.",
    )
    on_rate_limit: str = choice("delay", ("delay", "drop"), "`send` delays or drops the records over the limit of their topic.")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.transactional_id is not None and (self.acks != -1 or self.enable_idempotence is False):
            reason = f"acks={self.acks}" if self.acks != -1 else "enable_idempotence=False"
            raise ConfigError(f"{reason} with transactional_id={self.transactional_id!r}: transactions need acks='all' and idempotence")
        if self.retries == 0 and (self.enable_idempotence or self.transactional_id is not None):
            other = "enable_idempotence=True" if self.transactional_id is None else f"transactional_id={self.transactional_id!r}"
            raise ConfigError(f"retries=0 with {other}: idempotence needs retries; set retries to 1 or more, or leave out {other}")
        if self.enable_idempotence is None:  # the default depends on other options; the class is frozen
            object.__setattr__(self, "enable_idempotence", self.acks == -1 and self.retries != 0)
            _warn_without_idempotence(self.client_id, self.acks)
        elif self.enable_idempotence and self.acks != -1:
            raise ConfigError(f"acks={self.acks} with enable_idempotence=True: idempotence needs acks='all'; leave out one of the two")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise ConfigError(
                f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection}: brokers remember the last 5 batches "
                "of an idempotent producer; use 5 or fewer, or enable_idempotence=False"
            )
        if self.max_partition_bytes is None:
            object.__setattr__(self, "max_partition_bytes", max(self.buffer_memory // 4, 4 * KIB))
        if self.transactional_id is not None and self.rate_limits and self.on_rate_limit == "drop":
            raise ConfigError(
                f"on_rate_limit='drop' with transactional_id={self.transactional_id!r}: "
                "a transaction would be committed without the dropped records; use 'delay', or no rate_limits"
            )
        check_level(self.compression_type, self.compression_level)
        fields = attrs.fields_dict(type(self))
        policies = tuple(policy_with(policy, fields, self.compression_type) for policy in self.topic_policies)
        object.__setattr__(self, "topic_policies", policies)
        for linger in (self.linger_ms, *(dict(policy.settings).get("linger_ms") for policy in policies)):
            if linger is not None and self.delivery_timeout_ms < linger:
                raise ConfigError(
                    f"delivery_timeout_ms={self.delivery_timeout_ms} is less than linger_ms={linger}: "
                    "records would expire before they are sent"
                )

    @property
    def partition_bytes(self) -> int:
        """`max_partition_bytes` with its default resolved."""
        assert self.max_partition_bytes is not None
        return self.max_partition_bytes


@attrs.frozen(kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of consumers, in addition to the options of every client."""

    group_id: str | None = text(None, "Consumer group. None: no group and no commits; `subscribe` reads all partitions of its topics.")
    group_instance_id: str | None = text(None, "Id of a static member, which may restart within session_timeout_ms without a rebalance.")
    client_rack: str | None = text(
        None,
        "Rack of this consumer: the assignors `range`, `sticky` and `cooperative-sticky` prefer partitions with a replica in the rack, and "
        "records are fetched from a follower in the rack, if brokers have a `replica.selector.class` (KIP-392).",
    )
    group_protocol: str = choice(
        "classic",
        ("classic", "consumer"),
        "Who assigns the partitions: `classic`, a member; `consumer`, the coordinator (KIP-848, from Kafka 4.0 on).",
    )
    group_remote_assignor: str | None = text(
        None,
        "With group_protocol=consumer: `uniform`, `range`, or another assignor that the coordinator has. None: the coordinator chooses.",
    )
    session_timeout_ms: float = millis(45_000, "A member that sends no heartbeat for this long is removed from the group.", low=1)
    heartbeat_interval_ms: float = millis(
        3_000, "Longest interval between heartbeats to the group coordinator; it is shortened by the delay of recent heartbeats.", low=1
    )
    close_timeout_ms: float = millis(
        10_000,
        "How long `close`, and the end of a `with` block, wait for the last commit and for leaving the group; "
        "the listener's time is not counted.",
    )
    max_poll_interval_ms: float = millis(
        300_000, "Maximum time between two polls, or two records of a `for` loop, before the member leaves the group.", low=1
    )
    # The default is eager, as in Java. With both names in all members, a group can change to the cooperative assignor one member at a time.
    partition_assignment_strategy: tuple[str | Assignor, ...] = parsed(
        _parse_strategies,
        ", ".join(ASSIGNORS),
        "How partitions are assigned to members, in order of preference: names, or assignors of your own.",
        default=("range", "cooperative-sticky"),
        validator=_check_strategies,
    )
    auto_offset_reset: str = parsed(
        parse_reset,
        "earliest, latest, none, by_duration:…",
        "Where to start if there is no committed offset, or the offset is out of range; `by_duration:PT1H` or "
        "`timedelta(hours=1)`: at the records of the last hour (KIP-1106).",
        default="latest",
        validator=check_reset,
    )
    exclude_internal_topics: bool = flag(True, "Whether a subscription by pattern leaves out the topics that brokers use themselves.")
    enable_auto_commit: bool = flag(
        True, "Commit finished records every auto_commit_interval_ms, before partitions are revoked, and on close."
    )
    auto_commit_interval_ms: float = millis(5_000, "Interval of auto-commit.", low=1)
    isolation_level: str = choice(
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "Whether `poll` returns records of transactions that are open or aborted. read_committed reads up to the last stable offset.",
    )
    fetch_min_bytes: int = number(1, "bytes", "A broker responds when it has this much data, or after fetch_max_wait_ms.")
    fetch_max_wait_ms: float = millis(
        500,
        "How long a broker may wait for fetch_min_bytes; with fetch_min_bytes=1 up to ten times as long if it has no data.",
    )
    fetch_max_bytes: int = number(50 * MIB, "bytes", "Maximum size of a fetch response; at most receive_message_max_bytes.", low=1)
    max_partition_fetch_bytes: int = number(
        MIB, "bytes", "Maximum bytes of one partition in a fetch response; a larger first batch is still returned.", low=1
    )
    prefetch_bytes: int = number(64 * MIB, "bytes", "Maximum bytes of fetched data that wait for `poll`; fetching pauses above it.", low=1)
    max_poll_records: int = number(500, "records", "Maximum number of records that one `poll` returns.", low=1)
    max_decompressed_bytes: int = number(
        64 * MIB,
        "bytes",
        "A batch whose decompressed size is larger is rejected. A `poll` ends at the record with which its records reach "
        "this size in memory.",
        low=1024,
    )
    key_deserializer: Deserializers | None = parsed(
        parse_key_deserializers,
        ", ".join(NAMED_DESERIALIZERS),
        "How the bytes of keys become objects: a name, a callable with topic and data, or a mapping of topic patterns to these. "
        "Default: keys are bytes.",
    )
    value_deserializer: Deserializers | None = parsed(
        parse_value_deserializers, ", ".join(NAMED_DESERIALIZERS), "How values become objects, in the same forms as `key_deserializer`."
    )
    on_poison: str = parsed(
        as_str,
        f"raise, skip, {DEAD_LETTER}<topic>",
        "The handling of a record that a deserializer refuses. `raise`: `poll` raises DeserializationError until the application seeks "
        "past the record. `skip`: the record is left out, and counted. `dead-letter:<topic>`: the record is sent to this topic, and left "
        "out once the brokers have acknowledged it.",
        default="raise",
        validator=_check_on_poison,
    )
    hooks: tuple[Any, ...] = parsed(
        parse_consumer_hooks, "objects", "An object, or several, whose method on_poll sees the records that polls return.", default=()
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be less than session_timeout_ms={self.session_timeout_ms}; "
                "a third of it is usual"
            )
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError(f"group_instance_id={self.group_instance_id!r} needs a group_id")
        self._check_protocol()
        if self.on_poison != "raise" and not self.deserializes:
            raise ConfigError(
                f"on_poison={self.on_poison!r} needs key_deserializer or value_deserializer: without them, bytes are returned as they are"
            )
        if self.fetch_max_bytes > self.receive_message_max_bytes:
            raise ConfigError(
                f"fetch_max_bytes={self.fetch_max_bytes} is larger than receive_message_max_bytes={self.receive_message_max_bytes}: "
                "responses of that size would be rejected; lower the former or raise the latter"
            )

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None

    @property
    def poison_topic(self) -> str | None:
        return self.on_poison.removeprefix(DEAD_LETTER) if self.on_poison.startswith(DEAD_LETTER) else None

    def _check_protocol(self) -> None:
        if self.group_protocol == "classic":
            if self.group_remote_assignor is not None:
                raise ConfigError(
                    f"group_remote_assignor={self.group_remote_assignor!r} needs group_protocol='consumer'; with the classic protocol "
                    "members assign the partitions: use partition_assignment_strategy"
                )
            return
        for name in changed_options(self, CLASSIC_ONLY):
            raise ConfigError(f"{name} with group_protocol='consumer': {CLASSIC_ONLY[name]}; leave it out, or use group_protocol='classic'")

    @property
    def log_name(self) -> str:
        """The beginning of log lines: `pykafka4: group billing`, or, without a group, only the client id."""
        group = self.group_id
        return self.client_id if group is None else Subject.of(self.client_id, f"group {group}", group=group)

    @property
    def reads_committed(self) -> bool:
        """Whether records of transactions that are open or aborted are left out."""
        return self.isolation_level == "read_committed"

    @property
    def isolation(self) -> int:
        return int(self.reads_committed)


def hide_secrets(options: Mapping[str, Any]) -> str:
    """A producer's valid `options` as text, without secrets. The text has parsed values, because a URL as given may contain a password."""
    config, fields = ProducerConfig.parse(options), attrs.fields_dict(ProducerConfig)
    return repr({name: getattr(config, name) if fields[name].repr else "<hidden>" for name in options})
