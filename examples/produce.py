"""Send records to a topic. The end of the `with` block delivers all records, or raises.

python examples/produce.py --bootstrap-servers localhost:9092 --topic greetings --count 1000
"""

from __future__ import annotations

import argparse

from pykafka4 import DeliveryFailed, Producer


def main() -> None:
    parser = argparse.ArgumentParser(description="Send numbered greetings.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    try:
        with Producer.from_properties(options.config, bootstrap_servers=options.bootstrap_servers) as producer:
            for number in range(options.count):  # `send` does not wait for the broker; records with the same key keep their order
                producer.send(options.topic, f"greeting {number}", key=f"guest {number % 10}")
            last = producer.send(options.topic, "goodbye", headers=[("lang", "en")]).result(timeout=30)
    except DeliveryFailed as error:  # names the topic, the partition, the cause, and whether the record may be in the log
        raise SystemExit(f"not delivered: {error}") from error
    print(f"delivered {options.count + 1} records; the last one is in {last.topic}-{last.partition} at offset {last.offset}")


if __name__ == "__main__":
    main()
