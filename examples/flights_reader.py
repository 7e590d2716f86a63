"""Reads the flights as one member of the group. Invariant: a record is in the file before the next poll, after which it may be committed.

`flights_pipeline.py` starts three readers. The file has one line of fixed width for each record: partition, offset, CRC-32 of key and
value. A reader leaves the group when its standard input ends, so it does not outlive the script.
"""

from __future__ import annotations

import argparse
import faulthandler
import select
import signal
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

from pykafka4 import Consumer

LINE = "{:6d} {:12d} {:08x}\n"
WIDTH = len(LINE.format(0, 0, 0))


class Read(NamedTuple):
    """A record in the file of a reader."""

    partition: int
    offset: int
    checksum: int


def checksum(key: bytes | None, value: bytes | None) -> int:
    """The checksum of key and value. A null and an empty text have different checksums."""
    return zlib.crc32(value or b"", zlib.crc32(repr((key, value is None)).encode()))


def reads(path: Path) -> list[Read]:
    """The records in the complete lines of a reader's file: the last line may be half written."""
    lines = path.read_text().splitlines() if path.exists() else []
    fields = [line.split() for line in lines if len(line) == WIDTH - 1]
    return [Read(int(partition), int(offset), int(crc, 16)) for partition, offset, crc in fields]


def count(path: Path) -> int:
    """The number of records in the file, from its size."""
    return path.stat().st_size // WIDTH if path.exists() else 0


def follow(servers: str, topic: str, group: str, path: Path) -> None:
    """Read until standard input ends. Ignores Ctrl-C, which reaches this process, too: the script ends its readers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Consumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer, path.open("w") as out:
        consumer.subscribe([topic])
        handed = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            records = consumer.poll(timeout=0.2)
            out.writelines(LINE.format(r.partition, r.offset, checksum(r.key, r.value)) for r in records)
            out.flush()
            handed += len(records)
        if not handed:
            print("a reader has read nothing:", consumer.status(), file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read a topic as a member of a group and write down what was read.")
    for name in ("--bootstrap-servers", "--topic", "--group", "--out"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    faulthandler.enable()  # after SIGABRT a reader that hangs prints its stacks
    follow(options.bootstrap_servers, options.topic, options.group, Path(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
