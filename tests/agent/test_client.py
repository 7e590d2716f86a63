"""Client: what a send does while the agent takes messages, is behind, is away, was restarted, or stands still; threads, forks, signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pykafka4.agent import Client, Loss
from pykafka4.agent.client import STREAM_BYTES
from pykafka4.agent.format import parse
from pykafka4.agent.message import Message

WAIT_S = 10.0
LARGE = 1_500_000  # bytes; more than any socket's buffer here


class Agent:
    """A socket of the agent that a test reads when it wants to."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.connections: list[socket.socket] = []
        listener.settimeout(WAIT_S)

    def message(self) -> Message:
        """The next message."""
        if self.listener.type == socket.SOCK_DGRAM:
            return parse(self.listener.recv(1 << 20), b"")
        if not self.connections:
            self.accept()
        size = self.exactly(4)
        return parse(size + self.exactly(int.from_bytes(size, "big") - 4), b"")

    def accept(self) -> None:
        """Read the next connection from now on."""
        self.connections.append(self.listener.accept()[0])
        self.connections[-1].settimeout(WAIT_S)

    def exactly(self, size: int) -> bytes:
        """Bytes of the latest connection; EOFError if it ends before."""
        found = bytearray()
        while len(found) < size:
            data = self.connections[-1].recv(size - len(found))
            if not data:
                raise EOFError
            found += data
        return bytes(found)

    def close(self) -> None:
        """End as a process does."""
        for sock in (self.listener, *self.connections):
            sock.close()


class Place:
    """An address, where agents come and go."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind, self.path, self.port = kind, path, 0
        self.agents: list[Agent] = []

    def start(self) -> Agent:
        """An agent that listens from now on."""
        self.path.unlink(missing_ok=True)
        if self.kind == "tcp":
            listener = socket.create_server(("127.0.0.1", self.port))
            self.port = listener.getsockname()[1]
        else:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if self.kind == "datagram" else socket.SOCK_STREAM)
            listener.bind(str(self.path))
        if self.kind == "stream":
            listener.listen()
        self.agents.append(Agent(listener))
        return self.agents[-1]

    def client(self, *, max_block_ms: float = 0) -> Client:
        """A client of this place."""
        if self.kind == "tcp":
            return Client.tcp(self.port, max_block_ms=max_block_ms)
        return (Client if self.kind == "datagram" else Client.stream)(self.path, max_block_ms=max_block_ms)


@pytest.fixture(params=["datagram", "stream", "tcp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(request.param, tmp_path / "agent.sock")
    yield place
    for agent in place.agents:
        agent.close()


@pytest.fixture
def datagrams(tmp_path: Path) -> Iterator[Place]:
    place = Place("datagram", tmp_path / "agent.sock")
    yield place
    for agent in place.agents:
        agent.close()


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Place]:
    place = Place("stream", tmp_path / "agent.sock")
    yield place
    for agent in place.agents:
        agent.close()


def fill(client: Client) -> int:
    """Send until the agent's socket is full; how many messages it took."""
    for count in range(1_000_000):
        if not client.send("topic", str(count).rjust(1000)):
            return count
    raise AssertionError("never full")


def lost(client: Client) -> dict[str, int]:
    return {reason.value: count for reason, count in client.lost.items() if count}


def test_a_message_arrives_as_it_was_sent(place: Place) -> None:
    agent = place.start()
    with place.client() as client:
        assert client.send("clicks", b"\0value", key="ключ", partition_key=2**32 - 1, timestamp_ms=17)
        assert agent.message() == ("clicks", b"\0value", "ключ".encode(), 2**32 - 1, 17)
        assert client.send("thema-ü", "grüße")
        topic, value, key, partition_key, timestamp = agent.message()
        assert (topic, value, key, partition_key) == ("thema-ü", "grüße".encode(), b"", None)
        assert abs(timestamp / 1000 - time.time()) < WAIT_S
        assert lost(client) == {}


def test_bytes_like_values_are_taken(datagrams: Place) -> None:
    agent = datagrams.start()
    with datagrams.client() as client:
        client.send(b"t", bytearray(b"one"), key=memoryview(b"two"))
        assert agent.message()[:3] == ("t", b"one", b"two")


def test_a_missing_agent_costs_no_wait_and_is_counted(place: Place) -> None:
    place.start().close()
    with place.client() as client:
        begun = time.monotonic()
        for _ in range(10):
            assert not client.send("t", "v")
        assert time.monotonic() - begun < 1
        assert lost(client) == {"absent": 10}
        assert client.last_error is not None
        assert client.last_error.startswith("no agent takes messages there: ")


def test_a_full_socket_costs_no_wait_and_loses_nothing_that_it_took(place: Place) -> None:
    agent = place.start()
    with place.client() as client, ThreadPoolExecutor(1) as pool:
        count = fill(client)
        assert count > 0
        assert lost(client) == {"full": 1}
        read = pool.submit(lambda: [agent.message()[1] for _ in range(count + 1)])
        deadline = time.monotonic() + WAIT_S
        while not client.send("topic", "again"):
            assert time.monotonic() < deadline
        *first, last = read.result(WAIT_S)
        assert [int(value or b"") for value in first] == list(range(count))
        assert last == b"again"


def test_a_client_finds_an_agent_that_was_started_after_it(place: Place) -> None:
    place.start().close()
    with place.client() as client:
        assert not client.send("t", "early")
        agent = place.start()
        assert client.send("t", "late")
        assert agent.message()[1] == b"late"


def test_no_message_is_lost_by_a_restart_in_between(place: Place) -> None:
    agent = place.start()
    with place.client() as client:
        assert client.send("t", "before")
        agent.message()
        agent.close()
        agent = place.start()
        assert client.send("t", "after")
        assert agent.message()[1] == b"after"
        assert lost(client) == {}


def test_a_stale_socket_is_an_absent_agent(datagrams: Place) -> None:
    datagrams.start().close()
    assert datagrams.path.exists()
    with datagrams.client() as client:
        assert not client.send("t", "v")
        assert lost(client) == {"absent": 1}


def test_a_socket_of_the_other_kind_is_named(streams: Place) -> None:
    streams.start()
    with Client(streams.path) as client:
        assert not client.send("t", "v")
        assert client.last_error is not None
        assert "the path is a stream socket and the client sends datagrams" in client.last_error


def test_a_message_above_the_limit_is_not_sent(place: Place) -> None:
    place.start()
    with place.client() as client:
        assert not client.send("t", b"v" * (3 * 1024 * 1024))
        assert lost(client) == {"too_large": 1}
        assert client.last_error is not None
        assert "max_message_bytes" in client.last_error


def test_the_limit_of_datagrams_is_the_agents(datagrams: Place) -> None:
    agent = datagrams.start()
    with datagrams.client() as client:
        assert client.send("t", b"v" * (64 * 1024 - 29))
        assert len(agent.message()[1] or b"") == 64 * 1024 - 29
        assert not client.send("t", b"v" * (64 * 1024 - 28))


def test_a_datagram_that_no_socket_takes_is_too_large(datagrams: Place) -> None:
    datagrams.start()
    with Client(datagrams.path, max_message_bytes=100_000_000) as client:
        assert not client.send("t", b"v" * 50_000_000)
        assert lost(client) == {"too_large": 1}


def test_a_limit_above_the_usual_send_buffer_enlarges_it(datagrams: Place) -> None:
    agent = datagrams.start()
    with Client(datagrams.path, max_message_bytes=300_000) as client:
        assert client.send("t", b"v" * 250_000)
        assert len(agent.message()[1] or b"") == 250_000


def test_a_client_outlives_an_ended_connection_where_sigpipe_ends_processes(streams: Place) -> None:
    agent = streams.start()
    with streams.client() as client:
        closed, tell = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            client.send("t", "v")
            agent.accept()
            agent.close()
            os.read(closed, 1)
            os._exit(1 if client.send("t", "v") else 0)
        agent.listener.close()  # or the child's second message would find this listener
        os.write(tell, b".")
        os.close(closed)
        os.close(tell)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_stream_takes_a_message_that_is_larger_than_its_buffer(streams: Place) -> None:
    agent = streams.start()
    with streams.client(max_block_ms=WAIT_S * 1000) as client, ThreadPoolExecutor(1) as pool:
        read = pool.submit(agent.message)
        assert client.send("t", b"v" * LARGE)
        assert len(read.result(WAIT_S)[1] or b"") == LARGE


def test_the_rest_of_a_message_goes_out_before_the_next(streams: Place) -> None:
    agent = streams.start()
    with streams.client() as client, ThreadPoolExecutor(1) as pool:
        assert client.send("t", b"v" * LARGE)  # nobody reads yet
        assert not client.send("t", "too early")
        read = pool.submit(agent.message)
        deadline = time.monotonic() + WAIT_S
        while not client.send("t", "next"):
            assert time.monotonic() < deadline
        assert len(read.result(WAIT_S)[1] or b"") == LARGE
        assert agent.message()[1] == b"next"


def test_a_message_whose_rest_has_no_reader_any_more_is_counted(streams: Place) -> None:
    agent = streams.start()
    with streams.client() as client:
        assert client.send("t", b"v" * LARGE)
        agent.accept()
        agent.close()
        agent = streams.start()
        assert client.send("t", "next")
        assert agent.message()[1] == b"next"  # whole, on a connection of its own
        assert lost(client) == {"cut": 1}


def test_close_counts_a_message_that_was_taken_in_part(streams: Place) -> None:
    streams.start()
    client = streams.client()
    assert client.send("t", b"v" * LARGE)
    client.close()
    assert lost(client) == {"cut": 1}


def test_a_wait_bridges_a_full_socket(place: Place) -> None:
    agent = place.start()
    with place.client(max_block_ms=WAIT_S * 1000) as client, ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: [agent.message()[1] for _ in range(2000)])
        assert all(client.send("t", str(n).rjust(1000)) for n in range(2000))
        assert [int(value or b"") for value in read.result(WAIT_S)] == list(range(2000))


def test_by_default_a_burst_waits_for_a_busy_agent(datagrams: Place) -> None:
    agent = datagrams.start()
    with Client(datagrams.path) as client, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(lambda: [client.send("t", str(n)) for n in range(50)])  # more than the socket has room for
        assert [int(agent.message()[1] or b"") for _ in range(50)] == list(range(50))
        assert all(sent.result(WAIT_S))


def test_a_wait_bridges_a_restart(place: Place) -> None:
    place.start().close()
    with place.client(max_block_ms=WAIT_S * 1000) as client, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.send, "t", "v")
        agent = place.start()
        assert sent.result(WAIT_S)
        assert agent.message()[1] == b"v"
        assert lost(client) == {}


def test_only_one_message_waits_for_an_agent_that_stands_still(datagrams: Place) -> None:
    agent = datagrams.start()
    with datagrams.client(max_block_ms=300) as client:
        begun = time.monotonic()
        for _ in range(200):
            client.send("t", "v")
        assert 0.3 <= time.monotonic() - begun < 2
        while client.lost[Loss.FULL] and not client.send("t", "v"):
            agent.message()
        begun = time.monotonic()  # the agent takes messages again, so the next one may wait
        while client.send("t", "v"):
            pass
        assert time.monotonic() - begun >= 0.3


def test_messages_of_threads_stay_whole(place: Place) -> None:
    agent = place.start()
    with place.client(max_block_ms=WAIT_S * 1000) as client, ThreadPoolExecutor(5) as pool:
        read = pool.submit(lambda: [agent.message() for _ in range(400)])
        sent = [pool.submit(client.send, f"t{n % 4}", str(n) * (10 + n * 50 % 5000)) for n in range(400)]
        assert all(one.result(WAIT_S) for one in sent)
        assert sorted(read.result(WAIT_S)[n][1] or b"" for n in range(400)) == sorted(
            (str(n) * (10 + n * 50 % 5000)).encode() for n in range(400)
        )


@pytest.mark.parametrize("before", ["never sent", "sent", "in part"])
def test_a_forked_child_has_a_socket_of_its_own(streams: Place, before: str) -> None:
    agent = streams.start()
    with streams.client() as client:
        if before != "never sent":
            assert client.send("t", b"v" * (LARGE if before == "in part" else 1))
        assert not client.send("t", bytes(STREAM_BYTES))  # a loss of the parent
        child = os.fork()
        if child == 0:
            os._exit(0 if client.send("t", "of the child") and not lost(client) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        if before != "never sent":
            agent.accept()  # of the parent
        agent.accept()
        assert agent.message()[1] == b"of the child"
        with pytest.raises(EOFError):
            agent.message()


def test_a_child_can_send_that_was_forked_while_another_thread_was_sending(datagrams: Place) -> None:
    datagrams.start()
    with datagrams.client() as client, ThreadPoolExecutor(1) as pool:
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            with client._channel._lock:  # as a thread inside of `send` does; a fork seldom meets one
                held.set()
                release.wait(WAIT_S)

        holding = pool.submit(hold)
        assert held.wait(WAIT_S)
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            os._exit(0 if client.send("t", "v") else 1)
        release.set()
        holding.result(WAIT_S)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_signal_handlers_can_send_while_their_thread_sends(streams: Place) -> None:
    agent = streams.start()
    taken: list[bool] = []
    with streams.client() as client, ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: list(iter(lambda: agent.message()[1], b"end")))
        before = signal.signal(signal.SIGALRM, lambda *_: taken.append(client.send("t", "of a handler")))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            while taken.count(True) < 200:
                taken.append(client.send("t", "v" * 50_000))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        while not client.send("t", "end"):
            pass
        assert len(read.result(WAIT_S)) == taken.count(True)
        assert sum(client.lost.values()) >= taken.count(False)


def test_asyncio_code_can_send(datagrams: Place) -> None:
    agent = datagrams.start()

    async def send() -> bool:
        with datagrams.client() as client:
            return client.send("t", "v")

    assert asyncio.run(send(), debug=True)
    assert agent.message()[1] == b"v"


def test_a_closed_client_takes_nothing(place: Place) -> None:
    place.start()
    client = place.client()
    assert client.send("t", "v")
    client.close()
    client.close()
    assert not client.send("t", "v")
    assert lost(client) == {"closed": 1}


def test_losses_are_logged_once_for_each_reason(datagrams: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pykafka4"), datagrams.client() as client:
        for _ in range(5):
            client.send("t", "v")
    assert [record.getMessage() for record in caplog.records] == [
        f"unix datagram socket {datagrams.path}: message lost (absent, 1 so far): no agent takes messages there: "
        "No such file or directory; is `pykafka4 agent` running, with this socket in its [inputs]?"
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.send("", "v"), "topic must have 1 to 32,767 bytes"),
        (lambda client: client.send("t", "v", partition_key=2**32), "partition_key must be from"),
        (lambda client: client.send("t", "v", timestamp_ms=2**63), "timestamp_ms must be from"),
        (lambda client: Client("x" * 108), "has 108 bytes; the path of a UNIX socket has 1 to 107"),
        (lambda client: Client(""), "has 0 bytes; the path of a UNIX socket has 1 to 107"),
        (lambda client: Client.stream("x" * 108), "has 108 bytes"),
        (lambda client: Client.tcp(0), "port must be from 1 to 65,535, not 0"),
        (lambda client: Client.tcp(9101, "localhost"), "host must be an IP address, such as 127.0.0.1 or ::1, not 'localhost'"),
        (lambda client: Client("x", max_block_ms=-1), "max_block_ms must be 0 or more"),
    ],
)
def test_a_wrong_argument_is_named(datagrams: Place, call: Callable[[Client], object], error: str) -> None:
    with datagrams.client() as client, pytest.raises(ValueError, match=error):
        call(client)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.send("t", None), "value must be bytes or str, not None; by default, an empty text becomes null in Kafka"),
        (lambda client: client.send("t", {"a": 1}), "value must be bytes or str, not dict"),
        (lambda client: client.send("t", "v", key=7), "key must be bytes or str, not int"),
        (lambda client: client.send(None, "v"), "topic must be bytes or str, not NoneType"),
        (lambda client: client.send("t", "v", partition_key="7"), "partition_key must be an int, not str"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(datagrams: Place, call: Callable[[Client], object], error: str) -> None:
    with datagrams.client() as client, pytest.raises(TypeError, match=f"^{error}$"):
        call(client)


def test_the_client_of_the_agent_imports_nothing_else_of_the_package() -> None:
    code = "import sys, pykafka4.agent; print(*sorted(n for n in sys.modules if n.startswith('pykafka4') or n in ('attrs', 'asyncio')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    agent = [f"pykafka4.agent{name}" for name in ("", ".channel", ".client", ".format", ".message")]
    assert found == ["pykafka4", *agent, "pykafka4.logs"]
