"""Frames of connections: whole, in halves, large, of a wrong size; ends; limits of memory, connections and turns."""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka4.agent.format import pack
from pykafka4.agent.inputs.connection import READ_BYTES
from pykafka4.agent.inputs.streams import TURN
from pykafka4.agent.inputs.unfinished import HOLD_S, SMALL_BYTES
from pykafka4.agent.message import Reason
from tests.agent.cases import message_bytes
from tests.agent.inputs.taking import Streams


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    streams = Streams(tmp_path)
    yield streams
    streams.close()


def frame(size: int) -> bytes:
    """A message of so many bytes."""
    return pack(b"t", bytes(size - 29))


def test_messages_of_one_write_are_read_in_order(streams: Streams) -> None:
    streams.send(streams.client(), b"".join(pack(b"t", b"%d" % number) for number in range(100)))
    assert streams.taken.values == [b"%d" % number for number in range(100)]
    assert streams.counts.forwarded == 100
    assert streams.balanced()


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 34, 35, 36])
def test_a_message_in_pieces_of_any_size_is_read(streams: Streams, piece: int) -> None:
    data = pack(b"t1", b"hello", b"k", 7, 5) * 3
    client = streams.client()
    for at in range(0, len(data), piece):
        streams.send(client, data[at : at + piece])
    assert streams.taken.messages == [("t1", b"hello", b"k", 7, 5)] * 3
    assert streams.balanced()


@pytest.mark.parametrize("size", [SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, READ_BYTES + SMALL_BYTES, 1_000_000, 2_000_004])
def test_messages_around_each_limit_of_size_are_read_with_their_neighbours(streams: Streams, size: int) -> None:
    streams.send(streams.client(), pack(b"t", b"before") + frame(size) * 2 + pack(b"t", b"after"))
    assert [len(value or b"") for value in streams.taken.values] == [6, size - 29, size - 29, 5]
    assert streams.balanced()
    assert not streams.taken.refused


def test_a_malformed_message_is_refused_and_the_connection_stays_open(streams: Streams) -> None:
    bad = message_bytes(flags=1)
    client = streams.client()
    streams.send(client, pack(b"t", b"1") + bad + message_bytes(api_key=255) + message_bytes(version=3) + b"\0\0\0\4" + pack(b"t", b"2"))
    assert streams.taken.values == [b"1", b"2"]
    assert [entry[1:] for entry in streams.taken.refused] == [
        (Reason.MALFORMED, None),
        (Reason.API_KEY, 255),
        (Reason.VERSION, 3),
        (Reason.MALFORMED, None),
    ]
    assert streams.counts.open == 1
    assert streams.balanced()


@pytest.mark.parametrize("size", [3, 0, -1, 2_000_005])
def test_a_wrong_size_is_refused_and_ends_the_connection(streams: Streams, size: int) -> None:
    client, other = streams.client(), streams.client()
    wrong = struct.pack(">i", size) + b"what follows"
    streams.send(client, pack(b"t", b"1") + wrong)
    streams.send(other, pack(b"t", b"2"))
    assert streams.taken.values == [b"1", b"2"]
    assert streams.taken.refused == [(wrong, Reason.MALFORMED, None)]
    assert (streams.counts.open, streams.counts.closed_for_size, streams.counts.unclean_ends) == (1, 1, 0)
    with pytest.raises(OSError):
        client.send(b"more")
    assert streams.balanced()


def test_nothing_is_ever_written_to_a_client(streams: Streams) -> None:
    client = streams.client()
    streams.send(client, b"\0\0\0\0")
    assert client.recv(10) == b""


def test_an_end_between_messages_is_clean(streams: Streams) -> None:
    client = streams.client()
    streams.send(client, pack(b"t", b"1"))
    client.close()
    streams.turns()
    assert (streams.counts.clean_ends, streams.counts.unclean_ends, streams.counts.open) == (1, 0, 0)


@pytest.mark.parametrize("rest", [b"\0", pack(b"t", b"v")[:-1], frame(SMALL_BYTES + 10)[:20], frame(1_000_000)[:-1]])
def test_an_end_inside_a_message_is_unclean_with_the_messages_first_bytes(streams: Streams, rest: bytes) -> None:
    client = streams.client()
    streams.send(client, pack(b"t", b"1") + rest)
    client.close()
    streams.turns()
    assert streams.taken.values == [b"1"]
    assert streams.taken.refused == [(rest, Reason.UNCLEAN_UNIX, None)]
    assert (streams.counts.clean_ends, streams.counts.unclean_ends, streams.counts.open) == (0, 1, 0)
    assert streams.balanced()
    assert streams.unfinished.large.free == streams.unfinished.small.free


def test_many_connections_are_read_and_forgotten(streams: Streams) -> None:
    for _ in range(20):
        clients = [streams.client() for _ in range(50)]
        for number, client in enumerate(clients):
            client.send(pack(b"t", b"%d" % number))
        for client in clients:
            client.close()
        streams.turns()
    assert (streams.counts.connections, streams.counts.clean_ends, streams.counts.open) == (1000, 1000, 0)
    assert streams.counts.forwarded == 1000


def test_a_turn_is_bounded_and_each_connection_has_its_share(streams: Streams) -> None:
    small = pack(b"t", b"")
    clients = [streams.client() for _ in range(10)]
    for client in clients:
        client.send(small * 3000)
    streams.input.turn()  # accepts
    streams.input.turn()
    assert 0 < streams.counts.forwarded < TURN + READ_BYTES // len(small)
    streams.turns()
    assert streams.counts.forwarded == 30_000


def test_a_client_that_never_finishes_takes_no_more_than_its_message(streams: Streams) -> None:
    client = streams.client()
    streams.send(client, frame(2_000_000)[:1_900_000])
    assert streams.unfinished.large.free == 8 * 1024 * 1024 - 2_000_000
    streams.loop.pass_time(3600)
    streams.send(client, frame(2_000_000)[1_900_000:])
    assert streams.counts.forwarded == 1


def hold(streams: Streams, number: int) -> list[socket.socket]:
    """So many clients that do not finish a large message each; four of them fill the room."""
    clients = [streams.client() for _ in range(number)]
    for client in clients:
        streams.send(client, frame(2_000_000)[:1000])
    return clients


def test_large_messages_wait_for_room_while_small_ones_are_read(streams: Streams) -> None:
    first = hold(streams, 4)
    waiting, small = streams.client(), streams.client()
    streams.send(waiting, frame(2_000_000)[:1000])
    streams.send(small, pack(b"t", b"small") + frame(50_000))
    assert streams.counts.forwarded == 2
    assert streams.unfinished.crowded
    streams.send(first[0], frame(2_000_000)[1000:])
    streams.send(waiting, frame(2_000_000)[1000:])
    assert streams.counts.forwarded == 4
    assert not streams.unfinished.crowded


def test_clients_that_never_finish_lose_their_room_to_those_who_wait(streams: Streams) -> None:
    hold(streams, 4)
    waiting = streams.client()
    streams.send(waiting, frame(2_000_000)[:1000])
    streams.loop.pass_time(HOLD_S + 2)
    streams.send(waiting, frame(2_000_000)[1000:])
    assert streams.counts.forwarded == 1
    assert (streams.counts.closed_for_room, streams.counts.unclean_ends, streams.counts.open) == (1, 1, 4)
    assert streams.taken.refused == [(frame(2_000_000)[:1000], Reason.UNCLEAN_UNIX, None)]


def test_memory_of_unfinished_messages_is_bounded_whoever_connects(tmp_path: Path) -> None:
    streams = Streams(tmp_path, max_connections=1000)
    for _ in range(200):
        client = streams.client()
        with contextlib.suppress(BlockingIOError):
            client.send(frame(60_000)[:59_000])
        streams.turns()
    kept = streams.counts.read_bytes - streams.counts.forwarded_bytes - streams.counts.refused_bytes
    assert 7 * 1024 * 1024 < kept <= 8 * 1024 * 1024
    assert streams.counts.open == 200
    streams.loop.pass_time(HOLD_S + 2)
    streams.turns()
    assert not streams.unfinished.crowded
    assert streams.counts.closed_for_room == 200 - 8 * 1024 * 1024 // 60_000
    streams.close()


def test_connections_beyond_the_limit_wait_for_the_end_of_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    streams = Streams(tmp_path, max_connections=3)
    clients = [streams.client() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(pack(b"t", b"%d" % number))
    streams.turns()
    assert (streams.counts.open, streams.counts.accept_pauses) == (3, 1)
    clients[0].close()
    clients[1].close()
    streams.turns()
    assert streams.counts.open == 3
    assert len(streams.taken.messages) == 5
    assert [record.getMessage() for record in caplog.records] == [
        "agent: unix_stream takes no further connections for now: 3 connections are open, the maximum"
    ]
    streams.close()


def test_without_file_descriptors_it_pauses_says_so_once_and_goes_on(
    streams: Streams, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    client = streams.client()
    client.send(pack(b"t", b"1"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        streams.turns()
        streams.loop.pass_time(10)
        streams.turns()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert streams.counts.open == 0
    assert streams.counts.accept_pauses >= 1
    assert ["Too many open files" in record.getMessage() for record in caplog.records] == [True]
    streams.loop.pass_time(2)
    streams.turns()
    assert streams.taken.values == [b"1"]


def test_at_the_end_the_queues_are_read(streams: Streams) -> None:
    clients = [streams.client() for _ in range(3)]
    for client in clients:
        client.send(pack(b"t", b"1") * 100)
    clients[0].send(pack(b"t", b"1")[:5])
    streams.input.close()
    assert streams.counts.forwarded == 300
    assert streams.taken.refused == [(pack(b"t", b"1")[:5], Reason.UNCLEAN_UNIX, None)]
    assert streams.counts.open == 0
    for client in clients:
        with pytest.raises(OSError):
            client.send(b"more")
    assert not streams.loop.readers


def test_an_error_of_one_accept_does_not_stop_the_others(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener:
        """Fails once, as Linux does for a connection that was reset before it was accepted."""

        failed = False

        def __init__(self, real: Any) -> None:
            self.real = real

        def accept(self) -> Any:
            if not self.failed:
                self.failed = True
                raise OSError(errno.ECONNABORTED, "aborted")
            return self.real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(streams.input, "_listener", Listener(streams.listener))
    streams.send(streams.client(), pack(b"t", b"1"))
    streams.turns()
    assert streams.taken.values == [b"1"]
    assert streams.counts.errors == 1
