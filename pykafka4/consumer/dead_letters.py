"""Builds and sends dead letters. Invariant: a dead letter has the bytes of the fetched record, and headers with the record's origin and the
cause of the failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from pykafka4.errors import ConfigError
from pykafka4.misuse import check_topic
from pykafka4.wire.records.hot import Delivery, Record

__all__ = ["DeadLetters", "LetterSender"]

LONGEST: Final = 1_000  # characters of an exception's text in a header


class LetterSender(Protocol):
    """The method of a producer that sends dead letters."""

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | str | None]] | None = None,
    ) -> Delivery:
        """See Producer.send."""


class DeadLetters:
    def __init__(self, topic: object, producer: LetterSender | None, group: str | None) -> None:
        """Raises ConfigError without a producer, and for a topic that cannot exist; TypeError for a topic or producer of a wrong type."""
        if producer is None:
            raise ConfigError("dead_letter needs producer=: the Producer that sends the records that failed for good")
        if not callable(getattr(producer, "send", None)):
            raise TypeError(f"producer must be a Producer, not {type(producer).__name__}")
        self._topic, self._producer, self._group = check_topic(topic), producer, group

    def send(self, record: Record, attempts: int, error: BaseException) -> Delivery:
        """Send `record`, whose processing failed `attempts` times, the last time with `error`.

        May wait for room. Raises the errors of `Producer.send`.
        """
        why: list[tuple[str, bytes | str | None]] = [
            ("dead_letter.topic", record.topic),
            ("dead_letter.partition", str(record.partition)),
            ("dead_letter.offset", str(record.offset)),
            ("dead_letter.timestamp_ms", str(record.timestamp_ms)),
            ("dead_letter.group", self._group),
            ("dead_letter.attempts", str(attempts)),
            ("dead_letter.exception", f"{type(error).__module__}.{type(error).__qualname__}"),
            ("dead_letter.message", _text(error)),
        ]
        raw = record.raw  # the bytes as they were fetched, because a deserialized value need not be bytes
        return self._producer.send(self._topic, raw.value, key=raw.key, headers=[*record.headers, *why])


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # `__str__` of the application's own class can raise
        text = "(its text cannot be read)"
    return text[:LONGEST].encode("utf-8", "replace").decode()
