"""Formats the lines of the discard log as Dory does. Invariant: an entry is one line of ASCII, and a topic cannot imitate other fields.

    now: MS ts: MS event: DISC info: REASON topic: LENGTH[TOPIC] key: LENGTH[BASE64] msg: LENGTH[BASE64]

Each LENGTH counts the characters in the brackets after it. In the topic, a backslash, square brackets, and all characters but printable
ASCII are written as Python's escapes: `a\\nb` for a line break, `a\\x5db` for `a]b`. A legal topic needs no escape.
"""

from __future__ import annotations

from base64 import b64encode
from typing import NamedTuple

__all__ = ["DiscardLine", "format_entry"]


class DiscardLine(NamedTuple):
    """The fields of a line. Times are in milliseconds since the epoch. `message` is the value of a message, or bytes that are not a
    message."""

    now_ms: int
    timestamp_ms: int
    info: str
    topic: str
    key: bytes
    message: bytes

    @property
    def size(self) -> int:
        """The approximate size of the entry in memory, in bytes."""
        # 200 bytes for the tuple and its objects; up to 4 bytes for a character of a topic.
        return 200 + 4 * len(self.topic) + len(self.key) + len(self.message)


def format_entry(entry: DiscardLine) -> bytes:
    topic = entry.topic.encode("unicode_escape").replace(b"[", b"\\x5b").replace(b"]", b"\\x5d")
    head = f"now: {entry.now_ms} ts: {entry.timestamp_ms} event: DISC info: {entry.info} topic: ".encode()
    key, message = b64encode(entry.key), b64encode(entry.message)
    return b"%s%d[%s] key: %d[%s] msg: %d[%s]\n" % (head, len(topic), topic, len(key), key, len(message), message)
