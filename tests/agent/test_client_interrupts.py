"""Ctrl-C, or a signal handler that sends, at every place of `Client.send`: what follows a part of a message on a stream is its rest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4.agent import Client
from pykafka4.agent.format import parse
from tests.net.interrupts import handled, interrupts

WAIT_S = 10.0
LARGE = 400_000  # bytes; a stream takes it in parts


class Reader:
    """Reads streams as the agent does, on a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.values: list[bytes] = []
        self.torn = 0
        self.errors: list[Exception] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                with connection, connection.makefile("rb") as stream:
                    while size := stream.read(4):
                        data = size + stream.read(int.from_bytes(size, "big") - 4)
                        with self._changed:
                            if len(data) < 4 or int.from_bytes(size, "big") > len(data):
                                self.torn += 1
                            else:
                                self.values.append(parse(data, b"")[1] or b"")
                            self._changed.notify_all()
        except OSError:
            pass  # closed
        except Exception as error:
            self.errors.append(error)

    def wait_for(self, value: bytes) -> None:
        """Until this value was read."""
        with self._changed:
            assert self._changed.wait_for(lambda: value in self.values or self.errors, WAIT_S), value
        assert self.errors == []

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(WAIT_S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.stream"


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    reader = Reader(path)
    yield reader
    reader.close()


def test_after_ctrl_c_the_next_message_is_whole(reader: Reader, path: Path) -> None:
    with Client.stream(path, max_block_ms=WAIT_S * 1000) as client:
        number = 0
        for number, place in enumerate(interrupts(lambda: client.send("t", b"v" * LARGE)), 1):
            assert client.send("t", f"after {number}"), place
            reader.wait_for(f"after {number}".encode())
        assert number > 20
    assert {len(value) for value in reader.values} <= {LARGE, *(len(f"after {n}") for n in range(1, number + 1))}


def test_a_signal_handler_may_send_at_every_place(reader: Reader, path: Path) -> None:
    taken = []
    with Client.stream(path, max_block_ms=WAIT_S * 1000) as client:
        for place in handled(lambda: taken.append(client.send("t", b"v" * LARGE)), lambda: taken.append(client.send("t", "of a handler"))):
            assert taken, place
        assert client.send("t", "end")
        reader.wait_for(b"end")
    assert reader.torn == 0
    assert len(reader.values) == taken.count(True) + 1
    assert taken.count(True) > len(taken) // 2
