"""Declares ApiVersions, Metadata and FindCoordinator."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import MIN_INT32, array, boolean, int8, int16, int32, int64, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Response):
    """The API versions that the broker supports. With UNSUPPORTED_VERSION the response has the format of v0."""

    @struct
    class Api:
        api_key: int = wire(int16)
        min_version: int = wire(int16)
        max_version: int = wire(int16)

    @struct
    class SupportedFeature:
        name: str = wire(string, "3+")
        min_version: int = wire(int16, "3+")
        max_version: int = wire(int16, "3+")

    @struct
    class FinalizedFeature:
        name: str = wire(string, "3+")
        max_version_level: int = wire(int16, "3+")
        min_version_level: int = wire(int16, "3+")

    error_code: int = wire(int16)
    api_keys: list[Api] = wire(array(Api))
    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    supported_features: list[SupportedFeature] = wire(array(SupportedFeature), "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = wire(int64, "3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeature] = wire(array(FinalizedFeature), "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = wire(boolean, "3+", tag=3, ignorable=True)


@request(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Ask for a broker's API versions. From v5 on the broker may return REBOOTSTRAP_REQUIRED for a wrong `cluster_id` or `node_id`."""

    client_software_name: str = wire(string, "3+", ignorable=True)
    client_software_version: str = wire(string, "3+", ignorable=True)
    cluster_id: str | None = wire(string, "5+", nullable="5+", default=None, ignorable=True)
    node_id: int = wire(int32, "5+", default=-1, ignorable=True)


@response(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Response):
    """Brokers, topics and leaders, as one broker knows them."""

    @struct
    class Broker:
        node_id: int = wire(int32)
        host: str = wire(string)
        port: int = wire(int32)
        rack: str | None = wire(string, "1+", nullable="1+", default=None, ignorable=True)

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: int = wire(int16)
            partition_index: int = wire(int32)
            leader_id: int = wire(int32)
            leader_epoch: int = wire(int32, "7+", default=-1, ignorable=True)
            replica_nodes: list[int] = wire(array(int32))
            isr_nodes: list[int] = wire(array(int32))
            offline_replicas: list[int] = wire(array(int32), "5+", ignorable=True)

        error_code: int = wire(int16)
        name: str | None = wire(string, nullable="12+")
        topic_id: UUID = wire(uuid, "10+", ignorable=True)
        is_internal: bool = wire(boolean, "1+", ignorable=True)
        partitions: list[Partition] = wire(array(Partition))
        topic_authorized_operations: int = wire(int32, "8+", default=MIN_INT32)

    throttle_time_ms: int = wire(int32, "3+", ignorable=True)
    brokers: list[Broker] = wire(array(Broker))
    cluster_id: str | None = wire(string, "2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = wire(int32, "1+", default=-1, ignorable=True)
    topics: list[Topic] = wire(array(Topic))
    cluster_authorized_operations: int = wire(int32, "8-10", default=MIN_INT32)
    error_code: int = wire(int16, "13+", ignorable=True)


@request(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request[MetadataResponse]):
    """Ask for brokers, leaders and topic ids. `topics=None` requests all topics (v1+); at v0 an empty list requests all.

    Before v4 the broker alone decides whether it creates missing topics, and `allow_auto_topic_creation=False` is ignored. (Kafka's own
    client refuses to send such a request.)
    """

    @struct
    class Topic:
        topic_id: UUID = wire(uuid, "10+", ignorable=True)
        name: str | None = wire(string, nullable="10+")

    topics: list[Topic] | None = wire(array(Topic), nullable="1+")
    allow_auto_topic_creation: bool = wire(boolean, "4+", default=True, ignorable=True)
    include_cluster_authorized_operations: bool = wire(boolean, "8-10")
    include_topic_authorized_operations: bool = wire(boolean, "8+")


@response(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Response):
    """The coordinators; up to v3 a single one, in the top-level fields."""

    @struct
    class Coordinator:
        key: str = wire(string, "4+")
        node_id: int = wire(int32, "4+")
        host: str = wire(string, "4+")
        port: int = wire(int32, "4+")
        error_code: int = wire(int16, "4+")
        error_message: str | None = wire(string, "4+", nullable="4+", ignorable=True, words=True)

    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    error_code: int = wire(int16, "0-3")
    error_message: str | None = wire(string, "1-3", nullable="1-3", ignorable=True, words=True)
    node_id: int = wire(int32, "0-3")
    host: str = wire(string, "0-3")
    port: int = wire(int32, "0-3")
    coordinators: list[Coordinator] = wire(array(Coordinator), "4+")


@request(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Ask for the coordinators of groups (`key_type` 0), transactional ids (1) or share partitions (2); up to v3 for one coordinator."""

    key: str = wire(string, "0-3")
    key_type: int = wire(int8, "1+")
    coordinator_keys: list[str] = wire(array(string), "4+")
