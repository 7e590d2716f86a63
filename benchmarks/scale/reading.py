"""Runs a consumer in its own process: `python -m benchmarks.scale.reading CLIENT BOOTSTRAP` carries out the methods of `Orders`.

Invariant: a call returns when the client has carried it out. A client that only queues a call for its loop would look faster than it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmarks.meter import cpu, loop_cpu
from benchmarks.scale.orders import Memory, obey
from benchmarks.scale.shape import Place

__all__ = ["Reader"]

LONG_S = 300.0
AT_ONCE = 1000  # records in a poll
PER_PARTITION_KIB = 1024  # that confluent-kafka may fetch ahead of a partition: a partition with more is full


class Reader(Protocol):
    """The calls that both consumers have."""

    def assign(self, places: Sequence[Place]) -> None:
        """Read these partitions: a new one from its first record on, one that was assigned before from its position on."""

    def poll(self, seconds: float) -> int:
        """Wait up to `seconds`; return the number of records that came."""

    def pause(self) -> None:
        """Pause all assigned partitions."""

    def resume(self) -> None:
        """Resume all assigned partitions."""

    def seek_each(self) -> None:
        """Seek every partition to its first record, with one call for each."""

    def seek_all(self) -> None:
        """Seek all partitions to their first records with one call, where the client has such a call."""

    def seek_to_beginning(self) -> None:
        """Call the client's method of this name, where the client has it."""

    def loop_cpu(self) -> float:
        """Return the CPU seconds of the client's own threads, or of the whole process where they cannot be told apart."""


class Ours:
    def __init__(self, bootstrap: str) -> None:
        import pykafka4

        self._kind = pykafka4.TopicPartition
        self._client = pykafka4.Client(bootstrap_servers=bootstrap)
        self._consumer = pykafka4.Consumer(client=self._client, auto_offset_reset="earliest")
        self._assigned: list[Any] = []

    def assign(self, places: Sequence[Place]) -> None:
        self._assigned = [self._kind(*place) for place in places]
        self._consumer.assign(self._assigned)

    def poll(self, seconds: float) -> int:
        return len(self._consumer.poll(seconds, AT_ONCE))

    def pause(self) -> None:
        self._consumer.pause(self._assigned)
        self._wait_for_loop()

    def resume(self) -> None:
        self._consumer.resume(self._assigned)
        self._wait_for_loop()

    def seek_each(self) -> None:
        for place in self._assigned:
            self._consumer.seek(place, 0)
        self._wait_for_loop()

    def seek_all(self) -> None:
        self._consumer.seek(dict.fromkeys(self._assigned, 0))
        self._wait_for_loop()

    def seek_to_beginning(self) -> None:
        self._consumer.seek_to_beginning()
        self._wait_for_loop()

    def loop_cpu(self) -> float:
        return loop_cpu()

    def _wait_for_loop(self) -> None:
        """The loop answers this request at once, but after everything that was posted before."""
        self._client.partitions_for(self._assigned[0].topic, LONG_S)


class Theirs:
    """confluent-kafka, whose calls wait for the thread that carries them out."""

    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka

        self._kind = confluent_kafka.TopicPartition
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "queued.max.messages.kbytes": PER_PARTITION_KIB,
            }
        )
        self._places: dict[Place, Any] = {}

    def assign(self, places: Sequence[Place]) -> None:
        wanted = set(places)
        gone = [self._places.pop(place) for place in list(self._places) if place not in wanted]
        new = {place: self._kind(*place, 0) for place in places if place not in self._places}
        self._places |= new
        if gone:
            self._consumer.incremental_unassign(gone)
        if new:
            self._consumer.incremental_assign(list(new.values()))

    def poll(self, seconds: float) -> int:
        return len(self._consumer.consume(AT_ONCE, seconds))

    def pause(self) -> None:
        self._consumer.pause(list(self._places.values()))

    def resume(self) -> None:
        self._consumer.resume(list(self._places.values()))

    def seek_each(self) -> None:
        for place in self._places.values():
            self._consumer.seek(place)

    def seek_all(self) -> None:
        raise NotImplementedError("confluent-kafka has no such call")

    def seek_to_beginning(self) -> None:
        raise NotImplementedError("confluent-kafka has no such call")

    def loop_cpu(self) -> float:
        return cpu()


READERS: dict[str, Callable[[str], Reader]] = {"pykafka4": Ours, "confluent": Theirs}


class Orders(Memory):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def assign(self, places: list[Place]) -> None:
        self._reader.assign([(topic, partition) for topic, partition in places])

    def read(self, count: int) -> float:
        """Return the seconds. A record too many is an error."""
        began, left = time.monotonic(), count
        while left > 0:
            left -= self._reader.poll(0.1)
            assert time.monotonic() < began + LONG_S, f"{count - left} of {count} records came"
        assert left == 0, f"{count - left} records came, {count} are there"
        return time.monotonic() - began

    def idle(self, seconds: float) -> dict[str, float]:
        """Poll. `process` and `loop` are shares of a core, `records` is the number that came."""
        return self._spend(seconds, self._reader.poll)

    def busy(self, seconds: float) -> dict[str, float]:
        """Do not poll, as an application that is busy elsewhere."""
        return self._spend(seconds, _sleep)

    def _spend(self, seconds: float, wait: Callable[[float], int]) -> dict[str, float]:
        began, process, loop, records = time.monotonic(), cpu(), self._reader.loop_cpu(), 0
        while (left := began + seconds - time.monotonic()) > 0:
            records += wait(min(left, 1.0))
        passed = time.monotonic() - began
        return {"process": (cpu() - process) / passed, "loop": (self._reader.loop_cpu() - loop) / passed, "records": records}

    def time(self, call: str) -> dict[str, float]:
        """Call a method of `Reader`. CPU seconds are of the whole process."""
        began, used = time.monotonic(), cpu()
        getattr(self._reader, call)()
        return {"seconds": time.monotonic() - began, "cpu": cpu() - used}


def _sleep(seconds: float) -> int:
    time.sleep(seconds)
    return 0


def main() -> None:
    client, bootstrap = sys.argv[1:]
    obey(Orders(READERS[client](bootstrap)))


if __name__ == "__main__":
    main()
