"""One script on the model cluster and on real brokers: what they answer is the same.

`kafka-4.4.json` holds what Kafka 4.4 answered, the other files what older releases answered to a part of it. The model is compared with
them without brokers; the real half compares Kafka with them again, and rewrites them with PYKAFKA4_CONFORMANCE=record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from pykafka4.testing import ModelServer
from tests.conformance.fetch_script import SCRIPTS as FETCH
from tests.conformance.fetch_script import epochs, sessions
from tests.conformance.group_script import SCRIPTS as GROUPS
from tests.conformance.group_script import static
from tests.conformance.migration_script import SCRIPTS as MIGRATIONS
from tests.conformance.produce_script import SCRIPTS as PRODUCE
from tests.conformance.produce_script import leaders, replicas, restarted, unconfirmed
from tests.conformance.transaction_script import SCRIPTS as TRANSACTIONS
from tests.conformance.unlike import UNLIKE
from tests.conformance.worlds import ModelPlace, RealPlace, World

HERE = Path(__file__).parent
NEWEST = "4.4"
OLD = {"0.11.0.3": "0.11", "1.1.1": "1.0", "2.1.1": "2.1", "2.8.2": "2.8", "3.9.1": "3.9"}  # broker: the release that the model plays
SCRIPTS = [*PRODUCE, *FETCH, *GROUPS, *MIGRATIONS, *TRANSACTIONS, unconfirmed, replicas, restarted]
NAMES = [script.__name__ for script in SCRIPTS]
SEVERAL = (leaders, epochs, unconfirmed, replicas, restarted)  # need more than one broker; old releases run alone
STATIC_SINCE = (2, 3)
NOT_OLD = (sessions, *MIGRATIONS, *TRANSACTIONS)  # were not tried with old releases
OLD_RUNS = [
    (version, script)
    for version in OLD
    for script in SCRIPTS
    if script not in (*SEVERAL, *NOT_OLD) and (script is not static or tuple(map(int, version.split(".")[:2])) >= STATIC_SINCE)
]


def kept(release: str = NEWEST) -> dict[str, Any]:
    file = HERE / f"kafka-{release}.json"
    return json.loads(file.read_text()) if file.exists() else {}  # type: ignore[no-any-return]


def rendered(scripts: dict[str, dict[str, Any]]) -> str:
    """JSON with one line for each step."""

    def line(step: str, seen: object) -> str:
        return f"{json.dumps(step, ensure_ascii=False)}: {json.dumps(seen, ensure_ascii=False)}"

    steps = {name: ",\n".join(line(*item) for item in seen.items()) for name, seen in scripts.items()}
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {{\n{lines}\n}}" for name, lines in steps.items()) + "\n}\n"


def compared(script: Callable[[World], None], cluster: Cluster, release: str) -> list[str]:
    """How real brokers differ from what is kept of them."""
    found = observe(script, World(RealPlace(cluster)))
    if os.environ.get("PYKAFKA4_CONFORMANCE") == "record":
        (HERE / f"kafka-{release}.json").write_text(rendered({**kept(release), script.__name__: found}))
    return differences(kept(release)[script.__name__], found)


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
@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_kafka_answers_as_it_did(cluster: Cluster, script: Callable[[World], None]) -> None:
    assert compared(script, cluster, NEWEST) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("version", "script"), OLD_RUNS, ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_the_model_of_an_old_release_answers_as_it_did(script: Callable[[World], None], version: str) -> None:
    with ModelServer(brokers=1, release=OLD[version]) as server:
        found = observe(script, World(ModelPlace(server)))
    told = differences(kept(version)[script.__name__], found)
    expected = UNLIKE.get(version, {}).get(script.__name__, ())
    assert sorted(line.partition(": Kafka ")[0] for line in told) == sorted(expected), told


@pytest.mark.compat
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", OLD)
def test_an_old_release_answers_as_it_did(version: str) -> None:
    with LocalCluster(1, version) as brokers:
        told = {script.__name__: compared(script, brokers, version) for run, script in OLD_RUNS if run == version}
    assert {name: lines for name, lines in told.items() if lines} == {}
