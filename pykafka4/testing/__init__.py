"""A Kafka cluster in memory, for tests without a broker. docs/testing.md shows how.

`ModelServer` listens on 127.0.0.1 for any Kafka client; the pytest fixture `kafka_server` is one. `ModelCluster` is the same, but has no
sockets.
"""

from __future__ import annotations

from pykafka4.testing.faults.controls import Fault, When
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.requests.session import LATER, NO_ANSWER, Call
from pykafka4.testing.server.model_server import ModelServer
from pykafka4.testing.timeline import Timeline

__all__ = ["LATER", "NO_ANSWER", "Call", "Fault", "ModelCluster", "ModelServer", "Timeline", "When"]
