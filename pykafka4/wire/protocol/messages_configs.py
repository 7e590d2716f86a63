"""Declares the messages about settings of topics, brokers and others."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, boolean, int8, int16, int32, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Response):
    """The settings, with the source of each value."""

    @struct
    class Resource:
        @struct
        class Config:
            @struct
            class Synonym:
                name: str = wire(string, "1+")
                value: str | None = wire(string, "1+", nullable="0+")
                source: int = wire(int8, "1+")

            name: str = wire(string)
            value: str | None = wire(string, nullable="0+")
            read_only: bool = wire(boolean)
            config_source: int = wire(int8, "1+", default=-1, ignorable=True)
            is_sensitive: bool = wire(boolean)
            synonyms: list[Synonym] = wire(array(Synonym), "1+", ignorable=True)
            config_type: int = wire(int8, "3+", ignorable=True)
            documentation: str | None = wire(string, "3+", nullable="0+", ignorable=True)

        error_code: int = wire(int16)
        error_message: str | None = wire(string, nullable="0+", words=True)
        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        configs: list[Config] = wire(array(Config))

    throttle_time_ms: int = wire(int32)
    results: list[Resource] = wire(array(Resource))


@request(api_key=32, versions="1-4", flexible="4+", since="1.1")
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Ask for settings of topics (`resource_type` 2), brokers (4) and others; `configuration_keys=None` means all settings."""

    @struct
    class Resource:
        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        configuration_keys: list[str] | None = wire(array(string), nullable="0+")

    resources: list[Resource] = wire(array(Resource))
    include_synonyms: bool = wire(boolean, "1+")
    include_documentation: bool = wire(boolean, "3+")


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


@request(api_key=44, versions="0-1", flexible="1+", since="2.3")
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Set, delete, append to or subtract from settings."""

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


@response(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Response):
    """The resources that have settings."""

    @struct
    class ConfigResource:
        resource_name: str = wire(string)
        resource_type: int = wire(int8, "1+", default=16, ignorable=True)

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    config_resources: list[ConfigResource] = wire(array(ConfigResource))


@request(api_key=74, versions="0-1", flexible="0+", since="3.7 with KRaft")
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """Ask for the resources of the given types that have settings; an empty list means all types that the broker knows."""

    resource_types: list[int] = wire(array(int8), "1+")
