"""Writes and reads the bytes of a segment: a header with the progress, then frames, and a seal after the last frame.

A frame is the CRC-32C of a message's bytes, then these bytes, which begin with their size (`pykafka4.agent.format`). All numbers are big
endian; sizes in parentheses are in bytes. Version 1:

    header    magic (8), version (2), zero (6), progress (16)
    progress  offset of the first frame that is not done (8), number of done frames (4), CRC-32C of both (4)
    frame     CRC-32C (4), message: size (4), API key 256 or 257 (2), version 0 (2), flags 0 (2), …
    seal      a frame with the API key 511: number of the segment's frames (8)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from struct import Struct, error
from typing import Final, TypeAlias

import attrs

from pykafka4.wire.records.hot import crc32c

__all__ = [
    "FIRST",
    "SEAL_SIZE",
    "VERSION",
    "Frame",
    "Salvage",
    "crc_of",
    "cut",
    "header",
    "progress",
    "read_header",
    "read_seal",
    "salvage",
    "seal",
]

MAGIC: Final = b"PK4SPOOL"
VERSION: Final = 1
FIRST: Final = 32  # the offset of the first frame
PROGRESS_AT: Final = 16
SMALLEST: Final = 10  # bytes of a message without a body
SEAL: Final = 0x01FF

_HEADER = Struct(">8sH6x")
_PROGRESS = Struct(">QI")
_CRC = Struct(">I")
_FRAME = Struct(">Ii")
_SEAL = Struct(">ihhhQ")
SEAL_SIZE: Final = _CRC.size + _SEAL.size
# API key, version and flags: six bytes with only three possible values, by which a search after damage finds candidates fast. The checksum
# then decides.
_KINDS = re.compile(rb"\x01[\x00\x01\xff]\x00\x00\x00\x00")
_KINDS_AT: Final = 8

Frame: TypeAlias = tuple[int, bytes]  # the offset of its end, and the bytes of its message


@attrs.frozen
class Salvage:
    """The readable frames in damaged bytes, and the unreadable ranges. `end` is the end of the last frame or range.

    Any bytes after `end` look like a torn write: the beginning of a frame, then perhaps zeros.
    """

    frames: list[Frame]
    damaged: list[tuple[int, int]]
    end: int


def crc_of(message: bytes) -> bytes:
    """Return the CRC-32C of a message: the first part of its frame."""
    return _CRC.pack(crc32c(message))


def header(offset: int = FIRST, done: int = 0) -> bytes:
    return _HEADER.pack(MAGIC, VERSION) + progress(offset, done)


def progress(offset: int, done: int) -> bytes:
    """Return the progress as the bytes at PROGRESS_AT."""
    slot = _PROGRESS.pack(offset, done)
    return slot + crc_of(slot)


def read_header(data: bytes) -> tuple[int, int]:
    """Return the progress in a header: (offset, number of done frames). Raises ValueError for other bytes.

    Damaged progress is read as no progress: the segment's messages are sent again, and no message is lost.
    """
    try:
        magic, version = _HEADER.unpack_from(data)
        slot, crc = data[PROGRESS_AT : PROGRESS_AT + _PROGRESS.size], data[PROGRESS_AT + _PROGRESS.size : FIRST]
        offset, done = _PROGRESS.unpack(slot)
    except error:
        raise ValueError(f"its header of {FIRST} bytes is cut off after {len(data)}") from None
    if magic != MAGIC:
        raise ValueError(f"it begins with {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise ValueError(f"it has the format version {version}; this agent reads {VERSION}")
    return (offset, done) if crc == crc_of(slot) and offset >= FIRST else (FIRST, 0)


def seal(frames: int) -> bytes:
    """Return the last bytes of a complete segment, from which the next agent learns the number of frames."""
    body = _SEAL.pack(_SEAL.size, SEAL, 0, 0, frames)
    return crc_of(body) + body


def read_seal(data: bytes) -> int | None:
    """Return the number of frames in a seal; None if `data` is not a seal."""
    if len(data) != SEAL_SIZE:
        return None
    size, kind, _, _, frames = _SEAL.unpack_from(data, _CRC.size)
    return int(frames) if data == seal(frames) and (size, kind) == (_SEAL.size, SEAL) else None


def cut(data: bytes, at: int = 0) -> list[Frame]:
    """Return the frames from `at` on, up to the first incomplete or damaged frame."""
    frames: list[Frame] = []
    unpack, last = _FRAME.unpack_from, len(data) - _FRAME.size
    while at <= last:
        crc, size = unpack(data, at)
        end = at + 4 + size
        message = data[at + 4 : end]
        if size < SMALLEST or len(message) != size or crc32c(message) != crc:
            break
        frames.append((end, message))
        at = end
    return frames


def salvage(data: bytes) -> Salvage:
    """Return the readable frames and the unreadable ranges of `data`, which must reach the end of a segment."""
    frames: list[Frame] = []
    damaged: list[tuple[int, int]] = []
    at = 0
    while True:
        frames += cut(data, at)
        at = max(at, frames[-1][0]) if frames else at
        following = _find(data, at + 1)
        if following is None:
            break
        damaged.append((at, following))
        at = following
    if at < len(data) and not _torn(data, at):
        damaged.append((at, len(data)))
        at = len(data)
    return Salvage(frames, damaged, at)


def _find(data: bytes, at: int) -> int | None:
    candidates: Iterable[re.Match[bytes]] = _KINDS.finditer(data, at + _KINDS_AT)
    return next((found.start() - _KINDS_AT for found in candidates if _is_frame(data, found.start() - _KINDS_AT)), None)


def _is_frame(data: bytes, at: int) -> bool:
    crc, size = _FRAME.unpack_from(data, at)
    message = data[at + 4 : at + 4 + size] if size >= SMALLEST else b""
    return bool(len(message) == size and crc32c(message) == crc)


def _torn(data: bytes, at: int) -> bool:
    """Whether the bytes from `at` on, which hold no complete frame, look like the beginning of one."""
    # A file system may write the file's new length before the bytes: after a loss of power, zeros follow the written bytes.
    written = len(data.rstrip(b"\0"))
    return written - at < _FRAME.size or at + 4 + int(_FRAME.unpack_from(data, at)[1]) > written
