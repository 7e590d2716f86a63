"""One script on the model cluster and on real brokers: what they answer is the same.

`kafka-4.4.json` holds what Kafka 4.4 answered. The model is compared with it without brokers; the real half compares Kafka with it again,
and rewrites it with PYKAFKA4_CONFORMANCE=record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fetch_script import SCRIPTS as FETCH
from group_script import SCRIPTS as GROUPS
from produce_script import SCRIPTS as PRODUCE
from produce_script import replicas, unconfirmed
from worlds import ModelPlace, RealPlace, World

from integration.cluster import Cluster
from pykafka4.testing import ModelServer

KEPT = Path(__file__).with_name("kafka-4.4.json")
SCRIPTS = [*PRODUCE, *FETCH, *GROUPS, unconfirmed, replicas]
NAMES = [script.__name__ for script in SCRIPTS]


def kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}  # type: ignore[no-any-return]


def observe(script: Callable[[World], None], world: World) -> dict[str, Any]:
    """What the script saw, as JSON gives it back."""
    try:
        script(world)
    finally:
        world.close()
    return json.loads(json.dumps(world.seen))  # type: ignore[no-any-return]


def differences(real: dict[str, Any], found: dict[str, Any]) -> list[str]:
    steps = [*real, *(step for step in found if step not in real)]
    return [f"{step}: Kafka {real.get(step)}, here {found.get(step)}" for step in steps if real.get(step) != found.get(step)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_the_model_answers_as_kafka_did(script: Callable[[World], None]) -> None:
    with ModelServer(brokers=3) as server:
        found = observe(script, World(ModelPlace(server)))
    assert found
    assert differences(kept()[script.__name__], found) == []


@pytest.mark.cluster
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_kafka_answers_as_it_did(cluster: Cluster, script: Callable[[World], None]) -> None:
    found = observe(script, World(RealPlace(cluster)))
    if os.environ.get("PYKAFKA4_CONFORMANCE") == "record":
        KEPT.write_text(json.dumps({**kept(), script.__name__: found}, indent=1, ensure_ascii=False) + "\n")
    assert differences(kept()[script.__name__], found) == []
