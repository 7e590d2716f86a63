"""`pykafka4 watch` at the page of a producer."""

from __future__ import annotations

import json
import os
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
