"""The status page of a client in headless Chromium: it loads alone, follows the client, and can be read and used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka4 import Consumer, Producer
from pykafka4.testing import ModelServer
from tests.agent.http.chromium import INSTALL, Chromium, executable
from tests.agent.http.test_page import LOW_CONTRAST, READY, UNNAMED, column, forgive_lost_connections, text
from tests.producer.producing import start_all, stop_all

SET_FILTER = """
(() => {
  const box = document.getElementById('partitions-filter');
  box.value = 'Y-29';
  box.dispatchEvent(new Event('input'));
})()
"""


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    program = executable()
    if program is None:
        pytest.skip(INSTALL)
    with Chromium(program) as found:
        yield found


def test_the_page_follows_a_producer_through_an_outage_to_its_end(chromium: Chromium) -> None:
    chromium.show(1280, 900)
    with ModelServer(brokers=1) as server:
        server.create_topic("orders", 2)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, client_id="shop")
        page = producer.serve_status()
        chromium.open(page.url)
        chromium.wait_for(READY)
        assert text(chromium, "h1") == "producer shop"
        producer.send("orders", b"1", partition=0).result()
        chromium.wait_for("document.getElementById('headline-text').innerText === 'All records are delivered'")
        assert column(chromium, "partitions", 0) == ["orders-0"]
        stop_all(server)
        producer.send("orders", b"2", partition=1)
        chromium.wait_for("document.getElementById('headline-text').innerText === 'No broker can be reached'", 30)
        assert text(chromium, "#headline-details").endswith("Records that wait in memory: 1.")
        chromium.wait_for("document.querySelector('#outages tbody th')?.innerText.includes('cluster')")
        start_all(server)
        chromium.wait_for("document.getElementById('headline-text').innerText === 'All records are delivered'", 30)
        producer.close()
        chromium.wait_for("document.getElementById('banner').innerText.startsWith('No answer since ')")
    assert all(url.startswith(page.url) for url in chromium.requests)
    forgive_lost_connections(chromium)
    assert chromium.errors == []


def test_many_partitions_are_filtered_sorted_and_readable_in_both_colours_and_narrow(chromium: Chromium) -> None:
    with ModelServer(brokers=1) as server:
        server.create_topic("many", 300)
        with Consumer(bootstrap_servers=server.bootstrap_servers) as consumer, consumer.serve_status() as page:
            consumer.assign([("many", number) for number in range(300)])
            chromium.show(1280, 900, "dark")
            chromium.open(page.url)
            chromium.wait_for("document.getElementById('partitions-rest').innerText === '200 more.'")
            assert chromium.evaluate(UNNAMED) == []
            assert chromium.evaluate(LOW_CONTRAST) == []
            chromium.evaluate(SET_FILTER)
            chromium.wait_for("document.querySelectorAll('#partitions tbody tr').length === 11")
            chromium.evaluate("document.querySelector('#partitions thead button').focus()")
            chromium.press("Enter", 13, "\r")
            chromium.wait_for("document.querySelector('#partitions tbody th').innerText === 'many-29'")
            assert chromium.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"
            chromium.show(390, 800)
            assert chromium.evaluate(LOW_CONTRAST) == []
            assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    chromium.open("about:blank")
    forgive_lost_connections(chromium)
    assert chromium.errors == []
