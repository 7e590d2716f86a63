"""Runs the cases with pykafka4, at its defaults unless a case sets options."""

from __future__ import annotations

import itertools

import pykafka4
from benchmarks.clients.load import WARM_UP, Tally, drain, in_threads, pairs, values
from benchmarks.meter import Meter, Spec
from pykafka4.wire.records.hot import IMPLEMENTATION

FLUSH = 120.0
COLUMN_ROWS = 50_000  # rows of a batch of columns


def producer(spec: Spec, meter: Meter) -> pykafka4.Producer:
    meter.extra["implementation"] = IMPLEMENTATION
    client = pykafka4.Producer(bootstrap_servers=spec.bootstrap, **spec.options)
    send(client, spec.topic, WARM_UP)
    client.flush(FLUSH)
    return client


def send(client: pykafka4.Producer, topic: str, count: int) -> None:
    send = client.send
    for value in values(count):
        send(topic, value)


def finish(client: pykafka4.Producer, meter: Meter, records: int) -> None:
    client.flush(FLUSH)
    meter.stop(records)
    left = client.close(timeout=10)
    assert not left, f"{len(left)} records were not delivered"


def produce(spec: Spec, meter: Meter) -> None:
    client = producer(spec, meter)
    meter.start()
    send(client, spec.topic, spec.records)
    finish(client, meter, spec.records)


def produce_callback(spec: Spec, meter: Meter) -> None:
    client, tally = producer(spec, meter), Tally()

    def delivered(delivery: pykafka4.Delivery) -> None:
        error = delivery.exception()
        if error is None:
            tally.good += 1
        else:
            tally.failed.append(str(error))

    meter.start()
    send, topic = client.send, spec.topic
    for value in values(spec.records):
        send(topic, value, on_delivery=delivered)
    finish(client, meter, spec.records)
    tally.check(spec.records)


def produce_keyed(spec: Spec, meter: Meter) -> None:
    client = producer(spec, meter)
    meter.start()
    send, topic = client.send, spec.topic
    for value, key in pairs(spec.records):
        send(topic, value, key=key)
    finish(client, meter, spec.records)


def produce_threads(spec: Spec, meter: Meter) -> None:
    client = producer(spec, meter)
    meter.start()
    in_threads(lambda share: send(client, spec.topic, share), spec.records, meter)
    finish(client, meter, spec.records)


def produce_columns(spec: Spec, meter: Meter) -> None:
    send_columns(spec, meter, {"value": list(values(COLUMN_ROWS))})


def produce_keyed_columns(spec: Spec, meter: Meter) -> None:
    cells, keys = zip(*pairs(COLUMN_ROWS), strict=True)
    send_columns(spec, meter, {"value": list(cells), "key": list(keys)})


def send_columns(spec: Spec, meter: Meter, columns: dict[str, list[bytes]]) -> None:
    import pyarrow as pa

    batch = pa.record_batch(columns)
    sizes = [COLUMN_ROWS] * (spec.records // COLUMN_ROWS) + [spec.records % COLUMN_ROWS]
    stream = pa.RecordBatchReader.from_batches(batch.schema, (batch.slice(0, size) for size in sizes if size))
    client = producer(spec, meter)
    meter.start()
    client.send_arrow(spec.topic, stream)
    finish(client, meter, spec.records)


def consumer(spec: Spec, meter: Meter) -> pykafka4.Consumer:
    meter.extra["implementation"] = IMPLEMENTATION
    client = pykafka4.Consumer(bootstrap_servers=spec.bootstrap, auto_offset_reset="earliest", **spec.options)
    client.assign([pykafka4.TopicPartition(spec.topic, int(partition)) for partition in spec.ends])
    return client


def consume(spec: Spec, meter: Meter) -> None:
    client = consumer(spec, meter)

    def batch(limit: int) -> tuple[int, int]:
        size = offsets = 0
        records = client.poll(timeout=1.0, max_records=limit)
        for record in records:
            size += len(record.value)
            offsets += record.offset
        return len(records), offsets

    drain(batch, meter, spec.records, spec.offset_sum)
    client.close(timeout=10)


def consume_columns(spec: Spec, meter: Meter) -> None:
    """Read all columns, without a limit of rows."""
    import pyarrow as pa  # not at the top: its memory would count in the other cases
    import pyarrow.compute as pc

    client = consumer(spec, meter)

    def batch(limit: int) -> tuple[int, int]:
        columns = pa.record_batch(client.poll_arrow(timeout=1.0, max_rows=1 if limit == 1 else None))
        pc.sum(pc.binary_length(columns["value"]))
        return columns.num_rows, pc.sum(columns["offset"]).as_py() or 0

    drain(batch, meter, spec.records, spec.offset_sum)
    client.close(timeout=10)


def iterate(spec: Spec, meter: Meter) -> None:
    client = consumer(spec, meter)
    records = iter(client)
    offsets = next(records).offset
    meter.start()
    size = count = 0
    for record in itertools.islice(records, spec.records - 1):
        size += len(record.value)
        offsets += record.offset
        count += 1
    meter.stop(count)
    assert (count + 1, offsets) == (spec.records, spec.offset_sum), "the records read are not those of the log"
    client.close(timeout=10)


CASES = {
    "produce": produce,
    "produce_callback": produce_callback,
    "produce_keyed": produce_keyed,
    "produce_threads": produce_threads,
    "produce_columns": produce_columns,
    "produce_keyed_columns": produce_keyed_columns,
    "consume": consume,
    "consume_columns": consume_columns,
    "iterate": iterate,
}
