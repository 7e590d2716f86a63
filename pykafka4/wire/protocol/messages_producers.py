"""Declares the messages about producers and transactions under way."""

from __future__ import annotations

from pykafka4.wire.protocol.fields import array, boolean, int8, int16, int32, int64, string, wire
from pykafka4.wire.protocol.schema import Request, Response, request, response, struct


@response(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Response):
    """The active producers of each partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Producer:
                producer_id: int = wire(int64)
                producer_epoch: int = wire(int32)
                last_sequence: int = wire(int32, default=-1)
                last_timestamp: int = wire(int64, default=-1)
                coordinator_epoch: int = wire(int32)
                current_txn_start_offset: int = wire(int64, default=-1)

            partition_index: int = wire(int32)
            error_code: int = wire(int16)
            error_message: str | None = wire(string, nullable="0+", default=None, words=True)
            active_producers: list[Producer] = wire(array(Producer))

        name: str = wire(string)
        partitions: list[Partition] = wire(array(Partition))

    throttle_time_ms: int = wire(int32)
    topics: list[Topic] = wire(array(Topic))


@request(api_key=61, versions="0", flexible="0+", since="2.8")
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Ask a broker for the active producers of partitions that it leads."""

    @struct
    class Topic:
        name: str = wire(string)
        partition_indexes: list[int] = wire(array(int32))

    topics: list[Topic] = wire(array(Topic))


@response(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Response):
    """The state of each transaction."""

    @struct
    class Transaction:
        @struct
        class Topic:
            topic: str = wire(string)
            partitions: list[int] = wire(array(int32))

        error_code: int = wire(int16)
        transactional_id: str = wire(string)
        transaction_state: str = wire(string)
        transaction_timeout_ms: int = wire(int32)
        transaction_start_time_ms: int = wire(int64)
        producer_id: int = wire(int64)
        producer_epoch: int = wire(int16)
        topics: list[Topic] = wire(array(Topic))

    throttle_time_ms: int = wire(int32)
    transaction_states: list[Transaction] = wire(array(Transaction))


@request(api_key=65, versions="0", flexible="0+", since="3.0")
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Ask a coordinator for the state of transactional ids."""

    transactional_ids: list[str] = wire(array(string))


@response(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Response):
    """The transactions that the broker coordinates."""

    @struct
    class Transaction:
        transactional_id: str = wire(string)
        producer_id: int = wire(int64)
        transaction_state: str = wire(string)

    throttle_time_ms: int = wire(int32)
    error_code: int = wire(int16)
    unknown_state_filters: list[str] = wire(array(string))
    transaction_states: list[Transaction] = wire(array(Transaction))


@request(api_key=66, versions="0-2", flexible="0+", since="3.0")
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Ask a broker for the transactions that it coordinates."""

    state_filters: list[str] = wire(array(string))
    producer_id_filters: list[int] = wire(array(int64))
    duration_filter: int = wire(int64, "1+", default=-1)
    transactional_id_pattern: str | None = wire(string, "2+", nullable="2+", default=None)


@response(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Response):
    """The result for each partition."""

    @struct
    class Marker:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = wire(int32)
                error_code: int = wire(int16)

            name: str = wire(string)
            partitions: list[Partition] = wire(array(Partition))

        producer_id: int = wire(int64)
        topics: list[Topic] = wire(array(Topic))

    markers: list[Marker] = wire(array(Marker))


@request(api_key=27, versions="1-2", flexible="1+", since="2.8")
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Write the end of transactions into partitions, as coordinators do."""

    @struct
    class Marker:
        @struct
        class Topic:
            name: str = wire(string)
            partition_indexes: list[int] = wire(array(int32))

        producer_id: int = wire(int64)
        producer_epoch: int = wire(int16)
        transaction_result: bool = wire(boolean)
        topics: list[Topic] = wire(array(Topic))
        coordinator_epoch: int = wire(int32)
        transaction_version: int = wire(int8, "2+", ignorable=True)

    markers: list[Marker] = wire(array(Marker))
