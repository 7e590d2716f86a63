"""Describes and changes client quotas. Invariant: a change affects only the quotas that it names."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.core.admin.quotas import AlterQuotas, DescribeQuotas, QuotaEntity, QuotaFilter
from pykafka4.errors import ConfigError, KafkaError, shown

__all__ = ["QuotaCalls"]


class QuotaCalls(AdminCalls):
    """The calls of an `AdminClient` about client quotas. Source: KIP-546."""

    def describe_quotas(self, wanted: QuotaFilter | None = None, *, timeout: float | None = None) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of each entity that a filter matches; without a filter, all quotas that are set.

        Defaults apply to entities without a quota of their own; the result has defaults as entities with `QuotaScope.DEFAULT`. The result
        comes from one broker, which may not know the latest changes yet. Needs DESCRIBE_CONFIGS on the cluster, and Kafka 2.6.
        """
        key = QuotaFilter() if wanted is None else wanted
        if not isinstance(key, QuotaFilter):
            raise ConfigError(f"wanted={shown(wanted)}: takes a QuotaFilter, such as QuotaFilter(user='alice')")
        return value_or_raise(self._ask_any_broker(DescribeQuotas(), [key], self._begin(timeout))[key])

    def alter_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set quotas, or with None remove them: `{QuotaEntity(user="alice"): {"producer_byte_rate": 1e6, "consumer_byte_rate": None}}`.

        Users and client ids have `producer_byte_rate` and `consumer_byte_rate` (bytes per second), `request_percentage` (of a thread's
        time) and `controller_mutation_rate` (partitions created or deleted per second); IP addresses have `connection_creation_rate`.
        With `validate_only`, the call changes nothing. Needs ALTER_CONFIGS on the cluster, and Kafka 2.6.

        Raises BrokerError INVALID_REQUEST for a name or value that brokers refuse, AuthorizationError, PartialFailure.
        """
        wanted = _quotas(quotas)
        question = AlterQuotas(wanted, validate_only=validate_only)
        found: dict[QuotaEntity, bool | KafkaError] = self._ask_controller(question, wanted, self._begin(timeout))
        require_all_done("quotas cannot be changed", found)


def _quotas(quotas: object) -> dict[QuotaEntity, dict[str, float | None]]:
    if not isinstance(quotas, Mapping) or not all(isinstance(entity, QuotaEntity) for entity in quotas):
        raise ConfigError(f"quotas={shown(quotas)}: takes a mapping such as {{QuotaEntity(user='alice'): {{'producer_byte_rate': 1e6}}}}")
    return {entity: _rates(entity, rates) for entity, rates in quotas.items()}


def _rates(entity: QuotaEntity, rates: object) -> dict[str, float | None]:
    if not isinstance(rates, Mapping) or not rates or not all(isinstance(name, str) and name for name in rates):
        raise ConfigError(f"the quotas of {entity} must be a mapping of at least one name to a rate, not {shown(rates)}")
    return {str.__str__(name): None if rate is None else _rate(name, rate) for name, rate in rates.items()}


def _rate(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**63:
        raise ConfigError(f"{name}={shown(value)}: must be a number above 0, or None to remove the quota")
    return float(value)
