"""Print the records of a topic. A record is finished, and its offset can be committed, when the loop requests the next record.

    python examples/consume.py --bootstrap-servers localhost:9092 --topic greetings --group readers

Start the program several times: the members of a group share the topic's partitions. Ctrl-C ends the program; its next start continues
where it stopped.
"""

from __future__ import annotations

import argparse

from pykafka4 import Consumer


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the records of a topic.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="readers")
    parser.add_argument("--count", type=int, help="stop after this many records")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    own = {"bootstrap_servers": options.bootstrap_servers, "group_id": options.group, "auto_offset_reset": "earliest"}
    with Consumer.from_properties(options.config, **own) as consumer:
        consumer.subscribe([options.topic])
        try:
            for number, record in enumerate(consumer, 1):
                print(record.partition, record.offset, record.key, record.value, record.headers, flush=True)
                if number == options.count:
                    consumer.commit({(record.topic, record.partition): record.offset + 1})  # `break` does not finish the record
                    break
        except KeyboardInterrupt:
            pass  # the end of the block commits the offsets of finished records, and leaves the group


if __name__ == "__main__":
    main()
