"""`groups rewind --live` on a model cluster: what it refuses before it joins, and how it asks the members."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykafka4.cli.main import run
from pykafka4.consumer import Consumer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from tests.consumer.consuming import fill, numbers
from tests.net.net_helpers import SECONDS, until

TP = TopicPartition("orders", 0)


@pytest.fixture
def rewind(server: ModelServer) -> list[str]:
    server.create_topic("orders", 1)
    fill(server, "orders", 0, numbers(0, 10))
    return ["groups", "rewind", "billing", "--topic", "orders", "--to-offset", "4", "--live", "-b", server.bootstrap_servers]


@contextmanager
def member(server: ModelServer, **options: object) -> Iterator[list[int]]:
    """A member that polls, and the offsets that it was handed; it has read and committed all."""
    stop, seen = threading.Event(), list[int]()
    short = {"fetch_max_wait_ms": 50, "auto_commit_interval_ms": 20, "auto_offset_reset": "earliest", "group_id": "billing"}
    consumer = Consumer(bootstrap_servers=server.bootstrap_servers, **{**short, **options})
    consumer.subscribe(["orders"])

    def poll() -> None:
        while not stop.is_set():
            seen.extend(record.offset for record in consumer.poll(0.02))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        until(lambda: server.do(lambda cluster: (at := cluster.group("billing").offsets.get(TP)) is not None and at.offset == 10))
        seen.clear()
        yield seen
    finally:
        stop.set()
        thread.join(SECONDS)
        consumer.close(1)


def test_without_execute_the_plan_is_shown_and_nothing_joins(
    server: ModelServer, rewind: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with member(server, heartbeat_interval_ms=50) as seen:
        assert run(rewind) == 0
        shown = capsys.readouterr()
        assert "nothing has been changed" in shown.err
        assert shown.out.split("\n")[1].split()[:4] == ["orders", "0", "10", "4"]
        assert seen == []


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_the_members_go_on_from_there(server: ModelServer, rewind: list[str], assignor: str, capsys: pytest.CaptureFixture[str]) -> None:
    with member(server, heartbeat_interval_ms=50, partition_assignment_strategy=assignor) as seen:
        assert run([*rewind, "--execute", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["executed"] is True
        until(lambda: seen == [4, 5, 6, 7, 8, 9])


def test_a_group_without_members_needs_no_live(server: ModelServer, rewind: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with member(server, heartbeat_interval_ms=50):
        pass
    until(lambda: server.do(lambda cluster: not cluster.group("billing").members))
    assert run([*rewind, "--execute"]) == 1
    assert "group billing has no members: leave out --live" in capsys.readouterr().err


def test_an_id_without_a_group_of_consumers_is_told(rewind: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*rewind, "--execute"]) == 1
    assert "no group of consumers has the id billing: leave out --live" in capsys.readouterr().err


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_members_that_cannot_rewind_are_named_before_anything_joins(
    server: ModelServer, rewind: list[str], execute: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with member(server, partition_assignment_strategy="sticky", client_id="sticks") as seen:
        before = server.do(lambda cluster: cluster.group("billing").generation)
        server.fail("JoinGroup", "GROUP_AUTHORIZATION_FAILED", times=1)  # a join would end the command with this error
        assert run([*rewind, *execute]) == 1
        shown = capsys.readouterr().err
        assert "group billing is not rewound, and nothing has changed: member sticks-" in shown
        assert "(client sticks, host 127.0.0.1) is not a member that can rewind" in shown
        assert "with an assignor other than 'sticky'" in shown
        assert server.do(lambda cluster: cluster.group("billing").generation) == before
        assert seen == []


def test_a_group_of_the_consumer_protocol_is_refused(server: ModelServer, rewind: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with member(server, group_protocol="consumer") as seen:
        assert run([*rewind, "--execute"]) == 1
        assert "group billing is of the consumer protocol (KIP-848)" in capsys.readouterr().err
        assert seen == []
