"""Folders are made once, whole or not at all; what is missing is one line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from integration.host import prerequisites
from integration.host.cache import cache, install
from integration.waiting import until
from tests.harness.traces import alive

ROOT = Path(__file__).parents[2]


def test_two_that_ask_at_once_get_one_folder_made_once(tmp_path: Path) -> None:
    made: list[Path] = []
    started = threading.Barrier(2)

    def fill(folder: Path) -> None:
        made.append(folder)
        (folder / "a.jar").touch()

    def ask() -> None:
        started.wait(10)
        assert (install(tmp_path / "jars", fill) / "a.jar").exists()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 1


def test_a_download_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "half.jar").touch()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        install(tmp_path / "jars", fill)
    assert not (tmp_path / "jars").exists()
    assert not list(tmp_path.rglob("half.jar"))


def test_incomplete_files_of_a_killed_process_are_removed_by_the_next_attempt_and_those_of_others_stay(tmp_path: Path) -> None:
    dead, neighbours = tmp_path / ".jars-dead0_12", tmp_path / ".jars-old-alive_12"
    for folder in (dead, neighbours):
        folder.mkdir()
        (folder / "half.jar").touch()
    install(tmp_path / "jars", lambda folder: (folder / "a.jar").touch())
    assert not dead.exists()
    assert (neighbours / "half.jar").exists()


def test_a_killed_download_ends_maven_and_the_next_attempt_removes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/half && mv {tmp_path}/half {tmp_path}/pid && exec sleep 100\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    with subprocess.Popen([sys.executable, "-c", "from integration.kafka.jars import kafka_jars; kafka_jars()"], cwd=ROOT) as process:
        until((tmp_path / "pid").exists, 30, "Maven to start")
        process.kill()
    until(lambda: not alive(int((tmp_path / "pid").read_text())), 10, "Maven to be gone")
    (kafka,) = (tmp_path / "cache").glob("kafka_*")
    folder = kafka / "jars"
    assert len(list(kafka.glob(".jars-*"))) == 1
    install(folder, lambda folder: (folder / "a.jar").touch())
    assert sorted(path.name for path in kafka.iterdir()) == [".jars.lock", "jars"]


def test_the_second_call_is_instant(tmp_path: Path) -> None:
    install(tmp_path / "jars", lambda folder: (folder / "a.jar").touch())
    began = time.monotonic()
    install(tmp_path / "jars", lambda _folder: pytest.fail("made again"))
    assert time.monotonic() - began < 0.1


def test_the_cache_goes_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKAFKA4_CACHE", str(tmp_path / "here"))
    assert cache() == tmp_path / "here"
    assert cache().is_dir()


def test_what_is_missing_is_one_line_with_the_command_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    lines = prerequisites.check()
    assert [line.split()[0] for line in lines] == ["java", "mvn"]
    assert all("apt-get install" in line and "\n" not in line for line in lines)
    with pytest.raises(prerequisites.MissingPrerequisite, match="openjdk"):
        prerequisites.require(*lines)


def java(home: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    """A program that says it is that version of Java, in JAVA_HOME."""
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return program


def test_an_old_java_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, "1.8.0_392")
    assert "java 8 is too old" in prerequisites.check()[0]


def test_a_java_without_a_compiler_and_a_java_home_that_leads_nowhere_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = java(tmp_path, monkeypatch, "17.0.1")
    assert "javac is missing" in prerequisites.check()[0]
    program.with_name("javac").symlink_to(program)
    assert prerequisites.missing_java() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert f"JAVA_HOME={tmp_path / 'nowhere'} has no bin/java" in prerequisites.check()[0]
