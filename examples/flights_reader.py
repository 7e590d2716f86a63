"""Reader. Rule: one member of the group; what it was handed is written down before the next poll lets it be committed.

Started three times by `flights_pipeline.py`. One line of fixed width per record: partition, offset, CRC-32 of key and value.
Leaves the group when its standard input ends, so that it does not outlive the script either.
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
    """A record as a reader saw it."""

    partition: int
    offset: int
    checksum: int


def checksum(key: bytes | None, value: bytes | None) -> int:
    """Of key and value; a null differs from an empty one."""
    return zlib.crc32(value or b"", zlib.crc32(repr((key, value is None)).encode()))


def reads(path: Path) -> list[Read]:
    """The complete lines of a reader's file."""
    lines = path.read_text().splitlines() if path.exists() else []
    fields = [line.split() for line in lines if len(line) == WIDTH - 1]
    return [Read(int(partition), int(offset), int(crc, 16)) for partition, offset, crc in fields]


def count(path: Path) -> int:
    """How many records the file holds, without reading it."""
    return path.stat().st_size // WIDTH if path.exists() else 0


def follow(servers: str, topic: str, group: str, path: Path) -> None:
    """Read until standard input ends. A Ctrl-C reaches this process too, but is the script's to handle."""
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
            print("a reader was handed nothing:", consumer.status(), file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read a topic as a member of a group and write down what was read.")
    for name in ("--bootstrap-servers", "--topic", "--group", "--out"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    faulthandler.enable()  # SIGABRT makes a reader that hangs tell where
    follow(options.bootstrap_servers, options.topic, options.group, Path(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
