"""Measures a consumer of all partitions: idle, while leaders move, paused and sought as a whole, and with one full partition.

Every run has its own cluster, in one process, and its own client, in another. Each step ends when the consumer has read exactly the records
that the step must bring: paused records after `resume`, all records after a seek, records of a moved partition from its new leader.
"""

from __future__ import annotations

import time

import attrs

from benchmarks.bars import CLIENTS, OURS, Table
from benchmarks.scale.orders import Process
from benchmarks.scale.server import serve
from benchmarks.scale.shape import Place, Shape

__all__ = ["measure"]

IDLE = 0.005  # share of a core
CHANGE_MS, CALL_MS = 1.0, 100.0
SETTLE_S = 10.0  # seconds; brokers without records hold each Fetch of pykafka4 back for longer than the last one
HELD = {"pykafka4": 5.0, "confluent": 0.5}  # seconds that an idle broker holds back a Fetch, with the default options
STALE_S = 1.0  # seconds after a pause in which records of a Fetch in flight can still come
FEWEST = 0.9  # share of the Fetches that are due: a client that sends fewer looks cheaper than it is
LATE = "the brokers received fewer Fetches than the client's waits explain"
CHANGES, PAUSE, REPEATS = 20, 0.2, 3  # leaders moved in a window, seconds between them, windows
PROBES = 20  # partitions that get a record while all are paused
FULL = (80, 50_000)  # batches, bytes of each: more than either client fetches ahead of one partition


def measure(table: Table, shape: Shape, release: str, rounds: int, seconds: float) -> None:
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            with serve(shape, release) as server:
                bootstrap = server.ask("bootstrap")
                with Process("benchmarks.scale.reading", client, bootstrap) as reader:
                    Run(table, client, shape, server, reader, seconds).all()


def per_change(idle: float, changing: float, seconds: float, changes: int) -> float:
    """The cost of a window beyond the cost of the idle window before it."""
    return (changing - idle) * seconds / changes * 1000


def doubt(client: str, fetches: float, brokers: int) -> str | None:
    """Late brokers, or a machine that runs neither side, make an idle share smaller."""
    return LATE if fetches < FEWEST * brokers / HELD[client] else None


@attrs.define
class Run:
    table: Table
    client: str
    shape: Shape
    server: Process
    reader: Process
    seconds: float
    written: int = 0  # records that are in the logs

    def all(self) -> None:
        self.written = self.shape.total
        self.reader.ask("assign", self.shape.places)
        self.table.note("assign: seconds until the record of each is read", self.client, self.reader.ask("read", self.written))
        self.reader.ask("idle", SETTLE_S)
        self.idle()
        self.changes()
        self.pause()
        self.seek()
        self.full()

    def append(self, places: list[Place], count: int = 1, size: int = 100) -> int:
        more = int(self.server.ask("append", places, count, size))
        self.written += more
        return more

    def idle(self) -> None:
        """The application polls once a second while nothing else happens."""
        self.server.ask("watch")
        shares = self.reader.ask("idle", self.seconds)
        late = doubt(self.client, self.server.ask("fetches"), self.shape.brokers)
        self.table.note("idle: share of a core", self.client, shares["process"], most=IDLE, times=1.0, doubt=late)
        if self.client == OURS:
            self.table.note("idle: share of a core, the loop's thread alone", self.client, shares["loop"], doubt=late)

    def changes(self) -> None:
        seconds = CHANGES * PAUSE + 1.0
        step = max(1, self.shape.total // (CHANGES * REPEATS))
        places = [self.shape.places[n * step % self.shape.total] for n in range(CHANGES * REPEATS)]
        for number in range(REPEATS):
            idle = self.reader.ask("idle", seconds)["loop"]
            self.reader.begin("idle", seconds)
            for topic, partition in places[number * CHANGES : (number + 1) * CHANGES]:
                time.sleep(PAUSE)
                self.server.ask("move", topic, partition)
            cost = per_change(idle, self.reader.answer()["loop"], seconds, CHANGES)
            self.table.note("metadata change of one topic: CPU ms on the loop", self.client, cost, most=CHANGE_MS)
        self.reader.ask("read", self.append(list(dict.fromkeys(places))))

    def call(self, method: str, name: str) -> None:
        took = self.reader.ask("time", method)
        self.table.note(f"{name}: ms", self.client, took["seconds"] * 1000, most=CALL_MS)
        self.table.note(f"{name}: CPU ms", self.client, took["cpu"] * 1000)

    def pause(self) -> None:
        """No record may come while all are paused; every record comes afterwards."""
        self.call("pause", "pause all")
        self.reader.ask("idle", STALE_S)  # records of Fetches in flight may still come; a later record is an error
        more = self.append(self.shape.places[:: max(1, self.shape.total // PROBES)])
        came = self.reader.ask("idle", STALE_S)["records"]
        if came:
            raise AssertionError(f"{self.client}: {came} records came of partitions that were paused")
        self.call("resume", "resume all")
        self.reader.ask("read", more)

    def seek(self) -> None:
        """Seek all in each way. All records come again."""
        self.call("seek_each", "seek all, one call a partition")
        self.reader.ask("read", self.written)
        if self.client == OURS:
            self.call("seek_all", "seek all, one call")
            self.reader.ask("read", self.written)
            self.call("seek_to_beginning", "seek_to_beginning, one call")
            self.reader.ask("read", self.written)

    def full(self) -> None:
        """The client is not polled, first without records, then with more in one partition than it fetches ahead."""
        without = self.reader.ask("busy", self.seconds)
        self.table.note("idle, application busy: share of a core", self.client, without["process"])
        more = self.append(self.shape.places[:1], *FULL)
        self.reader.ask("busy", SETTLE_S)
        with_one = self.reader.ask("busy", self.seconds)
        self.table.note("idle, application busy, one partition full: share of a core", self.client, with_one["process"], most=IDLE)
        self.reader.ask("read", more)
