"""Agent: all parts together, on one asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from pathlib import Path

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.inputs.datagrams import DatagramInput
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import Router
from pykafka4.agent.settings.values import AgentSettings
from pykafka4.producer import Producer

__all__ = ["Agent"]


class Agent:
    """A running agent. Its parts are created by `run`, on the loop."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.started_at = time.time()
        self.ledger = Ledger()
        self._ended: asyncio.Event | None = None

    async def run(self) -> None:
        """Take messages until `end` is called, then deliver what waits."""
        loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        producer = Producer(**producer_options(self.settings))
        router = Router(producer, self.ledger)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        unix = self.settings.inputs.unix_datagram
        if unix is not None:
            with contextlib.suppress(FileNotFoundError):
                Path(unix.path).unlink()
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sock.bind(str(unix.path))
            entry = DatagramInput(sock, router, self.settings.inputs.max_datagram_size, None)
            loop.add_reader(entry.fileno(), entry.read)
        await self._ended.wait()
        await loop.run_in_executor(None, producer.close)

    def end(self) -> None:
        """Begin the end; on the loop."""
        assert self._ended is not None
        self._ended.set()
