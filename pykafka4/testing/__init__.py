"""Testing. Rule: a test needs no broker: the model cluster is one, in memory or on a port of 127.0.0.1.

`ModelServer` is for applications' tests, `ModelCluster` is the same without sockets.
"""

from __future__ import annotations

from pykafka4.testing.faults import Fault, When
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.server import ModelServer
from pykafka4.testing.session import LATER, NO_ANSWER, Call
from pykafka4.testing.timeline import Timeline

__all__ = ["LATER", "NO_ANSWER", "Call", "Fault", "ModelCluster", "ModelServer", "Timeline", "When"]
