"""Declares the messages about access control lists."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, int8, int16, int32, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


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


@request(api_key=29, versions="1-3", flexible="2+", since="2.0")
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Ask for the ACLs that match all filters; a filter that is None matches every ACL."""

    resource_type_filter: int = wire(int8)
    resource_name_filter: str | None = wire(string, nullable="0+")
    pattern_type_filter: int = wire(int8, "1+", default=3)
    principal_filter: str | None = wire(string, nullable="0+")
    host_filter: str | None = wire(string, nullable="0+")
    operation: int = wire(int8)
    permission_type: int = wire(int8)


@response(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Response):
    """The result for each ACL."""

    @struct
    class Result:
        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)

    throttle_time_ms: int = wire(int32)
    results: list[Result] = wire(array(Result))


@request(api_key=30, versions="1-3", flexible="2+", since="2.0")
class CreateAclsRequest(Request[CreateAclsResponse]):
    """Create ACLs."""

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
    """The deleted ACLs for each filter."""

    @struct
    class Filter:
        @struct
        class Acl:
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
        matching_acls: list[Acl] = wire(array(Acl))

    throttle_time_ms: int = wire(int32)
    filter_results: list[Filter] = wire(array(Filter))


@request(api_key=31, versions="1-3", flexible="2+", since="2.0")
class DeleteAclsRequest(Request[DeleteAclsResponse]):
    """Delete the ACLs that match any of the filters."""

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
