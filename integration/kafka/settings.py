"""Settings. Rule: the same broker on every backend: small, quick to start, quick to fail over, and everything replicated."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DEFAULTS", "JVM", "LOGGING", "expand", "random_id", "write_properties"]

JVM = (
    "-Xms256m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=64m",
    "-XX:-UsePerfData", "-Xshare:auto",
)  # fmt: skip

# Quick fail-over (a dead leader is replaced within 2 to 5 s) and everything replicated like a cluster that means it.
DEFAULTS = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "ADMIN",
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "auto.create.topics.enable": "true",
    "auto.leader.rebalance.enable": "false",  # a leader moves when a test moves it, not when five minutes are over
    "num.partitions": "3",
    "default.replication.factor": "{replicas}",
    "min.insync.replicas": "{insync}",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "{replicas}",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "{replicas}",
    "transaction.state.log.min.isr": "{insync}",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "{replicas}",
    "share.coordinator.state.topic.min.isr": "{insync}",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "2000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
}

LOGGING = """Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout: {pattern: "[%d] %p %m (%c)%n"}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: STDOUT}}
"""


def expand(brokers: int) -> dict[str, str]:
    """DEFAULTS for that many brokers."""
    replicas = min(3, brokers)
    return {key: value.format(replicas=replicas, insync=max(1, replicas - 1)) for key, value in DEFAULTS.items()}


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def random_id() -> str:
    """22 characters, as Kafka writes its ids; never with a leading dash, which its tools take for an option."""
    return "a" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
