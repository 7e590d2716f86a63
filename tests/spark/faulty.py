"""`format("faulty")`: the data source of the package with a fault in one of its tasks, or on the driver. Executors import this module."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pykafka4 import LATEST, Client
from pykafka4.spark import data_source
from pyspark_pykafka4 import DefaultSource

PATIENCE_S = 60.0
Messages = Sequence[WriterCommitMessage | None]


@attrs.frozen
class Fault:
    """What happens in the task of partition 1, when rows of its first Arrow batch are in the log."""

    folder: Path
    kind: str  # "kill": its Python worker, once; "fail": each attempt; "pause": it waits; "commit": the driver's commit fails, once
    watched: str  # topic of which partition 1 has the rows of this task

    @classmethod
    def take(cls, options: dict[str, str]) -> Fault:
        """The fault in options `fault.*`, which are removed."""
        found = {name: options.pop(name) for name in [*options] if name.startswith("fault.")}
        return cls(Path(found["fault.folder"]), found["fault.kind"], options["topic"])

    def strike(self, batches: Iterator[pa.RecordBatch], servers: Any) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        hit = context.partitionId() == 1 and self.kind in ("kill", "fail", "pause")
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and hit:
                self._wait_for_rows(servers)
                self._happen()

    def _wait_for_rows(self, servers: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with Client(bootstrap_servers=servers) as client:
            while not client.list_offsets({(self.watched, 1): LATEST})[self.watched, 1].offset:
                assert time.monotonic() < deadline, "no row reached the log"
                time.sleep(0.02)

    def _happen(self) -> None:
        if self.kind == "fail":
            raise RuntimeError("the fault of the test")
        if self.kind == "kill" and self.once():
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "pause" and self.once():
            deadline = time.monotonic() + 3 * PATIENCE_S
            while not (self.folder / "go").exists():
                assert time.monotonic() < deadline, "the test did not let the task go on"
                time.sleep(0.02)

    def once(self) -> bool:
        """Whether this is the first time."""
        try:
            (self.folder / "happened").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def shuffled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a partition, in an order of chance."""
    if tables := [pa.Table.from_batches([batch]) for batch in batches]:
        table = pa.concat_tables(tables)
        yield from table.take(random.sample(range(len(table)), len(table))).to_batches(100)


class FaultyBatchWriter(DataSourceArrowWriter):
    def __init__(self, writer: Any, fault: Fault) -> None:
        self.writer, self.fault = writer, fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.writer.write(self.fault.strike(iterator, self.writer.options.client["bootstrap_servers"]))

    def commit(self, messages: Messages) -> None:
        self.writer.commit(messages)

    def abort(self, messages: Messages) -> None:
        self.writer.abort(messages)


class FaultyStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Any, fault: Fault) -> None:
        self.writer, self.fault = writer, fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.writer.write(self.fault.strike(iterator, self.writer.options.client["bootstrap_servers"]))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if self.fault.kind == "commit" and self.fault.once():
            raise RuntimeError("the fault of the test")
        self.writer.commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        self.writer.abort(messages, batchId)


class Faulty(DefaultSource):
    """Options `fault.folder` and `fault.kind`, and all others of the package's own."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        fault = Fault.take(options := dict(self.options))
        return FaultyBatchWriter(data_source.batch_writer(options, schema, overwrite), fault)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        fault = Fault.take(options := dict(self.options))
        return FaultyStreamWriter(data_source.stream_writer(options, schema, overwrite), fault)
