"""`pykafka4 bench` on model brokers: its figures, and what it leaves behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka4 import AdminClient, BrokerError, KafkaTimeoutError
from pykafka4.cli.main import run
from pykafka4.testing import ModelServer

SMALL = ["--partitions", "2", "--rate", "50", "--latency-seconds", "2"]


def topics(server: ModelServer) -> list[str]:
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
        return [name for name in admin.list_topics() if name.startswith("pykafka4-bench")]


def test_each_phase_has_its_figures_and_the_topic_is_deleted(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "-b", server.bootstrap_servers, "--records", "2500", *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    phases = {line["phase"]: line for line in map(json.loads, out.splitlines())}
    assert (list(phases), err) == (["produce", "consume", "ack", "end to end"], "")
    assert phases["produce"]["records"] == 2500
    assert phases["consume"]["records"] in {2500, 2501}  # the one that connected may be among the first
    for name in ("produce", "ack", "end to end"):
        latency = phases[name]["latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["p99.9"]
    assert phases["end to end"]["records"] == pytest.approx(100, abs=5)
    for name in ("produce", "consume"):
        assert phases[name]["cpu_us_per_record"] > 0
        assert phases[name]["mb_per_s"] == pytest.approx(phases[name]["records_per_s"] * 100 / 1e6, rel=0.01)
    assert topics(server) == []


def test_people_get_a_table(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seconds", "0.2", "--acks", "1", "--compression", "lz4", "--size", "1000"]
    assert run(["bench", "-b", server.bootstrap_servers, *options, *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PHASE", "RECORDS", "RECORDS/S", "MB/S", "CPU/RECORD", "P50", "P99", "P99.9"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["produce", "consume", "ack", "end to end"]


def test_records_that_fail_end_the_bench_and_the_topic_is_deleted(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=1000)
    assert run(["bench", "-b", server.bootstrap_servers, "--records", "100", *SMALL]) == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().err
    assert topics(server) == []


@pytest.mark.parametrize("is_created", [True, False])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (KafkaTimeoutError("created, but not known"), 1),
        (BrokerError(29, "no right to describe the topic"), 1),
    ],
)
def test_a_topic_is_deleted_if_the_wait_for_its_creation_ends(
    error: BaseException,
    code: int,
    is_created: bool,
    server: ModelServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = AdminClient.create_topics

    def interrupted(admin: AdminClient, *args: Any, **kwargs: Any) -> None:
        if is_created or "wait" not in kwargs:
            create(admin, *args, **kwargs)
        if "wait" in kwargs:
            raise error

    monkeypatch.setattr(AdminClient, "create_topics", interrupted)
    assert run(["bench", "-b", server.bootstrap_servers]) == code
    assert topics(server) == []
    assert "not deleted" not in capsys.readouterr().err


def test_a_topic_that_brokers_refuse_is_not_deleted(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    for api in ("CreateTopics", "DeleteTopics"):
        server.fail(api, "TOPIC_AUTHORIZATION_FAILED")
    assert run(["bench", "-b", server.bootstrap_servers]) == 1
    assert "not deleted" not in capsys.readouterr().err


def test_a_topic_that_is_left_is_named_with_the_way_out(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    for api in ("Produce", "DeleteTopics"):
        server.fail(api, "TOPIC_AUTHORIZATION_FAILED", times=1000)
    assert run(["bench", "-b", server.bootstrap_servers, "--records", "100", *SMALL]) == 1
    (name,) = topics(server)
    assert f"pykafka4 topics delete {name} --execute" in capsys.readouterr().err


def test_records_and_seconds_together_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "-b", "127.0.0.1:1", "--records", "1", "--seconds", "1"]) == 2
    assert "give --records or --seconds" in capsys.readouterr().err
