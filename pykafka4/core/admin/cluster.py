"""Describes brokers, features and the quorum of controllers; changes features, and unregisters brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.core.network.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from pykafka4.errors import BrokerError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.messages_admin import DescribeClusterRequest
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, MetadataRequest
from pykafka4.wire.protocol.messages_replicas import DescribeQuorumRequest, UnregisterBrokerRequest, UpdateFeaturesRequest

__all__ = [
    "THE_CLUSTER",
    "DescribeClusterByMetadata",
    "Broker",
    "ClusterDescription",
    "DescribeCluster",
    "DescribeFeatures",
    "DescribeQuorum",
    "Downgrade",
    "Feature",
    "Features",
    "OneAnswer",
    "QuorumDescription",
    "QuorumReplica",
    "UnregisterBroker",
    "UpdateFeatures",
]

K = TypeVar("K")
V = TypeVar("V")
THE_CLUSTER: Final = "the cluster"  # the only key of a question about the cluster
FENCED_FROM: Final = 2  # the first version of DescribeCluster with fenced brokers
TIMES_FROM: Final = 1  # the first version of DescribeQuorum with times of fetches
DIRECTORIES_FROM: Final = 2  # the first version of DescribeQuorum with ids of directories
KINDS_FROM: Final = 1  # the first version of UpdateFeatures with upgrade types
ALL_OR_NONE_FROM: Final = 2  # the first version of UpdateFeatures with one result for all features
METADATA_TOPIC: Final = "__cluster_metadata"
NO_ID: Final = UUID(int=0)
NOT_REGISTERED: Final = BY_NAME["BROKER_ID_NOT_REGISTERED"].code
UPGRADE: Final = 1  # an upgrade type of UpdateFeatures


@attrs.frozen
class Broker:
    """A broker of the cluster. `is_fenced` is None before Kafka 4.0.

    A fenced broker is registered, but cannot lead partitions, for example because its heartbeats have stopped.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool | None = None


@attrs.frozen
class ClusterDescription:
    """The cluster's id, controller and brokers; the brokers are in the order of their ids.

    `controller` is the broker that accepts requests for the controller, None if the response names none. With KRaft this can be any broker;
    `describe_quorum` returns the leader of the controllers.
    """

    cluster_id: str | None
    controller: int | None
    brokers: tuple[Broker, ...]


@attrs.frozen
class QuorumReplica:
    """A replica of the metadata log. `lag` is its distance from the leader, in records.

    `log_end_offset` and `lag` are None if the leader does not know them, for example before the replica's first fetch in this epoch.
    Times are milliseconds since 1970; None if the leader does not know them, and before Kafka 3.3. `directory_id` is None before Kafka 3.9.
    """

    id: int
    log_end_offset: int | None
    lag: int | None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    directory_id: UUID | None = None


@attrs.frozen
class QuorumDescription:
    """The quorum of controllers. Observers are the brokers, and controllers without a vote. Source: KIP-595, KIP-836."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def max_lag(self) -> int:
        """The largest known lag of a voter."""
        return max((voter.lag for voter in self.voters if voter.lag is not None), default=0)


@attrs.frozen
class Feature:
    """A feature of the cluster. `level` is the finalized level, None if the cluster has not finalized the feature.

    The responding broker supports levels from `lowest` to `highest`; both are None if this broker does not know the feature.
    """

    name: str
    level: int | None
    lowest: int | None
    highest: int | None


@attrs.frozen
class Features:
    """The cluster's features by name. `epoch` grows with every change; None if the broker does not report it. Source: KIP-584."""

    features: Mapping[str, Feature]
    epoch: int | None


class Downgrade(IntEnum):
    """Whether `update_features` may lower a level. The value is Kafka's upgrade type. Source: KIP-778."""

    NO = UPGRADE
    SAFE = 2  # refused if metadata would be lost
    UNSAFE = 3


class OneAnswer(Question[K, V], Generic[K, V]):
    """A question with one key in each request, so that the whole response is about this key."""

    about = "{}"
    most = 1

    def read(self, keys: Sequence[K], reply: Reply) -> Mapping[K, V | Refusal]:
        message = reply.message
        if message.error_code:
            return {keys[0]: Refusal(message.error_code, getattr(message, "error_message", None))}
        return {keys[0]: self.answer(message, reply)}

    def answer(self, message: Any, reply: Reply) -> V | Refusal:
        raise NotImplementedError


class DescribeCluster(OneAnswer[str, ClusterDescription]):
    """The question about the cluster and its brokers, from FENCED_FROM on with fenced brokers; the only key is THE_CLUSTER."""

    api = "DescribeCluster"

    def message(self, keys: Sequence[str]) -> DescribeClusterRequest:
        return DescribeClusterRequest(include_fenced_brokers=True)

    def fit(self, message: DescribeClusterRequest, version: int) -> None:
        message.include_fenced_brokers = version >= FENCED_FROM

    def answer(self, message: Any, reply: Reply) -> ClusterDescription:
        tells = reply.version >= FENCED_FROM
        rows = (Broker(row.broker_id, row.host, row.port, row.rack, row.is_fenced if tells else None) for row in message.brokers)
        return ClusterDescription(message.cluster_id, _known(message.controller_id), _by_id(rows))


class DescribeClusterByMetadata(Question[str, ClusterDescription]):
    """The question about the cluster, for brokers before 2.8, which do not know DescribeCluster."""

    api = "Metadata"
    about = "{}"

    def message(self, keys: Sequence[str]) -> MetadataRequest:
        return MetadataRequest(topics=[], allow_auto_topic_creation=False)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, ClusterDescription]:
        """The response lacks brokers that the responding broker considers down."""
        rows = (Broker(row.node_id, row.host, row.port, row.rack) for row in reply.message.brokers)
        return {keys[0]: ClusterDescription(reply.message.cluster_id, _known(reply.message.controller_id), _by_id(rows))}


def _by_id(brokers: Any) -> tuple[Broker, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.id))


def _known(value: int) -> int | None:
    return None if value < 0 else value


class DescribeQuorum(OneAnswer[str, QuorumDescription]):
    """The question about the metadata log. A broker passes the request on to the leader of the controllers."""

    api = "DescribeQuorum"

    def message(self, keys: Sequence[str]) -> DescribeQuorumRequest:
        kind = DescribeQuorumRequest.Topic
        return DescribeQuorumRequest(topics=[kind(topic_name=METADATA_TOPIC, partitions=[kind.Partition(partition_index=0)])])

    def answer(self, message: Any, reply: Reply) -> QuorumDescription | Refusal:
        (row,) = message.topics[0].partitions
        if row.error_code:
            return Refusal(row.error_code, row.error_message)
        # Lags are counted from the end of the leader's log, or from the high watermark if the response lacks the leader.
        end = max((one.log_end_offset for one in row.current_voters if one.replica_id == row.leader_id), default=row.high_watermark)

        def replicas(rows: Any) -> tuple[QuorumReplica, ...]:
            return tuple(sorted((_replica(one, end, reply.version) for one in rows), key=lambda one: one.id))

        return QuorumDescription(row.leader_id, row.leader_epoch, row.high_watermark, replicas(row.current_voters), replicas(row.observers))


def _replica(row: Any, end: int, version: int) -> QuorumReplica:
    fetched, caught_up = (row.last_fetch_timestamp, row.last_caught_up_timestamp) if version >= TIMES_FROM else (-1, -1)
    directory = row.replica_directory_id if version >= DIRECTORIES_FROM and row.replica_directory_id != NO_ID else None
    lag = None if min(end, row.log_end_offset) < 0 else end - row.log_end_offset
    return QuorumReplica(row.replica_id, _known(row.log_end_offset), lag, _known(fetched), _known(caught_up), directory)


class DescribeFeatures(OneAnswer[str, Features]):
    """The question about the finalized features of the cluster, and the levels that one broker supports."""

    api = "ApiVersions"

    def message(self, keys: Sequence[str]) -> ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)

    def answer(self, message: Any, reply: Reply) -> Features:
        """Brokers before 2.7 report no features."""
        supported = {row.name: row for row in message.supported_features}
        levels = {row.name: row.max_version_level for row in message.finalized_features}
        found = {
            name: Feature(
                name, levels.get(name), *((supported[name].min_version, supported[name].max_version) if name in supported else (None, None))
            )
            for name in sorted({*supported, *levels})
        }
        return Features(found, _known(message.finalized_features_epoch))


class UpdateFeatures(Question[str, int]):
    """Sets levels of features at the controller; the keys are features. From Kafka 4.0 on, either all levels change or none."""

    api = "UpdateFeatures"
    about = "feature {}"
    changes = True

    def __init__(self, levels: Mapping[str, int], downgrade: Downgrade, timeout_ms: int, *, validate_only: bool) -> None:
        self._levels, self._downgrade, self._timeout_ms, self._validate_only = levels, downgrade, timeout_ms, validate_only

    def message(self, keys: Sequence[str]) -> UpdateFeaturesRequest:
        kind = UpdateFeaturesRequest.Update
        rows = [kind(feature=key, max_version_level=self._levels[key], upgrade_type=self._downgrade.value) for key in keys]
        return UpdateFeaturesRequest(timeout_ms=self._timeout_ms, feature_updates=rows, validate_only=self._validate_only)

    def fit(self, message: UpdateFeaturesRequest, version: int) -> None:
        """For older brokers, set `allow_downgrade` in place of the upgrade type.

        Raises UnsupportedVersion for `validate_only`, which these brokers do not know: they would carry out the change.
        """
        if version < KINDS_FROM:
            if message.validate_only:
                raise UnsupportedVersion(f"validate_only=True needs UpdateFeatures v{KINDS_FROM}, of Kafka 3.3: upgrade the broker")
            for row in message.feature_updates:
                row.allow_downgrade, row.upgrade_type = self._downgrade is not Downgrade.NO, UPGRADE

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, int | Refusal]:
        message = reply.message
        if message.error_code:
            return dict.fromkeys(keys, Refusal(message.error_code, message.error_message))
        if reply.version >= ALL_OR_NONE_FROM:
            return {key: self._levels[key] for key in keys}
        return {
            row.feature: Refusal(row.error_code, row.error_message) if row.error_code else self._levels[row.feature]
            for row in message.results
            if row.feature in self._levels
        }

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        """The error names no feature, because an error of the whole request is the same for all features."""
        return broker_error(refusal.code, "features cannot be updated", refusal.detail, self.api)


class UnregisterBroker(OneAnswer[int, bool]):
    """Unregisters a broker that will not come back; the key is the broker's id."""

    api = "UnregisterBroker"
    about = "unregistering broker {}"
    changes = True

    def message(self, keys: Sequence[int]) -> UnregisterBrokerRequest:
        return UnregisterBrokerRequest(broker_id=keys[0])

    def answer(self, message: Any, reply: Reply) -> bool:
        return True

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """True for a broker that is not registered: the request whose response was lost may have unregistered it."""
        return True if isinstance(found, Refusal) and found.code == NOT_REGISTERED else found
