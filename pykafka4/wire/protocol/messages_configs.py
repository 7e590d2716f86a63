"""Messages about options of topics and brokers. Rule: fields, versions and tags are Kafka's own JSON; a test compares every one."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, boolean, int8, int16, int32, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Response):
    """The options and where each value comes from."""

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


@request(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Ask for options of topics (`resource_type` 2), brokers (4) and others; `configuration_keys=None` means all."""

    @struct
    class Resource:
        resource_type: int = wire(int8)
        resource_name: str = wire(string)
        configuration_keys: list[str] | None = wire(array(string), nullable="0+")

    resources: list[Resource] = wire(array(Resource))
    include_synonyms: bool = wire(boolean, "1+")
    include_documentation: bool = wire(boolean, "3+")
