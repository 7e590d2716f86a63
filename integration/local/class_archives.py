"""Writes the class archives of brokers and of Kafka's tools: `python -m integration.local.class_archives`, once for each release.

One broker starts, creates a topic, serves a producer and a consumer, and answers a tool. When a JVM ends, it writes the classes that it
has loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from integration.host.cache import install
from integration.java.client import JVM as TOOL_JVM
from integration.java.client import run_tool
from integration.kafka.class_archive import QUIET, class_archive
from integration.kafka.jars import kafka_jars, tools_jars
from integration.kafka.settings import JVM
from integration.local.cluster import LocalCluster
from pykafka4 import Consumer, Producer

TOOL = "org.apache.kafka.tools.TopicCommand"
TIMEOUT_S = 120.0


def written_by(jars: Path, folder: Path) -> list[str]:
    """Options of a JVM that writes the archive of `jars` into `folder` when it ends."""
    return [f"-XX:ArchiveClassesAtExit={folder / class_archive(jars).name}", QUIET]


def train_broker(folder: Path) -> None:
    with LocalCluster(1, jvm=(*JVM, *written_by(kafka_jars(), folder))) as cluster:
        exercise(cluster.bootstrap)
        tools = class_archive(tools_jars()).parent
        install(tools, lambda place: train_tool(cluster.bootstrap, place))
        cluster.stop(1, TIMEOUT_S)


def train_tool(bootstrap: str, folder: Path) -> None:
    run_tool(TOOL, "--bootstrap-server", bootstrap, "--describe", jvm=(*TOOL_JVM, *written_by(tools_jars(), folder)))


def exercise(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        producer.send("training", b"value").result(timeout=TIMEOUT_S)
    with Consumer(bootstrap_servers=bootstrap, group_id="training", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["training"])
        if not consumer.poll(timeout=TIMEOUT_S):
            raise RuntimeError("the broker that trains the class archive returned no record")


def main() -> int:
    print(install(class_archive(kafka_jars()).parent, train_broker))
    return 0


if __name__ == "__main__":
    sys.exit(main())
