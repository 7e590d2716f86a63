"""Status pages of real clients at a model broker: figures, limits, and the end of a page in each way that a client ends."""

from __future__ import annotations

import gc
import http.client
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka4 import AdminClient, Client, ClosedError, Consumer, Producer, ShareConsumer
from pykafka4.errors import ConfigError
from pykafka4.pages import processes, server
from pykafka4.pages.server import MOST_CONNECTIONS
from pykafka4.testing import ModelServer

WAIT_S = 10.0


@pytest.fixture(scope="module")
def broker() -> Iterator[ModelServer]:
    with ModelServer(brokers=1) as running:
        running.create_topic("orders", 3)
        yield running


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "pykafka4"


def get(port: int, path: str = "/status.json", host: str = "localhost", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", path, headers={"Host": host, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def figures(port: int, path: str = "/status.json") -> Any:
    return json.loads(get(port, path)[1])


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return True
    return False


def test_a_producer_and_a_consumer_show_what_stats_and_status_say(broker: ModelServer) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, producer.serve_status() as page:
        producer.send("orders", b"1", partition=0).result()
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([("orders", 0)])
            assert len(consumer.poll(WAIT_S)) == 1
            own = consumer.serve_status()
            until(lambda: figures(own.port)["partitions"]["rows"][0][5] == 0)
            found = figures(own.port)
            row = dict(zip(found["partitions"]["columns"], found["partitions"]["rows"][0]))
            assert (row["name"], row["state"], row["position"], row["leader"]) == ("orders-0", "fetching", 1, 1)
            assert found["headline"]["text"] == "Everything is read"
        assert refuses(own.port)
        until(lambda: figures(page.port)["stats"]["acked"] == 1)
        found = figures(page.port)
        assert found["kind"] == "producer"
        assert found["pid"] == os.getpid()
        assert found["headline"] == {"level": "ok", "text": "All records are delivered", "details": [], "since": None}
        assert [row["node"] for row in found["brokers"]["rows"]] == [1]
        assert get(page.port, "/health")[:2] == (200, b"ok\n")


def test_a_client_lists_its_users_and_a_share_consumer_its_state(broker: ModelServer) -> None:
    with Client(bootstrap_servers=broker.bootstrap_servers) as client, client.serve_status() as page, Producer(client):
        assert [user["kind"] for user in figures(page.port)["users"]] == ["producer"]
        with AdminClient(client):
            until(lambda: [user["kind"] for user in figures(page.port)["users"]] == ["producer", "admin client"])
        with ShareConsumer(client, group_id="s") as share, share.serve_status() as its:
            assert figures(its.port)["member"]["state"] == "unjoined"


def test_rows_are_filtered_sorted_and_bounded(broker: ModelServer) -> None:
    broker.create_topic("many", 30)
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer, consumer.serve_status() as page:
        consumer.assign([("many", number) for number in range(30)] + [("orders", 0)])
        until(lambda: figures(page.port)["partitions"]["count"] == 31)
        found = figures(page.port, "/status.json?filter=MANY-1&most=2&sort=name&order=asc")["partitions"]
        assert [row[0] for row in found["rows"]] == ["many-1", "many-10"]
        assert (found["count"], found["found"]) == (31, 11)
        assert figures(page.port, f"/status.json?most={'9' * 5000}")["partitions"]["count"] == 31


def test_foreign_hosts_and_origins_are_refused_and_nothing_can_be_posted(broker: ModelServer) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, producer.serve_status() as page:
        assert get(page.port, host="evil.example")[0] == 403
        assert get(page.port, Origin="http://evil.example")[0] == 403
        assert get(page.port, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"})[0] == 403
        assert get(page.port, "/nothing")[0] == 404
        status, _, headers = get(page.port, "/")
        assert (status, headers["X-Frame-Options"], headers["Cache-Control"]) == (200, "DENY", "no-store")
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=WAIT_S)
        connection.request("POST", "/status.json", body=b"{}")
        assert connection.getresponse().status == 501
        connection.close()


def test_connections_are_bounded_in_number_and_time(broker: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DEADLINE_S", 0.5)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, producer.serve_status() as page:
        slow = [socket.create_connection(("127.0.0.1", page.port), timeout=WAIT_S) for _ in range(MOST_CONNECTIONS)]
        with socket.create_connection(("127.0.0.1", page.port), timeout=WAIT_S) as one_more:
            assert one_more.recv(1000).startswith(b"HTTP/1.1 503")
        for each in slow:
            assert each.recv(1000) == b""
            each.close()
        until(lambda: get(page.port, "/health")[0] == 200)


def test_a_page_ends_with_its_client_however_that_ends(broker: ModelServer) -> None:
    client = Client(bootstrap_servers=broker.bootstrap_servers)
    producer = Producer(client)
    of_client, of_producer = client.serve_status(), producer.serve_status()
    producer.close()
    assert refuses(of_producer.port)
    assert not refuses(of_client.port)
    with pytest.raises(ClosedError):
        producer.serve_status()
    client.close()
    assert refuses(of_client.port)
    forgotten = Client(bootstrap_servers=broker.bootstrap_servers)
    port = forgotten.serve_status().port
    with pytest.warns(ResourceWarning, match="not closed"):  # noqa: PT031
        del forgotten
        gc.collect()
    until(lambda: refuses(port))


def test_the_processes_file_is_the_users_alone_and_goes_with_the_last_page(broker: ModelServer, runtime_folder: Path) -> None:
    file = runtime_folder / f"{os.getpid()}.json"
    with Producer(bootstrap_servers=broker.bootstrap_servers, client_id="p") as producer:
        first, second = producer.serve_status(), producer.serve_status()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700
        (process,) = processes.serving()
        assert process.pages == tuple({"url": page.url, "kind": "producer", "client_id": "p"} for page in (first, second))
        (runtime_folder / "999999999.json").write_text(file.read_text().replace(str(os.getpid()), "999999999"))
        assert [each.pid for each in processes.serving()] == [os.getpid()]
        assert not (runtime_folder / "999999999.json").exists()
    assert not file.exists()


def test_a_folder_that_others_may_write_to_is_not_believed(broker: ModelServer, runtime_folder: Path) -> None:
    runtime_folder.mkdir(mode=0o777)
    runtime_folder.chmod(0o777)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, producer.serve_status() as page:
        assert get(page.port)[0] == 200
        assert list(runtime_folder.iterdir()) == []
        assert processes.serving() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_port_or_the_file(broker: ModelServer, runtime_folder: Path) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        page = producer.serve_status()
        ends, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            os.read(ends, 1)
            os._exit(0)
        assert get(page.port)[0] == 200
        assert [process.pid for process in processes.serving()] == [os.getpid()]
        page.close()
        until(lambda: refuses(page.port))  # the child may not have begun
        os.close(end)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_wrong_port_is_refused(broker: ModelServer, port: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, pytest.raises(ConfigError, match="port"):
        producer.serve_status(port)


def test_a_port_that_is_taken_is_named(broker: ModelServer) -> None:
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        producer.serve_status() as page,
        pytest.raises(OSError, match=f"127.0.0.1:{page.port}.*port=0"),
    ):
        producer.serve_status(page.port)
