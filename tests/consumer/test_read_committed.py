"""isolation_level=read_committed: which records are returned, and where position, lag and start offsets are beside markers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from tests.consumer.consuming import Maker, fill, poll_until, read
from tests.testing.transaction_client import Writer

T0 = ("t", 0)
COMMITTED = {"isolation_level": "read_committed"}


class Writers:
    """Transactional producers of topic `t`; each method returns when the brokers have done it."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.known: dict[str, Writer] = {}
        server.create_topic("t", 2)

    def of(self, name: str) -> Writer:
        if name not in self.known:
            self.known[name] = self.server.do(lambda cluster: Writer(cluster, name=name))
            self.do(self.known[name].begin)
        return self.known[name]

    def do(self, act: Callable[..., str], *args: Any, **options: Any) -> None:
        told = self.server.do(lambda cluster: act(*args, **options))
        assert told == "NONE", told

    def write(self, *values: bytes, name: str = "a", partition: int = 0) -> None:
        """One batch in the transaction, which begins with the first."""
        self.do(self.of(name).write, *values, partition=partition)

    def commit(self, name: str = "a") -> None:
        self.do(self.of(name).end)

    def abort(self, name: str = "a") -> None:
        self.do(self.of(name).end, False)

    def end_offset(self) -> int:
        return int(self.server.do(lambda cluster: cluster.log("t", 0).end_offset))


@pytest.fixture
def writers(server: ModelServer) -> Writers:
    return Writers(server)


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


def reaches(consumer: Consumer, offset: int) -> list[bytes]:
    """What polls return until the position is there."""
    return values(poll_until(consumer, lambda: consumer.position(T0) >= offset))


def test_records_come_when_their_transaction_is_committed(make: Maker, writers: Writers) -> None:
    writers.write(b"a", b"b")
    every, committed = make.assigned(0), make.assigned(0, **COMMITTED)
    assert values(read(every, 2)) == [b"a", b"b"]
    poll_until(committed, lambda: committed.lag(T0) is not None)
    assert (committed.position(T0), committed.lag(T0), every.lag(T0)) == (0, 0, 0)
    writers.commit()
    assert values(read(committed, 2)) == [b"a", b"b"]


def test_aborted_records_are_left_out_and_the_position_passes_them(make: Maker, writers: Writers, server: ModelServer) -> None:
    writers.write(b"no", b"no")
    writers.write(b"yes", name="b")
    fill(server, "t", 0, [b"plain"])
    writers.abort()
    writers.commit("b")
    consumer = make.assigned(0, **COMMITTED)
    assert reaches(consumer, 6) == [b"yes", b"plain"]
    assert (consumer.position(T0), consumer.lag(T0)) == (6, 0)


def test_a_partition_whose_data_is_all_aborted_is_read_to_its_end(make: Maker, writers: Writers) -> None:
    for _ in range(3):
        writers.write(b"no")
        writers.abort()
    consumer = make.assigned(0, **COMMITTED)
    assert reaches(consumer, 6) == []
    assert (consumer.position(T0), consumer.lag(T0)) == (6, 0)


def test_what_follows_an_open_transaction_waits_and_status_says_so(make: Maker, writers: Writers, server: ModelServer) -> None:
    fill(server, "t", 0, [b"first"])
    writers.write(b"open")
    fill(server, "t", 0, [b"plain"])
    consumer = make.assigned(0, **COMMITTED)
    assert values(read(consumer, 1)) == [b"first"]
    assert (consumer.position(T0), consumer.lag(T0)) == (1, 0)

    def waits() -> Any:
        found: dict[str, Any] = consumer.status()
        return "the end of the transaction that began at offset 1; waiting offsets: 2 (isolation_level=read_committed)" in str(found)

    poll_until(consumer, waits)
    writers.abort()
    assert values(read(consumer, 1)) == [b"plain"]
    reaches(consumer, 4)
    assert "the end of the transaction" not in str(consumer.status())


def test_latest_begins_at_the_last_stable_offset(make: Maker, writers: Writers, server: ModelServer) -> None:
    fill(server, "t", 0, [b"old"])
    writers.write(b"open")
    fill(server, "t", 0, [b"plain"])
    consumer = make.assigned(0, auto_offset_reset="latest", **COMMITTED)
    assert consumer.position(T0) == 1
    every = make.assigned(0, auto_offset_reset="latest")
    assert every.position(T0) == 3
    writers.commit()
    assert values(read(consumer, 2)) == [b"open", b"plain"]
    assert reaches(every, 4) == []
    consumer.seek_to_end([T0])
    assert consumer.position(T0) == 4


@pytest.mark.parametrize("start", range(6))
def test_a_start_inside_or_behind_an_aborted_transaction(make: Maker, writers: Writers, server: ModelServer, start: int) -> None:
    writers.write(b"no 0", b"no 1")
    writers.write(b"no 2")
    fill(server, "t", 0, [b"plain"])
    writers.abort()
    fill(server, "t", 0, [b"last"])
    consumer = make.assigned(0, **COMMITTED)
    consumer.seek(T0, start)
    assert reaches(consumer, 6) == ([b"plain"] if start < 4 else []) + [b"last"]


@pytest.mark.parametrize("first", range(1, 7))
def test_a_log_that_begins_beside_markers(make: Maker, writers: Writers, server: ModelServer, first: int) -> None:
    writers.write(b"no")
    writers.abort()
    writers.write(b"yes")
    writers.commit()
    writers.write(b"no")
    writers.abort()
    server.do(lambda cluster: cluster.delete_records("t", 0, first))
    consumer = make.assigned(0, **COMMITTED)
    assert reaches(consumer, 6) == ([b"yes"] if first < 3 else [])
    poll_until(consumer, lambda: consumer.lag(T0) == 0)


def test_small_fetches_know_the_aborted_transactions_in_each_response(make: Maker, writers: Writers) -> None:
    for round_ in range(5):
        for n in range(4):
            writers.write(b"no %d" % n * 100, name="a")
            writers.write(b"yes %d.%d" % (round_, n), name="b")
        writers.abort("a")
    writers.commit("b")
    end = writers.end_offset()
    consumer = make.assigned(0, max_partition_fetch_bytes=1, **COMMITTED)
    assert reaches(consumer, end) == [b"yes %d.%d" % (r, n) for r in range(5) for n in range(4)]


def test_each_fetch_of_a_session_has_the_isolation_level(make: Maker, writers: Writers, server: ModelServer) -> None:
    seen: list[tuple[int, int]] = []
    server.do(
        lambda cluster: cluster.control(
            FetchRequest, lambda call: seen.append((call.message.session_epoch, call.message.isolation_level)), keep=True
        )
    )
    consumer = make.assigned(0, 1, **COMMITTED)
    for n in range(3):
        writers.write(b"%d" % n)
        writers.commit()
        read(consumer, 1)
    assert max(epoch for epoch, _ in seen) > 0
    assert {level for _, level in seen} == {1}


def test_the_lag_ends_at_the_last_stable_offset_and_is_never_negative(make: Maker, writers: Writers, server: ModelServer) -> None:
    fill(server, "t", 0, [b"%d" % n for n in range(5)])
    writers.write(b"open")
    consumer = make.assigned(0, **COMMITTED)
    assert consumer.lag(T0) is None
    read(consumer, 2, max_records=2)
    assert consumer.lag(T0) == 3
    read(consumer, 3)
    assert consumer.lag(T0) == 0
    consumer.seek(T0, 6)
    poll_until(consumer, lambda: consumer.lag(T0) is not None)
    assert consumer.lag(T0) == 0
    writers.commit()
    assert reaches(consumer, 7) == []


def test_a_group_commits_its_position_behind_aborted_records(make: Maker, writers: Writers, server: ModelServer) -> None:
    writers.write(b"no")
    writers.abort()
    consumer = make.member(enable_auto_commit=False, **COMMITTED)
    poll_until(consumer, lambda: T0 in consumer.assignment() and consumer.position(T0) == 2)
    consumer.commit()
    assert server.committed("g")[T0] == 2


def test_a_for_loop_leaves_aborted_records_out(make: Maker, writers: Writers) -> None:
    writers.write(b"no")
    writers.abort()
    for n in range(3):
        writers.write(b"%d" % n)
        writers.commit()
    consumer = make.assigned(0, **COMMITTED)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == 3:
            break
    assert found == [b"0", b"1", b"2"]


def test_a_new_leader_knows_the_aborted_transactions(make: Maker, writers: Writers, server: ModelServer) -> None:
    writers.write(b"no")
    writers.write(b"yes", name="b")
    writers.abort()
    consumer = make.assigned(0, **COMMITTED)
    poll_until(consumer, lambda: consumer.lag(T0) is not None)
    server.do(lambda cluster: cluster.move_leader("t", 0))
    writers.commit("b")
    assert values(read(consumer, 1)) == [b"yes"]


def test_the_first_release_with_transactions() -> None:
    with ModelServer(brokers=1, release="0.11") as server:
        server.create_topic("t", 1)
        fill(server, "t", 0, [b"a", b"b"])
        maker = Maker(server)
        try:
            assert values(read(maker.assigned(0, **COMMITTED), 2)) == [b"a", b"b"]
        finally:
            maker.close()


def test_a_position_behind_a_marker_has_the_epoch_of_the_marker(make: Maker, writers: Writers, server: ModelServer) -> None:
    """With the epoch of the last record, the leader would tell the next consumer that the log was truncated."""
    writers.write(b"yes")
    for _ in range(2):
        server.do(lambda cluster: cluster.move_leader("t", 0))
    writers.commit()
    first = make.assigned(0, group_id="g", enable_auto_commit=False, **COMMITTED)
    assert reaches(first, 2) == [b"yes"]
    first.commit()
    assert first.committed(T0).leader_epoch == server.do(lambda cluster: cluster.topics.partition("t", 0).epoch) > 0  # type: ignore[union-attr]
    writers.write(b"more")
    writers.commit()
    second = make.assigned(0, group_id="g", enable_auto_commit=False, auto_offset_reset="none", **COMMITTED)
    assert values(read(second, 1)) == [b"more"]
