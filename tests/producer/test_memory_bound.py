"""With every broker away and several threads sending as fast as they can, memory stays below base + 1.5 x buffer_memory + 48 MiB."""

from __future__ import annotations

import pytest

from integration.workload.flood import bound, flooded
from pykafka4.testing import ModelServer

BUFFER = 32 << 20


@pytest.mark.parametrize(("codec", "dense"), [("none", False), ("lz4", False), ("lz4", True)])
def test_a_flood_without_brokers_stays_in_its_memory(server: ModelServer, codec: str, dense: bool) -> None:
    """Takes seconds: records must fail, and make room for others, several times."""
    options = {
        "bootstrap_servers": server.bootstrap_servers, "buffer_memory": BUFFER, "max_block_ms": 500, "compression_type": codec,
        "delivery_timeout_ms": 1_000, "request_timeout_ms": 500,  # records fail, and make room, again and again
    }  # fmt: skip
    found = flooded({"topic": "t", "unknown": "nobody-knows", "seconds": 2.5, "dense": dense, "options": options}, server.close)
    assert found["peak"] <= bound(found["base"], BUFFER), found
    assert found["lost"] > 10_000
    assert found["called"] > 0
