"""Whole clients over TLS come and go, and leave no descriptor, no thread and no object of Python behind.

Memory of OpenSSL is not in it: CPython 3.11.7 loses 6.5 KB with each first use of `SSLSocket.session`. There are 100 clients,
with PYKAFKA4_FUZZ (`make fuzz`) 1,000; for 1,000 connections of one transport see test_secure_ends.
"""

from __future__ import annotations

import threading

import pytest

from tests.net.net_helpers import SECONDS, until

pytest.importorskip("trustme")

from pykafka4 import Producer
from pykafka4.net.handoff import workers
from tests.net.test_transport_ends import TIMES, Footprint
from tests.net.tls_model import secured_model

CLIENTS = TIMES // 10


def footprint() -> Footprint:
    """Without the helper threads, which end soon."""
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "pykafka4-names"], "the end of those that are idle")
    return Footprint()


def test_clients_that_come_and_go_leave_nothing_of_python_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.01)
    began = None
    with secured_model() as (server, options):
        server.create_topic("t", 1)
        for n in range(CLIENTS + CLIENTS // 4):
            if n == CLIENTS // 4:
                began = footprint()
            with Producer(**options) as producer:
                assert producer.send("t", b"value").result(timeout=SECONDS).offset == n
        ended = footprint()
    assert began is not None
    assert ended.threads <= began.threads
    assert ended.descriptors <= began.descriptors
    assert ended.blocks < began.blocks + 40 * CLIENTS, "more than the model's log"
