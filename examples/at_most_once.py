"""Print the records of a topic, each at most once: the offsets of polled records are committed before the records are printed.

    python examples/at_most_once.py --bootstrap-servers localhost:9092 --topic greetings

Kill the program at any time and start it again: no record is printed twice, and records that were polled and not printed are skipped. This
suits actions that must not be repeated and may be missed, such as a notification. Ctrl-C ends the program.
"""

from __future__ import annotations

import argparse

from pykafka4 import Consumer, KafkaError


def main() -> None:
    parser = argparse.ArgumentParser(description="Print records, each at most once.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="notifier")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    own = {"bootstrap_servers": options.bootstrap_servers, "group_id": options.group, "auto_offset_reset": "earliest"}
    with Consumer.from_properties(options.config, **own, enable_auto_commit=False, max_poll_records=50) as consumer:
        consumer.subscribe([options.topic])
        try:
            for records in consumer.batches(timeout=1.0):
                try:
                    consumer.commit()
                except KafkaError as error:  # the offsets may be stored or not: the next reader may print these records, so skip them
                    print(f"skipped {len(records)} records: {error}", flush=True)
                    continue
                for record in records:
                    print(record.partition, record.offset, record.value, flush=True)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
