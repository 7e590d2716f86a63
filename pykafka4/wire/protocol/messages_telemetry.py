"""Messages of client telemetry (KIP-714). Rule: fields, versions and tags are Kafka's own JSON; a test compares every one."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import array, boolean, bytestring, int8, int16, int32, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response


@response(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Response):
    """The metrics, and how often to push them."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    client_instance_id: UUID = wire(uuid)
    subscription_id: int = wire(int32)
    accepted_compression_types: list[int] = wire(array(int8))
    push_interval_ms: int = wire(int32)
    telemetry_max_bytes: int = wire(int32)
    delta_temporality: bool = wire(boolean)
    requested_metrics: list[str] = wire(array(string))


@request(api_key=71, versions="0", flexible="0+", since="3.7 with KRaft")
class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse]):
    """Ask which metrics the cluster wants."""

    client_instance_id: UUID = wire(uuid)


@response(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Response):
    """The result."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)


@request(api_key=72, versions="0", flexible="0+", since="3.7 with KRaft")
class PushTelemetryRequest(Request[PushTelemetryResponse]):
    """Push metrics."""

    client_instance_id: UUID = wire(uuid)
    subscription_id: int = wire(int32)
    terminating: bool = wire(boolean)
    compression_type: int = wire(int8)
    metrics: bytes = wire(bytestring)
