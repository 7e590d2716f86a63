"""Fetches the jars of Spark's own Kafka connector, `format("kafka")`, through Maven into the cache.

pyspark comes without them. `python -m integration.spark.jars` fetches them ahead.
"""

from __future__ import annotations

import sys
from pathlib import Path

from integration.host.cache import cache, install
from integration.kafka.jars import copy

__all__ = ["CONNECTOR", "connector_jars"]

CONNECTOR = "4.2.0"  # the newest release of the connector; it works with pyspark 4.3.0


def connector_jars() -> list[Path]:
    """Connector, token provider, kafka-clients, commons-pool2."""
    folder = install(cache() / f"spark-connector-{CONNECTOR}" / "jars", fill)
    return sorted(folder.glob("*.jar"))


def fill(folder: Path) -> None:
    copy("spark-connector", {"connector.version": CONNECTOR}, folder)


def main() -> int:
    for jar in connector_jars():
        print(jar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
