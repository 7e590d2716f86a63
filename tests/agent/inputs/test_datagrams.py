"""Turns of the datagram socket: their share of the loop, errors, the end."""

from __future__ import annotations

import contextlib
import logging
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from pykafka4.agent.format import pack
from pykafka4.agent.inputs.counters import InputCounters
from pykafka4.agent.inputs.datagrams import COUNTS_AS_ONE, LEAST_COST, RETRY_S, TURN, DatagramInput
from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.message import Reason, Source
from tests.agent.inputs.taking import ManualLoop, Taken


class Endless:
    """A reader that always finds datagrams, or fails."""

    most = 64

    def __init__(self) -> None:
        self.calls, self.error, self.count, self.size = 0, False, 64, 6400

    def read(self, sock: socket.socket) -> Any:
        self.calls += 1
        if self.error:
            raise OSError(12, "Cannot allocate memory")
        return self.count, self.size, [("t", b"v", None, None, 0)] * self.count, []


class Datagrams:
    """A datagram input, and a client."""

    def __init__(self, folder: Path, max_size: int = 1000) -> None:
        self.path = str(folder / "socket")
        self.taken, self.loop, self.counters = Taken(), ManualLoop(), InputCounters()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(self.path)
        self.input = DatagramInput(sock, Entrance(self.taken, Source.UNIX_DATAGRAM, self.counters), max_size, None)
        self.input.start(cast(Any, self.loop))
        self.client = self.connected()

    def connected(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.connect(self.path)
        return client


@pytest.fixture
def datagrams(tmp_path: Path) -> Any:
    datagrams = Datagrams(tmp_path)
    yield datagrams
    datagrams.client.close()
    datagrams.input.close()


def test_messages_and_refused_datagrams_are_counted_to_the_byte(datagrams: Datagrams) -> None:
    for data in (pack(b"t", b"1"), b"", b"junk", pack(b"t", b"2"), pack(b"t", bytes(1000))):
        datagrams.client.send(data)
    assert not datagrams.input.turn()
    assert datagrams.taken.values == [b"1", b"2"]
    assert datagrams.taken.refused == [
        (b"", Reason.MALFORMED, None),
        (b"junk", Reason.MALFORMED, None),
        (pack(b"t", bytes(1000))[:1001], Reason.MALFORMED, None),
    ]
    counts = datagrams.counters.unix_datagram
    assert (counts.read_bytes, counts.forwarded_bytes, counts.refused_bytes) == (60 + 4 + 1001, 60, 4 + 1001)


@pytest.mark.parametrize(("count", "size", "calls"), [(64, 6400, TURN // 64), (1, 100, TURN // LEAST_COST), (2, 128 * 1024, TURN // 128)])
def test_a_turn_is_bounded_by_datagrams_calls_and_bytes(
    datagrams: Datagrams, monkeypatch: pytest.MonkeyPatch, count: int, size: int, calls: int
) -> None:
    reader = Endless()
    reader.count, reader.size = count, size
    monkeypatch.setattr(datagrams.input, "_reader", reader)
    assert datagrams.input.turn()
    assert reader.calls == calls
    monkeypatch.undo()


def test_after_an_error_it_pauses_and_tries_again(
    datagrams: Datagrams, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    reader = Endless()
    reader.error = True
    monkeypatch.setattr(datagrams.input, "_reader", reader)
    assert not datagrams.input.turn()
    assert not datagrams.loop.readers
    assert caplog.messages == ["agent: reading datagrams failed (a running agent tries again in 1 s): [Errno 12] Cannot allocate memory"]
    assert datagrams.counters.unix_datagram.errors == 1
    datagrams.loop.pass_time(RETRY_S)
    assert len(datagrams.loop.readers) == 1
    monkeypatch.undo()


def test_nothing_is_read_after_the_end(datagrams: Datagrams, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Endless()
    reader.error = True
    monkeypatch.setattr(datagrams.input, "_reader", reader)
    datagrams.input.turn()
    datagrams.input.close()
    datagrams.loop.pass_time(10)
    assert not datagrams.loop.readers
    with pytest.raises(OSError):
        datagrams.client.send(b"late")


def test_a_datagram_that_comes_between_the_last_read_and_the_end_is_refused_not_lost(
    datagrams: Datagrams, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [b"0"]
    datagrams.client.send(pack(b"t", b"0"))
    datagrams.client.setblocking(False)

    class Busy:
        """A client sends right after each read, and so after the last one."""

        def __init__(self, real: Any) -> None:
            self.most, self._real = real.most, real

        def read(self, sock: socket.socket) -> Any:
            result = self._real.read(sock)
            assert len(sent) < 100, "clients can send although the input ends"
            with contextlib.suppress(BrokenPipeError):
                value = b"%d" % len(sent)
                datagrams.client.send(pack(b"t", value))
                sent.append(value)
            return result

    monkeypatch.setattr(datagrams.input, "_reader", Busy(datagrams.input._reader))
    datagrams.input.close()
    assert datagrams.taken.values == sent


def test_a_queue_that_is_longer_than_a_turn_is_read_at_the_end(tmp_path: Path) -> None:
    datagrams = Datagrams(tmp_path, max_size=4 * 1024 * 1024)  # a reader of such datagrams reads one at a time
    large = pack(b"t", bytes(150_000))
    count = TURN * COUNTS_AS_ONE // len(large) + 3
    for _ in range(count):
        with datagrams.connected() as client:  # the send buffer of one client holds only one of them
            client.send(large)
    datagrams.input.close()
    assert len(datagrams.taken.messages) == count
    datagrams.client.close()
