"""`read(split=…)`, `read_arrow(split=…)` and `aio.read(split=…)`: exactly the ranges of a split."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykafka4 import Client, ConfigError, aio, read, read_arrow
from pykafka4.testing import ModelServer
from tests.aio.tasking import run
from tests.consumer.consuming import fill, numbers, topic


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 25))
@pytest.mark.model(topics={"t": 3})
def test_the_splits_together_have_what_one_read_has(server: ModelServer, client: Client, n: int) -> None:
    if not server.records("t"):
        for partition, count in enumerate((40, 0, 7)):
            for first in range(0, count, 5):
                fill(server, "t", partition, numbers(first, min(first + 5, count)))
    whole = sorted((record.partition, record.offset, record.value) for record in read("t", client=client))
    splits = client.splits("t", n)
    parts = [[(record.partition, record.offset, record.value) for record in read(split=split, client=client)] for split in splits]
    assert len(whole) == 47
    assert [len(part) for part in parts] == [len(split) for split in splits]
    assert sorted(record for part in parts for record in part) == whole


def test_columns_and_tasks_read_a_split_too(server: ModelServer, client: Client) -> None:
    topic(server, 10, 10)
    first, second = client.splits("t", 2)
    table = pa.RecordBatchReader.from_stream(read_arrow(split=second, client=client)).read_all()
    assert table["offset"].to_pylist() == list(range(10))
    assert set(table["partition"].to_pylist()) == {1}

    async def main() -> list[tuple[int, int]]:
        return [(record.partition, record.offset) async for record in aio.read(split=first, client=client)]

    assert run(main()) == [(0, offset) for offset in range(10)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": 5}, r"split=5: takes one of the splits that Client\.splits returns"),
        ({}, r"read needs topics, or split="),
        ({"topics": "t", "split": ...}, r"read\(split=…\) takes no topics: a split has its own"),
        ({"until": "-1h", "split": ...}, r"read\(split=…\) takes no until"),
        ({"partitions": [0], "split": ...}, r"read\(split=…\) takes no partitions"),
    ],
)
def test_a_wrong_argument_is_named(server: ModelServer, client: Client, arguments: dict[str, Any], message: str) -> None:
    topic(server, 1)
    (split,) = client.splits("t", 1)
    given = {name: split if value is ... else value for name, value in arguments.items()}
    with pytest.raises((TypeError, ConfigError), match=message):
        read(**given, client=client)
