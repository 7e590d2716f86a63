"""Crashing. A consumer that kills its process at a point of its work: `python crashing.py options setting point file topic`.

`options` are those of the client, as JSON.

The topic has one partition with 20 records, and each list has 5. The second list is in hand when the process dies. The group has the name
of the topic.
`file` gets the offset of each processed record.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from pykafka4 import Consumer

SETTINGS = {
    "auto-commit, `poll` or `batches`": "auto",
    "auto-commit, `for` loop": "loop",
    "`commit()` after each list": "after",
    "`commit({…: offset + 1})` after each record": "each",
    "`commit()` before each list is processed": "before",
}
POINTS = ("before the list is processed", "in the middle of the list", "list processed, not committed", "list committed")
BEFORE, MIDDLE, PROCESSED, COMMITTED = POINTS
LIST = range(5, 10)
DIES_AFTER = {MIDDLE: 6, PROCESSED: 9}  # the record that was processed last


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class Crash:
    """One run."""

    def __init__(self, consumer: Consumer, setting: str, point: str, processed: Any, topic: str) -> None:
        self.consumer, self.setting, self.point, self.processed, self.tp = consumer, setting, point, processed, (topic, 0)

    def settle(self, offset: int) -> None:
        """With auto-commit, wait until everything finished has been committed."""
        while self.setting in ("auto", "loop"):
            place = self.consumer.committed(self.tp)
            if place is not None and place.offset == offset:
                return
            time.sleep(0.01)

    def process(self, offset: int, finished: int) -> None:
        self.processed.write(f"{offset}\n")
        self.processed.flush()
        if DIES_AFTER.get(self.point) == offset:
            self.settle(finished)
            die()

    def lists(self) -> None:
        for number, records in enumerate(filter(None, self.consumer.batches(1.0, 5))):
            assert len(records) == 5
            if number == 2:
                self.settle(LIST.stop)
                die()
            if self.setting == "before":
                self.consumer.commit()
            if number == 1 and self.point == BEFORE:
                self.settle(LIST.start)
                die()
            for record in records:
                self.process(record.offset, LIST.start)
                if self.setting == "each":
                    self.consumer.commit({self.tp: record.offset + 1})
            if self.setting == "after":
                self.consumer.commit()

    def loop(self) -> None:
        for record in self.consumer:
            if (self.point, record.offset) in ((BEFORE, LIST.start), (COMMITTED, LIST.stop)):
                self.settle(record.offset)
                die()
            self.process(record.offset, record.offset)


def main(options: str, setting: str, point: str, file: str, topic: str) -> None:
    """Consume until the crash."""
    consumer = Consumer(
        **json.loads(options),
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=setting in ("auto", "loop"),
        auto_commit_interval_ms=20,
        max_poll_records=5,
    )
    consumer.subscribe([topic])
    with Path(file).open("w") as processed:
        crash = Crash(consumer, setting, point, processed, topic)
        (crash.loop if setting == "loop" else crash.lists)()


if __name__ == "__main__":
    main(*sys.argv[1:])
