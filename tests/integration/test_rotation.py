"""Certificates and authorities are replaced under load. Rule: no record is lost, repeated or reordered, and no client is made anew.

Meanwhile every connection lives a few seconds, so that connections are made at any time, also while a file is half written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.backends import proxied
from integration.faults.proxied import Proxied
from integration.security.certificates import Authority, Certificate
from integration.security.settings import Security
from integration.waiting import until
from integration.workload.load import PARTITIONS, Load, judge
from pykafka4 import Consumer, Producer, Record
from tests.integration.reading import LONG_S

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.backend("local")]

RATE = 500  # records per second
SHORTEST, LONGEST = 1.0, 4.0  # seconds that a connection lives
CLIENTS = {"writer", "reader"}


@pytest.fixture(scope="module")
def mutual() -> Iterator[Proxied]:
    """Three brokers behind proxies, which want a certificate of their clients."""
    with proxied("local")(security=Security("SSL", client_auth="required")) as brokers:
        yield brokers


class Files:
    """The files that the options of both clients name."""

    def __init__(self, folder: Path, authority: Authority, certificate: Certificate) -> None:
        self.authority = authority.write(folder)
        self.certificate, self.key = certificate.write(folder, "client")
        self.key.chmod(0o600)

    @property
    def options(self) -> dict[str, Any]:
        return {"ssl_cafile": str(self.authority), "ssl_certfile": str(self.certificate), "ssl_keyfile": str(self.key)}


class Follower(threading.Thread):
    """Hands out what the group's only member reads; ends when it is told to, or with the first error."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(name="follower", daemon=True)
        self.consumer = consumer
        self.ending = threading.Event()
        self.records: list[Record] = []
        self.numbers: set[int] = set()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                found = self.consumer.poll(0.2)
                self.records += found
                self.numbers.update(int(record.value) for record in found)
        except BaseException as error:  # the test reads it
            self.error = error


class Traffic:
    """A producer and a consumer under load, the brokers that they use, and what they warned of."""

    def __init__(self, cluster: Proxied, load: Load, follower: Follower, caplog: pytest.LogCaptureFixture) -> None:
        self.cluster, self.load, self.follower, self.caplog = cluster, load, follower, caplog

    def reconnect(self) -> None:
        """Cut every connection, and wait until records that are sent from now on were written and read over others."""
        for proxy in self.cluster.proxies.values():
            proxy.drop_connections()
        self.wait_read(self.load.sent + PARTITIONS)

    def wait_read(self, count: int) -> None:
        def read() -> bool:
            assert self.follower.error is None, self.follower.error
            assert self.load.error is None, self.load.error
            return self.follower.numbers.issuperset(range(count - PARTITIONS, count))

        until(read, LONG_S, lambda: f"records up to {count} to be read; {self.follower.consumer.status()}")

    def write_half(self, path: Path, content: bytes) -> None:
        """Leave the file as somebody who is still writing it: both clients warn, and go on with what they have."""
        self.caplog.clear()
        path.write_bytes(content[: len(content) * 3 // 4])
        until(lambda: self.warned() == CLIENTS, LONG_S, lambda: f"both clients to warn of {path}, not {self.caplog.messages}")
        self.reconnect()

    def warned(self) -> set[str]:
        """The clients that said that they go on with what they have."""
        return {text.partition(":")[0] for text in self.caplog.messages if "continues with the last ones" in text}


@contextlib.contextmanager
def traffic(cluster: Proxied, topic: str, files: Files, caplog: pytest.LogCaptureFixture) -> Iterator[Traffic]:
    """Records are written and read, over connections that live a few seconds; at the end all of them are judged."""
    cluster.create_topic(topic, PARTITIONS)
    options = {**cluster.client, **files.options}
    stop = threading.Event()
    with (
        Producer(**options, client_id="writer") as producer,
        Consumer(**options, client_id="reader", group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        load, follower = Load(producer, topic, RATE, lambda _: stop.is_set()), Follower(consumer)
        it = Traffic(cluster, load, follower, caplog)
        load.start()
        follower.start()
        try:
            it.wait_read(PARTITIONS)
            for proxy in cluster.proxies.values():
                proxy.chaos(SHORTEST, LONGEST)
            yield it
            stop.set()
            load.join(LONG_S)
            producer.flush(LONG_S)
            until(lambda: len(follower.numbers) >= load.sent, LONG_S, lambda: f"{load.sent} records, not {len(follower.numbers)}")
        finally:
            stop.set()
            cluster.heal_proxies()
            follower.ending.set()
            follower.join(LONG_S)
    assert follower.error is None
    verdict = judge(cluster, topic, load)
    assert verdict.complaints() == []
    assert verdict.acked == verdict.sent
    log = cluster.log(topic)
    for partition, records in log.items():
        assert [r.offset for r in follower.records if r.partition == partition] == [r.offset for r in records]
    print(f"\nrotation: {verdict.sent:,} sent, acknowledged, in the log in order, and read once")


def test_a_clients_certificate_of_another_authority_replaces_its_own_under_load(
    mutual: Proxied, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers admit both authorities while the files are replaced, one after the other and each in two steps; then only the new one."""
    access, old, new = mutual.access, mutual.access.trusted[0], Authority()
    files, fresh = Files(tmp_path, access.authority, old.client("alice")), new.client("alice")
    access.trust(old, new)
    with traffic(mutual, topic, files, caplog) as it:
        it.write_half(files.certificate, fresh.chain)
        files.certificate.write_bytes(fresh.chain)  # its key is still the old one
        it.reconnect()
        files.key.write_bytes(fresh.key[: len(fresh.key) // 2])
        it.reconnect()
        files.key.write_bytes(fresh.key)
        it.reconnect()
        access.trust(new)
        it.reconnect()


@pytest.mark.parametrize("how", ["while they run", pytest.param("by a rolling restart", marks=pytest.mark.chaos)])
def test_the_brokers_certificates_of_another_authority_replace_theirs_under_load(
    mutual: Proxied, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Clients trust both authorities while one broker after the other gets its new certificate; then only the new one."""
    access, old, new = mutual.access, mutual.access.authority, Authority()
    files = Files(tmp_path, old, access.trusted[0].client("alice"))
    with traffic(mutual, topic, files, caplog) as it:
        it.write_half(files.authority, old.pem + new.pem)
        files.authority.write_bytes(old.pem + new.pem)
        it.reconnect()
        access.authority = new
        for node in mutual.nodes:
            certificate = access.certificate()
            if how == "while they run":
                access.replace_certificate(node, certificate)
            else:
                mutual.restart_with(node, certificate)
                mutual.wait_full_isr([topic])
            assert access.shows(node, certificate)
            it.reconnect()
        files.authority.write_bytes(new.pem)
        it.reconnect()
