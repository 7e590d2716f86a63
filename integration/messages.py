"""Requests of operators that only tests send. Rule: fields, versions and tags are Kafka's own JSON; a test compares every one."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, boolean, bytestring, int8, int16, int32, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
]


@response(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Response):
    """The result of each election."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_id: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", words=True)

        topic: str = wire(string)
        partition_result: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16, "1+")
    replica_election_results: list[Topic] = wire(array(Topic))


@request(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Elect preferred (`election_type` 0) or unclean (1) leaders; `topic_partitions=None` means all."""

    @struct
    class Topic:
        topic: str = wire(string)
        partitions: list[int] = wire(array(int32))

    election_type: int = wire(int8, "1+")
    topic_partitions: list[Topic] | None = wire(array(Topic), nullable="0+")
    timeout_ms: int = wire(int32, default=60000)


@response(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Response):
    """The result of each move."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", words=True)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    allow_replication_factor_change: bool = wire(boolean, "1+", default=True, ignorable=True)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    responses: list[Topic] = wire(array(Topic))


@request(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Move replicas; `replicas=None` cancels a move in progress."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: int = wire(int32)
            replicas: list[int] | None = wire(array(int32), nullable="0+", default=None)

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    timeout_ms: int = wire(int32, default=60000)
    allow_replication_factor_change: bool = wire(boolean, "1+", default=True)
    topics: list[Topic] = wire(array(Topic))


@response(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Response):
    """The result for each resource."""

    @struct
    class Resource:
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)
        resource_type: int = wire(int8)
        resource_name: str = wire(string)

    throttle_time_ms: int = wire(int32)
    responses: list[Resource] = wire(array(Resource))


@request(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Set (`config_operation` 0), delete (1), append (2) or subtract (3) options."""

    @struct
    class Resource:
        @struct
        class Config:
            name: str = wire(string)
            config_operation: int = wire(int8)
            value: str | None = wire(string, nullable="0+")

        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        configs: list[Config] = wire(array(Config))

    resources: list[Resource] = wire(array(Resource))
    validate_only: bool = wire(boolean)


@response(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Response):
    """The ACLs, by resource."""

    @struct
    class Resource:
        @struct
        class Acl:
            principal: str = wire(string)
            host: str = wire(string)
            operation: int = wire(int8)
            permission_type: int = wire(int8)

        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        pattern_type: int = wire(int8, "1+", default=3)
        acls: list[Acl] = wire(array(Acl))

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    error_message: str | None = wire(string, nullable="0+", words=True)
    resources: list[Resource] = wire(array(Resource))


@request(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Ask for the ACLs that match; None, or 1 for a number, matches everything."""

    resource_type_filter: int = wire(int8)
    resource_name_filter: str | None = wire(string, nullable="0+")
    pattern_type_filter: int = wire(int8, "1+", default=3)
    principal_filter: str | None = wire(string, nullable="0+")
    host_filter: str | None = wire(string, nullable="0+")
    operation: int = wire(int8)
    permission_type: int = wire(int8)


@response(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Response):
    """The result for each ACL, in the order of the request."""

    @struct
    class Result:
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Request[CreateAclsResponse]):
    """Create ACLs; one that exists already is no error."""

    @struct
    class Creation:
        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        resource_pattern_type: int = wire(int8, "1+", default=3)
        principal: str = wire(string)
        host: str = wire(string)
        operation: int = wire(int8)
        permission_type: int = wire(int8)

    creations: list[Creation] = wire(array(Creation))


@response(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Response):
    """What each filter matched, and the result of each deletion."""

    @struct
    class FilterResult:
        @struct
        class MatchingAcl:
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", words=True)
            resource_type: int = wire(int8)
            resource_name: str = wire(string)
            pattern_type: int = wire(int8, "1+", default=3)
            principal: str = wire(string)
            host: str = wire(string)
            operation: int = wire(int8)
            permission_type: int = wire(int8)

        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)
        matching_acls: list[MatchingAcl] = wire(array(MatchingAcl))

    throttle_time_ms: int = wire(int32)
    filter_results: list[FilterResult] = wire(array(FilterResult))


@request(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(Request[DeleteAclsResponse]):
    """Delete the ACLs that match one of the filters; None, or 1 for a number, matches everything."""

    @struct
    class Filter:
        resource_type_filter: int = wire(int8)
        resource_name_filter: str | None = wire(string, nullable="0+")
        pattern_type_filter: int = wire(int8, "1+", default=3)
        principal_filter: str | None = wire(string, nullable="0+")
        host_filter: str | None = wire(string, nullable="0+")
        operation: int = wire(int8)
        permission_type: int = wire(int8)

    filters: list[Filter] = wire(array(Filter))


@response(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Response):
    """The result for each user."""

    @struct
    class Result:
        user: str = wire(string)
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Set or delete credentials of users; `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    @struct
    class Deletion:
        name: str = wire(string)
        mechanism: int = wire(int8)

    @struct
    class Upsertion:
        name: str = wire(string)
        mechanism: int = wire(int8)
        iterations: int = wire(int32)
        salt: bytes = wire(bytestring)
        salted_password: bytes = wire(bytestring)

    deletions: list[Deletion] = wire(array(Deletion))
    upsertions: list[Upsertion] = wire(array(Upsertion))
