"""Columns of a consumer in the hands of others: released on any thread, at any time, and without growth."""

from __future__ import annotations

import gc
import os
import sys
import threading

import polars
import psutil
import pyarrow as pa
import pytest

from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import IMPLEMENTATION
from tests.consumer.consuming import LONG, Maker, topic
from tests.wire.records.columns.test_columns_export import exported, release, released_by_foreign_threads, run

only_compiled = pytest.mark.skipif(IMPLEMENTATION != "compiled", reason="the plain core runs Python code on release")


@only_compiled
@pytest.mark.skipif(sys.platform != "linux", reason="it needs pthread_create")
def test_threads_that_python_does_not_know_release_columns_while_the_consumer_polls_and_after_it_is_closed(
    server: ModelServer, make: Maker
) -> None:
    topic(server, 600)
    consumer = make.assigned(0)
    kept = []
    for _ in range(10):
        columns = consumer.poll_arrow(LONG, max_rows=50)
        kept.append(exported(columns))
        released_by_foreign_threads([exported(columns) for _ in range(5)])
    stats, reader = consumer.stats(), consumer
    assert stats["held_bytes"] > 0
    del columns
    released_by_foreign_threads(kept[:5])
    assert 0 < reader.stats()["held_bytes"] < stats["held_bytes"]
    consumer.close()
    released_by_foreign_threads(kept[5:])


def test_frames_that_threads_of_their_own_keep_are_freed_there(server: ModelServer, make: Maker) -> None:
    topic(server, 400)
    consumer = make.assigned(0)
    frames = [polars.DataFrame(consumer.poll_arrow(LONG, max_rows=100)) for _ in range(4)]
    assert consumer.stats()["held_bytes"] > 0
    threads = [threading.Thread(target=frames.pop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert consumer.stats()["held_bytes"] == 0


AT_THE_END = """
import sys
import polars, pyarrow
from pykafka4 import Consumer
from pykafka4.testing import ModelServer
server = ModelServer(brokers=1)
server.create_topic("t", 1)
server.produce("t", *(b"%d" % n for n in range(10)), partition=0)
consumer = Consumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest")
consumer.assign([("t", 0)])
columns = consumer.poll_arrow(20)
assert columns
sys.kept = [columns, polars.DataFrame(columns), pyarrow.table(columns), columns.__arrow_c_stream__(), columns.__arrow_c_array__()]
class Late:
    def __init__(self, kept): self.kept = kept
    def __del__(self): self.kept.clear()
sys.late = Late(sys.kept)
consumer.close()
server.close()
"""


def test_the_end_of_the_interpreter_releases_columns() -> None:
    run(AT_THE_END)


@only_compiled
@pytest.mark.skipif("PYKAFKA4_SANITIZED" in os.environ, reason="freed memory is kept for a while there")
def test_memory_is_flat_over_many_polls(server: ModelServer, make: Maker) -> None:
    topic(server, 1000)
    consumer, process = make.assigned(0), psutil.Process()

    def poll(times: int) -> int:
        for _ in range(times):
            consumer.seek(("t", 0), 0)
            while (columns := consumer.poll_arrow(LONG, max_rows=100)).positions[("t", 0)].offset < 1000:
                pa.record_batch(columns)
                release(exported(columns))
        return int(process.memory_info().rss)

    before = poll(30)
    assert poll(200) - before < 6_000_000
