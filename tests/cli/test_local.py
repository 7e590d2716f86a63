"""A Kafka of this machine, as far as it needs no broker: missing programs are named with the way out, only its own processes are ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import javaproperties
import pytest

from pykafka4.cli import kafka, local
from pykafka4.cli.kafka import fetch, jars_of, java
from pykafka4.cli.local import HOST, LocalBroker, LocalCluster
from pykafka4.cli.main import run
from pykafka4.errors import KafkaError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """The cluster of an empty cache."""
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    return LocalCluster(tmp_path / "cache" / "local")


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def old_java(tmp_path: Path) -> Path:
    return program(tmp_path / "java-11" / "bin" / "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2").parents[1]


def test_without_java_the_package_is_named(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(Exception, match=r"cannot be run; Kafka needs Java 17 or newer .*openjdk-17"):
        java()
    monkeypatch.setenv("JAVA_HOME", str(old_java(tmp_path)))
    with pytest.raises(Exception, match=r'version "11.0.2".*Kafka needs Java 17'):
        java()


def test_a_java_that_does_not_answer_is_named(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path / "java" / "bin" / "java", "exec sleep 60").parents[1]))
    monkeypatch.setattr(kafka, "JAVA_VERSION_S", 0.1)
    with pytest.raises(Exception, match=r"java -version did not end within 0.1 s; Kafka needs Java 17.* or set JAVA_HOME"):
        java()


def test_without_maven_the_ways_out_are_named(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Exception, match=r"apt install maven.*--kafka DIR or KAFKA_HOME.*docker run"):
        fetch("4.4.0")


def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """A Maven that does this."""
    program(tmp_path / "bin" / "mvn", text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_each_file_that_maven_downloads_is_told(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = "echo '[INFO] Downloaded from central: mirror/org/apache/kafka/kafka_2.13-4.4.0.jar (8.2 MB at 1.0 MB/s)'"
    maven(monkeypatch, tmp_path, f'{line}; for each; do case $each in -DoutputDirectory=*) mkdir "${{each#*=}}";; esac; done')
    told: list[str] = []
    assert fetch("4.4.0", told.append) == tmp_path / "cache" / "kafka_2.13-4.4.0" / "jars"
    assert told == ["kafka_2.13-4.4.0.jar"]


def test_a_maven_that_takes_too_long_is_ended(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven(monkeypatch, tmp_path, "exec sleep 60")
    monkeypatch.setattr(kafka, "FETCH_S", 0.1)
    with pytest.raises(Exception, match=r"Maven did not fetch Kafka 4.4.0 within 0.1 s(?s:.*)--kafka DIR"):
        fetch("4.4.0")


def test_what_maven_could_not_fetch_leaves_no_folder(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven(monkeypatch, tmp_path, "echo no network; exit 1")
    with pytest.raises(Exception, match=r"(?s)Maven could not fetch Kafka 4.4.0.*no network"):
        fetch("4.4.0")
    assert list((tmp_path / "cache" / "kafka_2.13-4.4.0").iterdir()) == []


def test_java_reads_any_path_in_the_settings_of_a_broker(tmp_path: Path) -> None:
    (broker,) = LocalCluster(tmp_path / "größe\\😀").make(9092, 1)
    assert javaproperties.loads(broker.config.read_text("ascii"))["log.dirs"] == str(broker.folder / "data")


def test_a_folder_without_kafka_is_wrong_usage(here: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "up", "--kafka", str(tmp_path)]) == 2
    assert "has no jars of a Kafka 4 broker" in capsys.readouterr().err
    (tmp_path / "libs").mkdir()
    for name in ("kafka_2.13-4.1.0.jar", "kafka-server-4.1.0.jar"):
        (tmp_path / "libs" / name).touch()
    assert jars_of(tmp_path) == tmp_path / "libs"


def test_a_port_that_is_not_free_is_named(here: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["cluster", "up", "--port", str(port)]) == 1
    assert f"port {port} is not free" in capsys.readouterr().err


def test_the_number_of_brokers_stays(here: LocalCluster) -> None:
    assert [each.port for each in here.make(9092, 3)] == [9092, 9093, 9094]
    assert here.bootstrap == "localhost:9092,localhost:9093,localhost:9094"
    assert len(here.make(19092, 3)) == 3
    assert here.bootstrap.startswith("localhost:19092")
    with pytest.raises(Exception, match="give --brokers 3, or delete the data: pykafka4 cluster down --delete"):
        here.make(9092, 1)


def test_a_broker_that_ends_at_once_is_reported_with_its_log(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = 'case "$*" in *format*) exit 0;; esac; if [ "$1" = -version ]; then echo \'version "17"\'; else echo no space left; fi'
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path / "java" / "bin" / "java", text).parents[1]))
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(KafkaError, match=r"broker 1 has ended; the end of .*server.log:") as caught:
        here.start(here.make(port, 1), tmp_path)
    assert caught.value.__notes__ == ["no space left"]
    assert here.running() == []


def test_a_folder_that_is_not_formatted_in_time_is_named(here: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = 'if [ "$1" = -version ]; then echo \'version "17"\'; else exec sleep 60; fi'
    monkeypatch.setenv("JAVA_HOME", str(program(tmp_path / "java" / "bin" / "java", text).parents[1]))
    monkeypatch.setattr(local, "FORMAT_S", 0.1)
    with pytest.raises(KafkaError, match=r"the folder of broker 1 was not formatted within 0.1 s"):
        here.start(here.make(9092, 1), tmp_path)


def running(broker: LocalBroker) -> subprocess.Popen[bytes]:
    """A process that has the command line of a broker."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "kafka.Kafka", str(broker.config)])


def test_down_ends_only_processes_of_the_cluster(here: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = here.make(9092, 2)
    with running(first) as ours, subprocess.Popen(["sleep", "60"]) as foreign:
        (first.folder / "pid").write_text(str(ours.pid))
        (second.folder / "pid").write_text(str(foreign.pid))
        limit = time.monotonic() + 10
        while not here.running():
            assert time.monotonic() < limit
        assert run(["cluster", "status", "--json"]) == 0
        assert [each["pid"] for each in json.loads(capsys.readouterr().out)["brokers"]] == [ours.pid, None]
        assert run(["cluster", "down", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"ended": [1], "deleted": False}
        assert foreign.poll() is None
        foreign.kill()
    assert here.folder.exists()
    assert run(["cluster", "status"]) == 1
    assert run(["cluster", "down", "--delete"]) == 0
    assert not here.folder.exists()
