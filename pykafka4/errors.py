"""Exceptions. Rule: a message names the thing, the cause and the way out; an unknown code is kept, never lost."""

from __future__ import annotations

from typing import Any, Self, TypeVar

from pykafka4.error_table import ErrorCode, Written, error_code
from pykafka4.records import ProducerRecord

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "BufferFull",
    "ClosedError",
    "ConfigError",
    "ConnectionLost",
    "CorruptRecord",
    "DecodeError",
    "DeliveryFailed",
    "ForkedClientError",
    "GroupError",
    "InvalidOffset",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncated",
    "NoOffsetForPartition",
    "OffsetOutOfRange",
    "ProducerFencedError",
    "RecordTooLarge",
    "UnsupportedVersion",
    "broker_error",
    "caused_by",
    "short_name",
]


E = TypeVar("E", bound="KafkaError")


SEEK = "auto_offset_reset=none; seek says where to go on"


SHOWN = 200  # characters of a wrong value that a message repeats


def shown(value: object) -> str:
    """`value` as a message repeats it: cut when it is long, and named by its type when it has no repr (an int of too many digits)."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be printed>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


class KafkaError(Exception):
    """Everything this package raises on purpose. `code` is its short name: Kafka's for what a broker said, else one of ours."""

    code: ErrorCode | str = "CLIENT_ERROR"

    def again(self) -> Self:
        """A new instance of the same error, to be raised: one instance raised again and again would collect a traceback each time."""
        other = _restored(type(self), self.args, self._state())
        other.__cause__ = self.__cause__  # of any class: here nothing has to be pickled
        return other

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self._state())

    def _state(self) -> dict[str, Any]:
        """All attributes, the cause among them where it is an error of this package (others may not pickle)."""
        state = {name: list(value) if name == "__notes__" else value for name, value in self.__dict__.items()}
        if isinstance(self.__cause__, KafkaError):
            state["__cause__"] = self.__cause__
        return state


def _restored(kind: type[E], args: tuple[object, ...], state: dict[str, Any]) -> E:
    """The error of that class and state, made without its `__init__`, whose arguments are other ones."""
    error = kind.__new__(kind, *args)
    (OSError if isinstance(error, OSError) else Exception).__init__(error, *args)
    for name, value in state.items():
        setattr(error, name, value)
    return error


class ConfigError(KafkaError, ValueError):
    """An option or argument is wrong; the message names it, its value and what is allowed."""


class ConnectionLost(KafkaError, ConnectionError):
    """A broker could not be reached, or the connection broke."""

    code = "CONNECTION_LOST"


class KafkaTimeoutError(KafkaError, TimeoutError):
    """The time given was over before the operation was; the message says what it waited for."""

    code = "TIMED_OUT"


class BufferFull(KafkaError, BufferError):
    """`buffer_memory` or `max_partition_bytes` is in use and no room came within `max_block_ms` (or waiting is not allowed here)."""


def _place(topic: str, partition: int, offset: int, reason: str, next_offset: int | None) -> str:
    way_out = "where the next batch begins is not known" if next_offset is None else f"seek to {next_offset} to go on behind it"
    return f"{topic}-{partition} at offset {offset}: {reason}; {way_out}"


class RecordTooLarge(KafkaError, ValueError):
    """A record is over `max_request_size`, or a fetched batch over `max_decompressed_bytes` or `receive_message_max_bytes`.

    Of a fetched one `topic`, `partition` and `offset` say what cannot be read, `next_offset` what to `seek` to go on behind its batch
    (None: not known).
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    next_offset: int | None = None

    @classmethod
    def fetched(cls, topic: str, partition: int, offset: int, reason: str, next_offset: int | None = None) -> RecordTooLarge:
        """The error for a batch that `offset` lies in."""
        error = cls(_place(topic, partition, offset, reason, next_offset))
        error.topic, error.partition, error.offset, error.next_offset = topic, partition, offset, next_offset
        return error


class DecodeError(KafkaError, ValueError):
    """A peer sent bytes that do not follow the protocol."""

    code = "UNDECODABLE"


class CorruptRecord(KafkaError):
    """A fetched batch is damaged. `topic`, `partition` and `offset` say where, `next_offset` what to `seek` to go on behind the batch.

    `next_offset` is None where even the batch's header makes no sense, so that its end is not known.
    """

    def __init__(self, topic: str, partition: int, offset: int, reason: str, next_offset: int | None = None) -> None:
        super().__init__(_place(topic, partition, offset, reason, next_offset))
        self.topic, self.partition, self.offset, self.next_offset, self.reason = topic, partition, offset, next_offset, reason


class ClosedError(KafkaError):
    """The client was closed; make a new one."""

    code = "CLOSED"


class ForkedClientError(KafkaError):
    """The client was made in another process; threads and sockets do not survive a fork. Make a client in this process."""


class UnsupportedVersion(KafkaError):
    """The broker is too old (or too new) for what was asked."""

    code = "UNSUPPORTED_VERSION"


class BrokerError(KafkaError):
    """A broker answered with an error code. `code` is its row of the table."""

    code: ErrorCode

    def __init__(self, code: ErrorCode | int, what: str, detail: str | None = None) -> None:
        self.code = error_code(code) if isinstance(code, int) else code
        self.what, self.detail = what, detail
        super().__init__(f"{what}: {self.code.name}" + (f" ({detail})" if detail else ""))

    @property
    def retriable(self) -> bool:
        """Whether the same call can succeed later."""
        return self.code.retriable


class InvalidOffset(KafkaError):
    """There is no offset to continue from, and auto_offset_reset=none forbids choosing one.

    `topic` and `partition` say where, `offset` where reading stood (None: nowhere yet). Every poll raises it until
    `seek((error.topic, error.partition), …)` says where to go on.
    """

    topic: str
    partition: int
    offset: int | None = None

    @classmethod
    def at(cls, topic: str, partition: int, reason: str, offset: int | None = None) -> Self:
        """The error for a partition, with what is wrong."""
        return cls(f"{topic}-{partition}: {reason}, and {SEEK}")._set(topic, partition, offset)

    def _set(self, topic: str, partition: int, offset: int | None) -> Self:
        self.topic, self.partition, self.offset = topic, partition, offset
        return self


class NoOffsetForPartition(InvalidOffset):
    """The group has no committed offset for the partition, or there is no group."""

    code = "NO_OFFSET"


class OffsetOutOfRange(InvalidOffset, BrokerError):
    """The offset is not in the log any more, or not yet. `earliest` and `latest` are the ends of the log now."""

    earliest: int
    latest: int

    @classmethod
    def among(cls, topic: str, partition: int, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
        """The error for an offset outside the log."""
        detail = f"offset {offset} is not among {earliest} to {latest}, and {SEEK}"
        error = cls(1, f"{topic}-{partition}", detail)._set(topic, partition, offset)
        error.earliest, error.latest = earliest, latest
        return error


class LogTruncated(InvalidOffset):
    """An unclean leader election removed records that were read: the log was cut at `truncated_to`, before `offset`."""

    code = "LOG_TRUNCATED"
    truncated_to: int

    @classmethod
    def to(cls, topic: str, partition: int, offset: int, truncated_to: int) -> LogTruncated:
        """The error for a log that was cut."""
        reason = f"an unclean leader election removed offsets {truncated_to} to {offset - 1}, which were read"
        error = cls.at(topic, partition, reason, offset)
        error.truncated_to = truncated_to
        return error


class AuthenticationError(BrokerError):
    """The broker refused the credentials."""


class AuthorizationError(BrokerError, PermissionError):
    """The credentials are good but not allowed to do this."""


class GroupError(BrokerError):
    """The consumer is no longer (or not yet) a member of its group in good standing."""


class ProducerFencedError(BrokerError):
    """Another producer took over this producer's identity; this one is finished."""


class DeliveryFailed(KafkaError):
    """A record could not be delivered.

    `code` is the reason's short name, `written` whether it may be in the log, `cause` the last error seen,
    `record` the record itself (`ProducerRecord`).
    """

    def __init__(
        self,
        topic: str,
        partition: int | None,
        code: str,
        written: Written,
        record: ProducerRecord | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.topic, self.partition, self.code, self.written = topic, partition, code, written
        self.record, self.cause = record, cause
        where = topic if partition is None else f"{topic}-{partition}"
        because = f" ({cause})" if cause is not None else ""
        super().__init__(f"{where}: {code}, {written.value}{because}")


def short_name(error: BaseException) -> str:
    """The name a failure is counted under: `NOT_ENOUGH_REPLICAS`, `TIMED_OUT`, …"""
    return str(error.code) if isinstance(error, KafkaError) else type(error).__name__


_CLASSES: dict[str, type[BrokerError]] = {
    "TOPIC_AUTHORIZATION_FAILED": AuthorizationError,
    "GROUP_AUTHORIZATION_FAILED": AuthorizationError,
    "CLUSTER_AUTHORIZATION_FAILED": AuthorizationError,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": AuthorizationError,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": AuthorizationError,
    "SASL_AUTHENTICATION_FAILED": AuthenticationError,
    "UNSUPPORTED_SASL_MECHANISM": AuthenticationError,
    "ILLEGAL_SASL_STATE": AuthenticationError,
    "PRODUCER_FENCED": ProducerFencedError,
    **dict.fromkeys(
        (
            "ILLEGAL_GENERATION",
            "INCONSISTENT_GROUP_PROTOCOL",
            "INVALID_GROUP_ID",
            "UNKNOWN_MEMBER_ID",
            "INVALID_SESSION_TIMEOUT",
            "REBALANCE_IN_PROGRESS",
            "GROUP_MAX_SIZE_REACHED",
            "FENCED_INSTANCE_ID",
            "FENCED_MEMBER_EPOCH",
            "UNRELEASED_INSTANCE_ID",
            "STALE_MEMBER_EPOCH",
        ),
        GroupError,
    ),
}


def caused_by(reason: E, error: BaseException) -> E:
    """`reason` with `error` as its cause, without tracebacks: who keeps a failed `Delivery` would keep the answer and the client."""
    reason.__cause__ = error
    inner: BaseException | None = error
    while inner is not None:
        inner.__traceback__ = None
        inner = inner.__cause__ or inner.__context__
    return reason


def broker_error(code: int, what: str, detail: str | None = None) -> BrokerError:
    """The exception for `code`, of the class its row asks for."""
    row = error_code(code)
    return _CLASSES.get(row.name, BrokerError)(row, what, detail)
