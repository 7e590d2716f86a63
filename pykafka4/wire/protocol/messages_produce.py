"""Declares Produce, which writes records.

`records` fields are passed on unchanged.
"""

from __future__ import annotations

from uuid import UUID

from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.fields import array, int16, int32, int64, records, string, uuid, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct, value


@response(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse(Response):
    """The result for each batch, with the new leader if the leader has changed (v10+)."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class RecordError:
                batch_index: int = wire(int32, "8+")
                batch_index_error_message: str | None = wire(string, "8+", nullable="8+", default=None, words=True)

            @value
            class Leader:
                leader_id: int = wire(int32, "10+", default=-1)
                leader_epoch: int = wire(int32, "10+", default=-1)

            index: int = wire(int32)
            error_code: int = wire(int16)
            base_offset: int = wire(int64)
            log_append_time_ms: int = wire(int64, "2+", default=-1, ignorable=True)
            log_start_offset: int = wire(int64, "5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = wire(array(RecordError), "8+", ignorable=True)
            error_message: str | None = wire(string, "8+", nullable="8+", default=None, ignorable=True, words=True)
            current_leader: Leader = wire(Leader, "10+", tag=0)

        name: str = wire(string, "0-12", ignorable=True)
        topic_id: UUID = wire(uuid, "13+", ignorable=True)
        partition_responses: list[Partition] = wire(array(Partition))

    @struct
    class Endpoint:
        node_id: int = wire(int32, "10+")
        host: str = wire(string, "10+")
        port: int = wire(int32, "10+")
        rack: str | None = wire(string, "10+", nullable="10+", default=None)

    responses: list[Topic] = wire(array(Topic))
    throttle_time_ms: int = wire(int32, "1+", ignorable=True)
    node_endpoints: list[Endpoint] = wire(array(Endpoint), "10+", tag=0)


@request(api_key=0, versions="3-13", flexible="9+", since="0.11")
class ProduceRequest(Request[ProduceResponse]):
    """Write record batches to partitions that the broker leads. Brokers advertise v0 to v2, but reject them."""

    @struct
    class Topic:
        @struct
        class Partition:
            index: int = wire(int32)
            records: Buffer | None = wire(records, nullable="0+")

        name: str = wire(string, "0-12", ignorable=True)
        topic_id: UUID = wire(uuid, "13+", ignorable=True)
        partition_data: list[Partition] = wire(array(Partition))

    transactional_id: str | None = wire(string, "3+", nullable="3+", default=None)
    acks: int = wire(int16)
    timeout_ms: int = wire(int32)
    topic_data: list[Topic] = wire(array(Topic))
