"""How connections end: cut at any byte, again and again, and in a forked child. Nothing stays behind, over TLS neither."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.net.connection_ends import BODIES, LARGE, STREAM, TIMES, Footprint, flat, listening, lost_after, opened, whole_frames
from tests.net.net_helpers import SECONDS, python, until
from tests.net.transport_driver import ALL_KINDS, FRAME, Driver, framed


@pytest.fixture(params=ALL_KINDS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    it = Driver(request.param)
    yield it
    it.transport.shut()


def test_connections_that_are_cut_at_any_byte_leave_nothing_behind(driver: Driver) -> None:
    hosts = 100 if sys.platform == "linux" else 1  # more addresses than one, as each is in use for a minute after a connection
    began = None
    with listening() as listener:
        for n in range(TIMES):
            if n == TIMES // 5:
                began = Footprint()
            with opened(driver, listener, n, f"127.0.0.{1 + n % hosts}") as peer:
                cut = n % (len(STREAM) + 1)
                peer.sendall(STREAM[:cut])
                if n % 10 == 0:
                    peer.sendall((STREAM + LARGE)[cut : len(STREAM) + 150_000])
                elif n % 2:
                    driver.transport.write(n, [b"x" * 100, bytes(1000)], True)
                    driver.step(0.0)
                peer.shutdown(socket.SHUT_WR)  # over TLS without close_notify
                frames, reason = lost_after(driver, n)
            expected = list(BODIES) if n % 10 == 0 else whole_frames(cut)
            assert frames == expected
            ends_whole = n % 10 and cut == len(framed(*expected))
            assert reason.endswith("closed the connection" if ends_whole else "in the middle of a response")
            with contextlib.suppress(KeyError):
                driver.socket_of(n)
                pytest.fail("the socket of a lost connection is still there")
    flat(began, driver)


def test_connections_that_are_closed_at_any_byte_leave_nothing_behind(driver: Driver) -> None:
    """By this side: with a part of a frame read, and with a part of a buffer written."""
    buffers = [bytearray(4 << 20) for _ in range(2)]
    references = [sys.getrefcount(buffer) for buffer in buffers]
    began = None
    with listening() as listener:
        for n in range(TIMES // 5):
            if n == TIMES // 25:
                began = Footprint()
            with opened(driver, listener, n) as peer:
                peer.sendall((STREAM + LARGE)[: 200_000 if n % 3 == 0 else n % len(STREAM)])
                driver.transport.write(n, buffers, True)
                driver.step(0.0)
                driver.transport.close(n)
            driver.events.clear()
            assert [sys.getrefcount(buffer) for buffer in buffers] == references
            buffers[0].append(0)  # nobody has a view of it any more
            del buffers[0][-1]
            assert driver.step(0.0) == []
    flat(began, driver)


FORK = """
import gc, os, signal, socket, sys, threading, warnings
sys.path[:0] = ["."]
warnings.simplefilter("ignore", DeprecationWarning)
from tests.net.connection_ends import shaken
from tests.net.transport_driver import *
driver = Driver({kind!r})
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
driver.transport.connect(1, "127.0.0.1", port)
while driver.wrap and not driver.sockets:
    driver.step(0.001)
peer = listener.accept()[0]
if driver.wrap:
    peer = shaken(driver, peer)
driver.until(CONNECTED)
out = b"".join(b"%09d " % n for n in range(800_000))
incoming = b"i" * 300_000
peer.sendall(framed(b"whole", incoming)[:150_000])
driver.transport.write(1, [out], True)
driver.until(FRAME)
driver.transport.connect(2, "127.0.0.1", port)  # being dialled
while driver.wrap and 2 not in driver.sockets:  # in the handshake
    driver.step(0.001)
half = listener.accept()[0] if driver.wrap else None
sys.stdout.flush()
pid = os.fork()
if not pid:
    signal.alarm(60)
    links = [driver.socket_of(link) for link in (1, 2)[:2 if driver.wrap else 1]]
    driver.transport.abandon()
    assert {{link.fileno() for link in links}} == {{-1}} and driver.transport.wakeup.fileno() == -1
    if sys.platform == "linux":
        left = [os.readlink(entry) for entry in map("/proc/self/fd/{{}}".format, os.listdir("/proc/self/fd")) if os.path.exists(entry)]
        assert not [name for name in left if "event" in name], left
        assert len([name for name in left if "socket" in name]) == 1 + len(links), left  # the listener and the peers
    del driver, links
    gc.collect()
    sys.exit(7)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
got = bytearray()
def drain():
    while len(got) < len(out):
        got.extend(peer.recv(1 << 20))
thread = threading.Thread(target=drain, daemon=True)
thread.start()
while len(got) < len(out):
    driver.step(0.01)
thread.join(60)
peer.sendall(framed(b"whole", incoming)[150_000:] + framed(b"after"))
whole, large, after = driver.until(FRAME, 3)
driver.until(WRITTEN)
assert bytes(got) == out and bytes(large) == incoming and bytes(after) == b"after"
if driver.wrap:
    half = shaken(driver, half)
driver.until(CONNECTED, link=2)
driver.transport.shut()
for sock in (peer, half, listener):
    if sock is not None:
        sock.close()
print("the parent goes on")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_forked_child_abandons_its_copy_and_the_parent_goes_on(kind: str) -> None:
    """In the middle of a frame, a buffer, and a dial or handshake. The child must not end the parent's TLS sessions with a notice."""
    done = python(FORK.format(kind=kind))
    assert done.stdout == "the parent goes on\n", done.stderr


def test_the_collector_may_run_while_a_transport_waits(driver: Driver) -> None:
    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect()

    with listening() as listener:
        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        with opened(driver, listener, 1) as peer:
            for n in range(20):
                peer.sendall(framed(b"%d" % n, bytes(20_000)))
            frames = driver.until(FRAME, 40)
            ended.set()
            thread.join(SECONDS)
    assert [bytes(frame) for frame in frames[::2]] == [b"%d" % n for n in range(20)]


def test_wake_ups_of_many_threads_end_each_wait(driver: Driver) -> None:
    """What they post is run; `Driver.post` wakes as the loop's `_post` does."""
    threads, rounds, ran = 4, 100, list[float]()
    deadline = time.monotonic() + SECONDS
    workers = [threading.Thread(target=lambda: [driver.post(ran.append) for _ in range(rounds)], daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    while len(ran) < threads * rounds:
        driver.step(SECONDS)
        driver.inbox.run(0.0)
        assert time.monotonic() < deadline
    for worker in workers:
        worker.join(SECONDS)
    until(lambda: not any(worker.is_alive() for worker in workers))
