"""A storm counts what it does to connections, and nothing else; no Kafka here: a server that says nothing stands for the broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from integration.faults.proxy import Proxy
from integration.faults.storm import FAULTS, Storm
from integration.host.ports import HOST
from integration.waiting import until

pytestmark = pytest.mark.harness


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socket.create_server((HOST, 0)) as broker, Proxy(broker.getsockname()) as between:
        yield between


def connected(proxy: Proxy, count: int) -> list[socket.socket]:
    before = proxy.open
    made = [socket.create_connection(proxy.address, timeout=10) for _ in range(count)]
    until(lambda: proxy.open == before + count, 10, "the connections")
    return made


def test_connections_that_a_storm_found_or_left_open_are_not_counted(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.faults.storm.PAUSE_S", (60.0, 60.0))
    found = connected(proxy, 3)
    storm = Storm({1: proxy}, 1)
    with storm:
        assert storm.cuts == 0
        left = connected(proxy, 2)
        cut = storm.cuts  # they live half a second at least
    assert storm.cuts == cut == 0
    for one in (*found, *left):
        one.close()


def test_each_fault_comes_once_before_one_comes_again(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.faults.storm.PAUSE_S", (0.0, 0.001))
    monkeypatch.setattr("integration.faults.storm.LASTS_S", (0.0, 0.001))
    with Storm({1: proxy}, 1) as storm:
        until(lambda: storm.done["delay"] >= 5, 30, "five delays")
        counts = [storm.done[name] for name in FAULTS if not name.startswith(("cut", "all"))]
    assert max(counts) - min(counts) <= 1
    assert storm.rounds == 0, "nothing was sent, so no connection was cut in the middle of it"
