"""The last push of metrics delays a close for a moment at most, and cannot keep it from ending."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pykafka4 import Client, Producer
from pykafka4.client.push import PATIENCE_S
from pykafka4.core.telemetry.machine import Telemetry
from tests.inspection import inspect
from tests.net.net_helpers import closed_port


def raises(machine: Telemetry, now: float, ended: Any) -> None:
    raise ValueError("figures that cannot be read")


def never_ends(machine: Telemetry, now: float, ended: Any) -> None:
    pass


@pytest.mark.parametrize("end", [raises, never_ends])
def test_a_last_push_that_fails_or_hangs_lets_the_close_go_on(monkeypatch: pytest.MonkeyPatch, end: Any) -> None:
    monkeypatch.setattr(Telemetry, "wanted", True)
    monkeypatch.setattr(Telemetry, "end", end)
    with Client(bootstrap_servers=f"127.0.0.1:{closed_port()}") as client:
        producer = Producer(client=client)
        runtime = inspect(client).runtime
        assert len(runtime.loop.ask(lambda _: [*runtime.engine._all], 5, "the machines")) == 2
        began = time.monotonic()
        producer.close(0)
        assert time.monotonic() - began < PATIENCE_S + 1
        assert runtime.loop.ask(lambda _: [*runtime.engine._all], 5, "the machines") == []


@pytest.mark.parametrize("own", [True, False])
def test_a_close_on_a_loop_thread_does_not_wait_for_the_last_push(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """A destructor may run there."""
    with Client(bootstrap_servers=f"127.0.0.1:{closed_port()}") as client, Client(bootstrap_servers=f"127.0.0.1:{closed_port()}") as other:
        producer = Producer(client=client)
        with monkeypatch.context() as patch:
            patch.setattr(Telemetry, "wanted", True)
            patch.setattr(Telemetry, "end", never_ends)
            assert inspect(client if own else other).runtime.loop.ask(lambda _: producer.close(0), 5, "the close") == []
