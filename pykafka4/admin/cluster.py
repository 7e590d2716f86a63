"""Describes brokers, the quorum of controllers and features; changes features, and unregisters brokers. Invariant: only the controller
carries out a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.cluster import (
    THE_CLUSTER,
    ClusterDescription,
    DescribeCluster,
    DescribeClusterByMetadata,
    DescribeFeatures,
    DescribeQuorum,
    Downgrade,
    Features,
    QuorumDescription,
    UnregisterBroker,
    UpdateFeatures,
)
from pykafka4.core.admin.question_run import Question
from pykafka4.errors import ConfigError, KafkaError, UnsupportedVersion, shown
from pykafka4.misuse import check_count

__all__ = ["ClusterCalls"]

V = TypeVar("V")
DOWNGRADES: Final = {"no": Downgrade.NO, "safe": Downgrade.SAFE, "unsafe": Downgrade.UNSAFE}
MOST_LEVEL: Final = 2**15 - 1  # an int16 in UpdateFeatures
MOST_BROKER: Final = 2**31 - 1  # an int32, like all broker ids


class ClusterCalls(AdminCalls):
    def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id, its controller, and its brokers with host, port and rack; from Kafka 4.0 on, also fenced brokers.

        The caller needs no rights. Source: KIP-700, KIP-1073.
        """
        deadline = self._begin(timeout)
        found = self._one(DescribeCluster(), deadline)
        if isinstance(found, UnsupportedVersion):  # brokers before Kafka 2.8 have no DescribeCluster
            found = self._one(DescribeClusterByMetadata(), deadline)
        return value_or_raise(found)

    def describe_quorum(self, timeout: float | None = None) -> QuorumDescription:
        """Return the quorum of the metadata log: leader, epoch, high watermark, and lag and fetch times of each voter and observer.

        Raises UnsupportedVersion for a cluster with ZooKeeper, or before Kafka 3.3. Source: KIP-836.
        """
        return value_or_raise(self._ask_controller(DescribeQuorum(), [THE_CLUSTER], self._begin(timeout))[THE_CLUSTER])

    def describe_features(self, timeout: float | None = None) -> Features:
        """Return the levels of the cluster's features, and the levels that the responding broker supports.

        The caller needs no rights. Source: KIP-584.
        """
        found: Features | KafkaError = self._one(DescribeFeatures(), self._begin(timeout))
        return value_or_raise(found)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Literal["no", "safe", "unsafe"] = "no",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, int]:
        """Set the levels of features: `{"metadata.version": 25}`; level 0 removes a feature. Returns the levels.

        A lower level needs `downgrade`: "safe" is refused if metadata would be lost, "unsafe" allows the loss where brokers support that.
        With `validate_only`, the call changes nothing. From Kafka 4.0 on, either all levels change or none. Raises the common error, or
        PartialFailure with the errors of features. Source: KIP-584, KIP-778.
        """
        if downgrade not in (*DOWNGRADES,):  # `in` for a dict raises TypeError if the argument is a list
            raise ConfigError(f"downgrade={shown(downgrade)}: must be one of {', '.join(DOWNGRADES)}")
        wanted = {str(name): check_count(level, f"the level of {name}", MOST_LEVEL) for name, level in levels.items()}
        deadline = self._begin(timeout)
        question = UpdateFeatures(wanted, DOWNGRADES[downgrade], int(deadline.left * 1000), validate_only=validate_only)
        found: dict[str, int | KafkaError] = self._ask_controller(question, wanted, deadline)
        return require_all_done("features cannot be updated", found)

    def unregister_broker(self, broker: int, timeout: float | None = None) -> None:
        """Have the controllers forget a broker that has been removed for good.

        Do not unregister a running broker: its replicas would be offline until a restart registers the broker again.

        Raises BrokerError BROKER_ID_NOT_REGISTERED if no such broker is registered. Needs KRaft. Source: KIP-631.
        """
        number = check_count(broker, "broker", MOST_BROKER)
        value_or_raise(self._ask_controller(UnregisterBroker(), [number], self._begin(timeout))[number])

    def _one(self, question: Question[str, V], deadline: Deadline) -> V | KafkaError:
        found: dict[Any, V | KafkaError] = self._ask_any_broker(question, [THE_CLUSTER], deadline)
        return found[THE_CLUSTER]
