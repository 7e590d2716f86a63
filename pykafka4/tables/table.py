"""Defines `table` and the read-only mapping that it returns. Invariant: an access to the rows of a table that has ended raises."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack, overload

from pykafka4.client.client import Client
from pykafka4.client.runtime import warn_unclosed
from pykafka4.consumer.session import ConsumerSession
from pykafka4.errors import ConfigError
from pykafka4.errors.frames import guarded
from pykafka4.misuse import api_timeout, check_timeout, check_topic, refuse_pickling
from pykafka4.options.config import GROUP_OPTIONS
from pykafka4.options.typed import BytesConsumerOptions, ConsumerOptions
from pykafka4.records import KeyT, ValueT
from pykafka4.serializers import Deserializer, Deserializers
from pykafka4.tables.limits import DEFAULT_BYTES, DEFAULT_KEYS, Limits
from pykafka4.tables.reader import CLOSE_S, TableReader
from pykafka4.wire.records.common import checked_callback

__all__ = ["Table", "table"]

A = TypeVar("A")
B = TypeVar("B")

WITHOUT_GROUP: Final = "a table has no group: it reads the whole topic, and commits nothing"
REFUSED: Final = {
    **dict.fromkeys(GROUP_OPTIONS, WITHOUT_GROUP),
    "auto_offset_reset": "a table is read from the first record on",
    "exclude_internal_topics": "a table has no subscription by pattern",
}


class Table(Mapping[KeyT, ValueT], Generic[KeyT, ValueT]):
    """A read-only mapping with the last value of each key of a topic. Any thread may read it; no access waits.

    Iteration, `items()` and `values()` use a copy of the rows at the time of the call; `keys()` is a live view. Each access to the rows
    raises the error that has ended the reading, ClosedError after `close`, or ForkedClientError in a forked child.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._finalizer = weakref.finalize(self, _forgotten, reader)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs

    def __getitem__(self, key: KeyT) -> ValueT:
        """Raises KeyError if no record has the key, or a tombstone has deleted it."""
        value: ValueT = self._rows()[key][0]
        return value

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._rows().copy())

    def __len__(self) -> int:
        return len(self._rows())

    def __contains__(self, key: object) -> bool:
        return key in self._rows()

    def copy(self) -> dict[KeyT, ValueT]:
        """A dict with the current rows."""
        return {key: value for key, (value, _) in self._rows().copy().items()}  # atomic `copy`: iteration over the rows could meet changes

    def items(self) -> Any:
        """(key, value) pairs of a copy of the rows."""
        return self.copy().items()

    def values(self) -> Any:
        """The values of a copy of the rows."""
        return self.copy().values()

    def _rows(self) -> dict[KeyT, tuple[ValueT, int]]:
        # `rows` is read before the check. In the other order: the check passes, the table ends and empties its rows, no key is found.
        rows = self._reader.rows
        self._reader.check()
        return rows

    def refresh(self, timeout: float | None = None) -> None:
        """Wait until the table has all records below the current high watermarks, including this program's records that were acknowledged
        with acks=all.

        Raises KafkaTimeoutError after `timeout` seconds (default 60), and the error that has ended the reading.
        """
        self._reader.refresh(api_timeout(timeout))

    def wait_until(self, condition: Callable[[Table[KeyT, ValueT]], object], timeout: float | None = None) -> None:
        """Wait until `condition(table)` is true. The condition is called at once, then after possible changes of the table.

        Raises KafkaTimeoutError after `timeout` seconds (default 60), and the error that has ended the reading.
        """
        checked_callback("table", "the condition of wait_until", condition)
        limit = api_timeout(timeout)
        self._reader.check()
        self._reader.wait(lambda: bool(condition(self)), limit, "wait_until: the condition is not met")

    @property
    def lag(self) -> int | None:
        """The number of offsets between the rows and the ends of the logs, from the last responses; None while an end is unknown."""
        return self._reader.lag()

    def status(self) -> dict[str, Any]:
        """`state` (reading, failed, closed), `reason`, `topic`, `keys`, `bytes`, `lag`, and the status of the `consumer`. Never raises."""
        return self._reader.status()

    def close(self, timeout: float | None = None) -> None:
        """End the reading; later accesses raise an error. Takes at most `timeout` seconds (default 5). Closing twice is allowed."""
        limit = check_timeout(timeout)
        self._finalizer.detach()
        self._reader.stop(CLOSE_S if limit is None else limit)

    def __enter__(self) -> Self:
        self._reader.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        status = "failed" if self._reader.error is not None else f"{len(self._reader.rows)} keys"
        return f"<Table of {self._reader.topic}: {status}>"

    def __reduce__(self) -> Any:
        return refuse_pickling("Table")


class TableOptions(BytesConsumerOptions, total=False):
    """The keywords of `table` that do not decide the types of its keys and values."""

    timeout: float | None
    max_keys: int
    max_bytes: int
    on_change: Callable[[Any, Any, Any], object] | None
    client: Client | None


@overload
def table(
    topic: str,
    *,
    key_deserializer: None = None,
    value_deserializer: None = None,
    **options: Unpack[TableOptions],
) -> Table[bytes, bytes]: ...


@overload
def table(
    topic: str,
    *,
    key_deserializer: Deserializer[A],
    value_deserializer: Deserializer[B],
    **options: Unpack[TableOptions],
) -> Table[A, B]: ...


@overload
def table(
    topic: str,
    *,
    key_deserializer: Deserializers,
    value_deserializer: Deserializers | None = None,
    **options: Unpack[TableOptions],
) -> Table[Any, Any]: ...


@overload
def table(
    topic: str,
    *,
    key_deserializer: Deserializers | None = None,
    value_deserializer: Deserializers,
    **options: Unpack[TableOptions],
) -> Table[Any, Any]: ...


@guarded
def table(
    topic: str,
    *,
    timeout: float | None = None,
    max_keys: int = DEFAULT_KEYS,
    max_bytes: int = DEFAULT_BYTES,
    on_change: Callable[[Any, Any, Any], object] | None = None,
    client: Client | None = None,
    **options: Unpack[ConsumerOptions],
) -> Table[Any, Any]:
    """A compacted topic as a read-only mapping, which a thread of its own keeps up to date until `close`.

    The returned table has all records up to the ends that the logs have at the call (with "read_committed", up to the first open
    transaction of each partition). A record without a value (a tombstone) deletes its key. New partitions are also read. Waits up to
    `timeout` seconds (default 60).

    `max_keys` and `max_bytes` (of serialized keys and values) bound the table: a topic that exceeds a bound ends the table.
    Once the table is complete, `on_change(key, old, new)` is called for each further record, except a tombstone for a key without a value;
    a missing value is None. The thread of the table makes the call, maybe before `table` has returned, and reads no further records
    meanwhile. Exceptions of `on_change` are logged. The other options are options of `Consumer`, except `auto_offset_reset`,
    `exclude_internal_topics` and options for groups; the default of `isolation_level` is "read_committed" here. `client`: a Client to
    share.

    An error that could make the table wrong ends the table, and each access raises that error: records that a deserializer refuses
    (with `on_poison="raise"`, the default), records that were deleted before, or truncated after, the table had read them, a topic that is
    created again, missing authorization.

    Raises ConfigError or TypeError for a wrong argument, BrokerError or KafkaTimeoutError for a topic that does not exist,
    KafkaTimeoutError if the table is not complete in time, and errors that would end the table.
    """
    name, limits, limit = check_topic(topic), Limits.of(max_keys, max_bytes), api_timeout(timeout)
    for option in options:
        if option in REFUSED:
            raise ConfigError(f"table has no option {option}: {REFUSED[option]}")
    if on_change is not None:
        checked_callback("table", "on_change", on_change)
    own: dict[str, Any] = {"isolation_level": "read_committed", **options, "auto_offset_reset": "none"}
    reader = TableReader(ConsumerSession(client, None, own), name, limits, on_change)
    try:
        reader.start(limit)
    except BaseException:
        reader.stop(0)
        raise
    return Table(reader)


def _forgotten(reader: TableReader) -> None:
    warn_unclosed("Table")
    reader.forget()
