"""`send_arrow`: rows of columns are accepted, refused and reported as a loop of `send` over the rows would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from pykafka4 import (
    BufferFull,
    ClosedError,
    ConfigError,
    Delivery,
    DeliveryFailed,
    KafkaTimeoutError,
    OutgoingRecord,
    Producer,
    ProducerHooks,
    RecordTooLarge,
    SentRows,
    TransactionError,
    read_arrow,
)
from pykafka4.testing import ModelServer
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, in_child, until
from tests.producer.producing import FEW, Maker, balanced, committed, ctrl_c, knowing, stop_all, values

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(*cells: Any, **columns: Any) -> Any:
    return pa.table({"value": list(cells)} | columns)


def records(server: ModelServer, topic: str = "t") -> list[tuple[Any, ...]]:
    """(partition, timestamp, key, value, headers) of each record."""
    found = ((partition, server.records(topic, partition)) for partition in range(3))
    return [(partition, r.timestamp_ms, r.key, r.value, tuple(r.headers)) for partition, logged in found for r in logged]


def stream(*batches: Any, then: BaseException | None = None) -> Any:
    """A reader of the values in `batches`, which raises `then` after them."""
    schema = pa.schema([("value", pa.string())])

    def read() -> Iterator[Any]:
        for cells in batches:
            yield pa.record_batch([list(cells)], schema=schema)
        if then is not None:
            raise then

    return pa.RecordBatchReader.from_batches(schema, read())


# ---------------------------------------------------------------- records


def test_every_column_becomes_an_argument_of_send(server: ModelServer, make: Maker) -> None:
    data = {
        "key": ["a", None, ""],
        "value": [b"1", None, b""],
        "headers": pa.array([[("n", b"x"), ("n", None)], [], None], HEADERS),
        "timestamp": pa.array([1_000, 2_000, 3_000], pa.timestamp("ms")),
        "partition": [2, 0, 1],
    }
    rows = make().send_arrow("t", pa.table(data))
    assert (rows.result(SECONDS), len(rows), rows.topic) == (3, 3, "t")
    assert sorted(records(server)) == [
        (0, 2_000, None, None, ()),
        (1, 3_000, b"", b"", ()),
        (2, 1_000, b"a", b"1", (("n", b"x"), ("n", None))),
    ]


def test_columns_are_chosen_by_name(server: ModelServer, make: Maker) -> None:
    data = pa.table({"customer": ["c"], "payload": ["p"], "timestamp": [5], "partition": ["not a number"]})
    make().send_arrow("t", data, key="customer", value="payload", timestamp=None, partition=None).result(SECONDS)
    ((_, timestamp, key, value, _),) = records(server)
    assert (key, value) == (b"c", b"p")
    assert timestamp > 1_000_000_000_000, "the column of that name was not to be used"


def test_rows_go_to_the_partitions_that_send_chooses(server: ModelServer, make: Maker) -> None:
    producer, keys = knowing(make()), [f"k{i}" for i in range(50)]
    producer.send_arrow("t", table(*["row"] * 50, key=keys)).result(SECONDS)
    for key in keys:
        producer.send("t", b"one", key=key)
    producer.flush(SECONDS)
    found = {value: {key: partition for partition, _, key, v, _ in records(server) if v == value} for value in (b"row", b"one")}
    assert found[b"row"] == found[b"one"]


def test_a_topic_that_is_not_known_yet(server: ModelServer, make: Maker) -> None:
    make().send_arrow("t", table("a", "b", partition=[1, 2])).result(SECONDS)
    assert values(server) == [b"a", b"b"]


def test_a_frame_a_series_and_a_reader(server: ModelServer, make: Maker) -> None:
    producer = make()
    for data in (pl.DataFrame({"value": ["a", "a value of more than twelve bytes"]}), pl.Series(["b"]), stream("c", "de")):
        producer.send_arrow("t", data).result(SECONDS)
    assert values(server) == [b"a", b"a value of more than twelve bytes", b"b", b"c", b"d", b"e"]


def test_columns_of_a_consumer_are_sent_as_they_are(server: ModelServer, make: Maker) -> None:
    producer = make()
    for n in range(30):
        producer.send("t", None if n % 7 == 0 else b"%d" % n, key=b"k%d" % n, headers=[("h", None), ("h", b"x")][: n % 3], timestamp_ms=n)
    producer.flush(SECONDS)
    server.create_topic("copy", 3)
    producer.send_arrow("copy", read_arrow("t", until="now", bootstrap_servers=server.bootstrap_servers)).result(SECONDS)
    assert records(server, "copy") == records(server)


def test_no_rows(make: Maker) -> None:
    rows = make().send_arrow("t", table().slice(0, 0).cast(pa.schema([("value", pa.string())])))
    assert (len(rows), rows.done(), rows.acked, rows.result(0), rows.failures(0)) == (0, True, 0, 0, {})


# ---------------------------------------------------------------- what is refused

OldSpark = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})
REFUSED: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no data": (None, {}, TypeError, "t: NoneType has neither __arrow_c_stream__ nor __arrow_c_array__"),
    "dicts": ([{"value": "a"}], {}, TypeError, r"t: list has neither .*; polars\.DataFrame\(data\) makes columns"),
    "a lazy frame": (pl.LazyFrame({"value": ["a"]}), {}, TypeError, r"t: LazyFrame has neither .*; call collect\(\) first"),
    "an old PySpark": (OldSpark(), {}, TypeError, "t: this DataFrame has no __arrow_c_stream__; PySpark 4.2 is the first release with it"),
    "structs": (table({"a": 1}), {}, TypeError, r"is struct<int64>; it must be string or binary; cast it: polars struct\.json_encode\(\)"),
    "numbers": (table(1.5), {}, TypeError, r"t: the column 'value' \(value=\) is float64; it must be string or binary; cast it: pyarrow"),
    "no values": (pa.table({"a": ["b"]}), {}, ConfigError, r"t: there is no column 'value' \(value=\) among a"),
    "a misspelt column": (table("a", user=["b"]), {"key": "usr"}, ConfigError, r"no column 'usr' \(key=\) among .*; did you mean 'user'"),
    "a column that is no name": (table("a"), {"key": 5}, ConfigError, r"t: key=5: must be the name of a column, or None"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "names", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_data_that_cannot_be_sent_is_refused_before_the_first_row(
    make: Maker, data: Any, names: dict[str, Any], kind: type[Exception], text: str
) -> None:
    producer = make()
    with pytest.raises(kind, match=text):
        producer.send_arrow("t", data, **names)
    assert producer.stats().accepted == 0


@pytest.mark.parametrize(("topic", "kind"), [("no topic", ConfigError), ("", ConfigError), (b"t", TypeError), (None, TypeError)])
def test_a_wrong_topic_reads_nothing(make: Maker, topic: Any, kind: type[Exception]) -> None:
    data = stream("ab")
    with pytest.raises(kind, match="topic"):
        make().send_arrow(topic, data)
    assert data.read_all().num_rows == 2


def test_a_closed_producer_reads_nothing(make: Maker) -> None:
    producer, data = make(), stream("ab")
    producer.close()
    with pytest.raises(ClosedError):
        producer.send_arrow("t", data)
    assert data.read_all().num_rows == 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("use", ["send", "result", "callback"])
def test_a_forked_child_gets_an_error_at_once(server: ModelServer, make: Maker, use: str) -> None:
    producer = knowing(make())
    stop_all(server)
    rows = producer.send_arrow("t", table("a", partition=[0]))
    uses = {
        "send": lambda: producer.send_arrow("t", table("a")),
        "result": rows.result,
        "callback": lambda: rows.add_done_callback(print),
    }
    assert in_child(lambda: str(uses[use]())).startswith("ForkedClientError: this ")


# ---------------------------------------------------------------- calls that end early


def accepted(caught: pytest.ExceptionInfo[BaseException]) -> SentRows:
    """The handle of the rows before the one that ended the call."""
    handle: SentRows = caught.value.accepted  # type: ignore[attr-defined]
    (note,) = (text for text in caught.value.__notes__ if text.startswith("pykafka4: send_arrow"))
    assert f"ended at row {len(handle)}, counted from 0" in note
    return handle


def test_a_null_row_ends_the_call(server: ModelServer, make: Maker) -> None:
    producer = make()
    rows = pa.StructArray.from_arrays([pa.array(["a", "b", "c"])], ["value"], mask=pa.array([False, True, False]))
    with pytest.raises(ValueError, match="t: row 1: the row itself is null") as caught:
        producer.send_arrow("t", rows)
    assert accepted(caught).result(SECONDS) == 1
    assert values(server) == [b"a"]


def test_a_row_that_is_too_large_ends_the_call(make: Maker) -> None:
    producer = make(max_request_size=2_000)
    with pytest.raises(RecordTooLarge) as caught:
        producer.send_arrow("t", table("a", "b", "x" * 3_000, "c"))
    assert accepted(caught).result(SECONDS) == 2
    assert balanced(producer)


def test_a_stream_that_fails_ends_the_call(server: ModelServer, make: Maker) -> None:
    producer = make()
    with pytest.raises(RuntimeError, match=r"t: the Arrow stream failed with error \d+: .*disk on fire") as caught:
        producer.send_arrow("t", stream("ab", "c", then=OSError("disk on fire")))
    assert accepted(caught).result(SECONDS) == 3
    assert values(server) == [b"a", b"b", b"c"]


def test_raise_refuses_the_first_row_without_room(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, on_full="raise"))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    with pytest.raises(BufferFull) as caught:
        producer.send_arrow("t", table(*["x" * 5_000] * 50, partition=[0] * 50))
    assert 0 < len(accepted(caught)) < 50
    assert producer.stats().accepted == 1 + len(accepted(caught))


def test_drop_counts_each_row(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, on_full="drop", delivery_timeout_ms=20_000))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    rows = producer.send_arrow("t", table(*["x" * 5_000] * 50, partition=[0] * 50))
    server.do(lambda cluster: cluster.orphan("t", 0, 0.0))
    producer.purge(in_flight=True)
    until(rows.done)
    dropped = [error for error in rows.failures(SECONDS).values() if error.code == "BUFFER_FULL"]
    assert len(rows) == 50
    assert len(dropped) == sum(producer.stats().dropped.values()) > 0
    assert balanced(producer)


def test_rows_over_a_rate_limit_are_dropped(server: ModelServer, make: Maker) -> None:
    producer = make(rate_limits={"t": (2, 60_000)}, on_rate_limit="drop")
    rows = producer.send_arrow("t", table(*"abcde"))
    assert {row: error.code for row, error in rows.failures(SECONDS).items()} == dict.fromkeys((2, 3, 4), "RATE_LIMITED")
    assert (rows.acked, values(server)) == (2, [b"a", b"b"])


def test_blocking_for_room_ends_with_max_block_ms(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, max_block_ms=50))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    with pytest.raises(BufferFull, match="max_block_ms=50") as caught:
        producer.send_arrow("t", table(*["x" * 5_000] * 50, partition=[0] * 50))
    assert 0 < len(accepted(caught)) < 50


def test_ctrl_c_ends_a_call_that_waits_for_room(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    seen: list[BaseException] = []
    with ctrl_c(lambda: inspect(producer).blocked_sends):
        try:
            producer.send_arrow("t", table(*["x" * 5_000] * 50, partition=[0] * 50))
        except KeyboardInterrupt as error:
            seen.append(error)
            raise
    assert 0 < len(seen[0].accepted) == producer.stats().accepted - 1 < 50  # type: ignore[attr-defined]


def test_more_rows_than_fit_at_once(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    cells = [f"{i:05}" * 100 for i in range(2_000)]
    assert producer.send_arrow("t", table(*cells)).result(SECONDS) == 2_000
    assert values(server)[:-1] == [cell.encode() for cell in cells]
    assert balanced(producer)


def test_two_threads_at_once(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(producer.send_arrow, "t", table(*[letter * 100] * 1_000)) for letter in "ab"]
    assert [call.result(SECONDS).result(SECONDS) for call in calls] == [1_000, 1_000]
    assert (len(values(server)), balanced(producer)) == (2_001, True)


def test_in_a_callback_there_is_no_waiting(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW))
    seen: list[BaseException] = []

    def again(_: Delivery) -> None:
        try:
            producer.send_arrow("t", table(*["x" * 5_000] * 50, partition=[0] * 50))
        except BufferFull as error:
            seen.append(error)

    producer.send("t", b"v", partition=1, on_delivery=again)
    until(lambda: seen)
    assert "a callback must not wait" in str(seen[0])
    assert 0 < seen[0].accepted.result(SECONDS) < 50  # type: ignore[attr-defined]


# ---------------------------------------------------------------- the handle


def test_failed_rows_have_their_numbers(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=20_000))
    server.do(lambda cluster: cluster.orphan("t", 1, 1_000.0))
    rows = producer.send_arrow("t", table(*[f"{i}" for i in range(9)], partition=[i % 3 for i in range(9)]))
    with pytest.raises(KafkaTimeoutError, match=r"t: \d of 9 rows not acknowledged within 0\.2 s"):
        rows.result(0.2)
    producer.purge(in_flight=True)
    failures = rows.failures(SECONDS)
    assert {row: error.record.value for row, error in failures.items() if error.record} == {1: b"1", 4: b"4", 7: b"7"}
    assert (rows.done(), rows.acked) == (True, 6)
    with pytest.raises(DeliveryFailed) as caught:
        rows.result(SECONDS)
    assert caught.value.record is not None
    assert caught.value.record.value == b"1"
    assert caught.value.__notes__ == [
        "pykafka4: send_arrow: row 1, counted from 0, is the first failed row; 3 of 9 rows failed; see failures()"
    ]


def test_the_first_failed_row_is_raised_whichever_fails_first(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(delivery_timeout_ms=20_000))
    server.do(lambda cluster: cluster.orphan("t", 0, 1_000.0))
    server.fail("Produce", "INVALID_RECORD", topic="t", partition=1)
    rows = producer.send_arrow("t", table("a", "b", partition=[0, 1]))
    until(lambda: producer.stats().lost == 1)
    assert not rows.done()
    producer.purge(in_flight=True)
    assert isinstance(error := rows.exception(SECONDS), DeliveryFailed)
    assert error.partition == 0
    assert "row 0, counted from 0, is the first failed row; 2 of 2 rows failed" in error.__notes__[0]


def test_a_with_block_raises_failures_that_nobody_has_seen(server: ModelServer, make: Maker) -> None:
    def fail(look: bool) -> None:
        with make(close_timeout_ms=100) as producer:
            rows = knowing(producer).send_arrow("t", table("a", "b", partition=[1, 1]))
            producer.purge(in_flight=True)
            if look:
                assert rows.exception(SECONDS) is not None

    knowing(make())
    server.do(lambda cluster: cluster.orphan("t", 1, 1_000.0))
    fail(look=True)
    with pytest.raises(DeliveryFailed):
        fail(look=False)


def test_a_callback_runs_once_when_every_row_has_its_outcome(server: ModelServer, make: Maker) -> None:
    producer = make(batch_size=1_024)
    rows, seen = producer.send_arrow("t", table(*["x" * 100] * 50)), list[tuple[Any, ...]]()
    rows.add_done_callback(lambda done: seen.append((done, done.done(), threading.current_thread())))
    producer.flush(SECONDS)
    assert [entry[:2] for entry in seen] == [(rows, True)], "flush returned before the callback"
    rows.add_done_callback(lambda done: seen.append((done, done.done(), threading.current_thread())))
    until(lambda: len(seen) == 2)
    assert threading.main_thread() not in (seen[0][2], seen[1][2])


def test_a_callback_that_raises_is_logged(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    producer = make()
    rows = producer.send_arrow("t", table("a"))
    rows.result(SECONDS)
    rows.add_done_callback(lambda _: 1 // 0)
    until(lambda: "ZeroDivisionError" in caplog.text)
    assert "for rows of topic t raised an exception" in caplog.text
    with pytest.raises(TypeError, match="a callback must be callable"):
        rows.add_done_callback(None)  # type: ignore[arg-type]


# ---------------------------------------------------------------- hooks and serializers


class Seeing(ProducerHooks):
    """Sees each record, and sends those with the value `b` elsewhere."""

    def __init__(self) -> None:
        self.records: list[OutgoingRecord] = []
        self.enqueued: list[Delivery] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        self.records.append(record)
        return OutgoingRecord("t", b"changed", partition=2) if record.value == "b" else None

    def on_enqueue(self, delivery: Delivery) -> None:
        self.enqueued.append(delivery)


def test_hooks_see_each_row_as_send_would_show_it(server: ModelServer, make: Maker) -> None:
    hook = Seeing()
    data = {
        "key": pa.array([b"k", None], pa.binary_view()),
        "value": ["a", "b"],
        "headers": pa.array([[("n", b"x")], []], HEADERS),
        "timestamp": [1_000, None],
        "partition": [1, None],
    }
    producer = make(hooks=hook)
    rows = producer.send_arrow("t", pa.table(data))
    assert hook.records == [OutgoingRecord("t", "a", b"k", (("n", b"x"),), 1, 1_000), OutgoingRecord("t", "b")]
    assert (rows.result(SECONDS), len(hook.enqueued), rows.acked) == (2, 2, 2)
    assert [(r[0], r[2], r[3]) for r in sorted(records(server))] == [(1, b"k", b"a"), (2, None, b"changed")]
    assert balanced(producer)


def test_serializers_get_text_as_str_and_other_cells_as_bytes(server: ModelServer, make: Maker) -> None:
    seen: list[Any] = []

    def pack(topic: str, cell: Any) -> bytes:
        seen.append(cell)
        return b"<%s>" % (cell if isinstance(cell, bytes) else cell.encode())

    text = pa.array(["é", None, "z"]).dictionary_encode()
    producer = make(key_serializer=pack, value_serializer=pack)
    assert producer.send_arrow("t", pa.table({"value": text, "key": [b"k", None, b""]})).result(SECONDS) == 3
    assert seen == ["é", b"k", "z", b""]
    assert sorted((r[2], r[3]) for r in records(server) if r[3]) == [(b"<>", b"<z>"), (b"<k>", "<é>".encode())]


def test_a_serializer_that_raises_ends_the_call(make: Maker) -> None:
    def pack(topic: str, cell: Any) -> bytes:
        return b"%d" % (10 // int(cell))

    producer = make(value_serializer=pack)
    with pytest.raises(ZeroDivisionError) as caught:
        producer.send_arrow("t", table("1", "0", "2"))
    assert accepted(caught).result(SECONDS) == 1
    assert balanced(producer)


def test_text_that_is_not_utf8_ends_the_call_of_a_serializer(make: Maker) -> None:
    data = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
    with pytest.raises(ValueError, match="t: value of row 1: it is not valid UTF-8") as caught:
        make(value_serializer="str").send_arrow("t", data)
    assert len(accepted(caught)) == 1


def test_failures_of_rows_that_hooks_have_seen(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(hooks=Seeing()))
    server.do(lambda cluster: cluster.orphan("t", 1, 1_000.0))
    rows = producer.send_arrow("t", table("x", "y", "z", partition=[0, 1, 1]))
    until(lambda: rows.acked == 1 or rows.done())
    producer.purge(in_flight=True)
    assert list(rows.failures(SECONDS)) == [1, 2]
    assert rows.acked == 1


# ---------------------------------------------------------------- transactions


def test_a_transaction_is_committed_or_aborted_with_its_rows(server: ModelServer, make: Maker) -> None:
    producer = make(transactional_id="rows-1", linger_ms=0)
    with pytest.raises(TransactionError):
        producer.send_arrow("t", table("too early"))
    producer.init_transactions(SECONDS)
    with producer.transaction():
        rows = producer.send_arrow("t", table("a", "b"))
    assert rows.result(0) == 2
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send_arrow("t", table("c", "d"))
        raise ZeroDivisionError
    assert committed(server) == [b"a", b"b"]


def test_only_producers_make_handles(make: Maker) -> None:
    rows: Any = make().send_arrow("t", table("a"))
    assert isinstance(rows, SentRows)
    assert repr(rows) == "<SentRows of 1 rows to t>"
    assert isinstance(Producer.send_arrow.__doc__, str)
