"""Net helpers. Real sockets and threads for tests. Rule: every wait has a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# What should happen within milliseconds; a busy machine may take longer. `make mutants` waits less for what a bug keeps from happening.
SECONDS = float(os.environ.get("PYKAFKA4_TEST_SECONDS", "20"))


def until(predicate: Callable[[], object], what: str = "it") -> None:
    """Wait for another thread to make `predicate` true."""
    deadline = time.monotonic() + SECONDS
    pause = threading.Event()
    while not predicate():
        assert time.monotonic() < deadline, f"{what} did not happen within {SECONDS} s"
        pause.wait(0.002)


@contextlib.contextmanager
def serving(answer: Callable[[Any], object], wrap: Callable[[socket.socket], socket.socket] | None = None) -> Iterator[int]:
    """A server on loopback that runs `answer(connection)` for every client; yields its port. `wrap`: for TLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(SECONDS)
    connections: list[socket.socket] = []
    lock, ended = threading.Lock(), threading.Event()

    def keep(connection: socket.socket) -> None:
        """Closed at the end, or now if that was before."""
        with lock:
            connections.append(connection)
            if ended.is_set():
                connection.close()

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if wrap is not None:
                connection = wrap(connection)
            keep(connection)
            answer(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(SECONDS)
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(SECONDS)  # first: it may be about to add one more
        with lock:
            ended.set()
            for connection in connections:
                connection.close()


def closed_port() -> int:
    """A port of loopback without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def python(code: str, timeout: float = 3 * SECONDS) -> subprocess.CompletedProcess[str]:
    """Run `code` in an interpreter of its own."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, timeout=timeout, cwd=root, check=False
    )


def in_thread(fn: Callable[[], Any]) -> threading.Thread:
    """Run `fn` on a thread of its own."""
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    return thread


def exactly(connection: socket.socket, size: int) -> bytes:
    """The next `size` bytes; EOFError if the connection ends before."""
    data = connection.recv(size, socket.MSG_WAITALL) if size else b""
    if len(data) < size:
        raise EOFError(f"closed after {len(data)} of {size} bytes")
    return data


def in_child(act: Callable[[], str]) -> str:
    """What `act` says in a forked child, within SECONDS."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(SECONDS))
        try:
            said = act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    said = os.read(reader, 10_000).decode()
    os.close(reader)
    return said
