"""When the agent ends, puts the producer's undelivered records in front of the messages on disk, because these records are older."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pykafka4.agent.format import pack, parse
from pykafka4.agent.spool.disk import Disk
from pykafka4.agent.spool.fifo import Fifo
from pykafka4.agent.spool.frames import crc_of
from pykafka4.agent.spool.replay import Unsettled
from pykafka4.agent.spool.segment import BLOCK
from pykafka4.logs import get_log
from pykafka4.records import ProducerRecord

__all__ = ["direct", "put_back"]

log = get_log("pykafka4.agent.spool")

Content: TypeAlias = tuple[bytes | None, bytes | None, int | None, int | None]  # value, key, partition, timestamp


def direct(undelivered: Sequence[ProducerRecord], sent: Mapping[str, Sequence[Unsettled]], empty: bytes | None) -> list[ProducerRecord]:
    """Return the records of `undelivered` that did not come from the disk. `sent` has the messages from the disk, by topic.

    Records have no mark of their origin, so their content decides. If one of two records with the same content came from the disk, it
    is the newer one, because a topic's direct messages are older. So the search begins with the newest record.
    """
    from_disk = {topic: Counter(_content(each, empty) for each in messages) for topic, messages in sent.items()}
    kept: list[ProducerRecord] = []
    for record in reversed(undelivered):
        known = from_disk.get(record.topic)
        content = record.value, record.key, record.partition, record.timestamp_ms
        if known and known[content] > 0:
            known[content] -= 1
        else:
            kept.append(record)
    kept.reverse()
    return kept


def _content(sent: Unsettled, empty: bytes | None) -> Content:
    """Return the content of the message's record, which has the partition key as its partition while the topic is unknown."""
    _, value, key, partition_key, _ = parse(sent.message, empty)
    return value, key, partition_key if sent.partition is None else sent.partition, sent.timestamp_ms


def put_back(records: Sequence[ProducerRecord], fifo_of: Callable[[str], Fifo], disk: Disk) -> list[ProducerRecord]:
    """Write records in front of the messages on disk; return the records that were not written.

    A record's partition becomes its partition key, which usually chooses the same partition again.
    """
    left: list[ProducerRecord] = []
    by_topic: dict[str, list[ProducerRecord]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    for topic, of_topic in by_topic.items():
        left += _put_topic(topic, of_topic, fifo_of, disk)
    return left


def _put_topic(topic: str, records: list[ProducerRecord], fifo_of: Callable[[str], Fifo], disk: Disk) -> list[ProducerRecord]:
    frames: list[bytes] = []
    room = disk.max_size - disk.bytes - 2 * BLOCK  # the topic's folder, and the rest of the segment's last block
    for record in records:
        body = pack(topic.encode(), record.value or b"", record.key or b"", record.partition, record.timestamp_ms or 0)
        room -= len(body) + 4
        if room < 0:
            break
        frames.append(crc_of(body) + body)
    if not frames:
        return records
    try:
        fifo_of(topic).put_in_front(b"".join(frames), len(frames), records[0].timestamp_ms or 0)
    except OSError as refused:
        disk.fail(f"write the undelivered messages of topic {topic}", refused)
        return records
    return list(itertools.islice(records, len(frames), None))
