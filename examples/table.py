"""Print the rows of a compacted topic, then each change.

    python examples/table.py --bootstrap-servers localhost:9092 --topic settings

The program also writes to the topic: it sends lines `key=value` of standard input, and a line with only a key deletes that key.
"""

from __future__ import annotations

import argparse
import sys

from pykafka4 import Client, Producer, table


def show(key: str, old: str | None, new: str | None) -> None:
    print(f"{key}: {old} -> {new}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the rows of a compacted topic, then each change.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="settings")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    text = {"key_deserializer": "str", "value_deserializer": "str"}
    with (
        Client.from_properties(options.config, bootstrap_servers=options.bootstrap_servers) as client,
        Producer(client=client) as producer,
        table(options.topic, client=client, on_change=show, **text) as rows,
    ):
        for key, value in sorted(rows.items()):
            print(f"{key} = {value}", flush=True)
        for line in sys.stdin:
            key, equals, value = line.strip().partition("=")
            producer.send(options.topic, value if equals else None, key=key).result(timeout=30)
            rows.refresh(timeout=30)
        print(f"{len(rows)} keys", flush=True)


if __name__ == "__main__":
    main()
