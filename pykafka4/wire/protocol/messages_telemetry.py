"""Declares the messages of client metrics (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.protocol.fields import array, boolean, bytestring, int8, int16, int32, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response


@response(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Response):
    """The metrics that the cluster requests, and the interval at which clients push them."""

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
    """Ask for the metrics that the cluster requests from clients."""

    client_instance_id: UUID = wire(uuid)


@response(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Response):
    """The result of the push."""

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)


@request(api_key=72, versions="0", flexible="0+", since="3.7 with KRaft")
class PushTelemetryRequest(Request[PushTelemetryResponse]):
    """Push metrics, compressed or not, in the format of OpenTelemetry."""

    client_instance_id: UUID = wire(uuid)
    subscription_id: int = wire(int32)
    terminating: bool = wire(boolean)
    compression_type: int = wire(int8)
    metrics: bytes = wire(bytestring)
