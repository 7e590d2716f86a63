"""Reads a topic with poison records until it is killed: `python poison_reader.py options topic dead file`; the file gets each value."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pykafka4 import Consumer


def main() -> None:
    options, topic, dead, file = sys.argv[1:]
    how = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 50, "max_poll_records": 20}
    poison = {"value_deserializer": "json", "on_poison": f"dead-letter:{dead}"}
    with Consumer(**json.loads(options), group_id=topic, **how, **poison) as consumer, Path(file).open("a") as processed:
        consumer.assign([(topic, 0)])
        for record in consumer:
            processed.write(f"{record.value}\n")
            processed.flush()


if __name__ == "__main__":
    main()
