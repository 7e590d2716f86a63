"""Topic names in a Metadata response with all topics. Rule: memory grows with the topics, not with their partitions.

A cluster may have a million partitions: as objects they would take more memory than a message may (`weight`), and seconds to create. So
they are passed over. As in `decode`, only DecodeError is raised for bytes that are no such response.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from pykafka4.errors import DecodeError

__all__ = ["TopicNames", "read_topic_names"]

FLEXIBLE: Final = 9  # the first version with compact arrays and tagged fields
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_PARTITION: Final = 2 + 4 + 4  # bytes of its error code, index and leader
_EPOCH: Final = 4
_TOPIC_ID: Final = 16
_OPERATIONS: Final = 4


@attrs.frozen
class TopicNames:
    """What the response says. Topics with an error are left out."""

    brokers: int
    topics: dict[str, bool]  # name -> whether it is internal
    error_code: int = 0


def read_topic_names(version: int, frame: bytes) -> TopicNames:
    """The topics in `frame`, which is a whole Metadata response of `version` with its correlation id."""
    try:
        return _Reader(version, frame).read()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"MetadataResponse v{version}: {error}") from error


class _Reader:
    """Reads from the beginning to the end. A position behind the end raises IndexError or struct.error at the next read."""

    __slots__ = ("_compact", "_frame", "_pos", "_version")

    def __init__(self, version: int, frame: bytes) -> None:
        self._version, self._frame, self._pos = version, frame, _INT32.size
        self._compact = version >= FLEXIBLE
        self._tags()

    def read(self) -> TopicNames:
        """The whole response."""
        version = self._version
        self._skip(4 if version >= 3 else 0)  # throttle time
        brokers = self._count()
        for _ in range(brokers):
            self._skip(4)
            self._text()
            self._skip(4)
            if version >= 1:
                self._text()  # rack
            self._tags()
        if version >= 2:
            self._text()  # cluster id
        self._skip(4 if version >= 1 else 0)  # controller
        topics = self._topics()
        self._skip(_OPERATIONS if 8 <= version <= 10 else 0)
        error_code = self._int16() if version >= 13 else 0
        self._tags()
        if self._pos != len(self._frame):
            raise DecodeError(f"MetadataResponse v{version}: its fields take {self._pos} bytes of {len(self._frame)}")
        return TopicNames(brokers, topics, error_code)

    def _topics(self) -> dict[str, bool]:
        version, topics = self._version, {}
        for _ in range(self._count()):
            error_code, name = self._int16(), self._text()
            self._skip(_TOPIC_ID if version >= 10 else 0)
            internal = version >= 1 and bool(self._frame[self._pos])
            self._skip(1 if version >= 1 else 0)
            self._partitions()
            self._skip(_OPERATIONS if version >= 8 else 0)
            self._tags()
            if name and not error_code:
                topics[name] = internal
        return topics

    def _partitions(self) -> None:
        fixed = _PARTITION + (_EPOCH if self._version >= 7 else 0)
        arrays = 3 if self._version >= 5 else 2  # replicas, in-sync replicas, offline replicas
        count, frame, small = self._count(), self._frame, 0x80 if self._compact else 0
        for _ in range(count):
            self._pos += fixed
            for _ in range(arrays):
                size = frame[self._pos]
                self._skip(4 * size - 3 if 0 < size < small else 4 * self._count())  # nearly all arrays are short: half the time
            self._tags()

    # ---- parts

    def _skip(self, size: int) -> None:
        self._pos += size

    def _int16(self) -> int:
        (value,) = _INT16.unpack_from(self._frame, self._pos)
        self._pos += _INT16.size
        return int(value)

    def _count(self) -> int:
        """The number of elements of an array; each takes at least a byte."""
        if self._compact:
            count = self._uvarint() - 1
        else:
            (count,) = _INT32.unpack_from(self._frame, self._pos)
            self._pos += _INT32.size
        if count > len(self._frame) - self._pos:
            raise DecodeError(f"MetadataResponse v{self._version}: an array of {count} elements ends behind the response")
        return max(0, int(count))

    def _text(self) -> str:
        """A string; the empty one for null."""
        size = self._uvarint() - 1 if self._compact else self._int16()
        begin = self._pos
        self._pos += max(0, size)
        if self._pos > len(self._frame):
            raise DecodeError(f"MetadataResponse v{self._version}: a string of {size} bytes ends behind the response")
        return self._frame[begin : self._pos].decode()

    def _tags(self) -> None:
        for _ in range(self._uvarint() if self._compact else 0):
            self._uvarint()
            self._skip(self._uvarint())

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self._pos]
            self._pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise DecodeError(f"MetadataResponse v{self._version}: a number is too long")
