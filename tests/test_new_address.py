"""A broker's name gets another address: clients look it up again, whenever they connect, and go on there."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import Client, Producer
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one address of the loopback")
NAME, OLD, NEW = "moving.test", "127.0.0.2", "127.0.0.1"


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Elsewhere:
    """The broker under its old address: what comes there goes to the model."""

    def __init__(self, port: int) -> None:
        self.port, self.open = port, [socket.create_server((OLD, port))]
        threading.Thread(target=self.accept, args=(self.open[0],), daemon=True).start()

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, broker = listener.accept()[0], socket.create_connection((NEW, self.port))
                self.open += [client, broker]
                for ends in ((client, broker), (broker, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def end(self) -> None:
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the name means, last entry; a resolver that knows it."""
    found, real = [OLD], socket.getaddrinfo

    def resolver(host: str, *args: Any, **options: Any) -> Any:
        return real(found[-1] if host == NAME else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return found


@pytest.fixture
def moving(server: ModelServer) -> Iterator[Elsewhere]:
    """The only broker, whose metadata tell its name."""

    def rename(cluster: Any) -> int:
        (broker,) = cluster.brokers.values()
        broker.host = NAME
        return int(broker.port)

    elsewhere = Elsewhere(server.do(rename))
    yield elsewhere
    elsewhere.end()


@pytest.mark.model(brokers=1, topics={"t": 1})
def test_a_client_goes_on_at_the_new_address_of_a_broker(server: ModelServer, moving: Elsewhere, addresses: list[str]) -> None:
    with Client(bootstrap_servers=f"{NAME}:{moving.port}", reconnect_backoff_max_ms=100) as client, Producer(client=client) as producer:
        producer.send("t", b"before").result(SECONDS)
        assert len(moving.open) > 1, "it goes to the old address"
        addresses.append(NEW)
        moving.end()
        producer.send("t", b"after").result(SECONDS)
    assert [record.value for record in server.records("t")] == [b"before", b"after"]


@pytest.mark.model(brokers=1, topics={"t": 1})
def test_a_broker_that_was_gone_is_found_at_its_new_address(server: ModelServer, moving: Elsewhere, addresses: list[str]) -> None:
    """Meanwhile the name means the old address, where nobody listens: no attempt to connect makes that stay."""
    with Client(bootstrap_servers=f"{NAME}:{moving.port}", reconnect_backoff_max_ms=100) as client, Producer(client=client) as producer:
        producer.send("t", b"before").result(SECONDS)
        moving.end()
        delivery = producer.send("t", b"after")
        assert not threading.Event().wait(0.5)
        assert not delivery.done()
        addresses.append(NEW)
        delivery.result(SECONDS)
    assert [record.value for record in server.records("t")] == [b"before", b"after"]
