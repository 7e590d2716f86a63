"""All inputs on a real loop: they take messages, and end without losing any that a client could send."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pykafka4.agent.format import pack
from pykafka4.agent.inputs.opening import InputError, Inputs
from pykafka4.agent.inputs.unfinished import ROOM_BYTES
from pykafka4.agent.message import Reason, Source
from pykafka4.agent.settings.values import Empty, InputSettings, TcpSettings, UnixSettings
from tests.agent.inputs.taking import Taken, run

SECONDS = 20.0


def settings(folder: Path, **more: Any) -> InputSettings:
    return InputSettings(UnixSettings(folder / "datagram", 0o222), UnixSettings(folder / "stream", 0o222), TcpSettings(0), **more)


async def until(condition: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


def test_messages_of_all_inputs_reach_the_intake(tmp_path: Path) -> None:
    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path))
        inputs.start(taken, asyncio.get_running_loop())
        assert inputs.tcp_port is not None
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram, socket.socket(socket.AF_UNIX) as stream:
            datagram.connect(str(tmp_path / "datagram"))
            stream.connect(str(tmp_path / "stream"))
            with socket.create_connection(("127.0.0.1", inputs.tcp_port)) as tcp:
                for sock in (datagram, stream, tcp):
                    sock.sendall(pack(b"t", b"v", b"k", 2**32 - 1, 7))
                tcp.sendall(b"\0\0")
                await until(lambda: len(taken.messages) == 3)
            await until(lambda: taken.refused)
        assert taken.messages == [("t", b"v", b"k", 2**32 - 1, 7)] * 3
        assert taken.sources == set(Source)
        assert taken.refused == [(b"\0\0", Reason.UNCLEAN_TCP, None)]
        names = inputs.counters.named()
        counted = {name: names[name] for name in ("UnixDgInputAgentForwardMsg", "UnixStreamInputForwardMsg", "TcpInputForwardMsg")}
        assert set(counted.values()) == {1}
        assert (names["NewUnixClient"], names["NewTcpClient"], names["TcpInputUncleanDisconnect"]) == (1, 1, 1)
        inputs.close()
        assert not list(tmp_path.iterdir())

    run(main)


def test_the_largest_message_of_a_stream_is_read_whatever_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        limit = ROOM_BYTES + 1000
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path, max_stream_message_size=limit))
        inputs.start(taken, asyncio.get_running_loop())
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(tmp_path / "stream"))
            stream.settimeout(SECONDS / 2)
            overhead = len(pack(b"t", b"")) - 4  # the limit does not count the size field
            await asyncio.to_thread(stream.sendall, pack(b"t", bytes(limit - overhead)))
            await until(lambda: taken.messages)
        inputs.close()

    run(main)


def test_what_clients_sent_before_the_end_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path))
        assert inputs.tcp_port is not None
        inputs.start(taken, asyncio.get_running_loop())
        datagram, stream = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        datagram.connect(str(tmp_path / "datagram"))
        stream.connect(str(tmp_path / "stream"))
        tcp = socket.create_connection(("127.0.0.1", inputs.tcp_port))
        for sock in (datagram, stream, tcp):
            for _ in range(5):
                sock.sendall(pack(b"t", b"v"))
        inputs.close()  # before the loop has seen any of them
        assert len(taken.messages) == 15
        for sock in (datagram, stream, tcp):
            with sock, pytest.raises(OSError):
                for _ in range(10_000):
                    sock.sendall(pack(b"t", b"v"))

    run(main)


def test_each_datagram_that_a_client_could_send_during_the_end_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path))
        inputs.start(taken, asyncio.get_running_loop())
        sent: list[int] = []

        def send() -> None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.connect(str(tmp_path / "datagram"))
                number = 0
                try:
                    while True:
                        sock.send(pack(b"t", b"v"))
                        number += 1
                except OSError:
                    sent.append(number)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        await until(lambda: len(taken.messages) > 1000)
        inputs.close()
        await until(lambda: not any(thread.is_alive() for thread in threads))
        assert sum(sent) == len(taken.messages)

    run(main)


def test_large_datagrams_are_read_with_permission(tmp_path: Path) -> None:
    size = int(Path("/proc/sys/net/core/wmem_max").read_text()) - 1000
    with pytest.raises(InputError, match=r"\[inputs\] unix_datagram: max_datagram_size = "):
        Inputs.bind(settings(tmp_path, max_datagram_size=size + 900))
    assert not list(tmp_path.iterdir())

    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path, max_datagram_size=size, allow_large_datagrams=True))
        inputs.start(taken, asyncio.get_running_loop())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            sock.connect(str(tmp_path / "datagram"))
            sock.send(pack(b"t", bytes(size - 29)))
            sock.send(pack(b"t", bytes(size - 28)))
            await until(lambda: taken.messages and taken.refused)
        assert len(taken.messages[0][1] or b"") == size - 29
        inputs.close()

    run(main)


@pytest.mark.parametrize(("empty", "expected"), [(Empty.NULL, None), (Empty.EMPTY, b"")])
def test_empty_keys_and_values_are_null_or_empty(tmp_path: Path, empty: Empty, expected: bytes | None) -> None:
    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path, empty=empty))
        inputs.start(taken, asyncio.get_running_loop())
        for kind, name in ((socket.SOCK_DGRAM, "datagram"), (socket.SOCK_STREAM, "stream")):
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.connect(str(tmp_path / name))
                sock.send(pack(b"t", b""))
        await until(lambda: len(taken.messages) == 2)
        assert [message[1:3] for message in taken.messages] == [(expected, expected)] * 2
        inputs.close()

    run(main)


def test_if_one_input_cannot_be_opened_the_others_are_closed(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=rf"^\[inputs\] tcp: cannot bind port {port} of 127.0.0.1: Address already in use"):
            Inputs.bind(InputSettings(UnixSettings(tmp_path / "d"), UnixSettings(tmp_path / "s"), TcpSettings(port)))
    assert not list(tmp_path.iterdir())


def test_the_loop_has_time_for_others_while_clients_send_all_they_can(tmp_path: Path) -> None:
    """The loop's other callbacks come again and again, although every socket is always readable."""

    async def main() -> None:
        taken, inputs = Taken(), Inputs.bind(settings(tmp_path))
        loop = asyncio.get_running_loop()
        inputs.start(taken, loop)
        ended = threading.Event()

        def send(kind: socket.SocketKind, name: str) -> None:
            data = pack(b"t", b"") * (1 if kind is socket.SOCK_DGRAM else 2000)
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.connect(str(tmp_path / name))
                while not ended.is_set():
                    sock.sendall(data)

        threads = [threading.Thread(target=send, args=(socket.SOCK_DGRAM, "datagram")) for _ in range(2)]
        threads += [threading.Thread(target=send, args=(socket.SOCK_STREAM, "stream")) for _ in range(2)]
        for thread in threads:
            thread.start()
        read = []
        for _ in range(30):
            before = len(taken.messages)
            await asyncio.sleep(0)
            read.append(len(taken.messages) - before)
        ended.set()
        await until(lambda: not any(thread.is_alive() for thread in threads))
        inputs.close()
        assert sum(read) > 0
        assert max(read) < 10_000

    run(main)
