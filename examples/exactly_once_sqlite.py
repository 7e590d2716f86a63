"""Store the records of a topic in SQLite, exactly once: the offsets are in the database, in the same transaction as the rows.

    python examples/exactly_once_sqlite.py --bootstrap-servers localhost:9092 --topic greetings --database greetings.db

Kill the program at any time and start it again: it continues at the offsets in the database, and the group's committed offsets do not
matter. Start the program several times with the same database: the members of the group share the partitions. Ctrl-C ends the program.
"""

from __future__ import annotations

import argparse
import sqlite3

from pykafka4 import Consumer, Record, TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS greetings (topic TEXT, partition INTEGER, offset INTEGER, value BLOB, PRIMARY KEY (topic, partition, offset));
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
"""


class Stored:
    """The tables of rows and offsets. One transaction changes both, so they always fit together."""

    def __init__(self, database: sqlite3.Connection, consumer: Consumer) -> None:
        self._database, self._consumer = database, consumer
        database.executescript(TABLES)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Continue at the offsets in the database."""
        for tp in partitions:
            if (offset := self._next(tp)) is not None:
                self._consumer.seek(tp, offset)

    def _next(self, tp: TopicPartition) -> int | None:
        found = self._database.execute("SELECT next FROM offsets WHERE topic = ? AND partition = ?", tp).fetchone()
        return None if found is None else int(found[0])

    def add(self, records: list[Record]) -> None:
        """Store the records that no other process has stored: this process may have lost a partition without knowing."""
        with self._database:  # commits, or rolls back after an exception
            self._database.execute("BEGIN IMMEDIATE")
            for record in records:
                tp = TopicPartition(record.topic, record.partition)
                if record.offset >= (self._next(tp) or 0):
                    self._database.execute("INSERT INTO greetings VALUES (?, ?, ?, ?)", (*tp, record.offset, record.value))
                    self._database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*tp, record.offset + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Store records in SQLite, exactly once.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="archive")
    parser.add_argument("--database", default="greetings.db")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    own = {"bootstrap_servers": options.bootstrap_servers, "group_id": options.group, "auto_offset_reset": "earliest"}
    database = sqlite3.connect(options.database, timeout=30, isolation_level=None)
    with Consumer.from_properties(options.config, **own, enable_auto_commit=False) as consumer:
        stored = Stored(database, consumer)
        consumer.subscribe([options.topic], listener=stored)
        try:
            for records in consumer.batches(timeout=1.0):
                if records:
                    stored.add(records)
                    print(f"stored {len(records)} records", flush=True)
        except KeyboardInterrupt:
            pass
    database.close()


if __name__ == "__main__":
    main()
