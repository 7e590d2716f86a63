"""`read_arrow`: the records of a bounded read as columns, for every reader of Arrow streams."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import arro3.core
import duckdb
import nanoarrow
import pandas
import polars
import pyarrow as pa
import pytest

from pykafka4 import ClosedError, ConfigError, CorruptRecord, TopicPartition, read, read_arrow
from pykafka4.bounded.read_arrow import ReadArrow
from pykafka4.errors import BrokerError
from pykafka4.testing import ModelServer
from tests.consumer.consuming import damage, fill, numbers, topic
from tests.inspection import loop_threads
from tests.net.net_helpers import until

Reads = Callable[..., ReadArrow]


@pytest.fixture
def reads(server: ModelServer) -> Reads:
    """As in an application, nothing closes them but their end, or that nobody has them."""

    def make(topics: Any = "t", **options: Any) -> ReadArrow:
        return read_arrow(topics, bootstrap_servers=server.bootstrap_servers, **{"timeout": 20, "fetch_max_wait_ms": 50, **options})

    return make


def test_a_table_has_the_records_of_read(server: ModelServer, reads: Reads) -> None:
    topic(server, 100, 0, 7)
    server.create_topic("u", 1)
    fill(server, "u", 0, numbers(0, 5))
    table = pa.RecordBatchReader.from_stream(reads(["t", "u"])).read_all()
    records = read(["t", "u"], bootstrap_servers=server.bootstrap_servers)
    rows = sorted((r.topic, r.partition, r.offset, r.value) for r in records)
    assert sorted(zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset", "value")), strict=True)) == rows
    assert len(rows) == 112


def test_its_repr_counts_the_records(server: ModelServer, reads: Reads) -> None:
    topic(server, 1)
    columns = reads()
    assert pa.table(columns).num_rows == 1
    assert repr(columns) == "<ReadArrow of t-0: 1 record so far>"


@pytest.mark.parametrize(
    "count",
    [
        lambda o: len(polars.DataFrame(o)),
        lambda o: pa.table(o).num_rows,
        lambda o: len(pandas.DataFrame.from_arrow(o)),
        lambda o: duckdb.sql("select * from o").fetchall().__len__(),
        lambda o: sum(array.length for array in nanoarrow.c_array_stream(o)),
        lambda o: arro3.core.Table.from_arrow(o).num_rows,
    ],
    ids=["polars", "pyarrow", "pandas", "duckdb", "nanoarrow", "arro3"],
)
def test_every_reader_of_arrow_streams_reads_to_the_end(server: ModelServer, reads: Reads, count: Callable[[Any], int]) -> None:
    topic(server, 40, 25)
    before = loop_threads()
    assert count(reads(max_rows=10)) == 65
    gc.collect()
    until(lambda: not loop_threads() - before, "the end of the read closes its client")


def test_bounds_partitions_and_columns(server: ModelServer, reads: Reads) -> None:
    topic(server, 10, 10)
    frame = polars.DataFrame(reads(partitions=[1], start={1: 3}, until={1: 6}, columns=["value", "partition"]))
    assert frame.rows() == [(b"3", 1), (b"4", 1), (b"5", 1)]
    assert polars.DataFrame(reads(start="now")).columns[0] == "topic", "an empty frame has a schema"


def test_options_of_a_group_are_refused(reads: Reads) -> None:
    with pytest.raises(ConfigError, match="read_arrow has no option group_id"):
        reads(group_id="g")


@pytest.mark.parametrize("option", [{"value_deserializer": "json"}, {"key_deserializer": str}, {"on_poison": "skip"}])
def test_deserializers_are_refused_because_columns_have_bytes(reads: Reads, option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"read_arrow has no option {next(iter(option))}: keys and values of columns are bytes"):
        reads(**option)


def test_iteration_returns_batches_and_a_stream_the_rest(server: ModelServer, reads: Reads) -> None:
    topic(server, 50)
    batches = reads(max_rows=20)
    first = next(batches)
    assert (len(first), first.positions[TopicPartition("t", 0)].offset) == (20, 20)
    assert [len(batch) for batch in pa.RecordBatchReader.from_stream(batches)] == [20, 10]
    assert list(batches) == []
    with pytest.raises(RuntimeError, match="has been handed out already"):
        batches.__arrow_c_stream__()


def test_foreign_threads_read_and_release_the_stream(server: ModelServer, reads: Reads) -> None:
    topic(server, 500, 500)
    o = reads(max_rows=10)  # noqa: F841  (DuckDB looks it up)
    with duckdb.connect() as connection:
        assert connection.sql('select count(*), sum("offset") from o').fetchall() == [(1000, 2 * sum(range(500)))]


def test_a_wrong_argument_is_an_error_of_the_call(reads: Reads) -> None:
    with pytest.raises(BrokerError):
        reads("no-such-topic")
    with pytest.raises(ConfigError, match="did you mean 'value'"):
        reads(columns=["values"])
    with pytest.raises(ConfigError, match="read_arrow has no option colums; did you mean 'columns'"):
        reads(colums=["value"])
    with pytest.raises(ConfigError, match="max_rows=0"):
        reads(max_rows=0)


def test_an_error_in_the_middle_has_its_text_in_the_reader_and_is_raised_by_iteration(server: ModelServer, reads: Reads) -> None:
    topic(server, 3)
    fill(server, "t", 0, numbers(3, 6))
    damage(server, 1)
    reader = pa.RecordBatchReader.from_stream(reads())
    assert reader.read_next_batch().num_rows == 3
    with pytest.raises(Exception, match="CorruptRecord: t-0 at offset 3"):
        reader.read_all()
    batches = iter(reads())
    assert len(next(batches)) == 3
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 3"):
            next(batches)


def test_a_closed_read_ends_with_an_error(server: ModelServer, reads: Reads) -> None:
    topic(server, 50)
    with reads(max_rows=20) as batches:
        reader = pa.RecordBatchReader.from_stream(batches)
        assert reader.read_next_batch().num_rows == 20
    with pytest.raises(Exception, match="ClosedError"):
        reader.read_all()
    with pytest.raises(ClosedError, match="this read was closed before its end"):
        next(batches)


def test_a_stream_that_is_left_closes_the_client(server: ModelServer, reads: Reads) -> None:
    topic(server, 50)
    before = loop_threads()
    reader = pa.RecordBatchReader.from_stream(reads(max_rows=20))
    assert reader.read_next_batch().num_rows == 20
    assert len(loop_threads() - before) == 1, "the stream outlives its handle"
    del reader
    gc.collect()
    until(lambda: not loop_threads() - before)


def test_a_stream_that_has_failed_closes_the_client_when_it_is_left(server: ModelServer, reads: Reads) -> None:
    topic(server, 3)
    fill(server, "t", 0, numbers(3, 6))
    damage(server, 1)
    before = loop_threads()

    def fail() -> None:
        reader = pa.RecordBatchReader.from_stream(reads())
        with pytest.raises(Exception, match="CorruptRecord: t-0 at offset 3"):
            reader.read_all()

    fail()
    gc.collect()
    until(lambda: not loop_threads() - before)


def test_ctrl_c_ends_the_stream(server: ModelServer, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 50)
    batches = reads(max_rows=20)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    reader = pa.RecordBatchReader.from_stream(batches)
    monkeypatch.setattr(batches._batches.reading, "poll", interrupted)
    with pytest.raises(Exception, match="KeyboardInterrupt"):
        reader.read_next_batch()


def test_progress_is_shown(server: ModelServer, reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    topic(server, 50)
    assert len(polars.DataFrame(reads(progress=True))) == 50
    assert "t: 100 %, 50 records" in capsys.readouterr().err
