"""Share the records of a topic with other processes. Each record goes to one process, and is delivered again if that process does not
accept it.

    python examples/share_group.py --bootstrap-servers localhost:9092 --topic jobs

Start as many processes as you like, even more than the topic has partitions, and kill any of them: its unaccepted records go to the other
processes when their locks end (after 30 s by default). A record that fails is released and delivered again, up to the group's limit. The
program needs Kafka 4.2. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import contextlib

from pykafka4 import RecordLockLost, ShareConsumer


def work(value: bytes | None) -> None:
    """Process the value of a record. Raises ValueError if the record cannot be processed."""
    if value is None:
        raise ValueError("nothing to do")


def main() -> None:
    parser = argparse.ArgumentParser(description="Process the records of a topic, together with other processes.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--group", default="workers")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    own = {"bootstrap_servers": options.bootstrap_servers, "group_id": options.group, "share_acknowledgement_mode": "explicit"}
    with ShareConsumer.from_properties(options.config, **own, max_poll_records=100) as consumer, contextlib.suppress(KeyboardInterrupt):
        consumer.subscribe([options.topic])
        for record in consumer:
            try:
                try:
                    work(record.value)
                except ValueError as error:
                    print(record.partition, record.offset, f"delivery {record.delivery_count}: {error}", flush=True)
                    consumer.release(record)
                else:
                    print(record.partition, record.offset, record.value, flush=True)
                    consumer.accept(record)
            except RecordLockLost as error:  # the work took longer than the lock: another process gets the record
                print(error, flush=True)


if __name__ == "__main__":
    main()
