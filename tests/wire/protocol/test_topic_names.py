"""Topic names in a Metadata response: of every version, from damaged bytes, and of many partitions."""

from __future__ import annotations

from random import Random

import pytest

from pykafka4.errors import DecodeError
from pykafka4.wire.protocol.frame import encode_response
from pykafka4.wire.protocol.messages_cluster import MetadataResponse
from pykafka4.wire.protocol.topic_names import TopicNames, read_topic_names
from tests.wire.memory_meter import MIB, linux, traced

VERSIONS = tuple(range(MetadataResponse.versions.lo, MetadataResponse.versions.hi + 1))
Topic = MetadataResponse.Topic


def partitions(count: int, version: int) -> list[MetadataResponse.Topic.Partition]:
    offline = [3] if version >= 5 else []
    return [
        Topic.Partition(partition_index=i, leader_id=1, replica_nodes=[1] * (100 * i), isr_nodes=[1, 2], offline_replicas=offline)
        for i in range(count)
    ]


def frame(version: int, *topics: MetadataResponse.Topic, brokers: int = 2, error_code: int = 0) -> bytes:
    message = MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=n, host="h", port=9, rack="r" if version and n else None) for n in range(brokers)],
        cluster_id="c" if version >= 2 else None,
        controller_id=1 if version else -1,
        topics=list(topics),
        error_code=error_code,
    )
    return b"".join(map(bytes, encode_response(message, version, 7)))[4:]


def usual(version: int) -> bytes:
    topics = (
        Topic(error_code=0, name="a", partitions=partitions(3, version)),
        Topic(error_code=3, name="broken", partitions=[]),
        Topic(error_code=0, name="own", is_internal=version > 0, partitions=partitions(1, version)),
    )
    return frame(version, *topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_read_whatever_the_version(version: int) -> None:
    assert read_topic_names(version, usual(version)) == TopicNames(2, {"a": False, "own": version > 0})
    assert read_topic_names(version, frame(version, brokers=0)) == TopicNames(0, {})


def test_the_error_of_the_whole_response_is_read() -> None:
    assert read_topic_names(13, frame(13, error_code=129)).error_code == 129


@pytest.mark.parametrize("version", [VERSIONS[0], 7, 9, VERSIONS[-1]])
def test_damaged_bytes_raise_only_decode_errors(version: int) -> None:
    whole, random = usual(version), Random(version)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_topic_names(version, whole[:size])
    for extra in (b"\0", b"\xff" * 9):
        with pytest.raises(DecodeError):
            read_topic_names(version, whole + extra)
    for _ in range(3000):
        damaged = bytearray(whole)
        damaged[random.randrange(4, len(damaged))] = random.randrange(256)
        try:
            read_topic_names(version, bytes(damaged))
        except DecodeError:
            continue


@linux
def test_partitions_take_no_memory() -> None:
    topics = [Topic(error_code=0, name=f"topic-{i}", partitions=partitions(2, 12)) for i in range(20_000)]
    whole = frame(12, *topics)
    assert traced(lambda: read_topic_names(12, whole)) < 8 * MIB
