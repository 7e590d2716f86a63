"""Messages of producer ids and transactions. Rule: fields, versions and tags are Kafka's own JSON."""

from __future__ import annotations

from pykafka4.wire.protocol.schema import Request, Response, int16, int32, int64, request, response, string, wire

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
]


@response(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse(Response):
    """The producer id and epoch to write with."""

    throttle_time_ms: int = wire(int32, ignorable=True)
    error_code: int = wire(int16)
    producer_id: int = wire(int64, default=-1)
    producer_epoch: int = wire(int16)


@request(api_key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Ask for a producer id, or (v3+) for the next epoch of the given one. v6 is unstable and left out."""

    transactional_id: str | None = wire(string, nullable="0+")
    transaction_timeout_ms: int = wire(int32)
    producer_id: int = wire(int64, "3+", default=-1)
    producer_epoch: int = wire(int16, "3+", default=-1)
