"""Read a topic with several threads, each with partitions of its own.

    python examples/streams.py --bootstrap-servers localhost:9092 --topic greetings --streams 3

Each thread has state of its own, here a counter, that no other thread touches. Start the program several times to share the partitions
among processes. Kill it at any time: the next start continues with the first unfinished record of each partition. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections import Counter

from pykafka4 import Consumer, Stream


def work(number: int, stream: Stream) -> None:
    """Read the records of a stream on one thread. A record is finished when the loop requests the next one."""
    seen = Counter[int]()
    for record in stream:
        seen[record.partition] += 1
        print(
            f"stream {number} {record.partition} {record.offset} {record.value}\n", end="", flush=True
        )  # one write: several threads print
    print(f"stream {number} has read {seen.total()} records of partitions {sorted(seen)}\n", end="", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Read a topic with several threads, each with partitions of its own.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="streamed")
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    where = {"bootstrap_servers": options.bootstrap_servers}
    own = {**where, "group_id": options.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer.from_properties(options.config, **own) as consumer, consumer.streams({options.topic: options.streams}) as streams:
        signal.signal(signal.SIGINT, lambda *_: streams.stop())
        threads = [threading.Thread(target=work, args=(number, stream)) for number, stream in enumerate(streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
