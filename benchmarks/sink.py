"""Runs the sink, a fake cluster in C (`sink.c`), which is compiled on demand. Invariant: it ends with the process that started it.

`ends` asks the sink for the number of records, by a request that is written out below: so no client counts its own records.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from pathlib import Path
from types import TracebackType

from benchmarks.compiled import compiled

SOURCE = Path(__file__).with_name("sink.c")
BROKERS, PARTITIONS, BATCH, VALUE = 3, 6, 150, 100
LATEST = -1


class Sink:
    """A fake cluster. `served`: records per partition to consume, each with `headers` headers; 0: produced records are counted.

    Every name is a topic with `partitions` partitions; topics whose names begin with "leaderless" have no leaders. `late`: a broker (from 1
    on), and the milliseconds by which it reads requests late. `offline`: a partition that has no leader, in every topic; -1: none.
    """

    def __init__(
        self,
        served: int = 0,
        verify: str = "",
        headers: int = 0,
        *,
        brokers: int = BROKERS,
        partitions: int = PARTITIONS,
        late: tuple[int, int] = (0, 0),
        offline: int = -1,
    ) -> None:
        self.served, self.partitions = served, partitions
        numbers = (brokers, partitions, served, BATCH, VALUE, headers)
        argv = [str(compiled(SOURCE)), *map(str, numbers), verify, *map(str, late), str(offline)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.ports = [int(port) for port in self.process.stdout.readline().split()]
        if not self.ports:
            raise RuntimeError("the sink did not start; its output is above")
        self.bootstrap = f"127.0.0.1:{self.ports[0]}"

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ends(self, topic: str) -> dict[int, int]:
        """The ends of the served records, or of the records acknowledged in all topics under this partition number."""
        return list_ends(self.ports[0], topic, self.partitions)


def leader(topic: str, partition: int, brokers: int = BROKERS) -> int:
    """The broker (from 1 on). Leaders are assigned round-robin, from a broker that the topic's name determines."""
    first = 0
    for byte in topic.encode():
        first = (first * 31 + byte) & 0xFFFFFFFF
    return (first + partition) % brokers + 1


def list_ends(port: int, topic: str, partitions: int) -> dict[int, int]:
    """By ListOffsets v1, which all brokers of the sink answer in the same way."""
    name = topic.encode()
    wanted = b"".join(struct.pack(">iq", partition, LATEST) for partition in range(partitions))
    body = struct.pack(">hhih", 2, 1, 1, -1) + struct.pack(">iih", -1, 1, len(name)) + name + struct.pack(">i", partitions) + wanted
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
        answer = connection.recv(size, socket.MSG_WAITALL)
    rows = struct.iter_unpack(">ihqq", answer[4 + 4 + 2 + len(name) + 4 :])
    return {partition: end for partition, _, _, end in rows}
