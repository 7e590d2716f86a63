"""`pykafka4 watch` at the page of a producer."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from pykafka4 import Producer
from pykafka4.cli.main import run
from pykafka4.testing import ModelServer


def test_processes_are_listed_and_one_is_shown_as_text_and_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert run(["watch"]) == 0
    assert "serve_status()" in capsys.readouterr().err
    with ModelServer(brokers=1) as server, Producer(bootstrap_servers=server.bootstrap_servers, client_id="shop") as producer:
        server.create_topic("orders", 2)
        page = producer.serve_status()
        producer.send("orders", b"1", partition=1).result()
        assert run(["watch"]) == 0
        assert [str(os.getpid()), page.url] == [word for word in capsys.readouterr().out.split() if word in (str(os.getpid()), page.url)]
        assert run(["watch", "--pid", str(os.getpid()), "--once"]) == 0
        shown = capsys.readouterr().out
        assert "orders-1" in shown
        assert "producer shop" in shown
        assert run(["watch", "--url", page.url, "--once", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == "producer"
    assert run(["watch", "--url", page.url, "--once"]) == 1
    assert "shows no status page" in capsys.readouterr().err
    assert run(["watch", "--pid", str(os.getpid())]) == 1
    assert run(["watch", "--pid", "1", "--url", page.url]) == 2


def test_a_long_name_leaves_room_for_the_other_columns_and_keeps_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    topic = "customers.orders.payments.created-events-v2-eu-central"
    with ModelServer(brokers=1) as server, Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        server.create_topic(topic, 2)
        page = producer.serve_status()
        producer.send(topic, b"1", partition=1).result()
        assert run(["watch", "--url", page.url, "--once"]) == 0
    shown = capsys.readouterr().out
    for text in ("…", "-events-v2-eu-central-1", "online", "oldest", "in flight", "reason"):
        assert text in shown


@contextmanager
def answering(data: bytes) -> Iterator[str]:
    """A server that sends `data` to its first client, whatever the client requests; the value is its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection = listener.accept()[0]
            with connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def page_of(found: object) -> bytes:
    return b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(found).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9.6\x1b[31m\r\n", "shows no status page (BadStatusLine: SSH-2.0-OpenSSH_9.6"),
        (page_of(5), "is not the status page of a client"),
        (page_of(["headline"]), "is not the status page of a client"),
    ],
)
def test_a_server_without_a_status_page_is_no_bug(data: bytes, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(data) as url:
        assert run(["watch", "--url", url, "--once"]) == 1
    shown = capsys.readouterr().err
    assert f"{url}: {expected}" in shown
    assert "\x1b" not in shown


def test_no_text_of_a_page_reaches_the_terminal_with_its_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "a\x1b[31mb"
    page = {
        "kind": nasty,
        "client_id": nasty,
        "program": nasty,
        "pid": nasty,
        "at": 1.0,
        "headline": {"level": "ok", "since": None, "text": nasty, "details": [nasty]},
        "rates": {"names": [nasty], nasty: [1.0], "now": {nasty: 1.0}},
        "member": {"group_id": nasty},
        "brokers": {"rows": [{"node": 1, "address": nasty, "state": nasty, "error": None, "in_flight": nasty}]},
        "partitions": {"columns": ["name", "state", "reason", nasty], "rows": [[nasty, nasty, nasty, nasty]], "found": 1},
    }
    with answering(page_of(page)) as url:
        assert run(["watch", "--url", url, "--once"]) == 0
    assert "\x1b" not in capsys.readouterr().out
