"""A table: complete when it is returned, kept up to date, bounded, and never silently wrong."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka4 import (
    BrokerError,
    Client,
    ClosedError,
    ConfigError,
    DeserializationError,
    InvalidOffset,
    KafkaError,
    KafkaTimeoutError,
    LogTruncated,
    OffsetOutOfRange,
    Producer,
    table,
)
from pykafka4.tables.reader import TableReader
from pykafka4.testing import ModelServer
from tests.inspection import loop_threads
from tests.net.net_helpers import SECONDS, in_child, until

NAMES: dict[str, Any] = {"key_deserializer": "str", "value_deserializer": "json"}


class Settings:
    """A topic with two partitions, and a producer to it."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        server.create_topic("t", 2)
        self.where = {"bootstrap_servers": server.bootstrap_servers}
        self.producer = Producer(**self.where, value_serializer="json")  # type: ignore[arg-type]
        self.open: list[Any] = []

    def put(self, **rows: Any) -> None:
        for key, value in rows.items():
            self.producer.send("t", value, key=key)
        self.producer.flush(SECONDS)

    def table(self, **options: Any) -> Any:
        made = table("t", **{**NAMES, **({} if "client" in options else self.where), **options})
        self.open.append(made)
        return made


@pytest.fixture
def settings(server: ModelServer) -> Iterator[Settings]:
    made = Settings(server)
    yield made
    for each in made.open:
        each.close(SECONDS)
    made.producer.close(SECONDS)


def failure(made: Any) -> KafkaError:
    """The error that ends the table."""

    def ended() -> KafkaError | None:
        try:
            len(made)
        except KafkaError as error:
            return error
        return None

    until(lambda: ended() is not None, "the end of the table")
    error = ended()
    assert error is not None
    return error


def test_a_table_has_the_last_value_of_each_key_when_it_is_returned(settings: Settings) -> None:
    settings.put(a=1, b=2, c=3)
    settings.put(a=10, b=None, nothing=None)
    made = settings.table()
    assert dict(made) == {"a": 10, "c": 3}
    assert (len(made), "a" in made, "b" in made, made.get("b")) == (2, True, False, None)
    with pytest.raises(KeyError):
        made["b"]
    assert made.lag == 0


def test_an_empty_topic_is_an_empty_table(settings: Settings) -> None:
    assert dict(settings.table()) == {}


def test_refresh_sees_what_was_acknowledged_before(settings: Settings) -> None:
    made = settings.table()
    for number in range(5):
        settings.put(a=number)
        made.refresh(SECONDS)
        assert made["a"] == number
    settings.put(a=None)
    made.refresh(SECONDS)
    assert "a" not in made


def test_wait_until_waits_for_a_change(settings: Settings) -> None:
    made = settings.table()
    settings.put(a=1)
    made.wait_until(lambda rows: rows.get("a") == 1, SECONDS)
    with pytest.raises(KafkaTimeoutError, match="wait_until: the condition is not met after"):
        made.wait_until(lambda rows: "b" in rows, 0.01)
    with pytest.raises(TypeError, match="the condition of wait_until must be callable, not str"):
        made.wait_until("a", SECONDS)  # type: ignore[arg-type]


def test_iteration_is_over_a_copy(settings: Settings) -> None:
    settings.put(a=1, b=2)
    made = settings.table()
    names, pairs = iter(made), iter(made.items())
    settings.put(c=3, a=None)
    made.refresh(SECONDS)
    assert sorted(names) == ["a", "b"]
    assert sorted(pairs) == [("a", 1), ("b", 2)]


def test_changes_are_told_with_old_and_new_values_and_an_exception_is_logged(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    def on_change(key: str, old: Any, new: Any) -> None:
        told.append((key, old, new))
        if new == 2:
            raise ValueError("no")

    settings.put(a=1)
    made = settings.table(on_change=on_change)
    settings.put(a=2)
    settings.put(a=None, b=None)
    made.refresh(SECONDS)
    assert told == [("a", 1, 2), ("a", 2, None)]
    assert "on_change of the table of t raised" in caplog.text


def test_new_partitions_are_read(settings: Settings) -> None:
    made = settings.table(metadata_max_age_ms=100)
    settings.server.do(lambda cluster: cluster.add_partitions("t", 4))
    with Producer(**settings.where, value_serializer="json") as producer:  # type: ignore[arg-type]
        producer.send("t", 7, key="new", partition=3).result(SECONDS)
    made.wait_until(lambda rows: "new" in rows, SECONDS)
    assert made["new"] == 7


def test_refresh_sees_a_record_in_a_partition_that_its_metadata_lacks(settings: Settings) -> None:
    made = settings.table()
    settings.server.do(lambda cluster: cluster.add_partitions("t", 4))
    with Producer(**settings.where, value_serializer="json") as producer:  # type: ignore[arg-type]
        producer.send("t", 7, key="new", partition=3).result(SECONDS)
    made.refresh(SECONDS)
    assert made["new"] == 7


def test_refresh_waits_for_records_behind_an_open_transaction(settings: Settings) -> None:
    made = settings.table()
    with Producer(**settings.where, transactional_id="x", value_serializer="json") as other:  # type: ignore[arg-type]
        other.init_transactions(SECONDS)
        other.begin_transaction()
        other.send("t", 1, key="a", partition=0).result(SECONDS)
        settings.producer.send("t", 2, key="own", partition=0).result(SECONDS)
        with pytest.raises(KafkaTimeoutError, match="table of t: not up to date"):
            made.refresh(0.2)
        other.commit_transaction()
    made.refresh(SECONDS)
    assert dict(made) == {"a": 1, "own": 2}


@pytest.mark.parametrize(("bound", "text"), [({"max_keys": 2}, "max_keys=2"), ({"max_bytes": 8}, "max_bytes=8")])
def test_a_topic_over_a_bound_ends_the_table(settings: Settings, bound: dict[str, int], text: str) -> None:
    settings.put(a=1, b=2)
    made = settings.table(**bound)
    settings.put(a=3)
    made.refresh(SECONDS)
    settings.put(a="longer", c=3)
    assert f"exceeds {text} at t-" in str(failure(made))
    with pytest.raises(KafkaError, match="exceeds"):
        made["a"]
    assert made.status()["state"] == "failed"


def test_deleted_and_replaced_values_do_not_count(settings: Settings) -> None:
    settings.put(a=1, b=10)
    settings.put(a=None, b=2)
    made = settings.table(max_keys=2, max_bytes=5)
    assert (dict(made), made.status()["bytes"]) == ({"b": 2}, 2)


@pytest.mark.parametrize("bound", [{"max_keys": 0}, {"max_bytes": "8"}, {"max_keys": True}])
def test_a_wrong_bound_is_refused(settings: Settings, bound: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(bound))}=.*must be an int of at least 1"):
        settings.table(**bound)


def test_a_complete_table_whose_next_records_are_deleted_is_an_error_even_before_it_is_returned(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HeldUp(TableReader):
        """The thread of the application goes on only when the reader has met the deleted records."""

        def wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
            super().wait(condition, timeout, what)
            settings.server.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic="t")
            until(lambda: self.error is not None or not self.rows)

    monkeypatch.setattr("pykafka4.tables.table.TableReader", HeldUp)
    settings.put(a=1, b=2)
    assert isinstance(failure(settings.table()), OffsetOutOfRange)


def test_a_record_that_cannot_be_deserialized_ends_the_table(settings: Settings) -> None:
    settings.put(a=1)
    made = settings.table()
    with Producer(**settings.where) as producer:  # type: ignore[arg-type]
        producer.send("t", b"no JSON", key="a").result(SECONDS)
    assert isinstance(failure(made), DeserializationError)
    with pytest.raises(DeserializationError):
        settings.table()
    assert settings.table(on_poison="skip")["a"] == 1


def test_a_table_that_ends_wakes_those_who_wait(settings: Settings) -> None:
    made, sent, began = settings.table(), list[Any](), time.monotonic()

    def end(rows: Any) -> bool:
        if not sent:
            sent.append(settings.producer.send("t", 1, partition=0))
        return False

    with pytest.raises(KafkaError, match="has no key"):
        made.wait_until(end, 2 * SECONDS)
    assert time.monotonic() - began < SECONDS


def test_a_record_without_a_key_ends_the_table(settings: Settings) -> None:
    made = settings.table()
    settings.producer.send("t", 1, partition=0).result(SECONDS)
    assert "t-0 at offset 0 has no key: a table needs a topic whose records have keys" in str(failure(made))


def test_a_key_that_cannot_be_a_key_of_a_dict_ends_the_table(settings: Settings) -> None:
    made = settings.table(key_deserializer=lambda data: [data])
    settings.put(a=1)
    assert "its key, of type list, cannot be a key of a dict" in str(failure(made))


def test_a_recreated_topic_ends_the_table(settings: Settings) -> None:
    settings.put(a=1)
    made = settings.table(metadata_max_age_ms=100)
    settings.server.do(lambda cluster: cluster.recreate_topic("t"))
    assert isinstance(failure(made), InvalidOffset)


def test_a_deleted_topic_ends_the_table(settings: Settings) -> None:
    settings.put(a=1)
    made = settings.table(metadata_max_age_ms=100)
    settings.server.do(lambda cluster: cluster.delete_topic("t"))
    error = failure(made)
    assert isinstance(error, BrokerError)
    assert "topic t: UNKNOWN_TOPIC_OR_PARTITION (it was deleted)" in str(error)


def test_a_truncated_log_ends_the_table(settings: Settings) -> None:
    for number in range(3):
        settings.producer.send("t", number, key="a", partition=0).result(SECONDS)
    made = settings.table(metadata_max_age_ms=100)
    settings.server.do(lambda cluster: cluster.unclean_election("t", 0, lost=2))
    assert isinstance(failure(made), LogTruncated)


def test_records_of_aborted_transactions_are_left_out(settings: Settings) -> None:
    settings.put(a=1)
    with Producer(**settings.where, transactional_id="x", value_serializer="json") as producer:  # type: ignore[arg-type]
        producer.init_transactions(SECONDS)
        for value, end in ((2, producer.abort_transaction), (3, producer.commit_transaction)):
            producer.begin_transaction()
            producer.send("t", value, key="a")
            producer.flush(SECONDS)
            end()
            made = settings.table()
            assert made["a"] == (1 if value == 2 else 3)
            made.refresh(SECONDS)


def test_a_topic_that_does_not_exist_is_an_error_in_time(settings: Settings) -> None:
    with pytest.raises(KafkaError, match="other"):
        table("other", timeout=0.3, **settings.where)  # type: ignore[call-overload]


def test_after_close_each_access_raises_and_the_thread_has_ended(settings: Settings) -> None:
    settings.put(a=1)
    with settings.table() as made:
        assert made["a"] == 1
    for access in (lambda: made["a"], lambda: list(made), lambda: len(made), lambda: "a" in made, lambda: made.refresh(1)):
        with pytest.raises(ClosedError, match="this table of t is closed"):
            access()
    assert made.status()["state"] == "closed"
    assert not [thread for thread in threading.enumerate() if thread.name == "pykafka4-table-t"]
    made.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_no_table(settings: Settings) -> None:
    settings.put(a=1)
    made = settings.table()
    for access in (lambda: made["a"], made.refresh, lambda: made.wait_until(len)):
        assert in_child(lambda access=access: str(access())).startswith("ForkedClientError: this table was opened in the parent process")  # type: ignore[misc]
    assert in_child(lambda: made.status()["state"]) == "failed"
    assert in_child(lambda: str(made.close())) == "None"
    assert made["a"] == 1


def test_a_client_that_is_closed_ends_its_tables(settings: Settings) -> None:
    client = Client(**settings.where)
    made = settings.table(client=client)
    client.close(SECONDS)
    assert isinstance(failure(made), ClosedError)
    assert (made.status()["state"], "closed" in made.status()["reason"]) == ("failed", True)


def test_on_change_may_not_wait_for_its_own_table_and_may_close_it(settings: Settings) -> None:
    errors: list[Any] = []

    def on_change(key: str, old: Any, new: Any) -> None:
        try:
            made.refresh(SECONDS)
        except KafkaError as error:
            errors.append(str(error))
        made.close(SECONDS)

    made = settings.table(on_change=on_change)
    settings.put(a=1)
    until(lambda: errors and made.status()["state"] == "closed", "the close")
    assert errors == ["table of t: not up to date: on_change must not wait for its own table"]


def test_a_forgotten_table_ends_its_thread_with_a_warning(settings: Settings) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table("t", **{**NAMES, **settings.where})
        gc.collect()
        until(lambda: not [each for each in threading.enumerate() if each.name == "pykafka4-table-t"], "the end of the thread")
        until(lambda: any("Table was not closed" in str(one.message) for one in caught), "a warning")


def test_a_forgotten_table_that_had_failed_ends_its_thread_and_client(settings: Settings) -> None:
    settings.put(a=1)
    before = loop_threads()

    def fail() -> None:
        made = table("t", **{**NAMES, **settings.where})
        settings.producer.send("t", "without a key")
        until(lambda: made.status()["state"] == "failed", "the end of the table")
        assert loop_threads() - before

    with pytest.warns(ResourceWarning, match="Table was not closed"):
        fail()
    until(lambda: not loop_threads() - before, "the end of the client")


def test_the_end_of_a_shared_client_ends_the_thread_of_a_table_that_is_not_closed(settings: Settings) -> None:
    settings.put(a=1)
    client = Client(**settings.where)
    before = set(threading.enumerate())
    made = settings.table(client=client)
    threads = set(threading.enumerate()) - before
    client.close(SECONDS)
    until(lambda: not any(thread.is_alive() for thread in threads), "the end of the thread")
    assert made.status()["state"] == "failed"


@pytest.mark.parametrize(
    "option",
    [
        {"group_id": "g"},
        {"enable_auto_commit": False},
        {"session_timeout_ms": 6_000},
        {"exclude_internal_topics": False},
        {"auto_offset_reset": "latest"},
    ],
)
def test_options_of_groups_are_refused(settings: Settings, option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"table has no option {next(iter(option))}"):
        settings.table(**option)
