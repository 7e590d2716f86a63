"""Describes and changes settings of topics, brokers, groups and client metrics. Invariant: a change affects only the settings that it
names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.admin.topic_arguments import as_changes, as_kinds, as_resources
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.configs import (
    ALL_RESOURCES,
    AlterConfigs,
    Append,
    ConfigChangerChoice,
    ConfigEntry,
    ConfigReaderChoice,
    DescribeConfigs,
    ListConfigResources,
    Resource,
    Subtract,
)
from pykafka4.errors import KafkaError

__all__ = ["ConfigCalls"]


class ConfigCalls(AdminCalls):
    def describe_configs(
        self, resources: Iterable[tuple[str, str | int | None]], *, documentation: bool = False, timeout: float | None = None
    ) -> dict[Resource, dict[str, ConfigEntry] | KafkaError]:
        """Return all settings of each resource: value, source, synonyms; `documentation` adds Kafka's description of each (Kafka 2.6).

        A resource is a kind and a name: `("topic", "orders")`, `("broker", 1)`, `("broker", None)` (settings for all brokers),
        `("broker-logger", 1)` (Kafka 2.4), `("group", "billing")` (3.8), `("client-metrics", "subscription")` (3.7). Each broker describes
        its own settings. A resource on which this user lacks DESCRIBE_CONFIGS has an AuthorizationError. Sources: KIP-133, KIP-226,
        KIP-569, KIP-848.
        """
        wanted = as_resources(resources)
        return self._of_resources(DescribeConfigs(documentation=documentation), ConfigReaderChoice, wanted, self._begin(timeout))

    def describe_config(
        self, kind: str, name: str | int | None, *, documentation: bool = False, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        """Return all settings of one resource: see `describe_configs`. Raises the resource's error."""
        (key,) = as_resources([(kind, name)])
        return value_or_raise(
            self._of_resources(DescribeConfigs(documentation=documentation), ConfigReaderChoice, [key], self._begin(timeout))[key]
        )

    def alter_configs(
        self,
        changes: Mapping[tuple[str, str | int | None], Mapping[str, str | int | float | bool | Append | Subtract | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change single settings: `{("topic", "orders"): {"retention.ms": 7200000, "cleanup.policy": Append("compact")}}`.

        None removes the resource's own value of a setting; `Append` and `Subtract` change lists. Resources are as for `describe_configs`.
        With `validate_only`, the call changes nothing. Needs Kafka 2.3 (KIP-339).

        Raises BrokerError INVALID_CONFIG, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, …, AuthorizationError (ALTER_CONFIGS),
        UnsupportedVersion, KafkaTimeoutError; PartialFailure with the changed resources in `done`.
        """
        wanted = as_changes(changes)
        question = AlterConfigs(wanted, validate_only=validate_only)
        require_all_done("settings cannot be changed", self._of_resources(question, ConfigChangerChoice, wanted, self._begin(timeout)))

    def list_config_resources(self, kinds: Iterable[str] = (), *, timeout: float | None = None) -> list[Resource]:
        """Return topics, brokers and broker loggers, and the groups and client-metrics subscriptions that have settings, or only `kinds`.

        The result is sorted by kind and name. Needs Kafka 4.1 (KIP-1142), or Kafka 3.7 for `kinds=["client-metrics"]` (KIP-714). Raises
        UnsupportedVersion, AuthorizationError.
        """
        question = ListConfigResources(as_kinds(kinds))
        return value_or_raise(self._ask_any_broker(question, [ALL_RESOURCES], self._begin(timeout))[ALL_RESOURCES])

    def _of_resources(
        self, question: Any, choice: type[ConfigReaderChoice], resources: Iterable[Resource], deadline: Deadline
    ) -> dict[Resource, Any]:
        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            return machine.begin(now, question, choice(machine.cluster, machine.network), list(resources), seconds, done)

        return self._session.ask(begin, deadline).wait()
