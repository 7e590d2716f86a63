"""Describes and changes settings of resources (topics, brokers, loggers, groups, client metrics), and lists resources.

Invariant: requests about the settings of one broker go to that broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from pykafka4.core import ANY, Reply
from pykafka4.core.admin.question_run import BrokerChoice, Lane, Question, Refusal
from pykafka4.core.admin.requests import OneBrokerChoice, controller_of
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.network import Network
from pykafka4.errors import BrokerError, KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import Refresh
from pykafka4.wire.protocol.messages_configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

__all__ = [
    "ALL_RESOURCES",
    "ALL_BROKERS",
    "KINDS",
    "AlterConfigs",
    "Append",
    "ConfigChangerChoice",
    "ConfigEntry",
    "ConfigReaderChoice",
    "ConfigSynonym",
    "DescribeConfigs",
    "ListConfigResources",
    "Operation",
    "Resource",
    "Subtract",
]

Resource: TypeAlias = "tuple[str, str | int | None]"  # a kind and a name
KINDS: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
NAMES: Final = {number: kind for kind, number in KINDS.items()}
ALL_BROKERS: Final = None  # the name that stands for all brokers together
ALL_RESOURCES: Final = "resources"
DOCUMENTED_FROM: Final = 3  # the first version of DescribeConfigs with documentation
ALL_KINDS_FROM: Final = 1  # the first version of ListConfigResources with kinds other than client metrics
SOURCES: Final = (
    *("UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"),
    *("DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG"),
)  # Kafka's names, each at the index of its number (DescribeConfigsResponse.ConfigSource)
TYPES: Final = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
SET, DELETE, APPEND, SUBTRACT = range(4)  # operations of IncrementalAlterConfigs


@attrs.frozen(init=False)
class Append:
    """Values to add to a setting that is a list: `Append("compact")`. Brokers do not add a value that the list has already."""

    values: tuple[str, ...]

    def __init__(self, *values: str) -> None:
        self.__attrs_init__(values)


@attrs.frozen(init=False)
class Subtract:
    """Values to remove from a setting that is a list: `Subtract("delete")`."""

    values: tuple[str, ...]

    def __init__(self, *values: str) -> None:
        self.__attrs_init__(values)


Operation: TypeAlias = "str | Append | Subtract | None"


@attrs.frozen
class ConfigSynonym:
    """A setting that would be in force if the settings before it in `ConfigEntry.synonyms` were not set."""

    name: str
    value: str | None
    source: str


@attrs.frozen
class ConfigEntry:
    """A setting. `source` is Kafka's name for the place where it is set: DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG, …

    `value` is None if the setting has no value, or is sensitive. `synonyms` are the settings that can give the value, in order of
    precedence. `type` is BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS or PASSWORD (UNKNOWN before Kafka 2.6). `documentation` is
    None unless it was requested.
    """

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: str = "UNKNOWN"
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is Kafka's default, because the setting is not set."""
        return self.source == "DEFAULT_CONFIG"


class ConfigReaderChoice(BrokerChoice[Resource]):
    """The choice for reads: the broker itself for settings of one broker, otherwise any broker."""

    cured_by: ClassVar[Refresh] = Refresh.METADATA

    def __init__(self, cluster: Cluster, network: Network) -> None:
        self._cluster, self._network = cluster, network
        self._brokers = OneBrokerChoice(cluster)

    def outcome(self, now: float, key: Resource) -> KafkaError | None:
        name = key[1]
        return self._brokers.outcome(now, name) if isinstance(name, int) else None

    def node(self, key: Resource) -> int | None:
        name = key[1]
        return self._brokers.node(name) if isinstance(name, int) else ANY

    def find(self, now: float, key: Resource) -> None:
        self._cluster.refresh(now)

    def look_up_again(self, now: float, key: Resource, node: int, reason: KafkaError) -> None:
        self._cluster.refresh(now)
        if not isinstance(key[1], int) and node != ANY:
            self._network.avoid(now, node)


class ConfigChangerChoice(ConfigReaderChoice):
    """The choice for changes: the broker itself for settings of one broker, otherwise the controller, or a broker that stands in for it."""

    lane = Lane.FOREIGN  # while the controller is silent, a broker answers no other request on the connection

    def node(self, key: Resource) -> int | None:
        return super().node(key) if isinstance(key[1], int) else controller_of(self._cluster)


class ResourceQuestion(Question[Resource, Any]):
    def what(self, key: Resource) -> str:
        """For example `topic orders`, `broker 1` or `all brokers`."""
        return _named(key)

    def error(self, key: Resource, refusal: Refusal) -> BrokerError:
        kind, name = key
        right = {kind: str(name)} if kind in ("topic", "group") else {}
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, **right)  # type: ignore[arg-type]


def _named(key: Resource) -> str:
    return "all brokers" if key[1] is ALL_BROKERS else f"{key[0].replace('-', ' ')} {key[1]}"


def _sent_name(key: Resource) -> str:
    return "" if key[1] is ALL_BROKERS else str(key[1])


def _key(number: int, name: str) -> Resource | None:
    kind = NAMES.get(number)
    if kind is None:
        return None
    if kind.startswith("broker"):
        return (kind, int(name) if name else ALL_BROKERS)
    return (kind, name)


class DescribeConfigs(ResourceQuestion):
    api = "DescribeConfigs"

    def __init__(self, *, documentation: bool) -> None:
        self._documentation = documentation

    def message(self, keys: Sequence[Resource]) -> DescribeConfigsRequest:
        kind = DescribeConfigsRequest.Resource
        rows = [kind(resource_type=KINDS[key[0]], resource_name=_sent_name(key), configuration_keys=None) for key in keys]
        return DescribeConfigsRequest(resources=rows, include_synonyms=True, include_documentation=self._documentation)

    def fit(self, message: DescribeConfigsRequest, version: int) -> None:
        message.include_documentation &= version >= DOCUMENTED_FROM

    def read(self, keys: Sequence[Resource], reply: Reply) -> Mapping[Resource, dict[str, ConfigEntry] | Refusal]:
        rows = ((_key(row.resource_type, row.resource_name), row) for row in reply.message.results)
        return {key: _entries(row) for key, row in rows if key is not None}


def _entries(row: Any) -> dict[str, ConfigEntry] | Refusal:
    if row.error_code:
        return Refusal(row.error_code, row.error_message)
    return {entry.name: entry for entry in sorted(map(_entry, row.configs), key=lambda entry: entry.name)}


def _entry(row: Any) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(one.name, one.value, _word(SOURCES, one.source)) for one in row.synonyms)
    source, kind = _word(SOURCES, row.config_source), _word(TYPES, row.config_type)
    return ConfigEntry(row.name, row.value, source, row.is_sensitive, row.read_only, synonyms, kind, row.documentation or None)


def _word(words: Sequence[str], number: int) -> str:
    return words[number] if 0 <= number < len(words) else words[0]


class AlterConfigs(ResourceQuestion):
    """Changes single settings of resources; the other settings stay. The outcome is True for a resource whose changes were accepted."""

    api = "IncrementalAlterConfigs"
    changes = True

    def __init__(self, changes: Mapping[Resource, Mapping[str, Operation]], *, validate_only: bool) -> None:
        self._changes, self._validate_only = changes, validate_only

    def what(self, key: Resource) -> str:
        return f"settings of {_named(key)}"

    def message(self, keys: Sequence[Resource]) -> IncrementalAlterConfigsRequest:
        kind = IncrementalAlterConfigsRequest.Resource
        rows = [
            kind(
                resource_type=KINDS[key[0]],
                resource_name=_sent_name(key),
                configs=[_row(name, operation) for name, operation in self._changes[key].items()],
            )
            for key in keys
        ]
        return IncrementalAlterConfigsRequest(resources=rows, validate_only=self._validate_only)

    def read(self, keys: Sequence[Resource], reply: Reply) -> Mapping[Resource, bool | Refusal]:
        rows = ((_key(row.resource_type, row.resource_name), row) for row in reply.message.responses)
        return {key: Refusal(row.error_code, row.error_message) if row.error_code else True for key, row in rows if key is not None}


def _row(name: str, operation: Operation) -> IncrementalAlterConfigsRequest.Resource.Config:
    kind = IncrementalAlterConfigsRequest.Resource.Config
    if isinstance(operation, (Append, Subtract)):
        number = APPEND if isinstance(operation, Append) else SUBTRACT
        return kind(name=name, config_operation=number, value=",".join(operation.values))
    return kind(name=name, config_operation=DELETE if operation is None else SET, value=operation)


class ListConfigResources(Question[str, "list[Resource]"]):
    """The question about resources that have settings; the only key is ALL_RESOURCES."""

    api = "ListConfigResources"
    about = "listing {} with settings"

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def message(self, keys: Sequence[str]) -> ListConfigResourcesRequest:
        return ListConfigResourcesRequest(resource_types=[KINDS[kind] for kind in self._kinds])

    def fit(self, message: ListConfigResourcesRequest, version: int) -> None:
        """Leave out the kinds for brokers that list only client metrics. Raises UnsupportedVersion if other kinds are wanted."""
        if version < ALL_KINDS_FROM:
            if list(self._kinds) != ["client-metrics"]:
                raise UnsupportedVersion(
                    f"listing kinds other than client-metrics needs ListConfigResources v{ALL_KINDS_FROM}, of Kafka 4.1: upgrade the broker"
                )
            message.resource_types = []

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, list[Resource] | Refusal]:
        if reply.message.error_code:
            return {keys[0]: Refusal(reply.message.error_code)}
        rows = (_key(row.resource_type, row.resource_name) for row in reply.message.config_resources)
        return {keys[0]: sorted((row for row in rows if row is not None), key=lambda row: (row[0], row[1] is not None, row[1]))}
