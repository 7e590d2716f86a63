"""Clients go on sending while the agent is restarted: each message is delivered, or the client says that it could not hand it over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration.agent.reading import read_topic
from integration.agent.sending import User, senders, value_of
from integration.cluster import Cluster
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LONG_S = 60.0
USERS, ROUNDS = 2, 3
AT_ONCE = {"default": {"batching": "combined", "linger_ms": 20}}


def count(cluster: Cluster, topic: str) -> int:
    """Records in the topic."""
    return sum(end for _, end in cluster.offsets(topic).values())


def wait_for_more(cluster: Cluster, topic: str) -> None:
    """Until records arrive."""
    before = count(cluster, topic)
    until(lambda: count(cluster, topic) > before + 100, LONG_S, "more records")


@pytest.mark.lengthy
def test_clients_survive_restarts_and_know_what_they_could_not_hand_over(
    cluster: Cluster, topic: str, agent: AgentOf, folder: Path
) -> None:
    cluster.create_topic(topic, 3)
    running = agent(inputs={"unix_stream": {"path": str(folder / "agent.stream")}}, topics=AT_ONCE)
    places = {"datagram": running.datagram, "stream": running.stream}
    with senders(User(kind, places[kind], topic, name=f"{kind}{n}") for kind in places for n in range(USERS)) as users:
        for _ in range(ROUNDS):
            wait_for_more(cluster, topic)
            assert running.end(LONG_S) == 0, running.said()
            assert not running.datagram.exists(), "a clean end removes the socket"
            time.sleep(0.3)  # clients meet an agent that is away
            running.start()
        wait_for_more(cluster, topic)
        told = [user.result(LONG_S) for user in users]
    assert running.end(LONG_S) == 0, running.said()
    expected = []
    for each, name in zip(told, [f"{kind}{n}" for kind in places for n in range(USERS)], strict=True):
        assert each["lost"]["cut"] == 0
        assert sum(each["lost"].values()) == len(each["refused"]) > 0, "some met no agent"
        expected += [value_of(n, name) for n in sorted(set(range(each["sent"])) - set(each["refused"]))]
    found = [row.value or b"" for row in read_topic(cluster, topic)]
    assert sorted(found) == sorted(expected)


def test_the_socket_of_a_killed_agent_is_replaced_and_that_of_a_living_one_is_not(cluster: Cluster, topic: str, agent: AgentOf) -> None:
    cluster.create_topic(topic, 3)
    running = agent(topics=AT_ONCE)
    with senders([User("datagram", running.datagram, topic)]) as (user,):
        wait_for_more(cluster, topic)
        running.kill()
        assert running.datagram.exists()
        running.start()
        wait_for_more(cluster, topic)
        second = agent(name="second", start=False, inputs={"unix_datagram": {"path": str(running.datagram)}})
        second.start(wait=False)
        assert second.ended(LONG_S) != 0
        assert str(running.datagram) in second.said()
        wait_for_more(cluster, topic)
        user.result(LONG_S)
