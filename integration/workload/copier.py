"""Copies partitions in transactions, in a process of its own that a test may kill: `python -m integration.workload.copier SETTINGS`.

The program is like Kafka's TransactionalMessageCopier. SETTINGS is a JSON object: `client` (options of pykafka4), `id` (transactional id
and group), `input`, `output`, `ends` (partition -> end of the input), `grouped` (subscribe instead of assign), `size` (most records of a
transaction), `seed`. Each transaction has the records of one or several polls, and the offsets after them; about a third, chosen at random,
are aborted. Half of them use the context manager, the others single calls. The process writes JSON lines, and ends with 0 when the
committed offsets are the ends. After an error that an abort cannot repair, it ends with FAILED, as if it had crashed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any, NoReturn

from pykafka4 import Consumer, KafkaError, KafkaTimeoutError, Producer, Record, TopicPartition

__all__ = ["FAILED", "main"]

FAILED = 3
ABORTED_SHARE = 1 / 3
BATCH_SIZE, IN_FLIGHT = 1024, 5  # the smallest: several batches of a transaction are in flight
POLL_S, MORE_S, CALL_S, PATIENCE_S = 0.5, 0.05, 30.0, 60.0  # seconds
SESSION_MS = 4_000
TRANSACTION_MS = 20_000


class Aborted(Exception):
    """Raised to end a transaction's block on purpose."""


def note(what: str, **details: Any) -> None:
    os.write(1, json.dumps({"what": what, "at": time.monotonic(), **details}, separators=(",", ":")).encode() + b"\n")


def fail(error: BaseException, during: str) -> NoReturn:
    """The process ends at once, without a close."""
    note("failed", error=f"{type(error).__name__}: {error}", during=during)
    os._exit(FAILED)


class Copier:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.random = random.Random(f"{settings['seed']} {os.getpid()}")
        self.ends = {TopicPartition(settings["input"], int(partition)): end for partition, end in settings["ends"].items()}
        self.consumer = Consumer(
            **settings["client"],
            group_id=settings["id"],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
        )
        self.producer = Producer(
            **settings["client"],
            transactional_id=settings["id"],
            transaction_timeout_ms=TRANSACTION_MS,
            batch_size=BATCH_SIZE,
            max_in_flight_requests_per_connection=IN_FLIGHT,
            linger_ms=1,
        )

    def run(self) -> None:
        self.producer.init_transactions(PATIENCE_S)
        note("initialised")
        if self.settings["grouped"]:
            self.consumer.subscribe([self.settings["input"]])
        else:
            self.consumer.assign(list(self.ends))
        while True:
            records = self.consumer.poll(POLL_S, self.random.randint(1, self.settings["size"]))
            if records:
                self.copy(records)
            elif self.finished():
                return

    def finished(self) -> bool:
        committed = self.consumer.committed(list(self.ends), CALL_S)
        return all((found := committed[tp]) is not None and found.offset == end for tp, end in self.ends.items())

    def copy(self, records: list[Record]) -> None:
        abort, block = self.random.random() < ABORTED_SHARE, self.random.random() < 0.5
        try:
            (self.in_a_block if block else self.in_calls)(records, abort)
        except Aborted:
            note("aborted", count=len(records))
        except KafkaError as error:
            note("error", error=f"{type(error).__name__}: {error}")
            self.mend()
        else:
            note("aborted" if abort else "committed", count=len(records))

    def send(self, records: list[Record]) -> None:
        for r in records:
            self.producer.send(
                self.settings["output"], r.value, key=r.key, headers=r.headers, partition=r.partition, timestamp_ms=r.timestamp_ms
            )

    def in_a_block(self, records: list[Record], abort: bool) -> None:
        """The context manager commits the consumer's positions, and rewinds the consumer after an abort. Some blocks have several polls."""
        with self.producer.transaction(self.consumer):
            self.send(records)
            for _ in range(self.random.choice((0, 0, 0, 1, 3))):
                more = self.consumer.poll(MORE_S, self.random.randint(1, self.settings["size"]))
                self.send(more)
                records += more
            if abort:
                raise Aborted

    def in_calls(self, records: list[Record], abort: bool) -> None:
        """A commit whose outcome is unknown is repeated until the outcome is known."""
        self.producer.begin_transaction()
        self.send(records)
        offsets = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
        self.producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata(), CALL_S)
        if abort:
            self.producer.abort_transaction(CALL_S)
            self.rewind()
            return
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.producer.commit_transaction(CALL_S)
                return
            except KafkaTimeoutError as error:
                if time.monotonic() > deadline:
                    fail(error, "commit")

    def mend(self) -> None:
        try:
            self.producer.abort_transaction(CALL_S)
        except KafkaError as error:
            if "no transaction" not in str(error):
                fail(error, "abort")
        try:
            self.rewind()
        except KafkaError as error:
            fail(error, "rewind")

    def rewind(self) -> None:
        held = list(self.consumer.assignment())
        committed = self.consumer.committed(held, CALL_S) if held else {}
        offsets = {tp: found.offset for tp in held if (found := committed[tp]) is not None}
        self.consumer.seek(offsets)
        fresh = [tp for tp in held if tp not in offsets]
        if fresh:
            self.consumer.seek_to_beginning(fresh)

    def close(self) -> None:
        self.consumer.close(CALL_S)
        self.producer.close(CALL_S)


def main(settings: dict[str, Any]) -> None:
    note("started")
    copier = Copier(settings)
    try:
        copier.run()
    except KafkaError as error:
        fail(error, "run")
    copier.close()
    note("finished")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
