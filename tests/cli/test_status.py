"""`pykafka4 status`: lines for people and for programs, and the exit code."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pykafka4.cli.main import run
from pykafka4.testing import ModelServer
from tests.diagnosis.looking import closed

ONE = pytest.mark.model(brokers=1, topics={"t": 1})


@ONE
def test_a_sound_cluster_is_code_0_and_a_line_for_each_step(server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--bootstrap", server.bootstrap_servers]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["✓", step] for step in ("names", "ports", "login", "brokers", "listeners", "controller", "leaders", "replicas")
    ]
    assert lines[-1] == "nothing is wrong"


def test_what_is_wrong_is_code_1_with_evidence_and_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-b", address := closed(), "status"]) == 1
    out = capsys.readouterr()
    assert f"✗  ports      {address}: refuses connections\n              127.0.0.1: connection refused\n              → " in out.out
    assert "?             not checked: login, brokers, listeners, controller, topics" in out.out
    assert out.out.endswith("one thing is wrong\n")
    assert out.err == ""


def test_programs_get_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "-b", closed(), "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["step"] for one in found if one["outcome"] == "wrong"] == ["ports"]
    assert all(one.keys() == {"step", "about", "outcome", "what", "evidence", "way_out"} for one in found)


def test_an_output_without_signs_gets_words(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    run(["status", "-b", closed()])
    out.flush()
    text = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "XX ports" in text
    assert "-> nothing listens there" in text


def test_wrong_options_are_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "-b", "127.0.0.1:1", "-X", "ssl.ca.location=/nowhere.pem", "-X", "security.protocol=SSL"]) == 2
    assert "nowhere.pem" in capsys.readouterr().err
