"""Handle the records of a topic on several threads, in order per key. Records that cannot be handled go to a dead-letter topic.

    python examples/parallel_by_key.py --bootstrap-servers localhost:9092 --topic greetings --dead-letter greetings.dead

Kill the program at any time and start it again: it continues with the first unfinished record. Later records may be handled again, so each
line names the partition and offset of its record. Ctrl-C ends the program, after the running handlers.
"""

from __future__ import annotations

import argparse
import signal
import threading

from pykafka4 import Consumer, Producer, Record


def handle(record: Record) -> None:
    """Handle one record. After an exception the record is handled again; after the last attempt it becomes a dead letter."""
    if record.value == b"":
        raise ValueError("a record without content")
    print(f"{record.key} {record.partition} {record.offset} {record.value}\n", end="", flush=True)  # one write: several threads print


def main() -> None:
    parser = argparse.ArgumentParser(description="Handle records on several threads, in order per key.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="parallel")
    parser.add_argument("--dead-letter", default="greetings.dead")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    where = {"bootstrap_servers": options.bootstrap_servers}
    own = {**where, "group_id": options.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Producer.from_properties(options.config, **where) as producer, Consumer.from_properties(options.config, **own) as consumer:
        consumer.subscribe([options.topic])
        done = consumer.process(
            handle, by="key", workers=options.workers, retries=2, dead_letter=options.dead_letter, producer=producer, stop=stop
        )
    print(f"finished {done.finished} records, {done.dead_letters} of them as dead letters")


if __name__ == "__main__":
    main()
