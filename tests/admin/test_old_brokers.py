"""Calls on brokers that lack what they need: each raises at once, names the request, the release and the way out, and changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4 import AdminClient, OffsetAndMetadata, UnsupportedVersion, messages
from pykafka4.testing import ModelCluster, ModelServer
from tests.admin.outcomes import Mixed, Old, Row, Things, Within, outcomes
from tests.admin.table_of_calls import ROWS

IT = Things("t")
SECONDS = 20.0  # longer than any of these calls may take
WAYS_OUT = r"(upgrade|give|use|leave|omit)"
CASES = [
    pytest.param(row, old, id=f"{row}-{old.api}" + ("" if old.top is None else f"-v{old.top}"))
    for row in ROWS
    if isinstance(row.old, tuple)
    for old in row.old
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model cluster with things that calls would change."""
    with ModelServer(brokers=2) as model:
        for name in (IT.name, IT.old):
            model.create_topic(name, 2)

        def commit(cluster: ModelCluster) -> None:
            for name in (IT.name, IT.old, IT.spare):
                cluster.group(name).commit(IT.tp, OffsetAndMetadata(0))

        model.do(commit)
        yield model


def limit(cluster: ModelCluster, old: Old) -> None:
    """Take a request from the brokers, or its later versions."""
    kind = getattr(messages, f"{old.api}Request")
    if old.top is None:
        cluster.versions.pop(kind.api_key, None)
    else:
        cluster.versions[kind.api_key] = (0, old.top)


def state(cluster: ModelCluster) -> Any:
    groups = {name: dict(group.offsets) for name, group in cluster.groups.items() if group.offsets}
    return {name: len(topic.partitions) for name, topic in cluster.topics.items()}, groups


@pytest.mark.parametrize(("row", "old"), CASES)
def test_a_call_that_a_broker_is_too_old_for_names_request_release_and_way_out(server: ModelServer, row: Row, old: Old) -> None:
    before = server.do(state)
    server.do(lambda cluster: limit(cluster, old))
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin, pytest.raises(UnsupportedVersion, match=WAYS_OUT) as caught:
        (old.call or row.call)(Within(admin, SECONDS), IT)
    assert old.api in str(caught.value)
    assert f"Kafka {old.since}" in str(caught.value)
    assert server.do(state) == before


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row.mixed, Mixed) and isinstance(row.old, tuple)], ids=str)
def test_a_broker_that_is_too_old_for_a_call_does_nothing_for_any_of_its_items(server: ModelServer, row: Row) -> None:
    assert isinstance(row.mixed, Mixed)
    assert isinstance(row.old, tuple)
    before, mixed, old = server.do(state), row.mixed, row.old[0]
    server.do(lambda cluster: limit(cluster, old))
    with AdminClient(bootstrap_servers=server.bootstrap_servers) as admin, contextlib.suppress(UnsupportedVersion):
        done, errors = outcomes(lambda: mixed.call(Within(admin, SECONDS), IT))
        assert errors
        assert not done or mixed.changed is None
    assert server.do(state) == before
