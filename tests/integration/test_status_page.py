"""The status pages of a producer and a consumer say true things while a broker is killed, frozen and started again.

With SCREENSHOTS=docs/assets/status the test writes the pictures of the guide: they need Chromium.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, Producer
from tests.agent.http.chromium import Chromium, executable

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(200)]

PARTITIONS = 6
SECONDS = 60.0  # for a page to say something
FOLDER = os.environ.get("SCREENSHOTS")
BEGIN_S = 62.0 if FOLDER else 0.0  # curves need a minute


def figures(url: str) -> Any:
    with urllib.request.urlopen(f"{url}status.json", timeout=30) as answer:
        return json.load(answer)


def says(url: str, *words: str) -> bool:
    headline = figures(url)["headline"]
    return any(word in f"{headline['text']} {' '.join(headline['details'])}" for word in words)


@contextlib.contextmanager
def working(producer: Producer, consumer: Consumer, topic: str) -> Iterator[None]:
    """Records are sent and read."""
    goes_on = threading.Event()

    def send() -> None:
        number = 0
        while not goes_on.wait(0.02):
            for _ in range(20 + number % 300 // 10):
                number += 1
                producer.send(topic, b"x" * 300, partition=number % PARTITIONS)

    def read() -> None:
        while not goes_on.is_set():
            consumer.poll(0.2)

    threads = [threading.Thread(target=send), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        goes_on.set()
        for thread in threads:
            thread.join(30)


def shoot(name: str, url: str, scheme: str = "light", width: int = 1280) -> None:
    program = executable()
    if FOLDER is None or program is None:
        return
    with Chromium(program) as browser:
        browser.show(width, 900 if width > 500 else 1400, scheme)
        browser.open(url)
        browser.wait_for("!document.getElementById('main').hasAttribute('aria-busy')")
        time.sleep(1.2)
        browser.screenshot(Path(FOLDER) / f"{name}.png")


def test_pages_name_the_broker_that_is_killed_or_frozen_and_say_when_it_is_back(cluster: Cluster, topic: str) -> None:
    topic, group = ("orders", "billing") if FOLDER else (topic, f"group-{topic}")
    cluster.create_topic(topic, PARTITIONS, 3)
    with (
        Producer(**cluster.client, client_id="shop") as producer,
        Consumer(**cluster.client, client_id="billing", group_id=group, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        sends, reads = producer.serve_status(), consumer.serve_status()
        with working(producer, consumer, topic):
            until(lambda: says(sends.url, "Records flow", "All records"), SECONDS, "records to flow")
            until(lambda: figures(reads.url)["member"]["state"] == "stable", SECONDS, "the group")
            until(lambda: says(reads.url, "Everything is read", "Reads,"), SECONDS, "records to be read")
            assert figures(reads.url)["partitions"]["count"] == PARTITIONS
            time.sleep(BEGIN_S)
            shoot("producer-light", sends.url)
            shoot("consumer-dark", reads.url, "dark")
            shoot("consumer-narrow", reads.url, width=390)
            cluster.kill(1)
            until(lambda: says(sends.url, "1"), SECONDS, "the killed broker")
            until(lambda: any(row["node"] == 1 and row["error"] for row in figures(sends.url)["brokers"]["rows"]), SECONDS, "its row")
            until(lambda: figures(sends.url)["headline"]["since"] is not None, SECONDS, "since when")
            shoot("killed-light", sends.url)
            until(
                lambda: 1 not in {row[7] for row in figures(reads.url)["partitions"]["rows"]},
                SECONDS,
                "other leaders on the consumer's page",
            )
            shoot("recovered-dark", sends.url, "dark")  # others lead now
            cluster.start(1)
            until(lambda: says(sends.url, "Records flow", "All records"), SECONDS, "the producer's page to be well")
            cluster.freeze(2)
            until(lambda: says(sends.url, "has not responded", "Broker 2", "offline"), SECONDS, "the frozen broker")
            cluster.thaw(2)
            until(lambda: says(sends.url, "Records flow", "All records"), SECONDS, "the producer's page to be well")
            found = figures(sends.url)
            assert any("broker 1" in row["subject"] and row["ended_at"] for row in found["outages"]["rows"])
        producer.flush()
        until(lambda: figures(sends.url)["stats"]["acked"] == producer.stats().accepted, SECONDS, "the counts")
