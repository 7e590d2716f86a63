"""Defines the exceptions of this package. A new message should name the failed thing and its value first, and the way out last.

Invariant: an error code that this version does not know is kept as a number.

Modules; each line imports only from lines below it:
    codes      the table of Kafka's error codes: retries, refreshed metadata, fate of a produced batch
    rights     the table of ACL operations: the right that a refused request lacked
    frames     tracebacks without local variables, which may hold secrets
    peer_text  the filter of texts from brokers, proxies and other clients: escapes, length, secrets
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from pykafka4.errors.codes import BY_NAME, ErrorCode, error_code
from pykafka4.errors.peer_text import SHOWN, visible
from pykafka4.errors.rights import Right, needed
from pykafka4.records import MemberDescription, ProducerRecord, Written

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
    "DeserializationError",
    "ForkedClientError",
    "GroupError",
    "GroupNotEmpty",
    "HostNotAllowed",
    "InvalidOffset",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncated",
    "NoOffsetForPartition",
    "OffsetOutOfRange",
    "PartialFailure",
    "ProducerFencedError",
    "RecordLockLost",
    "RecordTooLarge",
    "TransactionAborted",
    "TransactionError",
    "UnsupportedVersion",
    "broker_error",
    "caused_by",
    "short_name",
]


E = TypeVar("E", bound="KafkaError")
T = TypeVar("T")

SEEK = "auto_offset_reset=none; seek to an offset to continue"
GO_ON = 'on_lost="warn" logs the loss, and continues'  # the way out of a bounded read
# The first words of a controller's error text that only repeats the request: such a text gives no reason, so messages leave it out.
REQUEST_DUMP_START = "Request Request("
STOP_MEMBERS = "stop them first"
REWIND_INSTEAD = f"{STOP_MEMBERS}, or let a member call `rewind_group` (`groups rewind --live`)"  # not for deletions of offsets
MOST_LISTED = 10  # items that a message lists, unless a call of `listed` gives another number


def shown(value: object) -> str:
    """`repr(value)`, truncated when long; the type's name when `repr` fails (an int of too many digits)."""
    try:
        text = repr(value)
    except Exception:
        return f"<unprintable {type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


def shown_unless_secret(value: object) -> str:
    """`shown` for text without an `@`, otherwise only the type: a dict of options or a URL in the wrong argument may hold a password."""
    return shown(value) if isinstance(value, str) and "@" not in value else with_article(type(value).__name__)


def listed(items: Sequence[T], text: Callable[[T], str] = str, between: str = ", ", before_more: str = " ", most: int = MOST_LISTED) -> str:
    """The first `most` of `items`, and the number of further ones: `orders-0, orders-1 and 4 more`."""
    more = f"{before_more}and {len(items) - most} more" if len(items) > most else ""
    return between.join(map(text, items[:most])) + more


def with_article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeio' else 'a'} {noun}"


class KafkaError(Exception):
    """Base class of the other exceptions in this module. `str(code)` is the short name of the error."""

    code: ErrorCode | str = "CLIENT_ERROR"

    def _with(self, **attributes: object) -> Self:
        self.__dict__.update(attributes)
        return self

    def again(self) -> Self:
        """A copy of this error to raise. Each raise of one instance adds frames to its traceback, so a stored error would grow forever."""
        other = _restored(type(self), self.args, self._state())
        other.__cause__ = self.__cause__  # `_state`, which is for pickles, leaves out causes of other packages
        return other

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self._state())

    def _state(self) -> dict[str, Any]:
        """The attributes, with the cause if it is an error of this package: another cause might not be picklable."""
        state = {name: list(value) if name == "__notes__" else value for name, value in self.__dict__.items()}
        if isinstance(self.__cause__, KafkaError):
            state["__cause__"] = self.__cause__
        return state


def _restored(kind: type[E], args: tuple[object, ...], state: dict[str, Any]) -> E:
    """Skip `__init__`, which takes other arguments."""
    error = kind.__new__(kind, *args)
    (OSError if isinstance(error, OSError) else Exception).__init__(error, *args)
    for name, value in state.items():
        setattr(error, name, value)
    return error


class ConfigError(KafkaError, ValueError):
    """Raised for an invalid option or argument; the message names it."""


class ConnectionLost(KafkaError, ConnectionError):
    """Raised if a broker could not be reached, or the connection broke."""

    code: ErrorCode | str = "CONNECTION_LOST"


class HostNotAllowed(ConnectionLost):
    """Raised if a broker advertises a host that `allowed_hosts` does not allow; the client does not connect to it."""

    code: ErrorCode | str = "HOST_NOT_ALLOWED"


class AuthenticationError(ConnectionLost):
    """Raised if the client and a broker could not authenticate each other, or did not agree on the security protocol.

    The message names the broker and the reason. The client tries again after a backoff: the credentials might be corrected.
    `certain` is False if the reason is a guess, for example because the broker only closed the connection. `is_local` is True if
    the client got no credentials, for example because the application's callable failed. `is_of_client` is True if the broker refused the
    credentials or the certificate of the client.
    """

    code: ErrorCode | str = "AUTHENTICATION_FAILED"
    certain = True
    is_local = False
    is_of_client = False
    guessed_cause = ""  # the guess about the listener, empty if there is none; it is believed only after several equal guesses in a row


class KafkaTimeoutError(KafkaError, TimeoutError):
    """Raised if the timeout expired before the operation finished."""

    code = "TIMED_OUT"


class BufferFull(KafkaError, BufferError):
    """Raised if `send` cannot queue a record within the time that it may wait, usually because memory or a rate limit has no room.

    Consumers raise this error while too many callbacks of their commits or acknowledgements wait to run.
    """

    code = "BUFFER_FULL"

    def __str__(self) -> str:
        """With on_full=raise, `args` may be parts of the message: an overload raises many errors, and most messages are never read."""
        if len(self.args) != 5:
            return super().__str__()
        limits, in_use, topic, partition, size = self.args
        where = f"{topic}-{partition}" if partition >= 0 else topic
        return f"{limits} ({in_use} bytes in use), {where} needs {size} more; on_full=raise"


def _place(topic: str, partition: int, offset: int, reason: str, next_offset: int | None) -> str:
    way_out = "the offset of the next batch is unknown" if next_offset is None else f"seek to {next_offset} to skip it"
    return f"{topic}-{partition} at offset {offset}: {reason}; {way_out}"


class RecordTooLarge(KafkaError, ValueError):
    """Raised for a record or batch over a limit of its producer (`max_message_bytes`, `max_request_size`; `buffer_memory` for a raw batch)
    or its consumer (`max_decompressed_bytes`, `receive_message_max_bytes`, the size of a column).

    For a fetched batch, `topic`, `partition` and `offset` say where it is, and `seek` to `next_offset` skips it (None: unknown).
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    next_offset: int | None = None

    @classmethod
    def fetched(cls, topic: str, partition: int, offset: int, reason: str, next_offset: int | None = None) -> RecordTooLarge:
        message = _place(topic, partition, offset, reason, next_offset)
        return cls(message)._with(topic=topic, partition=partition, offset=offset, next_offset=next_offset)


class DecodeError(KafkaError, ValueError):
    """Raised for bytes that violate the protocol or a format."""

    code = "UNDECODABLE"


class CorruptRecord(KafkaError):
    """Raised for a corrupt fetched batch. `topic`, `partition` and `offset` say where it is; `seek` to `next_offset` skips it.

    `next_offset` is None if the end of the batch is unknown, for example because the batch's header is also invalid.
    """

    def __init__(self, topic: str, partition: int, offset: int, reason: str, next_offset: int | None = None) -> None:
        super().__init__(_place(topic, partition, offset, reason, next_offset))
        self.topic, self.partition, self.offset, self.next_offset, self.reason = topic, partition, offset, next_offset, reason


class DeserializationError(KafkaError):
    """Raised if a deserializer refused a record; `__cause__` is the deserializer's exception, `part` is "key" or "value".

    `record` is the record as fetched, with key and value as bytes; `topic`, `partition` and `offset` say where it is; `seek` to
    `next_offset` skips it.
    """

    def __init__(self, record: Any, part: str, reason: str) -> None:
        where = record.topic, record.partition, record.offset
        place = _place(*where, f"the {part} could not be deserialized: {reason}", record.offset + 1)
        super().__init__(f'{place}, or leave such records out with on_poison="skip"')
        self.record, self.part, self.reason = record, part, reason
        self.topic, self.partition, self.offset, self.next_offset = *where, record.offset + 1


class ClosedError(KafkaError):
    """Raised by calls on a closed object, such as a client, producer, consumer or table; create a new one."""

    code = "CLOSED"


class ForkedClientError(KafkaError):
    """Raised if the client was created in another process: its threads do not survive a fork. Create a client in this process."""


class UnsupportedVersion(KafkaError):
    """Raised if the broker is too old (or too new) for a request, or for a field that is set in it."""

    code = "UNSUPPORTED_VERSION"


class BrokerError(KafkaError):
    """Raised if a broker responded with an error code. `code` is its row in the error table."""

    code: ErrorCode

    def __init__(self, code: ErrorCode | int, what: str, detail: str | None = None) -> None:
        self.code = error_code(code) if isinstance(code, int) else code
        self.what, self.detail = what, detail
        super().__init__(f"{what}: {self.code.name}" + (f" ({detail})" if detail else ""))

    @property
    def retriable(self) -> bool:
        """Whether the error table calls the error retriable: the same call can succeed later."""
        return self.code.retriable


class InvalidOffset(KafkaError):
    """Raised if there is no offset to continue from, and auto_offset_reset=none forbids the choice of another one.

    `topic` and `partition` name the partition, `offset` is the consumer's position (None: it had none yet). Polls raise this error
    until `seek((error.topic, error.partition), …)` sets a position. A bounded read raises it for offsets that the log lost before they were
    read, unless `on_lost` is "warn".
    """

    topic: str
    partition: int
    offset: int | None = None

    @classmethod
    def at(cls, topic: str, partition: int, reason: str, offset: int | None = None) -> Self:
        return cls(f"{topic}-{partition}: {reason}, and {SEEK}")._with(topic=topic, partition=partition, offset=offset)


class NoOffsetForPartition(InvalidOffset):
    """Raised if the group has no committed offset for the partition, or there is no group."""

    code = "NO_OFFSET"


class OffsetOutOfRange(InvalidOffset, BrokerError):
    """Raised if the log no longer has the offset, or does not have it yet. `earliest` and `latest` are the log's current start and end.

    For records deleted before a bounded read began, `latest` is only a lower bound of the end.
    """

    earliest: int
    latest: int

    @classmethod
    def among(cls, topic: str, partition: int, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
        detail = f"offset {offset} is not in the log's range, {earliest} to {latest}, and {SEEK}"
        return cls._of(topic, partition, offset, earliest, latest, detail)

    @classmethod
    def deleted(cls, topic: str, partition: int, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
        detail = f"offsets {offset} to {earliest - 1} were deleted before they were read; the log begins at {earliest}; {GO_ON}"
        return cls._of(topic, partition, offset, earliest, latest, detail)

    @classmethod
    def _of(cls, topic: str, partition: int, offset: int, earliest: int, latest: int, detail: str) -> OffsetOutOfRange:
        error = cls(1, f"{topic}-{partition}", detail)
        return error._with(topic=topic, partition=partition, offset=offset, earliest=earliest, latest=latest)


class LogTruncated(InvalidOffset):
    """Raised if an unclean leader election truncated the log to `truncated_to`: records that were read, or were to be read, are lost."""

    code = "LOG_TRUNCATED"
    truncated_to: int

    @classmethod
    def to(cls, topic: str, partition: int, offset: int, truncated_to: int) -> LogTruncated:
        reason = f"an unclean leader election removed offsets {truncated_to} to {offset - 1}, which were already read"
        return cls.at(topic, partition, reason, offset)._with(truncated_to=truncated_to)

    @classmethod
    def before(cls, topic: str, partition: int, until: int, end: int) -> LogTruncated:
        reason = f"the log ends at {end}: an unclean leader election removed offsets {end} to {until - 1}, which were to be read"
        return cls(f"{topic}-{partition}: {reason}; {GO_ON}")._with(topic=topic, partition=partition, offset=end, truncated_to=end)


class AuthorizationError(BrokerError, PermissionError):
    """Raised if the user of this client lacks a right. A later call asks the brokers again, because the right may be granted at any time.

    `operation`, `resource` and `resource_name` name the right, for example `WRITE`, `topic`, `orders`. They are None if the
    right is not known. `DESCRIBE or CREATE` stands for the rights on a topic that brokers would have created if it did not
    exist.
    """

    operation: str | None = None
    resource: str | None = None
    resource_name: str | None = None

    @classmethod
    def lacking(cls, code: ErrorCode, what: str, detail: str | None, right: Right | None) -> Self:
        if right is None:
            return cls(code, what, detail)
        said = detail and not detail.startswith(REQUEST_DUMP_START)
        error = cls(code, what, f"{detail}; {right.way_out}" if said else right.way_out)
        return error._with(operation=right.operation, resource=right.resource, resource_name=right.name)

    @property
    def subject(self) -> tuple[str, ...]:
        """Equal for errors about the same right: a right on a topic is missing for all its partitions, and one error is enough."""
        return (self.code.name, self.resource, self.resource_name or "") if self.resource else (self.code.name, self.what)


class GroupError(BrokerError):
    """Raised if the consumer is no longer (or not yet) a valid member of its group, or the coordinator does not accept it as a member."""


class GroupNotEmpty(GroupError):
    """Raised if a group has members: only they can change its offsets, and it cannot be deleted.

    `group` is the id of the group, `members` are `MemberDescription`s. The message names members and the way out.
    """

    group: str
    members: tuple[MemberDescription, ...]

    @classmethod
    def with_members(cls, group: str, members: Sequence[MemberDescription], what: str, way_out: str = STOP_MEMBERS) -> Self:
        detail = f"{len(members)} active: {listed(members, _named, '; ', '; ')}; {way_out}"
        return cls(BY_NAME["NON_EMPTY_GROUP"], what, detail)._with(group=group, members=tuple(members))


def _named(member: MemberDescription) -> str:
    partitions = listed(member.partitions) or "no partitions"
    name, client, host = visible(member.member_id), visible(member.client_id), visible(member.host)
    return f"{name} (client {client}, host {host}) with {partitions}"


class RecordLockLost(KafkaError):
    """Raised if records of a share group are no longer locked for this consumer: the group delivers them again, or has archived them.

    `topic`, `partition` and `offsets` name the records. The lock has expired, or the session with the partition's leader has ended.
    """

    code = "LOCK_LOST"
    topic: str
    partition: int
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, topic: str, partition: int, offsets: Sequence[int], message: str) -> Self:
        return cls(message)._with(topic=topic, partition=partition, offsets=tuple(offsets))


class PartialFailure(KafkaError):
    """Raised if some or all parts of a call failed. `errors` has the error of each failed part; `done` may have other parts' results."""

    code = "PARTIAL_FAILURE"
    errors: dict[Any, KafkaError]
    done: dict[Any, Any]

    @classmethod
    def of(cls, what: str, errors: Mapping[Any, KafkaError], done: Mapping[Any, Any] | None = None) -> Self:
        texts = list(dict.fromkeys(map(str, errors.values())))  # each partition of a group has the group's error, with the same text
        return cls(f"{what}: {listed(texts, str, '; ', '; ')}")._with(errors=dict(errors), done=dict(done or {}))


class ProducerFencedError(BrokerError):
    """Raised if this producer can no longer send: another one has taken over its transactional id, or the transaction has timed out."""

    @classmethod
    def of_id(cls, transactional_id: str, hint: str = "") -> Self:
        error = cls(BY_NAME["PRODUCER_FENCED"], transactional_id)
        error.args = (f"{transactional_id}: another producer with this transactional_id has been started{hint}",)
        return error


class TransactionError(KafkaError):
    """Raised if a call does not fit the state of the transaction."""

    code: ErrorCode | str = "INVALID_TXN_STATE"


class TransactionAborted(TransactionError):
    """Raised if the transaction can only be aborted, or was aborted; the message gives the reason.

    Consumers with read_committed do not get the transaction's records, unless the message says that the transaction may be committed,
    because the client sent the commit and got an error or no response.
    """

    code: ErrorCode | str = "TRANSACTION_ABORTED"


class DeliveryFailed(KafkaError):
    """The error of a record that could not be delivered.

    `code` is the reason's short name, `written` says whether the log may have the record, `cause` is the last error before the failure
    (None: there was none), `record` is the record itself (`ProducerRecord`), or None if it is not kept.
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
    """`NOT_ENOUGH_REPLICAS`, `TIMED_OUT`, …: failures are counted under this name."""
    return str(error.code) if isinstance(error, KafkaError) else type(error).__name__


_OF_MEMBERS = (
    "FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH GROUP_MAX_SIZE_REACHED ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID "
    "INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID"
)
_CLASSES: dict[str, type[BrokerError]] = {"PRODUCER_FENCED": ProducerFencedError, **dict.fromkeys(_OF_MEMBERS.split(), GroupError)}


def caused_by(reason: E, error: BaseException) -> E:
    """Set the cause of `reason`, without tracebacks: in a failed `Delivery` they would keep the response and the client alive."""
    reason.__cause__ = error
    seen: set[int] = set()  # an application's exception may be its own cause
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        inner.__traceback__ = None
        inner = inner.__cause__ or inner.__context__
    return reason


def broker_error(
    code: int,
    what: str,
    detail: str | None = None,
    request: str = "",
    *,
    topic: str = "",
    group: str = "",
    transactional_id: str = "",
    creating: bool = False,
) -> BrokerError:
    """The exception for `code`, of the code's class. `what` names the failed call or thing, `detail` is the broker's text.

    The other arguments give the missing right of an AuthorizationError: `request` is Kafka's name of the refused request; `topic`, `group`
    and `transactional_id` are the resources in it; with `creating`, brokers would have created the topic.
    """
    row = error_code(code)
    if row.denied:
        return AuthorizationError.lacking(
            row, what, detail, needed(row.name, request, topic=topic, group=group, transactional_id=transactional_id, creating=creating)
        )
    return _CLASSES.get(row.name, BrokerError)(row, what, detail)
