"""How a TLS connection is refused. Rule: soon, in one event, without CONNECTED."""

from __future__ import annotations

import ssl
import time
from typing import Any

from pykafka4.errors import AuthenticationError, ConnectionLost
from tests.net.net_helpers import SECONDS
from tests.net.transport_driver import LOST, Driver, framed

__all__ = ["hello", "lost", "refused"]

SOON_S = 1.0  # seconds in which a refusal must be known; a machine that is busy with other things gets more


def hello(connection: Any) -> None:
    connection.sendall(framed(b"hello"))
    connection.recv(1)


def lost(driver: Driver, port: int, host: str = "127.0.0.1", link: int = 1) -> Any:
    """Why a connection is not made, soon; it never was CONNECTED."""
    began = time.monotonic()
    driver.transport.connect(link, host, port)
    (reason,) = driver.until(LOST, link=link)
    assert time.monotonic() - began < max(SOON_S, SECONDS / 4)
    assert [event.kind for event in driver.events if event.link == link] == [LOST]
    assert link not in driver.sockets
    assert isinstance(reason, ConnectionLost)
    return reason


def refused(driver: Driver, port: int, text: str, host: str = "127.0.0.1", *, certain: bool = True, cause: type = ssl.SSLError) -> None:
    reason = lost(driver, port, host)
    assert isinstance(reason, AuthenticationError), reason
    assert str(reason).startswith(f"{host}:{port}: ")
    assert text in str(reason)
    assert reason.certain is certain
    assert isinstance(reason.__cause__, cause)
