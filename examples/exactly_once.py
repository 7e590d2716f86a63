"""Copy a topic in upper case, exactly once: one transaction commits the written records and the offsets of the records read.

    python examples/exactly_once.py --bootstrap-servers localhost:9092 --topic greetings --to shouts --id shouter-1

Kill the program at any time and start it again with the same --id: readers with isolation_level="read_committed" see each record once.
Programs that run at the same time need different values of --id. Ctrl-C ends the program.
"""

from __future__ import annotations

import argparse

from pykafka4 import Consumer, Producer


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy a topic in upper case, exactly once.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--to", default="shouts")
    parser.add_argument("--group", default="shouters")
    parser.add_argument("--id", default="shouter-1", help="the transactional id")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    where = {"bootstrap_servers": options.bootstrap_servers}
    reads = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
    with (
        Producer.from_properties(options.config, **where, transactional_id=options.id) as producer,
        Consumer.from_properties(options.config, **where, **reads, group_id=options.group) as consumer,
    ):
        producer.init_transactions()  # aborts a transaction that a killed predecessor has left open
        consumer.subscribe([options.topic])
        try:
            for records in consumer.batches(timeout=1.0):
                if records:
                    with producer.transaction(consumer):  # an exception in the block aborts the transaction, and the consumer reads again
                        for record in records:
                            producer.send(options.to, (record.value or b"").upper(), key=record.key)
                    print(f"committed {len(records)} records", flush=True)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
