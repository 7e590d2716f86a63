"""Calls of an admin client on old brokers that lack the request: the error names the first release whose brokers have it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration.local.cluster import LocalCluster
from pykafka4 import ANY, AdminClient, Client, UnsupportedVersion, messages
from pykafka4.messages import ApiVersionsRequest
from tests.compat.old_releases import LONG_S, marks, number, on

pytestmark = marks

REQUESTS = [getattr(messages, name) for name in messages.__all__ if name.endswith("Request")]
KRAFT = " with KRaft"  # old clusters here have a ZooKeeper


@on("0.11.0.3", "2.1.1", "2.8.2", "3.9.1")
def test_requests_exist_from_the_release_on_that_errors_name(cluster: LocalCluster) -> None:
    with Client(bootstrap_servers=cluster.bootstrap) as client:
        answer = client.request(ANY, ApiVersionsRequest(client_software_name="tests", client_software_version="1"), timeout=LONG_S)
    offered = {row.api_key: row for row in answer.api_keys}
    found = {kind.__name__ for kind in REQUESTS if kind.api_key in offered and offered[kind.api_key].max_version >= kind.versions.lo}
    assert found == {kind.__name__ for kind in REQUESTS if KRAFT not in kind.since and release(kind.since) <= number(cluster)}


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@on("0.11.0.3", "2.1.1", "2.8.2")
@pytest.mark.parametrize(
    ("since", "call"),
    [
        ("2.3", lambda admin, topic: admin.alter_configs({("topic", topic): {"retention.ms": 600_000}})),
        ("2.8", lambda admin, topic: admin.describe_producers([(topic, 0)])[topic, 0]),
        ("3.3 with KRaft", lambda admin, topic: admin.describe_quorum()),
    ],
)
def test_a_call_works_or_names_the_release(
    cluster: LocalCluster, topic: str, since: str, call: Callable[[AdminClient, str], object]
) -> None:
    cluster.create_topic(topic, 1)
    with AdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        try:
            found = call(admin, topic)
        except UnsupportedVersion as error:
            found = error
    if KRAFT not in since and release(since) <= number(cluster):
        assert not isinstance(found, UnsupportedVersion)
    else:
        assert isinstance(found, UnsupportedVersion)
        assert f"it needs Kafka {since} or newer: upgrade the broker" in str(found)
