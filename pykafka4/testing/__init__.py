"""Runs a Kafka cluster in memory, for tests without a broker. Invariant: no fault happens that a test has not ordered.

docs/guide/testing.md shows how to use the cluster.

`ModelServer` listens on 127.0.0.1 for any Kafka client; the pytest fixture `kafka_server` is a `ModelServer`. `ModelCluster` is the cluster
without sockets.

Modules; each line imports only from lines below it:
    demo           the client at work: `python -m pykafka4 demo`
    pytest_plugin  the pytest fixture
    server/        `ModelServer`: the cluster on sockets, and the faults that are ordered by name
    model          `ModelCluster`: the cluster, with all faults and changes that a test can order
    requests/      connections, and the response to each API
    cluster/       the state that brokers share: topics, metadata, differences between releases
    faults/        the ordered faults
    groups/        consumer groups and their coordinators
    shares/        share groups: acquired records, share sessions
    transactions/  transactional ids and their coordinators
    storage/       logs, replicas, leaders
    placement      the broker that coordinates a group or a transactional id
    broker         a broker: its address, whether it runs
    timeline       virtual time
"""

from __future__ import annotations

from pykafka4.testing.faults.controls import Fault, When
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.requests.session import LATER, NO_ANSWER, Call
from pykafka4.testing.server.model_server import ModelServer
from pykafka4.testing.timeline import Timeline

__all__ = ["LATER", "NO_ANSWER", "Call", "Fault", "ModelCluster", "ModelServer", "Timeline", "When"]
