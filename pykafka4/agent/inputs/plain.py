"""Reads datagrams and cuts frames, in Python. Invariant: for any bytes, the results equal the results of `compiled/_reading`."""

from __future__ import annotations

import socket
from struct import Struct
from typing import TypeAlias

from pykafka4.agent.format import parse
from pykafka4.agent.message import Message, Reason, Refused

__all__ = ["DatagramReader", "RefusedBytes", "cut_frames"]

RefusedBytes: TypeAlias = tuple[bytes, Refused]
BUFFER_BYTES, MOST = 4 * 1024 * 1024, 64
SIZE = Struct(">i")


class DatagramReader:
    """Reads up to `most` datagrams in each call. The caller owns and closes the socket."""

    def __init__(self, max_size: int, empty: bytes | None) -> None:
        """`max_size` is the largest datagram in bytes; `empty` replaces an empty key or value."""
        self.most = max(1, min(MOST, BUFFER_BYTES // (max_size + 1)))  # the most datagrams that one `read` returns
        self._max_size, self._empty = max_size, empty

    def read(self, sock: socket.socket) -> tuple[int, int, list[Message], list[RefusedBytes]]:
        """Return (number of datagrams, number of their bytes, messages, refused datagrams). Raises OSError.

        If there are fewer than `most` datagrams, the queue was empty, or the next read failed. A datagram larger than `max_size` is cut to
        `max_size` + 1 bytes.
        """
        messages: list[Message] = []
        refused: list[RefusedBytes] = []
        count = size = 0
        while count < self.most:
            try:
                data = sock.recv(self._max_size + 1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                if not count:
                    raise
                break  # as recvmmsg does: the next call raises a lasting error
            count += 1
            size += len(data)
            try:
                if len(data) > self._max_size:
                    raise Refused(Reason.MALFORMED)
                messages.append(parse(data, self._empty))
            except Refused as error:
                refused.append((data, error.with_traceback(None)))
        return count, size, messages, refused


def cut_frames(data: bytearray, end: int, max_size: int, empty: bytes | None) -> tuple[int, bool, list[Message], list[RefusedBytes]]:
    """Cut the complete frames from the first `end` bytes.

    Returns (end of the last frame, whether the next size is invalid, messages, refused frames). A size is invalid if it is smaller than the
    size field, or the frame without this field is larger than `max_size`.
    """
    messages: list[Message] = []
    refused: list[RefusedBytes] = []
    at = 0
    while end - at >= SIZE.size:
        (size,) = SIZE.unpack_from(data, at)
        if size < SIZE.size or size - SIZE.size > max_size:
            return at, True, messages, refused
        if end - at < size:
            break
        frame = bytes(memoryview(data)[at : at + size])
        try:
            messages.append(parse(frame, empty))
        except Refused as error:
            refused.append((frame, error.with_traceback(None)))
        at += size
    return at, False, messages, refused
