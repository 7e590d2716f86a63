"""Reports the agent's state and signs of life to systemd. Without systemd, this module does nothing. Source: man sd_notify."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping

__all__ = ["Notifier"]


class Notifier:
    """Sends datagrams to the socket that systemd names in NOTIFY_SOCKET. Ignores failures: no caller could act on them."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Read the variables and remove them from the environment: children must not use them."""
        address = environment.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", str(os.getpid()))
        self.watchdog_s = int(watchdog) / 1e6 if watchdog.isdecimal() and pid == str(os.getpid()) and self._address else None

    def ready(self, status: str) -> None:
        """Report the end of the start or of a reload."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str, seconds: float) -> None:
        """Report that the agent begins to end, which takes up to `seconds`."""
        self._send("STOPPING=1", f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        self._send(f"STATUS={text}")

    def alive(self) -> None:
        """Report a sign of life. The next one is due within `watchdog_s` seconds, unless `watchdog_s` is None."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        data = "\n".join(line.replace("\n", " ") for line in lines).encode()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.setblocking(False)
            sock.sendto(data, self._address)
