"""Copy topics from one cluster to another, batch by batch, without decompression.

    python examples/mirror.py --from source:9092 --to copy:9092 --topics orders clicks

Stop the program with Ctrl-C, or kill it: the next start continues. Delivery is at least once. The group commits the offsets of a batch only
after the destination has acknowledged the batch, so no record is lost, and after a kill the batches since the last commit are copied again.
A retry writes no batch twice, because the producer is idempotent. A copy keeps partition, order, key, value, headers, timestamp and
compression; offsets are new. Start up to as many processes as there are partitions: the processes share the partitions.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from pykafka4 import Consumer, Producer, RawBatch

BATCHES = 500  # batches that are copied between two commits
PROGRESS_S = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy topics from one cluster to another.")
    parser.add_argument("--from", dest="source", required=True, help="bootstrap servers of the cluster that is read")
    parser.add_argument("--to", dest="copy", required=True, help="bootstrap servers of the cluster that is written")
    parser.add_argument("--topics", nargs="+", required=True, help="topics to copy; each copy must have as many partitions as its original")
    parser.add_argument("--suffix", default="", help="appended to the names of topics in the copy")
    parser.add_argument("--group", default="mirror", help="the group whose committed offsets say how far the copy has come")
    parser.add_argument("--until-end", action="store_true", help="stop when everything is copied")
    parser.add_argument("--from-config", default={}, help="a .properties file for --from, with security.protocol and so on")
    parser.add_argument("--to-config", default={}, help="a .properties file for --to, with security.protocol and so on")
    options = parser.parse_args()

    reads: dict[str, Any] = {
        "bootstrap_servers": options.source,
        "group_id": options.group,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",  # no records of aborted transactions
        "enable_auto_commit": False,
    }
    with (
        Consumer.from_properties(options.from_config, **reads) as consumer,
        Producer.from_properties(options.to_config, bootstrap_servers=options.copy) as producer,
    ):
        consumer.subscribe(options.topics)
        try:
            mirror(consumer, producer, options.suffix, until_end=options.until_end)
        except KeyboardInterrupt:
            pass  # the next start copies the batches since the last commit again


def mirror(consumer: Consumer, producer: Producer, suffix: str, *, until_end: bool) -> None:
    """Copy until Ctrl-C, or with `until_end` until all records are copied."""
    progress = Progress(consumer)
    while True:
        batches = consumer.poll_raw(timeout=1.0, max_batches=BATCHES)
        deliveries = [producer.send_raw(batch.topic + suffix, batch) for batch in batches]
        for delivery in deliveries:
            delivery.result()  # raises the error of a failed batch before the commit, so the next start copies these batches again
        if batches:
            consumer.commit()
        progress.show(batches)
        if until_end and not batches and progress.left() == 0:
            progress.print()
            return


class Progress:
    """Shows every second the numbers of copied and of remaining records."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._records = self._bytes = 0
        self._began = self._shown = time.monotonic()

    def left(self) -> int | None:
        """The number of offsets that are not copied yet; None while it is unknown."""
        lags = [self._consumer.lag(tp) for tp in self._consumer.assignment()]
        return None if not lags or None in lags else sum(lag for lag in lags if lag is not None)

    def show(self, batches: list[RawBatch]) -> None:
        self._records += sum(batch.count for batch in batches)
        self._bytes += sum(batch.size for batch in batches)
        if time.monotonic() >= self._shown + PROGRESS_S:
            self.print()

    def print(self) -> None:
        self._shown = time.monotonic()
        rate = self._bytes / max(self._shown - self._began, 1e-9) / 1e6
        left = self.left()
        print(f"{self._records:,} records copied, {rate:.1f} MB/s, {'?' if left is None else f'{left:,}'} left", flush=True)


if __name__ == "__main__":
    main()
