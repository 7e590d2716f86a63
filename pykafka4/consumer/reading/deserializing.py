"""Deserializes fetched records. Invariant: reading passes a refused record only when the record is skipped and counted, its dead
letter is acknowledged, or the application seeks past the record.

Deserializers run in a step of the reader, on the thread that polls: after Ctrl-C in a deserializer the loop fetches the records again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.core.subscription import Claim
from pykafka4.errors import DeserializationError, KafkaError
from pykafka4.logs import get_log
from pykafka4.options.serializers import Deserialize, deserializer_finder
from pykafka4.wire.records.hot import Delivery, Record

__all__ = ["Added", "AwaitedLetters", "Deserializing", "Halt", "Halted", "OnPoison", "Raising", "Skipping"]

log = get_log("pykafka4.consumer")

MOST_TOPICS: Final = 10_000  # topics whose deserializers are kept; at this number all are dropped, and found again for each topic
WARN_S: Final = 10.0  # seconds between two warnings about skipped records: a topic full of them must not fill the log


Added = tuple[int, int, int]  # records of one partition: their first offset, last offset, and the leader epoch of the last record


class OnPoison(ABC):
    """The reaction to a record that a deserializer refuses."""

    passed: int  # refused records that reading has passed

    def open(self) -> None:  # noqa: B027  # most reactions have no parts
        """Start the parts that `close` ends, as the last step of a consumer's construction."""

    def close(self, timeout: float) -> None:  # noqa: B027
        """End these parts, after at most `timeout` seconds."""

    @abstractmethod
    def judge(self, error: DeserializationError) -> KafkaError | Delivery | None:
        """Return the verdict on the record: an error, which `poll` raises, or None, if reading passes the record, or a Delivery.

        After a Delivery, the partition waits for the delivery's outcome; then the record is fetched and judged again.
        """


class Raising(OnPoison):
    """Implements `on_poison="raise"`."""

    passed = 0

    def judge(self, error: DeserializationError) -> KafkaError:
        return error


class Skipping(OnPoison):
    """Implements `on_poison="skip"`: counts the records, and logs some of them."""

    def __init__(self, client_id: str, clock: Callable[[], float]) -> None:
        self._client_id, self._clock = client_id, clock
        self._warn_at = clock()
        self.passed = 0

    def judge(self, error: DeserializationError) -> None:
        self.passed += 1
        now = self._clock()
        if now >= self._warn_at:
            self._warn_at = now + WARN_S
            log.warning("%s: records left out so far by on_poison=skip: %d; the last one: %s", self._client_id, self.passed, error)


@attrs.frozen
class Halt:
    """The first record of a partition that reading cannot pass now: because of `error`, or until `deliveries` have outcomes."""

    offset: int
    error: KafkaError | None
    deliveries: list[Delivery]


class Halted(Exception):
    """Raised by a form that has collected the records before a halt. No application sees it."""

    def __init__(self, halt: Halt, added: Added | None) -> None:
        super().__init__(halt, added)
        self.halt, self.added = halt, added


@attrs.frozen(eq=False)
class AwaitedLetters:
    """The marker of a partition that waits at `offset` for the outcomes of dead letters."""

    claim: Claim
    offset: int
    left: list[Delivery]  # its length is the number of dead letters without an outcome; the items may be other letters

    def watch(self, done: Callable[[AwaitedLetters], object]) -> None:
        """Call `done` when all letters have their outcomes, on any thread; perhaps twice."""

        def settled(_: Delivery) -> None:
            # Twice: two threads settle the last two letters, each removes one, then both find the list empty. The reader drops the second
            # marker, as its claim has moved on. So no lock is needed here.
            self.left.pop()
            if not self.left:
                done(self)

        for delivery in self.left.copy():
            delivery.add_done_callback(settled)


class Deserializing:
    def __init__(self, keys: Any, values: Any, on_poison: OnPoison) -> None:
        self._keys, self._values = deserializer_finder(keys), deserializer_finder(values)
        self._topics: dict[str, tuple[Deserialize | None, Deserialize | None]] = {}
        self.on_poison = on_poison

    def convert(self, out: list[Record], start: int) -> Halt | None:
        """Deserialize the records of one partition from out[start] on, in place. Remove skipped records, and all records from the halt on.

        After the first record that waits for its dead letter, the dead letters of later refused records are sent at once: the
        partition waits for all of them together, not for one after another.
        """
        if start == len(out):
            return None
        of_key, of_value = self._of(out[start].topic)
        if of_key is None and of_value is None:
            return None
        halt: Halt | None = None
        kept = start
        for at in range(start, len(out)):
            record = out[at]
            try:
                deserialized = _deserialize(record, of_key, of_value)
            except DeserializationError as error:
                verdict = self.on_poison.judge(error)
                if verdict is None:
                    continue
                if isinstance(verdict, KafkaError):
                    halt = halt or Halt(record.offset, verdict, [])
                    break
                halt = halt or Halt(record.offset, None, [])
                halt.deliveries.append(verdict)
            else:
                if halt is None:
                    out[kept] = deserialized
                    kept += 1
        del out[kept:]
        return halt

    def _of(self, topic: str) -> tuple[Deserialize | None, Deserialize | None]:
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= MOST_TOPICS:
                self._topics.clear()
            found = self._topics[topic] = self._keys(topic), self._values(topic)
        return found


def _deserialize(record: Record, of_key: Deserialize | None, of_value: Deserialize | None) -> Record[Any, Any]:
    """Raises DeserializationError, with the deserializer's exception as its cause."""
    key: Any = record.key
    value: Any = record.value
    part = "key"
    try:
        if key is not None and of_key is not None:
            key = of_key(record.topic, key, record)
        part = "value"
        if value is not None and of_value is not None:
            value = of_value(record.topic, value, record)
    except Exception as error:
        trace = error.__traceback__
        error.__traceback__ = None if trace is None else trace.tb_next  # without this frame, whose caller has all records of the poll
        raise DeserializationError(record, part, _text(error)) from error
    return record.deserialized(key, value)


def _text(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # `__str__` of the application's own class can raise
        return type(error).__name__
