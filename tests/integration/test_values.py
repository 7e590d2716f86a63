"""Deserializers on real brokers: records that they refuse are raised, skipped or dead letters, commits are right, and a kill loses none."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Consumer, DeserializationError, Producer
from tests.integration import poison_reader
from tests.integration.reading import GROUP, LONG_S, read

pytestmark = pytest.mark.cluster
COUNT = 300
POISON = {40, 41, 150, COUNT - 1}


def fill(cluster: Cluster, topic: str, poison: Callable[[int], bool], count: int = COUNT) -> None:
    """The numbers as JSON in partition 0, in large batches; poison records have other text."""
    with Producer(**cluster.client, linger_ms=50) as producer:
        for number in range(count):
            producer.send(topic, b"poison %d" % number if poison(number) else b"%d" % number, key=b"k", partition=0, headers={"h": b"1"})


def committed(consumer: Consumer[Any, Any], topic: str) -> int | None:
    consumer.commit()
    place = consumer.committed((topic, 0))
    return None if place is None else place.offset


def read_past_poison(consumer: Consumer[Any, Any], topic: str) -> list[Any]:
    """All values; each poison record is raised behind those before it, with its offset as the position that is committed."""
    found: list[Any] = []
    raised = []
    while len(raised) < len(POISON):
        try:
            found += [record.value for record in consumer.poll(LONG_S)]
        except DeserializationError as error:
            raised.append((error.offset, error.record.value, committed(consumer, topic)))
            consumer.seek((topic, 0), error.next_offset)
    assert raised == [(number, b"poison %d" % number, number) for number in sorted(POISON)]
    return found


@pytest.mark.main_job
def test_poison_in_the_middle_of_batches_is_raised_skipped_or_a_dead_letter(cluster: Cluster, topic: str) -> None:
    dead = f"{topic}-dead"
    for name in (topic, dead):
        cluster.create_topic(name, 1)
    fill(cluster, topic, POISON.__contains__)
    good = [number for number in range(COUNT) if number not in POISON]
    for reaction in ("raise", "skip", f"dead-letter:{dead}"):
        options = {**GROUP, "group_id": f"{topic}-{reaction[:4]}", "value_deserializer": "json", "on_poison": reaction}
        with Consumer(**cluster.client, **options) as consumer:
            consumer.subscribe([topic])
            if reaction == "raise":
                assert read_past_poison(consumer, topic) == good
                continue
            assert [record.value for record in read(consumer, len(good))] == good
            until(lambda: consumer.poll(0.1) == [] and committed(consumer, topic) == COUNT, LONG_S, "the last one to be passed")
            assert consumer.stats()["poison_records"] == len(POISON)
    with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(dead, 0)])
        letters = read(consumer, len(POISON))
    assert [letter.value for letter in letters] == [b"poison %d" % number for number in sorted(POISON)]
    assert [int(dict(letter.headers)["dead_letter.offset"] or -1) for letter in letters] == sorted(POISON)
    assert {(letter.key, dict(letter.headers)["h"]) for letter in letters} == {(b"k", b"1")}


def test_a_consumer_that_is_killed_among_dead_letters_loses_no_record(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    dead, count, file = f"{topic}-dead", 3_000, tmp_path / "processed"
    for name in (topic, dead):
        cluster.create_topic(name, 1)
    fill(cluster, topic, lambda number: number % 7 == 3, count)
    file.touch()
    arguments = [sys.executable, poison_reader.__file__, json.dumps(cluster.client), topic, dead, str(file)]
    good = {number for number in range(count) if number % 7 != 3}
    for kill_at in (len(good) // 3, 2 * len(good) // 3, len(good)):
        with subprocess.Popen(arguments) as reader:
            until(lambda at=kill_at: len(set(file.read_text().split())) >= at, LONG_S, f"{kill_at} records")  # type: ignore[misc]
            if kill_at == len(good):
                threading.Event().wait(1)  # for the dead letters behind the last record
            reader.kill()
    assert {int(line) for line in file.read_text().split()} == good
    with Consumer(**cluster.client, auto_offset_reset="earliest") as consumer:
        consumer.assign([(dead, 0)])
        lost = {b"poison %d" % number for number in range(count) if number % 7 == 3}
        until(lambda: not lost.difference_update(record.value for record in consumer.poll(1)) and not lost, LONG_S, "every dead letter")
