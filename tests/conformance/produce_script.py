"""Produce: every error that a single request can reach, sequences, epochs, timestamps, keys, acks."""

from __future__ import annotations

import struct
import time
from typing import Any
from uuid import UUID

from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.checksum import crc32c
from tests.conformance.worlds import World, error, eventually

BY_ID, BY_NAME = 13, 12
BOTH_LIMITS = 10  # the Produce of releases that limit timestamps in both directions (3.6 does, too, but has no version of its own)
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(count: int = 1, *, pid: int = -1, epoch: int = -1, sequence: int = -1, time_ms: int | None = None, **options: Any) -> bytes:
    at = now_ms() if time_ms is None else time_ms
    records = [WireRecord(timestamp_ms=at, key=b"k%d" % n, value=b"v%d" % n) for n in range(count)]
    return build_batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **options)


def sealed(data: bytes, at: int, form: str, value: int) -> bytes:
    """The batch with one field changed and a right checksum."""
    body = bytearray(data)
    struct.pack_into(form, body, at, value)
    struct.pack_into(">I", body, 17, crc32c(bytes(body[21:])))
    return bytes(body)


def when(stamp: int) -> str | int:
    """Append times are observed as "now"."""
    return "now" if abs(stamp - now_ms()) < 120_000 else stamp


def put(
    world: World,
    topic: str,
    data: bytes | None,
    *,
    node: int | None = None,
    partition: int = 0,
    acks: int = -1,
    version: int = BY_ID,
    topic_id: UUID | None = None,
    timeout_ms: int = 5000,
) -> Any:
    """What a Produce of one batch is answered."""
    message = request(world, topic, data, partition, acks, topic_id, timeout_ms)
    at = world.leader(topic, partition) if node is None else node
    return observed(world.ask(at, message, version), world.version(at, ProduceRequest, version))


def request(
    world: World, topic: str, data: bytes | None, partition: int, acks: int, topic_id: UUID | None, timeout_ms: int
) -> ProduceRequest:
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    entry = ProduceRequest.Topic(name=topic, topic_id=topic_id or world.ids.get(topic) or UUID(int=7), partition_data=[part])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=[entry])


def observed(answer: Any, version: int) -> Any:
    if answer == "closed":
        return answer
    row = answer.responses[0].partition_responses[0]
    told = [error(row.error_code), row.base_offset, when(row.log_append_time_ms)]
    if version >= 5:
        told.append(row.log_start_offset)
    if version >= 8:
        told += [[e.batch_index for e in row.record_errors or []], row.error_message is not None]
    if version >= 10:
        told += ["leader told" if row.current_leader.leader_id >= 0 else "no leader", len(answer.node_endpoints)]
    return told


def producer(world: World) -> int:
    message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)

    def given() -> int | None:
        answer = world.ask(1, message, 4)
        return None if answer.error_code else int(answer.producer_id)

    return eventually(given, "a producer id")


def formats(world: World) -> None:
    topic = world.create("formats", 2)
    good = batch()
    steps = {
        "a batch": good,
        "another batch": batch(3),
        "nothing": b"",
        "a header cut short": good[:30],
        "a batch cut short": good[:-1],
        "two batches": good + good,
        "a wrong checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "a length of 0": bytes(61),
        "a base offset": build_batch([WireRecord(timestamp_ms=now_ms(), value=b"v")], base_offset=7),
        "magic 3": good[:16] + b"\x03" + good[17:],
        "a control batch": sealed(good, 21, ">h", 0x20),
        "fewer records than counted": sealed(good, 57, ">i", 2),
        "a last offset delta beyond the count": sealed(good, 23, ">i", 5),
        "no records": sealed(good, 57, ">i", 0),
        "a producer id without a sequence": batch(pid=5, epoch=0, sequence=-1),
        "a codec that nobody knows": sealed(good, 21, ">h", 7),
        "transactional": sealed(batch(pid=5, epoch=0, sequence=0), 21, ">h", 0x10),
        "a leader epoch": build_batch([WireRecord(timestamp_ms=now_ms(), value=b"v")], leader_epoch=9),
        "the last batch": batch(),
    }
    for step, data in steps.items():
        world.note(f"produce {step}", put(world, topic, data))
    world.note("produce by name", put(world, topic, batch(), version=BY_NAME))
    world.note("produce in version 3", put(world, topic, batch(), version=3))
    world.note("produce zstd in version 6", put(world, topic, batch(codec=4), version=6))
    world.note("produce zstd", put(world, topic, batch(codec=4)))
    world.note("produce acks=1", put(world, topic, batch(), acks=1))
    world.note("produce acks=2", put(world, topic, batch(), acks=2))
    if not world.alone:
        world.note("produce to a follower", put(world, topic, batch(), node=world.follower(topic)))
        world.note("produce to a follower in version 9", put(world, topic, batch(), node=world.follower(topic), version=9))
    world.note("produce to no partition", put(world, topic, batch(), node=1, partition=9))
    world.note("produce to no partition by name", put(world, topic, batch(), node=1, partition=9, version=BY_NAME))
    world.note("produce to no topic", put(world, "nothing-of-that-name", batch(), node=1, version=BY_NAME))
    world.note("produce to no topic id", put(world, "nothing-of-that-name", batch(), node=1))
    small = world.create("small", configs={"max.message.bytes": "200"})
    world.note("produce too large", put(world, small, batch(50)))
    damaged = batch(50)
    world.note("produce too large and damaged", put(world, small, damaged[:-1] + bytes([damaged[-1] ^ 1])))
    world.note("produce small enough", put(world, small, batch()))


class Sequences:
    """Batches of one producer."""

    def __init__(self, world: World) -> None:
        self.world, self.pid = world, producer(world)

    def send(self, step: str, topic: str, sequence: int, count: int = 1, epoch: int = 0, partition: int = 0) -> None:
        data = batch(count, pid=self.pid, epoch=epoch, sequence=sequence)
        self.world.note(f"sequence {step}", put(self.world, topic, data, partition=partition))


def sequences(world: World) -> None:
    world.note("two producer ids", producer(world) == producer(world))
    send = Sequences(world).send
    topic = world.create("sequences", 2)
    send("first", topic, 0, 2)
    send("repeated", topic, 0, 2)
    send("repeated in part", topic, 0, 1)
    send("gap", topic, 5)
    send("next", topic, 2)
    for n in range(3, 8):
        send(f"{n}", topic, n)
    send("repeated, the fifth before", topic, 3)
    send("repeated, the sixth before", topic, 2)
    send("new epoch from 4", topic, 4, epoch=1)
    send("new epoch from 0", topic, 0, epoch=1)
    send("old epoch", topic, 8, epoch=0)
    send("old epoch repeated", topic, 7, epoch=0)
    send("new epoch next", topic, 1, epoch=1)
    send("epochs skipped", topic, 0, epoch=7)
    send("unknown producer", topic, 9, epoch=0, partition=1)
    send("unknown producer next", topic, 10, epoch=0, partition=1)
    send("unknown producer gap", topic, 12, epoch=0, partition=1)
    last = 2**31 - 1
    wrapping, across = world.create("wrapping"), world.create("across")
    send("before the wrap", wrapping, last - 1, 2)
    send("after the wrap", wrapping, 0)
    send("before the wrap repeated", wrapping, last - 1, 2)
    send("across the wrap", across, last - 1, 4)
    send("behind the wrap", across, 2)
    stamped = world.create("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    send("stamped", stamped, 0)
    send("stamped repeated", stamped, 0)


def leaders(world: World) -> None:
    """Sequences after the leader changed."""
    send = Sequences(world).send
    topic = world.create("moved")
    send("before the leader moves", topic, 0)
    world.move(topic)
    send("repeated at the new leader", topic, 0)
    send("next at the new leader", topic, 1)
    send("gap at the new leader", topic, 3)


def recreated(world: World) -> None:
    """A topic that is deleted and made again."""
    numbered = Sequences(world)
    topic = world.create("again")
    numbered.send("before the topic is deleted", topic, 0)
    old_id = world.ids[topic]
    leader = world.leader(topic)
    world.delete(topic)
    world.note("produce to a deleted topic by id", put(world, topic, batch(), node=leader, topic_id=old_id))
    world.note("produce to a deleted topic by name", put(world, topic, batch(), node=leader, version=BY_NAME))
    world.create("again")
    stale = batch(pid=numbered.pid, epoch=0, sequence=1)
    world.note("produce to a topic made again by its old id", put(world, topic, stale, topic_id=old_id))
    numbered.send("1 after the topic was made again", topic, 1)
    numbered.send("2 after the topic was made again", topic, 2)


def records(world: World) -> None:
    """Records that are refused by name."""
    now = now_ms()
    newer = world.version(1, ProduceRequest, BOTH_LIMITS) >= BOTH_LIMITS
    names = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms") if newer else ("message.timestamp.difference.max.ms",)
    limits = dict.fromkeys(names, str(HOUR_MS))
    timed = world.create("timed", configs=limits)

    def stamped(*shifts: int | None, codec: int = 0, pid: int = -1, sequence: int = -1) -> bytes:
        rows = [WireRecord(timestamp_ms=-1 if s is None else now + s, key=b"k", value=b"v") for s in shifts]
        return build_batch(rows, codec=codec, producer_id=pid, producer_epoch=0 if pid >= 0 else -1, base_sequence=sequence)

    world.note("timestamps in range", put(world, timed, stamped(0, -HOUR_MS // 2, HOUR_MS // 2)))
    world.note("one too old", put(world, timed, stamped(0, -2 * HOUR_MS, 0)))
    world.note("one too new, one too old", put(world, timed, stamped(2 * HOUR_MS, 0, -2 * HOUR_MS)))
    world.note("all too old", put(world, timed, stamped(-2 * HOUR_MS, -2 * HOUR_MS)))
    world.note("one too old, compressed", put(world, timed, stamped(0, -2 * HOUR_MS, 0, codec=1)))
    world.note("no timestamp", put(world, timed, stamped(None)))
    world.note("one too old in version 7", put(world, timed, stamped(0, -2 * HOUR_MS), version=7))
    pid = producer(world)
    world.note("too old with a sequence gap", put(world, timed, stamped(-2 * HOUR_MS, pid=pid, sequence=5)))
    world.note("in range, the same sequence", put(world, timed, stamped(0, pid=pid, sequence=0)))
    world.note("too old, a repeated sequence", put(world, timed, stamped(-2 * HOUR_MS, pid=pid, sequence=0)))
    free = world.create("free")
    world.note("far future by default", put(world, free, stamped(1000 * HOUR_MS)))
    world.note("far past by default", put(world, free, stamped(-300_000 * HOUR_MS)))
    own = world.create("own", configs={**limits, "message.timestamp.type": "LogAppendTime"})
    world.note("too old where the broker stamps", put(world, own, stamped(-2 * HOUR_MS)))
    compacted = world.create("compacted", configs={"cleanup.policy": "compact", **limits})

    def keyed(*keys: bytes | None, codec: int = 0, shift: int = 0) -> bytes:
        return build_batch([WireRecord(timestamp_ms=now + shift * n, key=key, value=b"v") for n, key in enumerate(keys)], codec=codec)

    world.note("compacted, keys", put(world, compacted, keyed(b"a", b"")))
    world.note("compacted, some without a key", put(world, compacted, keyed(b"a", None, b"b", None)))
    world.note("compacted, without a key, compressed", put(world, compacted, keyed(b"a", None, codec=2)))
    world.note("compacted, without a key and too old", put(world, compacted, keyed(None, b"a", b"b", shift=-HOUR_MS - 1)))


TRIES = 4


def unconfirmed(world: World) -> None:
    """Errors that come after the append: the in-sync replicas do not confirm in time, or the leader changes meanwhile.

    Where the frozen replica leaves the in-sync replicas before the election is over, as on a slow machine, the batch is acknowledged, and
    the script begins again with another topic.
    """
    for number in range(TRIES):
        notes = lost_while_waiting(world, f"unconfirmed-{number}")
        if notes["leadership lost while waiting"][1][0] != "NONE":
            break
    for what, seen in notes.items():
        world.note(what, seen)


def lost_while_waiting(world: World, name: str) -> dict[str, list[Any]]:
    notes: dict[str, list[Any]] = {}
    topic = world.create(name)
    frozen = next(node for node in world.place.nodes if node != world.place.controller())
    leader, other = (node for node in world.place.nodes if node != frozen)
    if world.leader(topic) != leader:
        world.place.move_leader(topic, 0, leader)
    eventually(lambda: world.leader(topic) == leader, f"{leader} to lead {topic}")
    world.place.prefer(topic, 0, other)
    notes["confirmed"] = put(world, topic, batch(), node=leader)
    line = world.line(leader)
    patient = request(world, topic, batch(), 0, -1, None, 20_000)
    world.place.freeze(frozen)
    notes["not confirmed in time"] = put(world, topic, batch(), node=leader, timeout_ms=300)
    number = line.send(patient, BY_ID)
    quiet = line.quiet(0.1)
    world.place.elect(topic, 0, other)
    notes["leadership lost while waiting"] = [quiet, observed(line.receive(number), BY_ID)]
    world.place.thaw(frozen)
    eventually(lambda: world.leader(topic) == other and world.knows_its_end(other, topic, 0), f"{other} to lead {topic}")
    notes["what is in the log"] = put(world, topic, batch(), node=other)[:2]
    return notes


def replicas(world: World) -> None:
    """Too few in-sync replicas; the cluster misses a broker meanwhile."""
    topic = world.create("replicas", configs={"min.insync.replicas": "3"})
    two = world.create("two", configs={"min.insync.replicas": "2"})
    world.note("all in sync", put(world, topic, batch()))
    gone = world.follower(topic)
    if world.leader(two) == gone:
        world.move(two)
    world.place.stop(gone)
    world.lines.pop(gone).close()
    left = next(node for node in world.place.nodes if node != gone)
    leader = next(p.leader_id for p in world.metadata(left, topic).partitions)
    other = next(p.leader_id for p in world.metadata(left, two).partitions)
    world.note("one less in sync than wanted", put(world, topic, batch(), node=leader))
    world.note("one less in sync than wanted, acks=1", put(world, topic, batch(), node=leader, acks=1))
    world.note("enough in sync", put(world, two, batch(), node=other))
    world.place.start(gone)
    world.note("in sync again", put(world, topic, batch(), node=leader))


def restarted(world: World) -> None:
    """Sequences at a broker that leads after a restart: it knows only the last batch of a producer."""
    send = Sequences(world).send
    topic = world.create("restarted")
    for n in range(5):
        send(f"{n} before the restart", topic, n)
    back = world.follower(topic)
    send("repeated before the restart", topic, 0)
    world.place.stop(back)
    world.lines.pop(back).close()
    world.place.start(back)
    world.place.move_leader(topic, 0, back)
    eventually(lambda: world.leader(topic) == back and world.knows_its_end(back, topic, 0), f"{back} to lead {topic}")
    send("the last one repeated after the restart", topic, 4)
    send("the one before repeated after the restart", topic, 3)
    send("next after the restart", topic, 5)


SCRIPTS = (formats, sequences, leaders, recreated, records)
