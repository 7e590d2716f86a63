"""Types of the compiled reader, for type checkers."""

from __future__ import annotations

import socket
from typing import Final

from pykafka4.agent.message import Message, Refused

class DatagramReader:
    most: Final[int]

    def __init__(self, max_size: int, empty: bytes | None) -> None: ...
    def read(self, sock: socket.socket) -> tuple[int, int, list[Message], list[tuple[bytes, Refused]]]: ...

def cut_frames(
    data: bytearray, end: int, max_size: int, empty: bytes | None
) -> tuple[int, bool, list[Message], list[tuple[bytes, Refused]]]: ...
