"""`copy` on model clusters: the same records, in the same partitions, and what a group commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka4 import Producer, TopicPartition
from pykafka4.cli.main import run
from pykafka4.testing import ModelServer
from tests.cli.records.conftest import Run
from tests.consumer.consuming import fill, numbers, topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FORM = "%p %T %k %s %h;"


def test_a_topic_is_copied_into_another_one(server: ModelServer, command: Run) -> None:
    topic(server, 4, 2)
    server.create_topic("u", 2)
    with Producer(bootstrap_servers=server.bootstrap_servers, compression_type="gzip") as producer:
        producer.send("t", "v", key="k", headers={"h": "1"}, partition=1)
    assert command("copy", "t", "--to-topic", "u").code == 0
    copied, original = (sorted(command("consume", name, "-f", FORM).out.split(b";")) for name in "ut")
    assert (len(copied), copied) == (8, original)
    assert command("copy", "t", "--to-topic", "u", "--from", "1", "--until", "3", "-p", "0").code == 0
    assert command("consume", "u", "-p", "0").out == b"0\n1\n2\n3\n1\n2\n"


def test_a_group_copies_only_what_is_new(server: ModelServer, command: Run, tmp_path: Path) -> None:
    topic(server, 4, 2)
    with ModelServer() as other:
        other.create_topic("t", 2)
        config = tmp_path / "other.properties"
        config.write_text(f"bootstrap.servers={other.bootstrap_servers}\n")
        assert command("copy", "t", "--to-bootstrap", other.bootstrap_servers, "--group", "g").code == 0
        assert server.committed("g") == {T0: 4, T1: 2}
        fill(server, "t", 0, numbers(4, 5))
        assert command("copy", "t", "--to-config", str(config), "--group", "g").code == 0
        assert server.committed("g") == {T0: 5, T1: 2}
        with Producer(bootstrap_servers=other.bootstrap_servers) as producer:
            assert producer.partitions_for("t") == [0, 1]
        assert sorted(command("consume", "t", "--bootstrap", other.bootstrap_servers).out.split()) == sorted(numbers(0, 5) + numbers(0, 2))


@pytest.mark.parametrize("group", [["--group", "g"], []])
def test_what_was_refused_is_told_and_not_committed(server: ModelServer, command: Run, group: list[str]) -> None:
    topic(server, 4)
    server.create_topic("u", 1)
    server.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="u")
    ran = command("copy", "t", "--to-topic", "u", *group)
    assert (ran.code, "TOPIC_AUTHORIZATION_FAILED" in ran.err) == (1, True)
    assert server.committed("g") == {}


def test_a_destination_that_cannot_be_reached_ends_it_within_its_limit(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    topic(server, 1)
    assert run(["copy", "t", "-b", server.bootstrap_servers, "--to-bootstrap", "127.0.0.1:1", "--timeout", "1"]) == 1
    assert "error: looking up topic t: not done within 1 s; no broker reachable: 127.0.0.1:1" in capsys.readouterr().err


def test_options_are_set_for_the_client_that_reads_and_for_the_one_that_writes(server: ModelServer, command: Run, profiles: Path) -> None:
    topic(server, 2)
    server.create_topic("u", 1)
    refused = ("--to-X", "max.in.flight.requests.per.connection=9")  # of an idempotent producer
    reads = ("-X", "fetch.max.bytes=100000", "-X", "client.id=reader")
    assert command("copy", "t", "--to-topic", "u", *reads).code == 0
    ran = command("copy", "t", "--to-topic", "u", *reads, *refused)
    assert (ran.code, "error: max_in_flight_requests_per_connection=9" in ran.err) == (2, True)
    with ModelServer() as other:
        other.create_topic("t", 1)
        profiles.parent.mkdir(parents=True)
        profiles.write_text(f"[other]\nbootstrap.servers = '{other.bootstrap_servers}'\n")
        named = (("--to-X", f"{name}={other.bootstrap_servers}") for name in ("bootstrap.servers", "metadata.broker.list"))
        for place in (*named, ("--to-profile", "other")):
            assert command("copy", "t", *place, *reads).code == 0
            assert command("copy", "t", *place, *reads, *refused).code == 2
        assert len(command("consume", "t", "--bootstrap", other.bootstrap_servers).out.split()) == 6


def test_an_option_of_the_wrong_client_names_the_right_option(server: ModelServer, command: Run, tmp_path: Path) -> None:
    topic(server, 1)

    def refused(*arguments: str) -> str:
        ran = command("copy", "t", "--to-topic", "u", *arguments)
        assert (ran.code, ran.out) == (2, b"")
        return " ".join(ran.err.split())

    assert "-X is for the client that reads; give --to-X linger.ms=5 for the client that writes" in refused("-X", "linger.ms=5")
    assert "fetch.max.bytes" in refused("--to-X", "fetch.max.bytes=5")
    assert "'--to-X': sasl.password: other users can see a command line" in refused("--to-X", "sasl.password=x")
    assert "give one of --to-config and --to-profile, not both" in refused("--to-config", "f", "--to-profile", "p")
    missing = tmp_path / "missing.properties"
    assert f"the file of --to-config cannot be read: {missing}: No such file" in refused("--to-config", str(missing))


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (["t"], "give --to-bootstrap, --to-config or --to-profile", 2),
        (["t", "--to-topic", "t"], "give --to-bootstrap, --to-config or --to-profile", 2),
        (["t", "w", "--to-topic", "u"], "copy several topics one by one", 2),
        (["t", "--to-topic", "narrow"], "has 2 partitions, narrow only 1", 1),
        (["nothing", "--to-topic", "u"], "UNKNOWN_TOPIC_OR_PARTITION", 1),
    ],
)
def test_what_cannot_be_copied_is_told(server: ModelServer, command: Run, arguments: list[str], text: str, code: int) -> None:
    topic(server, 4, 2)
    for name, count in (("u", 2), ("narrow", 1)):
        server.create_topic(name, count)
    ran = command("copy", *arguments)
    assert (ran.code, text in " ".join(ran.err.split())) == (code, True)
